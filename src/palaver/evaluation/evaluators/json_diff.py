"""json_diff: how much of two JSON values is equal, leaf by leaf."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta

from palaver.evaluation.matching.fields import expected_json
from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.scores import Score
from palaver.evaluation.values import paths
from palaver.evaluation.values.equality import kind_of, same

_MOST_TOLD = 20


@evaluator(title="JSON difference", needs={"expected"}, threshold=0.5)
def json_diff(
    case: Case,
    aim: Aim,
    compare: Annotated[
        Literal["values", "types"], Meta(description="Must the values be equal, or only of the same kind?")
    ] = "values",
    *,
    ignore_key_case: Annotated[bool, Meta(description="Are Name and name one key?")] = False,
    extra: Annotated[
        Literal["count", "ignore"], Meta(description="What becomes of that which is not expected.")
    ] = "count",
    tolerance: Annotated[float, Meta(ge=0, description="By how much numbers may differ.")] = 0,
) -> Score:
    """The share of leaves that are equal in the JSON of the answer and in what is expected."""
    wanted = _leaves(expected_json(case, aim), ignore_key_case=ignore_key_case)
    value = aim.value(case)
    if value is UNSET:
        return Score(score=0.0, reason="there is no JSON in the answer")
    found = _leaves(value, ignore_key_case=ignore_key_case)

    def equal(one: Any, other: Any) -> bool:
        if compare == "types":
            return kind_of(one) == kind_of(other)
        return same(aim.folded_value(one), aim.folded_value(other), tolerance=tolerance)

    both = [path for path in wanted if path in found]
    different = [path for path in both if not equal(found[path], wanted[path])]
    missing = [path for path in wanted if path not in found]
    more = [path for path in found if path not in wanted]
    counted = len(wanted) + (len(more) if extra == "count" else 0)
    told = {"different": different, "missing": missing, "extra": more}
    return Score(
        score=(len(both) - len(different)) / counted,
        reason=", ".join(f"{len(some)} {word}" for word, some in told.items() if some),
        details={word: [paths.written(path) for path in some[:_MOST_TOLD]] for word, some in told.items() if some},
    )


def _leaves(value: Any, *, ignore_key_case: bool) -> dict[paths.Steps, Any]:
    return {
        tuple(step.casefold() if isinstance(step, str) else step for step in path) if ignore_key_case else path: leaf
        for path, leaf in paths.leaves(value)
    }
