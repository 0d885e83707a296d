"""Find JSON in text: the whole text, a fenced block, or balanced brackets.

The text comes from a model: nothing here raises, and the work is bounded for any input.
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
"""Characters searched for brackets; for longer texts four times their length."""


def parse_whole(text: str) -> Any:
    """Parse the whole text, without surrounding white space; UNSET if it is not JSON."""
    stripped = text.strip()
    value = json.parse_or_text(stripped) if stripped else stripped
    return UNSET if value is stripped else value


def find_json(text: str) -> Any:
    """The first JSON: the whole text, else a fenced block, else balanced brackets. UNSET if there is none."""
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
    language: str
    text: str
    is_whole: bool
    """Whether only white space surrounds it."""


def code_blocks(text: str) -> list[CodeBlock]:
    """All fenced blocks. An unclosed one extends to the end."""
    if "```" not in text and "~~~" not in text:
        return []
    return [
        CodeBlock(
            language=(match[2].split() or [""])[0],
            text=match[3],
            is_whole=not (text[: match.start()].strip() or text[match.end() :].strip()),
        )
        for match in _FENCE.finditer(text.replace("\r\n", "\n"))
    ]


def balanced_json(text: str) -> Iterator[tuple[Any, str]]:
    """Each outermost object and array, as a value and as source text."""
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
    """Whether it is a citation, `[1]` or `[2, 3]`, or an empty box, `[ ]`, rather than intended JSON."""
    if not isinstance(value, list):
        return False
    items = cast("Sequence[Any]", value)
    return all(type(item) is int for item in items) if items else source != "[]"


def _find_closing(text: str, start: int, budget: int) -> tuple[int, int]:
    """Return the end of the bracket at `start`, or 0, and the number of characters examined."""
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
