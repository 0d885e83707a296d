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


async def test_a_turn_says_something_and_begins_the_run_that_answers() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "echo", "one", "two")

        taken = await http.post(
            f"/api/threads/{thread}/turns", json={"messages": [{"role": "user", "content": "three"}]}
        )

        run, (said,) = taken.json()["run"], taken.json()["messages"]
        ended = await wait_for_run(http, run["id"])
        assert (taken.status_code, taken.headers["location"]) == (202, f"/api/runs/{run['id']}")
        assert (said["role"], said["parts"], said["siblings"]) == (
            "user",
            [{"type": "text", "text": "three"}],
            [said["id"]],
        )
        assert (run["thread"], run["answers"], run["session"]) == (thread, said["id"], thread)
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
        assert (last["seconds"], said["seconds"]) == (took.total_seconds(), None)


async def test_a_turn_can_be_read_as_it_happens() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http)

        answer = await http.post(
            f"/api/threads/{thread}/turns", json={"messages": [{"role": "user", "content": "hi"}]}, headers=STREAM
        )

        told = events(answer.text)
        run = answer.headers["x-palaver-run-id"]
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")
        assert [number for number, _ in told] == list(range(len(told)))
        assert [event["type"] for _, event in told] == [
            "run-started",
            "text-started",
            "text-delta",
            "text-ended",
            "run-finished",
        ]
        assert told[0][1]["run_id"] == run
        assert (await http.get(f"/api/runs/{run}/events")).text == answer.text


async def test_a_turn_may_answer_what_is_there_or_go_on_elsewhere() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "echo", "one", "two", "three")
        first = (await nodes(http, thread))[0]["id"]

        as_it_stands = await take_turn(http, thread)
        await wait_for_run(http, as_it_stands["run"]["id"])
        beside = await take_turn(http, thread, "other", parent=first)
        await wait_for_run(http, beside["run"]["id"])
        at_root = await take_turn(http, thread, "anew", parent=None)
        await wait_for_run(http, at_root["run"]["id"])

        assert as_it_stands["messages"] == []
        assert await branch(http, thread, at=beside["messages"][0]["id"]) == [("user", "one"), ("user", "other")]
        assert await branch(http, thread) == [("user", "anew"), ("assistant", "user: anew")]


async def test_an_answer_is_given_again_beside_the_first() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http)
        first = await wait_for_run(http, (await take_turn(http, thread, "hi"))["run"]["id"])
        asked, answered = await nodes(http, thread)

        second = await take_turn(http, thread, again=answered["id"])
        await wait_for_run(http, second["run"]["id"])

        last = (await nodes(http, thread))[-1]
        assert (second["messages"], second["run"]["answers"]) == ([], asked["id"])
        assert first["answers"] == asked["id"]
        assert last["siblings"] == [answered["id"], last["id"]]
        assert last["run"] == second["run"]["id"]


async def test_what_was_imported_is_answered_again_too() -> None:
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
async def test_a_turn_that_cannot_be_taken_leaves_nothing(body: dict[str, Any], expected: tuple[Any, ...]) -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "echo", "one", "two")
        one, two = [node["id"] for node in await nodes(http, thread)]
        body = {k: v.format(one=one, two=two) if isinstance(v, str) else v for k, v in body.items()}

        answer = await http.post(f"/api/threads/{thread}/turns", json=body)

        assert problem(answer) == expected
        found = (await http.get(f"/api/threads/{thread}")).json()
        assert (found["run"], found["messages"]) == (None, 2)


async def test_a_turn_in_a_thread_that_is_not_there() -> None:
    async with thread_server() as (http, _):
        assert problem(await http.post("/api/threads/conv_none/turns", json={})) == (404, "thread_not_found", None)


async def test_what_the_thread_has_is_given_to_its_runs() -> None:
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
        whole = (await http.get(f"/api/runs/{edited['id']}", params={"include": "input"})).json()
        assert whole["input"] == {"messages": [], "inputs": {}, "parameters": {"style": "edited"}}


