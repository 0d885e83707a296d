"""/api/runs: runs of every protocol are listed, shown, followed and cancelled."""

import asyncio
from typing import Any

import httpx
import pytest

from palaver.server.app import Server
from tests.server.keyed_server import keyed_server
from tests.server.thread_client import (
    events,
    new_thread,
    problem,
    release,
    take_turn,
    thread_server,
    wait_for_run,
    wait_for_start,
)


async def create_response(http: httpx.AsyncClient, text: str, name: str = "echo", **more: Any) -> str:
    """Make a Responses call and return its run id."""
    answer = await http.post(f"/{name}/v1/responses", json={"input": text, **more})
    assert answer.status_code == 200, answer.text
    return answer.headers["x-palaver-run-id"]


async def list_run_ids(http: httpx.AsyncClient, **query: Any) -> list[str]:
    answer = await http.get("/api/runs", params=query)
    assert answer.status_code == 200, answer.text
    return [run["id"] for run in answer.json()["data"]]


async def test_a_run_is_shown_without_input_and_reply_unless_included() -> None:
    async with thread_server() as (http, _):
        run = await create_response(http, "hi", instructions="Be short.", parameters={"style": "loud"})

        plain = (await http.get(f"/api/runs/{run}")).json()
        full = (await http.get(f"/api/runs/{run}", params={"include": "input,reply"})).json()

        times = [plain.pop(name) for name in ("created_at", "started_at", "first_output_at", "ended_at")]
        assert times == sorted(times)
        assert plain.pop("in")["text"] == "hi"
        assert plain.pop("out")["text"].startswith("loud(")
        assert len(plain.pop("trace_id")) == 32
        assert len(plain.pop("session")) == 32
        assert plain == {
            "id": run,
            "workflow": "echo",
            "variant": None,
            "status": "finished",
            "finish": "stop",
            "error": None,
            "protocol": "responses",
            "background": False,
            "thread": None,
            "answers": None,
            "board": None,
            "user": None,
            "key": None,
            "seq": 4,
            "readers": 0,
            "usage": None,
            "cost": None,
        }
        messages = [[message["role"], message["parts"][0]["text"]] for message in full["input"]["messages"]]
        assert messages[-1] == ["user", "hi"]
        assert messages[0][1] == "Be short."
        assert full["input"]["parameters"] == {"style": "loud"}
        (reply,) = full["reply"]["messages"]
        assert reply["parts"][0]["text"].endswith("user: hi)")


async def test_the_reply_of_a_workflow_that_is_not_a_chat_is_its_value() -> None:
    async with thread_server() as (http, _):
        answer = await http.post("/shout/invoke", json={"data": {"inputs": {"text": "hi"}}})
        run = answer.json()["meta"]["run_id"]

        full = (await http.get(f"/api/runs/{run}", params={"include": "reply, input"})).json()

        assert full["reply"] == {"messages": [], "value": "HI"}
        assert full["input"] == {"messages": [], "inputs": {"text": "hi"}, "parameters": {}}


async def test_a_run_with_a_matching_etag_is_304() -> None:
    async with thread_server() as (http, _):
        run = await create_response(http, "hi")
        first = await http.get(f"/api/runs/{run}")

        again = await http.get(f"/api/runs/{run}", headers={"if-none-match": first.headers["etag"]})

        assert (again.status_code, again.content) == (304, b"")


async def test_unknown_runs_and_invalid_parameters_are_rejected() -> None:
    async with thread_server() as (http, _):
        run = await create_response(http, "hi")

        assert problem(await http.get("/api/runs/run_none")) == (404, "run_not_found", None)
        assert problem(await http.get("/api/runs/run_none/events")) == (404, "run_not_found", None)
        assert problem(await http.post("/api/runs/run_none/cancel")) == (404, "run_not_found", None)
        assert problem(await http.get(f"/api/runs/{run}?include=all")) == (400, "invalid_value", "?include")
        assert problem(await http.get(f"/api/runs/{run}/events?after=x")) == (400, "invalid_value", "?after")
        bad = await http.get(f"/api/runs/{run}/events", headers={"last-event-id": "x"})
        assert problem(bad) == (400, "invalid_value", None)
        assert problem(await http.get("/api/runs?status=done")) == (400, "invalid_value", "?status")
        assert problem(await http.get("/api/runs?from=yesterday")) == (400, "invalid_value", "?from")
        assert problem(await http.get("/api/runs?after=x")) == (400, "invalid_value", "?after")


