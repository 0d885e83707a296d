"""One real server for the folder. Each emitter runs once, for a project of its own, when a test first asks for it."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conformance.telemetry.trace_server import ProjectView, RunEmitter, TraceServer, run_trace_server


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TraceServer]:
    with run_trace_server(tmp_path_factory.mktemp("telemetry")) as running:
        yield running


@pytest.fixture(scope="session")
def emitted(house: TraceServer) -> Iterator[RunEmitter]:
    """What is shown of all that this program sent."""
    tables: dict[str, ProjectView] = {}
    with ExitStack() as stack:

        def emit(program: str) -> ProjectView:
            if program not in tables:
                table = stack.enter_context(house.table())
                table.run(program)
                tables[program] = table
            return tables[program]

        yield emit
