"""The scripted model: the same steps as the fake server's, with the same events."""

from typing import Any

import pytest

from palaver import Failure
from palaver_jobchat.models.anthropic import Anthropic
from palaver_jobchat.models.base import Model, ModelEvent, ModelRequest, ResponseFinished, TextDelta
from palaver_jobchat.models.client import RetryPolicy
from palaver_jobchat.models.scripted import ScriptedModel
from palaver_jobchat.testing import FakeAnthropic
from tests.jobchat.models.model_requests import KEY, PROMPT, collect_events, collect_failure

TOOL = {"tool": {"id": "one", "name": "edit_job", "input": {"edits": []}}}
RAW_TOOL = {"raw_tool": {"id": "two", "name": "edit_job", "json": '{"edi'}}
STEPS: list[dict[str, Any]] = [
    {"text": "Hello", "chunks": 3, "delay": 0.001, "usage": {"input_tokens": 7, "cache_read_input_tokens": 5}},
    {"blocks": [{"text": "I'll rename it."}, {"thinking": "Hm"}, TOOL, RAW_TOOL], "chunks": 2},
    {"blocks": [TOOL, RAW_TOOL], "drop": True},
    {"text": "Cut", "stop": "max_tokens"},
    {"text": "No", "stop": "refusal"},
    {"text": ""},
    {},
    {"text": "Free", "usage": {"input_tokens": 0, "output_tokens": 0}},
    {"error": {"status": 429, "message": "slow down", "headers": {"retry-after": "7"}}},
    {"error": {"status": 503, "type": "overloaded_error", "message": "x"}},
    {"error": {"status": 400, "message": "prompt is too long"}},
    {"text": "Half an ans", "then_error": {"type": "overloaded_error", "message": "Overloaded"}},
    {"then_error": {"type": "rate_limit_error", "message": "slow down"}},
    {"text": "Half", "drop": True},
    {"text": "Half", "drop": "cleanly"},
    {"drop": True},
    {"text": "Half", "hang": True},
    {"hang": True},
]


async def collect_events_and_failure(model: Model, **request_fields: Any) -> list[ModelEvent | tuple[Any, ...]]:
    """Return the events, and the failure if there is one."""
    events: list[ModelEvent | tuple[Any, ...]] = []
    try:
        async for event in model.stream(ModelRequest(prompt=PROMPT, field_sizes={"content": 2}, **request_fields)):
            events.append(event)  # noqa: PERF401  # Events before a failure count.
    except Failure as failure:
        events.append((failure.code, failure.message, failure.status, dict(failure.details)))
    return events


@pytest.mark.parametrize("index", range(len(STEPS)))
async def test_scripted_step_gives_the_same_events_as_the_fake_server(index: int) -> None:
    step = STEPS[index]
    with FakeAnthropic([step]) as fake:
        policy = RetryPolicy(retries=0, timeout_s=1.0 if step.get("hang") else 20)
        server_events = await collect_events_and_failure(Anthropic(api_key=KEY, base_url=fake.url, retry_policy=policy))

    assert (
        await collect_events_and_failure(
            ScriptedModel(timeout=policy.timeout_s if step.get("hang") else 20), script=[step]
        )
        == server_events
    )


async def test_a_correction_plays_the_second_step() -> None:
    script = [{"text": "one"}, {"text": "two"}]

    assert TextDelta("one") in await collect_events(ScriptedModel(), script=script)
    assert TextDelta("two") in await collect_events(ScriptedModel(), script=script, must_edit=True)


async def test_script_without_more_steps_fails() -> None:
    message = "The model's script has no more steps. Add one to model_script."

    assert await collect_failure(ScriptedModel(), script=[]) == ("provider_error", message, 502, {})
    assert await collect_failure(ScriptedModel(), script=[{}], must_edit=True) == ("provider_error", message, 502, {})


async def test_missing_or_invalid_script_is_a_bad_request() -> None:
    message = "This server uses a scripted model. Send a script as model_script."
    assert await collect_failure(ScriptedModel()) == ("bad_request", message, 400, {})

    unknown = "Invalid step in the model's script: Object contains unknown field `txt`."
    assert await collect_failure(ScriptedModel(), script=[{"txt": 1}]) == ("bad_request", unknown, 400, {})


async def test_scripted_model_is_always_configured_and_usable_after_close() -> None:
    model = ScriptedModel()
    await model.aclose()

    assert (model.name, model.is_configured) == ("scripted", True)
    assert (await collect_events(model, script=[{"text": "a"}]))[-1] == ResponseFinished("stop", "end_turn")
