"""Scores, and the values that evaluators may return.

`read_result` never raises: an unreadable value becomes an error score, and the evaluation continues.
"""

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, Literal, cast

import msgspec

from palaver.core import json
from palaver.core.messages import Usage

ScoreStatus = Literal["scored", "skipped", "error"]

_SCORE_KEYS = frozenset({"passed", "score", "label", "reason", "details"})
_SCORE_AND_NAME_KEYS = _SCORE_KEYS | {"name"}


class Score(msgspec.Struct, frozen=True):
    """The verdict of an evaluator on one case. All fields are optional.

    Example:
        from palaver import Case, Score, evaluator


        @evaluator
        def short(case: Case, limit: int = 100) -> Score:
            length = len(case.text)
            return Score(passed=length <= limit, score=min(1, limit / max(1, length)), reason=f"{length} characters")
    """

    passed: bool | None = None
    """Whether the case passed. By default, decided by the score and the evaluator's threshold."""
    score: float | None = None
    """Any number. By default, 1 for passed and 0 for failed."""
    label: str | None = None
    """A category, such as a tone."""
    reason: str = ""
    """Explanation in one sentence, shown with the score."""
    details: Mapping[str, Any] = {}
    """Additional data to store, as JSON."""
    name: str | None = None
    """Distinguishes several scores of one evaluator."""
    usage: Usage | None = None
    """Token usage of judges and other models that the evaluator called."""
    cost: float | None = None
    """Cost of these models, in US dollars."""


class ScoreRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A score for storage. The reason of a skip or an error begins with its code."""

    evaluator: str
    status: ScoreStatus
    passed: bool | None
    score: float | None
    label: str | None
    reason: str
    details: Mapping[str, Any]
    seconds: float
    usage: Usage | None = None
    cost: float | None = None


class Skip(Exception):
    """Raise this in an evaluator if there is nothing to score. The case is left out of the evaluator's statistics.

    Args:
        code: Machine-readable code, such as `no_expected`.
        message: Human-readable explanation.

    Example:
        from palaver import Case, Skip, evaluator


        @evaluator
        def cites_sources(case: Case) -> bool:
            if "refusal" in case.notes:
                raise Skip("refusal", "a refusal needs no sources")
            return "http" in case.text
    """

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code


class ScoringError(Exception):
    """Raise this if a case cannot be scored: `raise ScoringError("needs_text", "…")`."""

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code


class EvaluationAborted(Exception):
    """Raised when this process makes no more calls: the case has no result, and another process may run it."""


class _InvalidReturn(Exception):
    """Raised for a returned value that is not a score."""


def skipped_score(evaluator: str, reason: str, *, seconds: float = 0.0) -> ScoreRecord:
    """Make a skipped score; the reason begins with a code."""
    return _record_without_score(evaluator, "skipped", reason, seconds)


def error_score(evaluator: str, reason: str, *, seconds: float = 0.0) -> ScoreRecord:
    """Make an error score; the reason begins with a code."""
    return _record_without_score(evaluator, "error", reason, seconds)


def read_result(value: Any, evaluator_name: str, threshold: float | None = None) -> list[ScoreRecord]:
    """Convert the returned value of an evaluator to records, one for each score."""
    try:
        return _read_value(value, evaluator_name, threshold)
    except _InvalidReturn as error:
        return [error_score(evaluator_name, f"bad_return: {error}")]


def _read_value(value: Any, name: str, threshold: float | None) -> list[ScoreRecord]:
    value = _unwrap_numpy(value)
    if value is None:
        return [skipped_score(name, "nothing: the evaluator returned None")]
    if isinstance(value, str):
        return [_record(name, Score(label=str(value)))]
    if isinstance(value, bool | Real | Decimal):
        return [
            _record(
                name, Score(passed=value) if isinstance(value, bool) else Score(score=_finite_number(value)), threshold
            )
        ]
    if isinstance(value, Score):
        return [_record(name, value, threshold)]
    if isinstance(value, Mapping):
        mapping = cast("Mapping[Any, Any]", value)
        if mapping.keys() & _SCORE_KEYS and mapping.keys() <= _SCORE_AND_NAME_KEYS:
            return [_record(name, _score_from_mapping(mapping), threshold)]
        return _read_mapping(name, mapping)
    if isinstance(value, list | tuple):
        return _read_list(name, cast("Sequence[Any]", value), threshold)
    raise _InvalidReturn(
        f"{type(value).__name__} is not a valid score. Return a bool, a number, a label, a Score or a mapping"
    )


def _read_list(name: str, values: Sequence[Any], threshold: float | None) -> list[ScoreRecord]:
    scores = [
        _score_from_mapping(cast("Mapping[Any, Any]", item)) if isinstance(item, Mapping) else item for item in values
    ]
    if not scores:
        return [skipped_score(name, "nothing: the evaluator returned an empty list")]
    if not all(isinstance(score, Score) and score.name for score in scores):
        raise _InvalidReturn("every item of a list must be a Score with a name")
    names = [cast("Score", score).name for score in scores]
    if len(set(names)) < len(names):
        raise _InvalidReturn("the scores in a list must have different names")
    return [_record(name, cast("Score", score), threshold) for score in scores]


def _read_mapping(name: str, mapping: Mapping[Any, Any]) -> list[ScoreRecord]:
    """Read a mapping with the evaluator's own keys: store it as details; its numbers and booleans become scores."""
    all_details = _record(name, Score(details=mapping))
    values = {str(key): _unwrap_numpy(value) for key, value in mapping.items()}
    return [
        all_details,
        *(
            record
            for key, value in values.items()
            if isinstance(value, bool | Real | Decimal)
            for record in read_result(value, f"{name}.{key}")
        ),
    ]


