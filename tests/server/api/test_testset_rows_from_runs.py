"""POST /api/testsets/{id}/rows/from: runs, traces and threads become rows, with the answer as expected value."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import msgspec
import pytest
from sqlalchemy import insert

from palaver.core.messages import Message
from palaver.core.runs import Call
from palaver.discovery.registry import Registry
from palaver.server.api import testset_revisions, testsets
from palaver.server.redaction import RedactionPolicy
from palaver.server.settings import Settings
from palaver.storage.database import MEMORY_URL, Database, open_database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations.repository import NewEvaluation
from palaver.storage.evaluations.results import compress_result as packed_result
from palaver.storage.evaluations.tables import evaluation_results
from palaver.storage.spans.writes import compress_body
from palaver.storage.tables import runs
from palaver.storage.threads import repository as threads
from palaver.testsets.rows import pack_row_id
from palaver.traces.model import Span
from tests.server.rest_client import FakeCaller, application, rest_client
from tests.storage.span_factory import NOON, insert_rows, span_id, span_row, trace_id
from tests.storage.thread_factory import NOW, assistant, create_conversation, new_thread, post_messages, run_row, user

RULE = {"detector": "email", "action": "mask", "scope": ["testsets"]}


@pytest.fixture(params=["memory", "postgresql"])
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    url = MEMORY_URL if request.param == "memory" else request.getfixturevalue("postgres_url")
    opened = open_database(url)
    yield opened
    await opened.close()


def app(database: Database, **settings: Any) -> Any:
    app_settings = Settings(**settings)
    return application(
        [testsets.TestSetController, testset_revisions.TestSetRowController, testset_revisions.TestSetCaseController],
        database=database,
        settings=app_settings,
        redaction=RedactionPolicy(app_settings, Registry([])),
    )


@pytest.fixture
async def http(database: Database) -> AsyncIterator[httpx.AsyncClient]:
    async with rest_client(app(database)) as client:
        yield client


async def create_testset(http: httpx.AsyncClient, *rows: dict[str, Any]) -> str:
    body = {"name": "Refunds", "rows": [{"data": data} for data in rows]}
    return (await http.post("/api/testsets", json=body)).json()["id"]


async def add_rows_from(http: httpx.AsyncClient, testset: str, source: dict[str, Any], **more: Any) -> httpx.Response:
    body = {"base": 1, "source": source, **more}
    return await http.post(f"/api/testsets/{testset}/rows/from", json=body)


def error(answer: httpx.Response) -> tuple[int, str, str | None]:
    body = answer.json()["error"]
    return answer.status_code, body["code"], body.get("path")


# Conversations


async def test_a_conversation_becomes_a_row(http: httpx.AsyncClient, database: Database) -> None:
    await create_conversation(database, "hi", "hello", "and?", "so")
    testset = await create_testset(http)
    answer = await add_rows_from(http, testset, {"kind": "conversation", "id": "conv_1"}, message="a case")
    body = answer.json()

    assert answer.status_code == 201
    assert answer.headers["location"] == f"/api/testsets/{testset}/revisions/2"
    assert (body["revision"], body["rows"], body["message"]) == (2, 1, "a case")
    assert body["data"] == {
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "hello"},
            {"role": "user", "content": "and?"},
        ],
        "expected": {"role": "assistant", "content": "so"},
    }
    rows = (await http.get(f"/api/testsets/{testset}/revisions/head/rows")).json()["data"]
    assert [(one["id"], one["data"]) for one in rows] == [(body["row"], body["data"])]
    row = (await http.get(f"/api/testsets/{testset}/revisions/head/rows/{body['row']}")).json()
    assert row["meta"] == {"source": {"kind": "conversation", "id": "conv_1", "upto": None}}


async def test_a_conversation_is_cut_at_the_named_message_on_any_branch(
    http: httpx.AsyncClient, database: Database
) -> None:
    await create_conversation(database, "hi", "hello", "and?", "so")
    (other,) = await post_messages(database, "u1", assistant("servus", "a9"))
    await database.write(threads.move_head, "default", "conv_1", "a2")
    testset = await create_testset(http)

    first = (await add_rows_from(http, testset, {"kind": "conversation", "id": "conv_1", "upto": "a1"})).json()
    second = (
        await add_rows_from(http, testset, {"kind": "conversation", "id": "conv_1", "upto": other}, base=2)
    ).json()

    assert first["data"]["expected"] == {"role": "assistant", "content": "hello"}
    assert second["data"]["expected"] == {"role": "assistant", "content": "servus"}


async def test_inputs_of_the_run_become_columns(http: httpx.AsyncClient, database: Database) -> None:
    call = msgspec.json.encode(Call(workflow="tutor", inputs={"subject": "maths"}))
    thread = new_thread(inputs={"subject": "physics"})
    await database.write(threads.create_thread, "default", thread, [user("hi", "u1")])
    await database.write(lambda db: db.execute(insert(runs), [run_row("run_1", "conv_1", call=call)]))
    await post_messages(database, "u1", assistant("hello", "a1"), origin="run", run="run_1")
    testset = await create_testset(http)
    source = {"kind": "conversation", "id": "conv_1"}
    answer = (await add_rows_from(http, testset, source, columns={"subject": "topic"})).json()

    assert {name: answer["data"][name] for name in ("topic", "expected")} == {
        "topic": "maths",
        "expected": {"role": "assistant", "content": "hello"},
    }


async def test_a_conversation_becomes_a_script(http: httpx.AsyncClient, database: Database) -> None:
    await create_conversation(database, "hi", "hello", "and?", "so")
    testset = await create_testset(http)
    answer = await add_rows_from(http, testset, {"kind": "conversation", "id": "conv_1"}, **{"as": "script"})

    assert answer.json()["data"] == {"script": {"turns": [{"user": "hi"}, {"user": "and?"}]}}


async def test_redaction_rules_for_test_sets_are_applied(database: Database) -> None:
    await create_conversation(database, "I am ann@example.org", "Hello ann@example.org")
    async with rest_client(app(database, redact=(RULE,))) as http:
        answer = await add_rows_from(http, await create_testset(http), {"kind": "conversation", "id": "conv_1"})

    assert "example.org" not in answer.text
    assert answer.json()["data"]["messages"][0]["content"].startswith("I am ")


@pytest.mark.parametrize(
    ("row", "renamed", "column"),
    [
        ({"question": "hi", "expected": "a"}, {}, "expected"),
        ({"question": "hi", "correct_answer": "a"}, {}, "correct_answer"),
        ({"question": "hi", "reference": "a"}, {}, "reference"),
        ({"question": "hi", "Answer": "a"}, {}, "Answer"),
        ({"input": "hi", "output": "a"}, {}, "output"),
        ({"question": "hi", "output": "a", "reference": "b"}, {}, "reference"),
        ({"question": "hi", "solution": "a"}, {}, "expected"),
        ({"question": "hi", "reference": "a"}, {"expected": "solution"}, "solution"),
        ({"question": "hi", "reference": "a"}, {"messages": "reference"}, "expected"),
    ],
)
async def test_the_answer_is_added_to_the_column_with_the_test_sets_expected_answers(
    http: httpx.AsyncClient, database: Database, row: dict[str, Any], renamed: dict[str, str], column: str
) -> None:
    await create_conversation(database, "hi", "hello")
    testset = await create_testset(http, row)
    answer = await add_rows_from(http, testset, {"kind": "conversation", "id": "conv_1"}, columns=renamed)

    messages = renamed.get("messages", "messages")
    assert answer.json()["data"] == {
        messages: [{"role": "user", "content": "hi"}],
        column: {"role": "assistant", "content": "hello"},
    }


async def test_an_input_of_the_call_is_not_the_column_of_expected_answers(
    http: httpx.AsyncClient, database: Database
) -> None:
    thread = new_thread(inputs={"answer": "by mail"})
    await database.write(threads.create_thread, "default", thread, [user("hi", "u1"), assistant("hello", "a1")])
    testset = await create_testset(http, {"messages": "hi", "answer": "by phone"})
    added = (await add_rows_from(http, testset, {"kind": "conversation", "id": "conv_1"})).json()["data"]

    assert {name: added[name] for name in ("answer", "expected")} == {
        "answer": "by mail",
        "expected": {"role": "assistant", "content": "hello"},
    }


# Traces


async def test_a_trace_becomes_a_row(http: httpx.AsyncClient, database: Database) -> None:
    span = Span(
        trace_id=trace_id("t"),
        span_id=span_id("root"),
        start=NOON,
        kind="llm",
        messages_in=(Message.user("hi"),),
        messages_out=(Message.assistant("hello"),),
    )
    await insert_rows(database, span_row("root", project="default", body=compress_body(msgspec.json.encode(span))))
    testset = await create_testset(http)
    from_trace = await add_rows_from(http, testset, {"kind": "trace", "trace_id": trace_id("t")})
    from_span = await add_rows_from(
        http, testset, {"kind": "trace", "trace_id": trace_id("t"), "span_id": span_id("root")}, base=2
    )

    expected = {
        "messages": [{"role": "user", "content": "hi"}],
        "expected": {"role": "assistant", "content": "hello"},
    }
    assert (from_trace.json()["data"], from_span.json()["data"]) == (expected, expected)
    assert from_span.json()["rows"] == 2


# Results


CHAT_VARIANT = {"name": "base", "workflow": "tutor", "is_chat": True, "map": {"expected": "answer"}}


async def store_evaluation(
    database: Database, testset: str, row: str, variant: Mapping[str, Any] = CHAT_VARIANT
) -> None:
    """Store an evaluation whose third cell has an answer."""
    plan = {
        "name": "",
        "testset": {"id": testset, "name": "Refunds", "revision": 1},
        "variants": [variant],
        "evaluators": [],
    }
    planned = NewEvaluation(
        id="ev_1",
        name="",
        testset=testset,
        revision=1,
        total=1,
        plan=plan,
        rows=pack_row_id(row) + b"\0" * 16,
        concurrency=1,
        slices=[],
    )
    await database.write(evaluations.create_evaluation, "default", planned, NOW)
    body = packed_result({"messages": [Message.assistant("better")], "history": [], "inputs": {}})
    values: dict[str, Any] = {
        "project": "default",
        "evaluation": "ev_1",
        "cell": 2,
        "seq": 1,
        "row": row,
        "variant": 0,
        "repeat": 0,
        "status": "done",
        "attempts": 1,
        "started_at": NOW,
        "ended_at": NOW,
        "folded": "",
        "body": body,
    }
    await database.write(lambda db: db.execute(insert(evaluation_results), [values]))


async def test_the_answer_of_a_result_is_accepted_as_the_expected_value(
    http: httpx.AsyncClient, database: Database
) -> None:
    testset = await create_testset(http, {"q": "one", "answer": "old"}, {"q": "two"})
    rows = (await http.get(f"/api/testsets/{testset}/revisions/head/rows")).json()["data"]
    await store_evaluation(database, testset, rows[0]["id"])
    source = {"kind": "result", "run": "ev_1", "result": "cell_2"}
    answer = await add_rows_from(http, testset, source)
    same = await add_rows_from(http, testset, source, base=2)
    other = (await http.post("/api/testsets", json={"name": "other"})).json()["id"]
    elsewhere = await add_rows_from(http, other, source)
    script = await add_rows_from(http, testset, source, base=2, **{"as": "script"})

    accepted = {"q": "one", "answer": {"role": "assistant", "content": "better"}}
    assert (answer.status_code, answer.json()["row"], answer.json()["rows"]) == (201, rows[0]["id"], 2)
    assert answer.json()["data"] == accepted
    assert (same.status_code, same.json()["unchanged"]) == (200, True)
    assert (elsewhere.json()["data"], elsewhere.json()["rows"]) == (accepted, 1)
    assert error(script) == (422, "invalid_value", "/as")


async def test_the_answer_of_a_result_is_added_to_the_expected_column_of_another_test_set(
    http: httpx.AsyncClient, database: Database
) -> None:
    testset = await create_testset(http, {"q": "one", "answer": "old"})
    rows = (await http.get(f"/api/testsets/{testset}/revisions/head/rows")).json()["data"]
    await store_evaluation(database, testset, rows[0]["id"])
    other = {"name": "other", "rows": [{"data": {"q": "three", "reference": "old"}}]}
    other_id = (await http.post("/api/testsets", json=other)).json()["id"]
    added = await add_rows_from(http, other_id, {"kind": "result", "run": "ev_1", "result": "cell_2"})

    assert added.json()["data"] == {"q": "one", "reference": {"role": "assistant", "content": "better"}}


async def test_the_answer_is_added_to_the_column_that_an_evaluation_used_as_expected(
    http: httpx.AsyncClient, database: Database
) -> None:
    await create_conversation(database, "hi", "hello")
    testset = await create_testset(http, {"q": "one", "answer": "by ann", "reference": "a page"})
    rows = (await http.get(f"/api/testsets/{testset}/revisions/head/rows")).json()["data"]
    await store_evaluation(database, testset, rows[0]["id"])
    added = await add_rows_from(http, testset, {"kind": "conversation", "id": "conv_1"})

    assert added.json()["data"]["answer"] == {"role": "assistant", "content": "hello"}


async def test_an_answer_is_not_added_to_a_column_of_recorded_answers(
    http: httpx.AsyncClient, database: Database
) -> None:
    await create_conversation(database, "hi", "hello")
    testset = await create_testset(http, {"q": "one", "answer": "recorded"})
    rows = (await http.get(f"/api/testsets/{testset}/revisions/head/rows")).json()["data"]
    await store_evaluation(database, testset, rows[0]["id"], {"name": "recorded", "column": "answer"})
    added = await add_rows_from(http, testset, {"kind": "conversation", "id": "conv_1"})

    assert sorted(added.json()["data"]) == ["expected", "messages"]


# Rejected requests


@pytest.mark.parametrize(
    ("source", "expected_error"),
    [
        ({"kind": "conversation", "id": "conv_0"}, (404, "thread_not_found", None)),
        ({"kind": "conversation", "id": "conv_1", "upto": "nobody"}, (404, "item_not_found", "/source/upto")),
        ({"kind": "trace", "trace_id": "0" * 32}, (404, "not_found", None)),
        ({"kind": "result", "run": "ev_0", "result": "cell_1"}, (404, "not_found", None)),
        ({"kind": "rumour"}, (422, "invalid_value", "/source")),
    ],
)
async def test_an_unknown_or_invalid_source_is_rejected(
    http: httpx.AsyncClient, database: Database, source: dict[str, Any], expected_error: tuple[int, str, str | None]
) -> None:
    await create_conversation(database, "hi", "hello")

    status, code, path = error(await add_rows_from(http, await create_testset(http), source))
    assert (status, code) == expected_error[:2]
    assert expected_error[2] is None or (path or "").startswith(expected_error[2])


async def test_another_projects_conversation_is_not_found(database: Database) -> None:
    await create_conversation(database, "hi", "hello")
    async with rest_client(app(database), FakeCaller(project="other")) as http:
        testset = await create_testset(http)
        theirs = await add_rows_from(http, testset, {"kind": "conversation", "id": "conv_1"})

    assert error(theirs) == (404, "thread_not_found", None)


async def test_a_base_other_than_the_head_revision_is_rejected(http: httpx.AsyncClient, database: Database) -> None:
    await create_conversation(database, "hi", "hello")
    testset = await create_testset(http)

    response = await add_rows_from(http, testset, {"kind": "conversation", "id": "conv_1"}, base=7)
    assert (error(response), response.json()["error"]["details"]) == ((409, "stale_base", None), {"head": 1})
