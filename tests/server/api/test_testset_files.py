"""Import and export of test sets: formats, and failed imports, which change nothing."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest
from sqlalchemy import func, select

from palaver.server.api import testset_files, testset_revisions, testsets
from palaver.server.rate_limit import RateLimits
from palaver.server.settings import Settings
from palaver.storage.database import MEMORY_URL, Database, open_database
from palaver.storage.testsets.tables import TESTSET_TABLES
from palaver.testsets.files import MEDIA_TYPES
from tests.server.rest_client import FakeCaller, application, rest_client

JSONL, CSV = "application/x-ndjson", "text/csv"


@pytest.fixture(params=["memory", "postgresql"])
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    url = MEMORY_URL if request.param == "memory" else request.getfixturevalue("postgres_url")
    opened = open_database(url)
    yield opened
    await opened.close()


def app(database: Database, settings: Settings | None = None) -> Any:
    app_settings = settings or Settings()
    return application(
        [
            testsets.TestSetController,
            testset_revisions.TestSetRevisionController,
            testset_revisions.TestSetRowController,
            testset_files.TestSetFileController,
        ],
        database=database,
        settings=app_settings,
        rate_limits=RateLimits(app_settings),
    )


@pytest.fixture
async def http(database: Database) -> AsyncIterator[httpx.AsyncClient]:
    async with rest_client(app(database)) as client:
        yield client


def encode_lines(*rows: Any) -> bytes:
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


async def import_file(
    http: httpx.AsyncClient, body: bytes, kind: str = JSONL, to: str = "", **params: Any
) -> httpx.Response:
    url = f"/api/testsets/{to}/import" if to else "/api/testsets/import"
    query = params if to else {"name": "Refunds", **params}
    return await http.post(url, params=query, content=body, headers={"content-type": kind})


async def row_data(http: httpx.AsyncClient, testset: str, revision: str = "head") -> list[Any]:
    rows = (await http.get(f"/api/testsets/{testset}/revisions/{revision}/rows")).json()["data"]
    return [row["data"] for row in rows]


async def row_ids(http: httpx.AsyncClient, testset: str) -> list[str]:
    rows = (await http.get(f"/api/testsets/{testset}/revisions/head/rows")).json()["data"]
    return [row["id"] for row in rows]


def error(answer: httpx.Response) -> tuple[int, str, str | None]:
    body = answer.json()["error"]
    return answer.status_code, body["code"], body.get("path")


async def table_counts(database: Database) -> list[int]:
    return await database.read(
        lambda db: [db.scalar(select(func.count()).select_from(table)) or 0 for table in TESTSET_TABLES]
    )


# Importing


async def test_an_imported_file_becomes_a_test_set(http: httpx.AsyncClient) -> None:
    rows = [{"q": "one", "n": 1}, {"q": "two", "deep": {"a": [1, None]}}, {"q": "one", "n": 1}]
    answer = await import_file(http, encode_lines(*rows, "loose"), message="from a file", description="ours")
    body = answer.json()

    assert answer.status_code == 201
    assert answer.headers["location"] == f"/api/testsets/{body['testset']['id']}"
    assert body["report"] == {"rows": 4, "added": 4, "changed": 0, "unchanged": 0, "removed": 0, "wrapped": 1}
    assert (body["testset"]["name"], body["testset"]["description"]) == ("Refunds", "ours")
    assert (body["revision"]["revision"], body["revision"]["message"]) == (1, "from a file")
    assert [(one["name"], one["kind"], one["missing"]) for one in body["testset"]["columns"]] == [
        ("q", "text", 1),
        ("n", "number", 2),
        ("deep", "json", 3),
        ("value", "text", 3),
    ]
    assert await row_data(http, body["testset"]["id"]) == [*rows, {"value": "loose"}]
    assert len(set(await row_ids(http, body["testset"]["id"]))) == 4


async def test_rows_in_every_format_round_trip_through_export_and_import(http: httpx.AsyncClient) -> None:
    pytest.importorskip("pyarrow")
    rows = [{"q": "=1+1", "n": 1.0, "note": None}, {"q": "42", "m": [{"role": "user", "content": "hi"}]}, {}]
    first = (await import_file(http, encode_lines(*rows))).json()["testset"]["id"]
    for form, kind in MEDIA_TYPES.items():
        file = await http.get(f"/api/testsets/{first}/revisions/1/export", params={"format": form})
        again = (await import_file(http, file.content, kind, name=form)).json()["testset"]["id"]

        assert file.headers["content-type"].partition(";")[0] == kind
        assert file.headers["content-disposition"] == f'attachment; filename="Refunds-1.{form}"'
        assert await row_data(http, again) == rows


async def test_the_filename_of_an_export_has_no_unsafe_characters(http: httpx.AsyncClient) -> None:
    testset = (await import_file(http, encode_lines({"q": 1}), name='../../etc/"passwd"; x=ü\u202e.exe')).json()[
        "testset"
    ]["id"]
    file = await http.get(f"/api/testsets/{testset}/revisions/head/export")

    assert file.headers["content-disposition"] == 'attachment; filename="etc-passwd-x-.exe-1.jsonl"'


async def test_an_import_appends_rows_by_default(http: httpx.AsyncClient) -> None:
    testset = (await import_file(http, encode_lines({"n": 1}))).json()["testset"]["id"]
    before = await row_ids(http, testset)
    answer = await import_file(http, b"n\r\n1\r\n2\r\n", CSV, to=testset)

    assert answer.status_code == 201
    assert answer.headers["location"] == f"/api/testsets/{testset}/revisions/2"
    assert answer.json()["report"] == {"rows": 2, "added": 2, "changed": 0, "unchanged": 0, "removed": 0, "wrapped": 0}
    assert await row_data(http, testset) == [{"n": 1}, {"n": 1}, {"n": 2}]
    assert (await row_ids(http, testset))[:1] == before


async def test_an_import_with_mode_replace_keeps_the_ids_of_equal_rows(http: httpx.AsyncClient) -> None:
    testset = (await import_file(http, encode_lines({"n": 1}, {"n": 2}, {"n": 2}))).json()["testset"]["id"]
    before = await row_ids(http, testset)
    answer = await import_file(http, encode_lines({"n": 2}, {"n": 3}, {"n": 2}), to=testset, mode="replace")
    same = await import_file(http, encode_lines({"n": 2}, {"n": 3}, {"n": 2}), to=testset, mode="replace")

    assert answer.json()["report"] == {"rows": 3, "added": 1, "changed": 0, "unchanged": 2, "removed": 1, "wrapped": 0}
    assert [(await row_ids(http, testset))[position] for position in (0, 2)] == before[1:]
    assert (same.status_code, same.json()["revision"]["unchanged"], same.json()["revision"]["revision"]) == (
        200,
        True,
        2,
    )


async def test_an_import_with_mode_upsert_replaces_rows_with_the_same_key(http: httpx.AsyncClient) -> None:
    testset = (await import_file(http, encode_lines({"k": "a", "n": 1}, {"k": "b", "n": 2}, {"n": 3}))).json()[
        "testset"
    ]["id"]
    before = await row_ids(http, testset)
    changed = encode_lines({"k": "b", "n": 20}, {"k": "c", "n": 30}, {"k": "a", "n": 1})
    answer = await import_file(http, changed, to=testset, mode="upsert", key="k")

    assert answer.json()["report"] == {"rows": 3, "added": 1, "changed": 1, "unchanged": 1, "removed": 0, "wrapped": 0}
    assert await row_data(http, testset) == [{"k": "a", "n": 1}, {"k": "b", "n": 20}, {"n": 3}, {"k": "c", "n": 30}]
    assert (await row_ids(http, testset))[:3] == before


async def test_a_key_is_found_whether_it_is_a_number_or_text_in_the_file(http: httpx.AsyncClient) -> None:
    testset = (await import_file(http, b"k,n\n1,a\n2,b\n", CSV)).json()["testset"]["id"]
    before = await row_ids(http, testset)
    answer = await import_file(http, b"k,n\n2,c\nA3,d\n", CSV, to=testset, mode="upsert", key="k")

    assert answer.json()["report"] == {"rows": 2, "added": 1, "changed": 1, "unchanged": 0, "removed": 0, "wrapped": 0}
    assert await row_data(http, testset) == [{"k": 1, "n": "a"}, {"k": "2", "n": "c"}, {"k": "A3", "n": "d"}]
    assert (await row_ids(http, testset))[:2] == before


async def test_a_mixed_column_is_exported_as_csv_and_imported_without_changes(http: httpx.AsyncClient) -> None:
    message = {"role": "assistant", "content": "hi"}
    rows: list[dict[str, Any]] = [{"a": 1, "b": "x"}, {"a": "x", "b": None}, {"a": "y", "b": message}, {"a": "2"}]
    testset = (await import_file(http, encode_lines(*rows))).json()["testset"]["id"]
    file = (await http.get(f"/api/testsets/{testset}/revisions/1/export", params={"format": "csv"})).content
    again = await import_file(http, file, CSV, to=testset, mode="replace")

    assert file.count(b'"""x"""') == 2
    assert again.json()["report"]["unchanged"] == 4
    assert await row_data(http, testset) == rows


async def test_a_file_exported_with_ids_updates_the_same_rows(http: httpx.AsyncClient) -> None:
    testset = (await import_file(http, encode_lines({"n": 1}, {"n": 2}))).json()["testset"]["id"]
    before = await row_ids(http, testset)
    file = (await http.get(f"/api/testsets/{testset}/revisions/1/export", params={"ids": "true"})).content
    edited = file.replace(b'"n":2', b'"n":7')
    upserted = await import_file(http, edited, to=testset, mode="upsert", key="__id__")
    after = await row_ids(http, testset)
    replaced = await import_file(http, file, to=testset, mode="replace")
    refused = await import_file(http, file, to=testset)
    twice = await import_file(http, file + file, to=testset, mode="replace")

    assert upserted.json()["report"] | {"wrapped": 0} == {
        "rows": 2,
        "added": 0,
        "changed": 1,
        "unchanged": 1,
        "removed": 0,
        "wrapped": 0,
    }
    assert (after, await row_ids(http, testset)) == (before, before)
    assert (replaced.json()["report"]["changed"], await row_data(http, testset)) == (1, [{"n": 1}, {"n": 2}])
    assert error(refused) == (400, "invalid_value", "?mode")
    assert error(twice) == (422, "invalid_value", "/lines/3")


async def test_fields_next_to_the_data_of_a_case_are_stored_as_metadata(http: httpx.AsyncClient) -> None:
    case = {"id": "7c1e", "data": {"q": "hi"}, "tags": {"a": 1}}
    body = msgspec.json.encode({"data": {"testcases": [case]}})
    testset = (await import_file(http, body, "application/json")).json()["testset"]["id"]
    (row,) = await row_ids(http, testset)
    stored = (await http.get(f"/api/testsets/{testset}/revisions/1/rows/{row}")).json()

    assert (stored["data"], stored["meta"]) == ({"q": "hi"}, {"__id__": "7c1e", "__tags__": {"a": 1}})


# Rejected imports


@pytest.mark.parametrize(
    ("kind", "body", "expected_error"),
    [
        ("multipart/form-data; boundary=x", b"--x--", (415, "unsupported_media_type", None)),
        ("application/x-www-form-urlencoded", b"a=b", (415, "unsupported_media_type", None)),
        ("", b"a", (415, "unsupported_media_type", None)),
        ("text/plain", b"a", (415, "unsupported_media_type", None)),
        (
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            b"PK",
            (415, "unsupported_media_type", None),
        ),
        (JSONL, b"", (400, "invalid_body", None)),
        (JSONL, b'{"a":1}\n{"a":\n', (422, "invalid_value", "/lines/2")),
        (CSV, b"a,a\n1,2\n", (422, "invalid_value", "/lines/1")),
        (JSONL, encode_lines({"s": {"turns": [{"user": "hi", "expect": {"nope": 1}}]}}), (422, "invalid_value", None)),
        (JSONL, encode_lines(*[{"n": n} for n in range(6)]), (413, "too_large", None)),
        (JSONL, encode_lines({"text": "x" * 200}), (413, "too_large", None)),
        (JSONL, encode_lines({"a": 1, "b": 2, "c": 3, "d": 4}), (413, "too_large", None)),
        (JSONL, b" " * 700, (413, "too_large", None)),
    ],
)
async def test_an_invalid_import_is_rejected_and_stores_nothing(
    database: Database, kind: str, body: bytes, expected_error: tuple[int, str, str | None]
) -> None:
    small = Settings(testset_max_rows=5, testset_max_columns=3, testset_max_row=100, testset_max_file=600)
    async with rest_client(app(database, small)) as http:
        refused = await import_file(http, body, kind)

    status, code, path = error(refused)
    assert (status, code) == expected_error[:2], refused.text
    assert expected_error[2] is None or path == expected_error[2]
    assert await table_counts(database) == [0] * len(TESTSET_TABLES)


async def test_a_spreadsheet_is_rejected_with_advice_to_export_csv(http: httpx.AsyncClient) -> None:
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"

    assert "CSV UTF-8" in (await import_file(http, b"PK", kind)).json()["error"]["message"]


async def test_an_import_that_fails_halfway_leaves_the_test_set_unchanged(
    http: httpx.AsyncClient, database: Database
) -> None:
    testset = (await import_file(http, encode_lines({"n": 1}))).json()["testset"]["id"]
    before = await table_counts(database)
    many = encode_lines(*[{"n": n, "text": "x" * 300} for n in range(3_000)])
    refused = await import_file(http, many + b"{broken\n", to=testset)

    assert error(refused) == (422, "invalid_value", "/lines/3001")
    assert await table_counts(database) == before
    assert await row_data(http, testset) == [{"n": 1}]


async def test_an_import_that_the_client_aborts_stores_nothing(database: Database) -> None:
    from palaver.server.api import conventions

    many = encode_lines(*[{"n": n, "text": "x" * 300} for n in range(2_000)])
    received = iter(
        [
            {"type": "http.request", "body": many, "more_body": True},
            {"type": "http.disconnect"},
            {"type": "http.disconnect"},
        ]
    )

    async def receive() -> Any:
        return next(received)

    async def send(message: Any) -> None:
        responses.append(message)

    responses: list[Any] = []
    scope: Any = {
        "type": "http",
        "method": "POST",
        "path": "/api/testsets/import",
        "raw_path": b"/api/testsets/import",
        "query_string": b"name=left",
        "headers": [(b"content-type", JSONL.encode()), (b"host", b"localhost")],
        "http_version": "1.1",
        "scheme": "http",
        "server": ("localhost", 80),
        "client": ("localhost", 1),
        "root_path": "",
        conventions.CALLER: FakeCaller(),
    }
    await app(database)(scope, receive, send)

    assert responses[0]["status"] == 499
    assert await table_counts(database) == [0] * len(TESTSET_TABLES)


async def test_a_second_concurrent_import_into_a_test_set_is_rejected(
    http: httpx.AsyncClient, database: Database
) -> None:
    from palaver.server.api.conventions import utc_now
    from palaver.testsets.commits import StagedImport

    testset = (await import_file(http, encode_lines({"n": 1}))).json()["testset"]["id"]
    async with StagedImport(database, "default", testset, utc_now):
        refused = await import_file(http, encode_lines({"n": 2}), to=testset)
    accepted = await import_file(http, encode_lines({"n": 2}), to=testset)

    assert error(refused) == (409, "still_running", None)
    assert accepted.status_code == 201


async def test_a_repeated_import_with_the_same_idempotency_key_is_replayed(
    http: httpx.AsyncClient, database: Database
) -> None:
    testset = (await import_file(http, encode_lines({"n": 1}))).json()["testset"]["id"]
    url, headers = f"/api/testsets/{testset}/import", {"idempotency-key": "k1", "content-type": JSONL}
    first = await http.post(url, content=encode_lines({"n": 2}), headers=headers)
    before = await table_counts(database)
    again = await http.post(url, content=encode_lines({"n": 2}), headers=headers)
    other = await http.post(url, content=encode_lines({"n": 3}), headers=headers)

    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["idempotency-replayed"] == "true"
    assert error(other) == (409, "idempotency_mismatch", None)
    assert await table_counts(database) == before


async def test_a_repeated_import_of_a_new_test_set_creates_it_once(http: httpx.AsyncClient, database: Database) -> None:
    headers = {"idempotency-key": "k1", "content-type": JSONL}
    first, again = [
        await http.post("/api/testsets/import?name=Refunds", content=encode_lines({"n": 2}), headers=headers)
        for _ in "12"
    ]
    other = await http.post(
        "/api/testsets/import?name=Refunds", content=encode_lines({"n": 2}), headers={"content-type": JSONL}
    )

    assert (again.status_code, again.json()) == (201, first.json())
    assert error(other) == (409, "name_taken", "/name")
    assert await table_counts(database) == [1, 1, 1, 1, 0, 0]


async def test_a_taken_name_is_rejected_before_the_file_is_read(http: httpx.AsyncClient) -> None:
    await import_file(http, encode_lines({"n": 1}))

    assert error(await import_file(http, b"{broken")) == (409, "name_taken", "/name")


async def test_another_projects_test_set_can_be_neither_imported_into_nor_exported(database: Database) -> None:
    async with rest_client(app(database)) as http:
        testset = (await import_file(http, encode_lines({"n": 1}))).json()["testset"]["id"]
    async with rest_client(app(database), FakeCaller(project="other")) as http:
        assert error(await import_file(http, encode_lines({"n": 2}), to=testset)) == (404, "not_found", None)
        assert (await http.get(f"/api/testsets/{testset}/revisions/1/export")).status_code == 404


@pytest.mark.parametrize("query", [{"mode": "upsert"}, {"mode": "append", "key": "n"}, {"mode": "merge"}])
async def test_an_invalid_combination_of_mode_and_key_is_rejected(
    http: httpx.AsyncClient, query: dict[str, str]
) -> None:
    testset = (await import_file(http, encode_lines({"n": 1}))).json()["testset"]["id"]

    assert error(await import_file(http, encode_lines({"n": 2}), to=testset, **query))[:2] == (400, "invalid_value")


async def test_an_upsert_key_must_be_unique_and_present_in_every_imported_row(http: httpx.AsyncClient) -> None:
    testset = (await import_file(http, encode_lines({"n": 1}, {"n": 1}))).json()["testset"]["id"]
    no_key = await import_file(http, encode_lines({"n": 2}), to=testset, mode="upsert", key="n")
    other = (await import_file(http, encode_lines({"n": 1}), name="other")).json()["testset"]["id"]
    twice = await import_file(http, encode_lines({"n": 2}, {"n": 2}), to=other, mode="upsert", key="n")
    without = await import_file(http, encode_lines({"m": 2}), to=other, mode="upsert", key="n")

    assert error(no_key) == (400, "invalid_value", "?key")
    assert error(twice) == (422, "invalid_value", "/lines/2")
    assert error(without) == (422, "invalid_value", "/lines/1")
