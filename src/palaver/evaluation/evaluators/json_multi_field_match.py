"""json_multi_field_match: how many fields of the JSON are what is expected."""

from typing import Annotated

from msgspec import UNSET, Meta

from palaver.evaluation.matching.fields import check_paths, expected_json
from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.scores import Score, Unscored
from palaver.evaluation.values import paths
from palaver.evaluation.values.equality import same

_Path = Annotated[str, Meta(min_length=1)]


@evaluator(title="JSON fields match", needs={"expected"}, check=check_paths)
def json_multi_field_match(
    case: Case,
    aim: Aim,
    fields: Annotated[
        Annotated[list[_Path], Meta(min_length=1)] | None,
        Meta(description="Paths of the fields; by default all that is expected has."),
    ] = None,
    tolerance: Annotated[float, Meta(ge=0, description="By how much numbers may differ.")] = 0,
) -> Score:
    """Each of several fields of the JSON is what is expected; the score is the share of those that are."""
    expected = expected_json(case, aim)
    named = {path: paths.steps(path) for path in fields} if fields else {}
    named = named or {paths.written(path): path for path, _ in paths.leaves(expected)}
    value = aim.value(case)
    matches: dict[str, bool] = {}
    for name, path in named.items():
        wanted, found = paths.at(expected, path), paths.at(value, path)
        if wanted is not UNSET:
            matches[name] = found is not UNSET and same(
                aim.folded_value(found), aim.folded_value(wanted), tolerance=tolerance
            )
    if not matches:
        raise Unscored("no_fields", "what is expected has none of these fields")
    different = [name for name, matched in matches.items() if not matched]
    reason = f"not as expected: {', '.join(different[:10])}" if different else ""
    if value is UNSET:
        reason = "there is no JSON in the answer"
    return Score(not different, (len(matches) - len(different)) / len(matches), reason=reason, details=matches)
