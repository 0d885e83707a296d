"""JSON inside a text: the whole of it, in a fenced block, or between brackets that balance.

A text is a model's: nothing here raises, and the work is bounded however the brackets stand.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec
from msgspec import UNSET

from palaver.core import json

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})([^\n`]*)\n(.*?)(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_OPENING = re.compile(r"[\[{]")
_BRACKET_OR_QUOTE = re.compile(r'["\[\]{}]')
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_MAX_TRIES = 2_000
_MIN_BUDGET_CHARS = 1_000_000
"""Characters that are looked at for brackets; longer texts have four times their length."""


def parse_whole(text: str) -> Any:
    """The value that the text is, white space around it aside; UNSET where it is none."""
    stripped = text.strip()
    value = json.parse_or_text(stripped) if stripped else stripped
    return UNSET if value is stripped else value


def find_json(text: str) -> Any:
    """The first JSON that it holds: the whole; else a fenced block; else what balances. UNSET where there is none."""
    value = parse_whole(text)
    if value is not UNSET:
        return value
    for block in code_blocks(text):
        if (value := parse_whole(block.text)) is not UNSET:
            return value
    marks: list[Any] = []
    for value, source in balanced_json(text):
        if not is_citation_mark(value, source):
            return value
        marks.append(value)
    return marks[0] if marks else UNSET


class CodeBlock(msgspec.Struct, frozen=True):
    """A fenced block of code."""

    language: str
    text: str
    is_whole: bool
    """Is nothing but white space around it?"""


def code_blocks(text: str) -> list[CodeBlock]:
    """Its fenced blocks. One that nobody closed goes on to the end."""
    if "```" not in text and "~~~" not in text:
        return []
    return [
        CodeBlock(
            language=(found[2].split() or [""])[0],
            text=found[3],
            is_whole=not (text[: found.start()].strip() or text[found.end() :].strip()),
        )
        for found in _FENCE.finditer(text.replace("\r\n", "\n"))
    ]


def balanced_json(text: str) -> Iterator[tuple[Any, str]]:
    """Each object and array in it that stands in no other, as a value and as it is written."""
    at, tries, budget = 0, 0, max(_MIN_BUDGET_CHARS, 4 * len(text))
    while tries < _MAX_TRIES and budget > 0 and (opening := _OPENING.search(text, at)):
        tries += 1
        start = opening.start()
        end, seen = _find_closing(text, start, budget)
        budget -= seen
        at = start + 1
        if end:
            source = text[start:end]
            value = json.parse_or_text(source)
            if value is not source:
                yield value, source
                at = end


def is_citation_mark(value: Any, source: str) -> bool:
    """Is it a citation, `[1]` or `[2, 3]`, or an empty box, `[ ]`, rather than JSON that somebody meant?"""
    if not isinstance(value, list):
        return False
    items = cast("Sequence[Any]", value)
    return all(type(item) is int for item in items) if items else source != "[]"


def _find_closing(text: str, start: int, budget: int) -> tuple[int, int]:
    """Where the bracket at `start` is closed again, or 0; and how much was looked at to know."""
    depth, at, last = 0, start, min(len(text), start + budget)
    while telling := _BRACKET_OR_QUOTE.search(text, at, last):
        at = telling.end()
        match telling[0]:
            case '"':
                string = _STRING.match(text, telling.start())
                if string is None:
                    break
                at = string.end()
            case "[" | "{":
                depth += 1
            case _:
                depth -= 1
                if depth == 0:
                    return at, at - start
    return 0, last - start
