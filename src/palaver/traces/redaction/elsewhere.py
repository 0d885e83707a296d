"""Values that rules about places removed: they came in by an attribute, and may still stand in it, or in another."""

import re
from collections.abc import Mapping
from typing import Any, cast

from palaver.core import json
from palaver.traces.redaction.tally import Tally
from palaver.traces.redaction.texts import MASK

_SHORTEST, _SHORTEST_ELSEWHERE = 3, 8
"""Characters of a removed text that is looked for inside of others: where it was sent, and in what was made of it."""
_SMALL_NUMBER = 10
_MOST_WORK, _WORK_PER_TEXT, _WORK_PER_FIND = 100_000_000, 50, 100_000
"""Comparisons of characters that one record may cost: about a tenth of a second."""

Removed = Mapping[Any, tuple[str, str]]
"""What stands in place of each removed value, and the rule that removed it."""


class Elsewhere:
    """Removes them there too."""

    def __init__(self, removed: Removed, tally: Tally) -> None:
        self._removed = removed
        self._tally = tally
        self._work = 0

    def field(self, name: str, value: Any, *, as_sent: bool) -> Any:
        """The field without them. In what was sent they are looked for inside of other texts, and as names, too."""
        self._tally.at = [name]
        return self._scrubbed(value, _SHORTEST if as_sent else _SHORTEST_ELSEWHERE)

    def _scrubbed(self, value: Any, shortest: int) -> Any:
        match value:
            case str():
                return self._scrubbed_text(value, shortest)
            case list() | tuple():
                return [self._stepped(index, item, shortest) for index, item in enumerate(cast("list[Any]", value))]
            case dict():
                return self._map(cast("dict[str, Any]", value), shortest)
            case int() | float() if shortest == _SHORTEST and abs(value) >= _SMALL_NUMBER and value in self._removed:
                return self._replaced(value)
            case _:
                return value

    def _map(self, value: dict[str, Any], shortest: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        structure = self._tally.structure()
        at = self._tally.at
        is_anybodys = at[0] == "attributes" or (shortest == _SHORTEST and len(at) > 2)  # Not a name of our own.
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
        if text in self._removed and (shortest == _SHORTEST or len(text) >= _SHORTEST):
            return self._replaced(text)
        if text.lstrip()[:1] in {"{", "["}:
            value = json.parse_or_text(text)
            if value is not text:
                before = self._tally.changes
                value = self._scrubbed(value, shortest)
                return json.encode(value).decode() if self._tally.changes > before else text
        self._work += len(self._removed) * (_WORK_PER_TEXT + len(text))
        if self._work > _MOST_WORK:
            self._tally.count("size")
            return MASK
        for leaf, (stand_in, pattern) in self._removed.items():
            if isinstance(leaf, str) and len(leaf) >= shortest and leaf in text:
                self._work += _WORK_PER_FIND
                text, count = re.subn(_whole(leaf), lambda _, put=stand_in: put, text)
                if count:
                    self._tally.count(pattern, count)
        return text

    def _replaced(self, leaf: Any) -> str:
        stand_in, pattern = self._removed[leaf]
        self._tally.count(pattern)
        return stand_in


def _whole(text: str) -> str:
    """A pattern for the text where it is not part of a longer word."""
    before = r"(?<!\w)" if text[0].isalnum() else ""
    after = r"(?!\w)" if text[-1].isalnum() else ""
    return f"{before}{re.escape(text)}{after}"
