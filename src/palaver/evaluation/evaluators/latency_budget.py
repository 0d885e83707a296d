"""latency_budget: the answer came in time."""

from typing import Annotated

from msgspec import Meta

from palaver.evaluation.matching.budgets import within
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.scores import Score, Skip


@evaluator(title="Latency budget")
async def latency_budget(
    case: Case,
    max_seconds: Annotated[float, Meta(ge=0, description="How long the whole answer may take.")],
    first_output: Annotated[
        Annotated[float, Meta(ge=0)] | None, Meta(description="How long its first words may take, in seconds.")
    ] = None,
) -> Score:
    """The answer came within so many seconds; the score is the budget's share of what it took, at most 1."""
    spent = {"seconds": (case.latency, max_seconds)}
    if first_output is not None:
        if case.first_output is None:
            raise Skip("no_first_output", "it is not known when the first words came")
        spent["first_output"] = (case.first_output, first_output)
    return within(spent)
