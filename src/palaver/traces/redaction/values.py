"""Redact JSON values in one pass: path rules, detectors, and names whose values are never stored."""

import re
from collections.abc import Mapping
from typing import Any, cast

from palaver.core import json
from palaver.traces.model import Redaction
from palaver.traces.redaction.detectors import (
    MASK,
    TextRedactor,
    is_placeholder,
    may_hold_sensitive_name,
    sensitive_name_rule,
)
from palaver.traces.redaction.rules import Action, PathMatcher

MAX_REDACTIONS = 100
_MAX_PATH_CHARS = 1_000
_MAX_STEP_CHARS = 512


class RedactionTally:
    """A place that moves through a record, and counts of what was removed at it."""

    def __init__(self) -> None:
        self.at: list[str | int] = []
        """Names and indexes, from the field of the record down."""
        self.changes = 0
        """How often something was put in place of something."""
        self._counts: dict[tuple[str, str], int] = {}

    def enter(self, step: str | int) -> None:
        """One step down."""
        self.at.append(step if isinstance(step, int) else step[:_MAX_STEP_CHARS])

    def leave(self) -> None:
        """And up again."""
        self.at.pop()

    def count(self, by: str, count: int = 1) -> None:
        """Something was removed here, by that detector or rule."""
        self.changes += count
        path = ".".join("*" if isinstance(step, int) else step for step in self.at)[:_MAX_PATH_CHARS]
        if (path, by) not in self._counts and len(self._counts) >= MAX_REDACTIONS:
            path = "*"
        self._counts[path, by] = self._counts.get((path, by), 0) + count

    def redactions(self) -> tuple[Redaction, ...]:
        """What was removed."""
        return tuple(Redaction(path, by, count) for (path, by), count in self._counts.items())

    def words(self) -> tuple[str, ...]:
        """Which names of the map that stands here have values that are words and times of ours."""
        match self.at:
            case ["messages_in" | "messages_out", _]:
                return ("role",)
            case ["messages_in" | "messages_out", _, "parts", _]:
                return ("type",)
            case ["messages_in" | "messages_out", _, "parts", _, "annotations", _]:
                return ("kind",)
            case ["events", _]:
                return ("at",)
            case ["links", _]:
                return ("trace_id", "span_id")
            case _:
                return ()

    def structure(self) -> tuple[str, ...]:
        """The same, and those by which one part finds another."""
        words = self.words()
        return (*words, "call_id", "media_type") if words == ("type",) else words


DROPPED: Any = object()
"""Stands for a value that is to be left out."""
_MIN_CHECKED_NUMBER = 10**12
_REQUIRED_FIELD_DEPTHS = {
    "messages_in": (3, 5),
    "messages_out": (3, 5),
    "tools": (3,),
    "tool": (2,),
    "exception": (2,),
    "events": (3,),
}
"""How deep fields of ours are, as against what they hold."""
_TYPED_FIELDS = frozenset({*_REQUIRED_FIELD_DEPTHS, "links"})
_MAP_FIELDS = frozenset({"attributes", "parameters"})

PathRule = tuple[str, PathMatcher, Action]


