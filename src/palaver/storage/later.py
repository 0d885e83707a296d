"""A database that is opened by the first who asks it something: most of what uses one never does."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Literal

from palaver.storage.database import MEMORY, Database, P, T, open_database, path_of

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from palaver.storage.cleaning import Cleaner
    from palaver.storage.notices import Heard, Touched


class Later:
    """The database at a URL. Its libraries are imported, and it is opened, in a thread."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opening: asyncio.Task[Database] | None = None
        self._closed = False
        self._cleaner: Cleaner | None = None

    @property
    def kind(self) -> Literal["sqlite", "postgresql"]:
        """Which engine it is."""
        return "postgresql" if self._url.startswith("postgres") else "sqlite"

    @property
    def place(self) -> Path | None:
        """Its file, if it has one."""
        return None if self.kind == "postgresql" or self._url == MEMORY else path_of(self._url)

    async def read(self, work: "Callable[Concatenate[Connection, P], T]", *args: P.args, **kwargs: P.kwargs) -> T:
        """What a function that only looks gives."""
        return await (await self.opened()).read(work, *args, **kwargs)

    async def write(self, work: "Callable[Concatenate[Connection, P], T]", *args: P.args, **kwargs: P.kwargs) -> T:
        """What a function that changes something gives, once it is durable."""
        return await (await self.opened()).write(work, *args, **kwargs)

    @property
    def hears(self) -> bool:
        """Do notices of other processes reach this one?"""
        opening = self._opening
        is_open = opening is not None and opening.done() and not opening.cancelled() and opening.exception() is None
        return is_open and opening is not None and opening.result().hears

    async def listen(self, heard: "Heard") -> None:
        """Call that, in this loop, with every notice from now on."""
        await (await self.opened()).listen(heard)

    async def watch(self, touched: "Touched") -> None:
        """Call that, in this loop, with what our own writes change, once it is durable."""
        await (await self.opened()).watch(touched)

    def clean_with(self, cleaner: "Cleaner") -> None:
        """Keep no more of what people say than that leaves of it: to be said before anybody asks."""
        self._cleaner = cleaner

    async def opened(self) -> "Database":
        """The database itself."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(asyncio.to_thread(_open, self._url, self._cleaner))
        return await asyncio.shield(self._opening)

    async def close(self) -> None:
        """Let go of it, if it was ever opened."""
        if self._opening is not None:
            await (await self.opened()).close()


def _open(url: str, cleaner: "Cleaner | None") -> "Database":
    database = open_database(url)
    if cleaner is not None:
        database.clean_with(cleaner)
    return database
