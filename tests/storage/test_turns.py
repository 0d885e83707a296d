"""Turns, on every database: one active run per thread, whose output is appended."""

import asyncio
from typing import Any

import pytest

from palaver.core.messages import Message, Usage
from palaver.errors import InvalidValue, ThreadNotFound
from palaver.storage.database import Database
from palaver.storage.threads import message_tree
from palaver.storage.threads import repository as threads
from palaver.storage.threads.repository import Thread
from tests.storage.thread_factory import NOW, SECOND, P, assistant, branch_ids, create_conversation, post_messages, user

ERROR = {"code": "workflow_failed", "message": "It broke."}


async def append_output(database: Database, *messages: Message, **more: Any) -> Thread:
    arguments: dict[str, Any] = {"run": "run_1", "answers": "u1", "status": "done", "at": NOW + SECOND} | more
    await database.write(threads.append_run_output, P, "conv_1", messages=messages, **arguments)
    return await database.read(threads.require_thread, P, "conv_1")


async def test_thread_is_claimed_by_one_run_at_a_time(database: Database) -> None:
    await create_conversation(database, "one")

    claimed = await asyncio.gather(*(database.write(threads.claim_thread, P, "conv_1", f"run_{n}") for n in range(8)))

    assert sorted(claimed) == [False] * 7 + [True]
    holder = (await database.read(threads.require_thread, P, "conv_1")).run
    assert holder is not None
    assert holder == f"run_{claimed.index(True)}"
    await database.write(threads.release_thread, P, "conv_1", "run_of_somebody_else")
    assert (await database.read(threads.require_thread, P, "conv_1")).run == holder
    await database.write(threads.release_thread, P, "conv_1", holder)
    assert (await database.read(threads.require_thread, P, "conv_1")).run is None
    with pytest.raises(ThreadNotFound):
        await database.write(threads.claim_thread, "team-a", "conv_1", "run_1")


async def test_run_output_is_appended_below_the_message_it_answers(database: Database) -> None:
    await create_conversation(database, "one")
    await database.write(threads.claim_thread, P, "conv_1", "run_1")

    after = await append_output(
        database,
        assistant("Let me look.", "msg_1"),
        Message.tool("c1", "found"),
        assistant("There.", "msg_3"),
        usage=Usage(3, 4),
    )

    result = await database.read(threads.get_branch, P, "conv_1")
    assert (after.run, after.head, after.messages, after.updated_at) == (None, "msg_3", 4, NOW + SECOND)
    assert (after.preview_in["text"], after.preview_out["text"]) == ("one", "There.")
    assert [(node.run, node.origin, node.status, node.usage) for node in result[1:]] == [
        ("run_1", "run", "done", None),
        ("run_1", "run", "done", None),
        ("run_1", "run", "done", {"input_tokens": 3, "output_tokens": 4}),
    ]
    assert [node.parent for node in result[1:]] == ["u1", "msg_1", result[2].id]


async def test_output_of_a_stopped_run_can_be_continued(database: Database) -> None:
    await create_conversation(database, "one")

    after = await append_output(database, assistant("Half", "a1"), status="partial")
    await post_messages(database, "head", user("go on", "u2"))

    assert after.head == "a1"
    assert [(node.id, node.status) for node in await database.read(threads.get_branch, P, "conv_1")] == [
        ("u1", "done"),
        ("a1", "partial"),
        ("u2", "done"),
    ]


async def test_output_of_a_failed_run_is_stored_but_cannot_be_continued(database: Database) -> None:
    await create_conversation(database, "one")
    await database.write(threads.claim_thread, P, "conv_1", "run_1")

    after = await append_output(database, assistant("Well", "f1"), assistant("but", "f2"), status="failed", error=ERROR)

    assert (after.head, after.run, after.messages) == ("u1", None, 3)
    assert [
        (node.id, node.status, node.error) for node in await database.read(threads.get_branch, P, "conv_1", "f2")
    ] == [
        ("u1", "done", None),
        ("f1", "failed", None),
        ("f2", "failed", ERROR),
    ]
    with pytest.raises(InvalidValue):
        await post_messages(database, "f2", user("go on"))
    with pytest.raises(InvalidValue):
        await database.write(threads.move_head, P, "conv_1", "f2")
    assert (await database.write(threads.move_head, P, "conv_1", "u1", through=True)).head == "u1"


