"""Docstrings of functions and classes, divided into sections, and docstrings below fields."""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from textwrap import dedent
from typing import Any

_SECTION = re.compile(r"^(Args|Raises|Example):\n", re.MULTILINE)
_ENTRY = re.compile(r"^(\*{0,2}\w+): (.*(?:\n +.*)*)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Docstring:
    text: str
    """The paragraphs before the first section."""
    parameters: dict[str, str] = field(default_factory=dict[str, str])
    raises: dict[str, str] = field(default_factory=dict[str, str])
    example: str = ""


def parse_docstring(source: str) -> Docstring:
    """Parse a docstring with the sections `Args:`, `Raises:` and `Example:`."""
    text, *parts = _SECTION.split(inspect.cleandoc(source))
    sections = dict(zip(parts[::2], map(dedent, parts[1::2]), strict=True))
    return Docstring(
        text="\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n")),
        parameters=_entries(sections.get("Args", "")),
        raises=_entries(sections.get("Raises", "")),
        example=sections.get("Example", "").strip(),
    )


def _entries(section: str) -> dict[str, str]:
    return {name: " ".join(text.split()) for name, text in _ENTRY.findall(section)}


@cache
def field_docstrings(cls: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class and its bases, and below attributes that `__init__` sets."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0] == "palaver":
            found |= dict(_docstrings_in(_definition(base).body))
    return found


def _docstrings_in(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for statement, following in zip(body, [*body[1:], None], strict=True):
        match statement, following:
            case ast.FunctionDef(name="__init__"), _:
                yield from _docstrings_in(statement.body)
            case (
                (ast.AnnAssign(target=target) | ast.Assign(targets=[target])),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield target.id if isinstance(target, ast.Name) else ast.unparse(target).removeprefix("self."), text
            case _:
                pass


def _definition(thing: Any) -> Any:
    """Return the syntax tree of a class."""
    return ast.parse(dedent(inspect.getsource(thing))).body[0]
