"""Searching an index for what a question is about.

No model is asked whether docs are needed: a search is cheap, and a question that nothing answers finds nothing.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from palaver_jobchat.words import content_terms

BUDGET = 12_000
"""Characters of all results together."""
MOST = 5
LOWEST = 0.35
"""The score, beside the best one's 1.0, below which a result is noise."""

_CANDIDATES = 30
_SHORT = 40
_MOST_TERMS = 20
_WITHOUT = ("openfn", "job", "jobs")
# The best are found by their words alone; only their texts are read then.
_RANKED = """
    WITH best AS (
        SELECT rowid AS id, rank AS score FROM words
        WHERE words MATCH ? AND rank MATCH 'bm25(4.0, 2.0, 1.0)' ORDER BY rank LIMIT ?
    )
    SELECT id, title, section, path, text, -score FROM best JOIN chunks USING (id) ORDER BY score, id
"""


class Found(msgspec.Struct, frozen=True):
    """One piece of a document that answers the question."""

    text: str
    title: str = ""
    section: str = ""
    path: str = ""
    score: float | None = None
    """Relative to the best."""

    def result(self) -> dict[str, Any]:
        """As `meta.rag.search_results` has it."""
        metadata = {"doc_title": self.title, "docs_type": "general_docs", "section": self.section, "path": self.path}
        return {"text": self.text, "metadata": metadata, **({} if self.score is None else {"score": self.score})}


class Query(msgspec.Struct, frozen=True):
    """What is searched for."""

    text: str
    """As it is told to the client."""
    terms: tuple[str, ...]
    """The words that say what the question is about. Without any there is nothing to search."""
    adaptor: str | None = None
    """Its short name: ranks what is about it higher, but is no reason to show it."""


class Searched(msgspec.Struct, frozen=True):
    """What a search gave; the query is none where there was nothing to search for."""

    query: str | None = None
    found: tuple[Found, ...] = ()


def query(question: str, *, adaptor: str | None = None, before: str | None = None) -> Query:
    """What to search for. A short question ("and in bulk?") is about what the user said `before`."""
    question = question.strip()
    earlier = before.strip() if before and len(question) < _SHORT else ""
    terms = content_terms(f"{question} {earlier}", without=(*_WITHOUT, adaptor or ""))[:_MOST_TERMS]
    text = " ".join(part for part in (question, adaptor, earlier) if part)
    return Query(text, tuple(terms), adaptor)


def search(file: Path, query: Query, *, budget: int = BUDGET) -> Searched:
    """The pieces that answer best, the best first. Raises sqlite3.Error where there is no index that can be read."""
    if not query.terms:
        return Searched()
    with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=1)) as database:
        terms = (*query.terms, *([query.adaptor] if query.adaptor else ()))
        rows = database.execute(_RANKED, (" OR ".join(map(_quoted, terms)), _CANDIDATES)).fetchall()
        held = _held(database, query.terms, [row[0] for row in rows])
    needed = min(2, len(query.terms))
    rows = [row for row in rows if held[row[0]] >= needed]
    best = max((row[5] for row in rows), default=0.0)
    found = [
        Found(text, title, section, path, round(score / best, 4) if best > 0 else 1.0)
        for _, title, section, path, text, score in rows
        if score >= LOWEST * best
    ]
    return Searched(query.text, tuple(within(found[:MOST], budget)))


def within(found: Iterable[Found], budget: int) -> list[Found]:
    """The first of them whose texts fit together into so many characters."""
    kept: list[Found] = []
    for one in found:
        budget -= len(one.text)
        if budget < 0:
            break
        kept.append(one)
    return kept


def _held(database: sqlite3.Connection, terms: Sequence[str], ids: Sequence[int]) -> dict[int, int]:
    """How many of the terms each of these pieces holds, as the index itself reads words."""
    held = dict.fromkeys(ids, 0)
    for term in terms:
        for (number,) in database.execute("SELECT rowid FROM words WHERE words MATCH ?", (_quoted(term),)):
            if number in held:
                held[number] += 1
    return held


def _quoted(term: str) -> str:
    """A term that is nothing but words for FTS5, whatever it holds."""
    return '"' + term.replace('"', '""') + '"'
