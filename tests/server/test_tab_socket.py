"""One WebSocket for all requests of a tab, in process."""

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from palaver import Message, chat
from palaver.discovery.registry import Registry
from palaver.server import auth
from palaver.server.app import Server
from palaver.server.settings import Settings
from palaver.server.tab_socket import socket
from palaver.server.tab_socket.outbox import MAX_PENDING_BYTES
from palaver.server.tab_socket.socket import MAX_OPEN_REQUESTS
from palaver.storage import api_keys
from palaver.testing import echo, in_process_transport, scripted
from tests.server.fake_tab import FakeConnection, FakeTab, open_tab, wait_until
from tests.server.keyed_server import keyed_server

ENDLESS_SCRIPT = [{"text": "begin "}, {"sleep": 600}]


def script_body(*script: Any) -> dict[str, Any]:
    return {"input": "go", "stream": True, "custom_inputs": {"script": list(script)}}


produced_chunks: list[int] = []


@chat(on_disconnect="finish")
async def torrent(messages: list[Message]) -> AsyncIterator[str]:
    """Produces more than the client reads."""
    produced_chunks.clear()
    for number in range(400):
        produced_chunks.append(number)
        yield "x" * 4096
        await asyncio.sleep(0)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    running = Server(Registry([echo, scripted, torrent]), Settings(stream_stall=60))
    await running.rest_api.get()
    yield running
    await running.engine.drain(0)
    await running.close()


async def test_a_socket_request_gets_the_same_answer_as_over_http(server: Server) -> None:
    async with httpx.AsyncClient(transport=in_process_transport(server), base_url="http://localhost") as http:
        plain = await http.get("/api/workflows/echo")
    async with open_tab(server) as tab:
        tab.send(1, "/api/workflows/echo")
        head, data, end = await tab.wait_ended(1)
        tab.send(1, "/api/workflows/echo", if_none_match=plain.headers["etag"])
        await wait_until(lambda: len(tab.messages) == 5)

    assert (head["status"], head["headers"]["etag"], data["data"]) == (200, plain.headers["etag"], plain.text)
    assert end == {"id": 1, "end": True}
    assert (tab.messages[3]["status"], tab.messages[4]) == (304, {"id": 1, "end": True})


async def test_many_responses_stream_concurrently_and_each_can_be_aborted(server: Server) -> None:
    async with open_tab(server) as tab:
        for number in range(6):
            tab.send(number, "/scripted/invocations", script_body(*ENDLESS_SCRIPT))
        await wait_until(lambda: all("begin " in tab.text(number) for number in range(6)))
        assert server.engine.active_count == 6
        tab.abort(3)
        await wait_until(lambda: server.engine.active_count == 5, 5)
        tab.send(3, "/health")  # The number is free at once.
        await tab.wait_ended(3)
        tab.disconnect()
        await wait_until(lambda: server.engine.active_count == 0, 5)

    assert not tab.is_ended(2)


async def test_application_errors_are_sent_as_responses(server: Server) -> None:
    async with open_tab(server) as tab:
        for number, path in enumerate(["/nothing", "/api//workflows", "/api/%77orkflows", "/api/socket"]):
            tab.send(number, path)
            await tab.wait_ended(number)
        tab.send(9, "/echo/invoke", "no object")
        tab.send_text({"id": 10, "path": "/echo/invoke", "method": "POST", "body": "{}"})
        await tab.wait_ended(9)
        await tab.wait_ended(10)

    statuses = {message["id"]: message["status"] for message in tab.messages if "status" in message}
    assert statuses == {0: 404, 1: 400, 2: 400, 3: 404, 9: 400, 10: 415}


async def test_invalid_requests_get_an_error_message(server: Server) -> None:
    async with open_tab(server) as tab:
        tab.send_text("nope")
        tab.send_text({"id": 5, "path": 5})
        tab.send_text({"id": 6, "path": "/api/session"})
        tab._incoming.put_nowait({"type": "websocket.receive", "bytes": b"{}"})
        tab.abort(77)  # It may have ended on the way.
        tab.send(7, "/health")
        await tab.wait_ended(7)

    errors = [(message["id"], message["error"]["code"]) for message in tab.messages if "error" in message]
    assert errors == [(None, "invalid_json"), (5, "invalid_value"), (6, "misplaced_field"), (None, "invalid_json")]
    assert tab.closed is None


