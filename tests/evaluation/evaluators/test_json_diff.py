"""json_diff: JSON values compared leaf by leaf."""

from typing import Any

import pytest

from palaver.errors import InvalidValue
from palaver.evaluation.evaluators import built_in
from palaver.evaluation.network_context import OfflineContext
from tests.evaluation.evaluator_helpers import answer, score_case, verdict


@pytest.mark.parametrize(
    ("actual", "expected", "parameters", "score"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, {}, 1.0),
        ({"a": 1, "b": 3}, {"a": 1, "b": 2}, {}, 0.5),
        ({"a": 1}, {"a": 1, "b": 2}, {}, 0.5),
        ({"a": 1, "c": 3}, {"a": 1}, {}, 0.5),
        ({"a": 1, "c": 3}, {"a": 1}, {"extra": "ignore"}, 1.0),
        ({"a": 1, "c": 3}, {"a": 1, "b": 2}, {}, 1 / 3),
        ({"a": 1, "c": 3}, {"a": 1, "b": 2}, {"extra": "ignore"}, 0.5),
        ({"a": 1.0}, {"a": 1}, {}, 1.0),
        ({"a": True}, {"a": 1}, {}, 0.0),
        ({"a": None}, {"a": None}, {}, 1.0),
        ({}, {"a": None}, {}, 0.0),
        ({}, {}, {}, 1.0),
        ([], [], {}, 1.0),
        ([], {}, {}, 0.0),
        ({"a": {}}, {"a": {}}, {}, 1.0),
        ({"a": []}, {"a": {}}, {}, 0.0),
        ({"a": []}, {"a": [1]}, {}, 0.0),
        ([1, 2, 3], [1, 2, 4], {}, 2 / 3),
        ([1, 2], [2, 1], {}, 0.0),
        ({"a": {"b": [1, {"c": "x"}]}}, {"a": {"b": [1, {"c": "y"}]}}, {}, 0.5),
        ({"A": 1}, {"a": 1}, {}, 0.0),
        ({"A": {"B": 1}}, {"a": {"b": 1}}, {"ignore_key_case": True}, 1.0),
        ({"A": "X"}, {"a": "x"}, {"ignore_key_case": True}, 0.0),
        ({"a": "X"}, {"a": "x"}, {"case_sensitive": False}, 1.0),
        ({"a": 1.05}, {"a": 1}, {"tolerance": 0.1}, 1.0),
        ({"a": 2, "b": "x"}, {"a": 1, "b": "y"}, {"compare": "types"}, 1.0),
        ({"a": "2"}, {"a": 1}, {"compare": "types"}, 0.0),
        ({"a": True}, {"a": 1}, {"compare": "types"}, 0.0),
        ({"a": None}, {"a": 1}, {"compare": "types"}, 0.0),
        ({"a": 1.5}, {"a": 1}, {"compare": "types"}, 1.0),
        ({"a": []}, {"a": {}}, {"compare": "types"}, 0.0),
        ({"A": 2}, {"a": 1}, {"compare": "types"}, 0.0),
        ({"A": 2}, {"a": 1}, {"compare": "types", "ignore_key_case": True}, 1.0),
        (5, 5, {}, 1.0),
        (5, 6, {}, 0.0),
        ({"a.b": 1}, {"a": {"b": 1}}, {}, 0.0),
        ({"a": {"0": 1}}, {"a": [1]}, {}, 0.0),
        ({"a": 1}, '{"a": 1}', {}, 1.0),
    ],
)
async def test_the_score_is_the_share_of_equal_leaves(
    actual: Any, expected: Any, parameters: dict[str, Any], score: float
) -> None:
    one = await score_case("json_diff", answer(actual, is_chat=False, expected=expected), **parameters)

    assert (one.status, one.score, one.passed) == ("scored", score, score >= 0.5)


async def test_json_is_found_in_a_chats_text() -> None:
    assert await verdict("json_diff", answer('So: {"a": 1}', expected={"a": 1})) is True
    assert await verdict("json_diff", answer("none", expected={"a": 1})) is False
    assert await verdict("json_diff", answer("", expected={"a": 1})) is False
    assert (await score_case("json_diff", answer("none", expected={"a": 1}))).reason == "no JSON in the answer"


async def test_a_missing_or_invalid_expected_value_is_not_scored() -> None:
    assert await verdict("json_diff", answer("{}")) == "no_expected"
    assert await verdict("json_diff", answer("{}", expected="prose")) == "expected_no_json"


async def test_the_threshold_can_be_changed() -> None:
    case = answer('{"a": 1, "b": 3}', expected={"a": 1, "b": 2})

    assert [await verdict("json_diff", case, threshold=one) for one in (0.5, 0.51, 1, 0)] == [True, False, False, True]


async def test_differences_are_in_the_reason_and_details() -> None:
    one = await score_case("json_diff", answer('{"a": 1, "b": 3, "d": [1]}', expected={"a": 2, "b": 3, "c": {"x": 1}}))

    assert one.reason == "1 different, 1 missing, 1 extra"
    assert one.details == {"different": ["a"], "missing": ["c.x"], "extra": ["d[0]"]}


@pytest.mark.parametrize(
    "parameters", [{"compare": "keys"}, {"extra": "drop"}, {"threshold": 2}, {"threshold": "x"}, {"ignore_key_case": 1}]
)
def test_invalid_parameters_are_rejected(parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue) as refused:
        built_in()["json_diff"].bind(parameters, OfflineContext())

    assert refused.value.pointer == f"/parameters/{next(iter(parameters))}"
