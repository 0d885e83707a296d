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
    over = [
        f"{name} {actual:.6g} (budget: {budget:.6g})" for name, (actual, budget) in amounts.items() if actual > budget
    ]
    return Score(
        not over,
        min(ratios.values()),
        reason=f"over budget: {', '.join(over)}" if over else "",
        details={name: actual for name, (actual, _) in amounts.items()},
    )


@evaluator(title="Latency budget")
async def latency_budget(
    case: Case,
    max_seconds: Annotated[float, Meta(ge=0, description="Maximum time for the whole answer, in seconds.")],
    first_output: Annotated[
        Annotated[float, Meta(ge=0)] | None, Meta(description="Maximum time to the first output, in seconds.")
    ] = None,
) -> Score:
    """The answer took no longer than the budget. The score is budget / actual time, at most 1."""
    amounts = {"seconds": (case.latency, max_seconds)}
    if first_output is not None:
        if case.first_output is None:
            raise Skip("no_first_output", "the time to first output is unknown")
        amounts["first_output"] = (case.first_output, first_output)
    return score_budgets(amounts)


@evaluator(title="Cost budget", needs={"usage"})
async def cost_budget(
    case: Case,
    max_cost: Annotated[float, Meta(ge=0, description="Maximum total cost across all turns, in US dollars.")],
) -> Score:
    """The answer cost no more than the budget. The score is budget / actual cost, at most 1."""
    if case.usage is None or case.usage.cost is None:
        raise Skip("no_usage", "the cost of the answer is unknown")
    return score_budgets({"cost": (case.usage.cost, max_cost)})


_MaxTokens = Annotated[int, Meta(ge=0)] | None


def _check_token_budget(parameters: Any, _context: EvaluatorContext) -> None:
    if parameters.max_input is None and parameters.max_output is None and parameters.max_total is None:
        raise InvalidValue("at least one of max_input, max_output and max_total is required.", pointer="/parameters")


@evaluator(title="Token budget", needs={"usage"}, check=_check_token_budget)
async def token_budget(
    case: Case,
    max_input: Annotated[_MaxTokens, Meta(description="Maximum total input tokens across all turns.")] = None,
    max_output: Annotated[_MaxTokens, Meta(description="Maximum total output tokens across all turns.")] = None,
    max_total: Annotated[
        _MaxTokens, Meta(description="Maximum total tokens across all turns, input and output.")
    ] = None,
) -> Score:
    """The answer stayed within its token budgets. The score is the lowest ratio of budget to usage, at most 1."""
    usage = case.usage
    if usage is None:
        raise Skip("no_usage", "the token usage of the answer is unknown")
    budgets = {
        "input_tokens": (usage.input_tokens, max_input),
        "output_tokens": (usage.output_tokens, max_output),
        "total_tokens": (usage.total_tokens, max_total),
    }
    return score_budgets({name: (actual, budget) for name, (actual, budget) in budgets.items() if budget is not None})
