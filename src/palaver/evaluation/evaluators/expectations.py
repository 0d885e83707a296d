"""turn_expectations: whether each turn of a script meets the script's `expect`.

Each key of `expect` is one check with a reason for its failure. A check that cannot be decided (no judge, a pattern
that times out) is an error, never a pass.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import UNSET, Meta

from palaver.core import json
from palaver.core.json import json_equal
from palaver.core.messages import Data
from palaver.errors import InvalidValue
from palaver.evaluation import json_values
from palaver.evaluation.case import Case, Turn
from palaver.evaluation.context import EvaluatorContext, offload, record_spending
from palaver.evaluation.evaluator import evaluator
from palaver.evaluation.evaluators.expected_tool_calls import (
    ExpectedCall,
    SequenceMode,
    as_name_list,
    compare_calls,
    read_expected_calls,
)
from palaver.evaluation.evaluators.refusal import find_refusal
from palaver.evaluation.json_schema import PATTERN_TIMEOUT_S
from palaver.evaluation.judge_prompt import PromptMarks
from palaver.evaluation.score import Score, ScoringError, Skip
from palaver.testsets.scripts import check_expect

_MAX_SHOWN_LENGTH: Final = 80


def pattern_matches(pattern: str, text: str) -> bool:
    """Whether the pattern occurs in the text. Raises ScoringError regex_timeout."""
    try:
        return _compile_pattern(pattern).search(text, timeout=PATTERN_TIMEOUT_S, concurrent=True) is not None
    except TimeoutError:
        raise ScoringError(
            "regex_timeout", f"matching {_shorten(pattern)} took longer than {PATTERN_TIMEOUT_S} s"
        ) from None


@lru_cache(maxsize=256)
def _compile_pattern(pattern: str) -> Any:
    import regex

    return regex.compile(pattern)


def _shorten(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN_LENGTH else f"{text[:_MAX_SHOWN_LENGTH]}…")


_TEXT_CHECKS: Final[Mapping[str, tuple[Callable[[str, str], bool], str]]] = {
    "equals": (lambda text, expected: text == expected, "is not equal to"),
    "contains": (lambda text, part: part in text, "does not contain"),
    "not_contains": (lambda text, part: part not in text, "contains"),
    "matches": (lambda text, pattern: pattern_matches(pattern, text), "does not match"),
}
"""Checks that each of the expected strings must pass, and the words for one that does not."""


def _text_fault(text: str, name: str, value: Any) -> str | None:
    if name == "any_of":
        return (
            None
            if any(part in text for part in as_name_list(value))
            else "the text contains none of the expected strings"
        )
    if name == "similar":
        from rapidfuzz import fuzz

        ratio, minimum = fuzz.ratio(text, value["to"]) / 100, value.get("min", 0.5)
        return None if ratio >= minimum else f"similarity {ratio:.2f}, expected at least {minimum}"
    passes, words = _TEXT_CHECKS[name]
    failed = next((expected for expected in as_name_list(value) if not passes(text, expected)), None)
    return None if failed is None else f"the text {words} {_shorten(failed)}"


DEFAULT_JUDGE: Final = "default"
"""The judge of the server's settings, used if none is named."""
_CHECK_SCHEMA: Final = {
    "type": "object",
    "properties": {"passed": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["passed"],
}


class ExpectationCheck(msgspec.Struct, frozen=True):
    """The result of one expectation."""

    name: str
    passed: bool
    reason: str = ""
    error: str | None = None
    """The error code if the check could not be decided."""


Expect = Mapping[str, Any]


async def check_turn(expect: Any, turn: Turn, context: EvaluatorContext) -> list[ExpectationCheck]:
    """Check each expectation. A turn that was not reached meets none."""
    try:
        expected = check_expect(expect, "/expect")
    except InvalidValue as error:  # Test sets were validated at commit; a manual case was not.
        reason = f"invalid_expect: {error.message}"
        return [ExpectationCheck("expect", passed=False, reason=reason, error="invalid_expect")]
    names = [name for name in expected if name != "order"]  # `order` is an option of `tools`.
    if not turn.reached:
        return [ExpectationCheck(name, passed=False, reason="not_reached") for name in names or ("reached",)]
    return [
        await _run_judge_check(expected[name], turn, context)
        if name == "judge"
        else await offload(context, _run_check, name, expected, turn)  # A pattern may be slow.
        for name in names
    ]


def _run_check(name: str, expect: Expect, turn: Turn) -> ExpectationCheck:
    try:
        fault = _turn_fault(name, expect, turn)
    except ScoringError as error:
        return ExpectationCheck(name, passed=False, reason=str(error), error=error.code)
    return ExpectationCheck(name, passed=fault is None, reason=fault or "")


def _turn_fault(name: str, expect: Expect, turn: Turn) -> str | None:
    """Describe how the turn fails one expectation; None if it meets it."""
    value = expect[name]
    match name:
        case "text":
            expected: Expect = {"contains": value} if isinstance(value, str) else value
            faults = (_text_fault(turn.text, check, wanted) for check, wanted in expected.items())
            return next((fault for fault in faults if fault is not None), None)
        case "tools":
            return _tools_fault(value, turn, expect)
        case "json":
            return _json_fault(value, turn)
        case "data":
            return _data_fault(value, turn)
        case "finish":
            return None if turn.finish == value else f"the finish reason is {turn.finish!r}"
        case "refusal":
            reason = find_refusal(turn.messages, turn.text, turn.finish)
            return None if (reason is not None) == value else reason or "not a refusal"
        case "max_seconds":
            return None if turn.latency <= value else f"took {turn.latency:.3g} s"
        case "max_tokens":
            if turn.usage is None:
                return "the token usage is unknown"
            return None if turn.usage.output_tokens <= value else f"used {turn.usage.output_tokens} output tokens"
        case _:
            raise KeyError(name)


def _tools_fault(value: Any, turn: Turn, expect: Expect) -> str | None:
    calls = turn.tool_calls
    names = ", ".join(call.name for call in calls)
    if value == "none":
        return f"called {names}" if calls else None
    if value == "any":
        return None if calls else "no tool was called"
    expected = [_default_match(call) for call in read_expected_calls(value) or ()]
    mode = cast("SequenceMode", expect.get("order", "strict"))
    if compare_calls(calls, expected, mode=mode, match="ignore").passed:
        return None
    wanted = ", ".join(call.name for call in expected)
    return f"called {names or 'no tools'}; expected {wanted or 'none'} ({mode})"


def _default_match(call: ExpectedCall) -> ExpectedCall:
    """Let expected arguments match as a subset by default."""
    return msgspec.structs.replace(call, match=call.match or ("ignore" if call.arguments is UNSET else "subset"))


def _json_fault(value: Any, turn: Turn) -> str | None:
    document = _turn_json(turn)
    if document is UNSET:
        return "no JSON in the answer"
    for path, expected in cast("Mapping[str, Any]", value).items():
        try:
            actual = json_values.value_at(document, path)
        except ValueError as error:
            raise ScoringError("invalid_path", str(error)) from None
        if actual is UNSET:
            return f"{path} is missing"
        if not json_equal(actual, expected):
            return f"{path} differs from the expected value"
    return None


def _turn_json(turn: Turn) -> Any:
    if "data_only" in turn.notes:
        return _turn_data(turn)[-1].value
    return json_values.find_json(turn.text) if turn.value is UNSET or isinstance(turn.value, str) else turn.value


def _data_fault(value: Any, turn: Turn) -> str | None:
    name = value["name"]
    values = [part.value for part in _turn_data(turn) if part.name == name]
    if not values:
        return f"no data named {name!r}"
    expected = value.get("value", UNSET)
    return (
        None
        if expected is UNSET or any(json_equal(data, expected) for data in values)
        else f"data {name!r} differs from the expected value"
    )


def _turn_data(turn: Turn) -> list[Data]:
    return [part for message in turn.messages for part in message.parts if isinstance(part, Data)]


async def _run_judge_check(criterion: str, turn: Turn, context: EvaluatorContext) -> ExpectationCheck:
    if (verdict := turn.verdict) is not None:
        record_spending(verdict.usage, verdict.cost)
        return ExpectationCheck("judge", passed=verdict.passed, reason=verdict.reason)
    try:
        verdict = await context.judge(DEFAULT_JUDGE, _judge_prompt(criterion, turn), schema=_CHECK_SCHEMA)
    except ScoringError as error:
        return ExpectationCheck("judge", passed=False, reason=str(error), error=error.code)
    match verdict:
        case {"passed": bool(passed), **fields}:
            reason = fields.get("reason")
            return ExpectationCheck("judge", passed=passed, reason=reason if isinstance(reason, str) else "")
        case _:
            reason = "bad_verdict: the verdict does not match the schema"
            return ExpectationCheck("judge", passed=False, reason=reason, error="bad_verdict")


def _judge_prompt(criterion: str, turn: Turn) -> str:
    marks = PromptMarks()
    question = json.replace_surrogates(turn.user.text) if turn.user is not None else ""
    return (
        f"{marks.rule}\n\nDoes the answer to the question meet this criterion?\n\n{criterion}\n\n"
        f"{marks.wrap('question', question)}\n\n{marks.wrap('answer', json.replace_surrogates(turn.text))}"
    )


@evaluator
async def turn_expectations(
    case: Case,
    context: EvaluatorContext,
    aggregate: Annotated[Literal["mean", "min"], Meta(description="How to combine the turns' scores.")] = "mean",
) -> Score:
    """All checks of all turns pass. A turn's score is its share of passed checks; `aggregate` combines these.

    Turns without expectations do not count, unless the script stopped before them.
    """
    results = [await check_turn(turn.expect, turn, context) for turn in case.turns]
    if not any(results):
        raise Skip("no_expectations", "no turn has expectations")
    for number, checks in enumerate(results, 1):
        for check in checks:
            if check.error is not None:
                raise ScoringError(
                    check.error, f"turn {number}, {check.name}: {check.reason.removeprefix(f'{check.error}: ')}"
                )
    shares = [sum(check.passed for check in checks) / len(checks) for checks in results if checks]
    failed = [(number, check) for number, checks in enumerate(results, 1) for check in checks if not check.passed]
    return Score(
        passed=not failed,
        score=min(shares) if aggregate == "min" else sum(shares) / len(shares),
        reason="; ".join(f"turn {number}, {check.name}: {check.reason}" for number, check in failed[:5]),
        details={"turns": [_describe_checks(checks) for checks in results]},
    )


def _describe_checks(checks: list[ExpectationCheck]) -> dict[str, Any]:
    return {
        "score": sum(check.passed for check in checks) / len(checks) if checks else None,
        "checks": [{"name": check.name, "passed": check.passed, "reason": check.reason} for check in checks],
    }
