"""/api/views: saved views of a page, for everyone in the project."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from palaver.server.api.saved_views import MAX_VIEW_BYTES, SavedViewController
from palaver.server.settings import Settings
from palaver.storage import saved_views as kept
from palaver.storage.database import MEMORY_URL, Database, open_database
from tests.server.rest_client import FakeCaller, application, rest_client

BODY: dict[str, Any] = {"search": "refund", "filter": {"field": "status", "op": "eq", "value": "error"}}


@pytest.fixture(params=["memory", "postgresql"])
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    url = MEMORY_URL if request.param == "memory" else request.getfixturevalue("postgres_url")
    opened = open_database(url)
    yield opened
    await opened.close()


@pytest.fixture
async def http(database: Database) -> AsyncIterator[httpx.AsyncClient]:
    async with rest_client(application([SavedViewController], database=database, settings=Settings())) as client:
        yield client


async def create_view(http: httpx.AsyncClient, name: str, page: str = "traces") -> dict[str, Any]:
    answer = await http.post("/api/views", json={"name": name, "page": page, "body": BODY})
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"/api/views/{answer.json()['id']}"
    return answer.json()


async def names(http: httpx.AsyncClient, page: str = "traces", **more: Any) -> list[str]:
    return [view["name"] for view in (await http.get("/api/views", params={"page": page, **more})).json()["data"]]


async def test_a_view_is_stored_as_sent_and_listed_for_its_page(http: httpx.AsyncClient) -> None:
    made = await create_view(http, "Refunds that failed")
    await create_view(http, "Slow spans", page="spans")
    listed = (await http.get("/api/views", params={"page": "traces"})).json()

    shown = {"page": "traces", "name": "Refunds that failed", "body": BODY}
    assert listed == {"data": [made], "next": None}
    assert {key: made[key] for key in shown} == shown
    assert made["created_at"] == made["updated_at"]
    assert await names(http, "spans") == ["Slow spans"]


async def test_views_are_listed_last_saved_first_in_pages(http: httpx.AsyncClient) -> None:
    first = await create_view(http, "one")
    await create_view(http, "two")
    put = await http.put(f"/api/views/{first['id']}", json={"name": "one again", "body": {}})
    page = (await http.get("/api/views", params={"page": "traces", "limit": 1})).json()

    assert (put.status_code, put.json()["body"], put.json()["created_at"]) == (200, {}, first["created_at"])
    assert [view["name"] for view in page["data"]] == ["one again"]
    assert await names(http, limit=1, after=page["next"]) == ["two"]
    other = await http.get("/api/views", params={"page": "spans", "after": page["next"]})
    assert other.status_code == 400


async def test_a_deleted_view_is_not_found(http: httpx.AsyncClient) -> None:
    made = await create_view(http, "one")
    url = f"/api/views/{made['id']}"

    assert (await http.delete(url)).status_code == 204
    assert await names(http) == []
    for answer in (await http.delete(url), await http.put(url, json={"name": "x", "body": {}})):
        assert (answer.status_code, answer.json()["error"]["message"]) == (404, f"Saved view {made['id']!r} not found.")


async def test_another_project_cannot_list_change_or_delete_a_view(database: Database) -> None:
    app = application([SavedViewController], database=database, settings=Settings())
    async with rest_client(app) as http, rest_client(app, FakeCaller(project="team-b")) as other:
        made = await create_view(http, "ours")
        url = f"/api/views/{made['id']}"

        assert await names(other) == []
        assert (await other.put(url, json={"name": "theirs", "body": {}})).status_code == 404
        assert (await other.delete(url)).status_code == 404
        assert await names(http) == ["ours"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "", "page": "traces", "body": {}}, 422),
        ({"name": "x", "page": "elsewhere", "body": {}}, 422),
        ({"name": "x", "page": "traces", "body": []}, 400),
        ({"name": "x", "page": "traces", "body": {"search": "x" * MAX_VIEW_BYTES}}, 413),
    ],
)
async def test_an_invalid_view_is_rejected(http: httpx.AsyncClient, body: dict[str, Any], status: int) -> None:
    answer = await http.post("/api/views", json=body)

    assert answer.status_code == status, answer.text
    assert await names(http) == []


async def test_an_unknown_page_is_rejected_naming_the_query_parameter(http: httpx.AsyncClient) -> None:
    answer = await http.get("/api/views", params={"page": "elsewhere"})

    assert (answer.status_code, answer.json()["error"]["path"]) == (400, "?page")
    assert answer.json()["error"]["message"] == "Invalid page 'elsewhere'."


async def test_the_number_of_views_per_page_is_limited(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "MAX_VIEWS", 1)
    await create_view(http, "one")
    answer = await http.post("/api/views", json={"name": "two", "page": "traces", "body": {}})

    assert answer.status_code == 413
    assert (
        answer.json()["error"]["message"] == "The limit of 1 saved views per page has been reached. Delete one first."
    )