def _score_from_mapping(mapping: Mapping[Any, Any]) -> Score:
    if unknown := sorted(str(key) for key in mapping.keys() - _SCORE_AND_NAME_KEYS):
        raise _InvalidReturn(f"unknown score fields: {', '.join(unknown)}")
    return Score(**{key: value for key, value in mapping.items() if value is not None})


def _record(name: str, score: Score, threshold: float | None = None) -> ScoreRecord:
    passed, number = _unwrap_numpy(score.passed), _unwrap_numpy(score.score)
    if passed is not None and not isinstance(passed, bool):
        raise _InvalidReturn(f"passed must be a boolean, not {type(passed).__name__}")
    if number is not None:
        if isinstance(number, bool) or not isinstance(number, Real | Decimal):
            raise _InvalidReturn(f"score must be a number, not {type(number).__name__}")
        number = _finite_number(number)
    if not isinstance(cast("Any", score.label), str | None) or not isinstance(cast("Any", score.reason), str):
        raise _InvalidReturn("label and reason must be strings")
    if passed is None and number is not None and threshold is not None:
        passed = number >= threshold
    if number is None and passed is not None:
        number = float(passed)
    return ScoreRecord(
        evaluator=f"{name}.{score.name}" if score.name else name,
        status="scored",
        passed=passed,
        score=number,
        label=score.label if score.label is None else json.replace_surrogates(score.label),
        reason=json.replace_surrogates(score.reason),
        details=_plain_details(score.details),
        seconds=0.0,
        usage=score.usage,
        cost=score.cost,
    )


def _plain_details(details: Any) -> dict[str, Any]:
    if not isinstance(details, Mapping):
        raise _InvalidReturn(f"details must be a mapping, not {type(details).__name__}")
    try:
        return json.to_builtins(dict(cast("Mapping[Any, Any]", details)))
    except json.NotJson as error:
        raise _InvalidReturn(f"invalid details: {error}") from None


def _finite_number(value: Any) -> float:
    try:
        number = float(value)
    except (OverflowError, ValueError):
        raise _InvalidReturn("the score is too large") from None
    if not math.isfinite(number):
        raise _InvalidReturn(f"the score must be finite, not {number}")
    return number


def _unwrap_numpy(value: Any) -> Any:
    """Convert NumPy booleans and numbers to Python's, without importing NumPy."""
    is_numpy_scalar = type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0
    return value.item() if is_numpy_scalar and hasattr(value, "item") else value


def _record_without_score(evaluator: str, status: ScoreStatus, reason: str, seconds: float) -> ScoreRecord:
    return ScoreRecord(
        evaluator=evaluator,
        status=status,
        passed=None,
        score=None,
        label=None,
        reason=json.replace_surrogates(reason),
        details={},
        seconds=seconds,
    )
