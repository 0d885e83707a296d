"""Fixtures: a server for the whole folder, and real clients."""

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.conformance.node_drivers import Driver
from tests.conformance.stored_server import StoredServer, run_stored_server
from tests.server_process import WORKFLOWS, ServerProcess, server_process

with warnings.catch_warnings(action="ignore"):
    import mlflow.types.responses  # noqa: F401  # The first import warns.

OURS = [Path(__file__).parent / name for name in ("llmprobe_workflow.py", "recall_workflow.py")]


@pytest.fixture(scope="session", autouse=True)
def _no_proxy() -> Iterator[None]:
    """Bypass proxies for all hosts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "*")
        yield


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("conformance"), WORKFLOWS, *map(str, OURS)) as running:
        yield running


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def keeper(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoredServer]:
    """A server that stores runs, with each kind of database."""
    folder = tmp_path_factory.mktemp("keeping")
    if request.param == "sqlite":
        with run_stored_server(folder, str(folder / "palaver.db")) as running:
            yield running
        return
    postgres = request.getfixturevalue("postgres")
    url = postgres.create()
    with run_stored_server(folder, url) as running:
        yield running
    postgres.drop(url)


@pytest.fixture(scope="session")
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=30) as client:
        yield client


@pytest.fixture(scope="session")
def drivers() -> Iterator[Callable[[str], Driver]]:
    """Node programs by name, each started on first use."""
    started: dict[str, Driver] = {}
    yield lambda name: started.get(name) or started.setdefault(name, Driver(name))
    for driver in started.values():
        driver.close()
