"""The wide search: the conversation in a value, in any dialect, as messages of ours, and where it stood.

The steps are those of strict.py, with more names, and these differences. Any dialect counts, and one message alone
does too. A text that is JSON is opened, three times on one path at most, but never what somebody said. A list that
holds just one list stands for that one. And a match has a side, that of the outermost key on its path which has one:
with a preference the first match of that side wins, else the first without a side, else the first of the other.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from palaver.core import dialects, jsons
from palaver.core.extraction.strict import DEEPEST, Prefer
from palaver.core.messages import Message
from palaver.core.recognition import Dialect, actor, dialect_of
from palaver.errors import InvalidMessages

_Object = dict[str, Any]
_get = _Object.get  # Not the value's own: it may be anybody's subclass.
_HOPS = 3

_INPUT_KEYS = [
    *"prompt input_messages input contents new_message".split(),
    *"gen_ai.input.messages llm.input_messages ai.prompt.messages".split(),
]
_OUTPUT_KEYS = "completion output_messages responses output gen_ai.output.messages llm.output_messages".split()
_NEUTRAL_KEYS = "messages message_history history chat conversation logs chat_history message".split()

_INPUT_WRAPPERS = (
    *(("inputs",), ("data", "inputs"), ("request",), ("input",), ("input.value",)),
    *(("mlflow.spanInputs",), ("traceloop.entity.input",), ("ai.prompt",)),
)
_OUTPUT_WRAPPERS = (
    *(("outputs",), ("data", "outputs"), ("response",), ("output",), ("result",), ("output.value",)),
    *(("mlflow.spanOutputs",), ("traceloop.entity.output",)),
)
_NEUTRAL_WRAPPERS = tuple((name,) for name in "data attributes ag gen_ai llm kwargs values body __default__".split())
_FIRST_WRAPPERS = tuple((name,) for name in "data inputs outputs request response".split())

_SIDES: dict[str, Prefer] = {
    **dict.fromkeys([*_INPUT_KEYS, *(path[-1] for path in _INPUT_WRAPPERS)], "input"),
    **dict.fromkeys([*_OUTPUT_KEYS, *(path[-1] for path in _OUTPUT_WRAPPERS)], "output"),
    **dict.fromkeys(("choices", "candidates", "generations"), "output"),
}


class Conversation(msgspec.Struct, frozen=True):
    """What was found, and where."""

    messages: tuple[Message, ...]
    dialect: Dialect
    path: str
    """A JSON pointer to what was read, through texts as if they were open; that of `choices` for what stood in them."""
    side: Prefer | None = None


class _Order(NamedTuple):
    keys: Sequence[str]
    wrappers: Sequence[tuple[str, ...]]


_ORDERS: dict[Prefer | None, _Order] = {
    "input": _Order(
        (*_INPUT_KEYS, *_NEUTRAL_KEYS, *_OUTPUT_KEYS), (*_INPUT_WRAPPERS, *_NEUTRAL_WRAPPERS, *_OUTPUT_WRAPPERS)
    ),
    "output": _Order(
        (*_OUTPUT_KEYS, *_NEUTRAL_KEYS, *_INPUT_KEYS), (*_OUTPUT_WRAPPERS, *_NEUTRAL_WRAPPERS, *_INPUT_WRAPPERS)
    ),
    None: _Order(
        (*_NEUTRAL_KEYS, *_INPUT_KEYS, *_OUTPUT_KEYS),
        tuple(dict.fromkeys((*_FIRST_WRAPPERS, *_NEUTRAL_WRAPPERS, *_INPUT_WRAPPERS, *_OUTPUT_WRAPPERS))),
    ),
}


class _Place(NamedTuple):
    """How a value was reached."""

    path: str = ""
    depth: int = 0
    hops: int = 0
    """Texts that were opened on the way."""
    side: Prefer | None = None

    def below(self, key: str) -> "_Place":
        side = self.side or _SIDES.get(key)
        return _Place(f"{self.path}/{jsons.escaped(key)}", self.depth + 1, self.hops, side)


class _Match(NamedTuple):
    found: Any
    place: _Place


def read_conversation(value: object, prefer: Prefer | None = None) -> Conversation | None:
    """The conversation in a value, whatever dialect it is in; None where there is none. Nothing is raised."""
    if prefer not in _ORDERS:
        raise ValueError(f"prefer must be None, 'input' or 'output', not {prefer!r}")
    best: _Match | None = None
    for match in _visit(value, _Place(), _ORDERS[prefer], {}):
        if prefer is None or match.place.side == prefer:
            best = match
            break
        if best is None or (best.place.side is not None and match.place.side is None):
            best = match
    return _read(best) if best is not None else None


def _read(match: _Match) -> Conversation | None:
    dialect = dialect_of(match.found)
    assert dialect is not None
    try:
        messages = dialects.read(match.found)
    except InvalidMessages:
        return None  # It holds what is no JSON.
    return Conversation(tuple(messages), dialect, match.place.path, match.place.side)


def _visit(value: object, place: _Place, order: _Order, seen: dict[int, int]) -> Iterator[_Match]:
    """Every match in a value, in the order of the search."""
    value, place = _opened(value, place)
    if isinstance(value, list):
        if value and dialect_of(cast("object", value)) is not None:
            yield _Match(cast("Any", value), place)
        return
    if not isinstance(value, dict) or seen.get(id(cast("object", value)), DEEPEST + 1) <= place.depth:
        return
    seen[id(cast("object", value))] = place.depth
    known = cast("_Object", value)
    yield from _under_keys(known, place, order)
    for path in order.wrappers:
        if place.depth + len(path) <= DEEPEST:
            inner, below = _followed(known, place, path)
            if isinstance(inner, list | dict | str):
                yield from _visit(cast("object", inner), below, order, seen)
    yield from _in_choices(known, place)
    if dialect_of(known) is not None:
        yield _Match(known, place)


def _under_keys(value: _Object, place: _Place, order: _Order) -> Iterator[_Match]:
    for key in order.keys:
        held = _get(value, key)
        if not isinstance(held, list | dict | str):
            continue
        below = place.below(key)
        if key == "message" and isinstance(held, str):
            continue  # What somebody said.
        found, where = _opened(cast("object", held), below)
        if key == "contents":
            found = _with_role(found, "user", has="parts")
        if isinstance(found, list | dict) and found and dialect_of(cast("object", found)) is not None:
            yield _Match(found, where)


def _followed(value: _Object, place: _Place, path: tuple[str, ...]) -> tuple[Any, _Place]:
    inner: Any = value
    for key in path:
        inner = _get(cast("_Object", inner), key) if isinstance(inner, dict) else None
        place = place.below(key)
    return inner, place


def _opened(value: object, place: _Place) -> tuple[Any, _Place]:
    """The value of a text that is JSON; of a list that holds just one list, that one."""
    while isinstance(value, str) and place.hops < _HOPS:
        text = value.strip()
        if (text[:1], text[-1:]) not in (("{", "}"), ("[", "]")):
            break
        read = jsons.parsed(text)
        if isinstance(read, str):
            break
        value, place = read, place._replace(hops=place.hops + 1)
    if isinstance(value, list):
        held = cast("list[Any]", value)
        if len(held) == 1 and isinstance(held[0], list):
            return cast("Any", held[0]), place._replace(path=f"{place.path}/0")
    return cast("Any", value), place


def _in_choices(value: _Object, place: _Place) -> Iterator[_Match]:
    """What the answers of models' APIs hold: choices, candidates, generations, or content that has parts."""
    for key, said in (("choices", _choices), ("candidates", _candidates), ("generations", _generations)):
        held = _get(value, key)
        if isinstance(held, list):
            messages = said(cast("list[Any]", held))
            if messages and dialect_of(messages) is not None:
                yield _Match(messages, place.below(key))
    content = _get(value, "content")
    if isinstance(content, dict) and isinstance(_get(cast("_Object", content), "parts"), list) and actor(value) is None:
        found = _with_role(cast("_Object", content), "model")
        if dialect_of(found) is not None:
            yield _Match(found, place.below("content"))


