"""Repeated code: runs of six or more equal lines in two places."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

MIN_LINES = 6

_WORD = re.compile(r"\w")
_PYTHON_IMPORT = re.compile(r"^ *(?:from \S+ )?import (?:\([^)]*\)|[^(\n]*$)", re.MULTILINE)
_WEB_IMPORT = re.compile(r"^(?:import|export) (?:[^;]*? from )?'[^']*';$", re.MULTILINE)

Line = tuple[int, str]
Position = tuple[str, int]  # path, index of the line


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A run of equal lines in two places, each given as `path:first-last`."""

    lines: int
    one: str
    other: str

    def __str__(self) -> str:
        return f"{self.lines:>3} equal lines: {self.one} and {self.other}"


def pairs(sources: Mapping[str, str]) -> list[Pair]:
    """Return all pairs, longest first. Blank lines, closing brackets and imports don't count."""
    lines_of = {path: list(_lines(path, text)) for path, text in sources.items()}
    positions: dict[tuple[str, ...], list[Position]] = defaultdict(list)
    for path, lines in lines_of.items():
        for index in range(len(lines) - MIN_LINES + 1):
            positions[tuple(text for _, text in lines[index : index + MIN_LINES])].append((path, index))
    matches = [
        Pair(lines=length, one=_location(lines_of, one, length), other=_location(lines_of, other, length))
        for one, other in _combinations(positions.values())
        if (length := _shared(lines_of, one, other)) and not _continues_a_run(lines_of, one, other)
    ]
    return sorted(matches, key=lambda pair: (-pair.lines, pair.one, pair.other))


def _combinations(positions: Iterable[list[Position]]) -> Iterator[tuple[Position, Position]]:
    for group in positions:
        for index, one in enumerate(group):
            for other in group[index + 1 :]:
                if one[0] != other[0] or other[1] - one[1] >= MIN_LINES:
                    yield one, other


def _shared(lines_of: Mapping[str, list[Line]], one: Position, other: Position) -> int:
    """Return how many lines are equal from there on; within one file, up to the start of the second run."""
    first, second = lines_of[one[0]][one[1] :], lines_of[other[0]][other[1] :]
    limit = min(len(first), len(second), other[1] - one[1] if one[0] == other[0] else len(first))
    return next((index for index in range(limit) if first[index][1] != second[index][1]), limit)


def _continues_a_run(lines_of: Mapping[str, list[Line]], one: Position, other: Position) -> bool:
    """Whether the preceding lines are equal too, so that a longer run was counted already."""
    return one[1] > 0 and other[1] > 0 and lines_of[one[0]][one[1] - 1][1] == lines_of[other[0]][other[1] - 1][1]


def _location(lines_of: Mapping[str, list[Line]], position: Position, length: int) -> str:
    path, index = position
    return f"{path}:{lines_of[path][index][0]}-{lines_of[path][index + length - 1][0]}"


def _lines(path: str, text: str) -> Iterator[Line]:
    pattern = _PYTHON_IMPORT if PurePath(path).suffix == ".py" else _WEB_IMPORT
    text = pattern.sub(lambda match: "\n" * match.group().count("\n"), text)
    for number, line in enumerate(text.splitlines(), start=1):
        if _WORD.search(line):
            yield number, line.strip()