class ValueRedactor:
    """One pass over one record. Counts what it removes, and remembers the values that rules about places removed."""

    def __init__(self, paths: list[PathRule], detectors: TextRedactor) -> None:
        self._paths = paths
        self._detectors = detectors
        self._real = 0
        """How many values a rule has found something in that was still there."""
        self.tally = RedactionTally()
        self.removed: dict[Any, tuple[str, str]] = {}
        """What rules about places removed: what stands in place of it, and the rule."""

    def field(self, name: str, value: Any) -> Any:
        """A field of a record, or DROPPED."""
        self.tally.at = [name]
        return self._value(value)

    def _value(self, value: Any) -> Any:
        if self._paths and value is not None and not is_placeholder(value):
            path = ".".join(map(str, self.tally.at))
            for pattern, matches, action in self._paths:
                if matches(path):
                    return self._taken(value, pattern, action)
        return self._inside(value)

    def _inside(self, value: Any) -> Any:
        match value:
            case str():
                return self._text(value)
            case list() | tuple():
                items = [self._item(index, item) for index, item in enumerate(cast("list[Any]", value))]
                return [item for item in items if item is not DROPPED]
            case dict():
                return self._map(cast("dict[str, Any]", value))
            case int() if abs(value) >= _MIN_CHECKED_NUMBER and type(value) is int:
                text = self._text(str(value))
                return value if text == str(value) else text
            case _:
                return value

    def _item(self, step: str | int, value: Any) -> Any:
        self.tally.enter(step)
        found = self._value(value)
        self.tally.leave()
        return found

    def _map(self, value: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        words = self.tally.words()
        for key, item in value.items():
            if key in words:
                found[key] = item
                continue
            name = self._name(key, found)
            rule = sensitive_name_rule(key)
            if rule and item is not None and type(item) is not bool and not is_placeholder(item):
                self.tally.enter(name)
                self.tally.count(rule)
                self.tally.leave()
                found[name] = MASK
            elif (new := self._item(name, item)) is not DROPPED:
                found[name] = new
        return found

    def _name(self, key: str, taken: Mapping[str, Any]) -> str:
        """A name is a text as well. Two that are masked must not become one."""
        name, finds = self._detectors.cleaned(key)
        if not finds:
            return key
        for by, count in finds:
            self.tally.count(by, count)
        number, free = len(taken), name  # Not from one on: there may be many.
        while free in taken:
            number += 1
            free = f"{name} {number}"
        return free

    def _text(self, text: str) -> str:
        clean, finds = self._detectors.cleaned(text)
        if text.lstrip()[:1] in {"{", "["} and (finds or may_hold_sensitive_name(text)):
            # A JSON text stays one, with what is found in its values, not across them.
            value = json.parse_or_text(text)
            if value is not text:
                before = self.tally.changes
                value = self._opened(value)
                if self.tally.changes > before:
                    return value if value is MASK else json.encode(value).decode()
        for by, count in finds:
            self.tally.count(by, count)
        return clean

    def _opened(self, value: Any) -> Any:
        """The value of a JSON text: no rule names a place in it. One of texts in texts without end is masked."""
        paths, depth = self._paths, len(self.tally.at)
        self._paths = []
        try:
            return self._inside(value)
        except RecursionError:
            del self.tally.at[depth:]
            self.tally.count("depth")
            return MASK
        finally:
            self._paths = paths

    # Rules about places

    def _taken(self, value: Any, pattern: str, action: Action) -> Any:
        """What stands in place of a value that a rule takes."""
        root, is_root = self.tally.at[0], len(self.tally.at) == 1
        self._real = int(type(value) is bool)
        emptied = self._deep(value, pattern, action)
        self.tally.changes += 1
        if self._real:
            self.tally.count(pattern)
        if action == "drop":
            # A field that its owner cannot be without is left empty.
            is_own = len(self.tally.at) in _REQUIRED_FIELD_DEPTHS.get(str(root), ()) and isinstance(
                value, str | list | tuple | dict
            )
            return type(cast("Any", value))() if is_own else DROPPED
        return emptied if root in _TYPED_FIELDS or (root in _MAP_FIELDS and is_root) else self._stand_in(value, action)

    def _stand_in(self, value: Any, action: Action) -> str:
        return self._detectors.hashed(value) if action == "hash" else MASK

    def _deep(self, value: Any, pattern: str, action: Action) -> Any:
        """The same structure, with nothing in it. Remembers what there was."""
        match value:
            case list() | tuple():
                return [
                    self._below(index, item, pattern, action) for index, item in enumerate(cast("list[Any]", value))
                ]
            case dict():
                structure = self.tally.structure()
                return {
                    key: item if key in structure else self._below(key, item, pattern, action)
                    for key, item in cast("dict[str, Any]", value).items()
                }
            case None | bool() | "":
                return value
            case _ if is_placeholder(value):
                return value
            case _:
                stand_in = self._stand_in(value, action)
                if not self._is_emptied(value, pattern, action):
                    self._real += 1
                    self.removed[value] = ("" if action == "drop" else stand_in, pattern)
                return stand_in

    def _is_emptied(self, value: Any, pattern: str, action: Action) -> bool:
        """Is it the JSON text of a value with nothing left in it?

        What is in such a text is removed too: a call's arguments may have been sent as the value that they stand for.
        """
        if type(value) is not str or value.lstrip()[:1] not in {"{", "["}:
            return False
        inside, before = json.parse_or_text(value), self._real
        if inside is value:
            return False
        self._deep(inside, pattern, action)
        return self._real == before

    def _below(self, step: str | int, value: Any, pattern: str, action: Action) -> Any:
        self.tally.enter(step)
        found = self._deep(value, pattern, action)
        self.tally.leave()
        return found


_MIN_SENT_CHARS, _MIN_DERIVED_CHARS = 3, 8
"""Characters of a removed text that is looked for inside of others: where it was sent, and in what was made of it."""
_MIN_NUMBER = 10
_MAX_WORK, _WORK_PER_TEXT, _WORK_PER_MATCH = 100_000_000, 50, 100_000
"""Comparisons of characters that one record may cost: about a tenth of a second."""

RemovedValues = Mapping[Any, tuple[str, str]]
"""What stands in place of each removed value, and the rule that removed it."""


class RemovedValueScrubber:
    """Removes them there too."""

    def __init__(self, removed: RemovedValues, tally: RedactionTally) -> None:
        self._removed = removed
        self._tally = tally
        self._work = 0

    def field(self, name: str, value: Any, *, as_sent: bool) -> Any:
        """The field without them. In what was sent they are looked for inside of other texts, and as names, too."""
        self._tally.at = [name]
        return self._scrubbed(value, _MIN_SENT_CHARS if as_sent else _MIN_DERIVED_CHARS)

    def _scrubbed(self, value: Any, shortest: int) -> Any:
        match value:
            case str():
                return self._scrubbed_text(value, shortest)
            case list() | tuple():
                return [self._stepped(index, item, shortest) for index, item in enumerate(cast("list[Any]", value))]
            case dict():
                return self._map(cast("dict[str, Any]", value), shortest)
            case int() | float() if (
                shortest == _MIN_SENT_CHARS and abs(value) >= _MIN_NUMBER and value in self._removed
            ):
                return self._replaced(value)
            case _:
                return value

    def _map(self, value: dict[str, Any], shortest: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        structure = self._tally.structure()
        at = self._tally.at
        is_anybodys = at[0] == "attributes" or (shortest == _MIN_SENT_CHARS and len(at) > 2)  # Not a name of our own.
        for key, item in value.items():
            name = self._replaced(key) if is_anybodys and key in self._removed else key
            found[name] = item if key in structure else self._stepped(name, item, shortest)
        return found

    def _stepped(self, step: str | int, value: Any, shortest: int) -> Any:
        self._tally.enter(step)
        found = self._scrubbed(value, shortest)
        self._tally.leave()
        return found

    def _scrubbed_text(self, text: str, shortest: int) -> str:
        if text in self._removed and (shortest == _MIN_SENT_CHARS or len(text) >= _MIN_SENT_CHARS):
            return self._replaced(text)
        if text.lstrip()[:1] in {"{", "["}:
            value = json.parse_or_text(text)
            if value is not text:
                before = self._tally.changes
                value = self._scrubbed(value, shortest)
                return json.encode(value).decode() if self._tally.changes > before else text
        self._work += len(self._removed) * (_WORK_PER_TEXT + len(text))
        if self._work > _MAX_WORK:
            self._tally.count("size")
            return MASK
        for leaf, (stand_in, pattern) in self._removed.items():
            if isinstance(leaf, str) and len(leaf) >= shortest and leaf in text:
                self._work += _WORK_PER_MATCH
                text, count = re.subn(_whole_word_pattern(leaf), lambda _, put=stand_in: put, text)
                if count:
                    self._tally.count(pattern, count)
        return text

    def _replaced(self, leaf: Any) -> str:
        stand_in, pattern = self._removed[leaf]
        self._tally.count(pattern)
        return stand_in


def _whole_word_pattern(text: str) -> str:
    """A pattern for the text where it is not part of a longer word."""
    before = r"(?<!\w)" if text[0].isalnum() else ""
    after = r"(?!\w)" if text[-1].isalnum() else ""
    return f"{before}{re.escape(text)}{after}"
