"""Fails a test if asyncio logs an error, such as an exception that was never retrieved."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_error_is_lost(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    complaints = [record.getMessage() for record in caplog.get_records("call") if record.name == "asyncio"]
    assert complaints == []
