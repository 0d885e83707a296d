"""Find the conversation in any value: unchanged (strict), or read from every dialect (extended).

Both searches take these steps; the numbers are repeated in the code:

    1  null, text, numbers, any leaf   nothing
    2  a list                          the list itself, if it is messages; its elements are not searched
    3  an object: its keys             the list under the first known key, group by group, that is messages
    4  its wrappers                    these steps again on each, in order
    5  its choices                     their messages, or else deltas, if together they are messages
    6  the object itself               alone in a list, if it is a message
    7                                  nothing

A preference changes the order, never whether something is found. Values are visited to a depth of six keys; an object
is visited again only if it is reached at a smaller depth.

The extended search has more keys, and accepts any dialect and single messages. A JSON text is decoded, at most three
times on one path, but not inside messages. A list that only holds one list is replaced by it. The side of a match is
that of the outermost key on its path which has one: with a preference, the first match of that side wins, else the
first without a side, else the first of the other. A history is completed with the question beside it (`current_turn`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core import json
from palaver.core.dialects.detection import (
    Dialect,
    Segment,
    has_gemini_part,
    is_chat_messages,
    is_message,
    is_message_pair,
    primary_dialect,
    speaker_role,
    split_by_dialect,
)
from palaver.core.extraction.current_turn import add_current_turn, is_first_turn
from palaver.core.extraction.locations import (
    MAX_CACHED_KEYS,
    MAX_NESTED_TEXTS,
    MAX_SEARCH_DEPTH,
    SIDES,
    STRICT,
    WIDE,
    Names,
    Path,
    Prefer,
    SearchOrder,
    search_order,
)
from palaver.core.extraction.messages import read_found_messages
from palaver.core.json import Object, as_dict, dict_get, is_list, is_object, is_text, list_items, plain_copy
from palaver.core.messages import Message


class Conversation(msgspec.Struct, frozen=True):
    """A conversation found in a value."""

    messages: tuple[Message, ...]
    dialect: Dialect
    path: str
    """A JSON pointer to the messages, or to `choices`; it passes through decoded JSON strings."""
    side: Prefer | None = None
    other_paths: tuple[str, ...] | UnsetType = UNSET
    """JSON pointers to the question and the answer beside a history, or to the history beside a question."""

    @property
    def root_keys(self) -> frozenset[str]:
        """The keys of the value below which the conversation was found."""
        return frozenset(path.split("/", 2)[1] for path in (self.path, *(self.other_paths or ())) if path)


def extract_chat_messages(value: object, prefer: Prefer | None = None) -> list[Any] | None:
    """Return the messages in a value, unchanged; None if it holds no conversation. Never raises, whatever the value.

    Only finds lists of `{role, content}` and similar objects. `read_conversation` finds more.

    Args:
        value: Any JSON, such as the inputs or outputs of a trace.
        prefer: Which conversation to return if there are several: that of the input or that of the output.

    Example:
        from palaver import extract_chat_messages

        messages = [{"role": "user", "content": "Hi"}]
        assert extract_chat_messages({"inputs": {"messages": messages}}) == messages
        assert extract_chat_messages({"question": "Hi"}) is None
    """
    order = search_order(STRICT, prefer)
    try:
        return _search_strict(value, 0, order, {})
    except Exception:  # Foreign objects, whose methods may raise anything.
        return _search_strict(plain_copy(value), 0, order, {})


def _search_strict(value: object, depth: int, order: SearchOrder, seen: dict[int, int]) -> list[Any] | None:
    if is_list(value):  # 2
        return value if is_chat_messages(value) else None
    if not is_object(value) or seen.get(id(value), MAX_SEARCH_DEPTH + 1) <= depth:  # 1
        return None
    seen[id(value)] = depth
    plan = order.plan(value)
    messages = _search_keys(value, plan.keys)  # 3
    if messages is None and plan.wrappers:
        messages = _search_wrappers(value, plan.wrappers, depth, order, seen)  # 4
    if messages is None and plan.has_responses:
        messages = _search_choices(dict_get(value, "choices"))  # 5
    if messages is None and plan.is_message and is_chat_messages([value]):
        messages = [value]  # 6
    return messages  # 7


def _search_keys(value: Object, keys: Names) -> list[Any] | None:
    for key in keys:
        listed = dict_get(value, key)
        if is_list(listed) and is_chat_messages(listed):
            return listed
    return None


def _search_wrappers(
    value: Object, wrappers: Sequence[Path], depth: int, order: SearchOrder, seen: dict[int, int]
) -> list[Any] | None:
    for path in wrappers:
        inner: Any = value
        for key in path:
            inner = dict_get(inner, key) if is_object(inner) else None
        if inner is not None and depth + len(path) <= MAX_SEARCH_DEPTH:
            messages = _search_strict(inner, depth + len(path), order, seen)
            if messages is not None:
                return messages
    return None


def _search_choices(choices: object) -> list[Any] | None:
    candidates = [_choice_message(choice) for choice in list_items(choices)] if is_list(choices) else []
    messages = [message for message in candidates if message is not None]
    return messages if is_chat_messages(messages) else None


def _choice_message(choice: object) -> Object | None:
    """Return the message of a choice, else its delta; an empty one counts as missing."""
    message = _get_object(choice, "message")
    return _get_object(choice, "delta") if message is None else message


_OBJECT, _LIST, _LEAVES = (dict,), (list,), (type(None), bool, int, float)
_OPENING_BRACKETS = ("{", "[")
_BRACKETS = (("{", "}"), ("[", "]"))


def read_conversation(value: object, prefer: Prefer | None = None) -> Conversation | None:
    """Return the conversation in a value, in any dialect; None if there is none. Never raises, whatever the value.

    The result has the `messages` as `Message` objects, the `dialect` in which they were written, the `path` to them as
    a JSON pointer, and the `side` on which they were found: `"input"`, `"output"` or None.

    Args:
        value: Any JSON, such as the inputs or outputs of a trace.
        prefer: Which conversation to return if there are several: that of the input or that of the output.

    Example:
        from palaver import read_conversation

        found = read_conversation({"output": {"contents": [{"role": "model", "parts": [{"text": "Hi"}]}]}})
        assert found is not None
        assert (found.messages[0].text, found.dialect) == ("Hi", "gemini")
        assert found.path == "/output/contents"
    """
    order = search_order(WIDE, prefer)
    try:
        return _search_extended(value, prefer, order)
    except Exception:  # Subclasses of dict, list or str, whose methods may raise anything.
        return _search_extended(plain_copy(value), prefer, order)


def _search_extended(value: object, prefer: Prefer | None, order: SearchOrder) -> Conversation | None:
    search = _Search(prefer, order)
    search.visit(value, _ROOT, None)
    segments = search.segments
    if segments is None:
        return None
    path, messages, other_paths = search.path, tuple(read_found_messages(segments)), UNSET
    if search.holder is not None:
        holder, holder_path = search.holder
        messages, keys = add_current_turn(messages, path[len(holder_path)], holder, prefer)
        other_paths = tuple([_pointer((*holder_path, key)) for key in keys]) or UNSET
    return Conversation(messages, primary_dialect(segments), _pointer(path), search.side, other_paths)


def _pointer(path: Path) -> str:
    return "/" + "/".join(path) if path else ""  # None of the known keys needs escaping.


_Route = tuple[Path, int, int, tuple[Object, ...]]
"""The path to a value, its depth, the number of decoded texts on the path, and the enclosing objects that may be
messages. A plain tuple, because one is made for every visited object."""
_ROOT: _Route = ((), 0, 0, ())
_NOT_VISITED = MAX_SEARCH_DEPTH + 1
_NO_MESSAGES = [Segment("chat-completions", [])]


class _Search:
    __slots__ = (
        "_current",
        "_decoded",
        "_order",
        "_prefer",
        "_rejected",
        "_seen",
        "holder",
        "path",
        "segments",
        "side",
    )

    def __init__(self, prefer: Prefer | None, order: SearchOrder) -> None:
        self.segments: list[Segment] | None = None
        self.path: Path = ()
        self.side: Prefer | None = None
        self.holder: tuple[Object, Path] | None = None
        """The object that has the match under one of its keys, and its path."""
        self._current: tuple[Object, Path] | None = None
        """The object whose keys are being tried."""
        self._prefer = prefer
        self._order = order
        self._seen: dict[int, int] = {}
        self._rejected: dict[int, object] = {}
        """Values that are not messages, by id; referenced so that no id is reused."""
        self._decoded: dict[tuple[int, Prefer | None], Any] = {}
        """Decoded texts, by id and side."""

    def visit(self, value: Any, route: _Route, side: Prefer | None) -> bool:
        """Search a value; return whether the search is finished."""
        if type(value) not in _OBJECT:
            value, route = self._unwrap(value, route, side)
            if is_list(value):  # 2
                return self._record_match(value, route[0], side)
            if not is_object(value):  # 1
                return False
        path, depth, nested_texts, outer_ancestors = route
        seen, value_id = self._seen, id(value)
        if seen.get(value_id, _NOT_VISITED) <= depth:
            return False
        seen[value_id] = depth
        plan = self._order.cached(tuple(value)) if len(value) <= MAX_CACHED_KEYS and type(value) in _OBJECT else None
        keys, wrappers, has_responses, may_be_message = plan or self._order.plan(value)
        ancestors = (*outer_ancestors, value) if may_be_message else outer_ancestors
        self._current = (value, path)
        for key in keys:  # 3
            candidate: Any = dict_get(value, key)
            if type(candidate) in _LEAVES or (type(candidate) is str and not _starts_like_json(candidate)):
                continue
            if type(candidate) in _LIST and len(candidate) > 1 and key != "contents":
                if self._record_match(candidate, (*path, key), side or SIDES.get(key)):
                    return True
            elif self._search_key(key, candidate, (path, depth, nested_texts, ancestors), side):
                return True
        self._current = None
        for steps in wrappers:  # 4
            inner, key, inner_ancestors = dict_get(value, steps[0]), steps[0], ancestors
            if len(steps) > 1:  # `data/inputs`
                if not is_object(inner):
                    continue
                inner, key, inner_ancestors = dict_get(inner, steps[1]), steps[1], (*ancestors, inner)
            if type(inner) in _LEAVES or (type(inner) is str and not _starts_like_json(inner)):
                continue
            below = ((*path, *steps), depth + len(steps), nested_texts, inner_ancestors)
            if depth + len(steps) <= MAX_SEARCH_DEPTH and self.visit(inner, below, side or SIDES.get(key)):
                return True
        if has_responses and self._search_responses(value, path, side):  # 5
            return True
        return may_be_message and self._record_match(value, path, side)  # 6

    def _search_key(self, key: str, candidate: Any, route: _Route, side: Prefer | None) -> bool:
        """Try the list or message under a key. A text under `message` is content, not JSON to decode."""
        path, side = (*route[0], key), side or SIDES.get(key)
        if type(candidate) not in _OBJECT and (type(candidate) not in _LIST or len(candidate) == 1):
            if key == "message" and is_text(candidate):
                return False
            candidate, (path, *_) = self._unwrap(candidate, (path, *route[1:]), side)
            if not is_list(candidate) and not is_object(candidate):
                return False
        if self._record_match(candidate, path, side):
            return True
        return (
            key == "contents"
            and id(candidate) in self._rejected
            and self._record_match(_add_user_roles(candidate), path, side)
        )

    def _search_responses(self, value: Object, path: Path, side: Prefer | None) -> bool:
        """Try responses of model APIs: choices, candidates, generations, or content with parts."""
        for key, read_messages in _RESPONSE_READERS.items():
            listed = dict_get(value, key)
            messages = read_messages(list_items(listed)) if is_list(listed) else []
            if messages and self._record_match(messages, (*path, key), side or SIDES.get(key)):
                return True
        content = dict_get(value, "content")
        if is_object(content) and is_list(dict_get(content, "parts")) and speaker_role(value) is None:
            return self._record_match(content, (*path, "content"), side)
        return False

    def _record_match(self, candidate: object, path: Path, side: Prefer | None) -> bool:
        """Record a match, if it is messages; return whether no better match is possible."""
        rank = 0 if self._prefer is None else self._rank(side)
        if (self.segments is not None and rank >= self._rank(self.side)) or id(candidate) in self._rejected:
            return False
        segments = split_by_dialect(candidate)
        if segments is None:
            if candidate != [] or self._current is None or not is_first_turn(path[-1], self._current[0]):
                self._rejected[id(candidate)] = candidate
                return False
            segments = _NO_MESSAGES
        self.segments, self.path, self.side, self.holder = segments, path, side, self._current
        return rank == 0

    def _rank(self, side: Prefer | None) -> int:
        """Return 0 for the preferred side, 1 for no side, 2 for the other; always 0 without a preference."""
        return 0 if self._prefer is None or self._prefer == side else 1 if side is None else 2

    def _unwrap(self, value: Any, route: _Route, side: Prefer | None) -> tuple[Any, _Route]:
        """Decode a JSON text, and enter a list that holds just one list."""
        path, depth, nested_texts, ancestors = route
        while type(value) not in _LIST and is_text(value) and nested_texts < MAX_NESTED_TEXTS:
            key = (id(value), side)
            inner = self._decoded.get(key, value)
            if inner is value and _may_be_json(value) and not any(map(is_message, ancestors)):
                inner = self._decoded[key] = json.decode_or_text(value)
            if inner is value:
                break
            value, nested_texts = inner, nested_texts + 1
        if is_list(value):
            items = list_items(value)
            if len(items) == 1 and is_list(items[0]) and not is_message_pair(items[0]):
                return items[0], ((*path, "0"), depth, nested_texts, ancestors)
        return value, (path, depth, nested_texts, ancestors)


def _starts_like_json(text: str) -> bool:
    """Whether the text may be JSON, by its first character: most texts are prose."""
    start = text[:1]
    return start in _OPENING_BRACKETS or start.isspace()


def _may_be_json(text: str) -> bool:
    """Whether the text starts and ends like a JSON list or object; avoids a copy."""
    start, end = text[:1], text[-1:]
    if start.isspace() or end.isspace():
        text = text.strip()
        start, end = text[:1], text[-1:]
    return (start, end) in _BRACKETS


# Responses of model APIs


def _choice_messages(choices: list[Any]) -> list[Any]:
    """Return the message of each choice, else its delta, with the role assistant by default."""
    messages: list[Any] = []
    for choice in choices:
        message, delta = _get_object(choice, "message"), _get_object(choice, "delta")
        if message is not None:
            messages.append(message)
        elif delta is not None:
            messages.append(delta if speaker_role(delta) is not None else _set_role(delta, "assistant"))
    return messages


def _candidate_messages(candidates: list[Any]) -> list[Any]:
    contents = [_get_object(candidate, "content") for candidate in candidates]
    return [content for content in contents if content is not None]


def _generation_messages(generations: list[Any]) -> list[Any]:
    messages = [_get_object(item, "message") for batch in generations if is_list(batch) for item in list_items(batch)]
    return [message for message in messages if message is not None]


def _get_object(container: object, key: str) -> Object | None:
    value = dict_get(container, key) if is_object(container) else None
    return value if is_object(value) and Object.__len__(value) else None


_RESPONSE_READERS: Mapping[str, Callable[[list[Any]], list[Any]]] = {
    "choices": _choice_messages,
    "candidates": _candidate_messages,
    "generations": _generation_messages,
}


def _add_user_roles(contents: Any) -> Any:
    """Fill in the role of Gemini contents, which defaults to the user."""
    return [_add_user_role(item) for item in list_items(contents)] if is_list(contents) else _add_user_role(contents)


def _add_user_role(element: Any) -> Any:
    if is_object(element) and speaker_role(element) is None and has_gemini_part(element):
        return _set_role(element, "user")
    return element


def _set_role(message: Object, role: str) -> Object:
    return {**(as_dict(message) or {}), "role": role}
