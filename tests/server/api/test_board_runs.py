"""Runs of boards in single-turn mode: cells are run in the background, and cancelled."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.server.keyed_server import keyed_server
from tests.server.thread_client import problem, release, thread_server, wait_for_run

SHOUT = {"id": "c1", "workflow": "shout"}
ECHO = {"id": "c2", "workflow": "echo", "parameters": {"style": "loud"}}
SLOW = {"id": "c1", "workflow": "slow"}


def chat_inputs(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


async def create_board(
    http: httpx.AsyncClient, *columns: dict[str, Any], rows: list[dict[str, Any]], **more: Any
) -> str:
    body = {
        "mode": "single",
        "columns": columns,
        "rows": [{"id": f"r{number}", "inputs": inputs} for number, inputs in enumerate(rows, 1)],
        **more,
    }
    answer = await http.post("/api/boards", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def start_runs(http: httpx.AsyncClient, name: str, **body: Any) -> dict[str, str]:
    """Start runs of the board and return their ids by cell."""
    answer = await http.post(f"/api/boards/{name}/run", json=body)
    assert answer.status_code == 202, answer.text
    return {f"{cell_run['row']}.{cell_run['column']}": cell_run["run"] for cell_run in answer.json()["runs"]}


async def cell_runs(http: httpx.AsyncClient, name: str) -> dict[str, str]:
    board = (await http.get(f"/api/boards/{name}")).json()
    return {f"{cell['row']}.{cell['column']}": cell["run"] for cell in board["cells"]}


async def statuses(http: httpx.AsyncClient, name: str) -> list[str]:
    listed = (await http.get("/api/runs", params={"board": name})).json()["data"]
    return sorted(row["status"] for row in listed)


async def wait_for_statuses(http: httpx.AsyncClient, name: str, *expected: str) -> None:
    async with asyncio.timeout(60):
        while await statuses(http, name) != sorted(expected):  # noqa: ASYNC110 - over HTTP
            await asyncio.sleep(0.01)


async def test_each_cell_runs_with_the_inputs_of_its_row_and_the_parameters_of_its_column() -> None:
    async with thread_server() as (http, _):
        name = await create_board(http, SHOUT, ECHO, rows=[{"text": "hi"}, chat_inputs("hello")])

        run_ids = await start_runs(http, name)
        finished_runs = {cell: await wait_for_run(http, one) for cell, one in run_ids.items()}

        outcomes = {cell: (one["status"], (one["error"] or {}).get("code")) for cell, one in finished_runs.items()}
        assert list(run_ids) == ["r1.c1", "r1.c2", "r2.c1", "r2.c2"]
        assert run_ids == await cell_runs(http, name)
        assert outcomes == {
            "r1.c1": ("finished", None),
            "r1.c2": ("failed", "unknown_input"),
            "r2.c1": ("failed", "missing_input"),
            "r2.c2": ("finished", None),
        }
        assert finished_runs["r1.c1"]["out"]["text"] == "HI"
        assert finished_runs["r2.c2"]["out"]["text"] == "loud(user: hello)"
        one = finished_runs["r2.c2"]
        assert (one["board"], one["background"], one["variant"], one["protocol"]) == (name, True, "default:1", "board")


async def test_cells_to_run_are_selected_by_status_or_by_row_and_column() -> None:
    async with thread_server() as (http, _):
        name = await create_board(http, SHOUT, rows=[{"text": "a"}, {}])
        first = await start_runs(http, name, cells=[["r1", "c1"], ["r1", "c1"]])
        await wait_for_run(http, first["r1.c1"])
        empty = await start_runs(http, name, cells="empty")
        await wait_for_run(http, empty["r2.c1"])
        failed = await start_runs(http, name, cells="failed")
        await wait_for_run(http, failed["r2.c1"])
        none = await start_runs(http, name, cells="empty")
        every = await start_runs(http, name)

        assert [list(started) for started in (first, empty, failed, none, every)] == [
            ["r1.c1"],
            ["r2.c1"],
            ["r2.c1"],
            [],
            ["r1.c1", "r2.c1"],
        ]
        assert await cell_runs(http, name) == every
        for one in every.values():
            await wait_for_run(http, one)


async def test_running_cells_are_not_restarted_and_concurrency_is_limited() -> None:
    async with thread_server() as (http, _):
        name = await create_board(http, SLOW, rows=[chat_inputs("a"), chat_inputs("b"), chat_inputs("c")])
        run_ids = await start_runs(http, name, concurrency=2)
        await wait_for_statuses(http, name, "running", "running", "queued")
        assert list(run_ids.values()) == sorted(run_ids.values())  # The longest waiting run starts first: in row order.

        again = await start_runs(http, name)
        release("a")
        await wait_for_run(http, run_ids["r1.c1"])
        await wait_for_statuses(http, name, "finished", "running", "running")

        assert again == {}
        for text in "bc":
            release(text)
        await wait_for_statuses(http, name, "finished", "finished", "finished")


async def test_a_crowded_board_does_not_delay_other_boards() -> None:
    async with thread_server() as (http, _):
        crowded = await create_board(http, SLOW, rows=[chat_inputs(f"{n}") for n in range(40)])
        small = await create_board(http, SHOUT, rows=[{"text": "hi"}])
        run_ids = await start_runs(http, crowded, concurrency=1)
        quick = await start_runs(http, small)

        assert (await wait_for_run(http, quick["r1.c1"]))["status"] == "finished"
        cancelled = (await http.post(f"/api/boards/{crowded}/cancel")).json()["runs"]
        assert sorted(cancelled) == sorted(run_ids.values())


async def test_cancelling_ends_queued_and_running_cells() -> None:
    async with thread_server() as (http, _):
        name = await create_board(http, SLOW, rows=[chat_inputs("a"), chat_inputs("b"), chat_inputs("c")])
        run_ids = await start_runs(http, name, concurrency=1)
        await wait_for_statuses(http, name, "running", "queued", "queued")

        answer = await http.post(f"/api/boards/{name}/cancel")
        again = await http.post(f"/api/boards/{name}/cancel")

        assert (answer.status_code, sorted(answer.json()["runs"])) == (200, sorted(run_ids.values()))
        assert again.json() == {"runs": []}
        assert await statuses(http, name) == ["cancelled"] * 3
        for text in "abc":
            release(text)
        resumed = await start_runs(http, name, cells="failed")
        assert list(resumed) == ["r1.c1", "r2.c1", "r3.c1"]
        await wait_for_statuses(http, name, *["cancelled"] * 3, *["finished"] * 3)


async def test_a_repeated_request_with_the_same_idempotency_key_runs_once() -> None:
    async with thread_server() as (http, _):
        name = await create_board(http, SHOUT, rows=[{"text": "a"}])
        headers = {"idempotency-key": "k"}
        first = await http.post(f"/api/boards/{name}/run", json={}, headers=headers)
        await wait_for_run(http, first.json()["runs"][0]["run"])
        second = await http.post(f"/api/boards/{name}/run", json={}, headers=headers)

        assert second.json() == first.json()
        assert second.headers["idempotency-replayed"] == "true"
        assert await statuses(http, name) == ["finished"]


@pytest.mark.parametrize(
    ("body", "expected_error"),
    [
        ({"cells": "some"}, (422, "invalid_value", "/cells")),
        ({"cells": [["r1", "c9"]]}, (422, "invalid_value", "/cells/0")),
        ({"concurrency": 0}, (422, "invalid_value", "/concurrency")),
        ({"concurrency": 17}, (422, "invalid_value", "/concurrency")),
    ],
)
async def test_unknown_cells_and_invalid_concurrency_are_rejected(
    body: dict[str, Any], expected_error: tuple[int, str, str]
) -> None:
    async with thread_server() as (http, _):
        name = await create_board(http, SHOUT, rows=[{"text": "a"}])

        assert problem(await http.post(f"/api/boards/{name}/run", json=body)) == expected_error
        assert await cell_runs(http, name) == {}


async def test_a_board_that_cannot_be_run_reports_why() -> None:
    missing = {"id": "c1", "workflow": "nobody"}
    varied = SHOUT | {"variant": "loud"}
    async with thread_server() as (http, _):
        rows = [{"text": "a"}]
        names = [
            await create_board(http, SHOUT, rows=rows, mode="chat"),
            await create_board(http, missing, rows=rows),
            await create_board(http, varied, rows=rows),
            await create_board(http, ECHO, rows=[{"messages": "nonsense"}]),
        ]
        answers = [await http.post(f"/api/boards/{name}/run", json={}) for name in names]
        accepted = answers.pop()

        assert [problem(answer)[:2] for answer in answers] == [
            (400, "invalid_value"),
            (404, "workflow_not_found"),
            (422, "invalid_parameter"),
        ]
        assert (await wait_for_run(http, accepted.json()["runs"][0]["run"]))["status"] == "failed"
    async with thread_server(record="metadata") as (http, _):
        name = await create_board(http, SHOUT, rows=rows)
        assert problem(await http.post(f"/api/boards/{name}/run", json={}))[:2] == (400, "invalid_value")


async def test_an_unknown_file_is_rejected_and_no_cell_runs() -> None:
    file = {"type": "file", "file": {"file_id": "file_01k00000000000000000000000"}}
    async with thread_server() as (http, _):
        name = await create_board(http, ECHO, rows=[{"messages": [{"role": "user", "content": [file]}]}])

        answer = await http.post(f"/api/boards/{name}/run", json={})

        assert problem(answer)[:2] == (404, "not_found")
        assert await cell_runs(http, name) == {}


async def test_another_projects_board_is_not_found() -> None:
    async with keyed_server() as server:
        _, mine = await server.create_key()
        _, theirs = await server.create_key(project="team-a")
        made = await server.http.post("/api/boards", json={"mode": "single"}, headers=mine)
        location = made.headers["location"]

        answers = [
            await server.http.post(f"{url}/{action}", json={}, headers=theirs)
            for url in (location, "/api/boards/brd_unknown")
            for action in ("run", "cancel")
        ]
        own = await server.http.post(f"{location}/run", json={}, headers=mine)

        assert {problem(answer)[:2] for answer in answers} == {(404, "not_found")}
        assert (own.status_code, own.json()) == (202, {"runs": []})
