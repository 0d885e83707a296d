"""Verdicts: what judges said, one or several times, as one score.

Several verdicts are put together field by field: numbers by their mean, yes or no by the majority (a draw is a no),
anything else by what was said most often.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, cast

from msgspec import Meta

from palaver.core import jsons
from palaver.errors import InvalidValue
from palaver.evaluation.scoring.scores import Score

JudgeName = Annotated[str, Meta(min_length=1, max_length=200, description="A workflow, or provider/model.")]
Prompt = Annotated[str, Meta(min_length=1, max_length=100_000, description="The question, with slots: {{text}}, …")]
Scale = Annotated[
    tuple[float, float] | None, Meta(description="The least and the best score that the judge may give; 0 and 1.")
]
Samples = Annotated[int, Meta(ge=1, le=20, description="How often it is asked; the verdicts are put together.")]
Retries = Annotated[int, Meta(ge=0, le=10, description="How often it is asked again if its answer does not fit.")]

_JUDGED: Final = frozenset({"passed", "score", "label", "reason"})


def schema_of(scale: tuple[float, float] | None) -> dict[str, Any]:
    """What a judge has to answer where nobody says otherwise. It gives its reason first, so that it thinks first."""
    least, best = scale or (0, 1)
    return {
        "type": "object",
        "properties": {
            "reason": {"type": "string"},
            "passed": {"type": "boolean"},
            "score": {"type": "number", "minimum": least, "maximum": best},
        },
        "required": ["reason", "passed", "score"],
    }


def check_scale(scale: tuple[float, float] | None) -> None:
    """Refuse a scale on which nothing is better than anything."""
    if scale is not None and not scale[0] < scale[1]:
        raise InvalidValue("A scale goes from its least score to a greater one.", pointer="/parameters/scale")


def score_of(verdicts: Sequence[Any], scale: tuple[float, float] | None) -> Any:
    """What the verdicts come to, as an evaluator returns it: a Score, or an object of the author's own."""
    if not all(isinstance(one, dict) for one in verdicts):
        value = _agreed(list(verdicts))
        return _placed(value, scale) if _is_number(value) else value
    said = [cast("dict[str, Any]", one) for one in verdicts]
    keys = dict.fromkeys(key for one in said for key in one)
    merged = {key: _agreed([one[key] for one in said if key in one]) for key in keys}
    if not merged.keys() & {"passed", "score"}:
        return merged
    number = merged.get("score")
    passed = merged.get("passed", number if isinstance(number, bool) else None)
    label, details = merged.get("label"), {key: value for key, value in merged.items() if key not in _JUDGED}
    if len(said) > 1:
        details["verdicts"] = said
    if scale is not None and _is_number(number):
        details["on_scale"] = number
    return Score(
        passed=passed if isinstance(passed, bool) else None,
        score=_placed(number, scale) if _is_number(number) else None,
        label=label if isinstance(label, str) else None,
        reason=_reason(said, passed),
        details=details,
    )


def most_said(values: Sequence[Any]) -> Any:
    """What was said most often; of those the first."""
    texts = [jsons.encode(value) for value in values]
    return values[texts.index(Counter(texts).most_common(1)[0][0])]


def _agreed(values: list[Any]) -> Any:
    if all(isinstance(value, bool) for value in values):
        return sum(values) * 2 > len(values)
    if all(_is_number(value) for value in values):
        return sum(values) / len(values) if len(values) > 1 else values[0]
    return most_said(values)


def _reason(said: Sequence[Mapping[str, Any]], passed: Any) -> str:
    """The first reason of one that came to the same."""
    given = [one for one in said if isinstance(one.get("reason"), str)]
    agreeing = [one for one in given if one.get("passed", one.get("score")) == passed]
    return next((one["reason"] for one in (*agreeing, *given)), "")


def _placed(number: Any, scale: tuple[float, float] | None) -> float:
    """Where on its scale a score stands, from 0 to 1."""
    if scale is None:
        return float(number)
    return min(1.0, max(0.0, (number - scale[0]) / (scale[1] - scale[0])))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
