"""Gates: conditions that an evaluation must meet for a build to pass.

Gates apply to pass rates, or to means if an evaluator only scores. `strict` applies them to the unfavourable end of
the interval.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from palaver.errors import InvalidValue
from palaver.evaluation.results.figures import Comparison, EvaluationSummary, EvaluatorSummary


class Gates(msgspec.Struct, frozen=True, kw_only=True):
    minimum: float | None = None
    """Minimum for evaluators that are not in `fail_under`."""
    fail_under: Mapping[str, float] = {}
    """Minimum by evaluator name."""
    max_regressions: int | None = None
    """Maximum number of regressed rows for each evaluator."""
    fail_on_worse: bool = False
    strict: bool = False


def parse_fail_under(texts: Sequence[str]) -> tuple[float | None, dict[str, float]]:
    """Parse `--fail-under`: `0.9` for every evaluator, `exact_match=0.9` for one. Raises InvalidValue."""
    default: float | None = None
    by_name: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if not 0 <= value <= 1 or (equals and not name):
            raise InvalidValue(f"Invalid --fail-under {text!r}: use a number from 0 to 1, or name=number.")
        if equals:
            by_name[name] = value
        else:
            default = value
    return default, by_name


def check_gate_names(gates: Gates, evaluators: Collection[str]) -> None:
    """Raise InvalidValue, before anything runs, for a gate on an unknown evaluator."""
    for name in gates.fail_under:
        # `polite.words` may be a score of the evaluator `polite`.
        if name not in evaluators and not any(name.startswith(f"{key}.") for key in evaluators):
            known = ", ".join(sorted(evaluators)) or "none"
            raise InvalidValue(f"--fail-under: unknown evaluator {name!r}. Available: {known}.")


def failed_gates(gates: Gates, summary: EvaluationSummary, comparisons: Sequence[Comparison] = ()) -> list[str]:
    """A line for each gate that failed."""
    return [
        *_failed_minimums(gates, summary),
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
            minimum = _minimum_for(gates, name)
            if minimum is None:
                continue
            shortfall = _describe_shortfall(evaluator, variant.name, minimum, strict=gates.strict)
            if shortfall is not None:
                yield f"--fail-under {minimum:g}: {shortfall}."


def _has_subscores(name: str, names: Collection[str]) -> bool:
    """Whether an evaluator has named scores, such as `polite.words`."""
    return any(other.startswith(f"{name}.") for other in names)


def _minimum_for(gates: Gates, name: str) -> float | None:
    """The minimum of a score: its own, its evaluator's, or the general one."""
    while name:
        if name in gates.fail_under:
            return gates.fail_under[name]
        name = name.rpartition(".")[0]
    return gates.minimum


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
