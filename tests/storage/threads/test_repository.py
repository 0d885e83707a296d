"""Threads, on every database: create, append, switch branches, delete."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from sqlalchemy import Connection, insert, select

from palaver.core.messages import Data, File, Message, Refusal, ToolCall
from palaver.errors import InvalidValue, ItemNotFound, StillRunning, ThreadNotFound, TooLarge
from palaver.storage import runs
from palaver.storage.database import Database
from palaver.storage.pagination import Window
from palaver.storage.tables import events as events_table
from palaver.storage.tables import feedback as feedback_table
from palaver.storage.tables import nodes as nodes_table
from palaver.storage.tables import runs as runs_table
from palaver.storage.threads import message_tree
from palaver.storage.threads import repository as threads
from palaver.storage.threads.repository import Match, Thread, ThreadChanges, ThreadFilters
from tests.storage.thread_factory import (
    NOW,
    SECOND,
    P,
    assistant,
    branch_ids,
    create_conversation,
    new_thread,
    post_messages,
    run_row,
    user,
)

# Creating and finding


async def test_created_thread_is_stored_with_title_and_previews(database: Database) -> None:
    created = await database.write(
        threads.create_thread,
        P,
        new_thread(
            workflow="tutor", variant="short:3", inputs={"subject": "physics"}, metadata={"a": "b"}, board="brd_1"
        ),
        [Message.system("Be brief."), user("Why is the\n sky   blue?", "u1"), assistant("Because.", "a1")],
    )

    assert msgspec.structs.replace(created, preview_in=None, preview_out=None) == Thread(
        id="conv_1",
        title="Why is the sky blue?",
        title_by="auto",
        workflow="tutor",
        variant="short:3",
        head="a1",
        run=None,
        pinned=False,
        origin="playground",
        board="brd_1",
        messages=3,
        preview_in=None,
        preview_out=None,
        created_at=NOW,
        updated_at=NOW,
        parameters={},
        inputs={"subject": "physics"},
        metadata={"a": "b"},
    )
    assert (created.preview_in["renderer"], created.preview_in["text"]) == ("chat", "Why is the sky blue?")
    assert (created.preview_out["renderer"], created.preview_out["text"]) == ("chat", "Because.")
    assert await database.read(threads.get_thread, P, "conv_1") == created
    assert await database.read(threads.get_thread, "team-a", "conv_1") is None
    assert await database.read(threads.get_thread, P, "conv_\0") is None


async def test_empty_thread_has_no_head_and_empty_previews(database: Database) -> None:
    created = await database.write(threads.create_thread, P, new_thread())

    assert (created.title, created.head, created.messages) == ("", None, 0)
    assert (created.preview_in["renderer"], created.preview_out["renderer"]) == ("empty", "empty")
    assert await branch_ids(database) == []
    assert await database.read(message_tree.list_branch, P, "conv_1", None, requested="head") == message_tree.Page([])


async def test_messages_with_any_content_are_stored_and_read_back(database: Database) -> None:
    messages = [
        user("NUL \0, a lone \ud800, \U0001f600", "u1"),
        Message(
            role="assistant",
            parts=(ToolCall("c1", "f", "{bad"), Data("x", {"a": [None, 1.5]}), File("image/png", url="https://x/y")),
            id="a1",
            name="bot",
            metadata={"k": "v"},
        ),
        msgspec.structs.replace(Message.tool("c1", {"ok": "\0"}), id="t1"),
    ]

    await database.write(threads.create_thread, P, new_thread(), messages)

    assert [node.message for node in await database.read(threads.get_branch, P, "conv_1")] == [
        user("NUL \0, a lone \ufffd, \U0001f600", "u1"),
        *messages[1:],
    ]
    result = await database.read(threads.get_thread, P, "conv_1")
    assert result is not None
    assert result.title == "NUL , a lone \ufffd, \U0001f600"


async def test_title_set_by_the_user_stays_until_it_is_reset(database: Database) -> None:
    await database.write(threads.create_thread, P, new_thread(title="Mine"))
    await post_messages(database, None, user("a question"))

    stored = await database.read(threads.require_thread, P, "conv_1")
    reset = await database.write(threads.update_thread, P, "conv_1", ThreadChanges(title=None))
    renamed = await database.write(threads.update_thread, P, "conv_1", ThreadChanges(title="A\0B"))

    assert [(t.title, t.title_by) for t in (stored, reset, renamed)] == [
        ("Mine", "user"),
        ("a question", "auto"),
        ("A\ufffdB", "user"),
    ]


async def test_update_changes_only_its_fields_and_not_updated_at(database: Database) -> None:
    before = await create_conversation(database, "one", "two")
    changes = ThreadChanges(
        pinned=True, workflow=None, variant="v:1", parameters={"t": 1}, inputs={"i": 2}, metadata={"m": "3"}
    )

    after = await database.write(threads.update_thread, P, "conv_1", changes)
    same = await database.write(threads.update_thread, P, "conv_1", ThreadChanges())

    assert after == same == msgspec.structs.replace(before, **msgspec.structs.asdict(changes) | {"title": "one"})
    with pytest.raises(ThreadNotFound):
        await database.write(threads.update_thread, "team-a", "conv_1", changes)


async def test_automatic_title_is_one_line_of_at_most_80_characters(database: Database) -> None:
    created = await database.write(threads.create_thread, P, new_thread(), [user("word " * 40)])

    assert created.title == ("word " * 16).strip()


async def test_title_is_taken_from_the_first_question_that_is_appended(database: Database) -> None:
    created = await database.write(threads.create_thread, P, new_thread(), [assistant("Hello!")])
    await post_messages(database, "head", user("", "u1"), user("hi", "u2"))

    assert created.title == ""
    assert (await database.read(threads.require_thread, P, "conv_1")).title == "hi"
    assert (await database.write(threads.update_thread, P, "conv_1", ThreadChanges(title=None))).title == ""


# Appending


async def test_appended_message_is_added_below_the_head_and_becomes_the_head(database: Database) -> None:
    await create_conversation(database, "one", "two")

    created = await database.write(
        threads.append_messages, P, "conv_1", "head", [user("three", "u2")], origin="client", at=NOW + SECOND
    )

    assert created == [
        message_tree.Node(
            id="u2", parent="a1", place=3, message=user("three", "u2"), origin="client", created_at=NOW + SECOND
        )
    ]
    assert await branch_ids(database) == ["u1", "a1", "u2"]
    after = await database.read(threads.require_thread, P, "conv_1")
    assert (after.head, after.messages, after.updated_at) == ("u2", 3, NOW + SECOND)
    assert (after.preview_in["text"], after.preview_out["renderer"]) == ("three", "empty")
    assert await post_messages(database, "head") == []


async def test_an_edit_is_a_sibling_and_both_branches_stay(database: Database) -> None:
    await create_conversation(database, "one", "two", "three", "four")

    await post_messages(database, "a1", user("three, better", "u2b"))

    assert await branch_ids(database) == ["u1", "a1", "u2b"]
    assert await branch_ids(database, "a2") == ["u1", "a1", "u2", "a2"]
    assert await database.read(message_tree.list_children_ids, P, "conv_1", [None, "a1", "u1"]) == {
        None: ["u1"],
        "a1": ["u2", "u2b"],
        "u1": ["a1"],
    }


async def test_client_message_id_is_used_if_free_and_valid_or_else_stored_in_metadata(database: Database) -> None:
    unusable = ["u1", "u1", "head", "x" * 65, "sp ace", "\0", ""]
    await create_conversation(database, "one")

    created = await database.write(
        threads.append_messages,
        P,
        "conv_1",
        "head",
        [user("x", name) for name in ["free", *unusable]],
        origin="client",
        at=NOW,
    )

    assert created[0].id == "free"
    assert [node.message.metadata for node in created] == [{}, *({"client_id": name} for name in unusable)]
    assert all(node.id.startswith("msg_") and len(node.id) == 30 for node in created[1:])
    assert [node.message.id for node in created] == [node.id for node in created]
    assert len({node.id for node in created}) == len(created)
    assert await database.read(threads.get_branch, P, "conv_1") == [
        *await database.read(threads.get_branch, P, "conv_1", "u1"),
        *created,
    ]


async def test_same_message_id_can_be_used_in_other_threads_and_projects(database: Database) -> None:
    await create_conversation(database, "one")
    await create_conversation(database, "other", thread="conv_2")
    await database.write(threads.create_thread, "team-a", new_thread(), [user("theirs", "u1")])

    texts = [
        (await database.read(threads.get_branch, project, thread))[0].message.text
        for project, thread in [(P, "conv_1"), (P, "conv_2"), ("team-a", "conv_1")]
    ]

    assert texts == ["one", "other", "theirs"]


async def test_unknown_messages_and_threads_are_not_found(database: Database) -> None:
    await create_conversation(database, "one")

    with pytest.raises(ItemNotFound):
        await post_messages(database, "nobody", user("x"))
    with pytest.raises(ItemNotFound):
        await post_messages(database, "\0", user("x"))
    with pytest.raises(ItemNotFound):
        await branch_ids(database, "nobody")
    with pytest.raises(ItemNotFound):
        await branch_ids(database, "\0")
    with pytest.raises(ItemNotFound):
        await database.read(message_tree.list_branch, P, "conv_1", "nobody", requested="nobody")
    with pytest.raises(ItemNotFound):
        await database.write(threads.move_head, P, "conv_1", "nobody")
    with pytest.raises(ItemNotFound):
        await database.write(threads.delete_message, P, "conv_1", "nobody", at=NOW)
    assert await database.read(message_tree.get_node, P, "conv_1", "\0") is None
    for work in (threads.get_branch, threads.require_thread, threads.delete_thread):
        with pytest.raises(ThreadNotFound):
            await database.write(work, "team-a", "conv_1")


async def test_messages_per_thread_and_children_per_message_are_limited(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "MAX_NODES", 5)
    monkeypatch.setattr(message_tree, "MAX_CHILDREN", 2)
    monkeypatch.setattr(threads, "MAX_CHILDREN", 2)
    await create_conversation(database, "one", "two")
    await post_messages(database, "u1", assistant("again", "a1b"))

    with pytest.raises(TooLarge):
        await post_messages(database, "u1", assistant("and again"))
    await post_messages(database, "a1b", user("x", "x"), user("y", "y"))
    with pytest.raises(TooLarge):
        await post_messages(database, "y", user("z"))
    assert (await database.read(threads.require_thread, P, "conv_1")).messages == 5

    await database.write(threads.delete_message, P, "conv_1", "y", at=NOW)
    await post_messages(database, "a1b", user("other", "o"))
    with pytest.raises(TooLarge):  # u1 would have three.
        await database.write(threads.delete_message, P, "conv_1", "a1b", below="keep", at=NOW)


# Moving the head


async def test_moving_the_head_through_a_message_returns_to_its_last_visited_leaf(database: Database) -> None:
    await create_conversation(database, "one", "two", "three", "four")
    await post_messages(database, "u1", assistant("two, again", "b1"), user("b three", "b2"), assistant("b four", "b3"))
    await post_messages(database, "b1", user("c three", "c2"))

    back = await database.write(threads.move_head, P, "conv_1", "a1", through=True)
    target = await database.write(threads.move_head, P, "conv_1", "b1", through=True)
    exactly = await database.write(threads.move_head, P, "conv_1", "b1")
    second = await database.write(threads.move_head, P, "conv_1", "u1", through=True)

    assert [t.head for t in (back, target, exactly, second)] == ["a2", "c2", "b1", "c2"]
    assert back.preview_out["text"] == "four"
    assert exactly.updated_at == second.updated_at == NOW + SECOND
    cleared = await database.write(threads.move_head, P, "conv_1", None)
    assert cleared.head is None


# Deleting


async def test_deleting_a_message_deletes_all_below_it(database: Database) -> None:
    await create_conversation(database, "one", "two", "three", "four")
    await post_messages(database, "a1", user("other", "o"))
    await database.write(threads.move_head, P, "conv_1", "a2")

    after = await database.write(threads.delete_message, P, "conv_1", "u2", at=NOW + 2 * SECOND)

    assert (after.head, after.messages, after.updated_at) == ("a1", 3, NOW + 2 * SECOND)
    assert after.preview_in["text"] == "one"
    assert [node.id for node in await database.read(message_tree.list_nodes, P, "conv_1")] == ["u1", "a1", "o"]
    assert (await database.write(threads.move_head, P, "conv_1", "u1", through=True)).head == "o"


async def test_deleting_a_message_alone_moves_its_children_up(database: Database) -> None:
    await create_conversation(database, "one", "two", "three", "four")
    await post_messages(database, "a1", user("other", "o"))
    await database.write(threads.move_head, P, "conv_1", "a2")

    after = await database.write(threads.delete_message, P, "conv_1", "a1", below="keep", at=NOW)

    assert (after.head, after.messages) == ("a2", 4)
    assert await branch_ids(database) == ["u1", "u2", "a2"]
    assert await branch_ids(database, "o") == ["u1", "o"]
    assert (await database.write(threads.move_head, P, "conv_1", "u1", through=True)).head == "a2"
    first = await database.write(threads.delete_message, P, "conv_1", "u1", below="keep", at=NOW)
    assert await database.read(message_tree.list_children_ids, P, "conv_1", [None]) == {None: ["u2", "o"]}
    assert first.head == "a2"


async def test_messages_that_an_active_run_answers_cannot_be_deleted(database: Database) -> None:
    await create_conversation(database, "one", "two", "three")
    await post_messages(database, "a1", user("other", "o"))
    await database.write(_insert_runs, [run_row("run_1", "conv_1", answers="u2")])
    await database.write(threads.claim_thread, P, "conv_1", "run_1")

    for node in ("u1", "a1", "u2"):
        with pytest.raises(StillRunning):
            await database.write(threads.delete_message, P, "conv_1", node, at=NOW)
    after = await database.write(threads.delete_message, P, "conv_1", "o", at=NOW)

    assert (after.head, after.messages) == ("a1", 3)


async def test_current_branch_cannot_be_deleted_during_an_unrecorded_run(database: Database) -> None:
    await create_conversation(database, "one", "two")
    await database.write(threads.claim_thread, P, "conv_1", "run_1")

    with pytest.raises(StillRunning):
        await database.write(threads.delete_message, P, "conv_1", "a1", at=NOW)


def _insert_runs(db: Connection, rows: list[dict[str, Any]]) -> None:
    runs.insert_runs(db, rows)


async def test_deleting_a_thread_deletes_its_runs_events_feedback_and_messages(database: Database) -> None:
    await create_conversation(database, "one", "two")
    await create_conversation(database, "kept", thread="conv_2")
    opinion = {"project": P, "message": "a1", "key": "", "user": "", "rating": "up", "comment": "", "created_at": NOW}
    batch = {"project": P, "first": 0, "count": 1, "data": b"[]"}

    def fill(db: Connection) -> None:
        runs.insert_runs(db, [run_row("run_1", "conv_1"), run_row("run_2", "conv_2")])
        db.execute(insert(feedback_table), [opinion | {"run": run} for run in ("run_1", "run_2")])
        db.execute(insert(events_table), [batch | {"run": run} for run in ("run_1", "run_2")])

    await database.write(fill)
    await database.write(threads.delete_thread, P, "conv_1")

    def remaining(db: Connection) -> list[Any]:
        columns = (feedback_table.c.run, events_table.c.run, runs_table.c.id, nodes_table.c.thread)
        return [list(db.scalars(select(column))) for column in columns]

    assert await database.read(threads.get_thread, P, "conv_1") is None
    assert await database.read(remaining) == [["run_2"], ["run_2"], ["run_2"], ["conv_2"]]


async def test_thread_with_an_active_run_cannot_be_deleted(database: Database) -> None:
    await create_conversation(database, "one")
    await database.write(threads.claim_thread, P, "conv_1", "run_1")

    with pytest.raises(StillRunning):
        await database.write(threads.delete_thread, P, "conv_1")
    await database.write(threads.release_thread, P, "conv_1", "run_1")
    await database.write(threads.delete_thread, P, "conv_1")


# Listing


async def test_threads_are_listed_by_their_latest_message(database: Database) -> None:
    for index in range(5):
        await database.write(threads.create_thread, P, new_thread(f"conv_{index}", NOW + index * SECOND))
    await database.write(
        threads.append_messages, P, "conv_1", "head", [user("late")], origin="client", at=NOW + timedelta(minutes=1)
    )

    first = await database.read(threads.list_threads, P, ThreadFilters(), Window(3))
    second = await database.read(threads.list_threads, P, ThreadFilters(), Window(3, first.next))

    assert [item.thread.id for item in first.data] == ["conv_1", "conv_4", "conv_3"]
    assert [item.thread.id for item in second.data] == ["conv_2", "conv_0"]
    assert second.next is None
    with pytest.raises(InvalidValue):
        await database.read(threads.list_threads, P, ThreadFilters(pinned=True), Window(3, first.next))


async def test_threads_are_filtered_by_workflow_origin_and_pin(database: Database) -> None:
    await database.write(threads.create_thread, P, new_thread("conv_1", workflow="tutor", pinned=True))
    await database.write(threads.create_thread, P, new_thread("conv_2", workflow="other", origin="api"))
    await database.write(threads.create_thread, "team-a", new_thread("conv_3", workflow="tutor"))

    async def list_ids(**filters: Any) -> list[str]:
        page = await database.read(threads.list_threads, P, ThreadFilters(**filters))
        return sorted(one.thread.id for one in page.data)

    assert await list_ids() == ["conv_1", "conv_2"]
    assert await list_ids(workflow="tutor") == ["conv_1"]
    assert await list_ids(origin="api") == ["conv_2"]
    assert await list_ids(pinned=True) == ["conv_1"]
    assert await list_ids(pinned=False) == ["conv_2"]
    assert await list_ids(workflow="\0", origin="\0") == []


async def test_search_is_literal_and_covers_titles_and_all_branches(database: Database) -> None:
    await create_conversation(database, "Wie heißt die STRASSE?", "100% sure_ly")
    await post_messages(database, "u1", assistant("Ça c'est l'ÉCOLE, " + "x" * 300, "b1"))
    await database.write(threads.create_thread, P, new_thread("conv_2", title="École normale"))
    await database.write(
        threads.create_thread, P, new_thread("conv_3"), [user("q", "q"), Message.assistant(Refusal("I Refuse"))]
    )

    async def search_threads(search: str) -> dict[str, Match | None]:
        page = await database.read(threads.list_threads, P, ThreadFilters(search=search))
        return {one.thread.id: one.match for one in page.data}

    assert await search_threads("école") == {
        "conv_1": Match("b1", ("Ça c'est l'ÉCOLE, " + "x" * 300)[:160]),
        "conv_2": Match(None, "École normale"),
    }
    assert await search_threads("100%") == {"conv_1": Match("a1", "100% sure_ly")}
    assert await search_threads("straße") == {"conv_1": Match("u1", "Wie heißt die STRASSE?")}
    assert await search_threads("%") == {"conv_1": Match("a1", "100% sure_ly")}
    assert await search_threads("e_l") == {"conv_1": Match("a1", "100% sure_ly")}
    assert await search_threads("10_%") == {}
    assert await search_threads("' OR 1=1 --") == {}
    assert list(await search_threads("refuse")) == ["conv_3"]
    assert await search_threads("\0") == {}
    assert {*await search_threads("")} == {"conv_1", "conv_2", "conv_3"}


# Pages of a branch, and the tree


async def test_branch_is_listed_in_pages_from_its_end(database: Database) -> None:
    await create_conversation(database, "1", "2", "3", "4", "5")
    await post_messages(database, "a1", user("aside", "aside"))

    first = await database.read(message_tree.list_branch, P, "conv_1", "u3", requested="u3", window=Window(2))
    second = await database.read(
        message_tree.list_branch, P, "conv_1", "u3", requested="u3", window=Window(2, first.next)
    )
    third = await database.read(
        message_tree.list_branch, P, "conv_1", "u3", requested="u3", window=Window(2, second.next)
    )

    assert [[node.id for node in page.data] for page in (first, second, third)] == [["a2", "u3"], ["a1", "u2"], ["u1"]]
    assert third.next is None


async def test_long_branch_is_found_among_many_other_messages(database: Database) -> None:
    await create_conversation(database, *(str(number) for number in range(300)))
    for number in range(10):  # Each below the one before it, and stored far from it.
        await post_messages(database, "u1" if not number else f"b{number - 1}", user("branch", f"b{number}"))
        await post_messages(database, "a150", *(user("aside") for _ in range(50)))

    assert await branch_ids(database, "b9") == ["u1", *(f"b{number}" for number in range(10))]
    assert await branch_ids(database, "a150") == [f"{who}{turn}" for turn in range(1, 151) for who in "ua"]
    pages, after = [], None
    for _ in range(3):
        page = await database.read(message_tree.list_branch, P, "conv_1", "b9", requested="b9", window=Window(4, after))
        pages.append([node.id for node in page.data])
        after = page.next
    assert pages == [["b6", "b7", "b8", "b9"], ["b2", "b3", "b4", "b5"], ["u1", "b0", "b1"]]


async def test_tree_lists_all_branches_with_one_line_per_message(database: Database) -> None:
    await create_conversation(database, "one\nline " + "x" * 100, "two")
    await post_messages(database, "u1", Message.assistant(ToolCall("c", "look", "{}")), origin="run", run="run_1")

    page = await database.read(message_tree.list_leaves, P, "conv_1", Window(2))
    remaining = await database.read(message_tree.list_leaves, P, "conv_1", Window(2, page.next))

    assert [(leaf.id, leaf.parent, leaf.role, leaf.line) for leaf in page.data] == [
        ("u1", None, "user", ("one line " + "x" * 100)[:80]),
        ("a1", "u1", "assistant", "two"),
    ]
    assert [(leaf.run, leaf.status, leaf.line) for leaf in remaining.data] == [("run_1", "done", "look({})")]


# Concurrency


async def test_concurrent_appends_are_stored_one_after_another(database: Database) -> None:
    await create_conversation(database, "one")

    async def answer(number: int) -> list[message_tree.Node]:
        texts = [assistant(f"answer {number}"), user(f"and {number}")]
        return await database.write(threads.append_messages, P, "conv_1", "u1", texts, origin="client", at=NOW)

    created = await asyncio.gather(*(answer(number) for number in range(12)))

    all_nodes = await database.read(message_tree.list_nodes, P, "conv_1")
    after = await database.read(threads.require_thread, P, "conv_1")
    assert [node.place for node in all_nodes] == list(range(1, 26))
    assert after.messages == 25
    assert after.head == all_nodes[-1].id
    assert len({node.id for chain in created for node in chain}) == 24
    assert len((await database.read(message_tree.list_children_ids, P, "conv_1", ["u1"]))["u1"]) == 12
