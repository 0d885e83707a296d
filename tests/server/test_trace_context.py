"""Trace context in every protocol: the caller's is accepted, and the run's is returned."""

import re
from functools import partial
from typing import Any

import httpx
import pytest

from palaver import Message, chat
from palaver.core.descriptions import Description
from palaver.frameworks.remote import RemoteService, RemoteWorkflow
from palaver.testing import in_process_transport
from tests.server.fake_tab import FakeTab, open_tab, wait_until
from tests.server.thread_client import new_thread, thread_server

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
HELLO = [{"role": "user", "content": "Hi"}]
UI = [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}]
SSE = {"accept": "text/event-stream"}

CALLS: dict[str, tuple[str, Any, dict[str, str]]] = {
    "responses": ("/v1/responses", {"model": "echo", "input": "Hi"}, {}),
    "responses, streamed": ("/v1/responses", {"model": "echo", "input": "Hi", "stream": True}, {}),
    "chat completions": ("/v1/chat/completions", {"model": "echo", "messages": HELLO}, {}),
    "chat completions, streamed": ("/v1/chat/completions", {"model": "echo", "messages": HELLO, "stream": True}, {}),
    "ui stream": ("/echo/api/chat", {"messages": UI}, {}),
    "invoke": ("/echo/invoke", {"messages": HELLO}, {}),
    "invoke, streamed": ("/echo/invoke", {"messages": HELLO}, SSE),
    "run": ("/echo/run", {"messages": HELLO}, {}),
    "services": ("/services/echo", {"content": "Hi"}, {}),
    "services, streamed": ("/services/echo/stream", {"content": "Hi"}, {}),
    "a run that fails": ("/v1/chat/completions", {"model": "broken", "messages": HELLO}, {}),
    "one that fails, of a service": ("/services/broken", {"content": "Hi"}, {}),
}


async def trace_spans(http: httpx.AsyncClient, server: Any, trace: str = TRACE) -> list[dict[str, Any]]:
    """Return the spans of a trace, earliest first."""
    await server.runtime.telemetry.flush()
    answer = await http.get(f"/api/traces/{trace}/skeleton")
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


@pytest.mark.parametrize("name", CALLS)
async def test_a_run_joins_its_callers_trace_and_returns_its_own_context(name: str) -> None:
    path, body, headers = CALLS[name]
    async with thread_server() as (http, server):
        answer = await http.post(path, json=body, headers={**headers, **PARENT})
        spans = await trace_spans(http, server)

    assert answer.headers["x-palaver-trace-id"] == TRACE, answer.text
    match = re.fullmatch(rf"00-{TRACE}-([0-9a-f]{{16}})-01", answer.headers["traceparent"])
    assert match is not None
    assert match[1] != SPAN
    assert [(span["span_id"], span["parent_id"]) for span in spans] == [(match[1], SPAN)]


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_without_trace_context_starts_a_new_trace(name: str) -> None:
    path, body, headers = CALLS[name]
    async with thread_server() as (http, server):
        answer = await http.post(path, json=body, headers=headers)
        spans = await trace_spans(http, server, answer.headers["x-palaver-trace-id"])

    trace, span = answer.headers["traceparent"].split("-")[1:3]
    assert (trace, [(one["span_id"], one["parent_id"]) for one in spans]) == (
        answer.headers["x-palaver-trace-id"],
        [(span, None)],
    )


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_a_turn_in_a_thread_joins_its_callers_trace(accept: str) -> None:
    async with thread_server() as (http, server):
        thread = await new_thread(http)
        answer = await http.post(
            f"/api/threads/{thread}/turns", json={"messages": HELLO}, headers={"accept": accept, **PARENT}
        )
        await server.engine.drain(5)
        spans = await trace_spans(http, server)

    assert answer.status_code in (200, 202), answer.text
    assert answer.headers["x-palaver-trace-id"] == TRACE
    assert answer.headers["traceparent"].startswith(f"00-{TRACE}-")
    assert [span["parent_id"] for span in spans] == [SPAN]


async def test_socket_calls_join_the_trace_of_their_socket_or_request() -> None:
    async with thread_server() as (http, server):
        async with open_tab(server, PARENT, path="/services/echo") as service:
            for number in (1, 2):
                service.send_text({"event": "start", "data": {"content": "Hi"}})
                await wait_until(partial(_has_completed, service, number))
        async with open_tab(server) as page:
            page.send(1, "/echo/invoke", {"messages": HELLO}, **PARENT)
            headers = (await page.wait_ended(1))[0]["headers"]
        spans = await trace_spans(http, server)

    assert [span["parent_id"] for span in spans] == [SPAN] * 3
    assert headers["x-palaver-trace-id"] == TRACE
    assert headers["traceparent"].split("-")[2] in [span["span_id"] for span in spans]


def _has_completed(tab: FakeTab, times: int) -> bool:
    return [message["event"] for message in tab.messages].count("complete") == times


async def test_a_remote_call_between_two_servers_is_one_trace() -> None:
    @chat
    async def behind(messages: list[Message]) -> str:
        return f"You said {messages[-1].text}."

    async with thread_server(behind) as (there, other):
        described = Description(name="front", flags={"is_chat": True, "can_stream": True})
        service = RemoteService(url="http://localhost/behind/invoke", dialect="invoke", description=described)

        async def look() -> RemoteService:
            return service

        remote = RemoteWorkflow(
            service,
            placeholder=described,
            url="http://localhost/behind",
            discover=look,
            headers={},
            timeout=60,
            transport=lambda: in_process_transport(other),
        )
        async with thread_server(remote) as (http, server):
            answer = await http.post("/front/invoke", json={"messages": HELLO}, headers=PARENT)
            front = await trace_spans(http, server)
            back = await trace_spans(there, other)

    assert answer.json()["content"] == "You said Hi."
    [first], [second] = front, back
    assert (first["parent_id"], second["parent_id"]) == (SPAN, first["span_id"])
