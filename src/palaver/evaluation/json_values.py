"""JSON values: paths into them, and JSON in text.

- Paths: `a.b[0]`, `$.a[0]` or `/a/0`. A key with a dot or bracket is written `["a.b"]`, or as a JSON pointer. In a list
  a number is an index; `[-1]` is the last item. Missing values are UNSET: null is a value.
- The text that is searched comes from a model: nothing raises, and the work is bounded.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec import UNSET

from palaver.core import json


def map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """Apply a function to every string of a value, but not to keys."""
    match value:
        case str():
            return change(value)
        case list() | tuple():
            return [map_strings(item, change) for item in cast("Sequence[Any]", value)]
        case dict():
            return {key: map_strings(item, change) for key, item in cast("dict[str, Any]", value).items()}
        case _:
            return value


def scalar_text(value: Any) -> str | None:
    """Return a string as it is, and a number, a boolean or null as JSON; None for anything else."""
    if isinstance(value, str):
        return value
    return json.encode(value).decode() if value is None or isinstance(value, bool | int | float) else None


PathSteps = tuple[str | int, ...]

_STEP = re.compile(r"""\.?(?P<name>[^.\[\]]+)|\[(?P<index>-?\d{1,9})\]|\[(?P<quote>["'])(?P<key>.*?)(?P=quote)\]""")
_PLAIN_KEY = re.compile(r"[^.\[\]\s/$\"']+")


@lru_cache(maxsize=1024)
def parse_path(path: str) -> PathSteps:
    """Parse a path into steps. Raises ValueError."""
    if path.startswith("/"):
        return tuple(step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/"))
    body = path.removeprefix("$")
    steps: list[str | int] = []
    position = 0
    while position < len(body):
        step = _STEP.match(body, position)
        # A dot separates names, or follows the dollar sign; it does not start a path.
        if step is None or (body[position] == "." and position == 0 and body is path):
            raise ValueError(f"invalid path {path!r}: use a.b[0], $.a[0] or /a/0")
        if step["name"] is not None and position and body[position] != ".":
            raise ValueError(f"invalid path {path!r}: use a.b[0], $.a[0] or /a/0")
        name, index = step["name"], step["index"]
        steps.append(int(index) if index is not None else step["key"] if name is None else name)
        position = step.end()
    return tuple(steps)


def value_at(value: Any, path: str | PathSteps) -> Any:
    """Return the value at a path, or UNSET."""
    for step in parse_path(path) if isinstance(path, str) else path:
        if isinstance(value, Mapping):
            value = cast("Mapping[str, Any]", value).get(str(step), UNSET)
        elif isinstance(value, list | tuple):
            value = _list_item(cast("Sequence[Any]", value), step)
        else:
            return UNSET
        if value is UNSET:
            return UNSET
    return value


def format_path(path: PathSteps) -> str:
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{json.encode(json.replace_surrogates(step)).decode()}]"
    return text or "$"


def iterate_leaves(value: Any, path: PathSteps = ()) -> Iterator[tuple[PathSteps, Any]]:
    """Yield every value without children, with its path, in order. Empty lists and objects are leaves."""
    if isinstance(value, dict) and value:
        for key, inner in cast("dict[str, Any]", value).items():
            yield from iterate_leaves(inner, (*path, key))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(cast("list[Any]", value)):
            yield from iterate_leaves(inner, (*path, index))
    else:
        yield path, value


def _list_item(values: Sequence[Any], step: str | int) -> Any:
    if isinstance(step, str):
        if not (step.isascii() and step.isdecimal()) or len(step) > 9:
            return UNSET
        step = int(step)
    return values[step] if -len(values) <= step < len(values) else UNSET


_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})([^\n`]*)\n(.*?)(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_OPENING_BRACKET = re.compile(r"[\[{]")
_BRACKET_OR_QUOTE = re.compile(r'["\[\]{}]')
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_MAX_OPENING_BRACKETS = 2_000
_MIN_BUDGET_CHARS = 1_000_000
"""Characters that may be examined in search of brackets, or four times the text's length if that is more."""


def parse_json(text: str) -> Any:
    """Parse the whole text, without surrounding whitespace; UNSET if it is not JSON."""
    stripped = text.strip()
    value = json.parse_or_text(stripped) if stripped else stripped
    return UNSET if value is stripped else value


def find_json(text: str) -> Any:
    """Return the first JSON: the whole text, else a fenced block, else balanced brackets; or UNSET."""
    value = parse_json(text)
    if value is not UNSET:
        return value
    for block in code_blocks(text):
        if (value := parse_json(block.text)) is not UNSET:
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
    """Whether only whitespace surrounds it."""


def code_blocks(text: str) -> list[CodeBlock]:
    """Return all fenced blocks. An unclosed one extends to the end."""
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
    """Yield each outermost object and array, as a value and as source text."""
    position, tries, budget = 0, 0, max(_MIN_BUDGET_CHARS, 4 * len(text))
    while tries < _MAX_OPENING_BRACKETS and budget > 0 and (opening := _OPENING_BRACKET.search(text, position)):
        tries += 1
        start = opening.start()
        end, examined = _find_closing(text, start, budget)
        budget -= examined
        position = start + 1
        if end:
            source = text[start:end]
            value = json.parse_or_text(source)
            if value is not source:
                yield value, source
                position = end


def is_citation_mark(value: Any, source: str) -> bool:
    """Whether the JSON is a citation, `[1]` or `[2, 3]`, or an empty box, `[ ]`, rather than intended JSON."""
    if not isinstance(value, list):
        return False
    items = cast("Sequence[Any]", value)
    return all(type(item) is int for item in items) if items else source != "[]"


def _find_closing(text: str, start: int, budget: int) -> tuple[int, int]:
    """Return the end of the bracket at `start`, or 0, and the number of characters examined."""
    depth, position, limit = 0, start, min(len(text), start + budget)
    while token := _BRACKET_OR_QUOTE.search(text, position, limit):
        position = token.end()
        match token[0]:
            case '"':
                string = _STRING.match(text, token.start())
                if string is None:
                    break
                position = string.end()
            case "[" | "{":
                depth += 1
            case _:
                depth -= 1
                if depth == 0:
                    return position, position - start
    return 0, limit - start