# The list


async def test_runs_are_listed_newest_first_in_pages() -> None:
    async with thread_server() as (http, _):
        made = sorted(
            [await create_response(http, text) for text in ("a", "b", "c")]
        )  # Within a millisecond they have no order.

        first = (await http.get("/api/runs", params={"limit": 2})).json()
        second = (await http.get("/api/runs", params={"limit": 2, "after": first["next"]})).json()
        other_list = await http.get("/api/runs", params={"limit": 2, "after": first["next"], "workflow": "echo"})

        assert [run["id"] for run in first["data"]] == made[:0:-1]
        assert [run["id"] for run in second["data"]] == made[:1]
        assert second["next"] is None
        assert problem(other_list) == (400, "invalid_value", "?after")
        assert "input" not in first["data"][0]


async def test_runs_are_filtered_by_their_properties() -> None:
    async with thread_server() as (http, _):
        plain = await create_response(http, "Find ME 100%", safety_identifier="ann")
        thread = await new_thread(http, "broken")
        failed = (await wait_for_run(http, (await take_turn(http, thread, "b"))["run"]["id"]))["id"]
        made_at = (await http.get(f"/api/runs/{failed}")).json()["created_at"]

        assert await list_run_ids(http) == [failed, plain]
        assert await list_run_ids(http, workflow="broken") == [failed]
        assert await list_run_ids(http, status="failed") == [failed]
        assert await list_run_ids(http, status="running") == []
        assert await list_run_ids(http, protocol="responses") == [plain]
        assert await list_run_ids(http, thread=thread) == [failed]
        assert await list_run_ids(http, user="ann") == [plain]
        assert await list_run_ids(http, search="find me 100%") == [plain]
        assert await list_run_ids(http, search="find_me") == []
        assert await list_run_ids(http, **{"from": made_at}) == [failed]
        assert await list_run_ids(http, to=made_at) == [plain]
        assert await list_run_ids(http, **{"from": "0001-01-01T00:00:00"}, to="9999-12-31T23:59:59.999999Z") == [
            failed,
            plain,
        ]
        assert await list_run_ids(http, board="brd_1") == []
        assert await list_run_ids(http, evaluation="ev_1") == []
        assert await list_run_ids(http, key="key_ab12cd34") == []
        assert await list_run_ids(http, key="nonsense") == []
        assert await list_run_ids(http, colour="red") == [failed, plain]


async def test_a_running_run_is_listed_with_its_progress() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "slow")
        run = (await take_turn(http, thread, "a"))["run"]["id"]
        await wait_for_start(http, thread)

        (row,) = (await http.get("/api/runs", params={"status": "running"})).json()["data"]

        assert (row["id"], row["seq"], row["ended_at"], row["readers"]) == (run, 2, None, 0)
        release("a")
        await wait_for_run(http, run)


async def test_runs_are_visible_only_in_their_project() -> None:
    async with keyed_server() as backend:
        key, mine = await backend.create_key()
        _, theirs = await backend.create_key(project="team-a")
        answer = await backend.http.post("/echo/v1/responses", json={"input": "hi"}, headers=mine)
        run = answer.headers["x-palaver-run-id"]

        listed = (await backend.http.get("/api/runs", headers=mine, params={"key": f"key_{key.id}"})).json()["data"]

        assert [(row["id"], row["key"]) for row in listed] == [(run, f"key_{key.id}")]
        assert (await backend.http.get("/api/runs", headers=theirs)).json()["data"] == []
        for method, path in (("GET", ""), ("GET", "/events"), ("POST", "/cancel")):
            answer = await backend.http.request(method, f"/api/runs/{run}{path}", headers=theirs)
            assert problem(answer) == (404, "run_not_found", None)


# Events


