"""json_field_match: one field of the JSON is what is expected."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from palaver.evaluation.matching.fields import check_paths
from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.scores import Score
from palaver.evaluation.values.equality import same


@evaluator(title="JSON field match", check=check_paths)
def json_field_match(
    case: Case,
    aim: Aim,
    path: Annotated[str, Meta(min_length=1, description="Where the field is: a.b[0], $.a[0] or /a/0.")],
    equals: Annotated[Any | UnsetType, Meta(description="What it must be; by default what is expected.")] = UNSET,
    tolerance: Annotated[float, Meta(ge=0, description="By how much numbers may differ.")] = 0,
) -> Score:
    """One field of the JSON in the answer is what is expected."""
    wanted = aim.expected(case) if equals is UNSET else equals
    value = aim.value(case)
    if value is UNSET:
        return Score(passed=False, reason="there is no JSON in the answer")
    found = aim.at(path, value)
    if found is UNSET:
        return Score(passed=False, reason=f"there is nothing at {path}")
    if same(aim.folded_value(found), aim.folded_value(wanted), tolerance=tolerance):
        return Score(passed=True)
    return Score(passed=False, reason=f"what is at {path} differs from what is expected", details={"found": found})
