"""/api/boards: saving, replacing, copying and deleting boards over HTTP."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from litestar import Litestar

from palaver.core.boards import Cell
from palaver.server.api.boards import BoardController
from palaver.server.settings import Settings
from palaver.storage import boards as kept
from palaver.storage.database import MEMORY_URL, Database, open_database
from tests.server.rest_client import FakeCaller, application, rest_client

BOARD: dict[str, Any] = {
    "name": "prompt v3",
    "mode": "chat",
    "columns": [
        {"id": "c1", "workflow": "tutor", "variant": "short:3", "parameters": {"temperature": 1}},
        {"id": "c2", "workflow": "tutor", "variant": "default", "parameters": {}},
    ],
    "rows": [
        {"id": "r1", "name": "", "inputs": {"subject": "physics"}},
        {"id": "r2", "name": "two", "inputs": {}},
    ],
    "testset": {"id": "ts_1", "revision": 4},
    "layout": {"composer": "all", "widths": {"c1": 420}},
}


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    opened = open_database(MEMORY_URL)
    yield opened
    await opened.close()


@pytest.fixture
def app(database: Database) -> Litestar:
    return application([BoardController], database=database, settings=Settings())


@pytest.fixture
async def http(app: Litestar) -> AsyncIterator[httpx.AsyncClient]:
    async with rest_client(app) as client:
        yield client


async def create_board(http: httpx.AsyncClient, **changes: Any) -> tuple[str, httpx.Response]:
    answer = await http.post("/api/boards", json=BOARD | changes)
    assert answer.status_code == 201, answer.text
    return answer.headers["location"], answer


async def fill_cells(database: Database, location: str, *cells: Cell) -> None:
    await database.write(kept.fill_cells, "default", location.removeprefix("/api/boards/"), cells)


def problem(answer: httpx.Response) -> tuple[int, Any]:
    return answer.status_code, answer.json()["error"]


async def test_a_board_is_stored_as_sent_and_listed(http: httpx.AsyncClient) -> None:
    url, answer = await create_board(http)
    shown = (await http.get(url)).json()
    listed = (await http.get("/api/boards")).json()

    times = {"created_at": shown["created_at"], "updated_at": shown["created_at"]}
    assert shown == answer.json() == BOARD | times | {"id": url.removeprefix("/api/boards/"), "cells": []}
    assert listed == {
        "data": [{"id": shown["id"], "name": "prompt v3", "mode": "chat", **times}],
        "next": None,
    }


async def test_a_board_may_be_empty(http: httpx.AsyncClient) -> None:
    shown = (await http.post("/api/boards", json={})).json()

    assert {key: shown[key] for key in ("name", "mode", "columns", "rows", "cells", "testset", "layout")} == {
        "name": "",
        "mode": "chat",
        "columns": [],
        "rows": [],
        "cells": [],
        "testset": None,
        "layout": {},
    }


async def test_boards_are_listed_last_saved_first(http: httpx.AsyncClient) -> None:
    urls = [(await create_board(http, name=name))[0] for name in ("one", "two", "three")]
    (await http.put(urls[0], json=BOARD | {"name": "one again"})).raise_for_status()

    first = (await http.get("/api/boards?limit=2")).json()
    second = (await http.get(f"/api/boards?limit=2&after={first['next']}")).json()

    assert [row["name"] for row in (*first["data"], *second["data"])] == ["one again", "three", "two"]


async def test_a_client_can_remove_cells_but_not_fill_them(http: httpx.AsyncClient, database: Database) -> None:
    mine = [{"row": "r1", "column": "c1", "thread": "conv_mine", "run": None}]
    url, made = await create_board(http, cells=mine)
    await fill_cells(
        database, url, Cell(row="r1", column="c1", thread="conv_1"), Cell(row="r2", column="c2", run="run_1")
    )
    filled = [
        {"row": "r1", "column": "c1", "thread": "conv_1", "run": None},
        {"row": "r2", "column": "c2", "thread": None, "run": "run_1"},
    ]
    without = await http.put(url, json=BOARD)
    with_mine = await http.put(url, json=BOARD | {"cells": [*mine, {"row": "r2", "column": "c2"}]})
    fewer = await http.put(url, json=BOARD | {"cells": mine})
    again = await http.put(url, json=BOARD | {"cells": filled})

    assert made.json()["cells"] == []
    assert [answer.json()["cells"] for answer in (without, with_mine, fewer, again)] == [
        filled,
        filled,
        filled[:1],
        filled[:1],
    ]


async def test_a_cell_is_deleted_with_its_row_and_survives_a_change_of_mode(
    http: httpx.AsyncClient, database: Database
) -> None:
    url, _ = await create_board(http)
    await fill_cells(database, url, Cell(row="r1", column="c1", thread="conv_1"))
    await fill_cells(
        database, url, Cell(row="r1", column="c1", run="run_1"), Cell(row="r2", column="c2", thread="conv_2")
    )
    single = await http.put(url, json=BOARD | {"mode": "single"})
    fewer = await http.put(url, json=BOARD | {"rows": BOARD["rows"][:1]})
    restored = await http.put(url, json=BOARD)

    remaining_cell = {"row": "r1", "column": "c1", "thread": "conv_1", "run": "run_1"}
    assert single.json()["cells"] == [remaining_cell, {"row": "r2", "column": "c2", "thread": "conv_2", "run": None}]
    assert fewer.json()["cells"] == restored.json()["cells"] == [remaining_cell]


async def test_a_stale_if_match_neither_overwrites_nor_deletes_a_board(http: httpx.AsyncClient) -> None:
    url, made = await create_board(http)
    newer = await http.put(url, json=BOARD | {"name": "newer"}, headers={"if-match": made.headers["etag"]})
    stale = [
        await http.put(url, json=BOARD, headers={"if-match": made.headers["etag"]}),
        await http.delete(url, headers={"if-match": made.headers["etag"]}),
    ]
    error = {
        "code": "stale_base",
        "message": "The object has changed since you read it.",
        "details": {"etag": newer.headers["etag"]},
    }

    assert newer.status_code == 200
    assert [problem(answer) for answer in stale] == [(412, error)] * 2
    assert (await http.get(url)).json()["name"] == "newer"
    assert (await http.put(url, json=BOARD)).status_code == 200  # Without it, the last writer wins.


async def test_filling_a_cell_changes_the_board_without_conflicting_with_a_save(
    http: httpx.AsyncClient, database: Database
) -> None:
    url, made = await create_board(http)
    tag = made.headers["etag"]
    same = await http.get(url, headers={"if-none-match": tag})
    await fill_cells(database, url, Cell(row="r1", column="c1", thread="conv_1"))
    changed = await http.get(url, headers={"if-none-match": tag})
    put = await http.put(url, json=BOARD | {"name": "mine"}, headers={"if-match": tag})

    assert (same.status_code, changed.status_code, put.status_code) == (304, 200, 200)
    assert len(put.json()["cells"]) == 1


async def test_a_deleted_board_is_not_found(http: httpx.AsyncClient) -> None:
    url, _ = await create_board(http)
    deleted = await http.delete(url)

    assert deleted.status_code == 204
    assert problem(await http.get(url)) == (
        404,
        {"code": "not_found", "message": f"Board {url[12:]!r} not found."},
    )
    assert (await http.delete(url)).status_code == 404


async def test_a_copy_has_its_columns_and_rows_and_empty_cells(http: httpx.AsyncClient, database: Database) -> None:
    url, made = await create_board(http)
    await fill_cells(database, url, Cell(row="r1", column="c1", thread="conv_1"))
    copy = await http.post(f"{url}/duplicate")
    named = await http.post(f"{url}/duplicate", json={"name": "other"})

    assert (copy.status_code, copy.headers["location"]) == (201, f"/api/boards/{copy.json()['id']}")
    changed_fields = {"id", "created_at", "updated_at", "name"}
    assert {key: value for key, value in copy.json().items() if key not in changed_fields} == {
        key: value for key, value in made.json().items() if key not in changed_fields
    }
    assert (copy.json()["name"], named.json()["name"]) == ("prompt v3 (copy)", "other")


COLUMN, ROW = BOARD["columns"][0], BOARD["rows"][0]


def copies(item: dict[str, Any], count: int) -> list[dict[str, Any]]:
    return [item | {"id": f"x{number}"} for number in range(count)]


@pytest.mark.parametrize(
    ("changes", "status", "code", "path"),
    [
        ({"columns": copies(COLUMN, 9)}, 413, "too_large", "/columns"),
        ({"rows": copies(ROW, 51)}, 413, "too_large", "/rows"),
        ({"mode": "single", "rows": copies(ROW, 1_001)}, 413, "too_large", "/rows"),
        ({"layout": {"x": "x" * 16_384}}, 413, "too_large", "/layout"),
        ({"rows": copies({"inputs": {"x": "x" * 1_000_000}}, 9)}, 413, "too_large", None),
        ({"columns": [COLUMN, COLUMN]}, 422, "invalid_value", "/columns/1/id"),
        ({"rows": [ROW, ROW]}, 422, "invalid_value", "/rows/1/id"),
        ({"rows": [{"id": "a.b"}]}, 422, "invalid_value", "/rows/0/id"),
        ({"columns": [COLUMN | {"variant": "a b"}]}, 422, "invalid_parameter", "/columns/0/variant"),
        ({"columns": [{"id": "c1"}]}, 400, "invalid_body", "/columns/0/workflow"),
        ({"columns": [COLUMN | {"parameters": []}]}, 400, "invalid_type", "/columns/0/parameters"),
        ({"mode": "both"}, 422, "invalid_value", "/mode"),
        ({"name": "x" * 201}, 422, "invalid_value", "/name"),
        ({"name": "\0"}, 422, "invalid_value", "/name"),
        ({"cells": [{"row": 1, "column": "c1"}]}, 400, "invalid_type", "/cells/0/row"),
    ],
)
async def test_an_invalid_or_too_large_board_is_rejected(
    http: httpx.AsyncClient, changes: Any, status: int, code: str, path: str | None
) -> None:
    url, _ = await create_board(http)
    for answer in (await http.post("/api/boards", json=BOARD | changes), await http.put(url, json=BOARD | changes)):
        actual_status, error = problem(answer)
        assert (actual_status, error["code"], error.get("path")) == (status, code, path)


async def test_a_board_can_have_8000_cells(http: httpx.AsyncClient, database: Database) -> None:
    rows, columns = copies(ROW, 1_000), copies(COLUMN, 8)
    url, _ = await create_board(http, mode="single", rows=rows, columns=columns)
    await fill_cells(database, url, *(Cell(row=r["id"], column=c["id"], run="run_1") for r in rows for c in columns))
    body = BOARD | {"mode": "single", "columns": columns}
    full = await http.put(url, json=body | {"rows": rows})
    half = await http.put(url, json=body | {"rows": rows[:500]})

    assert (len(full.json()["cells"]), len(half.json()["cells"])) == (8_000, 4_000)


async def test_another_projects_board_is_answered_like_an_unknown_one(app: Litestar, http: httpx.AsyncClient) -> None:
    url, _ = await create_board(http)
    unknown = "/api/boards/brd_00000000000000000000000000"
    async with rest_client(app, FakeCaller("other")) as other_client:
        for method, tail, body in [
            ("GET", "", {}),
            ("PUT", "", {"json": BOARD}),
            ("DELETE", "", {}),
            ("POST", "/duplicate", {"json": {}}),
        ]:
            theirs = await other_client.request(method, url + tail, **body)
            unknown_response = await other_client.request(method, unknown + tail, **body)
            assert theirs.status_code == 404
            assert theirs.text.replace(url[12:], "") == unknown_response.text.replace(unknown[12:], "")
        listed = await other_client.get("/api/boards")

    assert listed.json() == {"data": [], "next": None}
    assert (await http.get(url)).status_code == 200


async def test_openapi_describes_the_body_and_the_response_of_a_board(app: Litestar) -> None:
    document = app.openapi_schema.to_schema()
    operation = document["paths"]["/api/boards/{board}"]["put"]
    body = operation["requestBody"]["content"]["application/json"]["schema"]

    assert body["properties"]["columns"]["items"]["required"] == ["id", "workflow"]
    assert operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].endswith("BoardView")
