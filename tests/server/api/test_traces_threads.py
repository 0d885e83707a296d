"""/api/sessions, sessions as conversations, threads from traces, and export of traces."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import httpx
import msgspec
import pytest
from sqlalchemy import Connection

from palaver.core.api_keys import format_key_id
from palaver.server import auth
from palaver.server.api import sessions, streaming, trace_export
from palaver.server.api.streaming import send_chunks
from palaver.server.api.traces import MAX_SHORTENED_TEXT_CHARS
from palaver.server.auth import ANONYMOUS
from palaver.server.request import ClientDisconnected, Exchange
from palaver.server.response_ends import ResponseEnds
from tests.server.keyed_server import keyed_server
from tests.server.traced_server import chat_span, send_spans, span, span_id, trace_id, traced_server

T = trace_id("t")


def text_message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "text": text}]}


def texts(answer: httpx.Response) -> list[Any]:
    assert answer.status_code == 200, answer.text
    return [
        [step["message"]["parts"][0]["text"] if step["type"] == "message" else step["name"] for step in tab["steps"]]
        for tab in answer.json()["tabs"]
    ]


def session_spans() -> list[Any]:
    return [
        chat_span("a", "Hi", "Hello.", 0, trace="t1", session__id="s-1"),
        chat_span("b", "And?", "Well.", 1, trace="t2", session__id="s-1"),
        chat_span("c", "Hi", "Good day.", 2, trace="t3", session__id="odd/name %"),
    ]


async def test_sessions_are_listed_last_active_first() -> None:
    async with traced_server(*session_spans()) as server:
        first = (await server.http.get("/api/sessions?limit=1")).json()
        rest = (await server.http.get("/api/sessions", params={"after": first["next"]})).json()
        none = (await server.http.get("/api/sessions?from=2999-01-01T00:00:00Z&to=2999-01-02T00:00:00")).json()

    rows = [*first["data"], *rest["data"]]
    assert [(row["session"], row["traces"], row["spans"]) for row in rows] == [("odd/name %", 1, 1), ("s-1", 2, 2)]
    assert rows[1]["first"] < rows[1]["last"]
    assert none == {"data": [], "next": None}


async def test_a_session_shows_its_first_input_and_last_output_and_is_searched_by_name() -> None:
    async with traced_server(*session_spans()) as server:
        matches = (await server.http.get("/api/sessions?search=s-")).json()["data"]
        odd = (await server.http.get("/api/sessions", params={"search": "/name %"})).json()["data"]

    assert [(row["in"]["text"], row["out"]["text"]) for row in matches] == [("Hi", "Well.")]
    assert [row["session"] for row in odd] == ["odd/name %"]


@pytest.mark.parametrize(
    ("question", "history"), [("input", "chat_history"), ("question", "history"), ("content", "history")]
)
async def test_the_question_beside_a_history_is_shown_and_saved(question: str, history: str) -> None:
    earlier = [{"role": "user", "content": "Any snow?"}, {"role": "assistant", "content": "A little."}]
    inputs = json.dumps({question: "And tomorrow?", history: earlier, "lang": "en"})
    chain = span("chain", openinference__span__kind="CHAIN", input__value=inputs, output__value="None.")
    async with traced_server(chain) as server:
        [row] = (await server.http.post("/api/traces/query", json={})).json()["data"]
        conversation = await server.http.get(f"/api/traces/{T}/conversation")
        testset = (await server.http.post("/api/testsets", json={"name": "Snow"})).json()["id"]
        source = {"kind": "trace", "trace_id": T}
        case = await server.http.post(f"/api/testsets/{testset}/rows/from", json={"source": source, "base": 1})

    asked = {"role": "user", "content": "And tomorrow?"}
    assert (row["in"]["text"], row["out"]["text"]) == ("And tomorrow?", "None.")
    assert [
        (step["message"]["role"], step["message"]["parts"][0]["text"]) for step in conversation.json()["steps"]
    ] == [("user", "Any snow?"), ("assistant", "A little."), ("user", "And tomorrow?"), ("assistant", "None.")]
    assert case.json()["data"] == {"messages": [*earlier, asked], "lang": "en", "expected": "None."}


async def test_a_trace_is_shown_as_a_conversation() -> None:
    spans = [
        span("root", 0, gen_ai__operation__name="invoke_agent"),
        span("tool", 1, parent="root", gen_ai__operation__name="execute_tool", gen_ai__tool__name="weather"),
        chat_span("call", "Weather?", "Sunny.", 2, parent="root"),
    ]
    async with traced_server(*spans) as server:
        answer = await server.http.get(f"/api/traces/{T.upper()}/conversation")
        unknown = await server.http.get(f"/api/traces/{trace_id('nobody')}/conversation")

    message_step = {"trace_id": T, "span_id": span_id("call"), "type": "message"}
    assert answer.json() == {
        "trace_id": T,
        "span_id": span_id("call"),
        "steps": [
            message_step | {"message": text_message("user", "Weather?")},
            {
                "type": "tool",
                "trace_id": T,
                "span_id": span_id("tool"),
                "name": "weather",
                "call_id": None,
                "inputs": None,
                "outputs": None,
                "status": "ok",
            },
            message_step | {"message": text_message("assistant", "Sunny.")},
        ],
        "cut": 0,
    }
    assert unknown.status_code == 404


async def test_long_texts_of_a_conversation_are_truncated_unless_whole_is_requested() -> None:
    long = "word " * 80_000
    async with traced_server(chat_span("a", long, "Short.")) as server:
        short = (await server.http.get(f"/api/traces/{T}/conversation")).json()
        full = (await server.http.get(f"/api/traces/{T}/conversation?whole=true")).json()

    def text(conversation: Any, index: int) -> str:
        return conversation["steps"][index]["message"]["parts"][0]["text"]

    assert (text(full, 0), text(full, 1), full["cut"]) == (long, "Short.", 0)
    assert (text(short, 0), text(short, 1)) == (long[:MAX_SHORTENED_TEXT_CHARS], "Short.")
    assert short["cut"] == len(long) - MAX_SHORTENED_TEXT_CHARS


async def test_the_traces_of_a_session_are_joined_into_one_conversation() -> None:
    async with traced_server(*session_spans()) as server:
        answer = await server.http.get("/api/sessions/s-1/thread")
        odd = await server.http.get("/api/sessions/thread", params={"session": "odd/name %"})

    assert texts(answer) == [["Hi", "Hello.", "And?", "Well."]]
    assert answer.json()["tabs"][0]["steps"][2] == {
        "type": "message",
        "trace_id": trace_id("t2"),
        "span_id": span_id("b"),
        "message": text_message("user", "And?"),
    }
    assert (answer.json()["session"], answer.json()["traces"], answer.json()["next"]) == ("s-1", 2, None)
    assert texts(odd) == [["Hi", "Good day."]]


async def test_a_branch_names_the_tab_and_step_where_it_starts() -> None:
    spans = [
        chat_span("a", "Hi", "Hello.", 0, trace="t1", session__id="s"),
        chat_span("b", "Hi", "Good day.", 1, trace="t2", session__id="s"),
    ]
    async with traced_server(*spans) as server:
        tabs = (await server.http.get("/api/sessions/s/thread")).json()["tabs"]

        assert [tab["origin"] for tab in tabs] == [None, {"tab": 0, "steps": 1}]


async def test_a_root_without_messages_shows_those_of_its_call_and_its_tools() -> None:
    spans = [
        span("root", 0, gen_ai__operation__name="invoke_agent", session__id="s"),
        span("tool", 1, parent="root", gen_ai__operation__name="execute_tool", gen_ai__tool__name="weather"),
        chat_span("call", "Weather?", "Sunny.", 2, parent="root"),
        chat_span("early", "early", "early", 0, parent="root"),
    ]
    async with traced_server(*spans) as server:
        assert texts(await server.http.get("/api/sessions/s/thread")) == [["Weather?", "weather", "Sunny."]]


async def test_a_long_session_is_paginated(monkeypatch: pytest.MonkeyPatch) -> None:
    spans = [chat_span(f"s{n}", f"q{n}", f"a{n}", n, trace=f"t{n}", session__id="s") for n in range(8)]
    async with traced_server(*spans) as server:
        first = await server.http.get("/api/sessions/s/thread?limit=6")
        rest = await server.http.get("/api/sessions/s/thread", params={"after": first.json()["next"]})
        monkeypatch.setattr(sessions, "MAX_READ_BYTES", 1)
        few = await server.http.get("/api/sessions/s/thread")

    assert [len(tab) for tab in texts(first)] == [12]
    assert texts(rest) == [["q6", "a6", "q7", "a7"]]
    assert (few.json()["traces"], few.json()["next"] is None) == (sessions.DEFAULT_TURN_LIMIT, False)


async def test_a_thread_is_built_from_a_trace_with_its_inputs_and_parameters() -> None:
    attributes: dict[str, Any] = {
        "gen_ai__operation__name": "invoke_workflow",
        "gen_ai__workflow__name": "tutor",
        "palaver__inputs": '{"topic": "sums"}',
        "palaver__parameters": '{"temperature": 0}',
    }
    async with traced_server(
        chat_span("root", "Hi", "Hello.", **attributes), chat_span("call", "x", "y", 1, parent="root")
    ) as server:
        full = await server.http.post(f"/api/traces/{T.upper()}/thread", json={})
        first = await server.http.post(f"/api/traces/{T}/thread", json={"upto": 1})
        of_call = await server.http.post(f"/api/traces/{T}/thread", json={"span_id": span_id("call").upper()})

    assert full.json() == {
        "workflow": "tutor",
        "messages": [text_message("user", "Hi"), text_message("assistant", "Hello.")],
        "inputs": {"topic": "sums"},
        "parameters": {"temperature": 0},
        "tools": [],
    }
    assert first.json()["messages"] == [text_message("user", "Hi")]
    assert of_call.json()["messages"] == [text_message("user", "x"), text_message("assistant", "y")]
    assert of_call.json()["workflow"] == "tutor"


async def test_a_thread_from_a_trace_uses_the_messages_and_tools_of_its_model_call() -> None:
    tools = '[{"type": "function", "name": "weather", "parameters": {}}]'
    spans = [
        span("root", gen_ai__operation__name="invoke_agent", gen_ai__agent__name="guide"),
        chat_span("call", "Hi", "Hello.", 1, parent="root", gen_ai__tool__definitions=tools),
    ]
    async with traced_server(*spans) as server:
        thread = (await server.http.post(f"/api/traces/{T}/thread", json={})).json()

    assert (thread["workflow"], thread["messages"]) == (
        "guide",
        [text_message("user", "Hi"), text_message("assistant", "Hello.")],
    )
    assert [tool["name"] for tool in thread["tools"]] == ["weather"]


@pytest.mark.parametrize(
    ("body", "status"),
    [({"span_id": span_id("nobody")}, 404), ({"upto": -1}, 422), ({"upto": "x"}, 400), ({"span_id": "x" * 65}, 422)],
)
async def test_a_thread_from_an_unknown_span_or_invalid_position_is_rejected(body: dict[str, Any], status: int) -> None:
    async with traced_server(*session_spans()) as server:
        answer = await server.http.post(f"/api/traces/{trace_id('t1')}/thread", json=body)
        unknown = await server.http.post(f"/api/traces/{T}/thread", json={})

        assert (answer.status_code, unknown.status_code) == (status, 404)


# Export


async def test_traces_are_exported_as_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_export, "SPAN_BATCH_SIZE", 2)
    monkeypatch.setattr(trace_export, "TRACE_BATCH_SIZE", 2)
    spans = [chat_span("a", "Hi", "Hello."), *(span(f"s{n}", n, parent="a") for n in range(4)), *session_spans()]
    async with traced_server(*spans) as server:
        answer = await server.http.get("/api/traces/export")
        one = await server.http.get("/api/traces/export", params={"trace": T.upper(), "format": "jsonl"})
        none = await server.http.get("/api/traces/export?from=2999-01-01T00:00:00Z")

    records = [msgspec.json.decode(line) for line in answer.text.splitlines()]
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert sorted(record["name"] for record in records) == ["a", "a", "b", "c", "s0", "s1", "s2", "s3"]
    assert [msgspec.json.decode(line)["name"] for line in one.text.splitlines()] == ["a", "s0", "s1", "s2", "s3"]
    assert (none.status_code, none.text) == (200, "")


async def test_an_otlp_export_can_be_ingested_again_with_equal_records() -> None:
    async with (
        traced_server(*session_spans(), chat_span("x", "1", "2", 3, odd=[1, {"a": True}])) as server,
        traced_server() as other,
    ):
        lines = (await server.http.get("/api/traces/export?format=otlp")).content.splitlines()
        for line in lines:
            answer = await other.http.post("/v1/traces", content=line, headers={"content-type": "application/json"})
            assert (answer.status_code, answer.json()) == (200, {})
        before, after = [
            (await one.http.get("/api/traces/export?format=jsonl")).text.splitlines() for one in (server, other)
        ]

        assert len(before) == 4
        assert before == after


@pytest.mark.parametrize("query", ["format=csv", "filter={", "from=x"])
async def test_an_invalid_export_request_is_rejected(query: str) -> None:
    async with traced_server() as server:
        assert (await server.http.get(f"/api/traces/export?{query}")).status_code == 400


class ExportMonitor:
    """Records how the next export ends: "complete", "disconnected", or "aborted" by the server."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        monkeypatch.setattr(streaming, "send_chunks", self._send_chunks)

    async def wait_ended(self) -> str:
        return await asyncio.wait_for(self._ended, 20)

    async def _send_chunks(self, exchange: Exchange, *arguments: Any) -> None:
        final_chunks: list[Any] = []
        original_send = exchange.send

        async def send(message: Any) -> None:
            if not message.get("more_body", True):
                final_chunks.append(message)
            await original_send(message)

        exchange.send = send
        try:
            await send_chunks(exchange, *arguments)
        except ClientDisconnected:  # There is no socket that could be aborted.
            self._ended.set_result("aborted")
            raise
        self._ended.set_result("complete" if final_chunks else "disconnected")


