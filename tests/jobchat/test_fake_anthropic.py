"""The fake Anthropic server, used by the real SDK and by plain HTTP."""

import asyncio
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from anthropic import AsyncAnthropic

from palaver import PalaverError
from palaver_jobchat.testing import FakeAnthropic, read_script

KEY = "sk-ant-any"
HEADERS = {"authorization": f"Bearer {KEY}", "anthropic-version": "2023-06-01"}
TOOL = {"name": "edit_job", "input_schema": {"type": "object", "properties": {}}}
BODY: dict[str, Any] = {"model": "claude-x", "max_tokens": 10, "messages": [{"role": "user", "content": "Hi"}]}
USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
CACHED_BLOCK = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
TOOL_USE = {"type": "tool_use", "id": "a", "name": "edit_job", "input": {}}
TOOL_RESULT = {"type": "tool_result", "tool_use_id": "a", "content": "done"}


def post(fake: FakeAnthropic, body: Any = BODY, headers: dict[str, str] = HEADERS) -> httpx.Response:
    with httpx.Client(trust_env=False, timeout=60) as http:
        return http.post(f"{fake.url}/v1/messages", json=body, headers=headers)


def decode_events(answer: httpx.Response) -> list[dict[str, Any]]:
    """Return the data of each event; its type equals the event's name."""
    decoded: list[dict[str, Any]] = []
    for frame in answer.text.removesuffix("\n\n").split("\n\n"):
        name, data = frame.split("\n")
        decoded.append(msgspec.json.decode(data.removeprefix("data: ")))
        assert name == f"event: {decoded[-1]['type']}"
    return decoded


def becomes_true(condition: Any, timeout_s: float = 5) -> bool:
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def test_stream_has_the_events_that_anthropic_sends() -> None:
    call = {"id": "one", "name": "edit_job", "input": {"edits": []}}
    blocks = [{"thinking": "Hm"}, {"text": "Hello"}, {"tool": call}, {"raw_tool": {"name": "edit_job", "json": '{"e'}}]
    with FakeAnthropic([{"blocks": blocks, "chunks": 2}]) as fake:
        answer = post(fake, {**BODY, "stream": True})

    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": []}
    json_delta = {"type": "input_json_delta"}

    def delta(index: int, **fields: Any) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": index, "delta": fields}

    def start(index: int, **fields: Any) -> dict[str, Any]:
        return {"type": "content_block_start", "index": index, "content_block": fields}

    def stop(index: int) -> dict[str, Any]:
        return {"type": "content_block_stop", "index": index}

    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert decode_events(answer) == [
        {
            "type": "message_start",
            "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": {**USAGE, "output_tokens": 1}},
        },
        {"type": "ping"},
        start(0, type="thinking", thinking="", signature=""),
        delta(0, type="thinking_delta", thinking="H"),
        delta(0, type="thinking_delta", thinking="m"),
        delta(0, type="signature_delta", signature="c2lnbmVk"),
        stop(0),
        start(1, type="text", text=""),
        delta(1, type="text_delta", text="He"),
        delta(1, type="text_delta", text="llo"),
        stop(1),
        start(2, type="tool_use", id="one", name="edit_job", input={}),
        delta(2, **json_delta, partial_json=""),
        delta(2, **json_delta, partial_json='{"edit'),
        delta(2, **json_delta, partial_json='s":[]}'),
        stop(2),
        start(3, type="tool_use", id="toolu_1_3", name="edit_job", input={}),
        delta(3, **json_delta, partial_json=""),
        delta(3, **json_delta, partial_json="{"),
        delta(3, **json_delta, partial_json='"e'),
        stop(3),
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None, "stop_details": None},
            "usage": USAGE,
        },
        {"type": "message_stop"},
    ]


def test_response_without_streaming_is_one_message() -> None:
    blocks = [
        {"thinking": "Hm"},
        {"text": "Hello"},
        {"tool": {"name": "edit_job", "input": {"a": 1}}},
        {"raw_tool": {"name": "x", "json": "{"}},
    ]
    with FakeAnthropic([{"blocks": blocks, "usage": {"input_tokens": 1}, "stop": "max_tokens"}]) as fake:
        answer = post(fake)

    assert answer.headers["request-id"] == "req_1"
    assert answer.json() == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [
            {"type": "thinking", "thinking": "Hm", "signature": "c2lnbmVk"},
            {"type": "text", "text": "Hello"},
            {"type": "tool_use", "id": "toolu_1_2", "name": "edit_job", "input": {"a": 1}},
            {"type": "tool_use", "id": "toolu_1_3", "name": "x", "input": {}},
        ],
        "stop_reason": "max_tokens",
        "stop_sequence": None,
        "usage": {**USAGE, "input_tokens": 1},
    }


