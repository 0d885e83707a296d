"""/api/evaluations: validated and created, listed, cancelled, rerun and deleted."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from palaver.server.api.evaluations import EvaluationController
from palaver.server.settings import Settings
from palaver.storage import variants
from palaver.storage.database import MEMORY_URL, Database, open_database
from palaver.storage.variants import VariantDraft
from tests.server.api.evaluation_server import NOON, ROWS, answer_all, create_test_set, evaluation_dependencies
from tests.server.rest_client import FakeCaller, application, rest_client

SETTINGS = Settings(eval_max_cells=30, eval_max_cost=2.5)
BODY: dict[str, Any] = {
    "name": "prompt v3",
    "testset": {"id": "ts_1", "revision": 1},
    "variants": [
        {"name": "base", "workflow": "tutor"},
        {"name": "new", "workflow": "tutor", "parameters": {"style": "short"}},
    ],
    "evaluators": [{"key": "exact_match"}, {"key": "regex", "name": "starts", "parameters": {"pattern": "^[A-Z0-9]"}}],
    "repeats": 2,
}
UNMAPPED: dict[str, Any] = {**dict.fromkeys(["history", "script", "spoken"]), "expected_fallbacks": []}
"""Targets that no column is mapped to."""


@pytest.fixture(params=["memory", "postgresql"])
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    url = MEMORY_URL if request.param == "memory" else request.getfixturevalue("postgres_url")
    opened = open_database(url)
    await create_test_set(opened)
    yield opened
    await opened.close()


@pytest.fixture
def wake_calls() -> list[str]:
    return []


@pytest.fixture
async def http(database: Database, wake_calls: list[str]) -> AsyncIterator[httpx.AsyncClient]:
    async with rest_client(app(database, wake_calls)) as client:
        yield client


def app(database: Database, wake_calls: list[str]) -> Any:
    dependencies = evaluation_dependencies(database, SETTINGS)
    return application([EvaluationController], **dependencies, wake_runner=lambda: wake_calls.append("wake"))


async def start_evaluation(http: httpx.AsyncClient, **more: Any) -> dict[str, Any]:
    answer = await http.post("/api/evaluations", json=BODY | more)
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == f"/api/evaluations/{answer.json()['id']}"
    return answer.json()


async def test_a_new_evaluation_is_queued_with_all_its_cells(http: httpx.AsyncClient, wake_calls: list[str]) -> None:
    made = await start_evaluation(http)

    assert made == {"id": made["id"], "state": "queued", "total": 12}
    assert made["id"].startswith("ev_")
    assert wake_calls == ["wake"]


async def test_an_evaluation_shows_its_variants_evaluators_and_test_set(http: httpx.AsyncClient) -> None:
    made = await start_evaluation(http)
    answer = await http.get(f"/api/evaluations/{made['id']}")
    shown = answer.json()

    columns = {"messages": "messages", "expected": "expected", "inputs": {}} | UNMAPPED
    assert shown["variants"] == [
        {
            "name": name,
            "workflow": "tutor",
            "variant": None,
            "parameters": parameters,
            "column": None,
            "is_chat": True,
            "is_chat_source": "declared",
            "map": columns,
        }
        for name, parameters in (("base", {}), ("new", {"style": "short"}))
    ]
    assert shown["evaluators"] == [
        {"key": "exact_match", "name": "exact_match", "parameters": {}},
        {"key": "regex", "name": "starts", "parameters": {"pattern": "^[A-Z0-9]"}},
    ]
    assert shown["testset"] == {"id": "ts_1", "name": "questions ts_1", "revision": 1}
    assert shown["limits"]["max_cost"] == 2.5
    figures = {"state": "queued", "rows": 3, "repeats": 2, "total": 12, "done": 0, "failed": 0, "errors": 0, "seq": 0}
    assert {name: shown[name] for name in figures} == figures
    same = await http.get(f"/api/evaluations/{made['id']}", headers={"if-none-match": answer.headers["etag"]})
    assert same.status_code == 304


async def test_a_question_column_is_mapped_to_the_messages_of_a_chat(
    http: httpx.AsyncClient, database: Database
) -> None:
    await create_test_set(database, [{"id": 1, "question": "2+2?", "expected": "4"}], id="ts_2")
    made = await start_evaluation(http, testset={"id": "ts_2"})
    shown = (await http.get(f"/api/evaluations/{made['id']}")).json()

    columns = {"messages": "question", "expected": "expected", "inputs": {}} | UNMAPPED
    assert [one["map"] for one in shown["variants"]] == [columns, columns]


async def test_a_question_column_is_also_mapped_when_some_rows_have_no_messages(
    http: httpx.AsyncClient, database: Database
) -> None:
    imported = {"question": "2+2?", "expected": "4"}
    await create_test_set(database, [imported, ROWS[0], {"messages": None, **imported}], id="ts_2")
    made = await start_evaluation(http, testset={"id": "ts_2"})
    shown = (await http.get(f"/api/evaluations/{made['id']}")).json()

    columns = {"messages": "messages", "expected": "expected", "inputs": {}} | UNMAPPED | {"spoken": "question"}
    assert [one["map"] for one in shown["variants"]] == [columns, columns]


async def test_the_list_is_newest_first_and_filtered(http: httpx.AsyncClient, database: Database) -> None:
    await create_test_set(database, id="ts_2")
    first = await start_evaluation(http, name="Alpha")
    second = await start_evaluation(http, name="beta", testset={"id": "ts_2"})
    (await http.post(f"/api/evaluations/{first['id']}/cancel", json={})).raise_for_status()

    async def names(**query: Any) -> list[str]:
        return [row["name"] for row in (await http.get("/api/evaluations", params=query)).json()["data"]]

    listed = (await http.get("/api/evaluations", params={"limit": 1})).json()
    assert [row["id"] for row in listed["data"]] == [second["id"]]
    assert (listed["data"][0]["variants"], listed["data"][0]["evaluators"]) == (
        ["base", "new"],
        ["exact_match", "starts"],
    )
    assert await names(limit=1, after=listed["next"]) == ["Alpha"]
    assert await names(search="ALPH") == ["Alpha"]
    assert await names(state="cancelled") == ["Alpha"]
    assert await names(testset="ts_2") == ["beta"]
    refused = await http.get("/api/evaluations", params={"state": "gone"})
    assert (refused.status_code, refused.json()["error"]["path"]) == (400, "?state")


async def test_a_stored_variant_is_fixed_to_its_version(http: httpx.AsyncClient, database: Database) -> None:
    short = VariantDraft(workflow="tutor", name="short", parameters={"style": "short"})
    await database.write(variants.create_variant, "default", short, id="var_1", at=NOON)
    made = await start_evaluation(http, variants=[{"workflow": "tutor", "variant": "short"}])
    [shown] = (await http.get(f"/api/evaluations/{made['id']}")).json()["variants"]

    assert (shown["name"], shown["variant"], shown["parameters"]) == ("short:1", "short:1", {"style": "short"})


async def test_a_filter_and_a_sample_choose_rows(http: httpx.AsyncClient) -> None:
    by_text = await start_evaluation(http, testset={"id": "ts_1", "rows": {"filter": "topic=maths"}}, repeats=1)
    by_value = await start_evaluation(http, testset={"id": "ts_1", "rows": {"filter": {"topic": "cities"}}}, repeats=1)
    sampled = await start_evaluation(http, testset={"id": "ts_1", "rows": {"sample": 2, "seed": 7}}, repeats=1)

    assert [one["total"] for one in (by_text, by_value, sampled)] == [4, 2, 4]
    shown = (await http.get(f"/api/evaluations/{sampled['id']}")).json()
    assert (shown["rows"], shown["selection"]["sample"], shown["selection"]["seed"]) == (2, 2, 7)


INVALID_REQUESTS: list[tuple[dict[str, Any], int, str, str]] = [
    ({"evaluators": []}, 422, "invalid_value", "/evaluators"),
    ({"evaluators": [{"key": "os:system"}]}, 422, "invalid_value", "/evaluators/0/key"),
    (
        {"evaluators": [{"key": "regex", "parameters": {"pattern": "("}}]},
        422,
        "invalid_value",
        "/evaluators/0/parameters/pattern",
    ),
    (
        {"evaluators": [{"key": "exact_match", "parameters": {"a": 1}}]},
        422,
        "invalid_value",
        "/evaluators/0/parameters/a",
    ),
    ({"evaluators": [{"key": "exact_match"}] * 2}, 422, "invalid_value", "/evaluators/1/name"),
    ({"variants": [{"workflow": "gone"}]}, 422, "invalid_value", "/variants/0/workflow"),
    (
        {"variants": [{"workflow": "tutor", "parameters": {"a": 1}}]},
        422,
        "unknown_parameter",
        "/variants/0/parameters/a",
    ),
    ({"variants": [{"workflow": "tutor", "variant": "gone:3"}]}, 422, "invalid_parameter", "/variants/0/variant"),
    ({"map": {"expected": "gone"}}, 422, "invalid_value", "/map/expected"),
    ({"repeats": 0}, 422, "invalid_value", "/repeats"),
    ({"repeats": 101}, 422, "invalid_value", "/repeats"),
    ({"repeats": 6}, 422, "invalid_value", "/testset/rows"),
    ({"testset": {"id": "ts_1", "rows": {"filter": "x"}}}, 422, "invalid_value", "/testset/rows/filter"),
    ({"testset": {"id": "ts_1", "rows": {"filter": "topic=art"}}}, 422, "invalid_value", "/testset/rows"),
    ({"testset": {}}, 400, "invalid_body", "/testset/id"),
    ({"limits": {"concurrency": "many"}}, 400, "invalid_type", "/limits/concurrency"),
]


@pytest.mark.parametrize(("more", "status", "code", "path"), INVALID_REQUESTS)
async def test_an_invalid_request_is_rejected_and_nothing_starts(
    http: httpx.AsyncClient, wake_calls: list[str], more: dict[str, Any], status: int, code: str, path: str
) -> None:
    refused = await http.post("/api/evaluations", json=BODY | more)

    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error.get("path")) == (status, code, path), error
    assert (await http.get("/api/evaluations")).json()["data"] == []
    assert wake_calls == []


async def test_another_projects_test_set_and_evaluation_are_not_found(
    http: httpx.AsyncClient, database: Database
) -> None:
    made = await start_evaluation(http)
    async with rest_client(app(database, []), FakeCaller(project="other")) as other_client:
        refused = await other_client.post("/api/evaluations", json=BODY)
        unknown = await other_client.post("/api/evaluations", json=BODY | {"testset": {"id": "ts_0"}})
        assert (refused.status_code, unknown.status_code) == (404, 404)
        assert refused.text.replace("ts_1", "ts_0") == unknown.text
        for method, path in (
            ("GET", ""),
            ("DELETE", ""),
            ("POST", "/cancel"),
            ("POST", "/rerun"),
        ):
            response = await other_client.request(method, f"/api/evaluations/{made['id']}{path}", json={})
            missing = await other_client.request(method, f"/api/evaluations/ev_0{path}", json={})
            assert (response.status_code, response.text.replace(made["id"], "ev_0")) == (404, missing.text)
        assert (await other_client.get("/api/evaluations")).json()["data"] == []


async def test_a_repeated_request_with_the_same_idempotency_key_is_replayed(http: httpx.AsyncClient) -> None:
    headers = {"idempotency-key": "once"}
    first = await http.post("/api/evaluations", json=BODY, headers=headers)
    again = await http.post("/api/evaluations", json=BODY, headers=headers)
    other = await http.post("/api/evaluations", json=BODY | {"name": "b"}, headers=headers)

    assert (again.status_code, again.json(), again.headers["idempotency-replayed"]) == (202, first.json(), "true")
    assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_mismatch")
    assert len((await http.get("/api/evaluations")).json()["data"]) == 1


async def test_cancelling_a_queued_evaluation_is_immediate_and_idempotent(http: httpx.AsyncClient) -> None:
    made = await start_evaluation(http)
    first = await http.post(f"/api/evaluations/{made['id']}/cancel", json={})
    again = await http.post(f"/api/evaluations/{made['id']}/cancel", json={})

    assert (first.status_code, first.json()["state"]) == (200, "cancelled")
    assert again.json() == first.json()


async def test_failed_cells_are_rerun_in_the_same_evaluation(http: httpx.AsyncClient, database: Database) -> None:
    made = await start_evaluation(http)
    at = f"/api/evaluations/{made['id']}"
    early = await http.post(f"{at}/rerun", json={"which": "failed"})
    await answer_all(database, made["id"])
    before = (await http.get(at)).json()
    again = await http.post(f"{at}/rerun", json={})

    assert (early.status_code, early.json()["error"]["code"]) == (409, "still_running")
    assert (before["state"], before["done"], before["failed"], before["seq"]) == ("partly", 10, 2, 12)
    assert (again.status_code, again.json()["state"], again.json()["done"]) == (202, "queued", 10)
    assert again.json()["failed"] == 0
    wrong = await http.post(f"{at}/rerun", json={"which": "some"})
    assert (wrong.status_code, wrong.json()["error"]["path"]) == (422, "/which")


async def test_a_deleted_evaluation_is_not_found(http: httpx.AsyncClient) -> None:
    made = await start_evaluation(http)

    assert (await http.delete(f"/api/evaluations/{made['id']}")).status_code == 204
    assert (await http.get(f"/api/evaluations/{made['id']}")).status_code == 404
    assert (await http.delete(f"/api/evaluations/{made['id']}")).status_code == 404


async def test_a_column_variant_needs_no_workflow(http: httpx.AsyncClient, database: Database) -> None:
    await create_test_set(database, [row | {"old": "Paris"} for row in ROWS], id="ts_2")
    made = await start_evaluation(
        http, testset={"id": "ts_2"}, variants=[{"name": "recorded", "column": "old"}], repeats=1
    )
    shown = (await http.get(f"/api/evaluations/{made['id']}")).json()

    assert (made["total"], shown["variants"][0]["column"], shown["variants"][0]["workflow"]) == (3, "old", None)
