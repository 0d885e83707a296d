"""Redact JSON values in one pass: path rules, detectors, and names whose values are never stored.

Values that path rules removed are then searched for in the other fields, because attributes repeat them.
"""

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
    """The current path in a record, and counts of removals at each path."""

    def __init__(self) -> None:
        self.steps: list[str | int] = []
        """The current path: names and indexes, starting with the record's field."""
        self.changes = 0
        """Number of replacements."""
        self._counts: dict[tuple[str, str], int] = {}

    def enter(self, step: str | int) -> None:
        self.steps.append(step if isinstance(step, int) else step[:_MAX_STEP_CHARS])

    def leave(self) -> None:
        self.steps.pop()

    def count(self, by: str, count: int = 1) -> None:
        """Count what a detector or rule removed at the current path."""
        self.changes += count
        path = ".".join("*" if isinstance(step, int) else step for step in self.steps)[:_MAX_PATH_CHARS]
        if (path, by) not in self._counts and len(self._counts) >= MAX_REDACTIONS:
            path = "*"
        self._counts[path, by] = self._counts.get((path, by), 0) + count

    def redactions(self) -> tuple[Redaction, ...]:
        return tuple(Redaction(path, by, count) for (path, by), count in self._counts.items())

    def enum_keys(self) -> tuple[str, ...]:
        """Return the keys of the current map whose values are enumerations, times and ids, not content."""
        match self.steps:
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

    def structural_keys(self) -> tuple[str, ...]:
        """Return the keys of `enum_keys` and those by which parts refer to each other."""
        keys = self.enum_keys()
        return (*keys, "call_id", "media_type") if keys == ("type",) else keys


DROPPED: Any = object()
"""Marks a value to be left out."""
_MIN_CHECKED_NUMBER = 10**12
_REQUIRED_FIELD_DEPTHS = {
    "messages_in": (3, 5),
    "messages_out": (3, 5),
    "tools": (3,),
    "tool": (2,),
    "exception": (2,),
    "events": (3,),
}
"""Depths at which the record has required fields."""
_TYPED_FIELDS = frozenset({*_REQUIRED_FIELD_DEPTHS, "links"})
_MAP_FIELDS = frozenset({"attributes", "parameters"})

PathRule = tuple[str, PathMatcher, Action]