async def test_anthropic_sdk_reads_streamed_and_complete_messages() -> None:
    step = {"blocks": [{"text": "Hello"}, {"tool": {"name": "edit_job", "input": {"edits": []}}}], "chunks": 3}
    async with FakeAnthropic([step, step]) as fake, AsyncAnthropic(api_key=KEY, base_url=fake.url) as client:
        async with client.messages.stream(**BODY) as stream:
            streamed = await stream.get_final_message()
        complete = await client.messages.create(**BODY)

    def content_of(message: Any) -> list[Any]:
        return [(block.type, getattr(block, "text", None), getattr(block, "input", None)) for block in message.content]

    assert content_of(streamed) == [("text", "Hello", None), ("tool_use", None, {"edits": []})] == content_of(complete)
    assert streamed.usage.output_tokens == 5
    assert streamed.stop_reason == complete.stop_reason == "tool_use"


def test_steps_play_in_order_and_further_requests_get_500() -> None:
    with FakeAnthropic([{"text": "one"}, {"text": "two"}]) as fake:
        responses = [post(fake) for _ in range(3)]

    assert [answer.json()["content"][0]["text"] for answer in responses[:2]] == ["one", "two"]
    assert responses[2].status_code == 500
    assert responses[2].json() == {
        "type": "error",
        "error": {"type": "api_error", "message": "The script has no more steps."},
        "request_id": "req_3",
    }


def test_a_function_may_choose_the_step() -> None:
    with FakeAnthropic(lambda request: {"text": request.body["messages"][0]["content"]}) as fake:
        assert post(fake).json()["content"] == [{"type": "text", "text": "Hi"}]


def test_invalid_step_from_a_function_is_answered_with_500() -> None:
    with FakeAnthropic(lambda request: {"txt": request.key}) as fake:
        answer = post(fake)

    assert answer.status_code == 500
    assert "unknown field `txt`" in answer.json()["error"]["message"]


def test_requests_are_recorded_with_their_key() -> None:
    with FakeAnthropic([{"text": "a"}] * 2) as fake:
        post(fake)
        post(fake, headers={"X-Api-Key": "other", "Anthropic-Version": "2023-06-01"})
        post(fake, headers={})

    assert [request.key for request in fake.requests] == [KEY, "other", ""]
    assert [request.is_answered for request in fake.requests] == [True, True, False]
    assert fake.requests[0].body == BODY
    assert fake.requests[0].headers["anthropic-version"] == "2023-06-01"


def test_scripted_error_sets_status_headers_and_x_should_retry() -> None:
    headers = {"retry-after": "7"}
    limit = {"status": 429, "type": "rate_limit_error", "message": "slow down", "headers": headers, "retry": False}
    with FakeAnthropic([{"error": limit}, {"error": {"status": 529, "retry": True}}]) as fake:
        first, second = post(fake), post(fake)

    assert first.status_code == 429
    assert (first.headers["retry-after"], first.headers["x-should-retry"]) == ("7", "false")
    assert first.json()["error"] == {"type": "rate_limit_error", "message": "slow down"}
    assert (second.status_code, second.headers["x-should-retry"]) == (529, "true")
    assert second.json()["error"] == {"type": "overloaded_error", "message": "Something went wrong."}


def test_an_error_inside_a_stream_leaves_its_block_open() -> None:
    step = {"text": "Half", "then_error": {"type": "overloaded_error", "message": "Overloaded"}}
    with FakeAnthropic([step, step]) as fake:
        streamed, complete = post(fake, {**BODY, "stream": True}), post(fake)

    error = {"type": "overloaded_error", "message": "Overloaded"}
    assert decode_events(streamed)[-2:] == [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Half"}},
        {"type": "error", "error": error, "request_id": "req_1"},
    ]
    assert (complete.status_code, complete.json()["error"]) == (500, error)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("text", [{"text": "Half"}, {}])
def test_dropped_connection_is_a_protocol_error_for_the_client(stream: bool, text: dict[str, str]) -> None:
    with FakeAnthropic([{**text, "drop": True}]) as fake:
        with pytest.raises(httpx.RemoteProtocolError):
            post(fake, {**BODY, "stream": stream})
        assert fake.hung_up == 0


def test_stream_can_end_early_without_a_connection_error() -> None:
    with FakeAnthropic([{"text": "Half", "drop": "cleanly"}]) as fake:
        assert decode_events(post(fake, {**BODY, "stream": True}))[-1]["delta"] == {
            "type": "text_delta",
            "text": "Half",
        }


