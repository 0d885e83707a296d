"""Budget evaluators: latency_budget, cost_budget, token_budget."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from palaver.errors import InvalidValue
from palaver.evaluation.case import Case
from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.evaluator import evaluator
from palaver.evaluation.score import Score, Skip


def score_budgets(amounts: Mapping[str, tuple[float, float]]) -> Score:
    """Score actual amounts against budgets, by name.

    The score is the smallest ratio of budget to actual amount, at most 1.
    """
    ratios = {name: min(1.0, budget / actual) if actual > 0 else 1.0 for name, (actual, budget) in amounts.items()}
    over = [f"{name} {actual:.6g} of {budget:.6g}" for name, (actual, budget) in amounts.items() if actual > budget]
    return Score(
        not over,
        min(ratios.values()),
        reason=f"over the budget: {', '.join(over)}" if over else "",
        details={name: actual for name, (actual, _) in amounts.items()},
    )


@evaluator(title="Latency budget")
async def latency_budget(
    case: Case,
    max_seconds: Annotated[float, Meta(ge=0, description="How long the whole answer may take.")],
    first_output: Annotated[
        Annotated[float, Meta(ge=0)] | None, Meta(description="How long its first words may take, in seconds.")
    ] = None,
) -> Score:
    """The answer came within so many seconds; the score is the budget's share of what it took, at most 1."""
    amounts = {"seconds": (case.latency, max_seconds)}
    if first_output is not None:
        if case.first_output is None:
            raise Skip("no_first_output", "it is not known when the first words came")
        amounts["first_output"] = (case.first_output, first_output)
    return score_budgets(amounts)


@evaluator(title="Cost budget", needs={"usage"})
async def cost_budget(
    case: Case, max_cost: Annotated[float, Meta(ge=0, description="What all turns of it may cost together.")]
) -> Score:
    """The answer cost no more than this; the score is the budget's share of what it cost, at most 1."""
    if case.usage is None or case.usage.cost is None:
        raise Skip("no_usage", "it is not known what the answer cost")
    return score_budgets({"cost": (case.usage.cost, max_cost)})


_MaxTokens = Annotated[int, Meta(ge=0)] | None


def _check_token_budget(parameters: Any, _context: EvaluatorContext) -> None:
    if parameters.max_input is None and parameters.max_output is None and parameters.max_total is None:
        raise InvalidValue("Give one of max_input, max_output and max_total.", pointer="/parameters")


@evaluator(title="Token budget", needs={"usage"}, check=_check_token_budget)
async def token_budget(
    case: Case,
    max_input: Annotated[_MaxTokens, Meta(description="Tokens that went in, in all turns.")] = None,
    max_output: Annotated[_MaxTokens, Meta(description="Tokens that came out, in all turns.")] = None,
    max_total: Annotated[_MaxTokens, Meta(description="Both together.")] = None,
) -> Score:
    """The answer took no more tokens than this; the score is the smallest share of a budget, at most 1."""
    usage = case.usage
    if usage is None:
        raise Skip("no_usage", "it is not known how many tokens the answer took")
    budgets = {
        "input_tokens": (usage.input_tokens, max_input),
        "output_tokens": (usage.output_tokens, max_output),
        "total_tokens": (usage.total_tokens, max_total),
    }
    return score_budgets({name: (actual, budget) for name, (actual, budget) in budgets.items() if budget is not None})
