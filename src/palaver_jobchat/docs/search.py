"""Search the index of the docs.

Chunks are ranked by words (BM25) and, with an embedding model, also by meaning; the two rankings are merged. No model
decides whether docs are needed: a search is cheap, and an unrelated question finds nothing.
"""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from palaver import PalaverError
from palaver_jobchat.bm25 import content_terms
from palaver_jobchat.docs.embeddings import Embedding, VectorSearch, load_embedding
from palaver_jobchat.docs.index import TOKENIZER, sample_index
from palaver_jobchat.settings import Settings

RESULTS_BUDGET_CHARACTERS = 12_000
MAX_RESULTS = 5
MIN_RELATIVE_SCORE = 0.35
"""Results below this share of the best score are dropped."""

NearestChunks = Callable[[sqlite3.Connection, str, int], Sequence[int]]
"""Returns the ids of the chunks nearest to a question, up to a limit (embeddings.VectorSearch)."""

_MAX_CANDIDATES = 30
_BATCH_SIZE = 10
_RANK_CONSTANT = 60  # The usual k of reciprocal rank fusion.
_SHORT_QUESTION_CHARACTERS = 40
_MAX_TERMS = 20
_MAX_SCORED_ROWS = 6_000  # A few milliseconds.
_IGNORED_TERMS = ("openfn", "job", "jobs")
_CHUNK_QUERY = "SELECT text, title, section, path FROM chunks WHERE id = ?"
_RANK_QUERY = """
    SELECT rowid, -rank FROM words
    WHERE words MATCH ? AND rank MATCH 'bm25(4.0, 2.0, 1.0)' ORDER BY rank LIMIT ?
"""


class SearchResult(msgspec.Struct, frozen=True):
    text: str
    title: str = ""
    section: str = ""
    path: str = ""
    score: float | None = None
    """Relative to the best result."""

    def to_dict(self) -> dict[str, Any]:
        """Return the item of `meta.rag.search_results`."""
        metadata = {"doc_title": self.title, "docs_type": "general_docs", "section": self.section, "path": self.path}
        return {"text": self.text, "metadata": metadata, **({} if self.score is None else {"score": self.score})}


class Query(msgspec.Struct, frozen=True):
    text: str
    """As reported to the client."""
    terms: tuple[str, ...]
    """Content words of the question. Without any, nothing is searched."""
    adaptor: str | None = None
    """Short name. Chunks about it rank higher, but need other terms to be relevant."""


class SearchResults(msgspec.Struct, frozen=True):
    """The results of a search; `query` is None if there was nothing to search for."""

    query: str | None = None
    results: tuple[SearchResult, ...] = ()


def build_query(question: str, *, adaptor: str | None = None, previous_question: str | None = None) -> Query:
    """Build the query. A short question ("and in bulk?") is extended by the previous one."""
    question = question.strip()
    earlier = previous_question.strip() if previous_question and len(question) < _SHORT_QUESTION_CHARACTERS else ""
    terms = content_terms(f"{question} {earlier}", without=(*_IGNORED_TERMS, adaptor or ""))[:_MAX_TERMS]
    text = " ".join(part for part in (question, adaptor, earlier) if part)
    return Query(text, tuple(terms), adaptor)


def search_index(
    file: Path, query: Query, *, budget: int = RESULTS_BUDGET_CHARACTERS, vector_search: NearestChunks | None = None
) -> SearchResults:
    """Return the most relevant chunks, best first. Raises sqlite3.Error if the index is not readable."""
    if not query.terms:
        return SearchResults()
    # Immutable: an index is replaced, never changed in place (index.replace_file), so that no lock is needed.
    connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    with closing(connection) as database:
        scores = _rank_by_terms(database, (*query.terms, *([query.adaptor] if query.adaptor else ())))
        if vector_search is not None and (nearest := vector_search(database, query.text, _MAX_CANDIDATES)):
            scores = merge_rankings(list(scores), nearest)
        results = _best_chunks(database, scores, query.terms)
    return SearchResults(query.text, tuple(fit_budget(results, budget)))