@pytest.mark.parametrize("step", [{"text": "Half", "hang": True}, {"hang": True}])
async def test_client_disconnect_is_recorded(step: dict[str, Any]) -> None:
    with FakeAnthropic([step, {"text": "b"}]) as fake:
        client = AsyncAnthropic(api_key=KEY, base_url=fake.url, max_retries=0)
        task = asyncio.create_task(client.messages.create(**BODY))
        assert await asyncio.to_thread(becomes_true, lambda: len(fake.requests) == 1)
        assert fake.hung_up == 0

        task.cancel()
        await client.close()

        assert await asyncio.to_thread(becomes_true, lambda: fake.requests[0].hung_up, 1)
        assert (fake.hung_up, fake.requests[0].is_answered) == (1, False)
        await asyncio.to_thread(post, fake)
        assert (fake.hung_up, fake.requests[1].hung_up) == (1, False)


def test_server_can_be_stopped_twice_and_later_requests_fail() -> None:
    fake = FakeAnthropic([{"text": "Half", "hang": True}]).start()
    url, body = f"{fake.url}/v1/messages", {**BODY, "stream": True}
    with (
        httpx.Client(trust_env=False, timeout=60, headers=HEADERS) as http,
        http.stream("POST", url, json=body) as answer,
    ):
        fake.stop()
        fake.stop()
        with pytest.raises(httpx.RemoteProtocolError):
            answer.read()
        with pytest.raises(httpx.ConnectError):
            http.post(url, json=body)

    assert (answer.status_code, len(fake.requests), fake.hung_up, fake.open_connections) == (200, 1, 0, 0)


INVALID_REQUESTS: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"model": None}, "model: Field required"),
    "an empty model": ({"model": ""}, "model: Input should be a valid string"),
    "no limit": ({"max_tokens": 0}, "max_tokens: Input should be a valid integer, at least 1"),
    "a limit that is none": ({"max_tokens": True}, "max_tokens: Input should be a valid integer, at least 1"),
    "an unknown field": ({"colour": 1}, "colour: Extra inputs are not permitted"),
    "a stream that is none": ({"stream": "yes"}, "stream: Input should be a valid boolean"),
    "messages that are none": ({"messages": "Hi"}, "messages: Input should be a valid list"),
    "no messages": ({"messages": []}, "messages: at least one message is required"),
    "a message that is none": ({"messages": ["Hi"]}, "messages.0: Input should be an object"),
    "a system's turn": (
        {"messages": [{"role": "system", "content": "x"}]},
        "messages.0.role: Input should be 'user' or 'assistant'",
    ),
    "an assistant first": (
        {"messages": [{"role": "assistant", "content": "x"}]},
        'messages: first message must use the "user" role',
    ),
    "an empty text": (
        {"messages": [{"role": "user", "content": ""}]},
        "messages.0: text content blocks must be non-empty",
    ),
    "no content": (
        {"messages": [{"role": "user", "content": []}]},
        "messages.0: all messages must have non-empty content",
    ),
    "a blank block": (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": " \n"}]}]},
        "messages.0.content.0: text content blocks must contain non-whitespace text",
    ),
    "a block without text": (
        {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
        "messages.0.content.0.text: Field required",
    ),
    "a call by the user": (
        {"messages": [{"role": "user", "content": [TOOL_USE]}]},
        "messages.0.content.0: Input tag 'tool_use' found using 'type' does not match any of the expected tags",
    ),
    "a call without a result": (
        {"messages": [*BODY["messages"], {"role": "assistant", "content": [TOOL_USE]}]},
        "messages: `tool_use` ids were found without `tool_result` blocks: a",
    ),
    "a call that is passed over": (
        {"messages": [*BODY["messages"], {"role": "assistant", "content": [TOOL_USE]}, *BODY["messages"]]},
        "messages.2: `tool_use` ids were found without `tool_result` blocks: a",
    ),
    "a result of nothing": (
        {"messages": [{"role": "user", "content": [TOOL_RESULT]}]},
        "messages.0: unexpected `tool_use_id` found in `tool_result` blocks: a",
    ),
    "a result without its call": (
        {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]},
        "messages.0.content.0.tool_use_id: Field required",
    ),
    "a result after text": (
        {
            "messages": [
                *BODY["messages"],
                {"role": "assistant", "content": [TOOL_USE]},
                {"role": "user", "content": [{"type": "text", "text": "x"}, TOOL_RESULT]},
            ]
        },
        "messages.2: `tool_result` blocks must come first",
    ),
    "two calls of one name": (
        {"messages": [*BODY["messages"], {"role": "assistant", "content": [TOOL_USE, TOOL_USE]}]},
        "messages.1: `tool_use` ids must be unique",
    ),
    "a call with a strange id": (
        {"messages": [*BODY["messages"], {"role": "assistant", "content": [{**TOOL_USE, "id": "a b"}]}]},
        "messages.1.content.0.id: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
    ),
    "a call with a list": (
        {"messages": [*BODY["messages"], {"role": "assistant", "content": [{**TOOL_USE, "input": []}]}]},
        "messages.1.content.0.input: Input should be an object",
    ),
    "a system block that is no text": ({"system": [{"type": "image"}]}, "system.0.type: Input should be 'text'"),
    "an empty system block": (
        {"system": [{"type": "text", "text": ""}]},
        "system.0: text content blocks must be non-empty",
    ),
    "five cache marks": (
        {
            "system": [CACHED_BLOCK, CACHED_BLOCK],
            "messages": [{"role": "user", "content": [CACHED_BLOCK, CACHED_BLOCK]}],
            "tools": [{**TOOL, "cache_control": {"type": "ephemeral"}}],
        },
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "tools that are none": ({"tools": {}}, "tools: Input should be a valid list"),
    "a tool without a name": (
        {"tools": [{"input_schema": {"type": "object"}}]},
        "tools.0.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
    ),
    "a tool without a schema": ({"tools": [{"name": "x"}]}, "tools.0.input_schema: Field required"),
    "a tool for a list": (
        {"tools": [{"name": "x", "input_schema": {"type": "array"}}]},
        "tools.0.input_schema.type: Input should be 'object'",
    ),
    "two tools of one name": ({"tools": [TOOL, TOOL]}, "tools: Tool names must be unique."),
    "a choice without tools": (
        {"tool_choice": {"type": "auto"}},
        "tool_choice: may only be specified while providing `tools`.",
    ),
    "a choice of no tool": (
        {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "x"}},
        "tool_choice.name: Tool 'x' not found in provided tools",
    ),
    "a choice that is none": (
        {"tools": [TOOL], "tool_choice": "auto"},
        "tool_choice: Input should be auto, any, none, or a tool with its name",
    ),
    "thinking and a forced tool": (
        {"tools": [TOOL], "tool_choice": {"type": "any"}, "thinking": {"type": "adaptive"}},
        "Thinking may not be enabled when tool_choice forces tool use.",
    ),
    "a strange way of thinking": (
        {"thinking": "hard"},
        "thinking.type: Input should be 'enabled', 'disabled', 'adaptive' or 'between_tools'",
    ),
}


