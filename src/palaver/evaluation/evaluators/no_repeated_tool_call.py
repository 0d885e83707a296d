"""no_repeated_tool_call: nothing is asked of a tool twice."""

from collections import Counter
from collections.abc import Hashable
from typing import Annotated, Any, Literal, cast

from msgspec import UNSET, Meta

from palaver.evaluation.scoring.cases import Case, CaseCall
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.scores import Score


@evaluator(needs={"tools"})
async def no_repeated_tool_call(
    case: Case,
    same: Annotated[
        Literal["name+arguments", "name"], Meta(description="What makes two calls the same.")
    ] = "name+arguments",
    max: Annotated[int, Meta(ge=1, description="How often one call may be made.")] = 1,
) -> Score:
    """No call, by name and arguments or by name alone, is made more than `max` times; the score is distinct / all."""
    keys = [_key(call, same) for call in case.tool_calls]
    counts = Counter(keys)
    names = {key: call.name for key, call in zip(keys, case.tool_calls, strict=True)}
    repeated = [{"name": names[key], "times": times} for key, times in counts.items() if times > max]
    return Score(
        passed=not repeated,
        score=len(counts) / len(keys) if keys else 1.0,
        reason="; ".join(f"{one['name']} was called {one['times']}×" for one in repeated),
        details={"repeated": repeated},
    )


def _key(call: CaseCall, same: str) -> Hashable:
    if same == "name":
        return call.name
    return call.name, call.arguments if call.parsed is UNSET else _hashable(call.parsed)


def _hashable(value: Any) -> Hashable:
    """Equal for what is equal in JSON: 1 is 1.0, true is not 1, keys in any order."""
    match value:
        case dict():
            items = cast("dict[str, Any]", value).items()
            return "object", frozenset((key, _hashable(item)) for key, item in items)
        case list():
            return "array", tuple(map(_hashable, cast("list[Any]", value)))
        case _:
            return type(value) is bool, value
