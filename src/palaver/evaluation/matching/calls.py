"""Tool calls that are wanted, and how those that were made fit them.

Wanted calls are read from what people keep: messages in any dialect, `{"tool_calls": […]}`, a list of names and of
`{name, arguments}`. A name alone wants no particular arguments.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from palaver.core import dialects, jsons
from palaver.core.kinds import is_list, is_object
from palaver.core.messages import Message
from palaver.evaluation.matching.json_schemas import misfits
from palaver.evaluation.scoring.cases import CaseCall
from palaver.evaluation.values.equality import same
from palaver.testsets.scripts import json_contains

Match = Literal["exact", "subset", "schema", "ignore"]
Mode = Literal["strict", "in_order", "unordered", "subset", "superset"]
ExpectedFrom = Annotated[
    str | None, Meta(description="The column, or a path in the row, that json_contains what is expected.")
]
"""Taken by evaluators that compare with what is expected, and look at no text."""

_ARGUMENTS: Final = ("arguments", "args", "input", "parameters")
_SAYS_WHO: Final = ("role", "content", "parts", "output")


class WantedCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that should have been made."""

    name: str
    arguments: Any | UnsetType = UNSET
    """As a value, or as the text that could not be parsed; UNSET: whichever."""
    match: Match | None = None
    """How they have to fit, where it says so itself."""


def read_calls(value: object) -> tuple[WantedCall, ...] | None:
    """The calls that a value wants, in order; None where it is nothing that could want any."""
    if is_list(value):
        calls = [_call(item) for item in value]
        return cast("tuple[WantedCall, ...]", tuple(calls)) if None not in calls else _said(value)
    if not is_object(value):
        return None
    if (call := _call(value)) is not None:
        return (call,)
    if (said := _said(value)) is not None:
        return said
    for key in ("tool_calls", "messages"):
        if is_list(value.get(key)):
            return read_calls(value[key])
    return None


def called(messages: Sequence[Message]) -> tuple[WantedCall, ...]:
    """The calls that these messages make."""
    return tuple(
        WantedCall(name=call.name, arguments=call.parsed) for message in messages for call in message.tool_calls
    )


def _said(value: object) -> tuple[WantedCall, ...] | None:
    found = dialects.recognised(value)
    try:
        return called(dialects.read_stretches(found)) if found is not None else None
    except jsons.NotJson:
        return None


def _call(item: object) -> WantedCall | None:
    """A name, `{name, arguments}`, or Chat Completions' `{"function": {name, arguments}}`."""
    if isinstance(item, str):
        return WantedCall(name=item)
    if not is_object(item) or any(key in item for key in _SAYS_WHO):
        return None
    inside = item.get("function")
    call = inside if is_object(inside) else item
    name = call.get("name")
    if not isinstance(name, str):
        return None
    given: Any = next((call[key] for key in _ARGUMENTS if call.get(key) is not None), UNSET)
    arguments = jsons.parsed(given or "{}") if isinstance(given, str) else given
    match = item.get("match")
    return WantedCall(name=name, arguments=arguments, match=match if match in _MATCHES else None)


_MATCHES: Final[Mapping[Any, Match]] = {"exact": "exact", "subset": "subset", "schema": "schema", "ignore": "ignore"}


def listed(names: str | Sequence[str]) -> list[str]:
    """Names, of which there may be one; each once."""
    return [names] if isinstance(names, str) else list(dict.fromkeys(names))


def shown(call: WantedCall | CaseCall) -> dict[str, Any]:
    """A call as it is shown in the details of a score."""
    arguments = call.arguments if isinstance(call, WantedCall) or call.parsed is UNSET else call.parsed
    return {"name": call.name} if arguments is UNSET else {"name": call.name, "arguments": arguments}


# How calls fit


def fits(call: CaseCall, wanted: WantedCall, match: Match) -> bool:
    """Is it the wanted call? What the wanted call says itself goes before `match`."""
    return call.name == wanted.name and arguments_fit(call, wanted.arguments, wanted.match or match)


def arguments_fit(call: CaseCall, wanted: Any | UnsetType, match: Match) -> bool:
    """Are these the wanted arguments? Arguments that cannot be parsed never are, unless nothing is wanted of them."""
    if match == "ignore" or wanted is UNSET:
        return True
    if call.parsed is UNSET:
        return False
    match match:
        case "exact":
            return same(call.parsed, wanted)
        case "subset":
            return json_contains(call.parsed, wanted)
        case "schema":
            return not misfits(call.parsed, wanted)


# How a sequence of calls fits


class Sequenced(msgspec.Struct, frozen=True):
    """How the calls that were made compare with those wanted."""

    passed: bool
    score: float
    missing: tuple[WantedCall, ...]
    """Wanted, and not made."""
    unexpected: tuple[CaseCall, ...]
    """Made, and not wanted."""


def compare(made: Sequence[CaseCall], wanted: Sequence[WantedCall], *, mode: Mode, match: Match) -> Sequenced:
    """Each wanted call takes the first fitting one that is free; `strict` and `in_order` also look at the order."""
    table = [[fits(call, want, match) for call in made] for want in wanted]
    taken = _taken(table)
    common = len(taken)
    longest = max(len(made), len(wanted))
    match mode:
        case "strict":
            passed = len(made) == len(wanted) and all(row[place] for place, row in enumerate(table))
            score = _share(_in_order(table), longest)
        case "in_order":
            score = _share(_in_order(table), len(wanted))
            passed = score == 1
        case "unordered":
            passed = common == len(made) == len(wanted)
            score = _share(common, longest)
        case "subset":
            passed = common == len(made)
            score = _share(common, len(made))
        case "superset":
            passed = common == len(wanted)
            score = _share(common, len(wanted))
    return Sequenced(
        passed=passed,
        score=score,
        missing=tuple(want for place, want in enumerate(wanted) if place not in taken),
        unexpected=tuple(call for place, call in enumerate(made) if place not in taken.values()),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def _taken(table: Sequence[Sequence[bool]]) -> dict[int, int]:
    """By the place of a wanted call, that of the made one which it takes."""
    taken: dict[int, int] = {}
    used: set[int] = set()
    for want, row in enumerate(table):
        place = next((place for place, fit in enumerate(row) if fit and place not in used), None)
        if place is not None:
            taken[want] = place
            used.add(place)
    return taken


def _in_order(table: Sequence[Sequence[bool]]) -> int:
    """The length of the longest common subsequence."""
    best = [0] * (len(table[0]) + 1) if table else [0]
    for row in table:
        above = best
        best = [0]
        for place, fit in enumerate(row, 1):
            best.append(above[place - 1] + 1 if fit else max(above[place], best[place - 1]))
    return best[-1]
