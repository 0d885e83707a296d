"""Where the same lines stand twice: runs of six or more equal lines between two places."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

LEAST = 6

_WORD = re.compile(r"\w")
_PYTHON_IMPORT = re.compile(r"^ *(?:from \S+ )?import (?:\([^)]*\)|[^(\n]*$)", re.MULTILINE)
_WEB_IMPORT = re.compile(r"^(?:import|export) (?:[^;]*? from )?'[^']*';$", re.MULTILINE)

Line = tuple[int, str]
Spot = tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Lines of one place that stand again in another."""

    lines: int
    one: str
    other: str

    def __str__(self) -> str:
        return f"{self.lines:>3} equal lines: {self.one} and {self.other}"


def pairs(sources: Mapping[str, str]) -> list[Pair]:
    """All of them, longest first. What says nothing does not count: blank lines, closing brackets and imports."""
    told = {path: list(_lines(path, text)) for path, text in sources.items()}
    spots: dict[tuple[str, ...], list[Spot]] = defaultdict(list)
    for path, lines in told.items():
        for at in range(len(lines) - LEAST + 1):
            spots[tuple(text for _, text in lines[at : at + LEAST])].append((path, at))
    found = [
        Pair(lines=length, one=_place(told, one, length), other=_place(told, other, length))
        for one, other in _twice(spots.values())
        if (length := _shared(told, one, other)) and not _continues(told, one, other)
    ]
    return sorted(found, key=lambda pair: (-pair.lines, pair.one, pair.other))


def _twice(spots: Iterable[list[Spot]]) -> Iterator[tuple[Spot, Spot]]:
    for places in spots:
        for at, one in enumerate(places):
            for other in places[at + 1 :]:
                if one[0] != other[0] or other[1] - one[1] >= LEAST:
                    yield one, other


def _shared(told: Mapping[str, list[Line]], one: Spot, other: Spot) -> int:
    """How many lines are equal from there on; in one file, up to where the second begins."""
    first, second = told[one[0]][one[1] :], told[other[0]][other[1] :]
    most = min(len(first), len(second), other[1] - one[1] if one[0] == other[0] else len(first))
    return next((at for at in range(most) if first[at][1] != second[at][1]), most)


def _continues(told: Mapping[str, list[Line]], one: Spot, other: Spot) -> bool:
    """Is the line before equal, too? Then a longer run was counted already."""
    return one[1] > 0 and other[1] > 0 and told[one[0]][one[1] - 1][1] == told[other[0]][other[1] - 1][1]


def _place(told: Mapping[str, list[Line]], spot: Spot, length: int) -> str:
    path, at = spot
    return f"{path}:{told[path][at][0]}-{told[path][at + length - 1][0]}"


def _lines(path: str, text: str) -> Iterator[Line]:
    pattern = _PYTHON_IMPORT if PurePath(path).suffix == ".py" else _WEB_IMPORT
    told = pattern.sub(lambda found: "\n" * found.group().count("\n"), text)
    for number, line in enumerate(told.splitlines(), start=1):
        if _WORD.search(line):
            yield number, line.strip()
