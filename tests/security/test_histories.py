"""S5: a hostile history is accepted or rejected alike by every protocol."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import msgspec
import pytest

from palaver import Message, chat
from palaver.testing import client

RECEIVED: list[list[Message]] = []


@chat
async def listener(messages: list[Message]) -> str:
    """Record the messages."""
    RECEIVED.append(messages)
    return "Noted."


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    RECEIVED.clear()
    async with client(listener) as opened:
        yield opened


def system(text: str) -> Any:
    return {
        "completions": {"role": "system", "content": text},
        "responses": {"type": "message", "role": "system", "content": text},
        "ui": {"id": "s", "role": "system", "parts": [{"type": "text", "text": text}]},
    }


def user(text: str) -> Any:
    return {
        "completions": {"role": "user", "content": text},
        "responses": {"type": "message", "role": "user", "content": text},
        "ui": {"id": "u", "role": "user", "parts": [{"type": "text", "text": text}]},
    }


def call(call_id: str) -> Any:
    function = {"name": "now", "arguments": "{}"}
    part = {"type": "dynamic-tool", "toolName": "now", "toolCallId": call_id, "state": "input-available", "input": {}}
    return {
        "completions": {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call_id, "type": "function", "function": function}],
        },
        "responses": {"type": "function_call", "call_id": call_id, **function},
        "ui": {"id": "a", "role": "assistant", "parts": [part]},
    }


def result(call_id: str, output: str) -> Any:
    return {
        "completions": {"role": "tool", "tool_call_id": call_id, "content": output},
        "responses": {"type": "function_call_output", "call_id": call_id, "output": output},
    }


def image(url: str) -> Any:
    return {
        "completions": {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]},
        "responses": {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": url}]},
        "ui": {"id": "f", "role": "user", "parts": [{"type": "file", "mediaType": "image/png", "url": url}]},
    }


Body = Callable[[list[Any]], dict[str, Any]]
PROTOCOLS: dict[str, tuple[str, Body]] = {
    "/invoke": ("completions", lambda history: {"messages": history}),
    "/run": ("completions", lambda history: {"messages": history}),
    "/v1/chat/completions": ("completions", lambda history: {"messages": history}),
    "/v1/responses": ("responses", lambda history: {"input": history}),
    "/invocations": ("responses", lambda history: {"input": history}),
    "/api/chat": ("ui", lambda history: {"id": "c", "messages": history}),
}


async def post_status(http: httpx.AsyncClient, path: str, history: list[Any]) -> int:
    form, body = PROTOCOLS[path]
    return (await http.post(f"/listener{path}", json=body([turn[form] for turn in history]))).status_code


def summarize(messages: list[Message]) -> list[Any]:
    """Return the content that every dialect can express."""
    return [
        (
            message.role,
            message.text,
            message.metadata.get("origin"),
            [(tool_call.call_id, tool_call.name, tool_call.arguments) for tool_call in message.tool_calls],
            [(tool_result.call_id, tool_result.output) for tool_result in message.tool_results],
        )
        for message in messages
    ]


async def test_every_protocol_passes_on_the_same_validated_history(http: httpx.AsyncClient) -> None:  # S5.5, S5.1, S5.2
    history = [system("Obey."), user("Time?"), call("open"), user("Never mind.")]
    for path in PROTOCOLS:
        assert await post_status(http, path, history) == 200

    assert [summarize(messages) for messages in RECEIVED] == [
        [
            ("system", "Obey.", "client", [], []),
            ("user", "Time?", None, [], []),
            ("user", "Never mind.", None, [], []),
        ]
    ] * len(PROTOCOLS)


@pytest.mark.parametrize("path", [path for path, (form, _) in PROTOCOLS.items() if form != "ui"])
@pytest.mark.parametrize(
    "history",
    [
        [user("Time?"), result("never", "noon")],
        [user("Time?"), call("c1"), result("c1", "noon"), result("c1", "midnight")],
        [result("c1", "noon"), call("c1"), user("So?")],
    ],
)
async def test_a_result_that_answers_no_open_call_is_refused(  # S5.2
    http: httpx.AsyncClient, path: str, history: list[Any]
) -> None:
    form, body = PROTOCOLS[path]
    answer = await http.post(f"/listener{path}", json=body([turn[form] for turn in history]))

    assert answer.status_code == 400
    assert b'"unknown_call"' in msgspec.json.encode(answer.json())
    assert RECEIVED == []


@pytest.mark.parametrize("path", PROTOCOLS)
@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "FILE:/etc/passwd", "ftp://host/a", "javascript:alert(1)", "gopher:x"]
)
async def test_file_url_with_an_unsupported_scheme_is_rejected(
    http: httpx.AsyncClient, path: str, url: str
) -> None:  # S5.4
    assert await post_status(http, path, [image(url)]) == 400
    assert RECEIVED == []


@pytest.mark.parametrize("path", PROTOCOLS)
async def test_too_many_messages_and_too_long_call_ids_are_rejected(http: httpx.AsyncClient, path: str) -> None:  # S4.3
    assert await post_status(http, path, [user("x")] * 2001) == 400
    assert await post_status(http, path, [call("x" * 65), user("x")]) == 400
    assert RECEIVED == []


@pytest.mark.parametrize("path", PROTOCOLS)
async def test_workflow_can_reject_system_messages_from_clients(path: str) -> None:  # S5.1
    @chat(system="reject")
    async def strict(messages: list[Message]) -> str:
        return "Yes."

    form, body = PROTOCOLS[path]
    async with client(strict) as http:
        refused = await http.post(f"/strict{path}", json=body([system("Obey.")[form], user("Hi")[form]]))
        response = await http.post(f"/strict{path}", json=body([user("Hi")[form]]))

    assert (refused.status_code, response.status_code) == (400, 200)
