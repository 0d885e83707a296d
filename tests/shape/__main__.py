"""Report on the structure of the source tree: file and function lengths, import cycles, repeated code and names.

`make check` runs this as `python -m tests.shape`; it prints a table and fails if a limit below is exceeded. Tests,
generated files and migrations don't count.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from tests.shape import cycles, duplicates, names, sizes
from tests.shape.duplicates import Pair
from tests.shape.sizes import Length

ROOT = Path(__file__).parents[2]

MAX_MODULE_LINES = 700
MAX_LINE_LENGTH = 120
"""Of web/src, where the formatter leaves long texts and comments; ruff checks Python."""
MAX_FUNCTION_LINES = {"src": 60, "web/src": 100}
"""Lines of a function without those of functions nested in it. React components may be longer: markup takes lines."""
MAX_DUPLICATES = {"src": 15, "web/src": 2}
"""Pairs of places that share six or more lines. Lower these as pairs disappear; don't raise them."""


def python_sources() -> dict[str, str]:
    return _read(path for path in (ROOT / "src").rglob("*.py") if path.parent.name != "versions")


def web_sources() -> dict[str, str]:
    paths = (ROOT / "web" / "src").rglob("*.ts*")
    return _read(path for path in paths if ".test." not in path.name and path.suffixes != [".d", ".ts"])


def helper_modules() -> list[str]:
    """Return the paths of benchmarks, and of modules in tests/ that hold no tests."""
    paths = (path for folder in ("benchmarks", "tests") for path in (ROOT / folder).rglob("*.py"))
    return sorted(
        path.relative_to(ROOT).as_posix()
        for path in paths
        if not path.name.startswith("test_") and "node_modules" not in path.parts
    )


def length_problems(modules: list[Length], functions: list[Length], max_function_lines: int) -> list[str]:
    files = [
        f"{module.name}: {module.lines} lines (limit: {MAX_MODULE_LINES})"
        for module in modules
        if module.lines > MAX_MODULE_LINES
    ]
    return files + [
        f"{function.name}: {function.lines} lines (limit: {max_function_lines})"
        for function in functions
        if function.lines > max_function_lines
    ]


def line_problems(sources: dict[str, str]) -> list[str]:
    return [
        f"{name}:{number}: {len(line)} characters (limit: {MAX_LINE_LENGTH})"
        for name, text in sources.items()
        for number, line in enumerate(text.splitlines(), start=1)
        if len(line) > MAX_LINE_LENGTH
    ]


def duplicate_problems(pairs: list[Pair], limit: int, where: str) -> list[str]:
    """Return one problem that lists every pair if there are more than `limit`."""
    if len(pairs) <= limit:
        return []
    headline = f"{where}: {len(pairs)} pairs of places share {duplicates.MIN_LINES} or more lines (limit: {limit}):"
    return ["\n  ".join([headline, *(str(pair) for pair in pairs)])]


def table_row(name: str, lengths: list[Length]) -> str:
    longest = lengths[0]
    median, percentile_95 = sizes.median(lengths), sizes.percentile_95(lengths)
    return f"{name:<18}{len(lengths):>6}{median:>8.0f}{percentile_95:>6}{longest.lines:>9}  {longest.name}"


def report() -> tuple[list[str], list[str]]:
    """Return the lines of the table, and the problems."""
    table = [f"{'':<18}{'count':>6}{'median':>8}{'95 %':>6}{'longest':>9}"]
    problems: list[str] = []
    python, web = python_sources(), web_sources()
    for where, sources, functions_of in (("src", python, sizes.functions), ("web/src", web, sizes.web_functions)):
        modules, functions, repeated = sizes.modules(sources), functions_of(sources), duplicates.pairs(sources)
        table += [table_row(f"{where} modules", modules), table_row(f"{where} functions", functions)]
        table += [f"{f'{where} repeats':<18}{len(repeated):>6}  {repeated[0] if repeated else ''}".rstrip()]
        problems += length_problems(modules, functions, MAX_FUNCTION_LINES[where])
        problems += duplicate_problems(repeated, MAX_DUPLICATES[where], where)
    problems += line_problems(web)
    table += [f"{'src lines':<18}{sum(len(text.splitlines()) for text in python.values()):>6}"]
    cycle = cycles.find_cycle("palaver", "palaver_jobchat")  # oxlint checks the web page's imports.
    table += [f"{'src cycles':<18}{1 if cycle else 0:>6}"]
    if cycle:
        problems += [f"import cycle: {' → '.join(cycle)}"]
    for label, entries in (
        ("-ing modules", names.gerund_modules([*python, *web, *helper_modules()])),
        ("common classes", names.common_names(names.python_classes(python))),
        ("common functions", names.common_names(names.python_functions(python))),
    ):
        visible = [*entries[:8], "…"] if len(entries) > 8 else entries
        table += [f"{label:<18}{len(entries):>6}  {', '.join(visible)}".rstrip()]
        problems += [f"{label} (see CONTRIBUTING.md, “How names are chosen”): {', '.join(entries)}"] if entries else []
    return table, problems


def main() -> str | None:
    """Print the table and return the problems, as `sys.exit` takes them."""
    table, problems = report()
    sys.stdout.write("\n".join(table) + "\n")
    sys.stdout.flush()
    return "\n".join(problems) or None


def _read(paths: Iterable[Path]) -> dict[str, str]:
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in sorted(paths)}


if __name__ == "__main__":
    sys.exit(main())
