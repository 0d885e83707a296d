"""Where a piece of code stands in a job: as it is, but for the ends of its lines, or but for its indentation.

A model repeats code almost exactly. Three tiers, from strict to tolerant, and the first that finds anything decides:
a tolerant match never competes with an exact one.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Literal

import msgspec

Tier = Literal["exact", "line-ends", "indent"]
Taking = Literal["overlapping", "apart"]
"""Every place, also one that begins inside another; or from left to right, each after the last."""
MAX_MATCHES = 100
"""So many places are counted; an edit that fits more has no one place anyway."""

_BLANKS = " \t"


class Match(msgspec.Struct, frozen=True):
    """One stretch of a text, and how lines put there must be indented anew."""

    start: int
    end: int
    added: str = ""
    """The indentation that the text has more than the code looked for."""
    removed: str = ""
    """The indentation that the text has less."""


def find_matches(text: str, code: str, *, taking: Taking) -> tuple[Tier, list[Match]] | None:
    """Every place of the code in the text, with the tier that found them."""
    tiers: tuple[tuple[Tier, Callable[[str, str, Taking], list[Match]]], ...] = (
        ("exact", _exact),
        ("line-ends", _but_for_line_ends),
        ("indent", _but_for_indentation),
    )
    for tier, search in tiers:
        if places := search(text, code, taking):
            return tier, places
    return None


def line_at(text: str, offset: int) -> int:
    """The number of the line, from 1, that holds this offset."""
    return text.count("\n", 0, offset) + 1


def reindent(code: str, place: Match) -> str:
    """The code as it has to be indented at that place; blank lines stay as they are."""
    if not place.added and not place.removed:
        return code
    return "\n".join(_shifted(line, place) if line.strip() else line for line in code.split("\n"))


def _shifted(line: str, place: Match) -> str:
    if place.added:
        return place.added + line
    same = 0  # A line that has less than all of it loses what it has.
    while same < len(place.removed) and line[same] == place.removed[same]:
        same += 1
    return line[same:]


def _offsets(text: str, code: str, taking: Taking, *, shared: int = 0) -> Iterator[int]:
    """Where the code stands; two places that are apart may still share so many characters at their ends."""
    if taking == "overlapping":
        return islice(_each(text, code, 1), MAX_MATCHES + 1)
    return _each(text, code, len(code) - shared)


def _each(text: str, code: str, step: int) -> Iterator[int]:
    at = text.find(code)
    while at >= 0:
        yield at
        at = text.find(code, at + step)


def _exact(text: str, code: str, taking: Taking) -> list[Match]:
    places = [Match(at, at + len(code)) for at in _offsets(text, code, taking)]
    # `\n…` also "stands" in the middle of a `\r\n`. The next tier takes a line's end as one thing.
    if any(_splits(text, place.start) or _splits(text, place.end) for place in places):
        return []
    return places


def _splits(text: str, offset: int) -> bool:
    return 0 < offset < len(text) and text[offset - 1 : offset + 1] == "\r\n"


class _Even:
    """A text without what stands at the ends of its lines, and the way back to where it was."""

    def __init__(self, text: str) -> None:
        self.starts: list[int] = []
        self._evened: list[int] = []
        lines: list[str] = []
        start = evened = 0
        for line in text.split("\n"):
            kept = _without_end(line)
            lines.append(kept)
            self.starts.append(start)
            self._evened.append(evened)
            start += len(line) + 1
            evened += len(kept) + 1
        self.text = "\n".join(lines)

    def was(self, offset: int) -> int:
        line = bisect_right(self._evened, offset) - 1
        return self.starts[line] + offset - self._evened[line]


def _without_end(line: str) -> str:
    return line.removesuffix("\r").rstrip(_BLANKS)


def _but_for_line_ends(text: str, code: str, taking: Taking) -> list[Match]:
    wanted = "\n".join(_without_end(line) for line in code.split("\n"))
    if not wanted:
        return []
    even = _Even(text)
    # Blanks that ended the code are a line's end only where a line ends there.
    to_the_end = not code.endswith("\n") and len(_without_end(last := code.rsplit("\n", 1)[-1])) < len(last)
    places: list[Match] = []
    for at in _offsets(even.text, wanted, taking):
        end = at + len(wanted)
        if not to_the_end:
            places.append(Match(even.was(at), even.was(end)))
        elif end == len(even.text) or even.text[end] == "\n":
            places.append(Match(even.was(at), _line_end(text, even.was(end))))
    return places


def _line_end(text: str, offset: int) -> int:
    end = text.find("\n", offset)
    if end < 0:
        return len(text)
    return end - 1 if end > offset and text[end - 1] == "\r" else end


def _but_for_indentation(text: str, code: str, taking: Taking) -> list[Match]:
    wanted = code.split("\n")
    filled = [place for place, line in enumerate(wanted) if line.strip()]
    if not filled:
        return []
    wanted = wanted[filled[0] : filled[-1] + 1]
    lines = text.split("\n")
    # Each line between two line feeds, so that only whole lines match; two places may share the one between them.
    trimmed = "\n" + "\n".join(line.strip() for line in lines) + "\n"
    sought = "\n" + "\n".join(line.strip() for line in wanted) + "\n"
    starts = _Even(text).starts
    places: list[Match] = []
    line = seen = 0
    for at in _offsets(trimmed, sought, taking, shared=1):
        line, seen = line + trimmed.count("\n", seen, at), at
        last = line + len(wanted) - 1
        if code.endswith("\n"):
            end = min(starts[last] + len(lines[last]) + 1, len(text))
        else:
            end = _line_end(text, starts[last])
        # Of several that overlap none will be taken: how they are indented is not worth a look.
        is_candidate = taking == "apart" or not places
        added, removed = _difference(wanted, lines[line : last + 1]) if is_candidate else ("", "")
        places.append(Match(starts[line], end, added, removed))
    return places


def _difference(wanted: list[str], found: list[str]) -> tuple[str, str]:
    """The one indentation that all lines found have more, or less, than those wanted; none where they disagree."""
    added: set[str | None] = set()
    removed: set[str | None] = set()
    for one, other in zip(wanted, found, strict=True):
        if one.strip():
            added.add(_prefix(_indentation(other), _indentation(one)))
            removed.add(_prefix(_indentation(one), _indentation(other)))
    return _only(added), _only(removed)


def _only(found: set[str | None]) -> str:
    return (found.pop() or "") if len(found) == 1 else ""


def _prefix(longer: str, shorter: str) -> str | None:
    return longer.removesuffix(shorter) if longer.endswith(shorter) else None


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
