"""/api/bootstrap: the data for the page's first view, bounded in size."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec
import pytest

from palaver import Message
from palaver.core.boards import BoardColumn, BoardRow, Cell, Grid
from palaver.storage import boards
from palaver.storage.boards import Board
from palaver.storage.database import Database
from palaver.storage.threads import repository as threads
from palaver.storage.threads.repository import NewThread
from palaver.workflows.decorators import workflow
from palaver.workflows.workflow import Workflow
from tests.server.keyed_server import KeyedServer, keyed_server

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
LONG_TEXT = "Nobody knows how long this is. " * 40


async def get_bootstrap(backend: KeyedServer, header: dict[str, str] | None = None) -> dict[str, Any]:
    answer = await backend.http.get("/api/bootstrap", headers=header)
    assert answer.status_code == 200, answer.text
    assert len(answer.content) <= 64 * 1024
    return answer.json()


async def test_bootstrap_of_an_empty_server_has_workflows_and_limits_only() -> None:
    async with keyed_server() as backend:
        first = await get_bootstrap(backend)
        listed = (await backend.http.get("/api/workflows")).json()

    rows = first["workflows"].pop("data")
    assert [row.pop("schemas").keys() for row in rows] == [{"inputs", "parameters"}] * 2
    assert rows == listed["data"]
    assert first == {
        "version": "0.1.0",
        "project": "default",
        "credential": {"kind": "loopback", "scopes": ["admin"], "key": None},
        "workflows": {"next": None},
        "board": None,
        "board_id": None,
        "threads": {"data": [], "next": None},
        "pinned": [],
        "running": [],
        "limits": {"file": 20971520, "body": 8388608, "socket": 1048576},
        "features": {"traces": True, "evaluation": True, "tour": False},
    }


async def test_bootstrap_has_the_threads_and_the_last_board_of_the_callers_project() -> None:
    async with keyed_server() as backend:
        key, mine = await backend.create_key("read", "invoke")
        _, theirs = await backend.create_key("read", "invoke", project="other")
        thread = (await backend.http.post("/api/threads", json={"workflow": "echo", "title": "T"}, headers=mine)).json()
        (
            await backend.http.patch(f"/api/threads/{thread['id']}", json={"pinned": True}, headers=mine)
        ).raise_for_status()
        for name in ("first", "last"):
            board = (await backend.http.post("/api/boards", json={"name": name}, headers=mine)).json()
        first, other = await get_bootstrap(backend, mine), await get_bootstrap(backend, theirs)
        rows = (await backend.http.get("/api/threads", headers=mine)).json()

    assert first["credential"] == {"kind": "key", "scopes": ["invoke", "read"], "key": f"key_{key.id}"}
    assert (first["board"], first["board_id"]) == (board, board["id"])
    assert first["threads"] == rows
    assert first["pinned"] == rows["data"]
    assert (other["board"], other["threads"]["data"], other["pinned"], other["running"]) == (None, [], [], [])


async def test_running_runs_are_listed_until_they_end() -> None:
    async with keyed_server() as backend:
        body = {"input": [{"role": "user", "content": "Hi"}], "background": True}
        body["custom_inputs"] = {"script": [{"sleep": 60}]}
        response = (await backend.http.post("/scripted/v1/responses", json=body)).json()
        run = response["id"].replace("resp_", "run_")
        running = (await get_bootstrap(backend))["running"]
        (await backend.http.post(f"/api/runs/{run}/cancel")).raise_for_status()
        ended = (await get_bootstrap(backend))["running"]

    assert (running, ended) == ([run], [])


async def test_a_matching_etag_is_answered_with_304_until_something_changes() -> None:
    async with keyed_server() as backend:
        first = await backend.http.get("/api/bootstrap")
        same = await backend.http.get("/api/bootstrap", headers={"if-none-match": first.headers["etag"]})
        (await backend.http.post("/api/threads", json={"workflow": "echo"})).raise_for_status()
        other = await backend.http.get("/api/bootstrap", headers={"if-none-match": first.headers["etag"]})
        head = await backend.http.head("/api/bootstrap")

    assert (same.status_code, same.content) == (304, b"")
    assert (other.status_code, first.headers["cache-control"]) == (200, "private, no-cache")
    assert (head.status_code, set(head.headers["allow"].split(", "))) == (405, {"GET", "OPTIONS"})


async def test_bootstrap_needs_a_credential_with_the_scope_read() -> None:
    async with keyed_server() as backend:
        _, header = await backend.create_key("invoke")
        refused = [(await backend.http.get("/api/bootstrap", headers=h)).status_code for h in ({}, header)]

    assert refused == [401, 403]


def wide(number: int) -> Workflow:
    @workflow(name=f"wide_{number:03}", description=LONG_TEXT * 3)
    def wide(text: str) -> str:
        return text

    schemas = msgspec.structs.replace(
        wide.description.schemas, inputs={"type": "object", "properties": {"text": {"description": LONG_TEXT * 5}}}
    )
    wide.description = msgspec.structs.replace(wide.description, schemas=schemas)
    return wide


async def test_many_workflows_are_cut_to_the_size_limit_and_continue_at_the_cursor() -> None:
    async with keyed_server() as backend:
        backend.server.registry._workflows.clear()
        for number in range(60):
            backend.server.registry.add(wide(number))
        first = await get_bootstrap(backend)
        rest = (await backend.http.get("/api/workflows", params={"after": first["workflows"]["next"]})).json()

    rows = first["workflows"]["data"]
    names = [row["name"] for row in rows]
    assert names == [f"wide_{number:03}" for number in range(len(names))]
    assert rest["data"][0]["name"] == f"wide_{len(names):03}"
    assert len(names) > 10
    assert all(len(row["description"]) == 1000 for row in rows)
    assert "schemas" in rows[0]
    assert "schemas" not in rows[-1]


async def make_threads(database: Database, count: int, **more: Any) -> None:
    for number in range(count):
        at = NEW_YEAR + timedelta(seconds=number)
        new = NewThread(id=f"conv_{number:03}", at=at, workflow="echo", **more)
        await database.write(
            threads.create_thread, "default", new, [Message.user(LONG_TEXT), Message.assistant(LONG_TEXT)]
        )


async def test_later_long_threads_are_listed_without_previews() -> None:
    async with keyed_server() as backend:
        await make_threads(backend.database, 30, pinned=True)
        first = await get_bootstrap(backend)
        rest = (await backend.http.get("/api/threads", params={"after": first["threads"]["next"]})).json()

    rows = first["threads"]["data"]
    assert [row["id"] for row in rows] == [f"conv_{number:03}" for number in range(29, 9, -1)]
    assert rest["data"][0]["id"] == "conv_009"
    assert rows[0]["in"]["renderer"] == "chat"
    assert (rows[-1]["in"], rows[-1]["out"]) == (None, None)
    assert [row["id"] for row in first["pinned"]] == [row["id"] for row in rows[: len(first["pinned"])]]


async def test_threads_with_very_long_titles_are_cut_to_the_size_limit() -> None:
    async with keyed_server() as backend:
        await make_threads(backend.database, 30, title="\u0001" * 200, pinned=True)
        first = await get_bootstrap(backend)
        rest = (await backend.http.get("/api/threads", params={"after": first["threads"]["next"]})).json()

    shown_rows, following = first["threads"]["data"], rest["data"]
    assert 0 < len(shown_rows) < 20
    assert int(following[0]["id"].removeprefix("conv_")) == 30 - len(shown_rows) - 1


@pytest.mark.parametrize("part", ["rows", "cells"])
async def test_a_large_board_is_given_by_id_only(part: str) -> None:
    inputs = {"text": LONG_TEXT * (part == "rows")}
    rows = tuple(BoardRow(id=f"r{number}", inputs=inputs) for number in range(600 if part == "cells" else 20))
    grid = Grid(mode="single", rows=rows, columns=(BoardColumn(id="c", workflow="echo"),))
    made = Board(id="brd_1", grid=grid, created_at=NEW_YEAR, updated_at=NEW_YEAR)
    async with keyed_server() as backend:
        await backend.database.write(boards.create_board, "default", made)
        if part == "cells":
            cells = [Cell(row=row.id, column="c", run="run_1") for row in grid.rows]
            await backend.database.write(boards.fill_cells, "default", "brd_1", cells)
        first = await get_bootstrap(backend)

    assert (first["board"], first["board_id"]) == (None, "brd_1")


async def test_bootstrap_sends_no_outgoing_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError

    async with keyed_server() as backend:
        monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", refuse)
        assert (await get_bootstrap(backend))["project"] == "default"


async def test_the_openapi_document_describes_every_field_of_bootstrap() -> None:
    async with keyed_server() as backend:
        document = (await backend.http.get("/openapi.json")).json()
        first = await get_bootstrap(backend)

    answer = document["paths"]["/api/bootstrap"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    properties = document["components"]["schemas"][answer["$ref"].rpartition("/")[2]]["properties"]
    assert properties.keys() == first.keys()
