"""token_budget: the answer did not take too many tokens."""

from typing import Annotated, Any

from msgspec import Meta

from palaver.errors import InvalidValue
from palaver.evaluation.matching.budgets import within
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Score, Skip

_Tokens = Annotated[int, Meta(ge=0)] | None


def _check(parameters: Any, _reach: Reach) -> None:
    if parameters.max_input is None and parameters.max_output is None and parameters.max_total is None:
        raise InvalidValue("Give one of max_input, max_output and max_total.", pointer="/parameters")


@evaluator(title="Token budget", needs={"usage"}, check=_check)
async def token_budget(
    case: Case,
    max_input: Annotated[_Tokens, Meta(description="Tokens that went in, in all turns.")] = None,
    max_output: Annotated[_Tokens, Meta(description="Tokens that came out, in all turns.")] = None,
    max_total: Annotated[_Tokens, Meta(description="Both together.")] = None,
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
    return within({name: (actual, budget) for name, (actual, budget) in budgets.items() if budget is not None})
