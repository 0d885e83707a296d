"""Search the index of the docs.

Chunks are ranked by words, their stems and synonyms and, with an embedding model, also by meaning; the two rankings are
merged. No model decides whether docs are needed: a search is cheap, and an unrelated question finds nothing.
"""

import asyncio
import logging
import math
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
from palaver_jobchat.docs.synonyms import SYNONYM_WEIGHT, synonyms_of
from palaver_jobchat.settings import Settings

RESULTS_BUDGET_CHARACTERS = 12_000
MAX_RESULTS = 5
MIN_SHARE = 0.5
"""Share of the question's weight that a result must contain if it contains only one of its words."""
MIN_SCORE = 0.15
"""Results below it are dropped."""
MIN_RELATIVE_SCORE = 0.35
"""Results below this share of the best score are dropped."""

NearestChunks = Callable[[sqlite3.Connection, str, int], Sequence[int]]
"""Returns the ids of the chunks nearest to a question, up to a limit (embeddings.VectorSearch)."""

_MAX_CANDIDATES = 50
_RANK_CONSTANT = 60  # The usual k of reciprocal rank fusion.
_MAX_TERMS = 20
_MAX_SCORED_ROWS = 6_000  # A few milliseconds.
_ADAPTOR_WEIGHT = 0.1
_MAX_TERM_FREQUENCY = 2.2
"""The limit of BM25's term frequency: FTS5's k1 is 1.2."""
_IGNORED_TERMS = ("openfn", "job", "jobs")
_CHUNK_QUERY = "SELECT text, title, section, path FROM chunks WHERE id = ?"
_COUNT_QUERY = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
_CANDIDATES_QUERY = """
    SELECT rowid FROM words
    WHERE words MATCH ? AND rank MATCH 'bm25(4.0, 2.0, 1.0)' ORDER BY rank LIMIT ?
"""
_RANK_QUERY = "SELECT rowid, -rank FROM words WHERE words MATCH ? AND rank MATCH 'bm25(4.0, 2.0, 1.0)'"


class SearchResult(msgspec.Struct, frozen=True):
    text: str
    title: str = ""
    section: str = ""
    path: str = ""
    score: float | None = None
    """From 0 to 1: how much of the question it matches."""

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
    previous_terms: tuple[str, ...] = ()
    """Content words of the previous question, which decide between equal scores."""


class SearchResults(msgspec.Struct, frozen=True):
    """The results of a search; `query` is None if there was nothing to search for."""

    query: str | None = None
    results: tuple[SearchResult, ...] = ()


def build_query(question: str, *, adaptor: str | None = None, previous_question: str | None = None) -> Query:
    """Build the query. A question without content words ("and why?") repeats the previous one."""
    question, previous_question = question.strip(), (previous_question or "").strip()
    ignored = (*_IGNORED_TERMS, adaptor or "")
    terms = tuple(content_terms(question, without=ignored)[:_MAX_TERMS])
    previous_terms = tuple(content_terms(previous_question, without=ignored)[:_MAX_TERMS])
    text = " ".join(part for part in (question, adaptor, "" if terms else previous_question) if part)
    return Query(text, terms or previous_terms, adaptor, previous_terms if terms else ())


def search_index(
    file: Path, query: Query, *, budget: int = RESULTS_BUDGET_CHARACTERS, vector_search: NearestChunks | None = None
) -> SearchResults:
    """Return the most relevant chunks, best first. Raises sqlite3.Error if the index is not readable."""
    if not query.terms:
        return SearchResults()
    # Immutable: an index is replaced, never changed in place (index.replace_file), so that no lock is needed.
    connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    with closing(connection) as database:
        nearest = vector_search(database, query.text, _MAX_CANDIDATES) if vector_search is not None else ()
        weights, found = _find_candidates(database, query.terms)
        chunks = {
            chunk_id: SearchResult(*database.execute(_CHUNK_QUERY, (chunk_id,)).fetchone())
            for chunk_id in dict.fromkeys((*found, *nearest))
        }
    ranking, scores = _rank_chunks(chunks, found, query, weights)
    if nearest:
        # Among pages about one subject, all are near in meaning: they must contain the words as well.
        ranking = [chunk_id for chunk_id in merge_rankings(ranking, nearest) if chunk_id in scores]
    results = [
        msgspec.structs.replace(chunks[chunk_id], score=round(scores[chunk_id], 4))
        for chunk_id in ranking[:MAX_RESULTS]
    ]
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