def _choices(choices: list[Any]) -> list[Any]:
    said: list[Any] = []
    for choice in choices:
        match choice:
            case {"message": dict()} if choice["message"]:
                said.append(choice["message"])
            case {"delta": dict()} if choice["delta"]:
                said.append(_with_role(choice["delta"], "assistant"))
            case _:
                pass
    return said


def _candidates(candidates: list[Any]) -> list[Any]:
    contents = [_get(cast("_Object", one), "content") for one in candidates if isinstance(one, dict)]
    return [_with_role(content, "model") for content in contents if isinstance(content, dict)]


def _generations(generations: list[Any]) -> list[Any]:
    listed = [one for batch in generations if isinstance(batch, list) for one in cast("list[Any]", batch)]
    messages = [_get(cast("_Object", one), "message") for one in listed if isinstance(one, dict)]
    return [message for message in messages if isinstance(message, dict)]


def _with_role(value: Any, role: str, has: str | None = None) -> Any:
    """The messages, each that has no role with this one (`has`: each that holds such a field)."""
    if isinstance(value, list):
        return [_with_role(element, role, has) for element in cast("list[Any]", value)]
    if isinstance(value, dict) and actor(cast("_Object", value)) is None and (has is None or has in value):
        return {"role": role, **cast("_Object", value)}
    return cast("Any", value)