async def test_an_export_ends_when_its_api_key_is_revoked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_export, "TRACE_BATCH_SIZE", 1)
    monkeypatch.setattr(auth, "_WATCH_INTERVAL_S", 0.01)
    async with keyed_server(rate_per_minute=0) as server:
        _, by_admin = await server.create_key()
        key, header = await server.create_key()
        await send_spans(server.http, *session_spans(), header=header)
        complete = await server.http.get("/api/traces/export", headers=header)
        export = ExportMonitor(monkeypatch)

        # The client reads nothing, so that the export waits with its second trace.
        async with server.http.stream("GET", "/api/traces/export", headers=header) as started:
            revoked = await server.http.delete(f"/api/keys/{format_key_id(key.id)}", headers=by_admin)
            end = await export.wait_ended()

        assert (len(complete.text.splitlines()), started.status_code) == (3, 200)
        assert (revoked.status_code, end) == (204, "aborted")


def stalled_exchange() -> Exchange:
    """The request of a client that neither reads the body of its response nor disconnects."""

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            await asyncio.sleep(60)

    async def receive() -> dict[str, str]:
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    exchange = Exchange({"type": "http", "method": "GET", "path": "/", "headers": []}, receive, send)
    exchange.caller = ANONYMOUS
    return exchange


async def second_chunk() -> AsyncGenerator[bytes]:
    yield b"second"