@pytest.fixture(scope="module")
def fake_server() -> Any:
    with FakeAnthropic(lambda _: {"text": "a"}) as fake:
        yield fake


@pytest.mark.parametrize("case", INVALID_REQUESTS)
def test_requests_that_anthropic_rejects_are_rejected_with_400(fake_server: FakeAnthropic, case: str) -> None:
    change, message = INVALID_REQUESTS[case]

    answer = post(fake_server, {**BODY, **change})

    assert answer.status_code == 400
    error = {"type": "invalid_request_error", "message": message}
    assert answer.json() == {"type": "error", "error": error, "request_id": answer.headers["request-id"]}


def test_requests_that_anthropic_accepts_are_accepted(fake_server: FakeAnthropic) -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "x"}, CACHED_BLOCK]},
        {"role": "user", "content": "again"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": ""}, TOOL_USE]},
        {"role": "user", "content": [{**TOOL_RESULT, "content": [{"type": "text", "text": "x"}]}, CACHED_BLOCK]},
    ]
    tool_fields = {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "edit_job"}}
    body = {**BODY, "system": "You help.", "messages": messages, "thinking": {"type": "disabled"}, **tool_fields}

    assert post(fake_server, body).json()["content"] == [{"type": "text", "text": "a"}]
    assert post(fake_server, {**body, "system": [CACHED_BLOCK, CACHED_BLOCK]}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status", "kind", "message"),
    [
        ({"anthropic-version": "1"}, 401, "authentication_error", "x-api-key header is required"),
        (
            {"authorization": "Basic x", "anthropic-version": "1"},
            401,
            "authentication_error",
            "x-api-key header is required",
        ),
        ({"x-api-key": "x"}, 400, "invalid_request_error", "anthropic-version: header is required"),
    ],
)
def test_key_and_version_are_required(
    fake_server: FakeAnthropic, headers: dict[str, str], status: int, kind: str, message: str
) -> None:
    answer = post(fake_server, headers=headers)

    assert (answer.status_code, answer.json()["error"]) == (status, {"type": kind, "message": message})