async def test_run_events_are_numbered_and_can_be_read_from_any_position() -> None:
    async with thread_server() as (http, _):
        run = await create_response(http, "hi")

        full = await http.get(f"/api/runs/{run}/events")
        after = await http.get(f"/api/runs/{run}/events", params={"after": 1})
        resumed = await http.get(f"/api/runs/{run}/events", params={"after": 1}, headers={"last-event-id": "3"})
        nothing = await http.get(f"/api/runs/{run}/events", headers={"last-event-id": "4"})

        all_events = events(full.text)
        assert full.headers["content-type"] == "text/event-stream"
        assert len(full.headers.get_list("x-request-id")) == 1
        assert (
            [number for number, _ in all_events] == [0, 1, 2, 3, 4] == [event.get("seq", 0) for _, event in all_events]
        )
        assert events(after.text) == all_events[2:]
        assert events(resumed.text) == all_events[4:]
        assert (nothing.status_code, nothing.content) == (204, b"")


async def test_run_events_are_streamed_as_they_happen() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "slow")
        run = (await take_turn(http, thread, "a"))["run"]["id"]
        await wait_for_start(http, thread)

        async with http.stream("GET", f"/api/runs/{run}/events") as reading:
            pieces = reading.aiter_text()
            before = [await anext(pieces)]
            release("a")
            rest = [piece async for piece in pieces]

        assert [event["type"] for _, event in events("".join(before))] == ["run-started", "text-started", "text-delta"]
        assert [event["type"] for _, event in events("".join(rest))] == ["text-delta", "text-ended", "run-finished"]


# Cancellation


@pytest.mark.parametrize("route", ["turns", "v1/responses", "api/chat"])
async def test_a_run_started_by_any_route_can_be_cancelled(route: str) -> None:
    async with thread_server() as (http, server):
        reading = await start_slow_run(http, server, route)
        (run,) = await wait_for_running(http)

        cancelled = await http.post(f"/api/runs/{run}/cancel")
        again = await http.post(f"/api/runs/{run}/cancel")

        assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
        assert again.json() == cancelled.json()
        assert cancelled.json()["out"]["text"] == "begin"
        await reading


async def wait_for_running(http: httpx.AsyncClient) -> list[str]:
    """Wait until running runs are listed and return their ids; the list is up to 0.1 s late."""
    async with asyncio.timeout(60):
        while not (listed := await list_run_ids(http, status="running")):  # noqa: ASYNC110 - over HTTP
            await asyncio.sleep(0.01)
    return listed


async def start_slow_run(http: httpx.AsyncClient, server: Server, route: str) -> "asyncio.Future[Any]":
    """Start a slow run and return the task that reads it."""
    parts = [{"type": "text", "text": "a"}]
    match route:
        case "turns":
            thread = await new_thread(http, "slow")
            reading = asyncio.ensure_future(take_turn(http, thread, "a"))
        case "api/chat":
            body = {"id": "c", "messages": [{"id": "u1", "role": "user", "parts": parts}]}
            reading = asyncio.ensure_future(http.post("/slow/api/chat", json=body))
        case _:
            reading = asyncio.ensure_future(http.post("/slow/v1/responses", json={"input": "a"}))
    async with asyncio.timeout(60):
        while not any(len(run.log) > 2 for run in server.engine._active.values()):  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(0.01)
    return reading


async def test_cancelling_a_finished_run_changes_nothing() -> None:
    async with thread_server() as (http, _):
        run = await create_response(http, "hi")

        cancelled = await http.post(f"/api/runs/{run}/cancel")

        assert cancelled.status_code == 200
        assert cancelled.json() == (await http.get(f"/api/runs/{run}")).json()
        assert cancelled.json()["status"] == "finished"


async def test_an_unrecorded_run_has_no_input_reply_or_events() -> None:
    async with thread_server(record="metadata") as (http, _):
        answer = await http.post("/echo/v1/chat/completions", json={"messages": [{"role": "user", "content": "hi"}]})
        run = answer.headers["x-palaver-run-id"]

        full = (await http.get(f"/api/runs/{run}", params={"include": "input,reply"})).json()
        stream = await http.get(f"/api/runs/{run}/events")

        assert (full["status"], full["input"], full["reply"], full["in"]) == ("finished", None, None, None)
        assert (stream.status_code, stream.content) == (200, b"")
