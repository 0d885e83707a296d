"""Searching an index for what a question is about.

By its words (BM25) and, with a model, also by its meaning; the two rankings become one. No language model is asked
whether docs are needed: a search is cheap, and a question that nothing answers finds nothing.
"""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import msgspec
import platformdirs

from palaver import PalaverError
from palaver_jobchat.bm25 import content_terms
from palaver_jobchat.docs.embeddings import Embedding, VectorSearch, load_embedding
from palaver_jobchat.docs.index import TOKENIZER, sample_index
from palaver_jobchat.payload import PreviousTopic
from palaver_jobchat.settings import Settings

RESULTS_BUDGET_CHARACTERS = 12_000
"""Characters of all results together."""
MAX_RESULTS = 5
MIN_RELATIVE_SCORE = 0.35
"""The score, beside the best one's 1.0, below which a result is noise."""

NearestChunks = Callable[[sqlite3.Connection, str, int], Sequence[int]]
"""The pieces of an index that lie nearest to a question, at most so many: docs/nearest.py."""

_CANDIDATES = 30
_AT_ONCE = 10
_DAMPING = 60  # Reciprocal rank's k, as almost everyone has it.
_SHORT = 40
_MAX_TERMS = 20
_MAX_SCORED_ROWS = 6_000  # That are scored for one question: a few milliseconds.
_WITHOUT = ("openfn", "job", "jobs")
_RANKED = """
    SELECT rowid, -rank FROM words
    WHERE words MATCH ? AND rank MATCH 'bm25(4.0, 2.0, 1.0)' ORDER BY rank LIMIT ?
"""


class SearchResult(msgspec.Struct, frozen=True):
    """One piece of a document that answers the question."""

    text: str
    title: str = ""
    section: str = ""
    path: str = ""
    score: float | None = None
    """Relative to the best."""

    def to_dict(self) -> dict[str, Any]:
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


class SearchResults(msgspec.Struct, frozen=True):
    """What a search gave; the query is none where there was nothing to search for."""

    query: str | None = None
    results: tuple[SearchResult, ...] = ()


def build_query(question: str, *, adaptor: str | None = None, previous_question: str | None = None) -> Query:
    """What to search for. A short question ("and in bulk?") is about what the user said `before`."""
    question = question.strip()
    earlier = previous_question.strip() if previous_question and len(question) < _SHORT else ""
    terms = content_terms(f"{question} {earlier}", without=(*_WITHOUT, adaptor or ""))[:_MAX_TERMS]
    text = " ".join(part for part in (question, adaptor, earlier) if part)
    return Query(text, tuple(terms), adaptor)


def search_index(
    file: Path, query: Query, *, budget: int = RESULTS_BUDGET_CHARACTERS, vector_search: NearestChunks | None = None
) -> SearchResults:
    """The pieces that answer best, the best first. Raises sqlite3.Error where there is no index that can be read."""
    if not query.terms:
        return SearchResults()
    # Immutable: an index is replaced, never changed in place (docs/writing.py), so nothing needs to be locked.
    opened = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    with closing(opened) as database:
        scores = _rank_by_terms(database, (*query.terms, *([query.adaptor] if query.adaptor else ())))
        if vector_search is not None and (nearest := vector_search(database, query.text, _CANDIDATES)):
            scores = merge_rankings(list(scores), nearest)
        kept = _relevant(database, scores, query.terms)
    return SearchResults(query.text, tuple(fit_budget(kept, budget)))


