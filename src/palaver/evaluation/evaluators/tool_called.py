"""tool_called: the tools that should have been called were, as often as they should."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta

from palaver.errors import InvalidValue
from palaver.evaluation.matching.calls import Match, arguments_fit, listed
from palaver.evaluation.matching.json_schemas import check_schema
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Score


def _check(parameters: Any, _reach: Reach) -> None:
    if not listed(parameters.names):
        raise InvalidValue("Name a tool.", pointer="/parameters/names")
    if parameters.max is not None and parameters.max < parameters.min:
        raise InvalidValue("max is below min.", pointer="/parameters/max")
    if parameters.match == "schema" and parameters.arguments is not None:
        check_schema(parameters.arguments, "/parameters/arguments")


@evaluator(needs={"tools"}, check=_check)
def tool_called(
    case: Case,
    names: Annotated[str | list[str], Meta(description="The tools, or one.")],
    *,
    mode: Annotated[Literal["all", "any"], Meta(description="Must each of them be called, or any?")] = "all",
    min: Annotated[int, Meta(ge=0, description="How often at least.")] = 1,
    max: Annotated[Annotated[int, Meta(ge=0)] | None, Meta(description="How often at most.")] = None,
    arguments: Annotated[Any, Meta(description="Only calls with such arguments count.")] = None,
    match: Annotated[Match, Meta(description="How the arguments have to fit.")] = "subset",
) -> Score:
    """Each name (or any) was called from `min` to `max` times, with fitting arguments; the score is the share."""
    wanted = UNSET if arguments is None else arguments
    counts = {
        name: sum(call.name == name and arguments_fit(call, wanted, match) for call in case.tool_calls)
        for name in listed(names)
    }
    met = {name: min <= count and (max is None or count <= max) for name, count in counts.items()}
    wrong = [f"{name} {counts[name]}×" for name in counts if not met[name]]
    often = f"{min} or more" if max is None else f"{min}" if min == max else f"{min} to {max}"
    return Score(
        passed=all(met.values()) if mode == "all" else any(met.values()),
        score=sum(met.values()) / len(met),
        reason=f"called {', '.join(wrong)}; wanted {often}" if wrong else "",
        details={"counts": counts},
    )