async def test_reusing_the_id_of_an_open_request_closes_the_socket(server: Server) -> None:
    async with open_tab(server) as tab:
        tab.send(7, "/scripted/invocations", script_body(*ENDLESS_SCRIPT))
        tab.send(7, "/health")
        await wait_until(lambda: tab.closed is not None)
        await wait_until(lambda: server.engine.active_count == 0, 5)

    assert tab.closed == (1002, "request 7 is already open")


async def test_requests_beyond_the_open_request_limit_are_rejected(server: Server) -> None:
    async with open_tab(server) as tab:
        for number in range(MAX_OPEN_REQUESTS):
            tab.send(number, "/scripted/invocations", script_body(*ENDLESS_SCRIPT))
        await wait_until(lambda: server.engine.active_count == MAX_OPEN_REQUESTS)
        tab.send(MAX_OPEN_REQUESTS, "/health")
        (refused,) = await tab.wait_ended(MAX_OPEN_REQUESTS)
        tab.abort(0)
        tab.send(MAX_OPEN_REQUESTS + 1, "/health")
        answered = await tab.wait_ended(MAX_OPEN_REQUESTS + 1)

    assert refused["error"]["code"] == "rate_limited"
    assert answered[0]["status"] == 200


async def test_unread_responses_count_as_open_requests(server: Server) -> None:
    async with open_tab(server) as tab:
        tab.can_read.clear()
        for number in range(MAX_OPEN_REQUESTS + 40):
            tab.send(number, "/health")
        await asyncio.sleep(0.2)
        tab.can_read.set()
        for number in range(MAX_OPEN_REQUESTS + 40):
            await tab.wait_ended(number)

    refused = [message["id"] for message in tab.messages if "error" in message]
    assert len(refused) >= 35


async def test_the_server_stops_reading_from_a_client_that_does_not_read(server: Server) -> None:
    async with open_tab(server) as tab:
        tab.can_read.clear()
        for _ in range(1_000):
            tab.send_text("nope")
        await asyncio.sleep(0.1)
        unread = tab._incoming.qsize()
        tab.can_read.set()
        await wait_until(lambda: len(tab.messages) == 1_000)

    assert unread > 800


async def test_a_slow_reader_causes_backpressure_and_loses_no_data(server: Server) -> None:
    async with open_tab(server) as tab:
        tab.can_read.clear()
        tab.send(1, "/torrent/invocations", {"input": "go", "stream": True})
        tab.send(2, "/scripted/invocations", script_body({"text": "quiet"}))
        await wait_until(lambda: server.engine.active_count >= 1)
        await asyncio.sleep(0.3)
        produced = len(produced_chunks)
        tab.can_read.set()
        await tab.wait_ended(2)
        behind = len(tab.text(1))
        await tab.wait_ended(1, 60)

    assert produced < 100  # The workflow waits for its reader.
    assert max(tab.sizes) < 4 * MAX_PENDING_BYTES
    assert behind < len(tab.text(1)) / 4  # The other response did not wait for all of it.
    assert tab.text(1).count("x" * 4096) >= 400


async def test_a_client_that_never_reads_is_abandoned_and_its_run_finishes() -> None:
    server = Server(Registry([torrent]), Settings(stream_stall=0.2))
    await server.rest_api.get()
    async with open_tab(server) as tab:
        tab.can_read.clear()
        tab.send(1, "/torrent/invocations", {"input": "go", "stream": True})
        await wait_until(lambda: server.engine.active_count == 1)
        await wait_until(lambda: server.engine.active_count == 0)  # Its author lets it finish.
    await server.close()

    assert tab.messages == []


