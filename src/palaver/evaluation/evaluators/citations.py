"""citations: whether the answer cites only its sources.

A source is an item of a list, wherever the list is; a value without lists is one source. It is cited by any text in it
(a URL, an id, a file id), by its position in the list, or by a number that it has itself.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import UNSET, Meta

from palaver.core import json
from palaver.core.messages import Annotation, Message, Text
from palaver.errors import InvalidValue
from palaver.evaluation import json_values
from palaver.evaluation.case import Case
from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.evaluator import evaluator
from palaver.evaluation.score import Score, Skip

CitationStyle = Literal["both", "annotations", "markers"]

MIN_SUPPORT_PERCENT: Final = 60
"""Minimum similarity of a statement and its source's text, as rapidfuzz's `partial_ratio`."""
_NUMBER_KEYS: Final = ("id", "index", "n", "number", "ref", "source")
_CODE: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_SENTENCE_END: Final = re.compile(r"[.!?](?=\s|$)|\n")
_MAX_DEPTH: Final = 16
_MAX_SENTENCE_LENGTH: Final = 1_000
_MAX_SOURCE_LENGTH: Final = 100_000
MAX_CITATIONS: Final = 1_000
"""Further citations of an answer are ignored."""


class Source(msgspec.Struct, frozen=True):
    texts: tuple[str, ...]
    number: int
    """Position among all sources, from 1."""
    own_number: int | None = None
    """A number in the source itself, such as its `id`, which takes precedence."""


class Citation(msgspec.Struct, frozen=True):
    """A citation: a URL, a file, or the number of a source."""

    name: str
    """As written in the answer."""
    statement: str
    """The sentence that the citation belongs to."""
    number: int | None = None


# Sources


def find_sources(values: Iterable[Any]) -> list[Source]:
    """Return the sources in the values, numbered in order."""
    items = [item for value in values for item in _source_items(_parse_json_text(value))]
    return [
        Source(texts=tuple(_source_texts(item)), number=number, own_number=_own_number(item))
        for number, item in enumerate(items, 1)
    ]


def _parse_json_text(value: Any) -> Any:
    return json.parse_or_text(value) if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") else value


def _source_items(value: Any) -> list[Any]:
    """Return the items of the list, or of all lists in the object; else the value itself."""
    if isinstance(value, list):
        return cast("list[Any]", value)
    if isinstance(value, dict):
        values = cast("dict[str, Any]", value).values()
        lists = [cast("list[Any]", item) for item in values if isinstance(item, list) and item]
        if lists:
            return [item for children in lists for item in children]
    return [] if value is None else [value]


def _source_texts(value: Any) -> Iterator[str]:
    pending: list[tuple[Any, int]] = [(value, 0)]
    while pending:
        item, depth = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, int | float) and not isinstance(item, bool):
            yield str(item)
        elif depth < _MAX_DEPTH and isinstance(item, dict | list):
            children = cast("dict[str, Any]", item).values() if isinstance(item, dict) else cast("list[Any]", item)
            pending += [(inner, depth + 1) for inner in reversed(children)]


def _own_number(item: Any) -> int | None:
    fields = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
    for key in _NUMBER_KEYS:
        value = fields.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


# Citations


def marker_pattern(marker: str) -> re.Pattern[str] | None:
    """Return a pattern for markers such as `[n]`, with one or more numbers; None unless `n` occurs once, as a word."""
    affixes = re.split(r"(?<!\w)n(?!\w)", marker)
    if len(affixes) != 2 or not any(affixes):
        return None
    prefix, suffix = map(re.escape, affixes)
    return re.compile(prefix + r"\s{0,3}(\d{1,6}(?:\s{0,3}[,;]\s{0,3}\d{1,6}){0,50})\s{0,3}" + suffix)


def find_citations(messages: Iterable[Message], style: CitationStyle, marker: re.Pattern[str]) -> list[Citation]:
    parts = [part for message in messages if message.role == "assistant" for part in message.parts]
    citations = (item for part in parts if isinstance(part, Text) for item in _citations_in_text(part, style, marker))
    return list(islice(citations, MAX_CITATIONS))


def _citations_in_text(part: Text, style: CitationStyle, marker: re.Pattern[str]) -> Iterator[Citation]:
    # An index in code, `rows[0]`, is not a citation. Blanked code keeps its length, so offsets stay valid.
    text = _CODE.sub(lambda code: " " * len(code[0]), part.text)
    sentence_ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    if style != "markers":
        for annotation in part.annotations:
            if name := annotation.url or annotation.file_id:
                yield Citation(name=name, statement=_cited_sentence(part.text, sentence_ends, annotation, marker))
    if style != "annotations":
        for match in marker.finditer(text):
            statement = _sentence_around(text, sentence_ends, match.start(), match.end(), marker)
            for number in re.findall(r"\d+", match[1]):
                yield Citation(name=match[0], statement=statement, number=int(number))


def _cited_sentence(text: str, sentence_ends: Sequence[int], annotation: Annotation, marker: re.Pattern[str]) -> str:
    if annotation.start is None or annotation.end is None or not 0 <= annotation.start < annotation.end <= len(text):
        return text[:_MAX_SENTENCE_LENGTH]
    return _sentence_around(text, sentence_ends, annotation.start, annotation.end, marker)


def _sentence_around(text: str, sentence_ends: Sequence[int], start: int, end: int, marker: re.Pattern[str]) -> str:
    """Return the sentence around a range, without markers. A marker after a full stop belongs to the one before."""
    ends_before, next_end = bisect_right(sentence_ends, start), bisect_left(sentence_ends, end)
    stop = sentence_ends[next_end] if next_end < len(sentence_ends) else len(text)
    for index in range(ends_before - 1, max(ends_before - 4, -2), -1):
        first = max(sentence_ends[index] if index >= 0 else 0, start - _MAX_SENTENCE_LENGTH)
        sentence = " ".join(marker.sub(" ", text[first : min(stop, end + _MAX_SENTENCE_LENGTH)]).split()).strip(
            " .,;:!?"
        )
        if sentence:
            return sentence
    return ""


# Resolution


def resolve_source(name: str, number: int | None, sources: Sequence[Source]) -> Source | None:
    """Return the cited source, by number if there is one, else by name."""
    if number is not None:
        by_own_number = next((source for source in sources if source.own_number == number), None)
        return by_own_number or next((source for source in sources if source.number == number), None)
    name = _normalize_url(name)
    exact = next((source for source in sources if any(_normalize_url(text) == name for text in source.texts)), None)
    pattern = re.compile(re.escape(name) + r"(?![\w/%-])")
    return exact or next((source for source in sources if any(map(pattern.search, source.texts))), None)


def is_supported(citation: Citation, source: Source) -> bool:
    """Whether the statement is roughly in the source's text."""
    from rapidfuzz import fuzz

    text = " ".join(source.texts)[:_MAX_SOURCE_LENGTH]
    return (
        bool(citation.statement)
        and fuzz.partial_ratio(citation.statement.casefold(), text.casefold()) >= MIN_SUPPORT_PERCENT
    )


