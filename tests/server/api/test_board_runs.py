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


def asking(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


async def board(http: httpx.AsyncClient, *columns: dict[str, Any], rows: list[dict[str, Any]], **more: Any) -> str:
    body = {
        "mode": "single",
        "columns": columns,
        "rows": [{"id": f"r{place}", "inputs": inputs} for place, inputs in enumerate(rows, 1)],
        **more,
    }
    answer = await http.post("/api/boards", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def run(http: httpx.AsyncClient, name: str, **body: Any) -> dict[str, str]:
    """The runs that were begun, by their cells."""
    answer = await http.post(f"/api/boards/{name}/run", json=body)
    assert answer.status_code == 202, answer.text
    return {f"{one['row']}.{one['column']}": one["run"] for one in answer.json()["runs"]}


async def cells(http: httpx.AsyncClient, name: str) -> dict[str, str]:
    shown = (await http.get(f"/api/boards/{name}")).json()
    return {f"{cell['row']}.{cell['column']}": cell["run"] for cell in shown["cells"]}


async def statuses(http: httpx.AsyncClient, name: str) -> list[str]:
    listed = (await http.get("/api/runs", params={"board": name})).json()["data"]
    return sorted(row["status"] for row in listed)


async def come_to(http: httpx.AsyncClient, name: str, *wanted: str) -> None:
    async with asyncio.timeout(10):
        while await statuses(http, name) != sorted(wanted):  # noqa: ASYNC110 - over HTTP
            await asyncio.sleep(0.01)


async def test_every_cell_is_run_with_its_rows_inputs_and_its_columns_parameters() -> None:
    async with thread_server() as (http, _):
        name = await board(http, SHOUT, ECHO, rows=[{"text": "hi"}, asking("hello")])

        begun = await run(http, name)
        ended = {cell: await wait_for_run(http, one) for cell, one in begun.items()}

        told = {cell: (one["status"], (one["error"] or {}).get("code")) for cell, one in ended.items()}
        assert list(begun) == ["r1.c1", "r1.c2", "r2.c1", "r2.c2"]
        assert begun == await cells(http, name)
        assert told == {
            "r1.c1": ("finished", None),
            "r1.c2": ("failed", "unknown_input"),
            "r2.c1": ("failed", "missing_input"),
            "r2.c2": ("finished", None),
        }
        assert ended["r1.c1"]["out"]["text"] == "HI"
        assert ended["r2.c2"]["out"]["text"] == "loud(user: hello)"
        one = ended["r2.c2"]
        assert (one["board"], one["background"], one["variant"], one["protocol"]) == (name, True, "default:1", "board")


async def test_cells_are_chosen_by_how_they_stand_or_by_name() -> None:
    async with thread_server() as (http, _):
        name = await board(http, SHOUT, rows=[{"text": "a"}, {}])
        first = await run(http, name, cells=[["r1", "c1"], ["r1", "c1"]])
        await wait_for_run(http, first["r1.c1"])
        empty = await run(http, name, cells="empty")
        await wait_for_run(http, empty["r2.c1"])
        failed = await run(http, name, cells="failed")
        await wait_for_run(http, failed["r2.c1"])
        none = await run(http, name, cells="empty")
        every = await run(http, name)

        assert [list(begun) for begun in (first, empty, failed, none, every)] == [
            ["r1.c1"],
            ["r2.c1"],
            ["r2.c1"],
            [],
            ["r1.c1", "r2.c1"],
        ]
        assert await cells(http, name) == every
        for one in every.values():
            await wait_for_run(http, one)


async def test_a_cell_that_goes_on_is_left_alone_and_no_more_go_on_at_once_than_may() -> None:
    async with thread_server() as (http, _):
        name = await board(http, SLOW, rows=[asking("a"), asking("b"), asking("c")])
        begun = await run(http, name, concurrency=2)
        await come_to(http, name, "running", "running", "queued")
        assert list(begun.values()) == sorted(begun.values())  # Who waits longest is begun first: as they stand there.

        again = await run(http, name)
        release("a")
        await wait_for_run(http, begun["r1.c1"])
        await come_to(http, name, "finished", "running", "running")

        assert again == {}
        for said in "bc":
            release(said)
        await come_to(http, name, "finished", "finished", "finished")


async def test_a_board_does_not_keep_others_waiting() -> None:
    async with thread_server() as (http, _):
        crowded = await board(http, SLOW, rows=[asking(f"{n}") for n in range(40)])
        small = await board(http, SHOUT, rows=[{"text": "hi"}])
        begun = await run(http, crowded, concurrency=1)
        quick = await run(http, small)

        assert (await wait_for_run(http, quick["r1.c1"]))["status"] == "finished"
        ended = (await http.post(f"/api/boards/{crowded}/cancel")).json()["runs"]
        assert sorted(ended) == sorted(begun.values())


async def test_cancelling_ends_what_waits_and_what_goes_on() -> None:
    async with thread_server() as (http, _):
        name = await board(http, SLOW, rows=[asking("a"), asking("b"), asking("c")])
        begun = await run(http, name, concurrency=1)
        await come_to(http, name, "running", "queued", "queued")

        answer = await http.post(f"/api/boards/{name}/cancel")
        again = await http.post(f"/api/boards/{name}/cancel")

        assert (answer.status_code, sorted(answer.json()["runs"])) == (200, sorted(begun.values()))
        assert again.json() == {"runs": []}
        assert await statuses(http, name) == ["cancelled"] * 3
        for said in "abc":
            release(said)
        resumed = await run(http, name, cells="failed")
        assert list(resumed) == ["r1.c1", "r2.c1", "r3.c1"]
        await come_to(http, name, *["cancelled"] * 3, *["finished"] * 3)


async def test_what_is_asked_twice_under_one_key_is_run_once() -> None:
    async with thread_server() as (http, _):
        name = await board(http, SHOUT, rows=[{"text": "a"}])
        once = {"idempotency-key": "k"}
        first = await http.post(f"/api/boards/{name}/run", json={}, headers=once)
        await wait_for_run(http, first.json()["runs"][0]["run"])
        second = await http.post(f"/api/boards/{name}/run", json={}, headers=once)

        assert second.json() == first.json()
        assert second.headers["idempotency-replayed"] == "true"
        assert await statuses(http, name) == ["finished"]


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({"cells": "some"}, (422, "invalid_value", "/cells")),
        ({"cells": [["r1", "c9"]]}, (422, "invalid_value", "/cells/0")),
        ({"concurrency": 0}, (422, "invalid_value", "/concurrency")),
        ({"concurrency": 17}, (422, "invalid_value", "/concurrency")),
    ],
)
async def test_what_is_no_cell_or_no_number_is_refused(body: dict[str, Any], wrong: tuple[int, str, str]) -> None:
    async with thread_server() as (http, _):
        name = await board(http, SHOUT, rows=[{"text": "a"}])

        assert problem(await http.post(f"/api/boards/{name}/run", json=body)) == wrong
        assert await cells(http, name) == {}


