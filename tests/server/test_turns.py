"""Turns in a thread: messages and answers, concurrent turns, and runs without readers."""

import asyncio
from datetime import datetime
from typing import Any

import httpx
import pytest

from palaver.engine.engine import new_run_id
from palaver.storage.threads import repository as threads
from tests.server.thread_client import (
    branch,
    events,
    new_thread,
    nodes,
    problem,
    release,
    take_turn,
    thread_server,
    wait_for_run,
    wait_for_start,
)

STREAM = {"accept": "text/event-stream"}


async def test_a_turn_adds_messages_and_starts_the_run_that_answers_them() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "echo", "one", "two")

        taken = await http.post(
            f"/api/threads/{thread}/turns", json={"messages": [{"role": "user", "content": "three"}]}
        )

        run, (message,) = taken.json()["run"], taken.json()["messages"]
        ended = await wait_for_run(http, run["id"])
        assert (taken.status_code, taken.headers["location"]) == (202, f"/api/runs/{run['id']}")
        assert (message["role"], message["parts"], message["siblings"]) == (
            "user",
            [{"type": "text", "text": "three"}],
            [message["id"]],
        )
        assert (run["thread"], run["answers"], run["session"]) == (thread, message["id"], thread)
        assert (run["protocol"], run["background"], run["workflow"]) == ("turns", False, "echo")
        assert (ended["status"], ended["finish"], ended["in"]["text"], ended["out"]["text"]) == (
            "finished",
            "stop",
            "three",
            "user: one | assistant: two | user: three",
        )
        assert await branch(http, thread) == [
            ("user", "one"),
            ("assistant", "two"),
            ("user", "three"),
            ("assistant", "user: one | assistant: two | user: three"),
        ]
        after = (await http.get(f"/api/threads/{thread}")).json()
        last = (await nodes(http, thread))[-1]
        assert (after["run"], after["head"]) == (None, last["id"])
        assert (last["run"], last["origin"], last["status"]) == (run["id"], "run", "done")
        took = datetime.fromisoformat(ended["ended_at"]) - datetime.fromisoformat(ended["started_at"])
        assert (last["seconds"], message["seconds"]) == (took.total_seconds(), None)


async def test_a_turn_can_be_streamed() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http)

        answer = await http.post(
            f"/api/threads/{thread}/turns", json={"messages": [{"role": "user", "content": "hi"}]}, headers=STREAM
        )

        streamed = events(answer.text)
        run = answer.headers["x-palaver-run-id"]
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")
        assert [number for number, _ in streamed] == list(range(len(streamed)))
        assert [event["type"] for _, event in streamed] == [
            "run-started",
            "text-started",
            "text-delta",
            "text-ended",
            "run-finished",
        ]
        assert streamed[0][1]["run_id"] == run
        assert (await http.get(f"/api/runs/{run}/events")).text == answer.text


async def test_a_turn_answers_the_head_or_continues_from_another_parent() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "echo", "one", "two", "three")
        first = (await nodes(http, thread))[0]["id"]

        at_head = await take_turn(http, thread)
        await wait_for_run(http, at_head["run"]["id"])
        at_first = await take_turn(http, thread, "other", parent=first)
        await wait_for_run(http, at_first["run"]["id"])
        at_root = await take_turn(http, thread, "anew", parent=None)
        await wait_for_run(http, at_root["run"]["id"])

        assert at_head["messages"] == []
        assert await branch(http, thread, at=at_first["messages"][0]["id"]) == [("user", "one"), ("user", "other")]
        assert await branch(http, thread) == [("user", "anew"), ("assistant", "user: anew")]


async def test_regenerating_an_answer_adds_a_sibling() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http)
        first = await wait_for_run(http, (await take_turn(http, thread, "hi"))["run"]["id"])
        question, answer = await nodes(http, thread)

        second = await take_turn(http, thread, again=answer["id"])
        await wait_for_run(http, second["run"]["id"])

        last = (await nodes(http, thread))[-1]
        assert (second["messages"], second["run"]["answers"]) == ([], question["id"])
        assert first["answers"] == question["id"]
        assert last["siblings"] == [answer["id"], last["id"]]
        assert last["run"] == second["run"]["id"]


