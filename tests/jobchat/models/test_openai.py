"""OpenAI-compatible endpoints through the real SDK: a small local server, and Palaver itself."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palaver import PalaverError, Usage
from palaver_jobchat.models.base import (
    ModelRequest,
    ResponseFinished,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    UsageReport,
)
from palaver_jobchat.models.client import RetryPolicy
from palaver_jobchat.models.openai import OpenAI
from palaver_jobchat.prompt import EDIT_JOB, Prompt
from palaver_jobchat.testing.fake_anthropic import Connection, HttpExchange
from tests.jobchat.models.model_requests import (
    CACHED,
    NO_RETRY,
    PLAIN_PROMPT,
    PROMPT,
    becomes_true,
    collect_events,
    collect_failure,
)
from tests.server_process import server_process

CONNECTION_LOST = "Could not connect to the model's provider, or the connection was lost. Try again."
FUNCTION = {"name": "edit_job", "description": EDIT_JOB["description"], "parameters": EDIT_JOB["input_schema"]}
USAGE = {
    "prompt_tokens": 30,
    "completion_tokens": 9,
    "total_tokens": 39,
    "prompt_tokens_details": {"cached_tokens": 20},
    "completion_tokens_details": {"reasoning_tokens": 4},
}
USAGE_REPORT = UsageReport(Usage(30, 9, cached_input_tokens=20, cache_creation_input_tokens=0, reasoning_tokens=4))


def chunk(finish: str | None = None, usage: dict[str, Any] | None = None, **delta: Any) -> dict[str, Any]:
    choices = [] if usage is not None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}
    return base if usage is None else {**base, "usage": usage}


def tool_call_chunk(index: int, arguments: str, **fields: Any) -> dict[str, Any]:
    name = {"name": fields.pop("name")} if "name" in fields else {}
    return chunk(tool_calls=[{"index": index, **fields, "function": {**name, "arguments": arguments}}])


class Endpoint:
    """Streams chunks, or does what its script says with an exchange."""

    def __init__(self, *script: list[Any] | Callable[[HttpExchange], Any]) -> None:
        self.exchanges: list[HttpExchange] = []
        self.url = ""
        self._script = iter(script)

    @property
    def bodies(self) -> list[Any]:
        return [msgspec.json.decode(exchange.body) for exchange in self.exchanges]

    @property
    def keys(self) -> list[str]:
        return [exchange.headers["authorization"].removeprefix("Bearer ") for exchange in self.exchanges]

    async def answer(self, exchange: HttpExchange) -> None:
        self.exchanges.append(exchange)
        step = next(self._script)
        if callable(step):
            step(exchange)
            return
        exchange.start_stream({})
        for one in step:
            if one is Ellipsis:
                await asyncio.Event().wait()
            exchange.write(b"data: %b\n\n" % (b"[DONE]" if one is None else msgspec.json.encode(one)))
        exchange.end()


@asynccontextmanager
async def run_endpoint(*script: Any) -> AsyncIterator[Endpoint]:
    endpoint, open_connections = Endpoint(*script), set[Connection]()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(endpoint.answer, open_connections), "127.0.0.1", 0)
    endpoint.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield endpoint
    finally:
        server.close()
        for connection in list(open_connections):
            await connection.aclose()
        await server.wait_closed()


def model(endpoint: Endpoint, **options: Any) -> OpenAI:
    return OpenAI(
        **{"model": "m", "api_key": "server-key", "base_url": endpoint.url, "retry_policy": NO_RETRY, **options}
    )


HELLO_CHUNKS = [chunk(role="assistant", content=""), chunk(content="Hel"), chunk(content="lo"), chunk("stop"), None]


async def test_text_is_streamed_in_deltas() -> None:
    async with run_endpoint([*HELLO_CHUNKS[:-1], chunk(usage=USAGE), None]) as endpoint:
        assert await collect_events(model(endpoint)) == [
            TextDelta("Hel"),
            TextDelta("lo"),
            USAGE_REPORT,
            ResponseFinished("stop", "stop"),
        ]


async def test_tool_calls_are_assembled_and_incomplete_ones_have_no_input() -> None:
    mixed = [
        chunk(role="assistant", content=None, reasoning_content="Hm."),
        tool_call_chunk(0, "", id="one", name="edit_job"),
        tool_call_chunk(0, '{"edi'),
        tool_call_chunk(1, '{"edits": [', id="two", name="edit_job"),
        tool_call_chunk(0, 'ts": []}'),
        chunk("tool_calls"),
        chunk(usage={"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}),
        None,
    ]
    async with run_endpoint(mixed) as endpoint:
        assert await collect_events(model(endpoint)) == [
            ToolCallStarted("one", "edit_job"),
            ToolCallStarted("two", "edit_job"),
            UsageReport(Usage(3, 2, cached_input_tokens=0, cache_creation_input_tokens=0)),
            ToolCallFinished("one", "edit_job", {"edits": []}),
            ToolCallFinished("two", "edit_job", None),
            ResponseFinished("tool-calls", "tool_calls"),
        ]


async def test_tool_call_without_index_and_id_is_accepted() -> None:
    nameless = chunk(tool_calls=[{"index": None, "function": {"name": "edit_job", "arguments": "{}"}}, {"index": 0}])
    async with run_endpoint([nameless, chunk("stop"), None]) as endpoint:
        assert await collect_events(model(endpoint)) == [
            ToolCallStarted("call_0", "edit_job"),
            ToolCallFinished("call_0", "edit_job", {}),
            ResponseFinished("tool-calls", "stop"),
        ]


@pytest.mark.parametrize(
    ("chunks", "finished"),
    [
        ([chunk(content="a"), chunk("length")], ResponseFinished("length", "length")),
        ([chunk("content_filter")], ResponseFinished("content-filter", "content_filter")),
        ([chunk("function_call")], ResponseFinished("tool-calls", "function_call")),
        ([chunk(refusal="No."), chunk("stop")], ResponseFinished("content-filter", "stop")),
        (
            [{**chunk("stop"), "choices": [{"index": 0, "delta": None, "finish_reason": "eos"}]}],
            ResponseFinished("stop", "eos"),
        ),
    ],
)
async def test_stop_reason_is_reported_normalized_and_raw(chunks: list[Any], finished: ResponseFinished) -> None:
    async with run_endpoint([*chunks, None]) as endpoint:
        assert (await collect_events(model(endpoint)))[-1] == finished


async def test_prompt_is_translated_to_chat_completions() -> None:
    use = {"type": "tool_use", "id": "one", "name": "edit_job", "input": {"edits": []}}
    result = {"type": "tool_result", "tool_use_id": "one", "content": "Not applied.", "is_error": True}
    tool_result = {"type": "tool_result", "tool_use_id": "one", "content": [{"type": "text", "text": "Done."}]}
    prompt = Prompt(
        system=[{"type": "text", "text": "You help.", **CACHED}, {"type": "text", "text": "Docs."}],
        messages=[
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [{"type": "text", "text": "I'll do it."}, use]},
            {
                "role": "user",
                "content": [result, tool_result, {"type": "text", "text": "The job."}, *PROMPT.messages[0]["content"]],
            },
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result]},
        ],
        tools=PROMPT.tools,
    )
    async with run_endpoint(HELLO_CHUNKS, HELLO_CHUNKS, HELLO_CHUNKS) as endpoint:
        await collect_events(model(endpoint, max_tokens=50), prompt)
        await collect_events(model(endpoint), PROMPT, must_edit=True)
        await collect_events(model(endpoint), Prompt(system=[], messages=PROMPT.messages, tools=[]))

    tool_call = {"id": "one", "type": "function", "function": {"name": "edit_job", "arguments": '{"edits":[]}'}}
    common = {"model": "m", "stream": True, "stream_options": {"include_usage": True}}
    tools = [{"type": "function", "function": FUNCTION}]
    question = {"role": "user", "content": "Rename it."}
    assert endpoint.bodies == [
        {
            **common,
            "max_tokens": 50,
            "messages": [
                {"role": "system", "content": "You help.\n\nDocs."},
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "I'll do it.", "tool_calls": [tool_call]},
                {"role": "tool", "tool_call_id": "one", "content": "Not applied."},
                {"role": "tool", "tool_call_id": "one", "content": "Done."},
                {"role": "user", "content": "The job.\n\nRename it."},
                {"role": "assistant", "content": None, "tool_calls": [tool_call]},
                {"role": "tool", "tool_call_id": "one", "content": "Not applied."},
            ],
            "tools": tools,
            "tool_choice": "auto",
        },
        {
            **common,
            "max_tokens": 16384,
            "messages": [{"role": "system", "content": "You help."}, question],
            "tools": tools,
            "tool_choice": {"type": "function", "function": {"name": "edit_job"}},
        },
        {**common, "max_tokens": 16384, "messages": [question]},
    ]


def test_openai_itself_gets_max_completion_tokens_instead_of_max_tokens() -> None:
    request = OpenAI(model="m")._request_body(ModelRequest(prompt=PLAIN_PROMPT))
    assert {name for name in request if name.startswith("max")} == {"max_completion_tokens"}


async def test_a_callers_key_is_sent_instead_of_the_servers() -> None:
    async with run_endpoint(HELLO_CHUNKS, HELLO_CHUNKS, HELLO_CHUNKS) as endpoint:
        openai = model(endpoint)
        for key in ("callers", None, " "):
            await collect_events(openai, key=key)

        assert endpoint.keys == ["callers", "server-key", "server-key"]
        assert (openai.name, openai.is_configured) == ("m", True)


async def test_request_without_any_key_fails_before_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-somebody-elses")
    async with run_endpoint() as endpoint:
        openai = model(endpoint, api_key="")

        assert await collect_failure(openai) == (
            "unauthorized",
            "No API key for the model. Send api_key, or configure a key on the server.",
            401,
            {},
        )
        assert (openai.is_configured, endpoint.exchanges) == (False, [])


async def test_openai_api_key_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-somebody-elses")
    async with run_endpoint(HELLO_CHUNKS) as endpoint:
        await collect_events(model(endpoint, api_key=""), key="callers")

        assert endpoint.keys == ["callers"]


@pytest.mark.parametrize("key_source", ["request", "server"])
async def test_anthropic_key_is_not_sent_to_another_provider(key_source: str) -> None:
    message = "api_key is an Anthropic key, but this server uses another provider. Send that provider's key, or none."
    async with run_endpoint() as endpoint:
        openai = model(endpoint, api_key="sk-ant-a" if key_source == "server" else "b")

        assert await collect_failure(openai, key="sk-ant-a" if key_source == "request" else None) == (
            "bad_request",
            message,
            400,
            {},
        )
        assert endpoint.exchanges == []


async def test_anthropic_key_is_sent_to_the_configured_anthropic_url(monkeypatch: pytest.MonkeyPatch) -> None:
    async with run_endpoint(HELLO_CHUNKS, HELLO_CHUNKS) as endpoint:
        await collect_events(model(endpoint, anthropic_url=endpoint.url.removesuffix("/v1")), key="sk-ant-a")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", endpoint.url)
        await collect_events(model(endpoint), key="sk-ant-b")

        assert endpoint.keys == ["sk-ant-a", "sk-ant-b"]


def error_response(status: int, message: str, **headers: str) -> Callable[[HttpExchange], None]:
    body = {"error": {"message": message, "type": "invalid_request_error", "code": None}}
    return lambda exchange: exchange.send_json(
        status, body, {name.replace("_", "-"): one for name, one in headers.items()}
    )


FAILURES: dict[str, tuple[Any, str, str, int, dict[str, Any]]] = {
    "a wrong key": (
        error_response(401, "Incorrect API key provided: server-key."),
        "auth_error",
        "The model's provider rejected the server's key. Check PALAVER_JOBCHAT_API_KEY on the server.",
        401,
        {"key": "server"},
    ),
    "no such model": (
        error_response(404, "The model `m` does not exist"),
        "not_found",
        "Model 'm' not found or not available with this key. Set PALAVER_JOBCHAT_MODEL to another model.",
        404,
        {},
    ),
    "too long": (
        error_response(400, "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens."),
        "prompt_too_long",
        "The prompt is too long for the model. Shorten content, the largest field, or leave it out.",
        413,
        {"fields": {"content": 3}},
    ),
    "a bad request that repeats the key": (
        error_response(400, "what is server-key?"),
        "bad_request",
        "The model's provider rejected the request: what is ***?",
        400,
        {},
    ),
    "too many requests": (
        error_response(429, "slow down", retry_after="3"),
        "rate_limit",
        "The model's provider is limiting requests. Try again in 3 seconds.",
        429,
        {"retry_after": 3},
    ),
    "no JSON": (
        lambda exchange: exchange.send_json(502, "Bad gateway"),
        "provider_error",
        "The model's provider failed. Try again.",
        502,
        {},
    ),
    "an error inside a stream": (
        [chunk(content="Half"), {"error": {"message": "out of memory", "type": "server_error"}}],
        "provider_error",
        "The model's provider failed: out of memory. Try again.",
        502,
        {},
    ),
    "an error inside a stream, by its number": (
        [chunk(content="Half"), {"error": {"message": "slow down", "code": 429}}],
        "rate_limit",
        "The model's provider is limiting requests. Try again in 60 seconds.",
        429,
        {"retry_after": 60},
    ),
    "a stream without an end": ([chunk(content="Half")], "connection_error", CONNECTION_LOST, 503, {}),
    "no connection": (lambda exchange: exchange.drop(), "connection_error", CONNECTION_LOST, 503, {}),
    "a lost connection": (
        lambda exchange: (exchange.start_stream({}), exchange.write(b"data: {}\n\n"), exchange.drop()),
        "connection_error",
        CONNECTION_LOST,
        503,
        {},
    ),
}


@pytest.mark.parametrize("row", FAILURES)
async def test_provider_error_is_mapped_to_a_failure(row: str) -> None:
    step, *expected = FAILURES[row]
    async with run_endpoint(step) as endpoint:
        assert await collect_failure(model(endpoint), field_sizes={"content": 3}) == tuple(expected)


@pytest.mark.parametrize("step", [[chunk(content="Half"), ...], [...]])
async def test_model_that_sends_nothing_times_out(step: list[Any]) -> None:
    async with run_endpoint(step) as endpoint:
        assert await collect_failure(model(endpoint, retry_policy=RetryPolicy(retries=0, timeout_s=0.3))) == (
            "timeout",
            "The model sent nothing for 0.3 seconds. Try again later.",
            504,
            {},
        )


async def test_failure_before_the_first_delta_is_retried() -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async with run_endpoint(error_response(500, "oh"), lambda exchange: exchange.drop(), HELLO_CHUNKS) as endpoint:
        events = await collect_events(model(endpoint, retry_policy=RetryPolicy(sleep=sleep, jitter=lambda: 0.0)))

    assert (events[-1], pauses) == (ResponseFinished("stop", "stop"), [0.5, 1.0])


async def test_closing_the_stream_closes_the_connection() -> None:
    async with run_endpoint([chunk(content="Half"), ...]) as endpoint:
        openai = model(endpoint)
        answer = openai.stream(ModelRequest(prompt=PROMPT))
        assert await anext(answer) == TextDelta("Half")

        await answer.aclose()

        assert await becomes_true(1, lambda: endpoint.exchanges[0].is_disconnected)
        await openai.aclose()


def test_missing_model_name_is_rejected() -> None:
    with pytest.raises(PalaverError, match="PALAVER_JOBCHAT_MODEL"):
        OpenAI(model="")


async def test_palaver_server_can_be_used_as_an_openai_endpoint(tmp_path: Path) -> None:
    steps = [
        {"text": "I'll do it."},
        {"tool_call": {"id": "one", "name": "edit_job", "arguments": {"edits": []}}},
        {"usage": {"input_tokens": 3, "output_tokens": 4}},
    ]
    question = [{"role": "user", "content": [{"type": "text", "text": msgspec.json.encode(steps).decode()}]}]
    with server_process(tmp_path) as server:
        openai = OpenAI(model="scripted", api_key="any", base_url=f"{server.url}/v1", retry_policy=NO_RETRY)
        events = await collect_events(openai, Prompt(system=[], messages=question, tools=[]))
        failure = await collect_failure(
            OpenAI(model="none", api_key="any", base_url=f"{server.url}/v1", retry_policy=NO_RETRY), PLAIN_PROMPT
        )

    assert [one for one in events if not isinstance(one, UsageReport)] == [
        TextDelta("I'll do it."),
        ToolCallStarted("one", "edit_job"),
        ToolCallFinished("one", "edit_job", {"edits": []}),
        ResponseFinished("tool-calls", "tool_calls"),
    ]
    usage = Usage(3, 4, cached_input_tokens=0, cache_creation_input_tokens=0, reasoning_tokens=0)
    assert UsageReport(usage) in events
    assert (failure[0], failure[2]) == ("not_found", 404)