async def test_a_chunk_may_end_in_the_middle_of_a_character(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        for byte in "Grüße, 世界 👋".encode():
            await send({"type": "http.response.body", "body": bytes([byte]), "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b""})

    monkeypatch.setattr(server.rest_api, "_app", answer)
    async with open_tab(server) as tab:
        tab.send(1, "/api/workflows")
        await tab.wait_ended(1)

    assert tab.text(1) == "Grüße, 世界 👋"


async def test_an_interrupted_response_ends_with_an_error_message(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def breaks(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise RuntimeError("broken")

    monkeypatch.setattr(server.rest_api, "_app", breaks)
    with caplog.at_level(logging.CRITICAL, "palaver.server"):
        async with open_tab(server) as tab:
            tab.send(1, "/api/workflows")
            _, data, error = await tab.wait_ended(1)

    assert data == {"id": 1, "data": "half"}
    assert error == {"id": 1, "error": {"code": "interrupted", "message": "The response was interrupted."}}


async def test_a_tab_is_notified_of_changes_by_other_tabs(server: Server) -> None:
    async with open_tab(server) as tab, open_tab(server) as other:
        tab.send(1, "/api/threads", {"workflow": "scripted", "title": "T"})
        await tab.wait_ended(1)
        thread = tab.messages_of(1)[0]["headers"]["location"].rpartition("/")[2]
        await wait_until(lambda: {"changed": "thread", "ref": thread} in other.changed)
        tab.send(2, f"/api/threads/{thread}/turns", {"messages": [{"role": "user", "content": "Hi"}]})
        await tab.wait_ended(2)
        run = next(one["run"] for one in await changes_of(other, "thread", thread) if "run" in one)
        await wait_until(lambda: {"changed": "run", "ref": run} in other.changed)

    assert all(one.keys() <= {"changed", "ref", "run"} for one in (*tab.changed, *other.changed))


async def changes_of(tab: FakeTab, kind: str, ref: str) -> list[Any]:
    def matching() -> list[Any]:
        return [change for change in tab.changed if (change["changed"], change["ref"]) == (kind, ref)]

    await wait_until(lambda: any("run" in change for change in matching()))
    return matching()


async def test_a_tab_is_notified_of_cell_runs_and_feedback(server: Server) -> None:
    grid = {"mode": "single", "columns": [{"id": "c", "workflow": "echo"}], "rows": [{"id": "r", "inputs": {"a": 1}}]}
    async with open_tab(server) as tab:
        tab.send(1, "/api/boards", grid)
        await tab.wait_ended(1)
        board = tab.messages_of(1)[0]["headers"]["location"].rpartition("/")[2]
        tab.send(2, f"/api/boards/{board}/run", {"cells": "all"})
        await tab.wait_ended(2)
        run = next(one["run"] for one in await changes_of(tab, "board", board) if "run" in one)
        await wait_until(lambda: {"changed": "run", "ref": run} in tab.changed)
        tab.changed.clear()
        tab.send(3, f"/api/runs/{run}/feedback", {"rating": "up"}, method="PUT")
        await tab.wait_ended(3)
        await wait_until(lambda: {"changed": "run", "ref": run} in tab.changed)

    assert tab.messages_of(3)[0]["status"] == 200


async def test_changes_are_not_sent_to_other_projects() -> None:
    async with keyed_server() as backend:
        _, mine = await backend.create_key(project="mine")
        _, theirs = await backend.create_key(project="theirs")
        async with open_tab(backend.server, mine) as tab, open_tab(backend.server, theirs) as other:
            tab.send(1, "/api/threads", {"workflow": "echo"})
            await tab.wait_ended(1)
            await wait_until(lambda: tab.changed)
            other.send(1, "/api/threads")
            await other.wait_ended(1)

    assert other.changed == []
    assert other.text(1) == '{"data":[],"next":null}'


# Shutdown and disconnects


async def test_a_stopping_server_closes_an_idle_socket(server: Server) -> None:
    connection = FakeConnection()
    async with open_tab(server, connection=connection) as tab:
        tab.send(1, "/health")
        await tab.wait_ended(1)
        assert connection.on_shutdown is not None
        connection.on_shutdown()
        connection.on_shutdown()
        await wait_until(lambda: tab.closed)

    assert tab.closed == (1012, "server shutting down")
    assert connection.on_shutdown is None


async def test_a_stopping_server_finishes_open_requests_and_rejects_new_ones(server: Server) -> None:
    connection = FakeConnection()
    async with open_tab(server, connection=connection) as tab:
        tab.send(1, "/scripted/invocations", script_body({"text": "begin "}, {"sleep": 0.3}, {"text": "end"}))
        tab.send(2, "/scripted/invocations", script_body(*ENDLESS_SCRIPT))
        await wait_until(lambda: "begin " in tab.text(1) and "begin " in tab.text(2))
        assert connection.on_shutdown is not None
        connection.on_shutdown()
        tab.send(3, "/health")
        (refused,) = await tab.wait_ended(3)
        await tab.wait_ended(1)
        still_open = tab.closed
        tab.abort(2)
        await wait_until(lambda: tab.closed)

    assert refused["error"]["code"] == "shutting_down"
    assert "response.completed" in tab.text(1)
    assert (still_open, tab.closed) == (None, (1012, "server shutting down"))


async def test_the_connection_of_a_client_that_never_reads_is_aborted() -> None:
    server = Server(Registry([torrent]), Settings(stream_stall=0.2))
    await server.rest_api.get()
    connection = FakeConnection()
    async with open_tab(server, connection=connection) as tab:
        tab.can_read.clear()
        tab.send(1, "/torrent/invocations", {"input": "go", "stream": True})
        await wait_until(lambda: connection.aborted)
        await wait_until(lambda: server.engine.active_count == 0)
    await server.close()


async def test_a_close_that_the_client_does_not_read_aborts_the_connection(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "_CLOSE_TIMEOUT_S", 0.05)
    connection = FakeConnection()
    async with open_tab(server, connection=connection) as tab:
        tab.send(7, "/scripted/invocations", script_body(*ENDLESS_SCRIPT))
        await wait_until(lambda: "begin " in tab.text(7))
        tab.can_read.clear()
        tab.send(7, "/health")
        await wait_until(lambda: connection.aborted)
        await wait_until(lambda: server.engine.active_count == 0, 5)


@pytest.mark.parametrize("fault", [OSError(), RuntimeError()])
async def test_send_errors_of_a_disconnected_client_end_its_runs(server: Server, fault: Exception) -> None:
    async with open_tab(server) as tab:
        tab.send(7, "/scripted/invocations", script_body(*ENDLESS_SCRIPT))
        await wait_until(lambda: "begin " in tab.text(7))
        tab.fault = fault
        tab.send(8, "/health")
        tab.send(7, "/health")  # This would close a healthy socket.
        await asyncio.sleep(0.05)
        tab.disconnect()
        await wait_until(lambda: server.engine.active_count == 0, 5)


async def test_an_error_while_reading_ends_the_socket_and_its_runs(server: Server) -> None:
    async def break_it() -> None:
        async with open_tab(server) as tab:
            tab.send(1, "/scripted/invocations", script_body(*ENDLESS_SCRIPT))
            await wait_until(lambda: "begin " in tab.text(1))
            tab._incoming.put_nowait({})
            await wait_until(lambda: server.engine.active_count == 0, 5)

    with pytest.raises(KeyError):
        await break_it()


# Authorization


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"host": "evil.example"}, 421, "wrong_host"),
        ({"origin": "https://evil.example"}, 403, "foreign_origin"),
        ({"origin": "null"}, 403, "foreign_origin"),
        ({"sec-fetch-site": "cross-site"}, 403, "foreign_origin"),
    ],
)
async def test_a_foreign_host_or_origin_cannot_open_a_socket(
    server: Server, headers: dict[str, str], status: int, code: str
) -> None:
    async with open_tab(server, headers) as tab:
        await wait_until(lambda: tab.refused)

    assert tab.refused is not None
    assert (tab.refused[0], tab.refused[1]["error"]["code"]) == (status, code)


@pytest.mark.parametrize(
    "path", ["/", "/api/sockets", "/api/socket/x", "/services/echo/stream", "/api//socket", "/api/socket."]
)
async def test_a_handshake_on_another_path_is_not_found(server: Server, path: str) -> None:
    async with open_tab(server, path=path) as tab:
        await wait_until(lambda: tab.refused)

    assert tab.refused is not None
    assert (tab.refused[0], tab.refused[1]["error"]["code"]) == (404, "not_found")


async def test_a_server_that_cannot_answer_a_handshake_closes_it(server: Server) -> None:
    async with open_tab(server, path="/nothing", can_refuse=False) as tab:
        await wait_until(lambda: tab.closed)

    assert tab.closed == (1008, "")


async def test_a_page_of_the_same_origin_can_open_a_socket(server: Server) -> None:
    async with open_tab(server, {"origin": "http://localhost"}, path="/api/socket/") as tab:
        tab.send(1, "/echo/invoke", {"inputs": {}})  # Sent with its origin, which is checked for each request, too.
        await tab.wait_ended(1)

    assert tab.messages_of(1)[0]["status"] == 200


async def test_a_socket_and_its_requests_need_a_key_with_the_right_scope() -> None:
    async with keyed_server() as backend:
        _, reads = await backend.create_key("read")
        _, invokes = await backend.create_key("invoke")
        refusals: list[tuple[int, str]] = []
        for headers in ({}, {"authorization": "Bearer plv_no"}, invokes):
            async with open_tab(backend.server, headers) as tab:
                await wait_until(lambda: tab.refused)
                assert tab.refused is not None
                refusals.append((tab.refused[0], tab.refused[1]["error"]["code"]))
        async with open_tab(backend.server, reads) as tab:
            tab.send(1, "/api/workflows")
            tab.send(2, "/echo/invoke", {})
            tab.send(3, "/api/keys", authorization=invokes["authorization"], x_api_key="plv_x")
            for number in (1, 2, 3):
                await tab.wait_ended(number)

    assert refusals == [(401, "unauthorized"), (401, "unauthorized"), (403, "missing_scope")]
    assert [tab.messages_of(number)[0]["status"] for number in (1, 2, 3)] == [200, 403, 403]


async def test_a_session_cookie_can_open_a_socket() -> None:
    async with keyed_server() as backend:
        _, header = await backend.create_key("read")
        secret = header["authorization"].removeprefix("Bearer ")
        logged_in = await backend.http.post("/api/session", json={"key": secret})
        cookie = logged_in.headers["set-cookie"].partition(";")[0]
        async with open_tab(backend.server, {"cookie": cookie}) as tab:
            tab.send(1, "/api/workflows")
            await tab.wait_ended(1)

    assert tab.messages_of(1)[0]["status"] == 200


async def test_revoking_a_key_closes_its_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "_WATCH_INTERVAL_S", 0.05)
    async with keyed_server() as backend:
        key, header = await backend.create_key("read", "invoke")
        _, other_header = await backend.create_key("read")
        async with open_tab(backend.server, header) as tab, open_tab(backend.server, other_header) as other:
            tab.send(1, "/scripted/invocations", script_body(*ENDLESS_SCRIPT))
            await wait_until(lambda: "begin " in tab.text(1))
            await backend.database.write(api_keys.revoke_key, key.project, key.id, at=datetime.now(UTC))
            backend.server.authenticator.invalidate(key.id)
            await wait_until(lambda: tab.closed, 5)
            await wait_until(lambda: backend.server.engine.active_count == 0, 5)
            other.send(1, "/health")
            await other.wait_ended(1)

    assert tab.closed == (1008, "unauthorized")