class ValueRedactor:
    """Redacts one record: counts what is removed, and remembers values removed by path rules."""

    def __init__(self, paths: list[PathRule], detectors: TextRedactor) -> None:
        self._paths = paths
        self._detectors = detectors
        self._removed_count = 0
        """Number of values in which the current rule found something to remove."""
        self.tally = RedactionTally()
        self.removed: dict[Any, tuple[str, str]] = {}
        """Values removed by path rules, with their placeholder and rule."""

    def redact_field(self, name: str, value: Any) -> Any:
        """Return the redacted field, or DROPPED."""
        self.tally.steps = [name]
        return self._redact_value(value)

    def _redact_value(self, value: Any) -> Any:
        if self._paths and value is not None and not is_placeholder(value):
            path = ".".join(map(str, self.tally.steps))
            for pattern, matches, action in self._paths:
                if matches(path):
                    return self._apply_rule(value, pattern, action)
        return self._redact_inside(value)

    def _redact_inside(self, value: Any) -> Any:
        match value:
            case str():
                return self._redact_text(value)
            case list() | tuple():
                items = [self._redact_item(index, item) for index, item in enumerate(cast("list[Any]", value))]
                return [item for item in items if item is not DROPPED]
            case dict():
                return self._redact_map(cast("dict[str, Any]", value))
            case int() if abs(value) >= _MIN_CHECKED_NUMBER and type(value) is int:
                text = self._redact_text(str(value))
                return value if text == str(value) else text
            case _:
                return value

    def _redact_item(self, step: str | int, value: Any) -> Any:
        self.tally.enter(step)
        new = self._redact_value(value)
        self.tally.leave()
        return new

    def _redact_map(self, value: dict[str, Any]) -> dict[str, Any]:
        redacted: dict[str, Any] = {}
        keys = self.tally.enum_keys()
        for key, item in value.items():
            if key in keys:
                redacted[key] = item
                continue
            name = self._redact_name(key, redacted)
            rule = sensitive_name_rule(key)
            if rule and item is not None and type(item) is not bool and not is_placeholder(item):
                self.tally.enter(name)
                self.tally.count(rule)
                self.tally.leave()
                redacted[name] = MASK
            elif (new := self._redact_item(name, item)) is not DROPPED:
                redacted[name] = new
        return redacted

    def _redact_name(self, key: str, names: Mapping[str, Any]) -> str:
        """Redact a name; two redacted names must stay distinct."""
        name, findings = self._detectors.redact(key)
        if not findings:
            return key
        for detector, count in findings:
            self.tally.count(detector, count)
        number, unique = len(names), name  # Not from 1: there may be many.
        while unique in names:
            number += 1
            unique = f"{name} {number}"
        return unique

    def _redact_text(self, text: str) -> str:
        redacted, findings = self._detectors.redact(text)
        if text.lstrip()[:1] in {"{", "["} and (findings or may_hold_sensitive_name(text)):
            # A JSON text stays JSON: its values are redacted one by one.
            value = json.parse_or_text(text)
            if value is not text:
                before = self.tally.changes
                value = self._redact_json_value(value)
                if self.tally.changes > before:
                    return value if value is MASK else json.encode(value).decode()
        for detector, count in findings:
            self.tally.count(detector, count)
        return redacted

    def _redact_json_value(self, value: Any) -> Any:
        """Redact a value inside a JSON text, without path rules. Nesting that is too deep is masked."""
        paths, depth = self._paths, len(self.tally.steps)
        self._paths = []
        try:
            return self._redact_inside(value)
        except RecursionError:
            del self.tally.steps[depth:]
            self.tally.count("depth")
            return MASK
        finally:
            self._paths = paths

    # Path rules

    def _apply_rule(self, value: Any, pattern: str, action: Action) -> Any:
        root, is_root = self.tally.steps[0], len(self.tally.steps) == 1
        self._removed_count = int(type(value) is bool)
        emptied = self._empty(value, pattern, action)
        self.tally.changes += 1
        if self._removed_count:
            self.tally.count(pattern)
        if action == "drop":
            # A required field is left empty.
            is_required = len(self.tally.steps) in _REQUIRED_FIELD_DEPTHS.get(str(root), ()) and isinstance(
                value, str | list | tuple | dict
            )
            return type(cast("Any", value))() if is_required else DROPPED
        return (
            emptied if root in _TYPED_FIELDS or (root in _MAP_FIELDS and is_root) else self._placeholder(value, action)
        )

    def _placeholder(self, value: Any, action: Action) -> str:
        return self._detectors.hash_value(value) if action == "hash" else MASK

    def _empty(self, value: Any, pattern: str, action: Action) -> Any:
        """Return the structure with placeholders for its values, remembering these."""
        match value:
            case list() | tuple():
                return [
                    self._empty_item(index, item, pattern, action)
                    for index, item in enumerate(cast("list[Any]", value))
                ]
            case dict():
                structural_keys = self.tally.structural_keys()
                return {
                    key: item if key in structural_keys else self._empty_item(key, item, pattern, action)
                    for key, item in cast("dict[str, Any]", value).items()
                }
            case None | bool() | "":
                return value
            case _ if is_placeholder(value):
                return value
            case _:
                placeholder = self._placeholder(value, action)
                if not self._is_emptied(value, pattern, action):
                    self._removed_count += 1
                    self.removed[value] = ("" if action == "drop" else placeholder, pattern)
                return placeholder

    def _is_emptied(self, value: Any, pattern: str, action: Action) -> bool:
        """Whether it is a JSON text with nothing left to remove.

        Values inside such a text are removed too: tool arguments may have been sent as the value that they encode.
        """
        if type(value) is not str or value.lstrip()[:1] not in {"{", "["}:
            return False
        parsed, before = json.parse_or_text(value), self._removed_count
        if parsed is value:
            return False
        self._empty(parsed, pattern, action)
        return self._removed_count == before

    def _empty_item(self, step: str | int, value: Any, pattern: str, action: Action) -> Any:
        self.tally.enter(step)
        new = self._empty(value, pattern, action)
        self.tally.leave()
        return new


