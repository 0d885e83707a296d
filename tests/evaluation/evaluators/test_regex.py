"""regex: matches, and a time limit of 100 ms."""

from typing import Any

import pytest

from palaver.errors import InvalidValue
from palaver.evaluation.evaluators import built_in
from palaver.evaluation.network_context import OfflineContext
from tests.evaluation.evaluator_helpers import answer, score_case, verdict


@pytest.mark.parametrize(
    ("text", "parameters", "passed"),
    [
        ("Answer: 42", {"pattern": r"\d+"}, True),
        ("Answer", {"pattern": r"\d+"}, False),
        ("Answer", {"pattern": r"\d+", "should_match": False}, True),
        ("42", {"pattern": r"\d+", "should_match": False}, False),
        ("Answer: 42", {"pattern": r"\d+", "full": True}, False),
        ("42", {"pattern": r"\d+", "full": True}, True),
        ("42\n", {"pattern": r"\d+", "full": True}, False),
        ("ANSWER", {"pattern": "answer"}, False),
        ("ANSWER", {"pattern": "answer", "flags": "i"}, True),
        ("ANSWER", {"pattern": "answer", "case_sensitive": False}, True),
        ("ANSWER", {"pattern": "answer", "case_sensitive": False, "flags": "i"}, True),
        ("ANSWER", {"pattern": "(?i)answer"}, True),
        ("a\nb", {"pattern": "^b$"}, False),
        ("a\nb", {"pattern": "^b$", "flags": "m"}, True),
        ("a\nb", {"pattern": "a.b"}, False),
        ("a\nb", {"pattern": "a.b", "flags": "s"}, True),
        ("ab", {"pattern": "a b # both", "flags": "x"}, True),
        ("A\nB", {"pattern": "a . b", "flags": "isx"}, True),
        ("", {"pattern": "^$"}, True),
        ("", {"pattern": "", "full": True}, True),
        ("x", {"pattern": "", "full": True}, False),
        ("", {"pattern": "x"}, False),
        ("héllo", {"pattern": r"\w{5}"}, True),
    ],
)
async def test_a_pattern_is_matched_against_the_text(text: str, parameters: dict[str, Any], passed: bool) -> None:
    one = await score_case("regex", answer(text), **parameters)

    assert (one.status, one.passed, one.score) == ("scored", passed, float(passed))


@pytest.mark.parametrize(
    ("parameters", "pointer"),
    [
        ({}, "/parameters/pattern"),
        ({"pattern": "("}, "/parameters/pattern"),
        ({"pattern": "[a"}, "/parameters/pattern"),
        ({"pattern": "(?P<a>x)(?P<a"}, "/parameters/pattern"),
        ({"pattern": 5}, "/parameters/pattern"),
        ({"pattern": "x" * 10_001}, "/parameters/pattern"),
        ({"pattern": "x", "flags": "q"}, "/parameters/flags"),
        ({"pattern": "x", "flags": "I"}, "/parameters/flags"),
        ({"pattern": "x", "should_match": "yes"}, "/parameters/should_match"),
    ],
)
def test_invalid_parameters_are_rejected_when_binding(parameters: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        built_in()["regex"].bind(parameters, OfflineContext())

    assert refused.value.pointer == pointer


async def test_a_pattern_with_catastrophic_backtracking_times_out() -> None:
    one = await score_case("regex", answer("a" * 300 + "-"), pattern=r"(\w+)(\w+)(\w+)(\w+)(\w+)\1\2\3-.")

    assert (one.status, one.reason) == ("error", "regex_timeout: matching the pattern took longer than 0.1 s")
    assert one.seconds < 5


async def test_the_reason_and_details_say_where_it_matched() -> None:
    one = await score_case("regex", answer("Answer: 42"), pattern=r"\d+")

    assert (one.reason, one.details) == ("the pattern matches at character 9", {"start": 8, "end": 10})


async def test_a_workflows_value_needs_a_target_or_stringify() -> None:
    case = answer({"a": "42"}, is_chat=False)

    assert await verdict("regex", case, pattern="42") == "needs_text"
    assert await verdict("regex", case, pattern="42", target="value.a") is True
    assert await verdict("regex", case, pattern="^{", stringify=True) is True