def merge_rankings(*rankings: Sequence[int]) -> dict[int, float]:
    """Merge rankings by reciprocal rank fusion."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, chunk_id in enumerate(ranking, start=1):
            scores[chunk_id] = scores.get(chunk_id, 0.0) + 1 / (_RANK_CONSTANT + rank)
    return dict(sorted(scores.items(), key=lambda item: (-item[1], item[0])))


def fit_budget(results: Iterable[SearchResult], budget: int) -> list[SearchResult]:
    """Return the first results whose texts together have at most `budget` characters."""
    fitting: list[SearchResult] = []
    for result in results:
        budget -= len(result.text)
        if budget < 0:
            break
        fitting.append(result)
    return fitting


def _rank_by_terms(database: sqlite3.Connection, terms: Sequence[str]) -> dict[int, float]:
    """Return the chunks that contain any of the terms with their scores, best first."""
    rare = _rarest_terms(database, terms)
    if not rare:
        return {}
    rows = database.execute(_RANK_QUERY, (" OR ".join(map(_quote_term, rare)), _MAX_CANDIDATES))
    return dict(sorted(rows.fetchall(), key=lambda item: (-item[1], item[0])))


def _rarest_terms(database: sqlite3.Connection, terms: Sequence[str]) -> list[str]:
    """Return the rarest terms that occur in the index.

    A word in half of all chunks adds nothing to a score but makes each of them be scored, and a long question has more
    rare words than needed.
    """
    (chunks,) = database.execute("SELECT chunks FROM about").fetchone()
    count = "SELECT count(*) FROM words WHERE words MATCH ?"
    counts = {term: database.execute(count, (_quote_term(term),)).fetchone()[0] for term in terms}
    known = sorted((term for term in terms if counts[term]), key=lambda term: counts[term])
    # All words of a question may be common ones.
    rare = [term for term in known if counts[term] <= chunks / 2] or known
    selected: list[str] = []
    rows = 0
    for term in rare:
        rows += counts[term]
        if rows > _MAX_SCORED_ROWS and len(selected) >= 2:
            break
        selected.append(term)
    return selected


def _best_chunks(database: sqlite3.Connection, scores: Mapping[int, float], terms: Sequence[str]) -> list[SearchResult]:
    """Return the relevant chunks, best first: they contain the question's words and score near the best.

    Chunks that are only near in meaning need the words as well: among pages about one subject, all are near.
    """
    relevant: list[tuple[SearchResult, float]] = []
    ranking = list(scores)
    # The first batch usually suffices, and counting terms is slow.
    for start in range(0, len(ranking), _BATCH_SIZE):
        chunks = {
            chunk_id: SearchResult(*database.execute(_CHUNK_QUERY, (chunk_id,)).fetchone())
            for chunk_id in ranking[start : start + _BATCH_SIZE]
        }
        counts = _term_counts(chunks, terms)
        relevant += [
            (chunk, scores[chunk_id]) for chunk_id, chunk in chunks.items() if counts[chunk_id] >= min(2, len(terms))
        ]
        if len(relevant) >= MAX_RESULTS:
            break
    best = relevant[0][1] if relevant else 0.0
    shares = [(chunk, score / best if best > 0 else 1.0) for chunk, score in relevant[:MAX_RESULTS]]
    return [
        msgspec.structs.replace(chunk, score=round(share, 4)) for chunk, share in shares if share >= MIN_RELATIVE_SCORE
    ]


def _term_counts(chunks: Mapping[int, SearchResult], terms: Sequence[str]) -> dict[int, int]:
    """Return how many of the terms each chunk contains, tokenized as in the index."""
    counts = dict.fromkeys(chunks, 0)
    # A temporary index of these chunks: the large one would return every chunk with a common word.
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.execute(f"CREATE VIRTUAL TABLE words USING fts5 (title, section, text, {TOKENIZER})")
        rows = ((chunk_id, chunk.title, chunk.section, chunk.text) for chunk_id, chunk in chunks.items())
        database.execute("BEGIN")
        database.executemany("INSERT INTO words (rowid, title, section, text) VALUES (?, ?, ?, ?)", rows)
        for term in terms:
            for (chunk_id,) in database.execute("SELECT rowid FROM words WHERE words MATCH ?", (_quote_term(term),)):
                counts[chunk_id] += 1
    return counts


def _quote_term(term: str) -> str:
    """Quote a term for FTS5."""
    return '"' + term.replace('"', '""') + '"'


log = logging.getLogger("palaver_jobchat")


class DocsRetriever:
    """Searches the docs in a thread; failures are logged, and the chat continues without docs.

    The index is opened for each question, in 0.2 ms, so that a new one is used from the next question on.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._file = Path(settings.index).expanduser() if settings.index else None
        """None: the sample index, located on first use."""
        self._has_failed = False
        self._model: Embedding | None = None
        self._vector_search: VectorSearch | None = None
        self._is_model_loaded = False
        self._last_warning = ""

    @property
    def has_index(self) -> bool:
        """Whether there is an index to search, the operator's or the sample one."""
        return self._file.is_file() if self._file is not None else not self._has_failed

    async def search(self, query: Query) -> SearchResults | None:
        """Return the results, or None if there is no usable index."""
        if not query.terms:
            return SearchResults()
        return await asyncio.to_thread(self._search_or_warn, query)

    def _search_or_warn(self, query: Query) -> SearchResults | None:
        try:
            file, vector_search = self._prepare()
        except Exception as error:
            self._has_failed = True
            self._warn(f"Cannot use the docs included with Job Chat: {error}")
            return None
        try:
            return self._search(file, query, vector_search)
        except Exception as error:
            self._warn(f"Cannot search the docs index {file}: {error}. Rebuild the index.")
            if not self._settings.index:
                self._file = None  # The cache was cleaned: rebuilt with the next question.
            return None

    def _search(self, file: Path, query: Query, vector_search: VectorSearch | None) -> SearchResults:
        budget = self._settings.docs_budget
        try:
            return search_index(file, query, budget=budget, vector_search=vector_search)
        except PalaverError as error:  # The embedding model failed; search by words only.
            self._warn(error.message)
            return search_index(file, query, budget=budget)

    def _prepare(self) -> tuple[Path, VectorSearch | None]:
        """Return the index and the vector search, loaded on first use."""
        with self._lock:
            if not self._is_model_loaded:
                self._is_model_loaded = True
                try:
                    self._model = load_embedding(self._settings.embeddings)
                except PalaverError as error:
                    self._warn(error.message)
                self._vector_search = VectorSearch(self._model) if self._model is not None else None
            if self._file is None:
                self._file = self._build_sample_index(self._settings.cache_folder)
                self._has_failed = False
            return self._file, self._vector_search

    def _build_sample_index(self, cache: Path) -> Path:
        try:
            return sample_index(cache, embeddings=self._model)
        except PalaverError as error:
            if self._model is None:
                raise
            self._warn(error.message)
            return sample_index(cache)

    def _warn(self, message: str) -> None:
        """Log a warning unless it repeats the last one."""
        if message != self._last_warning:
            self._last_warning = message
            log.warning("%s", message)
