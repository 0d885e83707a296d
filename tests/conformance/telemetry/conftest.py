"""A server for the folder. Each emitter runs once, on first use, with its own project."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conformance.telemetry.trace_server import ProjectView, RunEmitter, TraceServer, run_trace_server


@pytest.fixture(scope="session")
def trace_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TraceServer]:
    with run_trace_server(tmp_path_factory.mktemp("telemetry")) as running:
        yield running


@pytest.fixture(scope="session")
def emitted(trace_server: TraceServer) -> Iterator[RunEmitter]:
    """Runs an emitter and returns the view of its project."""
    views: dict[str, ProjectView] = {}
    with ExitStack() as stack:

        def emit(program: str) -> ProjectView:
            if program not in views:
                view = stack.enter_context(trace_server.create_project())
                view.run(program)
                views[program] = view
            return views[program]

        yield emit
