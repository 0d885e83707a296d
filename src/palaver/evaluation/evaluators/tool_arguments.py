"""tool_arguments: a tool was called with the arguments that it should have had."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta

from palaver.errors import InvalidValue
from palaver.evaluation.matching.calls import ExpectedFrom, arguments_fit, read_calls
from palaver.evaluation.matching.json_schemas import Schema, check_schema, misfits
from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Score, Skip


def _check(parameters: Any, _reach: Reach) -> None:
    if parameters.arguments is not None and parameters.schema is not None:
        raise InvalidValue("Give arguments or a schema, not both.", pointer="/parameters/schema")
    if parameters.schema is not None:
        check_schema(parameters.schema, "/parameters/schema")
    elif parameters.match == "schema":
        if parameters.arguments is None:
            raise InvalidValue("match is schema: give the schema.", pointer="/parameters/schema")
        check_schema(parameters.arguments, "/parameters/arguments")


@evaluator(needs={"tools"}, check=_check)
def tool_arguments(
    case: Case,
    tool: Annotated[str, Meta(description="The name of the tool.")],
    *,
    arguments: Annotated[
        Any, Meta(description="What is wanted; without it, the arguments of the expected call.")
    ] = None,
    schema: Annotated[
        dict[str, Any] | bool | None, Meta(description="Instead: the JSON Schema that they meet.")
    ] = None,
    match: Annotated[Literal["exact", "subset", "schema"], Meta(description="How they have to fit.")] = "exact",
    which: Annotated[
        Literal["any", "first", "last", "all"], Meta(description="Which calls of the tool have to fit.")
    ] = "any",
    expected_from: ExpectedFrom = None,
) -> Score:
    """Calls of the tool (any, the first, the last or all) have these arguments, or those of the expected call of it."""
    if schema is not None:
        arguments, match = schema, "schema"
    wanted: Any = _expected(case, tool, expected_from) if arguments is None else arguments
    calls = [call for call in case.tool_calls if call.name == tool]
    if not calls:
        return Score(passed=False, reason=f"{tool} was not called")
    fit = [arguments_fit(call, wanted, match) for call in calls]
    passed = {"any": any(fit), "first": fit[0], "last": fit[-1], "all": all(fit)}[which]
    details: dict[str, Any] = {
        "calls": [{"arguments": call.arguments, "fits": fits} for call, fits in zip(calls, fit, strict=True)]
    }
    if passed:
        return Score(passed=True, details=details)
    bad = calls[-1 if which == "last" else 0 if which == "first" else fit.index(False)]
    return Score(passed=False, reason=_why(bad.parsed, wanted, match, tool), details=details)


def _expected(case: Case, tool: str, expected_from: str | None) -> Any:
    calls = read_calls(Aim(expected_from=expected_from).expected(case))
    first = next((call for call in calls or () if call.name == tool), None)
    if first is None or first.arguments is UNSET:
        raise Skip("no_expected", f"what is expected has no arguments of a call of {tool}")
    return first.arguments


def _why(parsed: Any, wanted: Schema, match: str, tool: str) -> str:
    if parsed is UNSET:
        return f"the arguments of {tool} are not JSON"
    if match == "schema":
        return f"the arguments of {tool} do not meet the schema: {'; '.join(misfits(parsed, wanted))}"
    return f"the arguments of {tool} are others" if match == "exact" else f"the arguments of {tool} lack what is wanted"