def test_body_that_is_not_a_json_object_is_rejected(fake_server: FakeAnthropic) -> None:
    with httpx.Client(trust_env=False, base_url=fake_server.url, headers=HEADERS) as http:
        broken, not_an_object = (http.post("/v1/messages", content=body) for body in (b"{oops", b"[]"))

    assert broken.status_code == not_an_object.status_code == 400
    assert broken.json()["error"]["message"].startswith("The request body is not valid JSON: ")
    assert not_an_object.json()["error"]["message"] == "The request body must be an object"


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/v1/messages", 405), ("POST", "/v1/models", 404)])
def test_other_methods_and_paths_are_rejected(fake_server: FakeAnthropic, method: str, path: str, status: int) -> None:
    answer = httpx.request(method, fake_server.url + path, trust_env=False)

    message = f"Not found: {method} {path}. This server only supports POST /v1/messages."
    assert (answer.status_code, answer.json()["error"]["message"]) == (status, message)


def test_request_with_expect_100_continue_is_answered(fake_server: FakeAnthropic) -> None:
    with httpx.Client(trust_env=False, headers={**HEADERS, "expect": "100-continue"}) as http:
        assert http.post(f"{fake_server.url}/v1/messages", json=BODY).status_code == 200


def test_100_continue_is_sent_before_the_body_arrives(fake_server: FakeAnthropic) -> None:
    body = msgspec.json.encode(BODY)
    headers = {**HEADERS, "host": "127.0.0.1", "content-length": str(len(body)), "expect": "100-continue"}
    head = ["POST /v1/messages HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    port = httpx.URL(fake_server.url).port
    with socket.create_connection(("127.0.0.1", port or 0), timeout=60) as connection:
        connection.sendall("\r\n".join([*head, "", ""]).encode())
        interim = connection.recv(1000)
        connection.sendall(body)
        final = connection.recv(1000)

    assert interim == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert final.startswith(b"HTTP/1.1 200 OK\r\n")


def test_connection_is_closed_if_the_data_is_not_http(fake_server: FakeAnthropic) -> None:
    port = httpx.URL(fake_server.url).port
    with socket.create_connection(("127.0.0.1", port or 0), timeout=60) as connection:
        connection.sendall(b"Hello there\r\n\r\n")
        assert connection.recv(100) == b""


async def test_two_hundred_concurrent_streams_are_complete() -> None:
    with FakeAnthropic(lambda _: {"text": "x" * 50, "chunks": 10, "delay": 0.005}) as fake:
        async with httpx.AsyncClient(trust_env=False, timeout=60, limits=httpx.Limits(max_connections=200)) as http:
            calls = [
                http.post(f"{fake.url}/v1/messages", json={**BODY, "stream": True}, headers=HEADERS) for _ in range(200)
            ]
            responses = await asyncio.gather(*calls)

    assert {len(decode_events(answer)) for answer in responses} == {16}
    assert all(request.is_answered for request in fake.requests)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ({}, "The model's script must be a list of steps."),
        ([{"txt": "a"}], "Invalid step in the model's script: Object contains unknown field `txt`."),
        ([{"text": "a", "chunks": 0}], "chunks must be at least 1 and delay at least 0"),
        ([{"text": "a", "blocks": []}], "A step can't have both text and blocks"),
        ([{"blocks": [{}]}], "A block must have exactly one of text, thinking, tool and raw_tool"),
    ],
)
def test_invalid_script_is_rejected_with_a_reason(script: Any, message: str) -> None:
    with pytest.raises(PalaverError) as caught:
        read_script(script)
    assert message in caught.value.message


def test_script_is_read_from_a_file_and_unreadable_files_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text('[{"text": "a"}]')
    assert [step.text for step in read_script(path)] == ["a"]

    path.write_text("[")
    with pytest.raises(PalaverError, match=r"Cannot read the model's script: "):
        read_script(path)
    with pytest.raises(PalaverError):
        read_script(tmp_path / "none.json")


def test_port_that_is_in_use_is_reported(fake_server: FakeAnthropic) -> None:
    port = httpx.URL(fake_server.url).port or 0
    with pytest.raises(PalaverError, match="The fake model cannot listen on the port: "), FakeAnthropic([], port=port):
        pass


def test_server_runs_until_it_is_interrupted() -> None:
    program = (
        "from palaver_jobchat.testing import serve; serve([{'text': 'a'}], ready=lambda url: print(url, flush=True))"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with httpx.Client(trust_env=False, timeout=60) as http:
            assert http.post(f"{url}/v1/messages", json=BODY, headers=HEADERS).status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        process.stdout.close()
    finally:
        process.kill()
        process.wait(60)