async def test_sending_to_a_stalled_reader_times_out() -> None:
    with pytest.raises(TimeoutError):
        await streaming.send_chunks(stalled_exchange(), b"first", second_chunk(), 0.01, ())


async def test_the_connection_of_a_revoked_key_is_aborted() -> None:
    aborted: list[str] = []

    class Writer:
        def abort(self) -> None:
            aborted.append("aborted")

    class RevokedKeys:
        @contextmanager
        def watch(self, _: Any, on_revoked: Callable[[], object]) -> Iterator[None]:
            asyncio.get_running_loop().call_later(0.01, on_revoked)
            yield

    exchange, writer, authenticator = stalled_exchange(), cast("Any", Writer()), cast("Any", RevokedKeys())
    exchange.writer, exchange.response_ends = writer, ResponseEnds(authenticator)
    await streaming.send_chunks(exchange, b"first", second_chunk(), 60, ())

    assert aborted == ["aborted"]


async def test_an_export_stops_reading_after_the_client_disconnects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_export, "TRACE_BATCH_SIZE", 1)
    traces_read: list[str] = []
    original = trace_export.export_page

    def counted(db: Connection, project: str, trace: str, *more: Any) -> tuple[bytes, str | None]:
        traces_read.append(trace)
        return original(db, project, trace, *more)

    monkeypatch.setattr(trace_export, "export_page", counted)
    export = ExportMonitor(monkeypatch)
    async with traced_server(*(span(str(n), n, trace=f"t{n}") for n in range(30))) as server:
        async with server.http.stream("GET", "/api/traces/export") as answer:
            async for _ in answer.aiter_lines():
                break
        end = await export.wait_ended()

    assert end == "disconnected"
    assert len(traces_read) <= 5  # The trace that the client read, and those read ahead.


