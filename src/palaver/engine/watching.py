"""Waiting for runs of other processes: woken by their notices, and looking anyway where there are none.

A process tells of its runs only once it was asked to: telling costs every other write of the database a little, and
most runs are read by nobody else. Whoever follows one asks, and looks often until the first answer.
"""

import asyncio
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress

from palaver.storage.database import Database

LOOK, LOOK_RARELY = 0.1, 1.0
"""Seconds until a run of another process is looked at again; rarely, if that one tells us when it grows."""


class News:
    """Wakes one who waits for a run."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_told = False  # Did its process answer? Until then it may not know that we listen.
        self._event = asyncio.Event()

    def tell(self) -> None:
        """There is something to look at."""
        self._is_told = True
        self._event.set()

    async def come(self) -> None:
        """Wait until there is something to look at, or it is time to look anyway."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_RARELY if self._is_told and self._database.hears else LOOK):
                await self._event.wait()
        self._event.clear()


class Watching:
    """The runs of other processes that somebody here waits for."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._watched: dict[str, set[News]] = {}

    @contextmanager
    def of(self, run: str) -> Generator[News]:
        """What is told of a run, from now on."""
        news = News(self._database)
        self._watched.setdefault(run, set()).add(news)
        try:
            yield news
        finally:
            self._watched[run].discard(news)
            if not self._watched[run]:
                del self._watched[run]

    def grew(self, names: Collection[str]) -> None:
        """Other processes say that these runs of theirs grew, or ended."""
        for name in self._watched.keys() & names:
            for news in self._watched[name]:
                news.tell()

    def missed(self) -> None:
        """Anything may have happened: look at all of them."""
        self.grew(self._watched.keys())
