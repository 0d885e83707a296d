"""The rows of a revision: pages, search, filters, truncated cells, and one row in full."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from palaver.server.api import testset_revisions, testsets
from palaver.server.settings import Settings
from palaver.storage.database import MEMORY_URL, Database, open_database
from tests.server.rest_client import application, rest_client


@pytest.fixture(params=["memory", "postgresql"])
async def http(request: pytest.FixtureRequest) -> AsyncIterator[httpx.AsyncClient]:
    url = MEMORY_URL if request.param == "memory" else request.getfixturevalue("postgres_url")
    database: Database = open_database(url)
    app = application(
        [testsets.TestSetController, testset_revisions.TestSetRowController], database=database, settings=Settings()
    )
    async with rest_client(app) as client:
        yield client
    await database.close()


async def made(http: httpx.AsyncClient, *rows: dict[str, Any]) -> str:
    body = {"name": "Refunds", "rows": [{"data": data} for data in rows]}
    answer = await http.post("/api/testsets", json=body)
    assert answer.status_code == 201, answer.text
    return f"/api/testsets/{answer.json()['id']}/revisions/1/rows"


async def test_pages_go_through_all_rows_in_their_order(http: httpx.AsyncClient) -> None:
    url = await made(http, *[{"n": n} for n in range(2_600)])
    first = (await http.get(url)).json()
    seen: list[int] = []
    places: list[int] = []
    after: str | None = None
    while True:
        page = (await http.get(url, params={"limit": 190} | ({"after": after} if after else {}))).json()
        seen += [row["data"]["n"] for row in page["data"]]
        places += [row["place"] for row in page["data"]]
        after = page["next"]
        if after is None:
            break

    assert len(first["data"]) == 100
    assert seen == places == list(range(2_600))


async def test_a_cursor_fits_what_it_was_made_for(http: httpx.AsyncClient) -> None:
    url = await made(http, *[{"n": n} for n in range(5)])
    cursor = (await http.get(url, params={"limit": 2})).json()["next"]

    for asked in ({"after": "abc"}, {"after": cursor, "search": "1"}, {"after": cursor, "filter": "n=1"}):
        refused = await http.get(url, params=asked)
        assert (refused.status_code, refused.json()["error"]["path"]) == (400, "?after")


async def test_rows_are_found_by_a_text_in_any_of_their_cells(http: httpx.AsyncClient) -> None:
    url = await made(
        http,
        {"q": "Größe 100%", "n": 1},
        {"messages": [{"role": "user", "content": 'She said "hi"\nand left'}]},
        {"q": "question", "n": 12.5, "ok": True},
    )

    async def found(text: str) -> list[int]:
        return [row["place"] for row in (await http.get(url, params={"search": text})).json()["data"]]

    assert await found("GRÖSSE") == [0]
    assert await found("0%") == [0]
    assert await found("0_") == []
    assert await found('"HI"\nand') == [1]
    assert await found("12.5") == [2]
    assert await found("messages") == []
    assert await found("") == [0, 1, 2]


@pytest.mark.parametrize(
    ("asked", "places"),
    [
        ("topic=maths", [0, 1]),
        ("n=1", [0, 3]),
        ("n=1.0", [0, 3]),
        ("n=true", [1]),
        ("n=null", [2]),
        ('n="1"', [4]),
        ("n=one", []),
        ('{"topic": "maths", "n": 1}', [0]),
        ('{"deep": {"a": [1.0]}}', [5]),
        ("a=b=c", [6]),
        ("{}", [0, 1, 2, 3, 4, 5, 6]),
    ],
)
async def test_rows_are_found_by_what_their_cells_are(http: httpx.AsyncClient, asked: str, places: list[int]) -> None:
    url = await made(
        http,
        {"topic": "maths", "n": 1},
        {"topic": "maths", "n": True},
        {"topic": "physics", "n": None},
        {"n": 1.0},
        {"n": "1"},
        {"deep": {"a": [1]}},
        {"a": "b=c"},
    )

    answer = await http.get(url, params={"filter": asked})
    assert [row["place"] for row in answer.json()["data"]] == places


@pytest.mark.parametrize("asked", ["topic", "=x", "{nope", "[1]"])
async def test_a_filter_that_is_none_is_told_as_such(http: httpx.AsyncClient, asked: str) -> None:
    refused = await http.get(await made(http), params={"filter": asked})

    assert (refused.status_code, refused.json()["error"]["path"]) == (400, "?filter")


async def test_long_cells_are_cut_in_pages_and_whole_by_row(http: httpx.AsyncClient) -> None:
    said = [{"role": "user", "content": "x" * 3_000}, {"role": "assistant", "content": "ü" * 3_000}, {"role": "user"}]
    data = {"text": "y" * 9_000, "messages": said, "n": 1, "short": "z" * 4_000}
    url = await made(http, data)
    (row,) = (await http.get(url)).json()["data"]
    whole = await http.get(f"{url}/{row['id']}")

    assert row["cut"] == {"text": 9_002, "messages": 9_080}
    assert row["data"]["text"] == "y" * 4_096
    assert row["data"]["messages"][0] == said[0]
    assert row["data"]["messages"][1]["content"] in "ü" * 1_000
    assert len(row["data"]["messages"]) == 2
    assert (row["data"]["n"], row["data"]["short"]) == (1, "z" * 4_000)
    assert whole.json() == {"id": row["id"], "hash": row["hash"], "place": 0, "data": data, "meta": None}
    assert (await http.get(f"{url}/{row['id']}", headers={"if-none-match": whole.headers["etag"]})).status_code == 304


async def test_a_row_that_is_not_there_is_not_found(http: httpx.AsyncClient) -> None:
    url = await made(http, {"n": 1})

    for name in ("nobody", "row_" + "0" * 26, "row_" + "z" * 26):
        assert (await http.get(f"{url}/{name}")).status_code == 404