def merge_rankings(*rankings: Sequence[int]) -> dict[int, float]:
    """Several rankings as one, by reciprocal rank: what stands high in more than one of them comes first."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, number in enumerate(ranking, start=1):
            scores[number] = scores.get(number, 0.0) + 1 / (_DAMPING + rank)
    return dict(sorted(scores.items(), key=lambda one: (-one[1], one[0])))


def fit_budget(found: Iterable[SearchResult], budget: int) -> list[SearchResult]:
    """The first of them whose texts fit together into so many characters."""
    kept: list[SearchResult] = []
    for one in found:
        budget -= len(one.text)
        if budget < 0:
            break
        kept.append(one)
    return kept


def _rank_by_terms(database: sqlite3.Connection, terms: Sequence[str]) -> dict[int, float]:
    """The pieces that hold any of the terms, the best first, with their scores."""
    telling = _rarest_terms(database, terms)
    if not telling:
        return {}
    found = database.execute(_RANKED, (" OR ".join(map(_quoted, telling)), _CANDIDATES))
    return dict(sorted(found.fetchall(), key=lambda one: (-one[1], one[0])))


def _rarest_terms(database: sqlite3.Connection, terms: Sequence[str]) -> list[str]:
    """The rarest of the terms that there are, which decide.

    A word that half of all pieces have adds nothing to a score, but each of them would be scored for it; and a long
    question has more rare words than are needed to find its answer.
    """
    (chunks,) = database.execute("SELECT chunks FROM about").fetchone()
    count = "SELECT count(*) FROM words WHERE words MATCH ?"
    numbers = {term: database.execute(count, (_quoted(term),)).fetchone()[0] for term in terms}
    known = sorted((term for term in terms if numbers[term]), key=lambda term: numbers[term])
    # All that a question says may be what everything here is about.
    rare = [term for term in known if numbers[term] <= chunks / 2] or known
    telling: list[str] = []
    rows = 0
    for term in rare:
        rows += numbers[term]
        if rows > _MAX_SCORED_ROWS and len(telling) >= 2:
            break
        telling.append(term)
    return telling


def _load_chunks(database: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, SearchResult]:
    one = "SELECT text, title, section, path FROM chunks WHERE id = ?"
    return {number: SearchResult(*database.execute(one, (number,)).fetchone()) for number in numbers}


def _relevant(database: sqlite3.Connection, scores: Mapping[int, float], terms: Sequence[str]) -> list[SearchResult]:
    """Those that are to the point, the best first: they hold the question's words, and are not far below the best.

    That also holds for what is near in meaning alone: among pages about one subject everything is near to everything.
    """
    kept: list[tuple[SearchResult, float]] = []
    ranking = list(scores)
    # Most often the first few will do, and looking for the words in all of them takes its time.
    for start in range(0, len(ranking), _AT_ONCE):
        pieces = _load_chunks(database, ranking[start : start + _AT_ONCE])
        held = _term_counts(pieces, terms)
        kept += [(piece, scores[one]) for one, piece in pieces.items() if held[one] >= min(2, len(terms))]
        if len(kept) >= MAX_RESULTS:
            break
    best = kept[0][1] if kept else 0.0
    shares = [(piece, score / best if best > 0 else 1.0) for piece, score in kept[:MAX_RESULTS]]
    return [
        msgspec.structs.replace(piece, score=round(share, 4)) for piece, share in shares if share >= MIN_RELATIVE_SCORE
    ]


def _term_counts(pieces: Mapping[int, SearchResult], terms: Sequence[str]) -> dict[int, int]:
    """How many of the terms each of these pieces holds, as the index itself reads words."""
    held = dict.fromkeys(pieces, 0)
    # A small index of these alone: the large one would give every piece that has a common word.
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.execute(f"CREATE VIRTUAL TABLE words USING fts5 (title, section, text, {TOKENIZER})")
        rows = ((number, one.title, one.section, one.text) for number, one in pieces.items())
        database.execute("BEGIN")
        database.executemany("INSERT INTO words (rowid, title, section, text) VALUES (?, ?, ?, ?)", rows)
        for term in terms:
            for (number,) in database.execute("SELECT rowid FROM words WHERE words MATCH ?", (_quoted(term),)):
                held[number] += 1
    return held


def _quoted(term: str) -> str:
    """A term that is nothing but words for FTS5, whatever it holds."""
    return '"' + term.replace('"', '""') + '"'


log = logging.getLogger("palaver_jobchat")


class DocsRetriever:
    """The documentation of one process: where its index lies, and what is kept of it between questions.

    The index is opened for each question, which takes a fifth of a millisecond; so a new one is used from the next
    question on.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._file = Path(settings.index).expanduser() if settings.index else None
        """None: ours, which is looked for at the first question."""
        self._has_failed = False
        self._model: Embedding | None = None
        self._near: VectorSearch | None = None
        self._is_model_read = False
        self._told = ""

    @property
    def has_index(self) -> bool:
        """Whether there is something to search: the user's own index, or else ours."""
        return self._file.is_file() if self._file is not None else not self._has_failed

    async def search(self, query: Query) -> SearchResults | None:
        """What the docs say about it; none where there is no index or it cannot be searched, which is logged."""
        if not query.terms:
            return SearchResults()
        return await asyncio.to_thread(self._look, query)

    def _look(self, query: Query) -> SearchResults | None:
        # Whatever is wrong with the docs: the chat answers without them.
        try:
            file, near = self._prepared()
        except Exception as error:
            self._has_failed = True
            self._tell(f"The docs that come with Job Chat cannot be used: {error}")
            return None
        try:
            return self._search(file, query, near)
        except Exception as error:
            self._tell(f"The index of the docs, {file}, cannot be searched: {error}. It has to be made anew.")
            if not self._settings.index:
                self._file = None  # Somebody cleaned the cache: with the next question it is.
            return None

    def _search(self, file: Path, query: Query, near: VectorSearch | None) -> SearchResults:
        budget = self._settings.docs_budget
        try:
            return search_index(file, query, budget=budget, vector_search=near)
        except PalaverError as error:  # Of the model. Words still find something.
            self._tell(error.message)
            return search_index(file, query, budget=budget)

    def _prepared(self) -> tuple[Path, VectorSearch | None]:
        """The index and the model, made ready by whoever asks first."""
        with self._lock:
            if not self._is_model_read:
                self._is_model_read = True
                try:
                    self._model = load_embedding(self._settings.embeddings)
                except PalaverError as error:
                    self._tell(error.message)
                self._near = VectorSearch(self._model) if self._model is not None else None
            if self._file is None:
                cache = self._settings.cache
                folder = Path(cache).expanduser() if cache else platformdirs.user_cache_path("palaver-jobchat")
                self._file = self._sample(folder)
                self._has_failed = False
            return self._file, self._near

    def _sample(self, cache: Path) -> Path:
        try:
            return sample_index(cache, embeddings=self._model)
        except PalaverError as error:
            if self._model is None:
                raise
            self._tell(error.message)
            return sample_index(cache)

    def _tell(self, what: str) -> None:
        """Log a complaint, once for as long as it is the same."""
        if what != self._told:
            self._told = what
            log.warning("%s", what)


