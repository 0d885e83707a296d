"""tool_arguments_valid: the arguments of every call are JSON, and meet the tool's schema where it is known."""

from typing import Annotated, Any

from msgspec import UNSET, Meta

from palaver.core import jsons
from palaver.evaluation.matching.json_schemas import check_schema, misfits
from palaver.evaluation.scoring.cases import Case, CaseCall
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Score


def _check(parameters: Any, _reach: Reach) -> None:
    for name, schema in parameters.schemas.items():
        check_schema(schema, f"/parameters/schemas/{jsons.escaped(name)}")


@evaluator(needs={"tools"}, check=_check)
def tool_arguments_valid(
    case: Case,
    schemas: Annotated[dict[str, dict[str, Any] | bool], Meta(description="By a tool's name, its JSON Schema.")] = {},  # noqa: B006 - never changed
) -> Score:
    """The arguments of every call are JSON, and meet the schema of their tool; the score is the share that do."""
    faults = [_faults(call, schemas) for call in case.tool_calls]
    bad = [(call, found) for call, found in zip(case.tool_calls, faults, strict=True) if found]
    return Score(
        passed=not bad,
        score=1 - len(bad) / len(faults) if faults else 1.0,
        reason="; ".join(f"{call.name}: {found[0]}" for call, found in bad[:3]),
        details={"faults": [{"index": call.index, "name": call.name, "faults": found} for call, found in bad]},
    )


def _faults(call: CaseCall, schemas: dict[str, dict[str, Any] | bool]) -> list[str]:
    if call.parsed is UNSET:
        return ["the arguments are not JSON"]
    return misfits(call.parsed, schemas[call.name]) if call.name in schemas else []
