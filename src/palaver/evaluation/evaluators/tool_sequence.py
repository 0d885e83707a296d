"""tool_sequence: the tools that were called, as a whole, against those that should have been."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta

from palaver.errors import InvalidValue
from palaver.evaluation.matching.calls import ExpectedFrom, Mode, Sequenced, compare, read_calls, shown
from palaver.evaluation.matching.json_schemas import check_schema
from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Score, Skip


def _check(parameters: Any, _reach: Reach) -> None:
    if parameters.calls is None:
        return
    calls = read_calls(parameters.calls)
    if calls is None:
        raise InvalidValue("Calls are names, {name, arguments}, or messages.", pointer="/parameters/calls")
    for place, call in enumerate(calls):
        if call.match == "schema" and call.arguments is not UNSET:
            check_schema(call.arguments, f"/parameters/calls/{place}/arguments")


@evaluator(needs={"tools"}, check=_check)
def tool_sequence(
    case: Case,
    calls: Annotated[Any, Meta(description="Names, or {name, arguments}; without it, the expected calls.")] = None,
    *,
    mode: Annotated[Mode, Meta(description="How both have to agree.")] = "strict",
    arguments: Annotated[
        Literal["ignore", "exact", "subset"], Meta(description="Do arguments count, and how?")
    ] = "ignore",
    expected_from: ExpectedFrom = None,
) -> Score:
    """The calls made are those wanted: strictly, in order among others, in any order, none beyond, or at least."""
    wanted = read_calls(Aim(expected_from=expected_from).expected(case) if calls is None else calls)
    if wanted is None:
        raise Skip("no_expected", "what is expected holds no calls: it is neither messages nor a list of calls")
    found = compare(case.tool_calls, wanted, mode=mode, match=arguments)
    return Score(
        passed=found.passed,
        score=found.score,
        reason="" if found.passed else _why(found, mode),
        details={
            "made": [call.name for call in case.tool_calls],
            "wanted": [call.name for call in wanted],
            "missing": [shown(call) for call in found.missing],
            "unexpected": [shown(call) for call in found.unexpected],
        },
    )


def _why(found: Sequenced, mode: Mode) -> str:
    missing, unexpected = [[call.name for call in calls] for calls in (found.missing, found.unexpected)]
    said = [f"missing {', '.join(missing)}"] if missing and mode != "subset" else []
    said += [f"unexpected {', '.join(unexpected)}"] if unexpected and mode not in ("superset", "in_order") else []
    return "; ".join(said) or "in another order"
