"""cost_budget: the answer did not cost too much."""

from typing import Annotated

from msgspec import Meta

from palaver.evaluation.matching.budgets import within
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.scores import Score, Skip


@evaluator(title="Cost budget", needs={"usage"})
async def cost_budget(
    case: Case, max_cost: Annotated[float, Meta(ge=0, description="What all turns of it may cost together.")]
) -> Score:
    """The answer cost no more than this; the score is the budget's share of what it cost, at most 1."""
    if case.usage is None or case.usage.cost is None:
        raise Skip("no_usage", "it is not known what the answer cost")
    return within({"cost": (case.usage.cost, max_cost)})
