"""What every test shares: async tests run on asyncio, and Hypothesis looks moderately hard."""

import os

import pytest
from hypothesis import settings

settings.register_profile("palaver", max_examples=80, deadline=None, print_blob=True)
settings.register_profile("palaver-ci", settings.get_profile("palaver"), derandomize=True)
settings.load_profile("palaver-ci" if os.environ.get("CI") else "palaver")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
