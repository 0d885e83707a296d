"""A database, and the one way to it: a function that states what to ask, run off the loop in its own transaction."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Literal, ParamSpec, Protocol, TypeVar

from palaver.storage.places import MEMORY, redacted

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from palaver.storage.cleaning import Cleaner
    from palaver.storage.notices import Heard, Touched

P = ParamSpec("P")
T = TypeVar("T")


class Database(Protocol):
    """Where values are kept."""

    @property
    def kind(self) -> Literal["sqlite", "postgresql"]:
        """Which engine it is."""
        ...

    @property
    def place(self) -> Path | None:
        """Its file, if it has one."""
        ...

    async def read(self, work: "Callable[Concatenate[Connection, P], T]", *args: P.args, **kwargs: P.kwargs) -> T:
        """What a function that only looks gives."""
        ...

    async def write(self, work: "Callable[Concatenate[Connection, P], T]", *args: P.args, **kwargs: P.kwargs) -> T:
        """What a function that changes something gives, once it is durable."""
        ...

    @property
    def hears(self) -> bool:
        """Do notices of other processes reach this one? Else it has to look by itself."""
        ...

    async def listen(self, heard: "Heard") -> None:
        """Call that, in this loop, with every notice from now on; where there are none, never."""
        ...

    async def watch(self, touched: "Touched") -> None:
        """Call that, in this loop, with what our own writes change, once it is durable."""
        ...

    def clean_with(self, cleaner: "Cleaner") -> None:
        """Keep no more of what people say from now on than that leaves of it."""
        ...

    async def close(self) -> None:
        """Finish what was asked, and let go of the database."""
        ...


def open_database(url: str) -> Database:
    """The database at a URL, or in a file; brought up to date first. A SettingsError says what cannot be."""
    from palaver.storage.sqlite import Sqlite

    if url in (MEMORY, "sqlite:///:memory:"):
        return Sqlite.in_memory()
    if url.startswith(("postgresql:", "postgres:", "postgresql+psycopg:")):
        from palaver.storage.postgres import Postgres

        return Postgres.at(url)
    return Sqlite.at(path_of(url))


def path_of(url: str) -> Path:
    """The file that a URL of SQLite's, or a plain path, names."""
    from palaver.errors import SettingsError

    scheme, colon, rest = url.partition("://")
    if not colon:
        return Path(url).expanduser()
    if scheme != "sqlite" or not rest.startswith("/") or len(rest) < 2:
        raise SettingsError(f"No database at {redacted(url)!r}: give a path, sqlite:///path or postgresql://host/name.")
    return Path(rest[1:]).expanduser()
