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
            raise InvalidValue(f"--fail-under {text!r}: give a number from 0 to 1, or name=number.")
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
            raise InvalidValue(f"--fail-under {name}: there is no evaluator {name!r}. There are: {known}.")


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
                yield f"fail-under: {variant.name} has no score {name}."
        for name, evaluator in summaries.items():
            # An evaluator with named scores uses its own name only if it returned nothing.
            if not evaluator.n and not evaluator.errors and _has_subscores(name, summaries):
                continue
            minimum = _minimum_for(gates, name)
            shortfall = None if minimum is None else _describe_shortfall(evaluator, minimum, strict=gates.strict)
            if shortfall is not None:
                yield f"fail-under: {variant.name}, {name}: {shortfall}"


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


def _describe_shortfall(evaluator: EvaluatorSummary, minimum: float, *, strict: bool) -> str | None:
    rate, interval, measure = evaluator.pass_rate, evaluator.pass_ci, "the pass rate"
    if rate is None:
        rate, interval, measure = evaluator.mean, evaluator.mean_ci, "the mean"
    if rate is None or interval is None:
        return f"nothing was scored, {minimum:g} is wanted."
    if strict and interval[0] < minimum:
        return f"{measure} is {rate:.3f}, but may be as low as {interval[0]:.3f}: {minimum:g} is wanted for sure."
    return f"{measure} is {rate:.3f}, {minimum:g} is wanted." if rate < minimum else None


def _failed_comparisons(gates: Gates, comparison: Comparison) -> Iterator[str]:
    for result in comparison.evaluators:
        if gates.max_regressions is not None and result.regressions > gates.max_regressions:
            rows = "row passes" if result.regressions == 1 else "rows pass"
            yield (
                f"max-regressions: {comparison.candidate}, {result.name}: {result.regressions} {rows} no longer, "
                f"{gates.max_regressions} may. The first: {result.worst[0].row if result.worst else 'unknown'}."
            )
        if gates.fail_on_worse and result.verdict == "worse" and result.ci and result.difference is not None:
            ends = f"{result.ci[0]:+.3f} to {result.ci[1]:+.3f}"
            subject = f"{comparison.candidate}, {result.name}"
            yield f"fail-on worse: {subject}: {result.difference:+.3f} ({ends}) beside {comparison.base}."
