"""Find a piece of code in a job: exactly, ignoring line ends, or ignoring indentation.

Models repeat code almost exactly. Three tiers are tried from strict to tolerant, and the first with a match decides, so
that a tolerant match never competes with an exact one.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Literal

import msgspec

Tier = Literal["exact", "line-ends", "indent"]
Overlap = Literal["overlapping", "apart"]
"""Whether matches may overlap, or each must start after the end of the previous one."""
MAX_MATCHES = 100
"""Matches that are counted; an edit with more is ambiguous anyway."""

_BLANKS = " \t"


class Match(msgspec.Struct, frozen=True):
    """A matching range of the text, and how replacement lines must be reindented."""

    start: int
    end: int
    added: str = ""
    """Indentation that the text has in addition to the code searched for."""
    removed: str = ""
    """Indentation that the text lacks."""


def find_matches(text: str, code: str, *, overlap: Overlap) -> tuple[Tier, list[Match]] | None:
    """Return all matches of `code` in `text` and the tier that found them, or None."""
    tiers: tuple[tuple[Tier, Callable[[str, str, Overlap], list[Match]]], ...] = (
        ("exact", _match_exactly),
        ("line-ends", _match_ignoring_line_ends),
        ("indent", _match_ignoring_indentation),
    )
    for tier, search in tiers:
        if matches := search(text, code, overlap):
            return tier, matches
    return None


def line_at(text: str, offset: int) -> int:
    """Return the line number of an offset, from 1."""
    return text.count("\n", 0, offset) + 1


def reindent(code: str, match: Match) -> str:
    """Adapt the indentation of replacement code to a match. Blank lines stay unchanged."""
    if not match.added and not match.removed:
        return code
    return "\n".join(_shift_line(line, match) if line.strip() else line for line in code.split("\n"))


def common_prefix(first: str, second: str) -> str:
    for length, (left, right) in enumerate(zip(first, second, strict=False)):
        if left != right:
            return first[:length]
    return min(first, second, key=len)


def _shift_line(line: str, match: Match) -> str:
    if match.added:
        return match.added + line
    # A line with less indentation loses all it has.
    return line.removeprefix(common_prefix(line, match.removed))


def _offsets(text: str, code: str, overlap: Overlap, *, shared: int = 0) -> Iterator[int]:
    """Yield the offsets of the code. Matches that don't overlap may share `shared` characters at their ends."""
    if overlap == "overlapping":
        return islice(_find_all(text, code, 1), MAX_MATCHES + 1)
    return _find_all(text, code, len(code) - shared)


def _find_all(text: str, code: str, step: int) -> Iterator[int]:
    offset = text.find(code)
    while offset >= 0:
        yield offset
        offset = text.find(code, offset + step)


def _match_exactly(text: str, code: str, overlap: Overlap) -> list[Match]:
    matches = [Match(offset, offset + len(code)) for offset in _offsets(text, code, overlap)]
    # `\n…` also matches in the middle of a `\r\n`; the next tier treats a line end as one unit.
    if any(_splits_line_end(text, match.start) or _splits_line_end(text, match.end) for match in matches):
        return []
    return matches


def _splits_line_end(text: str, offset: int) -> bool:
    return 0 < offset < len(text) and text[offset - 1 : offset + 1] == "\r\n"


class _TrimmedText:
    """A text without trailing whitespace on its lines, with a mapping back to the original offsets."""

    def __init__(self, text: str) -> None:
        self.starts: list[int] = []
        self._trimmed_starts: list[int] = []
        lines: list[str] = []
        start = trimmed_offset = 0
        for line in text.split("\n"):
            trimmed = _trim_end(line)
            lines.append(trimmed)
            self.starts.append(start)
            self._trimmed_starts.append(trimmed_offset)
            start += len(line) + 1
            trimmed_offset += len(trimmed) + 1
        self.text = "\n".join(lines)

    def original_offset(self, offset: int) -> int:
        line = bisect_right(self._trimmed_starts, offset) - 1
        return self.starts[line] + offset - self._trimmed_starts[line]


def _trim_end(line: str) -> str:
    return line.removesuffix("\r").rstrip(_BLANKS)


def _match_ignoring_line_ends(text: str, code: str, overlap: Overlap) -> list[Match]:
    target = "\n".join(_trim_end(line) for line in code.split("\n"))
    if not target:
        return []
    trimmed = _TrimmedText(text)
    # Trailing blanks of the code count as a line end only where a line of the text ends.
    must_end_line = not code.endswith("\n") and len(_trim_end(last := code.rsplit("\n", 1)[-1])) < len(last)
    matches: list[Match] = []
    for offset in _offsets(trimmed.text, target, overlap):
        end = offset + len(target)
        if not must_end_line:
            matches.append(Match(trimmed.original_offset(offset), trimmed.original_offset(end)))
        elif end == len(trimmed.text) or trimmed.text[end] == "\n":
            matches.append(Match(trimmed.original_offset(offset), _line_end(text, trimmed.original_offset(end))))
    return matches


def _line_end(text: str, offset: int) -> int:
    end = text.find("\n", offset)
    if end < 0:
        return len(text)
    return end - 1 if end > offset and text[end - 1] == "\r" else end


def _match_ignoring_indentation(text: str, code: str, overlap: Overlap) -> list[Match]:
    target = code.split("\n")
    non_blank = [index for index, line in enumerate(target) if line.strip()]
    if not non_blank:
        return []
    target = target[non_blank[0] : non_blank[-1] + 1]
    lines = text.split("\n")
    # Line feeds around each line make only whole lines match; two matches may share the line feed between them.
    trimmed = "\n" + "\n".join(line.strip() for line in lines) + "\n"
    trimmed_code = "\n" + "\n".join(line.strip() for line in target) + "\n"
    starts = _TrimmedText(text).starts
    matches: list[Match] = []
    line = counted_to = 0
    for offset in _offsets(trimmed, trimmed_code, overlap, shared=1):
        line, counted_to = line + trimmed.count("\n", counted_to, offset), offset
        last = line + len(target) - 1
        if code.endswith("\n"):
            end = min(starts[last] + len(lines[last]) + 1, len(text))
        else:
            end = _line_end(text, starts[last])
        # Overlapping matches are ambiguous and never applied, so that only the first one needs its indentation.
        is_candidate = overlap == "apart" or not matches
        added, removed = _indentation_difference(target, lines[line : last + 1]) if is_candidate else ("", "")
        matches.append(Match(starts[line], end, added, removed))
    return matches


def _indentation_difference(target: list[str], found: list[str]) -> tuple[str, str]:
    """Return the indentation that all lines have in addition to the target's, or lack; empty if they differ."""
    added: set[str | None] = set()
    removed: set[str | None] = set()
    for wanted, actual in zip(target, found, strict=True):
        if wanted.strip():
            added.add(_extra_prefix(_indentation(actual), _indentation(wanted)))
            removed.add(_extra_prefix(_indentation(wanted), _indentation(actual)))
    return _only_value(added), _only_value(removed)


def _only_value(found: set[str | None]) -> str:
    return (found.pop() or "") if len(found) == 1 else ""


def _extra_prefix(longer: str, shorter: str) -> str | None:
    return longer.removesuffix(shorter) if longer.endswith(shorter) else None


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
