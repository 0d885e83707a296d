"""JSON values: walked once, with rules about places, rules about texts, and names that are never kept."""

from collections.abc import Mapping
from typing import Any, cast

from palaver.core import json
from palaver.traces.redaction.rules import Action, Matches
from palaver.traces.redaction.tally import Tally
from palaver.traces.redaction.texts import MASK, Detectors, is_stand_in, may_be_sensitive, sensitive

DROPPED: Any = object()
"""Stands for a value that is to be left out."""
_LARGE_NUMBER = 10**12
_OWN = {"messages_in": (3, 5), "messages_out": (3, 5), "tools": (3,), "tool": (2,), "exception": (2,), "events": (3,)}
"""How deep fields of ours are, as against what they hold."""
_TYPED = frozenset({*_OWN, "links"})
_MAPS = frozenset({"attributes", "parameters"})

PathRule = tuple[str, Matches, Action]


class Pass:
    """One pass over one record. Counts what it removes, and remembers the values that rules about places removed."""

    def __init__(self, paths: list[PathRule], detectors: Detectors) -> None:
        self._paths = paths
        self._detectors = detectors
        self._real = 0
        """How many values a rule has found something in that was still there."""
        self.tally = Tally()
        self.removed: dict[Any, tuple[str, str]] = {}
        """What rules about places removed: what stands in place of it, and the rule."""

    def field(self, name: str, value: Any) -> Any:
        """A field of a record, or DROPPED."""
        self.tally.at = [name]
        return self._value(value)

    def _value(self, value: Any) -> Any:
        if self._paths and value is not None and not is_stand_in(value):
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
            case int() if abs(value) >= _LARGE_NUMBER and type(value) is int:
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
            rule = sensitive(key)
            if rule and item is not None and type(item) is not bool and not is_stand_in(item):
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
        if text.lstrip()[:1] in {"{", "["} and (finds or may_be_sensitive(text)):
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
            is_own = len(self.tally.at) in _OWN.get(str(root), ()) and isinstance(value, str | list | tuple | dict)
            return type(cast("Any", value))() if is_own else DROPPED
        return emptied if root in _TYPED or (root in _MAPS and is_root) else self._stand_in(value, action)

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
            case _ if is_stand_in(value):
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
