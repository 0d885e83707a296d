"""Conventions shared by all routes of the REST API."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import httpx
import msgspec
import pytest
from litestar import Litestar, Response, get, post
from litestar.params import FromPath
from sqlalchemy import Connection, insert, select

from palaver.errors import FaultyCall, InvalidParameter, Overloaded, RateLimited, UnknownParameter
from palaver.protocols.base import HttpResponse
from palaver.server.api.conventions import (
    After,
    ApiRequest,
    Filter,
    Limit,
    Search,
    Timestamp,
    encode_object,
    format_timestamp,
    new_id,
    object_response,
    operation_with_body,
    read_body,
    run_idempotent,
)
from palaver.server.request import ClientDisconnected
from palaver.server.settings import Settings
from palaver.storage.database import MEMORY_URL, Database, open_database
from palaver.storage.pagination import Page
from palaver.storage.tables import projects
from tests.server.rest_client import FakeCaller, application, rest_client

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


class Thing(msgspec.Struct):
    name: str
    at: Timestamp = "2026-11-15T12:00:00.000000Z"


class ThingList(msgspec.Struct):
    things: list[Thing]


def raised_errors() -> list[Exception]:
    several = [InvalidParameter("One.", pointer="/parameters/a"), UnknownParameter("Two.", pointer="/parameters/b")]
    return [Overloaded("Full."), RateLimited("Slow down.", retry_after=7), FaultyCall(several), ClientDisconnected()]


def things(database: Database, clock: list[datetime], settings: Settings) -> list[Any]:
    @get("/api/things")
    async def listed(
        limit: Limit = 50, after: After = None, search: Search = None, workflow: Filter = None
    ) -> Page[Thing]:
        return Page([Thing(f"{limit} {after} {search} {workflow}")])

    @post("/api/things", operation_class=operation_with_body(ThingList))
    async def make(request: ApiRequest) -> Response[Thing]:
        raw, body = await read_body(request, settings, ThingList)

        def work(db: Connection) -> HttpResponse:
            for thing in body.things:
                db.execute(insert(projects).values(name=thing.name, created_at=NOON))
            return encode_object(body.things[0], status=201, location="/api/things/1")

        return await run_idempotent(request, database, raw, work, now=lambda: clock[0])

    @get("/api/things/{number:int}")
    async def one(request: ApiRequest, number: FromPath[int]) -> Response[Thing]:
        return object_response(request, Thing(str(number)))

    @get("/api/fails/{number:int}")
    async def fails(number: FromPath[int]) -> None:
        raise raised_errors()[number]

    return [listed, make, one, fails]


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    opened = open_database(MEMORY_URL)
    yield opened
    await opened.close()


@pytest.fixture
def clock() -> list[datetime]:
    return [NOON]


@pytest.fixture
def app(database: Database, clock: list[datetime]) -> Litestar:
    return application(things(database, clock, Settings(max_body=300_000)))


@pytest.fixture
async def http(app: Litestar) -> AsyncIterator[httpx.AsyncClient]:
    async with rest_client(app) as client:
        yield client


def body(*names: str) -> dict[str, Any]:
    return {"things": [{"name": name} for name in names]}


async def project_names(database: Database) -> set[str]:
    def ask(db: Connection) -> set[str]:
        return set(db.scalars(select(projects.c.name))) - {"default"}

    return await database.read(ask)


# Times and ids


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (NOON, "2026-11-15T12:00:00.000000Z"),
        (NOON + timedelta(microseconds=1), "2026-11-15T12:00:00.000001Z"),
        (datetime(2026, 11, 15, 13, tzinfo=timezone(timedelta(hours=1))), "2026-11-15T12:00:00.000000Z"),
    ],
)
def test_times_have_microseconds_and_are_utc(moment: datetime, text: str) -> None:
    assert format_timestamp(moment) == text


def test_ids_have_a_prefix_and_26_characters() -> None:
    assert re.fullmatch("var_[0-9a-hjkmnp-tv-z]{26}", new_id("var"))


# Queries and errors


async def test_query_parameters_are_read_and_unknown_ones_ignored(http: httpx.AsyncClient) -> None:
    response = await http.get("/api/things?limit=3&after=x&search=%25_%27&workflow=w&more=1")

    assert (await http.get("/api/things")).json()["data"][0]["name"] == "50 None None None"
    assert response.json()["data"][0]["name"] == "3 x %_' w"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("limit=0", "limit must be at least 1."),
        ("limit=201", "limit must be at most 200."),
        ("limit=x", "limit must be an integer."),
        (f"search={'x' * 201}", "search must be at most 200 characters long."),
        ("search=%00", "search contains invalid characters."),
        ("workflow=a%00", "workflow contains invalid characters."),
    ],
)
async def test_an_invalid_query_parameter_is_rejected_by_name(
    http: httpx.AsyncClient, query: str, message: str
) -> None:
    refused = await http.get(f"/api/things?{query}")

    path = f"?{query.partition('=')[0]}"
    assert (refused.status_code, refused.json()) == (
        400,
        {"error": {"code": "invalid_value", "message": message, "path": path}},
    )


async def test_errors_have_retry_after_and_list_every_fault(http: httpx.AsyncClient) -> None:
    full, slow, faulty, disconnected = [await http.get(f"/api/fails/{number}") for number in range(4)]

    assert (full.status_code, full.headers["retry-after"]) == (503, "1")
    assert (slow.status_code, slow.headers["retry-after"]) == (429, "7")
    assert (faulty.status_code, faulty.json()) == (
        422,
        {
            "error": {
                "code": "invalid_parameter",
                "message": "One.",
                "path": "/parameters/a",
                "errors": [
                    {"code": "invalid_parameter", "message": "One.", "path": "/parameters/a"},
                    {"code": "unknown_parameter", "message": "Two.", "path": "/parameters/b"},
                ],
            }
        },
    )
    assert disconnected.status_code == 499


async def test_an_unknown_path_is_a_404_and_a_wrong_method_a_405(http: httpx.AsyncClient) -> None:
    nothing, method = await http.get("/api/none"), await http.delete("/api/things")

    assert (nothing.status_code, nothing.json()["error"]) == (
        404,
        {"code": "not_found", "message": "Not found: /api/none"},
    )
    assert (method.status_code, method.json()["error"]["code"]) == (405, "method_not_allowed")
    assert set(method.headers["allow"].replace(" ", "").split(",")) >= {"GET", "POST"}


async def test_a_large_body_is_read_and_one_over_the_limit_rejected(
    http: httpx.AsyncClient, database: Database
) -> None:
    large = body("a") | {"unknown": "x" * 100_000}
    larger = body("b") | {"unknown": "x" * 400_000}

    assert (await http.post("/api/things", json=large)).status_code == 201
    assert (await http.post("/api/things", json=larger)).status_code == 413
    assert await project_names(database) == {"a"}


# ETags


@pytest.mark.parametrize(
    ("header", "status"),
    [('"x"', 200), ("*", 304), ("{tag}", 304), ("W/{tag}", 304), ('"x", {tag}', 304), ("", 200), ("{bare}", 200)],
)
async def test_if_none_match_is_compared_with_the_etag(http: httpx.AsyncClient, header: str, status: int) -> None:
    tag = (await http.get("/api/things/1")).headers["etag"]
    sent = header.format(tag=tag, bare=tag.strip('"'))
    again = await http.get("/api/things/1", headers={"if-none-match": sent})

    assert (again.status_code, again.headers["etag"]) == (status, tag)


async def test_different_objects_have_different_etags(http: httpx.AsyncClient) -> None:
    tags = {(await http.get(f"/api/things/{number}")).headers["etag"] for number in (1, 2, 1)}

    assert len(tags) == 2


# Idempotency-Key


async def test_a_repeated_request_is_replayed_with_the_first_response(
    http: httpx.AsyncClient, database: Database
) -> None:
    key = {"idempotency-key": "k1"}
    first = await http.post("/api/things", json=body("a"), headers=key)
    again = await http.post("/api/things", json=body("a"), headers=key)

    assert first.status_code == again.status_code == 201
    assert first.content == again.content == b'{"name":"a","at":"2026-11-15T12:00:00.000000Z"}'
    assert {name: again.headers[name] for name in ("location", "etag", "content-type")} == {
        name: first.headers[name] for name in ("location", "etag", "content-type")
    }
    assert ("idempotency-replayed" in first.headers, again.headers["idempotency-replayed"]) == (False, "true")
    assert await project_names(database) == {"a"}


async def test_concurrent_requests_with_the_same_key_are_run_once(http: httpx.AsyncClient, database: Database) -> None:
    key = {"idempotency-key": "k1"}
    answers = await asyncio.gather(*(http.post("/api/things", json=body("a"), headers=key) for _ in range(9)))

    assert [one.status_code for one in answers] == [201] * 9
    assert sum("idempotency-replayed" in one.headers for one in answers) == 8


async def test_another_body_or_query_with_the_same_key_is_rejected(http: httpx.AsyncClient, database: Database) -> None:
    key = {"idempotency-key": "k1"}
    (await http.post("/api/things", json=body("a"), headers=key)).raise_for_status()
    refused = [
        await http.post("/api/things", json=body("b"), headers=key),
        await http.post("/api/things?dry_run=true", json=body("a"), headers=key),
    ]

    expected_error = {
        "code": "idempotency_mismatch",
        "message": "This Idempotency-Key was already used with a different request. Use a new key.",
    }
    assert [(one.status_code, one.json()["error"]) for one in refused] == [(409, expected_error)] * 2
    assert await project_names(database) == {"a"}


async def test_a_rejected_request_does_not_use_up_its_key(http: httpx.AsyncClient, database: Database) -> None:
    key = {"idempotency-key": "k1"}
    refused = await http.post("/api/things", json={}, headers=key)
    made = await http.post("/api/things", json=body("a"), headers=key)

    assert (refused.status_code, made.status_code) == (400, 201)


async def test_a_key_is_scoped_to_a_day_a_project_and_a_credential(
    app: Litestar, http: httpx.AsyncClient, database: Database, clock: list[datetime]
) -> None:
    key = {"idempotency-key": "k1"}
    (await http.post("/api/things", json=body("a"), headers=key)).raise_for_status()
    async with rest_client(app, FakeCaller("other")) as other, rest_client(app, FakeCaller(key="ab12cd34")) as mine:
        (await other.post("/api/things", json=body("b"), headers=key)).raise_for_status()
        (await mine.post("/api/things", json=body("c"), headers=key)).raise_for_status()
    clock[0] += timedelta(days=1)
    (await http.post("/api/things", json=body("d"), headers=key)).raise_for_status()

    assert await project_names(database) == {"a", "b", "c", "d"}


@pytest.mark.parametrize("key", ["", "x" * 129, "a b", "a\tb", b"\xe4"])
async def test_a_key_that_is_not_1_to_128_printable_characters_is_rejected(
    http: httpx.AsyncClient, key: str | bytes
) -> None:
    refused = await http.post("/api/things", json=body("a"), headers=[(b"idempotency-key", key)])  # type: ignore[list-item]

    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_value")


# OpenAPI


async def test_openapi_describes_request_bodies_and_query_limits(app: Litestar) -> None:
    paths = app.openapi_schema.to_schema()["paths"]
    schema = paths["/api/things"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    limit = next(one for one in paths["/api/things"]["get"]["parameters"] if one["name"] == "limit")

    assert schema["properties"]["things"]["items"]["properties"]["name"] == {"type": "string"}
    assert (limit["schema"]["minimum"], limit["schema"]["maximum"], limit["schema"]["default"]) == (1, 200, 50)
