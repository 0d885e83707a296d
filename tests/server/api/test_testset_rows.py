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


async def create_testset(http: httpx.AsyncClient, *rows: dict[str, Any]) -> str:
    body = {"name": "Refunds", "rows": [{"data": data} for data in rows]}
    answer = await http.post("/api/testsets", json=body)
    assert answer.status_code == 201, answer.text
    return f"/api/testsets/{answer.json()['id']}/revisions/1/rows"


async def test_pages_cover_all_rows_in_order(http: httpx.AsyncClient) -> None:
    url = await create_testset(http, *[{"n": n} for n in range(2_600)])
    first = (await http.get(url)).json()
    values: list[int] = []
    positions: list[int] = []
    after: str | None = None
    while True:
        page = (await http.get(url, params={"limit": 190} | ({"after": after} if after else {}))).json()
        values += [row["data"]["n"] for row in page["data"]]
        positions += [row["place"] for row in page["data"]]
        after = page["next"]
        if after is None:
            break

    assert len(first["data"]) == 100
    assert values == positions == list(range(2_600))


async def test_an_invalid_cursor_or_one_of_another_query_is_rejected(http: httpx.AsyncClient) -> None:
    url = await create_testset(http, *[{"n": n} for n in range(5)])
    cursor = (await http.get(url, params={"limit": 2})).json()["next"]

    for query in ({"after": "abc"}, {"after": cursor, "search": "1"}, {"after": cursor, "filter": "n=1"}):
        refused = await http.get(url, params=query)
        assert (refused.status_code, refused.json()["error"]["path"]) == (400, "?after")


async def test_search_finds_text_in_any_cell_of_a_row(http: httpx.AsyncClient) -> None:
    url = await create_testset(
        http,
        {"q": "Größe 100%", "n": 1},
        {"messages": [{"role": "user", "content": 'She said "hi"\nand left'}]},
        {"q": "question", "n": 12.5, "ok": True},
    )

    async def search(text: str) -> list[int]:
        return [row["place"] for row in (await http.get(url, params={"search": text})).json()["data"]]

    assert await search("GRÖSSE") == [0]
    assert await search("0%") == [0]
    assert await search("0_") == []
    assert await search('"HI"\nand') == [1]
    assert await search("12.5") == [2]
    assert await search("messages") == []
    assert await search("") == [0, 1, 2]


@pytest.mark.parametrize(
    ("expression", "positions"),
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
async def test_rows_are_filtered_by_cell_values(http: httpx.AsyncClient, expression: str, positions: list[int]) -> None:
    url = await create_testset(
        http,
        {"topic": "maths", "n": 1},
        {"topic": "maths", "n": True},
        {"topic": "physics", "n": None},
        {"n": 1.0},
        {"n": "1"},
        {"deep": {"a": [1]}},
        {"a": "b=c"},
    )

    answer = await http.get(url, params={"filter": expression})
    assert [row["place"] for row in answer.json()["data"]] == positions


@pytest.mark.parametrize("expression", ["topic", "=x", "{nope", "[1]"])
async def test_an_invalid_filter_is_rejected(http: httpx.AsyncClient, expression: str) -> None:
    refused = await http.get(await create_testset(http), params={"filter": expression})

    assert (refused.status_code, refused.json()["error"]["path"]) == (400, "?filter")


async def test_long_cells_are_truncated_in_pages_and_complete_in_a_single_row(http: httpx.AsyncClient) -> None:
    messages = [
        {"role": "user", "content": "x" * 3_000},
        {"role": "assistant", "content": "ü" * 3_000},
        {"role": "user"},
    ]
    data = {"text": "y" * 9_000, "messages": messages, "n": 1, "short": "z" * 4_000}
    url = await create_testset(http, data)
    (row,) = (await http.get(url)).json()["data"]
    full_row = await http.get(f"{url}/{row['id']}")

    assert row["cut"] == {"text": 9_002, "messages": 9_080}
    assert row["data"]["text"] == "y" * 4_096
    assert row["data"]["messages"] == [messages[0], {"role": "assistant", "content": "ü" * 518}]
    assert (row["data"]["n"], row["data"]["short"]) == (1, "z" * 4_000)
    assert full_row.json() == {"id": row["id"], "hash": row["hash"], "place": 0, "data": data, "meta": None}
    assert (
        await http.get(f"{url}/{row['id']}", headers={"if-none-match": full_row.headers["etag"]})
    ).status_code == 304


async def test_an_unknown_row_is_not_found(http: httpx.AsyncClient) -> None:
    url = await create_testset(http, {"n": 1})

    for name in ("nobody", "row_" + "0" * 26, "row_" + "z" * 26):
        assert (await http.get(f"{url}/{name}")).status_code == 404