async def test_run_that_fails_without_output_leaves_an_empty_failed_message(database: Database) -> None:
    await create_conversation(database, "one")

    await append_output(database, status="failed", error=ERROR)

    (_, node) = await database.read(message_tree.list_nodes, P, "conv_1")
    assert (node.parent, node.status, node.error, node.message.parts) == ("u1", "failed", ERROR, ())


async def test_run_without_output_leaves_the_head_unchanged(database: Database) -> None:
    await create_conversation(database, "one")

    after = await append_output(database)

    assert (after.head, after.messages) == ("u1", 1)


async def test_head_stays_if_it_was_moved_during_the_run(database: Database) -> None:
    await create_conversation(database, "one")
    await database.write(threads.claim_thread, P, "conv_1", "run_1")
    await post_messages(database, None, user("another beginning", "v1"))

    after = await append_output(database, assistant("two", "a1"))

    assert (after.head, after.messages) == ("v1", 3)
    assert (await database.write(threads.move_head, P, "conv_1", "u1", through=True)).head == "a1"


async def test_regenerated_answer_is_a_sibling_and_becomes_the_head(database: Database) -> None:
    await create_conversation(database, "one", "two")
    await database.write(threads.claim_thread, P, "conv_1", "run_1")

    after = await append_output(database, assistant("two, again", "b1"))

    assert after.head == "b1"
    assert await database.read(message_tree.list_children_ids, P, "conv_1", ["u1"]) == {"u1": ["a1", "b1"]}
    assert (await database.write(threads.move_head, P, "conv_1", "u1", through=True)).head == "b1"


async def test_failed_turn_is_left_out_of_the_branch(database: Database) -> None:
    await create_conversation(database, "one", "two")
    await database.write(threads.claim_thread, P, "conv_1", "run_1")
    await post_messages(database, "head", user("three", "u2"), head="stays")

    failed = await append_output(database, assistant("Well", "f1"), answers="u2", status="failed", error=ERROR)
    await database.write(threads.claim_thread, P, "conv_1", "run_2")
    await post_messages(database, "head", user("three", "u3"), head="stays")
    done = await append_output(database, assistant("four", "a3"), run="run_2", answers="u3")

    assert (failed.head, done.head) == ("a1", "a3")
    assert await branch_ids(database) == ["u1", "a1", "u3", "a3"]


async def test_failed_first_turn_leaves_the_thread_without_a_head(database: Database) -> None:
    await create_conversation(database)
    await database.write(threads.claim_thread, P, "conv_1", "run_1")
    await post_messages(database, "head", user("one", "u1"), head="stays")

    after = await append_output(database, status="failed", error=ERROR)

    assert (after.head, after.messages, after.preview_in["renderer"]) == (None, 2, "empty")


async def test_output_is_accepted_if_the_thread_or_the_answered_message_is_missing(database: Database) -> None:
    await database.write(
        threads.append_run_output,
        P,
        "conv_gone",
        run="run_1",
        answers="u1",
        messages=[assistant("x")],
        status="done",
        at=NOW,
    )
    await create_conversation(database, "one")

    after = await append_output(database, assistant("lost", "a1"), answers="gone")

    assert (after.messages, after.head) == (2, "u1")
    assert await branch_ids(database, "a1") == ["a1"]


async def test_message_at_the_previous_head_can_be_deleted_during_a_run(database: Database) -> None:
    await create_conversation(database, "one", "two")
    await post_messages(database, None, user("other", "v1"))
    await database.write(threads.move_head, P, "conv_1", "a1")
    await database.write(threads.claim_thread, P, "conv_1", "run_1")
    await database.write(threads.move_head, P, "conv_1", "v1")
    await database.write(threads.delete_message, P, "conv_1", "a1", at=NOW)

    after = await append_output(database, status="failed", error=ERROR, answers="v1")

    assert after.head == "v1"


async def test_outputs_of_concurrent_runs_are_all_appended(database: Database) -> None:
    await create_conversation(database, "one")

    async def end(number: int) -> None:
        texts = [assistant(f"answer {number}", "same"), assistant("more", "same")]
        await database.write(
            threads.append_run_output,
            P,
            "conv_1",
            run=f"run_{number}",
            answers="u1",
            messages=texts,
            status="done",
            at=NOW,
        )

    await asyncio.gather(*(end(number) for number in range(10)))

    all_nodes = await database.read(message_tree.list_nodes, P, "conv_1")
    assert [node.place for node in all_nodes] == list(range(1, 22))
    assert (await database.read(threads.require_thread, P, "conv_1")).messages == 21
    assert len({node.id for node in all_nodes}) == 21
