"""Full-text search for spans: FTS5 on SQLite, tsvector on PostgreSQL.

Both get normalized words (casefolded letters and digits), so that their own tokenizers do not matter and search input
cannot contain query syntax.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, column, false, func, literal, select, table, text

from palaver.core.json import replace_surrogates
from palaver.storage.spans.tables import SIMPLE_REGCONFIG, spans

_MAX_WORD_LENGTH = 64
_WORD_PATTERN = re.compile(rf"[^\W_]{{1,{_MAX_WORD_LENGTH}}}")
_ASCII_TABLE = bytes(code if chr(code).isalnum() else 32 for code in bytes(range(128)).lower()) + bytes(128)
"""Translation table for ASCII text, the fast path."""
_PHRASE_PATTERN = re.compile(r'"([^"]*)"?|([^\s"]+)')
_MAX_PHRASES = 32
MAX_SORTED_HITS = 8_000
"""Up to this many hits are sorted by time. With more, the latest spans are searched first, in growing windows."""
SEARCH_WINDOWS = (2_000, 16_000, 128_000)

_word_index = table("span_words", column("rowid"), column("span_words"))
_delete_words = text("INSERT INTO span_words (span_words, rowid, words) VALUES ('delete', :id, :words)")


def normalize_words(text: str) -> str:
    """Return the words of a text, normalized and separated by spaces; very long words are split."""
    if text.isascii():
        words = text.encode().translate(_ASCII_TABLE).split()
        if max(map(len, words), default=0) <= _MAX_WORD_LENGTH:
            return b" ".join(words).decode()
    return " ".join(_WORD_PATTERN.findall(replace_surrogates(text).casefold()))


def search_phrases(search: str) -> list[str]:
    """Return the words and quoted phrases of a search, all of which have to match."""
    phrases = [normalize_words(phrase or word) for phrase, word in _PHRASE_PATTERN.findall(search)]
    return [words for words in phrases if words][:_MAX_PHRASES]


def delete_words(db: Connection, texts: Iterable[tuple[int, str | None]]) -> None:
    """Delete spans from SQLite's index, which needs the original words."""
    if db.dialect.name == "sqlite" and (rows := [{"id": key, "words": words} for key, words in texts if words]):
        db.execute(_delete_words, rows)


def matches_search(db: Connection, search: str) -> ColumnElement[bool]:
    """Return the condition that a span matches; a search without words matches nothing."""
    phrases = search_phrases(search)
    if not phrases:
        return false()
    return _tsvector_matches(phrases) if db.dialect.name == "postgresql" else spans.c.id.in_(_hits(phrases))


def search_plans(
    db: Connection, project: str, search: str, *, before: datetime | None
) -> Iterator[list[ColumnElement[bool]]]:
    """Yield conditions for finding the latest matches, each wider than the one before; the last finds all.

    Otherwise SQLite would read every span, or every hit, to find the latest of many.
    """
    phrases = search_phrases(search)
    if db.dialect.name == "postgresql" or not phrases:
        yield [spans.c.project == project, matches_search(db, search)]
    elif len(db.execute(_hits(phrases).limit(MAX_SORTED_HITS + 1)).all()) <= MAX_SORTED_HITS:
        # The expression prevents the use of the time index, which would scan all spans of the project.
        yield [spans.c.project.concat("") == project, spans.c.id.in_(_hits(phrases))]
    else:
        for size in SEARCH_WINDOWS:
            if (window := _latest_window(db, project, size, before)) is None:
                break
            start, first, last = window
            hits = _hits(phrases).where(_word_index.c.rowid.between(first, last))
            yield [spans.c.project == project, spans.c.start >= start, spans.c.id.in_(hits)]
        yield [spans.c.project == project, spans.c.id.in_(_hits(phrases))]


def _latest_window(
    db: Connection, project: str, size: int, before: datetime | None
) -> tuple[datetime, int, int] | None:
    """Return the earliest start and the first and last id of the latest `size` spans; None if there are fewer."""
    latest = select(spans.c.start, spans.c.id).where(spans.c.project == project)
    if before is not None:
        latest = latest.where(spans.c.start <= before)
    window = latest.order_by(spans.c.start.desc(), spans.c.span_id.desc(), spans.c.id.desc()).limit(size).subquery()
    query = select(func.min(window.c.start), func.min(window.c.id), func.max(window.c.id), func.count())
    start, first, last, count = db.execute(query).one()
    return None if count < size else (start, first, last)


def _hits(phrases: Sequence[str]) -> Select[Any]:
    query = " ".join(f'"{words}"' for words in phrases)  # Only letters, digits and spaces.
    return select(_word_index.c.rowid).where(_word_index.c.span_words.op("MATCH", is_comparison=True)(literal(query)))


def _tsvector_matches(phrases: Sequence[str]) -> ColumnElement[bool]:
    query: ColumnElement[Any] = func.phraseto_tsquery(SIMPLE_REGCONFIG, phrases[0])
    for words in phrases[1:]:
        query = query.op("&&")(func.phraseto_tsquery(SIMPLE_REGCONFIG, words))
    return spans.c.words.op("@@", is_comparison=True)(query)