async def test_an_imported_answer_can_be_regenerated() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "echo", "one", "two")
        one, two = await nodes(http, thread)

        taken = await take_turn(http, thread, again=two["id"])

        assert taken["run"]["answers"] == one["id"]
        await wait_for_run(http, taken["run"]["id"])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"again": "{two}", "messages": [{"role": "user", "content": "x"}]}, (400, "conflicting_fields", "/again")),
        ({"again": "{two}", "parent": None}, (400, "conflicting_fields", "/again")),
        ({"again": "{one}"}, (422, "invalid_value", "/again")),
        ({"again": "none"}, (404, "item_not_found", "/again")),
        ({"parent": "none"}, (404, "item_not_found", "/parent")),
        ({"variant": "none"}, (422, "invalid_parameter", None)),
        ({"parameters": {"colour": 1}}, (422, "unknown_parameter", "/parameters/colour")),
        (
            {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file_none"}}]}]},
            (404, "not_found", "/messages/0/content/0/file/file_id"),
        ),
        ({"messages": 5}, (422, "invalid_messages", "/messages")),
    ],
)
async def test_a_rejected_turn_leaves_the_thread_unchanged(body: dict[str, Any], expected: tuple[Any, ...]) -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "echo", "one", "two")
        one, two = [node["id"] for node in await nodes(http, thread)]
        body = {k: v.format(one=one, two=two) if isinstance(v, str) else v for k, v in body.items()}

        answer = await http.post(f"/api/threads/{thread}/turns", json=body)

        assert problem(answer) == expected
        stored = (await http.get(f"/api/threads/{thread}")).json()
        assert (stored["run"], stored["messages"]) == (None, 2)


async def test_a_turn_in_an_unknown_thread_is_not_found() -> None:
    async with thread_server() as (http, _):
        assert problem(await http.post("/api/threads/conv_none/turns", json={})) == (404, "thread_not_found", None)


async def test_runs_use_the_variant_and_parameters_of_their_thread_or_turn() -> None:
    async with thread_server() as (http, _):
        loud = {"name": "loud", "parameters": {"style": "LOUD"}}
        assert (await http.post("/api/workflows/echo/variants", json=loud)).status_code == 201
        thread = await new_thread(http, variant="loud")

        by_thread = await wait_for_run(http, (await take_turn(http, thread, "hi"))["run"]["id"])
        by_turn = await wait_for_run(
            http, (await take_turn(http, thread, parent=None, parameters={"style": "own"}))["run"]["id"]
        )
        (await http.patch(f"/api/threads/{thread}", json={"parameters": {"style": "edited"}})).raise_for_status()
        edited = await wait_for_run(http, (await take_turn(http, thread, parent=None))["run"]["id"])
        other = await wait_for_run(http, (await take_turn(http, thread, parent=None, variant="default"))["run"]["id"])

        assert (by_thread["variant"], by_thread["out"]["text"]) == ("loud:1", "LOUD(user: hi)")
        assert (by_turn["variant"], by_turn["out"]["text"]) == ("loud:1", "own()")
        assert (edited["variant"], edited["out"]["text"]) == ("loud:1", "edited()")
        assert other["variant"] == "default:1"
        full = (await http.get(f"/api/runs/{edited['id']}", params={"include": "input"})).json()
        assert full["input"] == {"messages": [], "inputs": {}, "parameters": {"style": "edited"}}


async def test_a_turn_during_a_running_turn_is_rejected() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "slow")
        first = await take_turn(http, thread, "a")

        refused = await http.post(f"/api/threads/{thread}/turns", json={"messages": [{"role": "user", "content": "b"}]})

        assert problem(refused) == (409, "conversation_locked", None)
        message = f"Thread {thread!r} already has a run in progress. Wait for it to finish."
        assert refused.json()["error"]["message"] == message
        assert refused.headers["retry-after"] == "1"
        assert (await http.get(f"/api/threads/{thread}")).json()["run"] == first["run"]["id"]
        release("a")
        await wait_for_run(http, first["run"]["id"])
        assert await branch(http, thread) == [("user", "a"), ("assistant", "begin end of a")]


