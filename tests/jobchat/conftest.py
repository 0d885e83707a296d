"""Job Chat in front of a fake Anthropic server, which the real SDK calls, and a fake npm registry."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from palaver_jobchat import models
from palaver_jobchat.service import build_workflow
from palaver_jobchat.settings import Settings
from palaver_jobchat.testing import FakeAnthropic
from tests.jobchat.adaptors.fake_registry import FakeRegistry, run_registry
from tests.jobchat.scenarios import ChatFactory

KEY = "sk-ant-the-servers-own-key"


@pytest.fixture
async def registry() -> AsyncIterator[FakeRegistry]:
    async with run_registry() as registry:
        yield registry


@pytest.fixture
async def create_chat(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[ChatFactory]:
    """Return a function that creates the workflow and its fake server from a script and settings."""
    async with AsyncExitStack() as stack:

        def create(script: Any, *, key: str | None = KEY, **settings: Any) -> tuple[Any, FakeAnthropic]:
            fake = stack.enter_context(FakeAnthropic(script))
            monkeypatch.setenv("ANTHROPIC_BASE_URL", fake.url)
            monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
            if key is not None:
                monkeypatch.setenv("ANTHROPIC_API_KEY", key)
            jobchat_settings = Settings(**{"online": False, "retries": 0, "cache": str(tmp_path / "cache"), **settings})
            model = models.create_model(jobchat_settings)
            stack.push_async_callback(model.aclose)
            return build_workflow(jobchat_settings, model), fake

        yield create
