"""Anthropic's models, through the real SDK, against the fake server."""

import asyncio
import logging
from contextlib import aclosing
from typing import Any

import pytest

from palaver import Usage
from palaver_jobchat.models.anthropic import Anthropic, AnthropicStreamParser, SseParser
from palaver_jobchat.models.base import (
    ModelEvent,
    ModelRequest,
    ResponseFinished,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    UsageReport,
)
from palaver_jobchat.prompt import EDIT_JOB
from palaver_jobchat.testing import FakeAnthropic
from tests.jobchat.models.model_requests import (
    KEY,
    NO_RETRY,
    PLAIN_PROMPT,
    PROMPT,
    becomes_true,
    collect_events,
    collect_failure,
    usage_of,
)


def model(fake: FakeAnthropic, **options: Any) -> Anthropic:
    return Anthropic(**{"api_key": KEY, "base_url": fake.url, "retry_policy": NO_RETRY, **options})


async def test_text_is_streamed_in_deltas() -> None:
    usage = {"input_tokens": 3, "output_tokens": 7, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 100}
    with FakeAnthropic([{"text": "Hello", "chunks": 3, "usage": usage}]) as fake:
        assert await collect_events(model(fake)) == [
            UsageReport(usage_of(123, 1, 20, 100)),
            TextDelta("H"),
            TextDelta("el"),
            TextDelta("lo"),
            UsageReport(usage_of(123, 7, 20, 100)),
            ResponseFinished("stop", "end_turn"),
        ]


async def test_tool_calls_have_a_complete_input_or_none() -> None:
    edits = {"edits": [{"action": "rewrite", "new_code": "fn(s => s);"}]}
    blocks = [
        {"thinking": "Hm, how do I do that?"},
        {"text": "I'll do that."},
        {"tool": {"id": "one", "name": "edit_job", "input": edits}},
        {"raw_tool": {"id": "two", "name": "edit_job", "json": '{"edits": [{"action": "rew'}},
        {"raw_tool": {"id": "three", "name": "edit_job"}},
    ]
    with FakeAnthropic([{"blocks": blocks, "chunks": 4}]) as fake:
        events = await collect_events(model(fake))

    assert [event for event in events if not isinstance(event, TextDelta | UsageReport)] == [
        ToolCallStarted("one", "edit_job"),
        ToolCallFinished("one", "edit_job", edits),
        ToolCallStarted("two", "edit_job"),
        ToolCallFinished("two", "edit_job", None),
        ToolCallStarted("three", "edit_job"),
        ToolCallFinished("three", "edit_job", {}),
        ResponseFinished("tool-calls", "tool_use"),
    ]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "I'll do that."


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content-filter"),
        ("tool_use", "tool-calls"),
        ("something_new", "stop"),
    ],
)
async def test_stop_reason_is_reported_normalized_and_raw(raw: str, reason: Any) -> None:
    with FakeAnthropic([{"text": "Cut", "stop": raw}]) as fake:
        assert (await collect_events(model(fake)))[-1] == ResponseFinished(reason, raw)


async def test_request_body_has_the_prompt_and_the_model_options() -> None:
    with FakeAnthropic([{"text": "a"}] * 3) as fake:
        await collect_events(model(fake))
        await collect_events(model(fake, thinking="adaptive", model="claude-other", max_tokens=100), PLAIN_PROMPT)
        await collect_events(model(fake, thinking="adaptive"), must_edit=True)

    common = {"messages": PROMPT.messages, "system": PROMPT.system, "stream": True}
    sonnet = {"model": "claude-sonnet-5-5", "max_tokens": 16384, **common, "tools": [EDIT_JOB]}
    assert [request.body for request in fake.requests] == [
        {**sonnet, "tool_choice": {"type": "auto"}, "thinking": {"type": "disabled"}},
        {**common, "model": "claude-other", "max_tokens": 100, "thinking": {"type": "adaptive"}},
        {**sonnet, "tool_choice": {"type": "tool", "name": "edit_job"}, "thinking": {"type": "disabled"}},
    ]


async def test_callers_key_replaces_the_servers_for_that_request_only() -> None:
    with FakeAnthropic([{"text": "a"}] * 4) as fake:
        anthropic = model(fake)
        for key in (None, "sk-ant-callers", "  ", " sk-ant-another "):
            await collect_events(anthropic, key=key)

    assert [request.key for request in fake.requests] == [KEY, "sk-ant-callers", KEY, "sk-ant-another"]


async def test_key_and_base_url_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeAnthropic([{"text": "a"}]) as fake:
        monkeypatch.setenv("ANTHROPIC_API_KEY", " sk-ant-from-the-environment ")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", fake.url)
        anthropic = Anthropic()
        await collect_events(anthropic)

    assert (anthropic.name, anthropic.is_configured) == ("claude-sonnet-5-5", True)
    assert fake.requests[0].key == "sk-ant-from-the-environment"


async def test_request_without_any_key_fails_before_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "somebody-elses")
    with FakeAnthropic([]) as fake:
        anthropic = Anthropic(base_url=fake.url)

        assert await collect_failure(anthropic) == (
            "unauthorized",
            "No API key for the model. Send api_key, or configure a key on the server.",
            401,
            {},
        )
        assert (anthropic.is_configured, fake.requests) == (False, [])


