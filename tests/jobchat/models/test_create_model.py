"""The model is created from the settings."""

import sys

import pytest

from palaver import PalaverError
from palaver_jobchat import models
from palaver_jobchat.models.anthropic import Anthropic
from palaver_jobchat.models.base import ResponseFinished
from palaver_jobchat.models.openai import OpenAI
from palaver_jobchat.models.scripted import ScriptedModel
from palaver_jobchat.settings import Settings
from palaver_jobchat.testing import FakeAnthropic
from tests.jobchat.models.model_requests import PLAIN_PROMPT, collect_events


async def test_anthropic_is_the_default_provider_and_uses_the_settings() -> None:
    settings = Settings(model="claude-x", max_tokens=7, thinking="adaptive", retries=0, timeout=9)
    with FakeAnthropic([{"text": "a"}]) as fake:
        model = models.create_model(settings, api_key="sk-ant-a", base_url=fake.url)
        events = await collect_events(model, PLAIN_PROMPT)

    (request,) = fake.requests
    assert isinstance(model, Anthropic)
    assert events[-1] == ResponseFinished("stop", "end_turn")
    assert (request.key, request.headers["x-stainless-read-timeout"]) == ("sk-ant-a", "9")
    assert (request.body["model"], request.body["max_tokens"], request.body["thinking"]) == (
        "claude-x",
        7,
        {"type": "adaptive"},
    )


def test_provider_setting_selects_the_model_class() -> None:
    assert isinstance(models.create_model(Settings(provider="openai", model="m", api_key="k")), OpenAI)
    assert isinstance(models.create_model(Settings(provider="scripted")), ScriptedModel)


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_missing_package_is_reported_with_the_install_command(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, f"palaver_jobchat.models.{provider}")
    monkeypatch.setitem(sys.modules, provider, None)

    with pytest.raises(PalaverError) as caught:
        models.create_model(Settings(provider=provider, model="m"))  # pyright: ignore[reportArgumentType]

    assert (
        caught.value.message
        == "Job Chat requires additional packages. Install them with: pip install 'palaver[jobchat]'"
    )
