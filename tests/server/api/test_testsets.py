"""/api/testsets: test sets, their revisions, and differences between revisions."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from palaver.core.api_keys import Scope
from palaver.server.api import testset_revisions, testsets
from palaver.server.settings import Settings
from palaver.storage.database import MEMORY_URL, Database, open_database
from tests.server.rest_client import FakeCaller, application, rest_client

ROWS: list[dict[str, Any]] = [{"data": {"q": f"question {n}", "expected": n}} for n in range(5)]


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
        ],
        database=database,
        settings=app_settings,
    )


@pytest.fixture
async def http(database: Database) -> AsyncIterator[httpx.AsyncClient]:
    async with rest_client(app(database), FakeCaller(key="ab12cd34")) as client:
        yield client


async def create_testset(http: httpx.AsyncClient, name: str = "Refunds", rows: list[dict[str, Any]] = ROWS) -> str:
    answer = await http.post("/api/testsets", json={"name": name, "rows": rows, "message": "the first"})
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"/api/testsets/{answer.json()['id']}"
    return answer.json()["id"]


async def rows_of(http: httpx.AsyncClient, testset: str, revision: str = "head", **more: Any) -> dict[str, Any]:
    answer = await http.get(f"/api/testsets/{testset}/revisions/{revision}/rows", params=more)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def commit(http: httpx.AsyncClient, testset: str, base: int, **body: Any) -> httpx.Response:
    return await http.post(f"/api/testsets/{testset}/revisions", json={"base": base, **body})


def error(answer: httpx.Response) -> tuple[int, str, str | None]:
    body = answer.json()["error"]
    return answer.status_code, body["code"], body.get("path")


# Test sets


async def test_a_test_set_is_created_with_its_first_revision(http: httpx.AsyncClient) -> None:
    testset = await create_testset(http)
    shown = (await http.get(f"/api/testsets/{testset}")).json()
    revision = (await http.get(f"/api/testsets/{testset}/revisions/1")).json()

    columns = [
        {"name": "q", "kind": "text", "present": 5, "missing": 0, "nulls": 0},
        {"name": "expected", "kind": "number", "present": 5, "missing": 0, "nulls": 0},
    ]
    assert shown == {
        "id": testset,
        "name": "Refunds",
        "description": "",
        "head": 1,
        "rows": 5,
        "archived": False,
        "created_at": shown["created_at"],
        "updated_at": shown["created_at"],
        "columns": columns,
    }
    assert revision == {
        "testset": testset,
        "revision": 1,
        "parent": None,
        "digest": revision["digest"],
        "rows": 5,
        "columns": ["q", "expected"],
        "message": "the first",
        "author": "key_ab12cd34",
        "created_at": shown["created_at"],
        "kinds": columns,
    }
    assert revision["digest"].startswith("b2:")


async def test_a_test_set_without_rows_has_an_empty_revision(http: httpx.AsyncClient) -> None:
    testset = await create_testset(http, rows=[])

    assert await rows_of(http, testset) == {"data": [], "next": None}
    assert (await commit(http, testset, 1, delta={"add": [{"data": {"q": "one"}}]})).json()["rows"] == 1


async def test_the_list_is_ordered_by_last_change_and_searched_by_name(http: httpx.AsyncClient) -> None:
    first, second = await create_testset(http, "Größe 100%"), await create_testset(http, "Refunds")
    await commit(http, first, 1, delta={"remove": []}, message="nothing")
    await commit(http, first, 1, delta={"add": [{"data": {"q": "more"}}]})

    async def ids(**query: Any) -> list[str]:
        return [row["id"] for row in (await http.get("/api/testsets", params=query)).json()["data"]]

    page = (await http.get("/api/testsets", params={"limit": 1})).json()
    assert await ids() == [first, second]
    assert await ids(search="grösse 100%".replace("ss", "ß").upper()) == [first]
    assert await ids(search="100_") == []
    assert await ids(limit=1, after=page["next"]) == [second]


async def test_a_name_is_taken_until_its_test_set_is_archived(http: httpx.AsyncClient) -> None:
    first = await create_testset(http)
    taken = await http.post("/api/testsets", json={"name": "Refunds"})
    (await http.delete(f"/api/testsets/{first}")).raise_for_status()
    second = await create_testset(http)
    restored = await http.patch(f"/api/testsets/{first}", json={"archived": False})
    renamed = await http.patch(f"/api/testsets/{first}", json={"archived": False, "name": "Old refunds"})

    assert error(taken) == (409, "name_taken", "/name")
    assert error(restored) == (409, "name_taken", "/name")
    assert (renamed.status_code, renamed.json()["name"], renamed.json()["rows"]) == (200, "Old refunds", 5)
    assert {row["id"] for row in (await http.get("/api/testsets")).json()["data"]} == {first, second}


async def test_an_archived_test_set_is_not_listed_by_default_but_can_be_read(http: httpx.AsyncClient) -> None:
    testset = await create_testset(http)
    archived = await http.delete(f"/api/testsets/{testset}")

    assert archived.status_code == 204
    assert (await http.get("/api/testsets")).json() == {"data": [], "next": None}
    assert [one["id"] for one in (await http.get("/api/testsets?archived=true")).json()["data"]] == [testset]
    assert len((await rows_of(http, testset))["data"]) == 5


async def test_an_update_with_a_stale_if_match_is_rejected(http: httpx.AsyncClient) -> None:
    testset = await create_testset(http)
    tag = (await http.get(f"/api/testsets/{testset}")).headers["etag"]
    same = await http.get(f"/api/testsets/{testset}", headers={"if-none-match": tag})
    (await http.patch(f"/api/testsets/{testset}", json={"description": "ours"})).raise_for_status()
    stale = await http.patch(f"/api/testsets/{testset}", json={"description": "theirs"}, headers={"if-match": tag})

    assert same.status_code == 304
    assert error(stale) == (412, "stale_base", None)
    assert (await http.get(f"/api/testsets/{testset}")).json()["description"] == "ours"


async def test_purging_a_test_set_needs_an_admin_and_leaves_no_rows(database: Database) -> None:
    from sqlalchemy import func, select

    from palaver.storage.testsets.tables import TESTSET_TABLES

    ordinary: frozenset[Scope] = frozenset({"read", "invoke"})
    async with rest_client(app(database), FakeCaller(scopes=ordinary)) as http:
        testset = await create_testset(http)
        refused = await http.delete(f"/api/testsets/{testset}?purge=true")
    async with rest_client(app(database)) as http:
        erased = await http.delete(f"/api/testsets/{testset}?purge=true")
        missing = await http.get(f"/api/testsets/{testset}")
    counts = await database.read(
        lambda db: [db.scalar(select(func.count()).select_from(one)) for one in TESTSET_TABLES]
    )

    assert error(refused) == (403, "missing_scope", None)
    assert (erased.status_code, error(missing)) == (204, (404, "not_found", None))
    assert counts == [0] * len(TESTSET_TABLES)


async def test_another_projects_test_set_is_answered_like_an_unknown_one(database: Database) -> None:
    async with rest_client(app(database)) as http:
        testset = await create_testset(http)
        row = (await rows_of(http, testset))["data"][0]["id"]
    paths = ["", "/revisions", "/revisions/1", "/revisions/1/rows", f"/revisions/1/rows/{row}", "/diff?from=1&to=1"]
    async with rest_client(app(database), FakeCaller(project="other")) as http:
        for path in paths:
            theirs = await http.get(f"/api/testsets/{testset}{path}")
            unknown = await http.get(f"/api/testsets/{'ts_' + '0' * 26}{path}")
            assert (theirs.status_code, theirs.text.replace(testset, "?")) == (
                404,
                unknown.text.replace("ts_" + "0" * 26, "?"),
            )
        posted = await commit(http, testset, 1, delta={"remove": [row]})
        assert error(posted) == (404, "not_found", None)
        assert (await http.delete(f"/api/testsets/{testset}?purge=true")).status_code == 404


# Revisions


async def test_a_delta_makes_the_next_revision(http: httpx.AsyncClient) -> None:
    testset = await create_testset(http)
    ids = [row["id"] for row in (await rows_of(http, testset))["data"]]
    answer = await commit(
        http,
        testset,
        1,
        message="refund cases",
        delta={
            "columns": {"rename": {"expected": "answer"}, "fill": {"lang": "en"}},
            "remove": [ids[4]],
            "replace": [{"id": ids[0], "data": {"q": "other"}}],
            "patch": [{"id": ids[1], "set": {"city": "Oslo"}, "unset": ["answer"]}],
            "add": [{"data": {"q": "new"}, "after": ids[1]}],
        },
    )
    rows = (await rows_of(http, testset))["data"]

    body = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/api/testsets/{testset}/revisions/2"
    assert body | {"digest": "", "created_at": ""} == {
        "testset": testset,
        "revision": 2,
        "parent": 1,
        "digest": "",
        "rows": 5,
        "columns": ["q", "lang", "city", "answer"],
        "message": "refund cases",
        "author": "key_ab12cd34",
        "created_at": "",
        "unchanged": False,
    }
    assert [row["id"] for row in rows] == [ids[0], ids[1], rows[2]["id"], ids[2], ids[3]]
    assert [row["data"] for row in rows] == [
        {"q": "other"},
        {"q": "question 1", "lang": "en", "city": "Oslo"},
        {"q": "new"},
        {"q": "question 2", "answer": 2, "lang": "en"},
        {"q": "question 3", "answer": 3, "lang": "en"},
    ]
    assert [row["data"] for row in (await rows_of(http, testset, "1"))["data"]] == [row["data"] for row in ROWS]


async def test_column_changes_of_a_large_test_set_apply_to_all_rows_or_none(
    http: httpx.AsyncClient, database: Database
) -> None:
    from sqlalchemy import func, select

    from palaver.storage.testsets.tables import testset_contents, testset_imports

    many = [{"data": {"q": f"question {n}", "n": n}} for n in range(2_500)]
    testset = await create_testset(http, rows=many)
    ids = [row["id"] for row in (await rows_of(http, testset, limit=3))["data"]]
    delta = {
        "columns": {"rename": {"n": "number"}, "fill": {"lang": "en"}},
        "remove": [ids[0]],
        "patch": [{"id": ids[1], "set": {"number": -1}}],
    }
    wrong = await commit(http, testset, 1, delta=delta | {"columns": {"rename": {"none": "x"}}})
    too_long = await commit(http, testset, 1, delta={"columns": {"fill": {"lang": "x" * 1024 * 1024}}})
    counted = await database.read(lambda db: db.scalar(select(func.count()).select_from(testset_contents)))
    answer = await commit(http, testset, 1, delta=delta)
    first_rows = (await rows_of(http, testset, limit=3))["data"]

    assert error(wrong) == (422, "invalid_value", "/delta/columns/rename/none")
    assert (too_long.status_code, counted) == (413, 2_500)
    assert (answer.status_code, answer.json()["rows"], answer.json()["columns"]) == (
        201,
        2_499,
        ["q", "number", "lang"],
    )
    assert [row["data"] for row in first_rows] == [
        {"q": "question 1", "number": -1, "lang": "en"},
        {"q": "question 2", "number": 2, "lang": "en"},
        {"q": "question 3", "number": 3, "lang": "en"},
    ]
    assert await database.read(lambda db: db.scalar(select(func.count()).select_from(testset_imports))) == 0


async def test_a_commit_on_an_older_revision_is_rejected_with_the_head(http: httpx.AsyncClient) -> None:
    testset = await create_testset(http)
    await commit(http, testset, 1, delta={"add": [{"data": {"q": "one more"}}]})
    for body in ({"rows": ROWS}, {"delta": {}}, {"restore": 1}):
        stale = await commit(http, testset, 1, **body)
        assert (error(stale), stale.json()["error"]["details"]) == ((409, "stale_base", None), {"head": 2})


async def test_equal_rows_create_no_revision(http: httpx.AsyncClient) -> None:
    testset = await create_testset(http)
    again = await commit(http, testset, 1, rows=ROWS)

    assert (again.status_code, again.json()["unchanged"], again.json()["revision"]) == (200, True, 1)
    assert len((await http.get(f"/api/testsets/{testset}/revisions")).json()["data"]) == 1


async def test_unchanged_rows_keep_their_ids_in_a_commit_of_all_rows(
    http: httpx.AsyncClient,
) -> None:
    testset = await create_testset(http)
    ids = [row["id"] for row in (await rows_of(http, testset))["data"]]
    edited = [ROWS[3], ROWS[0], {"data": {"q": "new"}}, {"id": ids[1], "data": {"q": "changed"}}, ROWS[0]]
    await commit(http, testset, 1, rows=edited)
    after = [row["id"] for row in (await rows_of(http, testset))["data"]]

    assert after[:2] == [ids[3], ids[0]]
    assert after[3] == ids[1]
    assert len({*after, *ids}) == 7


async def test_an_older_revision_can_be_restored(http: httpx.AsyncClient) -> None:
    testset = await create_testset(http)
    before = await rows_of(http, testset)
    digest = (await http.get(f"/api/testsets/{testset}/revisions/1")).json()["digest"]
    await commit(http, testset, 1, rows=[])
    answer = await commit(http, testset, 2, restore=digest[:11])

    assert (answer.json()["revision"], answer.json()["digest"], answer.json()["rows"]) == (3, digest, 5)
    assert await rows_of(http, testset) == before
    assert (await http.get(f"/api/testsets/{testset}")).json()["rows"] == 5


async def test_a_revision_is_named_by_number_digest_or_head(http: httpx.AsyncClient) -> None:
    testset = await create_testset(http)
    revision = (await http.get(f"/api/testsets/{testset}/revisions/head")).json()
    digest = revision["digest"]

    for name in ("1", "head", digest, digest[:11], digest.removeprefix("b2:")[:8]):
        assert (await http.get(f"/api/testsets/{testset}/revisions/{name}")).json() == revision
    for name in ("2", "0", digest[:10], "b2:", "ffffffff", "Head", "-1", "1.0", "99999999999999999999"):
        assert error(await http.get(f"/api/testsets/{testset}/revisions/{name}")) == (404, "not_found", None)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"delta": {"remove": ["row_" + "0" * 26]}}, "/delta/remove/0"),
        ({"delta": {"replace": [{"id": "nobody", "data": {}}]}}, "/delta/replace/0/id"),
        ({"delta": {"add": [{"data": {}, "after": "row_" + "0" * 26}]}}, "/delta/add/0/after"),
        ({"delta": {"columns": {"rename": {"q": "expected"}}}}, "/delta/columns/rename/q"),
        ({"delta": {"add": [{"data": {"s": {"turns": [{"user": "hi", "expect": {"nope": 1}}]}}}]}}, None),
        ({"rows": [{"id": "nobody", "data": {}}]}, "/rows/0/id"),
        ({"rows": [{"id": "row_" + "0" * 26, "data": {}}, {"id": "row_" + "0" * 26, "data": {}}]}, "/rows/1/id"),
    ],
)
async def test_an_invalid_commit_is_rejected_with_its_path_and_nothing_is_written(
    http: httpx.AsyncClient, body: dict[str, Any], path: str | None
) -> None:
    testset = await create_testset(http)
    refused = await commit(http, testset, 1, **body)

    status, code, error_path = error(refused)
    assert (status, code) == (422, "invalid_value")
    assert error_path == path if path else (error_path or "").startswith("/delta/add/0/data/s")
    assert (await http.get(f"/api/testsets/{testset}")).json()["head"] == 1


async def test_a_commit_takes_exactly_one_of_rows_delta_and_restore(http: httpx.AsyncClient) -> None:
    testset = await create_testset(http)

    assert error(await commit(http, testset, 1)) == (400, "conflicting_fields", None)
    assert error(await commit(http, testset, 1, rows=[], delta={})) == (400, "conflicting_fields", None)
    assert error(await commit(http, testset, 1, restore=7)) == (404, "not_found", None)


async def test_a_repeated_commit_with_the_same_idempotency_key_is_replayed(http: httpx.AsyncClient) -> None:
    testset = await create_testset(http)
    body = {"base": 1, "delta": {"add": [{"data": {"q": "one more"}}]}}
    url, headers = f"/api/testsets/{testset}/revisions", {"idempotency-key": "k1"}
    first = await http.post(url, json=body, headers=headers)
    again = await http.post(url, json=body, headers=headers)
    other = await http.post(url, json=body | {"message": "x"}, headers=headers)

    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["idempotency-replayed"] == "true"
    assert error(other) == (409, "idempotency_mismatch", None)
    assert (await http.get(f"/api/testsets/{testset}")).json()["head"] == 2


async def test_a_commit_over_the_size_limits_is_rejected(database: Database) -> None:
    small = Settings(testset_max_rows=3, testset_max_columns=2, testset_max_row=40)
    async with rest_client(app(database, small)) as http:
        testset = await create_testset(http, rows=ROWS[:3])
        for body in (
            {"rows": ROWS},
            {"delta": {"add": [{"data": {}}]}},
            {"rows": [{"data": {"a": 1, "b": 2, "c": 3}}]},
            {"rows": [{"data": {"a": "x" * 40}}]},
        ):
            assert (await commit(http, testset, 1, **body)).status_code == 413


# Differences


async def test_a_diff_lists_differences_by_row_and_cell(http: httpx.AsyncClient) -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    testset = await create_testset(http, rows=[*ROWS, {"data": {"chat": messages}}])
    ids = [row["id"] for row in (await rows_of(http, testset))["data"]]
    await commit(
        http,
        testset,
        1,
        delta={
            "remove": [ids[4]],
            "patch": [
                {"id": ids[1], "set": {"expected": None}, "unset": ["q"]},
                {"id": ids[5], "set": {"chat": [messages[0], {"role": "assistant", "content": "HELLO"}], "note": 1}},
            ],
            "add": [{"data": {"q": "new"}, "after": None}],
        },
    )
    url = f"/api/testsets/{testset}/diff"
    diff = (await http.get(url, params={"from": 1, "to": 2})).json()
    first = (await http.get(url, params={"from": "1", "limit": 3})).json()
    second = (await http.get(url, params={"from": "1", "limit": 3, "after": first["next"]})).json()

    assert diff["counts"] == {"added": 1, "removed": 1, "changed": 2, "moved": 0}
    assert diff["columns"] == {"added": ["note"], "removed": []}
    assert diff["rows"] == [
        {"id": diff["rows"][0]["id"], "change": "added", "moved": False, "cells": [{"column": "q", "to": "new"}]},
        {
            "id": ids[1],
            "change": "changed",
            "moved": False,
            "cells": [{"column": "expected", "from": 1, "to": None}, {"column": "q", "from": "question 1"}],
        },
        {
            "id": ids[4],
            "change": "removed",
            "moved": False,
            "cells": [{"column": "q", "from": "question 4"}, {"column": "expected", "from": 4}],
        },
        {
            "id": ids[5],
            "change": "changed",
            "moved": False,
            "cells": [
                {
                    "column": "chat",
                    "from": messages,
                    "to": [messages[0], {"role": "assistant", "content": "HELLO"}],
                    "messages": [{"index": 1, "op": "changed"}],
                },
                {"column": "note", "to": 1},
            ],
        },
    ]
    assert first["rows"] + second["rows"] == diff["rows"]
    assert second["next"] is None
