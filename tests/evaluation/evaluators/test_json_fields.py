"""json_field_match and json_multi_field_match: fields of the JSON in an answer."""

from typing import Any

import pytest

from palaver.errors import InvalidValue
from palaver.evaluation.evaluators import built_in
from palaver.evaluation.network_context import OfflineContext
from tests.evaluation.evaluator_helpers import answer, score_case, verdict

CITY_JSON = '{"city": "Oslo", "n": 2, "none": null, "list": [{"x": true}], "a.b": "dotted"}'


@pytest.mark.parametrize(
    ("output", "path", "equals", "passed"),
    [
        (CITY_JSON, "city", "Oslo", True),
        (CITY_JSON, "city", "oslo", False),
        (CITY_JSON, "n", 2.0, True),
        (CITY_JSON, "n", "2", False),
        (CITY_JSON, "none", None, True),
        (CITY_JSON, "gone", None, False),
        (CITY_JSON, "list[0].x", True, True),
        (CITY_JSON, "list[0].x", 1, False),
        (CITY_JSON, "$.list[0]", {"x": True}, True),
        (CITY_JSON, "/list/0/x", True, True),
        (CITY_JSON, '["a.b"]', "dotted", True),
        (CITY_JSON, "a.b", "dotted", False),
        (CITY_JSON, "list[5]", None, False),
        (CITY_JSON, "city.x", "Oslo", False),
        (f"Here you are:\n```json\n{CITY_JSON}\n```", "city", "Oslo", True),
        (f"Here you are: {CITY_JSON} - good?", "city", "Oslo", True),
        ("[3, 4]", "[1]", 4, True),
        ("no JSON", "city", "Oslo", False),
        ("", "city", "Oslo", False),
        ({"city": "Oslo"}, "city", "Oslo", True),
    ],
)
async def test_one_field_is_compared(output: Any, path: str, equals: Any, passed: bool) -> None:
    by_parameter = await score_case("json_field_match", answer(output), path=path, equals=equals)
    by_row = await score_case("json_field_match", answer(output, expected=equals), path=path)

    assert (by_parameter.status, by_parameter.passed, by_parameter.score) == ("scored", passed, float(passed))
    assert (by_row.status, by_row.passed, by_row.score) == ("scored", passed, float(passed))


async def test_a_field_of_a_workflows_value_or_of_tool_call_arguments_is_compared() -> None:
    call = {"id": "a", "function": {"name": "f", "arguments": '{"q": "x"}'}}
    chat = answer({"role": "assistant", "content": None, "tool_calls": [call]})

    assert await verdict("json_field_match", answer({"a": 1}, is_chat=False), path="a", equals=1) is True
    assert await verdict("json_field_match", answer('{"a": 1}', is_chat=False), path="a", equals=1) is True
    assert await verdict("json_field_match", answer(5, is_chat=False), path="a", equals=1) is False
    assert await verdict("json_field_match", chat, path="q", equals="x", target="tool_calls[0].parsed") is True


async def test_tolerance_case_folding_and_expected_column_apply_to_a_field() -> None:
    case = answer('{"n": 1.04, "w": "X"}', row={"want": "x"})

    assert await verdict("json_field_match", case, path="n", equals=1, tolerance=0.05) is True
    assert await verdict("json_field_match", case, path="n", equals=1) is False
    assert await verdict("json_field_match", case, path="w", expected_from="want", case_sensitive=False) is True
    assert await verdict("json_field_match", case, path="w") == "no_expected"


@pytest.mark.parametrize(
    ("key", "parameters", "pointer"),
    [
        ("json_field_match", {}, "/parameters/path"),
        ("json_field_match", {"path": ""}, "/parameters/path"),
        ("json_field_match", {"path": "a..b"}, "/parameters/path"),
        ("json_field_match", {"path": "a", "tolerance": -1}, "/parameters/tolerance"),
        ("json_multi_field_match", {"fields": []}, "/parameters/fields"),
        ("json_multi_field_match", {"fields": ["a", "b["]}, "/parameters/fields/1"),
        ("json_multi_field_match", {"fields": "a"}, "/parameters/fields"),
    ],
)
def test_invalid_parameters_are_rejected(key: str, parameters: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        built_in()[key].bind(parameters, OfflineContext())

    assert refused.value.pointer == pointer


@pytest.mark.parametrize(
    ("output", "expected", "fields", "score", "details"),
    [
        ('{"a": 1, "b": 2}', {"a": 1, "b": 2}, None, 1.0, {"a": True, "b": True}),
        ('{"a": 1, "b": 3}', {"a": 1, "b": 2}, None, 0.5, {"a": True, "b": False}),
        ('{"a": 1}', {"a": 1, "b": 2}, None, 0.5, {"a": True, "b": False}),
        ('{"a": 1, "more": 5}', {"a": 1}, None, 1.0, {"a": True}),
        ('{"a": {"x": 1, "y": [1, 2]}}', {"a": {"x": 1, "y": [1, 3]}}, None, 2 / 3, None),
        ('{"a": null}', {"a": None}, None, 1.0, {"a": True}),
        ("{}", {"a": None}, None, 0.0, {"a": False}),
        ('{"a": {}}', {"a": {}}, None, 1.0, {"a": True}),
        ('{"a.b": 1}', {"a.b": 1}, None, 1.0, {'["a.b"]': True}),
        ('{"a": {"b": 1}}', {"a": {"b": 1}, "c": 2}, ["a.b"], 1.0, {"a.b": True}),
        ('{"a": {"b": 1}}', {"a": {"b": 1}, "c": 2}, ["a.b", "c"], 0.5, {"a.b": True, "c": False}),
        ('{"a": 1}', {"a": 1}, ["a", "absent"], 1.0, {"a": True}),
        ('{"a": 1, "extra": 2}', {"a": 1}, ["a", "extra"], 1.0, {"a": True}),
        ('{"a": {"b": [1]}}', {"a": {"b": [1]}}, ["$.a", "/a/b/0"], 1.0, {"$.a": True, "/a/b/0": True}),
        ("no JSON", {"a": 1, "b": 2}, None, 0.0, {"a": False, "b": False}),
        ("", {"a": 1}, None, 0.0, {"a": False}),
        ("[1, 2]", [1, 3], None, 0.5, {"[0]": True, "[1]": False}),
        ('{"a": 1}', '{"a": 1}', None, 1.0, {"a": True}),
        ("5", 5, None, 1.0, {"$": True}),
    ],
)
async def test_the_score_is_the_share_of_matching_fields(
    output: str, expected: Any, fields: list[str] | None, score: float, details: dict[str, bool] | None
) -> None:
    one = await score_case("json_multi_field_match", answer(output, expected=expected), fields=fields)

    assert (one.status, one.passed, one.score) == ("scored", score == 1, score)
    assert details is None or one.details == details


async def test_fields_without_an_expected_value_are_not_scored() -> None:
    case = answer('{"a": 1}', expected={"b": 1})

    assert await verdict("json_multi_field_match", case, fields=["a", "x.y"]) == "no_fields"
    assert await verdict("json_multi_field_match", answer("{}", expected="no JSON")) == "expected_no_json"
    assert await verdict("json_multi_field_match", answer("{}")) == "no_expected"


async def test_a_threshold_allows_some_fields_to_differ() -> None:
    case = answer('{"a": 1}', expected={"a": 1, "b": 2})

    assert await verdict("json_multi_field_match", case) is False
    assert await verdict("json_multi_field_match", case, threshold=0.5) is True
    assert (await score_case("json_multi_field_match", case)).reason == "different: b"