async def test_a_turn_waits_for_the_running_one_if_the_workflow_queues_turns() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "queue")
        first = await take_turn(http, thread, "a")
        second = asyncio.ensure_future(take_turn(http, thread, "b"))
        release("b")
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert not second.done()

        release("a")
        await wait_for_run(http, first["run"]["id"])
        await wait_for_run(http, (await second)["run"]["id"])

        assert await branch(http, thread) == [
            ("user", "a"),
            ("assistant", "begin end of a"),
            ("user", "b"),
            ("assistant", "begin end of b"),
        ]


async def test_waiting_turns_are_limited() -> None:
    async with thread_server(max_queued=1) as (http, _):
        thread = await new_thread(http, "queue")
        first = await take_turn(http, thread, "a")
        second = asyncio.ensure_future(take_turn(http, thread, "b"))
        for _ in range(20):
            await asyncio.sleep(0.01)

        refused = await http.post(f"/api/threads/{thread}/turns", json={"messages": [{"role": "user", "content": "c"}]})

        assert problem(refused) == (429, "rate_limited", None)
        release("a")
        release("b")
        await wait_for_run(http, first["run"]["id"])
        await wait_for_run(http, (await second)["run"]["id"])


async def test_a_turn_cancels_the_running_one_if_the_workflow_interrupts_turns() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "interrupt")
        first = await take_turn(http, thread, "a")
        await wait_for_start(http, thread)

        second = await take_turn(http, thread, "b")
        release("b")
        await wait_for_run(http, second["run"]["id"])

        assert (await wait_for_run(http, first["run"]["id"]))["status"] == "cancelled"
        assert await branch(http, thread) == [
            ("user", "a"),
            ("assistant", "begin "),
            ("user", "b"),
            ("assistant", "begin end of b"),
        ]


async def test_a_thread_shows_the_answer_that_is_being_streamed() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "slow")
        await take_turn(http, thread, "a")
        run = await wait_for_start(http, thread)

        shown = await nodes(http, thread)
        partial = (await http.get(f"/api/runs/{run}", params={"include": "reply,input"})).json()

        assert [(node["status"], node["run"]) for node in shown] == [("done", None), ("streaming", run)]
        assert shown[-1]["parts"] == [{"type": "text", "text": "begin "}]
        assert [message["parts"] for message in partial["reply"]["messages"]] == [[{"type": "text", "text": "begin "}]]
        assert [message["parts"] for message in partial["input"]["messages"]] == [[{"type": "text", "text": "a"}]]
        release("a")
        await wait_for_run(http, run)
        assert (await nodes(http, thread))[-1]["id"] == shown[-1]["id"]


async def test_a_failed_turn_is_left_out_of_the_branch_and_can_be_repeated() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "broken")
        taken = await take_turn(http, thread, "a")

        ended = await wait_for_run(http, taken["run"]["id"])

        tree = (await http.get(f"/api/threads/{thread}/tree")).json()["data"]
        failed = tree[-1]["id"]
        assert (ended["status"], ended["error"]["code"]) == ("failed", "workflow_failed")
        assert [(leaf["role"], leaf["status"]) for leaf in tree] == [("user", "done"), ("assistant", "failed")]
        assert await branch(http, thread) == [("user", "a")]
        refused = await http.post(f"/api/threads/{thread}/turns", json={"parent": failed})
        assert problem(refused) == (422, "invalid_value", "/parent")
        again = await take_turn(http, thread, again=failed)
        assert again["run"]["answers"] == taken["messages"][0]["id"]
        await wait_for_run(http, again["run"]["id"])


async def test_a_background_turn_finishes_without_readers() -> None:
    async with thread_server(orphan_seconds=0.05) as (http, _):
        thread = await new_thread(http, "slow")

        taken = await take_turn(http, thread, "a", background=True)
        run = await wait_for_start(http, thread)
        await asyncio.sleep(0.3)
        release("a")
        ended = await wait_for_run(http, run)

        assert taken["run"]["id"] == run
        assert (ended["background"], ended["status"]) == (True, "finished")
        assert await branch(http, thread) == [("user", "a"), ("assistant", "begin end of a")]