@pytest.mark.parametrize("key", ["sk-ant-ключ", "sk-ant-a\r\nx-evil: 1"])
async def test_key_with_invalid_header_characters_is_an_auth_error(key: str) -> None:
    message = "The model's provider rejected the request's key. Check api_key."
    with FakeAnthropic([]) as fake:
        assert await collect_failure(model(fake), key=key) == ("auth_error", message, 401, {"key": "request"})
        assert fake.requests == []


async def test_closing_the_stream_closes_the_connection() -> None:
    with FakeAnthropic([{"text": "Half", "hang": True}]) as fake:
        answer = model(fake).stream(ModelRequest(prompt=PROMPT))
        assert [await anext(answer), await anext(answer)] == [UsageReport(usage_of(10, 1)), TextDelta("Half")]

        await answer.aclose()

        assert await becomes_true(1, lambda: fake.hung_up == 1)


@pytest.mark.parametrize(
    ("step", "before"),
    [({"text": "Half", "hang": True}, [UsageReport(usage_of(10, 1)), TextDelta("Half")]), ({"hang": True}, [])],
)
async def test_cancelling_the_caller_closes_the_connection(step: dict[str, Any], before: list[ModelEvent]) -> None:
    received: list[ModelEvent] = []

    async def read_events() -> None:
        async with aclosing(model(fake).stream(ModelRequest(prompt=PROMPT))) as answer:
            async for event in answer:
                received.append(event)  # noqa: PERF401 - the test reads the list meanwhile

    with FakeAnthropic([step]) as fake:
        task = asyncio.create_task(read_events())
        assert await becomes_true(10, lambda: len(fake.requests) == 1 and len(received) == len(before))

        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task
        assert await becomes_true(10, lambda: fake.hung_up == 1)
        assert received == before


async def test_first_delta_is_delivered_before_the_response_ends() -> None:
    with FakeAnthropic([{"text": "Half", "hang": True}]) as fake:
        async with asyncio.timeout(60), aclosing(model(fake).stream(ModelRequest(prompt=PROMPT))) as answer:
            events = [await anext(answer), await anext(answer)]
            is_answered = fake.requests[0].is_answered

    assert (events, is_answered) == ([UsageReport(usage_of(10, 1)), TextDelta("Half")], False)


async def test_connection_is_reused_across_requests_and_keys() -> None:
    with FakeAnthropic([{"text": "a"}] * 3) as fake:
        anthropic = model(fake)
        for key in (None, "sk-ant-callers", None):
            await collect_events(anthropic, key=key)
        assert fake.connections == 1


async def test_fifty_concurrent_requests_each_get_the_right_answer() -> None:
    with FakeAnthropic(lambda request: {"text": request.key * 3, "chunks": 20, "delay": 0.005}) as fake:
        anthropic = model(fake)
        responses = await asyncio.gather(*(collect_events(anthropic, key=f"key-{number}") for number in range(50)))

    texts = ["".join(one.text for one in answer if isinstance(one, TextDelta)) for answer in responses]
    assert texts == [f"key-{number}" * 3 for number in range(50)]
    assert {answer[-1] for answer in responses} == {ResponseFinished("stop", "end_turn")}


def test_model_works_in_several_event_loops() -> None:
    with FakeAnthropic([{"text": "a"}] * 2) as fake:
        anthropic = model(fake)
        texts = [asyncio.run(collect_events(anthropic))[1] for _ in range(2)]

    assert texts == [TextDelta("a"), TextDelta("a")]


async def test_connections_can_be_closed_and_opened_again() -> None:
    with FakeAnthropic([{"text": "a"}] * 2) as fake:
        anthropic = model(fake)
        await anthropic.aclose()
        await collect_events(anthropic)
        await anthropic.aclose()
        assert await becomes_true(1, lambda: fake.open_connections == 0)
        await collect_events(anthropic)
        assert fake.connections == 2


async def test_thinking_is_counted_in_usage_and_gives_no_text() -> None:
    usage = b'{"output_tokens":9,"output_tokens_details":{"thinking_tokens":8}}'
    events = [
        b'data: {"type":"message_start","message":{"usage":{"input_tokens":4,"output_tokens":1}}}',
        b'event: news\r\ndata: {"type":"a_kind_of_tomorrow","delta":{"type":"colour"}}\r',
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm"}}',
        b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":%b}' % usage,
        b'data: {"type":"message_stop"}',
    ]
    sse_parser, parser = SseParser(), AnthropicStreamParser()
    body = b"\n\n".join(events) + b"\n\n"

    model_events = [
        model_event
        for offset in range(len(body))
        for event in sse_parser.feed(body[offset : offset + 1])
        for model_event in parser.feed(event)
    ]

    cached = {"cached_input_tokens": 0, "cache_creation_input_tokens": 0}
    assert model_events == [
        UsageReport(Usage(4, 1, **cached)),
        UsageReport(Usage(4, 9, **cached, reasoning_tokens=8)),
        ResponseFinished("stop", "end_turn"),
    ]


async def test_keys_do_not_appear_in_logs_or_repr(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    refused = {"error": {"status": 401, "message": f"invalid x-api-key {KEY}"}}
    with FakeAnthropic([{"text": "a"}, refused]) as fake:
        anthropic = model(fake)
        await collect_events(anthropic, key="sk-ant-callers-own")
        await collect_failure(anthropic)

    assert "sk-ant-" not in caplog.text
    assert "sk-ant-" not in repr(ModelRequest(prompt=PROMPT, key=KEY))
