"""The wide search: the conversation in a value, in any dialect, as messages of ours, and where it stood.

The steps are those of strict.py, with more names, and these differences. Any dialect counts, and one message alone
does too. A text that is JSON is opened, three times on one path at most, but never what somebody said. A list that
holds just one list stands for that one. And a match has a side, that of the outermost key on its path which has one:
with a preference the first match of that side wins, else the first without a side, else the first of the other.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from palaver.core import dialects, jsons
from palaver.core.elements import Dialect, actor, has_gemini_part, is_message
from palaver.core.extraction.places import DEEPEST, HOPS, MOST_KEYS, SIDES, WIDE, Order, Path, Prefer, ordered
from palaver.core.extraction.reading import read
from palaver.core.kinds import Object, get, honest, is_list, is_object, is_text, items, plain
from palaver.core.messages import Message
from palaver.core.recognition import Stretch, name_of

_OBJECT, _LIST, _LEAVES = (dict,), (list,), (type(None), bool, int, float)
_STARTS = ("{", "[")
_BRACKETS = (("{", "}"), ("[", "]"))


class Conversation(msgspec.Struct, frozen=True):
    """What was found, and where."""

    messages: tuple[Message, ...]
    dialect: Dialect
    path: str
    """A JSON pointer to what was read, through texts as if they were open; that of `choices` for what stood in them."""
    side: Prefer | None = None


def read_conversation(value: object, prefer: Prefer | None = None) -> Conversation | None:
    """The conversation in a value, whatever dialect it is in; None where there is none. Nothing is raised."""
    order = ordered(WIDE, prefer)
    try:
        return _found(value, prefer, order)
    except Exception:  # Somebody's own dict, list or text, or what only claims to be one.
        return _found(honest(value), prefer, order)


def _found(value: object, prefer: Prefer | None, order: Order) -> Conversation | None:
    search = _Search(prefer, order)
    search.visit(value, _ROOT, None)
    found = search.found
    if found is None:
        return None
    path = "/" + "/".join(search.path) if search.path else ""  # No name that we know needs to be escaped.
    return Conversation(tuple(read(found)), name_of(found), path, search.side)


_Way = tuple[Path, int, int, tuple[Object, ...]]
"""How a value was reached: the path, how many keys lead to it, how many texts were opened on the way, and those of the
objects it stands in that may be messages. A plain tuple, as one is made for every object that is visited."""
_ROOT: _Way = ((), 0, 0, ())
_FAR = DEEPEST + 1


class _Search:
    """One search: the best match so far, and what was looked at."""

    __slots__ = ("_opened", "_order", "_prefer", "_refused", "_seen", "found", "path", "side")

    def __init__(self, prefer: Prefer | None, order: Order) -> None:
        self.found: list[Stretch] | None = None
        self.path: Path = ()
        self.side: Prefer | None = None
        self._prefer = prefer
        self._order = order
        self._seen: dict[int, int] = {}
        self._refused: dict[int, object] = {}
        """What is no messages, by its identity; kept, so that nothing else gets it."""
        self._opened: dict[tuple[int, Prefer | None], Any] = {}
        """What texts hold, by the text and the side: none is parsed twice there, and what was seen stays alive."""

    def visit(self, value: Any, way: _Way, side: Prefer | None) -> bool:
        """Look for messages in a value, and say whether the search is over."""
        if type(value) not in _OBJECT:
            value, way = self._entered(value, way, side)
            if is_list(value):  # 2
                return self._take(value, way[0], side)
            if not is_object(value):  # 1
                return False
        path, depth, hops, within = way
        seen, mark = self._seen, id(value)
        if seen.get(mark, _FAR) <= depth:
            return False
        seen[mark] = depth
        plan = self._order.known(tuple(value)) if len(value) <= MOST_KEYS and type(value) in _OBJECT else None
        keys, wrappers, answers, may_be_message = plan or self._order.plan(value)
        holders = (*within, value) if may_be_message else within
        for key in keys:  # 3
            found: Any = get(value, key)
            if type(found) in _LEAVES or (type(found) is str and not _may_open(found)):
                continue
            if type(found) in _LIST and len(found) > 1 and key != "contents":  # As most are.
                if self._take(found, (*path, key), side or SIDES.get(key)):
                    return True
            elif self._under(key, found, (path, depth, hops, holders), side):
                return True
        for steps in wrappers:  # 4
            inner, key, inner_holders = get(value, steps[0]), steps[0], holders
            if len(steps) > 1:  # `data/inputs`
                if not is_object(inner):
                    continue
                inner, key, inner_holders = get(inner, steps[1]), steps[1], (*holders, inner)
            if type(inner) in _LEAVES or (type(inner) is str and not _may_open(inner)):
                continue
            below = ((*path, *steps), depth + len(steps), hops, inner_holders)
            if depth + len(steps) <= DEEPEST and self.visit(inner, below, side or SIDES.get(key)):
                return True
        if answers and self._in_answers(value, path, side):  # 5
            return True
        return may_be_message and self._take(value, path, side)  # 6

    def _under(self, key: str, found: Any, way: _Way, side: Prefer | None) -> bool:
        """The list, or the message, under a key. A text under `message` is what somebody said."""
        path, side = (*way[0], key), side or SIDES.get(key)
        if type(found) not in _OBJECT and (type(found) not in _LIST or len(found) == 1):
            if key == "message" and is_text(found):
                return False
            found, (path, *_) = self._entered(found, (path, *way[1:]), side)
            if not is_list(found) and not is_object(found):
                return False
        if self._take(found, path, side):
            return True
        return key == "contents" and id(found) in self._refused and self._take(_with_users(found), path, side)

    def _in_answers(self, value: Object, path: Path, side: Prefer | None) -> bool:
        """What the answers of models' APIs hold: choices, candidates, generations, or content that has parts."""
        for key, said in _ANSWERS.items():
            held = get(value, key)
            messages = said(items(held)) if is_list(held) else []
            if messages and self._take(messages, (*path, key), side or SIDES.get(key)):
                return True
        content = get(value, "content")
        if is_object(content) and is_list(get(content, "parts")) and actor(value) is None:
            return self._take(content, (*path, "content"), side)
        return False

    def _take(self, found: object, path: Path, side: Prefer | None) -> bool:
        """A match, if it is messages; the search is over when none that may follow would be better."""
        rank = 0 if self._prefer is None else self._rank(side)
        if (self.found is not None and rank >= self._rank(self.side)) or id(found) in self._refused:
            return False
        recognised = dialects.recognised(found)
        if recognised is None:
            self._refused[id(found)] = found
            return False
        self.found, self.path, self.side = recognised, path, side
        return rank == 0

    def _rank(self, side: Prefer | None) -> int:
        """0 for the side that is preferred, 1 for none, 2 for the other; without a preference every side is."""
        return 0 if self._prefer is None or self._prefer == side else 1 if side is None else 2

    def _entered(self, value: Any, way: _Way, side: Prefer | None) -> tuple[Any, _Way]:
        """The value of a text that is JSON; of a list that holds just one list, that one."""
        path, depth, hops, within = way
        while type(value) not in _LIST and is_text(value) and hops < HOPS:
            text = (id(value), side)
            inner = self._opened.get(text, value)
            if inner is value and _may_be_json(value) and not any(map(is_message, within)):
                inner = self._opened[text] = jsons.opened(value)
            if inner is value:
                break
            value, hops = inner, hops + 1
        if is_list(value):
            held = items(value)
            if len(held) == 1 and is_list(held[0]):
                return held[0], ((*path, "0"), depth, hops, within)
        return value, (path, depth, hops, within)


