"""Small tools that every convention reads attributes with. What they are given is strangers' data: bounded, never code.

    Reader         the first of several names that has a label, a count, an amount or a value; bad numbers are noted
    parsed, opened a text that should be JSON, or that may hold an object or a list
    indexed        names with numbers in them, `llm.input_messages.0.message.role`, collected in order
    families       names under several prefixes, told apart in one go

Messages are made by messages.py, the tools that a model could call by definitions.py; what others call a kind of span
or the end of an answer, meanings.py translates. No name is ever split into containers: a prefix is matched, and the
rest of the name stays one key.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, UnsetType

from palaver.core import json
from palaver.core.ids import truncate_id

Attributes = Mapping[str, Any]
"""A flat map from name to value."""

Entry = dict[str, Any]
"""What is told of one index: the rest of each name, and its value."""

LONGEST_LABEL = 128
"""Characters. What is longer keeps its beginning and gets a hash, so that equal ones stay equal."""
MOST_ENTRIES = 2_000
_MOST_DIGITS = 6
_LONGEST_NUMBER = 64
_LARGEST = 2**63 - 1
"""What a database takes as a whole number."""
_ESCAPE = re.compile(r"\\(?:u00(?P<control>0[0-8BbCcEeFf]|1[0-9A-Fa-f]|7[Ff]|[89][0-9A-Fa-f])|.)", re.DOTALL)
"""Any escape of JSON, so that a backslash that is itself escaped is never taken for the start of another."""


class Reader:
    """Looks into attributes. A name that is absent, null or unfit is passed over for the next one."""

    __slots__ = ("_get", "notes")

    def __init__(self, attributes: Attributes) -> None:
        self._get = attributes.get
        self.notes: list[str] = []
        """`number:<name>` for each that should have been a number and was none."""

    def value(self, *names: str) -> Any:
        """The first value as it stands; UNSET where there is none."""
        for name in names:
            value = self._get(name)
            if value is not None:
                return value
        return UNSET

    def json(self, *names: str) -> Any:
        """The first value, parsed if it is JSON text; UNSET where there is none."""
        return parsed(self.value(*names))

    def label(self, *names: str) -> str | UnsetType:
        """The first text that is not blank, trimmed and of bounded length: a name, an id, a session, a model."""
        for name in names:
            value = self._get(name)
            if value is not None and (text := label(value)) is not None:
                return text
        return UNSET

    def count(self, *names: str) -> int | UnsetType:
        """The first whole number that is not negative: an int, a double, or either as text."""
        for name in names:
            value = self._get(name)
            if value is not None:
                if (number := count(value)) is not None:
                    return number
                self.notes.append(f"number:{name}")
        return UNSET

    def amount(self, *names: str) -> float | UnsetType:
        """The first finite number that is not negative, with its fraction."""
        for name in names:
            value = self._get(name)
            if value is not None:
                if (number := amount(value)) is not None:
                    return number
                self.notes.append(f"number:{name}")
        return UNSET


def label(value: Any) -> str | None:
    """A text that is not blank, trimmed and of bounded length; a whole number counts as its text."""
    if type(value) is int:
        value = str(value) if abs(value) <= _LARGEST else ""
    text = value.strip() if isinstance(value, str) else ""
    if not text:
        return None
    return text if len(text) <= LONGEST_LABEL else truncate_id(text)


def count(value: Any) -> int | None:
    """A whole number that is not negative; None for what is none."""
    if type(value) is int:
        return value if 0 <= value <= _LARGEST else None
    if type(value) is str and value.isdecimal() and value.isascii() and len(value) < 19:
        return int(value)
    number = amount(value)
    return int(number) if number is not None and number.is_integer() and number <= _LARGEST else None


def amount(value: Any) -> float | None:
    """A finite number that is not negative; None for what is none."""
    if type(value) is str:
        if len(value) > _LONGEST_NUMBER or "_" in value or not value.isascii():
            return None
    elif type(value) is not int and type(value) is not float:
        return None  # Neither is a bool.
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number + 0.0 if number >= 0 and math.isfinite(number) else None


def parsed(value: Any) -> Any:
    """The value of a JSON text; anything else, and text that is no JSON or too deep, as it stands.

    Control characters were taken out of what was sent. In JSON they may have come through as escapes.
    """
    if type(value) is not str:
        return value
    text = _ESCAPE.sub(_harmless, value) if "\\u00" in value else value
    found = json.parse_or_text(text)
    return value if found is text else found


def _harmless(escape: re.Match[str]) -> str:
    return "\\ufffd" if escape["control"] else escape[0]


def opened(value: Any) -> Any:
    """The object or list of a JSON text; anything else as it stands: `"42"` and `"true"` may just be what was said."""
    if type(value) is not str:
        return value
    start = value[:1]
    if start.isspace():
        start = value.lstrip()[:1]
    return parsed(value) if start in ("{", "[") else value


def indexed(attributes: Attributes, prefix: str) -> list[Entry]:
    """What stands under `prefix.0.…`, `prefix.1.…`, by sorted index without gaps, each under the rest of its name.

    `{"m.0.role": "user", "m.7.role": "tool"}` with `m` is `[{"role": "user"}, {"role": "tool"}]`. A value at `m.0`
    itself stands under the empty name. An entry is flat too, and may be asked again for what has an index in it.
    """
    start, places = prefix + ".", len(prefix) + 1
    found: dict[int, Entry] = {}
    for name, value in attributes.items():
        if name.startswith(start):
            digits, _, rest = name[places:].partition(".")
            if len(digits) <= _MOST_DIGITS and digits.isdecimal() and digits.isascii():
                found.setdefault(int(digits), {})[rest] = value
    return [found[index] for index in sorted(found)[:MOST_ENTRIES]]


def under(attributes: Attributes, prefix: str) -> Entry:
    """What stands under `prefix.…`, each under the rest of its name, which stays one key whatever dots it has."""
    start, places = prefix + ".", len(prefix) + 1
    return {name[places:]: value for name, value in attributes.items() if name.startswith(start)}


def families(attributes: Attributes, prefixes: tuple[str, ...]) -> dict[str, Entry]:
    """The attributes whose names begin so, by the first of the prefixes that they have; all names are seen once."""
    found: dict[str, Entry] = {}
    for name, value in attributes.items():
        if name.startswith(prefixes):
            for prefix in prefixes:
                if name.startswith(prefix):
                    found.setdefault(prefix, {})[name] = value
                    break
    return found
