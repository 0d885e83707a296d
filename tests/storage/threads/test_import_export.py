"""Export, import and copies of threads, on every database."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core.messages import Data, File, Message, ToolCall
from palaver.core.thread_tree import ThreadNode, ThreadTree
from palaver.errors import InvalidValue, ItemNotFound, RequestError
from palaver.storage.database import MEMORY_URL, Database, open_database
from palaver.storage.threads import copies as thread_copies
from palaver.storage.threads import import_export as thread_files
from palaver.storage.threads import message_tree
from palaver.storage.threads import repository as threads
from palaver.storage.threads.repository import NewThread, ThreadChanges
from tests.storage.thread_factory import (
    NOW,
    SECOND,
    P,
    assistant,
    branch_ids,
    create_conversation,
    new_thread,
    post_messages,
    user,
)


async def create_branched_thread(database: Database) -> None:
    """Create a thread with three branches: one that failed, one that was stopped, and the current one."""
    await database.write(
        threads.create_thread,
        P,
        new_thread(
            workflow="tutor", variant="v:1", inputs={"a": [1, None]}, parameters={"t": 0.5}, metadata={"m": "x"}
        ),
        [user("one\0", "u1"), Message("assistant", (ToolCall("c", "f", "{bad"), Data("d", {"x": None})), "a1", "bot")],
    )
    ends: list[tuple[str, Any, str]] = [("run_1", "failed", "f1"), ("run_2", "partial", "p1")]
    for run, status, name in ends:
        await database.write(
            threads.append_run_output,
            P,
            "conv_1",
            run=run,
            answers="u1",
            messages=[assistant("well", name)],
            status=status,
            error={"code": "timeout", "message": "Too slow."} if status == "failed" else None,
            usage={"input_tokens": 1, "output_tokens": 2},
            at=NOW + SECOND,
        )
    await database.write(threads.update_thread, P, "conv_1", ThreadChanges(title="<Title>", pinned=True))
    await post_messages(
        database, "a1", Message("user", (File("image/png", url="https://x/y.png"),), "u2", None, {"k": 1})
    )


async def export_line(database: Database, thread: str = "conv_1", **more: Any) -> bytes:
    return await database.read(thread_files.export_thread, P, thread, **more)


def parse_line(line: bytes) -> thread_files.ThreadFile:
    return thread_files.parse_thread_file(msgspec.json.decode(line))


async def test_exported_thread_is_imported_unchanged(database: Database) -> None:
    await create_branched_thread(database)
    line = await export_line(database)
    before = await database.read(threads.require_thread, P, "conv_1")
    await database.write(threads.delete_thread, P, "conv_1")

    after = await database.write(thread_files.import_thread, P, parse_line(line), id="conv_other")

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert await export_line(database) == line
    assert after == before
    assert await branch_ids(database) == ["u1", "a1", "u2"]
    assert [node.origin for node in await database.read(message_tree.list_nodes, P, "conv_1")] == ["import"] * 5
    assert (await database.write(threads.move_head, P, "conv_1", "u1", through=True)).head == "u2"


async def test_unchanged_thread_is_not_imported_twice(database: Database) -> None:
    await create_branched_thread(database)
    line = await export_line(database)
    await database.write(threads.move_head, P, "conv_1", "p1")

    second = await database.write(thread_files.import_thread, P, parse_line(line), id="conv_2")
    await post_messages(database, "head", user("more"))
    another = await database.write(thread_files.import_thread, P, parse_line(line), id="conv_2")
    theirs = await database.write(thread_files.import_thread, "team-a", parse_line(line), id="conv_3")

    assert second is None
    assert another is not None
    assert (another.id, another.messages) == ("conv_2", 5)
    assert theirs is not None
    assert theirs.id == "conv_1"


async def test_empty_thread_is_exported_and_imported(database: Database) -> None:
    await database.write(threads.create_thread, P, new_thread())
    line = (await export_line(database)).replace(b"conv_1", b"strange id")

    created = await database.write(thread_files.import_thread, P, parse_line(line), id="conv_2")

    assert created is not None
    assert (created.id, created.head, created.messages, created.title_by) == ("conv_2", None, 0, "auto")


async def test_branches_are_exported_as_cases_in_chat_completions_format(database: Database) -> None:
    await create_conversation(database, "one", "two")
    await database.write(threads.update_thread, P, "conv_1", ThreadChanges(inputs={"subject": "x"}))
    await post_messages(database, "u1", assistant("other", "b1"))
    await database.write(
        threads.append_run_output, P, "conv_1", run="r", answers="u1", messages=[], status="failed", at=NOW
    )

    def case(*texts: str) -> dict[str, Any]:
        turns = [{"role": role, "content": text} for role, text in zip(("user", "assistant"), texts, strict=False)]
        return {"messages": turns, "inputs": {"subject": "x"}}

    def cases(lines: bytes) -> list[Any]:
        return [msgspec.json.decode(line) for line in lines.splitlines()]

    current = cases(await export_line(database, form="messages"))
    all_cases = cases(await export_line(database, form="messages", branches="all"))
    for one in (*current, *all_cases):
        one["messages"] = [{key: turn[key] for key in ("role", "content")} for turn in one["messages"]]

    assert current == [case("one", "other")]
    assert all_cases == [case("one", "two"), case("one", "other")]


INVALID_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"palaver": "thread/2"}, "/palaver"),
    ({"title": "x" * 201}, "/title"),
    ({"workflow": "a\0"}, "/workflow"),
    ({"created_at": "2026-01-01T00:00:00"}, "/created_at"),
    ({"head": "nobody"}, "/head"),
    ({"head": "f1"}, "/head"),
]
NODE: dict[str, Any] = {"parent": None, "role": "user", "parts": [], "created_at": "2026-01-01T00:00:00Z"}
INVALID_NODES: list[tuple[list[dict[str, Any]], str]] = [
    ([{"id": "a\0"}], "/messages/0/id"),
    ([{"id": "a"}, {"id": "a"}], "/messages/1/id"),
    ([{"id": "a", "parent": "a"}], "/messages/0/parent"),
    ([{"id": "a", "parent": "b"}, {"id": "b"}], "/messages/0/parent"),
    ([{"id": "a", "status": "streaming"}], "/messages/0/status"),
    ([{"id": "a", "status": "failed"}, {"id": "b", "parent": "a"}], "/messages/1/parent"),
    ([{"id": "a", "role": "nobody"}], "/messages/0/role"),
]


@pytest.mark.parametrize(("broken", "pointer"), INVALID_FIELDS)
def test_invalid_thread_file_is_rejected_with_a_pointer(broken: dict[str, Any], pointer: str) -> None:
    good = {"palaver": "thread/1", "id": "conv_1", "title": "", "title_by": "auto", "workflow": None}
    times = {"created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}
    failed = NODE | {"id": "f1", "status": "failed"}

    with pytest.raises(RequestError) as refused:
        thread_files.parse_thread_file(good | times | {"messages": [failed]} | broken)

    assert refused.value.pointer == pointer


@pytest.mark.parametrize(("broken", "pointer"), INVALID_NODES)
def test_messages_that_are_not_a_valid_tree_are_rejected(broken: list[dict[str, Any]], pointer: str) -> None:
    good = {"palaver": "thread/1", "id": "conv_1", "title": "", "title_by": "auto", "workflow": None}
    times = {"created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}

    with pytest.raises(RequestError) as refused:
        thread_files.parse_thread_file(good | times | {"messages": [NODE | node for node in broken]})

    assert refused.value.pointer == pointer


# Copies


async def test_copy_has_the_current_branch_and_is_marked_as_a_copy(database: Database) -> None:
    await create_branched_thread(database)

    copy = await database.write(thread_copies.duplicate_thread, P, "conv_1", id="conv_2", at=NOW + 2 * SECOND)

    assert (copy.title, copy.title_by, copy.pinned, copy.created_at) == ("<Title>", "user", False, NOW + 2 * SECOND)
    assert (copy.head, copy.messages, copy.preview_in) == (
        "u2",
        3,
        (await database.read(threads.require_thread, P, "conv_1")).preview_in,
    )
    copied = await database.read(threads.get_branch, P, "conv_2")
    original = await database.read(threads.get_branch, P, "conv_1")
    assert [node.message for node in copied] == [node.message for node in original]
    assert {node.origin for node in copied} == {"copy"}
    await database.write(threads.append_messages, P, "conv_2", "head", [user("on")], origin="client", at=NOW)
    assert len(await branch_ids(database)) == 3


async def test_a_copy_of_an_empty_thread_is_empty(database: Database) -> None:
    await database.write(threads.create_thread, P, new_thread())

    copy = await database.write(thread_copies.duplicate_thread, P, "conv_1", id="conv_2", at=NOW)

    assert (copy.head, copy.messages) == (None, 0)


async def test_all_branches_are_copied_with_the_requested_one_as_head(database: Database) -> None:
    await create_branched_thread(database)

    copy = await database.write(
        thread_copies.duplicate_thread, P, "conv_1", id="conv_2", at=NOW, upto="p1", branches="all"
    )

    assert (copy.head, copy.messages) == ("p1", 5)
    with pytest.raises(ItemNotFound):
        await database.write(thread_copies.duplicate_thread, P, "conv_1", id="conv_3", at=NOW, upto="nobody")
    with pytest.raises(InvalidValue):
        await database.write(thread_copies.duplicate_thread, P, "conv_1", id="conv_3", at=NOW, upto="f1")


# Any sequence of changes


@st.composite
def action_lists(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    kind = st.sampled_from(["append", "turn", "through", "remove", "keep", "answer", "fail"])
    return draw(st.lists(st.tuples(kind, st.integers(0, 50), st.integers(0, 3)), max_size=15))


@given(action_lists())
def test_thread_stays_a_valid_tree_for_any_sequence_of_changes(actions: list[tuple[str, int, int]]) -> None:
    asyncio.run(_apply_actions(actions))


async def _apply_actions(actions: list[tuple[str, int, int]]) -> None:
    database = open_database(MEMORY_URL)
    await database.write(threads.create_thread, P, NewThread(id="conv_1", at=NOW), [user("first")])
    at = datetime(2026, 11, 15, tzinfo=UTC)
    for number, (kind, which, count) in enumerate(actions):
        at += timedelta(seconds=1)
        all_nodes = await database.read(message_tree.list_nodes, P, "conv_1")
        healthy = [node.id for node in all_nodes if node.status != "failed"]
        node = healthy[which % len(healthy)] if healthy else None
        messages = [user(f"{number}.{index}") for index in range(count)]
        match kind:
            case "append":
                await database.write(threads.append_messages, P, "conv_1", node, messages, origin="client", at=at)
            case "turn" | "through" if node is not None:
                await database.write(threads.move_head, P, "conv_1", node, through=kind == "through")
            case "remove" | "keep" if node is not None:
                below: Any = "delete" if kind == "remove" else "keep"
                await database.write(threads.delete_message, P, "conv_1", node, below=below, at=at)
            case "answer" | "fail":
                status: Any = "done" if kind == "answer" else "failed"
                arguments: Any = {
                    "run": f"run_{number}",
                    "answers": node,
                    "messages": messages,
                    "status": status,
                    "at": at,
                }
                await database.write(threads.append_run_output, P, "conv_1", **arguments)
            case _:
                pass
        await _check_tree(database)
    line = await database.read(thread_files.export_thread, P, "conv_1")
    second = await database.write(thread_files.import_thread, "team-a", parse_line(line), id="x")
    assert second is not None
    assert await database.read(thread_files.export_thread, "team-a", "conv_1") == line
    await database.close()


async def _check_tree(database: Database) -> None:
    all_nodes = await database.read(message_tree.list_nodes, P, "conv_1")
    thread = await database.read(threads.require_thread, P, "conv_1")
    positions = {node.id: node.place for node in all_nodes}
    statuses = {node.id: node.status for node in all_nodes}
    assert thread.messages == len(all_nodes) == len(positions)
    for node in all_nodes:
        assert node.parent is None or positions[node.parent] < node.place
        assert node.parent is None or statuses[node.parent] != "failed" or node.status == "failed"
    assert thread.head is None or statuses[thread.head] != "failed"
    tree = ThreadTree(ThreadNode(node.id, node.parent, node.place) for node in all_nodes)
    assert [node.id for node in await database.read(threads.get_branch, P, "conv_1")] == tree.path(thread.head)
    loaded_tree = await database.read(message_tree.load_tree, P, "conv_1")
    for upper in tree.path(thread.head):  # The path back to the head.
        assert loaded_tree.leaf(upper) == loaded_tree.leaf(thread.head or "")