async def test_a_board_that_cannot_be_run_says_why() -> None:
    missing = {"id": "c1", "workflow": "nobody"}
    varied = SHOUT | {"variant": "loud"}
    async with thread_server() as (http, _):
        rows = [{"text": "a"}]
        names = [
            await board(http, SHOUT, rows=rows, mode="chat"),
            await board(http, missing, rows=rows),
            await board(http, varied, rows=rows),
            await board(http, ECHO, rows=[{"messages": "nonsense"}]),
        ]
        answers = [await http.post(f"/api/boards/{name}/run", json={}) for name in names]
        unread = answers.pop()

        assert [problem(answer)[:2] for answer in answers] == [
            (400, "invalid_value"),
            (404, "workflow_not_found"),
            (422, "invalid_parameter"),
        ]
        assert (await wait_for_run(http, unread.json()["runs"][0]["run"]))["status"] == "failed"
    async with thread_server(record="metadata") as (http, _):
        name = await board(http, SHOUT, rows=rows)
        assert problem(await http.post(f"/api/boards/{name}/run", json={}))[:2] == (400, "invalid_value")


async def test_a_file_of_nobodys_is_not_sent() -> None:
    file = {"type": "file", "file": {"file_id": "file_01k00000000000000000000000"}}
    async with thread_server() as (http, _):
        name = await board(http, ECHO, rows=[{"messages": [{"role": "user", "content": [file]}]}])

        answer = await http.post(f"/api/boards/{name}/run", json={})

        assert answer.status_code in (404, 422), answer.text
        assert await cells(http, name) == {}


async def test_another_projects_board_is_not_there() -> None:
    async with keyed_server() as house:
        _, mine = await house.create_key()
        _, theirs = await house.create_key(project="team-a")
        made = await house.http.post("/api/boards", json={"mode": "single"}, headers=mine)
        place = made.headers["location"]

        answers = [
            await house.http.post(f"{where}/{what}", json={}, headers=theirs)
            for where in (place, "/api/boards/brd_unknown")
            for what in ("run", "cancel")
        ]
        own = await house.http.post(f"{place}/run", json={}, headers=mine)

        assert {problem(answer)[:2] for answer in answers} == {(404, "not_found")}
        assert (own.status_code, own.json()) == (202, {"runs": []})
