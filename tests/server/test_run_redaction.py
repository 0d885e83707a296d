"""With scope `runs`, redacted text is not stored, while live streams are unchanged; on every database."""

import asyncio
from typing import Any

import msgspec
import pytest
from sqlalchemy import Connection, select

from palaver import Message, chat, workflow
from palaver.core.events import TextDelta, TextStarted
from palaver.core.runs import Call, Origin
from palaver.engine import recorder
from palaver.storage import runs
from palaver.storage.database import MEMORY_URL, Database, open_database
from palaver.storage.schema import metadata
from palaver.storage.spans.tables import PARTITIONED_TABLES
from tests.server.test_redaction import MASK, running_server

MAIL = "ada@example.org"
RULES = ({"detector": "email", "scope": ["runs", "traces"]}, {"path": "inputs.secret", "scope": "runs"})
REQUEST_BODY = {"messages": [{"role": "user", "content": f"Mail {MAIL}, please"}]}
STREAM = {"accept": "text/event-stream"}
gates: list[asyncio.Event] = []


@chat
async def parrot(messages: list[Message], secret: str = "") -> Any:
    """Repeats the message in pieces."""
    for letter in f"You said: {messages[-1].text} {secret}":
        yield letter


@chat(name="slow")
async def slow(messages: list[Message]) -> Any:
    """Stops in the middle of an address."""
    yield "First. "
    yield Message.assistant()
    yield "ada@exa"
    await gates[-1].wait()
    yield "mple.org"


@chat(name="own", redact=[{"path": "messages_in.*.text", "scope": ["runs"]}])
async def own(messages: list[Message]) -> str:
    """Has its own redaction rules."""
    return f"Hello {messages[-1].text}"


@workflow(name="plain")
def plain(to: str, secret: str) -> dict[str, str]:
    """Returns its inputs."""
    return {"to": to, "said": f"the secret is {secret}"}


WORKFLOWS = (parrot, slow, own, plain)


def dump_rows(db: Connection) -> str:
    """Return all stored rows as text, except those of the partitioned span tables."""
    tables = [table for table in metadata.sorted_tables if table not in PARTITIONED_TABLES]
    rows = [row for table in tables for row in db.execute(select(table))]
    return "\n".join(msgspec.json.encode([*row], enc_hook=str).decode() for row in rows) + "\n".join(map(str, rows))


async def test_calls_and_answers_are_stored_redacted_and_returned_unredacted(database: Database) -> None:
    async with running_server(database, *WORKFLOWS, redact=RULES) as (server, http):
        streamed = await http.post("/parrot/v1/responses", json={"input": f"Mail {MAIL}, please", "stream": True})
        invoked = await http.post("/parrot/invoke", json={**REQUEST_BODY, "inputs": {"secret": "the blue door"}})
        value = await http.post("/plain/invoke", json={"inputs": {"to": MAIL, "secret": "the blue door"}})
        await server.runtime.recorder.flush()
        stored = await database.read(dump_rows)
        runs = [(await http.get(f"/api/runs/{row['id']}?include=input,reply")).json() for row in await list_runs(http)]

    assert f"You said: Mail {MAIL}, please" in streamed.text
    assert f"You said: Mail {MAIL}, please the blue door" in invoked.text
    assert value.json() == {"to": MAIL, "said": "the secret is the blue door"}
    assert (MAIL in stored, "blue door" in stored, f"Mail {MASK}, please" in stored) == (False, False, True)
    assert runs[0]["reply"]["value"] == {"to": MASK, "said": f"the secret is {MASK}"}
    assert runs[0]["in"]["text"] != ""


async def list_runs(http: Any) -> list[dict[str, Any]]:
    return (await http.get("/api/runs")).json()["data"]


async def test_threads_and_conversations_are_stored_redacted(database: Database) -> None:
    async with running_server(database, *WORKFLOWS, redact=RULES) as (server, http):
        made = (await http.post("/api/threads", json={"workflow": "parrot", **REQUEST_BODY})).json()
        turn = await http.post(f"/api/threads/{made['id']}/turns", json=REQUEST_BODY, headers=STREAM)
        (
            await http.patch(f"/api/threads/{made['id']}", json={"inputs": {"secret": "the blue door"}})
        ).raise_for_status()
        (await http.post(f"/api/threads/{made['id']}/messages", json=REQUEST_BODY)).raise_for_status()
        conversation = (await http.post("/v1/conversations", json={})).json()["id"]
        body = {"model": "parrot", "input": f"Mail {MAIL}", "conversation": conversation}
        answered = await http.post("/v1/responses", json=body)
        imported = (await http.get("/api/threads/export")).text.replace(made["id"], "conv_copy").replace(MASK, MAIL)
        (
            await http.post("/api/threads/import", content=imported, headers={"content-type": "application/x-ndjson"})
        ).raise_for_status()
        await server.runtime.recorder.flush()
        stored = await database.read(dump_rows)
        thread = (await http.get(f"/api/threads/{made['id']}/messages")).json()["data"]

    assert f"Mail {MAIL}, please" in "".join(deltas(turn.text))
    assert f"Mail {MAIL}" in answered.text
    assert (MAIL in stored, "blue door" in stored) == (False, False)
    assert [one["parts"][0]["text"] for one in thread][:2] == [f"Mail {MASK}, please"] * 2
    assert (made["title"], stored.count("conv_copy") > 0) == (f"Mail {MASK}, please", True)