def _may_open(text: str) -> bool:
    """A first look: most texts are prose."""
    start = text[:1]
    return start in _STARTS or start.isspace()


def _may_be_json(text: str) -> bool:
    """Does it start and end as a container does? A text of some length is looked at, not copied."""
    start, end = text[:1], text[-1:]
    if start.isspace() or end.isspace():
        text = text.strip()
        start, end = text[:1], text[-1:]
    return (start, end) in _BRACKETS


# What the answers of models' APIs say


def _choices(choices: list[Any]) -> list[Any]:
    """Of each choice its message, else its delta, which without a role is the assistant's."""
    said: list[Any] = []
    for choice in choices:
        message, delta = _object(choice, "message"), _object(choice, "delta")
        if message is not None:
            said.append(message)
        elif delta is not None:
            said.append(delta if actor(delta) is not None else _by(delta, "assistant"))
    return said


def _candidates(candidates: list[Any]) -> list[Any]:
    contents = [_object(candidate, "content") for candidate in candidates]
    return [content for content in contents if content is not None]


def _generations(generations: list[Any]) -> list[Any]:
    messages = [_object(one, "message") for batch in generations if is_list(batch) for one in items(batch)]
    return [message for message in messages if message is not None]


def _object(holder: object, key: str) -> Object | None:
    """The object under a key; none, or an empty one, counts as missing."""
    held = get(holder, key) if is_object(holder) else None
    return held if is_object(held) and Object.__len__(held) else None


_ANSWERS: Mapping[str, Callable[[list[Any]], list[Any]]] = {
    "choices": _choices,
    "candidates": _candidates,
    "generations": _generations,
}


def _with_users(found: Any) -> Any:
    """Gemini's contents, in which a role that is left out is the user's."""
    return [_with_user(element) for element in items(found)] if is_list(found) else _with_user(found)


def _with_user(element: Any) -> Any:
    if is_object(element) and actor(element) is None and has_gemini_part(element):
        return _by(element, "user")
    return element


def _by(message: Object, role: str) -> Object:
    return {**(plain(message) or {}), "role": role}