def _normalize_url(address: str) -> str:
    """Drop fragment and trailing slash."""
    return address.partition("#")[0].rstrip("/") if "://" in address else address


def _check_citations(parameters: Any, _context: EvaluatorContext) -> None:
    if marker_pattern(parameters.marker) is None:
        raise InvalidValue("marker must contain n exactly once, as in [n].", pointer="/parameters/marker")
    if parameters.sources is not None:
        try:
            json_values.parse_path(parameters.sources)
        except ValueError as error:
            raise InvalidValue(f"{error}.", pointer="/parameters/sources") from None


@evaluator(needs={"chat"}, check=_check_citations)
def citations(
    case: Case,
    *,
    sources: Annotated[
        str | None, Meta(description="Path of the sources in the inputs (default: the tool results).")
    ] = None,
    style: Annotated[CitationStyle, Meta(description="What counts as a citation.")] = "both",
    marker: Annotated[str, Meta(max_length=40, description="Marker format; n is the number.")] = "[n]",
    min: Annotated[int, Meta(ge=0, description="Minimum number of citations.")] = 1,
    supported: Annotated[
        bool, Meta(description="Require each source to contain the statement, at least approximately.")
    ] = False,
) -> Score:
    """Every citation (an annotation or a marker such as `[n]`) refers to a source, and there are at least `min`.

    `supported` also requires that the source's text contains the statement, at least approximately.
    """
    numbered_sources = find_sources(_source_values(case, sources))
    pattern = marker_pattern(marker) or re.compile(r"\[(\d+)\]")
    cited = find_citations(case.messages, style, pattern)
    references = {(citation.name, citation.number) for citation in cited}
    resolved = {reference: resolve_source(*reference, numbered_sources) for reference in references}
    details = [_describe_citation(item, resolved[item.name, item.number], supported=supported) for item in cited]
    invalid_names = [item["citation"] for item in details if not (item["resolved"] and item.get("supported", True))]
    return Score(
        passed=not invalid_names and len(cited) >= min,
        score=(len(cited) - len(invalid_names)) / len(cited) if cited else 0.0,
        reason=f"no source for {', '.join(dict.fromkeys(invalid_names))}"
        if invalid_names
        else f"citations: {len(cited)}, expected at least {min}"
        if len(cited) < min
        else "",
        details={"sources": len(numbered_sources), "citations": details},
    )


def _source_values(case: Case, sources: str | None) -> list[Any]:
    if sources is None:
        return [result.output for message in case.messages for result in message.tool_results if not result.is_error]
    value = case.inputs[sources] if sources in case.inputs else json_values.value_at(case.inputs, sources)
    if value is UNSET:
        raise Skip("no_sources", f"the inputs have no value at {sources!r}")
    return [value]


def _describe_citation(citation: Citation, source: Source | None, *, supported: bool) -> dict[str, Any]:
    details: dict[str, Any] = {"citation": citation.name, "resolved": source is not None}
    if source is not None:
        details["source"] = source.number
        if supported:
            details["supported"] = is_supported(citation, source)
    return details