async def test_requests_on_a_socket_count_towards_the_rate_limit() -> None:
    async with keyed_server(rate_per_minute=5) as backend:
        _, header = await backend.create_key("read")
        async with open_tab(backend.server, header) as tab:
            for number in range(6):
                tab.send(number, "/api/about")
                await tab.wait_ended(number)

    statuses = [tab.messages_of(number)[0]["status"] for number in range(6)]
    assert statuses == [200, 200, 200, 200, 429, 429]


async def test_the_sockets_of_a_key_are_limited() -> None:
    async with keyed_server(max_streams=2) as backend:
        _, header = await backend.create_key("read")
        async with open_tab(backend.server, header) as one, open_tab(backend.server, header) as two:
            for tab in (one, two):
                tab.send(1, "/health")
                await tab.wait_ended(1)
            async with open_tab(backend.server, header) as third:
                await wait_until(lambda: third.refused)
        async with open_tab(backend.server, header) as later:
            later.send(1, "/health")
            await later.wait_ended(1)

    assert third.refused is not None
    assert (third.refused[0], third.refused[1]["error"]["code"]) == (429, "rate_limited")


async def test_a_socket_and_its_requests_are_logged(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "palaver.access")
    async with open_tab(server) as tab:
        tab.send(1, "/health?secret=1")
        await tab.wait_ended(1)
    async with open_tab(server, path="/nothing") as refused:
        await wait_until(lambda: refused.refused)
    await wait_until(lambda: len(caplog.records) >= 3)

    lines = {record.getMessage().rsplit("  ", 1)[0] for record in caplog.records}
    assert lines == {"GET /health  200", "GET /api/socket  101", "GET /nothing  404"}
