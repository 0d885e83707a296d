"""Looking something up in the documentation while a chat goes on: in a thread, and never in the way of the answer."""

import asyncio
import logging
import threading
from pathlib import Path

import platformdirs

from palaver import PalaverError
from palaver_jobchat.docs.embeddings import Embedding, VectorSearch, load_embedding
from palaver_jobchat.docs.index import sample_index
from palaver_jobchat.docs.search import Query, SearchResults, search
from palaver_jobchat.settings import Settings

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
            return search(file, query, budget=budget, near=near)
        except PalaverError as error:  # Of the model. Words still find something.
            self._tell(error.message)
            return search(file, query, budget=budget)

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