async def test_an_interrupting_turn_waits_for_a_run_that_has_not_started() -> None:
    async with thread_server() as (http, server):
        thread, other = await new_thread(http, "interrupt"), new_run_id()
        await server.runtime.database.write(threads.claim_thread, "default", thread, other)
        release("b")

        second = asyncio.ensure_future(take_turn(http, thread, "b"))
        for _ in range(20):
            await asyncio.sleep(0.01)
        was_waiting = not second.done()
        await server.runtime.database.write(threads.release_thread, "default", thread, other)

        assert was_waiting
        assert (await wait_for_run(http, (await second)["run"]["id"]))["status"] == "finished"


# Runs without readers


async def test_a_run_without_readers_is_cancelled_and_its_partial_answer_is_stored() -> None:
    async with thread_server(orphan_seconds=0.2) as (http, _):
        thread = await new_thread(http, "slow")

        taken = await take_turn(http, thread, "a")
        ended = await wait_for_run(http, taken["run"]["id"])

        assert (ended["status"], ended["finish"]) == ("cancelled", "cancelled")
        assert await branch(http, thread) == [("user", "a"), ("assistant", "begin ")]


async def test_a_run_continues_while_it_is_read_and_is_cancelled_afterwards() -> None:
    async with thread_server(orphan_seconds=0.2) as (http, _):
        thread = await new_thread(http, "slow")
        run = (await take_turn(http, thread, "a"))["run"]["id"]

        async with http.stream("GET", f"/api/runs/{run}/events") as reading:
            assert reading.status_code == 200
            await asyncio.sleep(0.6)
            while_read = (await http.get(f"/api/runs/{run}")).json()
        ended = await wait_for_run(http, run)

        assert (while_read["status"], while_read["readers"]) == ("running", 1)
        assert (ended["status"], ended["readers"]) == ("cancelled", 0)


@pytest.mark.parametrize(("name", "status"), [("finish", "finished"), ("cancel", "cancelled")])
async def test_a_workflow_decides_whether_runs_without_readers_finish_or_are_cancelled(name: str, status: str) -> None:
    async with thread_server(orphan_seconds=0.1 if name == "finish" else 300) as (http, _):
        thread = await new_thread(http, name)

        run = (await take_turn(http, thread, "a"))["run"]["id"]
        if name == "finish":
            await asyncio.sleep(0.5)
            release("a")

        assert (await wait_for_run(http, run))["status"] == status


# Idempotency keys


async def test_a_repeated_turn_with_an_idempotency_key_runs_once() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http)
        body = {"messages": [{"role": "user", "content": "hi"}]}
        key = {"idempotency-key": "k1"}

        async def take(**more: Any) -> httpx.Response:
            return await http.post(f"/api/threads/{thread}/turns", **({"json": body, "headers": key} | more))

        first, second = await asyncio.gather(take(), take())
        third = await take()
        streamed = await take(headers=key | STREAM)
        other = await take(json={"messages": []})

        run = first.json()["run"]["id"]
        assert (first.status_code, second.status_code, third.status_code) == (202, 202, 202)
        assert first.content == second.content == third.content
        assert third.headers["idempotency-replayed"] == "true"
        assert sorted(answer.headers.get("idempotency-replayed", "") for answer in (first, second)) == ["", "true"]
        assert streamed.text == (await http.get(f"/api/runs/{run}/events")).text
        assert (streamed.headers["x-palaver-run-id"], streamed.headers["idempotency-replayed"]) == (run, "true")
        assert problem(other) == (409, "idempotency_mismatch", None)
        assert len((await http.get("/api/runs", params={"thread": thread})).json()["data"]) == 1


async def test_a_rejected_turn_can_be_retried_with_its_idempotency_key() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "slow")
        first = await take_turn(http, thread, "a")
        body, key = {"messages": [{"role": "user", "content": "b"}]}, {"idempotency-key": "k1"}
        release("b")

        refused = await http.post(f"/api/threads/{thread}/turns", json=body, headers=key)
        release("a")
        await wait_for_run(http, first["run"]["id"])
        taken = await http.post(f"/api/threads/{thread}/turns", json=body, headers=key)

        assert (refused.status_code, taken.status_code) == (409, 202)
        assert "idempotency-replayed" not in taken.headers
        await wait_for_run(http, taken.json()["run"]["id"])
