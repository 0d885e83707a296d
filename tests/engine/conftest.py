"""What every test of a run promises beside its own sentence: nothing is lost that asyncio would complain about."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_error_is_lost(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    complaints = [record.getMessage() for record in caplog.get_records("call") if record.name == "asyncio"]
    assert complaints == []
