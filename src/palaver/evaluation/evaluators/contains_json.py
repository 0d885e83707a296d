"""contains_json: somewhere in the text there is an object or an array."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, cast

from msgspec import UNSET, Meta

from palaver.evaluation.matching.json_schemas import check_schema, misfits
from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Score
from palaver.evaluation.values import found_json

_KINDS: dict[str, type | tuple[type, ...]] = {"any": (dict, list), "object": dict, "array": list}


def _check(parameters: Any, _reach: Reach) -> None:
    if parameters.schema is not None:
        check_schema(parameters.schema, "/parameters/schema")


@evaluator(title="Contains JSON", check=_check)
def contains_json(
    case: Case,
    aim: Aim,
    kind: Annotated[Literal["any", "object", "array"], Meta(description="Of which kind it must be.")] = "any",
    schema: Annotated[
        dict[str, Any] | bool | None, Meta(description="A JSON Schema (draft 2020-12) that it must meet.")
    ] = None,
) -> Score:
    """The text contains a JSON object or array, whatever else it says. `[1]` in prose is a citation, not JSON."""
    value = None if case.flags.is_chat else aim.raw(case)
    is_json = isinstance(value, dict | list) and not aim.stringify
    found = _inside(value) if is_json else _candidates(aim.text(case))
    faults: list[str] = []
    seen = False
    for one in found:
        if not isinstance(one, _KINDS[kind]):
            continue
        seen = True
        faults = [] if schema is None else misfits(one, schema)
        if not faults:
            return Score(passed=True)
    word = "JSON" if kind == "any" else kind
    return Score(passed=False, reason=f"it does not meet the schema: {faults[0]}" if seen else f"no {word} in the text")


def _candidates(text: str) -> Iterator[Any]:
    """Every object and array in it: the whole first, then blocks, then those in prose; each with what it holds."""
    value = found_json.whole(text)
    if value is not UNSET:
        yield from _inside(value)
        return
    for block in found_json.blocks(text):
        if (value := found_json.whole(block.text)) is not UNSET:
            yield from _inside(value)
    for value, source in found_json.balanced(text):
        if not found_json.is_mark(value, source):
            yield from _inside(value)


def _inside(value: Any) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, dict):
            yield cast("Any", one)
            waiting += cast("dict[str, Any]", one).values()
        elif isinstance(one, list):
            yield cast("Any", one)
            waiting += cast("list[Any]", one)
