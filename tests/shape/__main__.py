"""The shape of the house in a few lines: how long modules and functions are, what imports itself, what stands twice.

`make check` prints it (`python -m tests.shape`), and fails where it is worse than what stands here. Tests, generated
files and migrations, which are never touched again, do not count.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from tests.shape import cycles, duplicates, sizes
from tests.shape.duplicates import Pair
from tests.shape.sizes import Length

ROOT = Path(__file__).parents[2]

MODULE = 700
"""No module is longer."""
FUNCTION = {"src": 60, "web/src": 100}
"""No function has more lines of its own; the elements that a component shows are many."""
LONGER = {"src/palaver/server/app.py Server.__init__": 100}
"""But the one place that puts all parts of a server together."""
TWICE = {"src": 34, "web/src": 3}
"""So many pairs of places share six or more equal lines today: a new one is a new idea that wants its own place."""


def python() -> dict[str, str]:
    return _texts(path for path in (ROOT / "src").rglob("*.py") if path.parent.name != "versions")


def web() -> dict[str, str]:
    found = (ROOT / "web" / "src").rglob("*.ts*")
    return _texts(path for path in found if ".test." not in path.name and path.suffixes != [".d", ".ts"])


def too_long(modules: list[Length], functions: list[Length], most: int) -> list[str]:
    """A line for each that is."""
    files = [f"{one.of} has {one.lines} lines; {MODULE} is the most." for one in modules if one.lines > MODULE]
    return files + [
        f"{one.of} has {one.lines} lines of its own; {limit} is the most."
        for one in functions
        if one.lines > (limit := LONGER.get(one.of, most))
    ]


def too_often(pairs: list[Pair], most: int, where: str) -> list[str]:
    """A line, and all of the pairs, if there are more than there were."""
    if len(pairs) <= most:
        return []
    told = f"{where} has {len(pairs)} pairs of places with {duplicates.LEAST} or more equal lines; {most} is the most:"
    return ["\n  ".join([told, *(str(pair) for pair in pairs)])]


def row(name: str, lengths: list[Length]) -> str:
    largest = lengths[0]
    middle, most = sizes.median(lengths), sizes.percentile_95(lengths)
    return f"{name:<18}{len(lengths):>6}{middle:>8.0f}{most:>6}{largest.lines:>9}  {largest.of}"


def looked() -> tuple[list[str], list[str]]:
    """The table, and what is wrong."""
    table = [f"{'':<18}{'count':>6}{'median':>8}{'95 %':>6}{'longest':>9}"]
    wrong: list[str] = []
    for where, sources, functions_of in (("src", python(), sizes.functions), ("web/src", web(), sizes.web_functions)):
        modules, functions, twice = sizes.modules(sources), functions_of(sources), duplicates.pairs(sources)
        table += [row(f"{where} modules", modules), row(f"{where} functions", functions)]
        table += [f"{f'{where} repeats':<18}{len(twice):>6}  {twice[0] if twice else ''}".rstrip()]
        wrong += [*too_long(modules, functions, FUNCTION[where]), *too_often(twice, TWICE[where], where)]
    circle = cycles.cycle("palaver", "palaver_jobchat")  # Of the page, oxlint looks for them.
    table += [f"{'src cycles':<18}{1 if circle else 0:>6}"]
    if circle:
        wrong += [f"These modules import each other in a circle: {' → '.join(circle)}"]
    return table, wrong


def main() -> str | None:
    """Print the table; the answer is what is wrong."""
    table, wrong = looked()
    sys.stdout.write("\n".join(table) + "\n")
    sys.stdout.flush()
    return "\n".join(wrong) or None


def _texts(paths: Iterable[Path]) -> dict[str, str]:
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in sorted(paths)}


if __name__ == "__main__":
    sys.exit(main())
