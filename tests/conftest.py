"""Fixtures and settings of all tests: asyncio, Hypothesis profiles, databases."""

import asyncio
import logging
import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from palaver.storage.database import Database
    from tests.postgres import Postgres

os.environ["PALAVER_DB"] = "sqlite://"  # Servers started by tests use memory, not the user's database.

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell ignores it in background jobs; processes started by tests would inherit that and not react to SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("palaver", max_examples=80, deadline=None, print_blob=True)
settings.register_profile("palaver-ci", settings.get_profile("palaver"), derandomize=True)
settings.load_profile("palaver-ci" if os.environ.get("CI") else "palaver")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True, scope="session")
def unbuilt() -> Iterator[None]:
    """Hide a built page from tests in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("palaver.server.web.BUILT_WEB", Path(__file__).parent / "unbuilt")
        patch.setattr("palaver.server.docs_site.BUILT_DOCS", Path(__file__).parent / "unbuilt")
        yield


@pytest.fixture(autouse=True)
def unchanged_logging() -> Iterator[None]:
    """Undo `configure_logging`, which commands such as `palaver serve` call."""
    logger = logging.getLogger("palaver")
    handlers, level, propagate = logger.handlers, logger.level, logger.propagate
    yield
    if logger.handlers is not handlers:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


@pytest.fixture(scope="session")
def postgres() -> "Iterator[Postgres]":
    """A PostgreSQL server for the session, started on first use."""
    # Imported here, so that other tests don't wait for psycopg.
    from tests.postgres import Postgres, Unavailable

    try:
        server = Postgres()
    except Unavailable as error:
        pytest.skip(str(error))
    with server:
        yield server


@pytest.fixture
def postgres_url(postgres: "Postgres") -> Iterator[str]:
    """The URL of an empty PostgreSQL database that is dropped after the test."""
    url = postgres.create()
    yield url
    postgres.drop(url)


@pytest.fixture(scope="session")
def database_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database file with the current schema, to be copied: creating one takes longer than most tests."""
    path = tmp_path_factory.mktemp("template") / "palaver.db"
    _create_database(str(path))
    return path


@pytest.fixture(scope="session")
def postgres_template(postgres: "Postgres") -> str:
    """An empty PostgreSQL database with the current schema, used as a template."""
    url = postgres.create()
    _create_database(url)
    return url


def _create_database(url: str) -> None:
    """Create a database, with or without a running event loop."""
    from palaver.storage.database import open_database

    async def open_and_close() -> None:
        await open_database(url).close()

    with ThreadPoolExecutor() as threads:
        threads.submit(asyncio.run, open_and_close()).result()


@pytest.fixture(params=["memory", "file", "postgresql"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> "AsyncIterator[Database]":
    """A new, empty database of each kind."""
    from palaver.storage.database import MEMORY_URL, open_database

    url, drop = MEMORY_URL, None
    match request.param:
        case "memory":
            pass
        case "file":
            url = str(shutil.copy(request.getfixturevalue("database_template"), tmp_path / "palaver.db"))
        case _:
            server: Postgres = request.getfixturevalue("postgres")
            url, drop = server.create(like=request.getfixturevalue("postgres_template")), server.drop
    opened = open_database(url)
    yield opened
    await opened.close()
    if drop is not None:
        drop(url)
