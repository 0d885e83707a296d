"""The evaluators starts_with, ends_with, contains, contains_any and contains_all."""

from typing import Any

import pytest

from palaver.errors import InvalidValue
from palaver.evaluation.evaluators import built_in
from palaver.evaluation.network_context import OfflineContext
from tests.evaluation.evaluator_helpers import answer, score_case, verdict

PARAMETER_NAMES = {"starts_with": "prefix", "ends_with": "suffix", "contains": "substring"}


@pytest.mark.parametrize(
    ("key", "text", "needle", "parameters", "passed"),
    [
        ("starts_with", "Hello you", "Hello", {}, True),
        ("starts_with", "Hello you", "you", {}, False),
        ("starts_with", " Hello", "Hello", {}, False),
        ("starts_with", "HELLO", "hello", {}, False),
        ("starts_with", "HELLO", "hello", {"case_sensitive": False}, True),
        ("starts_with", "", "x", {}, False),
        ("starts_with", "Hello", "Hello you", {}, False),
        ("ends_with", "Hello you", "you", {}, True),
        ("ends_with", "Hello you", "Hello", {}, False),
        ("ends_with", "Hello you\n", "you", {}, False),
        ("ends_with", "YOU", "you", {"case_sensitive": False}, True),
        ("ends_with", "", "x", {}, False),
        ("contains", "Hello you", "lo y", {}, True),
        ("contains", "Hello you", "LO", {}, False),
        ("contains", "Hello you", "LO", {"case_sensitive": False}, True),
        ("contains", "Hello you", ".", {}, False),
        ("contains", "a*b", "*", {}, True),
        ("contains", "", "x", {}, False),
        ("contains", "straße", "STRASSE", {"case_sensitive": False}, True),
    ],
)
async def test_a_substring_is_at_the_start_or_at_the_end_or_anywhere(
    key: str, text: str, needle: str, parameters: dict[str, Any], passed: bool
) -> None:
    by_parameter = await score_case(key, answer(text), **{PARAMETER_NAMES[key]: needle}, **parameters)
    by_row = await score_case(key, answer(text, expected=needle), **parameters)

    assert (by_parameter.passed, by_parameter.score) == (passed, float(passed))
    assert (by_row.passed, by_row.score) == (passed, float(passed))


@pytest.mark.parametrize(("key", "name"), PARAMETER_NAMES.items())
async def test_an_empty_substring_is_rejected_and_an_empty_expected_one_is_an_error(key: str, name: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        built_in()[key].bind({name: ""}, OfflineContext())

    assert refused.value.pointer == f"/parameters/{name}"
    assert await verdict(key, answer("x", expected="")) == "empty_needle"
    assert await verdict(key, answer("x")) == "no_expected"
    assert await verdict(key, answer("x", expected={"a": 5})) == "needs_text"
    assert await verdict(key, answer('{"a":5}', expected={"a": 5}), stringify=True) is True
    assert await verdict(key, answer("x", expected={"role": "assistant", "content": "x"})) is True
    assert await verdict(key, answer("x", row={"other": "x"}), expected_from="other") is True


@pytest.mark.parametrize("key", PARAMETER_NAMES)
async def test_the_reason_includes_the_note_about_missing_text(key: str) -> None:
    calls = {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "function": {"name": "f"}}]}

    one = await score_case(key, answer(calls, expected="x"))

    assert (one.passed, one.score) == (False, 0.0)
    assert one.reason.endswith("; no_text")


@pytest.mark.parametrize(
    ("substrings", "share"),
    [
        (["Oslo", "fjord"], 1.0),
        (["Oslo", "Bergen"], 0.5),
        (["Bergen"], 0.0),
        ("Oslo, fjord", 1.0),
        ("Oslo,Bergen,", 0.5),
        ('["Oslo", "Bergen", "by the"]', 2 / 3),
        ("Oslo", 1.0),
        ('["a, b"]', 0.0),
        ("[Oslo", 0.0),
        ("[1, 2]", 0.0),
        (["Oslo", "Oslo", "Bergen"], 0.5),
    ],
)
async def test_the_score_is_the_share_of_substrings_in_the_text(substrings: Any, share: float) -> None:
    case, by_row = answer("Oslo lies by the fjord"), answer("Oslo lies by the fjord", expected=substrings)

    every = [await score_case("contains_all", case, substrings=substrings), await score_case("contains_all", by_row)]
    some = [await score_case("contains_any", case, substrings=substrings), await score_case("contains_any", by_row)]

    assert [(one.passed, one.score) for one in every] == [(share == 1, share)] * 2
    assert [(one.passed, one.score) for one in some] == [(share > 0, share)] * 2


@pytest.mark.parametrize("key", ["contains_any", "contains_all"])
@pytest.mark.parametrize("substrings", ["", [], [""], ["a", ""], ",", " , ", "[]", '[""]', [1], 5, {"a": 1}], ids=repr)
def test_an_empty_or_invalid_list_of_substrings_is_rejected(key: str, substrings: Any) -> None:
    with pytest.raises(InvalidValue) as refused:
        built_in()[key].bind({"substrings": substrings}, OfflineContext())

    assert (refused.value.pointer or "").startswith("/parameters/substrings")


@pytest.mark.parametrize("key", ["contains", "contains_any", "contains_all"])
@pytest.mark.parametrize(
    ("output", "expected", "passed"),
    [
        ("The answer is 42.", 42, True),
        ("The answer is 42.", 43, False),
        ("It is 0.5 or so", 0.5, True),
        ("It is 1.0", 1.0, True),
        ("That is true.", True, True),
        ("That is True.", True, False),
        ("null and void", None, True),
    ],
)
async def test_numbers_booleans_and_null_are_looked_for_as_text(
    key: str, output: str, expected: Any, passed: bool
) -> None:
    assert await verdict(key, answer(output, expected=expected)) is passed


@pytest.mark.parametrize("key", ["contains_any", "contains_all"])
async def test_an_empty_or_invalid_expected_list_is_not_scored(key: str) -> None:
    assert await verdict(key, answer("x")) == "no_expected"
    assert await verdict(key, answer("x", expected="")) == "empty_needle"
    assert await verdict(key, answer("x", expected=[])) == "empty_needle"
    assert await verdict(key, answer("x", expected=["x", ""])) == "empty_needle"
    assert await verdict(key, answer("x", expected=[{}])) == "needs_text"
    assert await verdict(key, answer("1 is true", expected=[1, True])) is True
    assert await verdict(key, answer("x", expected={"role": "assistant", "content": "x, x"})) is True


async def test_case_sensitivity_and_threshold_are_applied() -> None:
    case = answer("OSLO")

    assert await verdict("contains_any", case, substrings=["oslo"]) is False
    assert await verdict("contains_any", case, substrings=["oslo"], case_sensitive=False) is True
    assert await verdict("contains_any", case, substrings=["OSLO", "x", "y"], threshold=0.5) is False
    assert await verdict("contains_all", case, substrings=["OSLO", "x"], threshold=0.5) is True
    assert await verdict("contains_all", case, substrings=["OSLO"], threshold=1) is True


async def test_missing_substrings_are_in_the_reason_and_details() -> None:
    one = await score_case("contains_all", answer("a"), substrings=["a", "b", "c"])

    assert (one.reason, one.details) == ("not found: 'b', 'c'", {"found": ["a"], "missing": ["b", "c"]})