async def test_postgresql_and_sqlite_answer_the_same(postgres_url: str) -> None:
    spans = [*session_spans(), span("tool", 0.5, trace="t1", parent="a", gen_ai__operation__name="execute_tool")]
    paths = [
        "/api/traces",
        "/api/traces?search=hello",
        f"/api/traces/{trace_id('t1')}",
        f"/api/traces/{trace_id('t1')}/tree",
        f"/api/traces/{trace_id('t1')}/skeleton",
        f"/api/spans/{trace_id('t1')}/{span_id('a')}",
        "/api/traces/stats?group=kind",
        "/api/sessions",
        "/api/sessions?search=s-",
        "/api/sessions/s-1/thread",
        f"/api/traces/{trace_id('t1')}/conversation",
        "/api/traces/export",
    ]
    query = {"filter": {"attribute": "session.id", "op": "eq", "value": "s-1"}}
    async with traced_server(*spans) as one, traced_server(*spans, url=postgres_url) as other:
        for path in paths:
            first, second = await one.http.get(path), await other.http.get(path)
            bodies = [answer.text if path.endswith("export") else answer.json() for answer in (first, second)]
            assert (first.status_code, bodies[1]) == (200, bodies[0]), path
        both = [await server.http.post("/api/spans/query", json=query) for server in (one, other)]
        assert both[0].json() == both[1].json()
        assert len(both[0].json()["data"]) == 2
