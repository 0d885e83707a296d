"""Gates: conditions that an evaluation must meet for a build to pass.

Gates apply to pass rates, or to means if an evaluator only scores. `strict` applies them to the unfavourable end of
the interval. A gate also fails if its evaluator did not score all answers, unless `allow_unscored` permits it.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from palaver.errors import InvalidValue
from palaver.evaluation.results.figures import (
    Comparison,
    EvaluationSummary,
    EvaluatorSummary,
    VariantSummary,
    reason_text,
)

if TYPE_CHECKING:
    from palaver.evaluation.results.arrays import ResultArrays

T = TypeVar("T")


class Gates(msgspec.Struct, frozen=True, kw_only=True):
    minimum: float | None = None
    """Minimum for evaluators that are not in `fail_under`."""
    fail_under: Mapping[str, float] = {}
    """Minimum by evaluator name."""
    max_regressions: int | None = None
    """Maximum number of regressed rows for each evaluator."""
    fail_on_worse: bool = False
    strict: bool = False
    max_unscored: float = 0.0
    """Share of answers that may be unscored, for evaluators that are not in `allow_unscored`."""
    allow_unscored: Mapping[str, float] = {}
    """Share of answers that may be unscored, by evaluator name."""


def parse_fail_under(texts: Sequence[str]) -> tuple[float | None, dict[str, float]]:
    """Parse `--fail-under`: `0.9` for every evaluator, `exact_match=0.9` for one. Raises InvalidValue."""
    return _parse_by_name(texts, "--fail-under", "use a number from 0 to 1, or name=number", unit="", maximum=1)


def parse_allow_unscored(texts: Sequence[str]) -> tuple[float, dict[str, float]]:
    """Parse `--allow-unscored`: `5%` for every evaluator, `citations=5%` for one. Raises InvalidValue."""
    hint = "use a percentage such as 5%, or name=5%"
    default, by_name = _parse_by_name(texts, "--allow-unscored", hint, unit="%", maximum=100)
    return (default or 0.0) / 100, {name: percent / 100 for name, percent in by_name.items()}


def _parse_by_name(
    texts: Sequence[str], option: str, hint: str, *, unit: str, maximum: float
) -> tuple[float | None, dict[str, float]]:
    default: float | None = None
    by_name: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        try:
            value = float(number.removesuffix(unit)) if number.endswith(unit) else -1.0
        except ValueError:
            value = -1.0
        if not 0 <= value <= maximum or (equals and not name):
            raise InvalidValue(f"Invalid {option} {text!r}: {hint}.")
        if equals:
            by_name[name] = value
        else:
            default = value
    return default, by_name


def check_gate_names(gates: Gates, evaluators: Collection[str]) -> None:
    """Raise InvalidValue, before anything runs, for a gate on an unknown evaluator."""
    for option, names in {"--fail-under": gates.fail_under, "--allow-unscored": gates.allow_unscored}.items():
        for name in names:
            # `polite.words` may be a score of the evaluator `polite`.
            if name not in evaluators and not any(name.startswith(f"{key}.") for key in evaluators):
                known = ", ".join(sorted(evaluators)) or "none"
                raise InvalidValue(f"{option}: unknown evaluator {name!r}. Available: {known}.")


def failed_gates(gates: Gates, summary: EvaluationSummary, comparisons: Sequence[Comparison] = ()) -> list[str]:
    """A line for each gate that failed."""
    return [
        *_failed_minimums(gates, summary),
        *_unscored_gates(gates, summary),
        *(line for comparison in comparisons for line in _failed_comparisons(gates, comparison)),
    ]


def _failed_minimums(gates: Gates, summary: EvaluationSummary) -> Iterator[str]:
    for variant in summary.variants:
        summaries = {evaluator.name: evaluator for evaluator in variant.evaluators}
        for name in gates.fail_under:
            if name not in summaries and not _has_subscores(name, summaries):
                yield f"--fail-under {gates.fail_under[name]:g}: no scores from {name} for {variant.name!r}."
        for name, evaluator in summaries.items():
            # An evaluator with named scores uses its own name only if it returned nothing.
            if not evaluator.n and not evaluator.errors and _has_subscores(name, summaries):
                continue
            minimum = _value_for(name, gates.fail_under, gates.minimum)
            if minimum is None:
                continue
            shortfall = _describe_shortfall(evaluator, variant.name, minimum, strict=gates.strict)
            if shortfall is not None:
                yield f"--fail-under {minimum:g}: {shortfall}."


def _has_subscores(name: str, names: Collection[str]) -> bool:
    """Whether an evaluator has named scores, such as `polite.words`."""
    return any(other.startswith(f"{name}.") for other in names)


def _value_for(name: str, by_name: Mapping[str, float], default: T) -> float | T:
    """The value for a score: its own, its evaluator's, or the default."""
    while name:
        if name in by_name:
            return by_name[name]
        name = name.rpartition(".")[0]
    return default