async def test_one_turn_at_a_time_is_taken() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "slow")
        first = await take_turn(http, thread, "a")

        refused = await http.post(f"/api/threads/{thread}/turns", json={"messages": [{"role": "user", "content": "b"}]})

        assert problem(refused) == (409, "conversation_locked", None)
        assert refused.headers["retry-after"] == "1"
        assert (await http.get(f"/api/threads/{thread}")).json()["run"] == first["run"]["id"]
        release("a")
        await wait_for_run(http, first["run"]["id"])
        assert await branch(http, thread) == [("user", "a"), ("assistant", "begin end of a")]


async def test_a_turn_waits_where_the_author_wants_that() -> None:
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


async def test_only_so_many_turns_wait() -> None:
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


async def test_a_turn_ends_the_one_before_where_the_author_wants_that() -> None:
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


async def test_a_thread_shows_what_is_being_said() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "slow")
        await take_turn(http, thread, "a")
        run = await wait_for_start(http, thread)

        shown = await nodes(http, thread)
        half = (await http.get(f"/api/runs/{run}", params={"include": "reply,input"})).json()

        assert [(node["status"], node["run"]) for node in shown] == [("done", None), ("streaming", run)]
        assert shown[-1]["parts"] == [{"type": "text", "text": "begin "}]
        assert [message["parts"] for message in half["reply"]["messages"]] == [[{"type": "text", "text": "begin "}]]
        assert [message["parts"] for message in half["input"]["messages"]] == [[{"type": "text", "text": "a"}]]
        release("a")
        await wait_for_run(http, run)
        assert (await nodes(http, thread))[-1]["id"] == shown[-1]["id"]


async def test_a_failed_turn_is_no_part_of_the_branch_and_can_be_taken_again() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "broken")
        taken = await take_turn(http, thread, "a")

        ended = await wait_for_run(http, taken["run"]["id"])

        tree = (await http.get(f"/api/threads/{thread}/tree")).json()["data"]
        failed = tree[-1]["id"]
        assert (ended["status"], ended["error"]["code"]) == ("failed", "workflow_failed")
        assert [(leaf["role"], leaf["status"]) for leaf in tree] == [("user", "done"), ("assistant", "failed")]
        assert await branch(http, thread) == [("user", "a")]
        on = await http.post(f"/api/threads/{thread}/turns", json={"parent": failed})
        assert problem(on) == (422, "invalid_value", "/parent")
        again = await take_turn(http, thread, again=failed)
        assert again["run"]["answers"] == taken["messages"][0]["id"]
        await wait_for_run(http, again["run"]["id"])


async def test_a_turn_may_be_left_to_the_background() -> None:
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


async def test_a_turn_that_ends_the_one_before_waits_until_that_has_begun() -> None:
    async with thread_server() as (http, server):
        thread, other = await new_thread(http, "interrupt"), new_run_id()
        await server.runtime.database.write(threads.claim_thread, "default", thread, other)
        release("b")

        second = asyncio.ensure_future(take_turn(http, thread, "b"))
        for _ in range(20):
            await asyncio.sleep(0.01)
        waits = not second.done()
        await server.runtime.database.write(threads.release_thread, "default", thread, other)

        assert waits
        assert (await wait_for_run(http, (await second)["run"]["id"]))["status"] == "finished"


# Nobody reads


async def test_a_run_that_nobody_reads_is_ended_and_what_it_said_is_kept() -> None:
    async with thread_server(orphan_seconds=0.2) as (http, _):
        thread = await new_thread(http, "slow")

        taken = await take_turn(http, thread, "a")
        ended = await wait_for_run(http, taken["run"]["id"])

        assert (ended["status"], ended["finish"]) == ("cancelled", "cancelled")
        assert await branch(http, thread) == [("user", "a"), ("assistant", "begin ")]


async def test_somebody_who_reads_keeps_it_going_and_leaving_it_does_not() -> None:
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
async def test_the_author_may_say_what_becomes_of_a_run_that_nobody_reads(name: str, status: str) -> None:
    async with thread_server(orphan_seconds=0.1 if name == "finish" else 300) as (http, _):
        thread = await new_thread(http, name)

        run = (await take_turn(http, thread, "a"))["run"]["id"]
        if name == "finish":
            await asyncio.sleep(0.5)
            release("a")

        assert (await wait_for_run(http, run))["status"] == status


# Once


async def test_a_turn_with_a_key_is_taken_once() -> None:
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


async def test_a_turn_that_was_refused_may_be_taken_under_its_key() -> None:
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