def _find_candidates(database: sqlite3.Connection, terms: Sequence[str]) -> tuple[dict[str, float], list[int]]:
    """Return the weight of each term, and the chunks with the most of the terms or their synonyms.

    Rare words come first, and the commonest are left out if they occur in too many chunks: they add little to a score,
    and a long question has more rare words than needed.
    """
    (total,) = database.execute("SELECT chunks FROM about").fetchone()
    counts = {
        word: database.execute(_COUNT_QUERY, (_quote_term(word), _MAX_SCORED_ROWS)).fetchone()[0]
        for word in dict.fromkeys(word for term in terms for word in (term, *synonyms_of(term)))
    }
    weights: dict[str, float] = {}
    for term in terms:
        # A word that is in no chunk counts as a rather rare one.
        count = counts[term] or max((counts[word] for word in synonyms_of(term)), default=0) or math.sqrt(total)
        weights[term] = math.log(1 + (total - count + 0.5) / (count + 0.5))
    selected: list[str] = []
    rows = 0
    for word in sorted((word for word in counts if counts[word]), key=lambda word: counts[word]):
        rows += counts[word]
        if rows > _MAX_SCORED_ROWS and selected:
            break
        selected.append(word)
    if not selected:
        return weights, []
    found = database.execute(_CANDIDATES_QUERY, (" OR ".join(map(_quote_term, selected)), _MAX_CANDIDATES))
    return weights, [chunk_id for (chunk_id,) in found]


def _rank_chunks(
    chunks: Mapping[int, SearchResult], found: Sequence[int], query: Query, weights: Mapping[str, float]
) -> tuple[list[int], dict[int, float]]:
    """Return the chunks that score well, best first, and the scores of all that contain enough of the question."""
    adaptor = (query.adaptor,) if query.adaptor else ()
    words = {word for term in query.terms for word in (term, *synonyms_of(term))}
    frequencies = _word_frequencies(chunks, words.union(query.previous_terms, adaptor))

    def frequency(word: str, chunk_id: int) -> float:
        return frequencies[word].get(chunk_id, 0.0)

    def term_frequency(term: str, chunk_id: int) -> float:
        synonyms = (SYNONYM_WEIGHT * frequency(word, chunk_id) for word in synonyms_of(term))
        return max(frequency(term, chunk_id), *synonyms, 0.0)

    scores: dict[int, float] = {}
    total = sum(weights.values())
    for chunk_id in chunks:
        matches = {term: term_frequency(term, chunk_id) for term in query.terms}
        matched = [term for term in query.terms if matches[term]]
        if matched and (len(matched) >= 2 or sum(weights[term] for term in matched) >= MIN_SHARE * total):
            score = sum(weights[term] * matches[term] for term in matched) / total
            scores[chunk_id] = min(score + sum(_ADAPTOR_WEIGHT * frequency(word, chunk_id) for word in adaptor), 1.0)
    threshold = max(MIN_SCORE, MIN_RELATIVE_SCORE * max(scores.values(), default=0.0))

    def sort_key(chunk_id: int) -> tuple[float, float, int]:
        previous = sum(frequency(word, chunk_id) for word in query.previous_terms)
        return -round(scores[chunk_id], 2), -previous, chunk_id

    good = [chunk_id for chunk_id in found if scores.get(chunk_id, 0.0) >= threshold]
    return sorted(good, key=sort_key), scores


def _word_frequencies(chunks: Mapping[int, SearchResult], words: Iterable[str]) -> dict[str, dict[int, float]]:
    """Return how often each word occurs in each chunk, as BM25 counts it, from 0 to 1; tokenized as in the index."""
    frequencies: dict[str, dict[int, float]] = {}
    # A temporary index of these chunks: the large one would return every chunk with a common word.
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.execute(f"CREATE VIRTUAL TABLE words USING fts5 (title, section, text, {TOKENIZER})")
        rows = ((chunk_id, chunk.title, chunk.section, chunk.text) for chunk_id, chunk in chunks.items())
        database.execute("BEGIN")
        database.executemany("INSERT INTO words (rowid, title, section, text) VALUES (?, ?, ?, ?)", rows)
        for word in words:
            ranks = dict(database.execute(_RANK_QUERY, (_quote_term(word),)).fetchall())
            # FTS5 multiplies the frequency, which is below 2.2, by this weight of the word.
            weight = max(math.log((len(chunks) - len(ranks) + 0.5) / (len(ranks) + 0.5)), 1e-6)
            frequencies[word] = {chunk_id: rank / (weight * _MAX_TERM_FREQUENCY) for chunk_id, rank in ranks.items()}
    return frequencies


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
