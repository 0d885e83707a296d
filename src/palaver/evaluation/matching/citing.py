"""Citations: what an answer refers to, and whether that is one of its sources.

A source is an item of a list, wherever the list stands; what holds no list is one source. It is known by any text in
it (a URL, an id, a file's id), by its number in the list, or by a number that it calls its own.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Literal, cast

import msgspec

from palaver.core import jsons
from palaver.core.messages import Message
from palaver.core.parts import Annotation, Text

Style = Literal["both", "annotations", "markers"]

ENOUGH: Final = 60
"""Of 100: how much of what is said has to be in the source's text."""
_NUMBERED: Final = ("id", "index", "n", "number", "ref", "source")
_CODE: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_SENTENCE_END: Final = re.compile(r"[.!?](?=\s|$)|\n")
_DEEPEST: Final = 16
_LONGEST: Final = 1_000
_MUCH: Final = 100_000
MOST: Final = 1_000
"""Citations of one answer; there are no more."""


class Source(msgspec.Struct, frozen=True):
    """What may be cited."""

    texts: tuple[str, ...]
    number: int
    """From 1, in the order in which sources came."""
    own_number: int | None = None


class Citation(msgspec.Struct, frozen=True):
    """What was cited: a place on the net, a file, or the number of a source."""

    name: str
    """As it is written, for people."""
    said: str
    """What it is to prove."""
    number: int | None = None


# Sources


def sources_in(values: Iterable[Any]) -> list[Source]:
    """Those that the values hold, numbered in their order."""
    found = [item for value in values for item in _items(_opened(value))]
    return [
        Source(texts=tuple(_texts(item)), number=number, own_number=_own_number(item))
        for number, item in enumerate(found, 1)
    ]


def _opened(value: Any) -> Any:
    return jsons.parsed(value) if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") else value


def _items(value: Any) -> list[Any]:
    """The items of the list that it is, or of the lists that it holds; itself where there are none."""
    if isinstance(value, list):
        return cast("list[Any]", value)
    if isinstance(value, dict):
        inside = cast("dict[str, Any]", value).values()
        lists = [cast("list[Any]", item) for item in inside if isinstance(item, list) and item]
        if lists:
            return [item for held in lists for item in held]
    return [] if value is None else [value]


def _texts(value: Any) -> Iterator[str]:
    waiting: list[tuple[Any, int]] = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, int | float) and not isinstance(item, bool):
            yield str(item)
        elif depth < _DEEPEST and isinstance(item, dict | list):
            held = cast("dict[str, Any]", item).values() if isinstance(item, dict) else cast("list[Any]", item)
            waiting += [(inner, depth + 1) for inner in reversed(held)]


def _own_number(item: Any) -> int | None:
    fields = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
    for key in _NUMBERED:
        value = fields.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


# Citations


def marker_pattern(marker: str) -> re.Pattern[str] | None:
    """What finds `[n]` and its like, with one number or several; None where `n` does not stand in it once, alone."""
    around = re.split(r"(?<!\w)n(?!\w)", marker)
    if len(around) != 2 or not any(around):
        return None
    before, after = map(re.escape, around)
    return re.compile(before + r"\s{0,3}(\d{1,6}(?:\s{0,3}[,;]\s{0,3}\d{1,6}){0,50})\s{0,3}" + after)


def citations_in(messages: Iterable[Message], style: Style, marker: re.Pattern[str]) -> list[Citation]:
    """Those in all that the assistant said."""
    texts = [part for message in messages if message.role == "assistant" for part in message.parts]
    found = (one for part in texts if isinstance(part, Text) for one in _in_text(part, style, marker))
    return list(islice(found, MOST))


def _in_text(part: Text, style: Style, marker: re.Pattern[str]) -> Iterator[Citation]:
    # An index in code, `rows[0]`, is no citation. What is blanked keeps its length: places stay places.
    text = _CODE.sub(lambda code: " " * len(code[0]), part.text)
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    if style != "markers":
        for note in part.annotations:
            if name := note.url or note.file_id:
                yield Citation(name=name, said=_noted(part.text, ends, note, marker))
    if style != "annotations":
        for match in marker.finditer(text):
            said = _sentence(text, ends, match.start(), match.end(), marker)
            for number in re.findall(r"\d+", match[1]):
                yield Citation(name=match[0], said=said, number=int(number))


def _noted(text: str, ends: Sequence[int], note: Annotation, marker: re.Pattern[str]) -> str:
    if note.start is None or note.end is None or not 0 <= note.start < note.end <= len(text):
        return text[:_LONGEST]
    return _sentence(text, ends, note.start, note.end, marker)


def _sentence(text: str, ends: Sequence[int], start: int, end: int, marker: re.Pattern[str]) -> str:
    """The sentence around a place, without markers; a marker after a full stop belongs to what it ended."""
    before, after = bisect_right(ends, start), bisect_left(ends, end)
    last = ends[after] if after < len(ends) else len(text)
    for place in range(before - 1, max(before - 4, -2), -1):
        first = max(ends[place] if place >= 0 else 0, start - _LONGEST)
        said = " ".join(marker.sub(" ", text[first : min(last, end + _LONGEST)]).split()).strip(" .,;:!?")
        if said:
            return said
    return ""


# Which source it is


def resolved(name: str, number: int | None, sources: Sequence[Source]) -> Source | None:
    """The source that is meant, by its number if there is one, else by name; None where there is none."""
    if number is not None:
        own = next((source for source in sources if source.own_number == number), None)
        return own or next((source for source in sources if source.number == number), None)
    name = _bare(name)
    exact = next((source for source in sources if any(_bare(text) == name for text in source.texts)), None)
    whole = re.compile(re.escape(name) + r"(?![\w/%-])")
    return exact or next((source for source in sources if any(map(whole.search, source.texts))), None)


def supported(citation: Citation, source: Source) -> bool:
    """Is what it is to prove in the source's text, nearly?"""
    from rapidfuzz import fuzz

    text = " ".join(source.texts)[:_MUCH]
    return bool(citation.said) and fuzz.partial_ratio(citation.said.casefold(), text.casefold()) >= ENOUGH


def _bare(address: str) -> str:
    """A URL without its fragment and last slash, which change nothing about what is meant."""
    return address.partition("#")[0].rstrip("/") if "://" in address else address
