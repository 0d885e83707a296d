"""One real server for the folder. Each emitter runs once, for a project of its own, when a test first asks for it."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conformance.telemetry.house import Emitted, House, Table, standing


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with standing(tmp_path_factory.mktemp("telemetry")) as running:
        yield running


@pytest.fixture(scope="session")
def emitted(house: House) -> Iterator[Emitted]:
    """What is shown of all that this program sent."""
    tables: dict[str, Table] = {}
    with ExitStack() as stack:

        def emit(program: str) -> Table:
            if program not in tables:
                table = stack.enter_context(house.table())
                table.run(program)
                tables[program] = table
            return tables[program]

        yield emit