def _unscored_gates(gates: Gates, summary: EvaluationSummary) -> Iterator[str]:
    compares = gates.max_regressions is not None or gates.fail_on_worse
    for variant in summary.variants:
        names = [evaluator.name for evaluator in variant.evaluators]
        for evaluator in variant.evaluators:
            if _has_subscores(evaluator.name, names):
                continue  # What it did not score is missing among its named scores.
            is_gated = compares or _value_for(evaluator.name, gates.fail_under, gates.minimum) is not None
            if is_gated and (line := _describe_unscored(gates, evaluator, variant)) is not None:
                yield line


def _describe_unscored(gates: Gates, evaluator: EvaluatorSummary, variant: VariantSummary) -> str | None:
    """Describe unscored answers beyond those that are allowed; None if there are none."""
    allowed = _value_for(evaluator.name, gates.allow_unscored, gates.max_unscored)
    if evaluator.unscored <= allowed * variant.cells + 1e-9:
        return None
    reason = f" (most often: {evaluator.unscored_reason})" if evaluator.unscored_reason else ""
    answers = "answer" if variant.cells == 1 else "answers"
    return (
        f"--allow-unscored {100 * allowed:g}%: {evaluator.name} did not score {evaluator.unscored:,} of "
        f"{variant.cells:,} {answers} for {variant.name!r}{reason}."
    )


_CODE_ERRORS = ("evaluator_failed", "bad_return", "evaluator_unknown")
"""Codes of errors in the evaluator itself. Others concern a single answer, or a service that did not reply."""


def failed_evaluators(gates: Gates, results: "ResultArrays", summary: EvaluationSummary) -> list[str]:
    """A line for each evaluator with errors that `allow_unscored` does not permit; it never permits exceptions."""
    lines: list[str] = []
    for index, variant in enumerate(summary.variants):
        for scores, evaluator in zip(results.scores, variant.evaluators, strict=True):
            reasons = results.reasons.get((scores.evaluator, index), Counter())
            errors = [reason for (status, reason), _ in reasons.most_common() if status == "error"]
            broken = [reason for reason in errors if reason.partition(":")[0] in _CODE_ERRORS]
            if evaluator.errors and (broken or _describe_unscored(gates, evaluator, variant) is not None):
                answers = "answer" if variant.cells == 1 else "answers"
                lines.append(
                    f"Evaluator {evaluator.name!r} failed for {evaluator.errors:,} of {variant.cells:,} {answers} "
                    f"of {variant.name!r}: {reason_text((broken or errors)[0])}"
                )
    return lines


def _describe_shortfall(evaluator: EvaluatorSummary, variant: str, minimum: float, *, strict: bool) -> str | None:
    rate, interval, measure = evaluator.pass_rate, evaluator.pass_ci, "pass rate"
    if rate is None:
        rate, interval, measure = evaluator.mean, evaluator.mean_ci, "mean score"
    if rate is None or interval is None:
        return f"{evaluator.name} scored no rows for {variant!r}"
    format_value = _format_percent if evaluator.pass_rate is not None else _format_score
    text = f"{evaluator.name} has a {measure} of {format_value(rate)} for {variant!r}"
    if strict and interval[0] < minimum:
        return f"{text}, and its 95% confidence interval starts at {format_value(interval[0])}"
    return text if rate < minimum else None


def _format_percent(share: float) -> str:
    """Format a share as 66.7% or 50%. Only a share of 1 is 100%."""
    text = f"{100 * share:.1f}".removesuffix(".0")
    return "over 99.9%" if text == "100" and share < 1 else f"{text}%"


def _format_score(score: float) -> str:
    return f"{score:.3f}"


def _failed_comparisons(gates: Gates, comparison: Comparison) -> Iterator[str]:
    candidate, base = comparison.display_names()
    for result in comparison.evaluators:
        if gates.max_regressions is not None and result.regressions > gates.max_regressions:
            rows = "row" if result.regressions == 1 else "rows"
            yield (
                f"--max-regressions {gates.max_regressions}: {result.regressions} {rows} regressed in {result.name} "
                f"for {candidate!r}."
            )
        if gates.fail_on_worse and result.verdict == "worse" and result.ci and result.difference is not None:
            format_value = _format_percent if result.measure == "pass_rate" else _format_score
            values = [format_value(value) for value in (result.base, result.candidate) if value is not None]
            measure = "pass rate" if result.measure == "pass_rate" else "mean score"
            yield (
                f"--fail-on worse: the {measure} of {result.name} fell from {' to '.join(values)} "
                f"for {candidate!r} compared with {base!r}."
            )
