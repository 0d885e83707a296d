"""tool_not_called: none of these tools was called, or no tool at all."""

from collections import Counter
from typing import Annotated, Any

from msgspec import Meta

from palaver.errors import InvalidValue
from palaver.evaluation.matching.calls import listed
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Score


def _check(parameters: Any, _reach: Reach) -> None:
    if parameters.names is not None and not listed(parameters.names):
        raise InvalidValue("Name a tool, or leave names out for any tool.", pointer="/parameters/names")


@evaluator(needs={"tools"}, check=_check)
async def tool_not_called(
    case: Case, names: Annotated[str | list[str] | None, Meta(description="The tools, or one; without it, any.")] = None
) -> Score:
    """None of the names was called; without names, no tool at all."""
    unwanted = None if names is None else listed(names)
    counts = Counter(call.name for call in case.tool_calls if unwanted is None or call.name in unwanted)
    return Score(
        passed=not counts,
        reason=f"called {', '.join(f'{name} {count}×' for name, count in counts.items())}" if counts else "",
        details={"counts": dict(counts)},
    )
