"""Finding spans by words: FTS5 on SQLite, a tsvector on PostgreSQL.

Both get plain words: small letters and digits with spaces between, so that neither's own idea of what a word is
matters, and none of what a searcher types is a command of the index's.
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
"""What each byte of a text becomes that has no other letters: most have none, and this is the quick way."""
_PHRASE_PATTERN = re.compile(r'"([^"]*)"?|([^\s"]+)')
_MAX_PHRASES = 32
"""Words and phrases of one search that are looked for."""
MAX_SORTED_HITS = 8_000
"""So many hits are sorted by time. Of more, the latest spans are looked at first, in windows that grow:"""
SEARCH_WINDOWS = (2_000, 16_000, 128_000)

_word_index = table("span_words", column("rowid"), column("span_words"))
_delete_words = text("INSERT INTO span_words (span_words, rowid, words) VALUES ('delete', :id, :words)")


def normalize_words(said: str) -> str:
    """The words of a text, as they are kept and looked for. A very long one is several."""
    if said.isascii():
        words = said.encode().translate(_ASCII_TABLE).split()
        if max(map(len, words), default=0) <= _MAX_WORD_LENGTH:
            return b" ".join(words).decode()
    return " ".join(_WORD_PATTERN.findall(replace_surrogates(said).casefold()))


def search_phrases(search: str) -> list[str]:
    """The words, and the phrases in double quotes, that a search asks for; all of them are to be found."""
    found = [normalize_words(phrase or word) for phrase, word in _PHRASE_PATTERN.findall(search)]
    return [words for words in found if words][:_MAX_PHRASES]


def delete_words(db: Connection, texts: Iterable[tuple[int, str | None]]) -> None:
    """Take spans out of SQLite's index, with the very words that they were taken in with."""
    if db.dialect.name == "sqlite" and (rows := [{"id": key, "words": words} for key, words in texts if words]):
        db.execute(_delete_words, rows)


def matches_search(db: Connection, search: str) -> ColumnElement[bool]:
    """Does a span hold all that is asked for? In a search without any word, none does."""
    wanted = search_phrases(search)
    if not wanted:
        return false()
    return _tsvector_matches(wanted) if db.dialect.name == "postgresql" else spans.c.id.in_(_hits(wanted))


def search_plans(
    db: Connection, project: str, search: str, *, before: datetime | None
) -> Iterator[list[ColumnElement[bool]]]:
    """Conditions on a project's spans that hold all that is asked for, of use when the latest are looked for.

    Each finds what the one before it does, and more; the last finds all. Left to itself, SQLite would look at every
    span, or at every hit, to find the latest of many.
    """
    wanted = search_phrases(search)
    if db.dialect.name == "postgresql" or not wanted:
        yield [spans.c.project == project, matches_search(db, search)]
    elif len(db.execute(_hits(wanted).limit(MAX_SORTED_HITS + 1)).all()) <= MAX_SORTED_HITS:
        # No index knows such a project: or else all of its spans would be gone through in order.
        yield [spans.c.project.concat("") == project, spans.c.id.in_(_hits(wanted))]
    else:
        for size in SEARCH_WINDOWS:
            if (window := _latest_window(db, project, size, before)) is None:
                break
            start, first, last = window
            hits = _hits(wanted).where(_word_index.c.rowid.between(first, last))
            yield [spans.c.project == project, spans.c.start >= start, spans.c.id.in_(hits)]
        yield [spans.c.project == project, spans.c.id.in_(_hits(wanted))]


def _latest_window(
    db: Connection, project: str, size: int, before: datetime | None
) -> tuple[datetime, int, int] | None:
    """Of so many spans up to a time, the earliest start, and the first and last id; None if there are no more."""
    latest = select(spans.c.start, spans.c.id).where(spans.c.project == project)
    if before is not None:
        latest = latest.where(spans.c.start <= before)
    some = latest.order_by(spans.c.start.desc(), spans.c.span_id.desc(), spans.c.id.desc()).limit(size).subquery()
    asked_for = select(func.min(some.c.start), func.min(some.c.id), func.max(some.c.id), func.count())
    start, first, last, count = db.execute(asked_for).one()
    return None if count < size else (start, first, last)


def _hits(wanted: Sequence[str]) -> Select[Any]:
    query = " ".join(f'"{words}"' for words in wanted)  # Letters, digits and spaces: there is nothing to escape.
    return select(_word_index.c.rowid).where(_word_index.c.span_words.op("MATCH", is_comparison=True)(literal(query)))


def _tsvector_matches(wanted: Sequence[str]) -> ColumnElement[bool]:
    query: ColumnElement[Any] = func.phraseto_tsquery(SIMPLE_REGCONFIG, wanted[0])
    for words in wanted[1:]:
        query = query.op("&&")(func.phraseto_tsquery(SIMPLE_REGCONFIG, words))
    return spans.c.words.op("@@", is_comparison=True)(query)