MAX_RAG_RESULTS = 10
MAX_RESULT_CHARACTERS = 4_000
"""Characters of one result from a client: it is a stranger's text."""


class RagResults(msgspec.Struct, frozen=True):
    """The results that a turn uses, and what was searched for in it."""

    results: tuple[SearchResult, ...] = ()
    queries: tuple[str, ...] = ()

    def meta(self) -> dict[str, Any]:
        """As the answer's `meta.rag` has it."""
        return {
            "search_results": [one.to_dict() for one in self.results],
            "search_results_sections": list(dict.fromkeys(one.title for one in self.results if one.title)),
            "search_queries": [{"query": query} for query in self.queries],
        }


def valid_results(results: Sequence[object]) -> list[SearchResult]:
    """Those of a client's results that have the shape of one; what else they hold is dropped."""
    return [found for result in results if (found := _valid_result(result)) is not None]


def select_results(
    incoming: Sequence[object],
    searched: SearchResults | None,
    *,
    topic: PreviousTopic,
    previous_topic: PreviousTopic | None = None,
    refresh: bool = False,
    budget: int = RESULTS_BUDGET_CHARACTERS,
) -> RagResults:
    """The results for this turn. `searched` is none where there is no index, or searching it failed.

    `now` is what this turn is about, `earlier` what the incoming results were found for; if it is another page or
    another adaptor, they are no longer to the point.
    """
    theirs = valid_results(incoming)
    if searched is None:
        return RagResults(tuple(fit_budget(theirs[:MAX_RAG_RESULTS], budget)))
    if refresh or (previous_topic is not None and previous_topic != topic):
        theirs = []
    known = {one.text for one in theirs}
    found = [*theirs, *(one for one in searched.results if one.text not in known)]
    return RagResults(tuple(fit_budget(found[:MAX_RAG_RESULTS], budget)), (searched.query,) if searched.query else ())


def _valid_result(result: object) -> SearchResult | None:
    if not isinstance(result, dict):
        return None
    item = cast("dict[str, Any]", result)
    text = item.get("content") if item.get("text") is None else item["text"]
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_RESULT_CHARACTERS:
        return None
    given = item.get("metadata")
    metadata = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    score = item.get("score")
    return SearchResult(
        text=text,
        title=_short_text(metadata.get("doc_title")) or _short_text(item.get("title")),
        section=_short_text(metadata.get("section")),
        path=_short_text(metadata.get("path")),
        score=score if isinstance(score, int | float) and not isinstance(score, bool) else None,
    )


def _short_text(value: object) -> str:
    return value[:200] if isinstance(value, str) else ""