_MIN_SENT_CHARS, _MIN_DERIVED_CHARS = 3, 8
"""Minimum length of a removed text to be searched for in sent fields, and in derived ones."""
_MIN_NUMBER = 10
_MAX_WORK, _WORK_PER_TEXT, _WORK_PER_MATCH = 100_000_000, 50, 100_000
"""Character comparisons per record: about a tenth of a second."""

RemovedValues = Mapping[Any, tuple[str, str]]
"""Placeholder and rule of each removed value."""


class RemovedValueScrubber:
    """Removes from all fields the values that path rules removed from one."""

    def __init__(self, removed: RemovedValues, tally: RedactionTally) -> None:
        self._removed = removed
        self._tally = tally
        self._work = 0

    def scrub_field(self, name: str, value: Any, *, as_sent: bool) -> Any:
        """Return the field without removed values. Sent fields are also searched inside texts and for names."""
        self._tally.steps = [name]
        return self._scrub(value, _MIN_SENT_CHARS if as_sent else _MIN_DERIVED_CHARS)

    def _scrub(self, value: Any, min_chars: int) -> Any:
        match value:
            case str():
                return self._scrub_text(value, min_chars)
            case list() | tuple():
                return [self._scrub_item(index, item, min_chars) for index, item in enumerate(cast("list[Any]", value))]
            case dict():
                return self._scrub_map(cast("dict[str, Any]", value), min_chars)
            case int() | float() if (
                min_chars == _MIN_SENT_CHARS and abs(value) >= _MIN_NUMBER and value in self._removed
            ):
                return self._replacement(value)
            case _:
                return value

    def _scrub_map(self, value: dict[str, Any], min_chars: int) -> dict[str, Any]:
        scrubbed: dict[str, Any] = {}
        structural_keys = self._tally.structural_keys()
        steps = self._tally.steps
        # The record's own names stay.
        has_free_names = steps[0] == "attributes" or (min_chars == _MIN_SENT_CHARS and len(steps) > 2)
        for key, item in value.items():
            name = self._replacement(key) if has_free_names and key in self._removed else key
            scrubbed[name] = item if key in structural_keys else self._scrub_item(name, item, min_chars)
        return scrubbed

    def _scrub_item(self, step: str | int, value: Any, min_chars: int) -> Any:
        self._tally.enter(step)
        new = self._scrub(value, min_chars)
        self._tally.leave()
        return new

    def _scrub_text(self, text: str, min_chars: int) -> str:
        if text in self._removed and (min_chars == _MIN_SENT_CHARS or len(text) >= _MIN_SENT_CHARS):
            return self._replacement(text)
        if text.lstrip()[:1] in {"{", "["}:
            value = json.parse_or_text(text)
            if value is not text:
                before = self._tally.changes
                value = self._scrub(value, min_chars)
                return json.encode(value).decode() if self._tally.changes > before else text
        self._work += len(self._removed) * (_WORK_PER_TEXT + len(text))
        if self._work > _MAX_WORK:
            self._tally.count("size")
            return MASK
        for leaf, (placeholder, pattern) in self._removed.items():
            if isinstance(leaf, str) and len(leaf) >= min_chars and leaf in text:
                self._work += _WORK_PER_MATCH
                text, count = re.subn(_whole_word_pattern(leaf), lambda _, replacement=placeholder: replacement, text)
                if count:
                    self._tally.count(pattern, count)
        return text

    def _replacement(self, leaf: Any) -> str:
        placeholder, pattern = self._removed[leaf]
        self._tally.count(pattern)
        return placeholder


def _whole_word_pattern(text: str) -> str:
    """Match the text where it is not part of a longer word."""
    before = r"(?<!\w)" if text[0].isalnum() else ""
    after = r"(?!\w)" if text[-1].isalnum() else ""
    return f"{before}{re.escape(text)}{after}"