def deltas(stream: str) -> list[str]:
    lines = [msgspec.json.decode(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    return [line["delta"] for line in lines if isinstance(line.get("delta"), str)]


async def test_rules_of_a_workflow_apply_to_its_stored_runs(database: Database) -> None:
    async with running_server(database, *WORKFLOWS) as (server, http):
        made = (await http.post("/api/threads", json={"workflow": "own"})).json()["id"]
        messages = [{"role": "user", "content": "the blue door"}]
        answer = await http.post(f"/api/threads/{made}/turns", json={"messages": messages}, headers=STREAM)
        other = await http.post("/parrot/invoke", json={"messages": [{"role": "user", "content": "the red door"}]})
        await server.runtime.recorder.flush()
        stored = await database.read(dump_rows)

    assert "Hello the blue door" in answer.text.replace('"}\n\ndata: {"', "")
    assert "the red door" in other.text
    assert ("blue door" in stored, "the red door" in stored) == (False, True)


async def test_an_unfinished_item_is_stored_only_after_it_ends(database: Database) -> None:
    gates.append(asyncio.Event())  # Each test has its own event loop.
    async with running_server(database, *WORKFLOWS, redact=RULES) as (server, http):
        calling = asyncio.create_task(http.post("/slow/invoke", json=REQUEST_BODY, headers=STREAM))
        async with asyncio.timeout(60):
            while not (active := list(server.engine._active.values())) or "ada@exa" not in str(active[0].log):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        run = active[0]
        await server.runtime.recorder.flush()
        before = await database.read(runs.read_events, "default", run.id)
        gates[-1].set()
        answer = await calling
        await server.runtime.recorder.flush()
        after = await database.read(runs.read_events, "default", run.id)

    assert [event.delta for event in before if isinstance(event, TextDelta)] == ["First. "]
    assert len([event for event in before if isinstance(event, TextStarted)]) == 1
    assert "ada@exa" in answer.text
    assert [event.delta for event in after if isinstance(event, TextDelta)] == ["First. ", MASK, ""]
    assert [event.seq for event in after] == list(range(len(after)))


async def test_a_background_run_is_stored_redacted_after_it_ends(database: Database) -> None:
    async with running_server(database, *WORKFLOWS, redact=RULES) as (server, http):
        await server.runtime.start()
        body = {"model": "parrot", "input": f"Mail {MAIL}", "background": True, "instructions": f"As {MAIL}"}
        made = (await http.post("/v1/responses", json=body)).json()
        async with asyncio.timeout(60):
            while (stored := (await http.get(f"/v1/responses/{made['id']}")).json())["status"] != "completed":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        rows = await database.read(dump_rows)

    assert stored["output"][0]["content"][0]["text"].strip() == f"You said: Mail {MASK}"
    assert MAIL not in rows


async def test_a_queued_run_that_is_cancelled_is_stored_redacted(database: Database) -> None:
    async with running_server(database, *WORKFLOWS, redact=RULES) as (server, _):
        call = Call(workflow="parrot", messages=(Message.user(f"Mail {MAIL}"),), background=True)
        started = await server.runtime.run_queue.enqueue(
            parrot, call, Origin(background=True, stored=True), "run_waits"
        )
        waiting = await database.read(dump_rows)
        row = await server.runtime.run_reader.cancel("default", started.run_id)
        stored = await database.read(dump_rows)
        await server.runtime.run_reader.cancel("default", started.run_id)

    assert row.status == "cancelled"
    assert (MAIL in waiting, MAIL in stored, f"Mail {MASK}" in stored) == (True, False, True)


async def test_only_the_last_runs_can_be_followed_unredacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_MAX_RECENT_LOGS", 2)
    async with running_server(open_database(MEMORY_URL), *WORKFLOWS, redact=RULES) as (server, http):
        answers = [await http.post("/parrot/invoke", json=REQUEST_BODY) for _ in range(3)]
        runs = [answer.headers["x-palaver-run-id"] for answer in answers]
        texts = [str([batch async for batch in server.runtime.run_reader.follow("default", run)]) for run in runs]
        theirs = server.runtime.recorder.recent_events("theirs", runs[-1])

    assert [MASK in text for text in texts] == [True, False, False]
    assert theirs == ()


async def test_without_a_rule_for_runs_the_text_is_stored_unredacted() -> None:
    database = open_database(MEMORY_URL)
    async with running_server(database, *WORKFLOWS, redact=({"detector": "email"},)) as (server, http):
        (await http.post("/parrot/invoke", json=REQUEST_BODY)).raise_for_status()
        await server.runtime.recorder.flush()
        stored = await database.read(dump_rows)

    assert f"Mail {MAIL}, please" in stored
