"""A referenced file is deleted with the last message or run that references it."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, delete, select

from palaver.core.messages import File, Message, Text
from palaver.core.runs import Origin
from palaver.engine.engine import Engine
from palaver.engine.recorder import Recorder
from palaver.storage import files, projects, retention, run_log, runs
from palaver.storage.database import MEMORY_URL, Database, open_database
from palaver.storage.projects import Project
from palaver.storage.tables import file_uses as table
from palaver.storage.tables import files as files_table
from palaver.storage.threads import copies as thread_copies
from palaver.storage.threads import import_export as thread_files
from palaver.storage.threads import message_tree
from palaver.storage.threads import repository as threads
from palaver.storage.threads.repository import NewThread
from palaver.workflows.decorators import chat
from tests.engine.run_factory import NOW, call
from tests.storage.test_files import insert as insert_file


def message_with_files(*names: str) -> Message:
    return Message.user("Look.", *(File("text/plain", file_id=f"file_{name}") for name in names))


async def create_thread(database: Database, thread: str, *messages: Message, project: str = "default") -> None:
    await database.write(threads.create_thread, project, NewThread(id=thread, at=NOW), messages)


async def list_file_ids(database: Database) -> set[str]:
    """Return the IDs of the remaining files, without their prefix."""
    result = await database.read(lambda db: list(db.scalars(select(files_table.c.id))))
    return {name.removeprefix("file_") for name in result}


async def list_references(database: Database) -> list[tuple[str, str, str]]:
    """Return the holder, node and file of each reference."""

    def query(db: Connection) -> list[tuple[str, str, str]]:
        return sorted((row.holder, row.node, row.file) for row in db.execute(select(table)))

    return await database.read(query)


async def test_deleting_a_thread_deletes_files_that_only_it_references(database: Database) -> None:
    for name in "abc":
        await insert_file(database, name, name.encode())
    await insert_file(database, "a2", b"a", project="team-b")
    await create_thread(database, "conv_1", message_with_files("a", "b"), message_with_files("a", "unknown"))
    await create_thread(database, "conv_2", message_with_files("b"))
    await create_thread(database, "conv_3", message_with_files("a2"), project="team-b")
    before = await list_file_ids(database)

    await database.write(threads.delete_thread, "default", "conv_1")

    assert before == {"a", "b", "c", "a2"}
    assert await list_file_ids(database) == {"b", "c", "a2"}
    assert [(holder, file) for holder, _, file in await list_references(database)] == [
        ("conv_2", "file_b"),
        ("conv_3", "file_a2"),
    ]
    await database.write(threads.delete_thread, "default", "conv_2")
    assert await list_file_ids(database) == {"c", "a2"}
    assert await database.read(files.read_content, "default", "file_b") is None


async def test_deleting_a_message_deletes_files_that_only_it_references(database: Database) -> None:
    for name in "abcd":
        await insert_file(database, name, name.encode())
    await create_thread(
        database,
        "conv_1",
        message_with_files("a"),
        message_with_files("a", "b"),
        message_with_files("c"),
        message_with_files("d"),
    )
    first, second, third, _ = [node.id for node in await database.read(message_tree.list_nodes, "default", "conv_1")]

    await database.write(threads.delete_message, "default", "conv_1", second, below="keep", at=NOW)
    single = await list_file_ids(database)
    await database.write(threads.delete_message, "default", "conv_1", third, at=NOW)
    below = await list_file_ids(database)
    await database.write(threads.delete_message, "default", "conv_1", first, at=NOW)

    assert (single, below, await list_file_ids(database)) == ({"a", "c", "d"}, {"a"}, set())
    assert await list_references(database) == []


async def test_replacing_a_message_deletes_files_it_no_longer_references(database: Database) -> None:
    for name in "ab":
        await insert_file(database, name, name.encode())
    await create_thread(database, "conv_1", message_with_files("a", "b"))
    [node] = await database.read(message_tree.list_nodes, "default", "conv_1")

    await database.write(run_log.replace_message, "default", "conv_1", node, message_with_files("b"))

    assert await list_file_ids(database) == {"b"}


async def test_copied_and_imported_threads_reference_their_files(database: Database) -> None:
    for name in "ab":
        await insert_file(database, name, name.encode())
    await create_thread(database, "conv_1", message_with_files("a"), message_with_files("b"))
    first = (await database.read(message_tree.list_nodes, "default", "conv_1"))[0].id
    await database.write(thread_copies.duplicate_thread, "default", "conv_1", id="conv_2", at=NOW, upto=first)
    line = await database.read(thread_files.export_thread, "default", "conv_2")
    await database.write(threads.delete_thread, "default", "conv_1")
    copied = await list_file_ids(database)
    await database.write(threads.delete_thread, "default", "conv_2")
    deleted = await list_file_ids(database)
    await insert_file(database, "a", b"a")
    from palaver.core import json

    await database.write(
        thread_files.import_thread,
        "default",
        thread_files.parse_thread_file(json.parse_or_text(line.decode())),
        id="conv_3",
    )

    assert (copied, deleted) == ({"a"}, set())
    assert [holder for holder, _, _ in await list_references(database)] == ["conv_2"]
    await database.write(threads.delete_thread, "default", "conv_2")
    assert await list_file_ids(database) == set()


@chat
async def file_sender(messages: list[Message]) -> Message:
    return Message.assistant("Here.", File("text/plain", file_id="file_b"))


@pytest.mark.parametrize("record", ["full", "metadata"])
async def test_recorded_run_references_its_input_and_output_files(database: Database, record: str) -> None:
    for name in "ab":
        await insert_file(database, name, name.encode())
    engine = Engine(store=Recorder(database, process="p", now=lambda: NOW), now=lambda: NOW)
    run = engine.start(file_sender, call(message_with_files("a"), record=record), origin=Origin())
    await run.wait_ended()
    references = await list_references(database)
    await database.write(retention.delete_old_runs, NOW + timedelta(days=1))

    expected = [(run.id, "", "file_a"), (run.id, "", "file_b")] if record == "full" else []
    assert references == expected
    assert await database.read(runs.get_run, "default", run.id) is None
    assert await list_file_ids(database) == (set() if record == "full" else {"a", "b"})


async def test_file_of_a_run_and_a_thread_stays_until_both_are_deleted(database: Database) -> None:
    await insert_file(database, "a", b"a")
    await insert_file(database, "b", b"b")
    engine = Engine(store=Recorder(database, process="p", now=lambda: NOW), now=lambda: NOW)
    run = engine.start(file_sender, call(message_with_files("a")), origin=Origin())
    await run.wait_ended()
    await create_thread(database, "conv_1", message_with_files("a"))

    await database.write(runs.delete_runs, "default", [run.id])
    after = await list_file_ids(database)
    await database.write(threads.delete_thread, "default", "conv_1")

    assert (after, await list_file_ids(database)) == ({"a"}, set())


async def test_deleted_file_has_no_references_and_is_replaced_by_a_note(database: Database) -> None:
    await insert_file(database, "a", b"a")
    await insert_file(database, "b", b"b")
    await create_thread(database, "conv_1", message_with_files("a", "b"))
    inline_file = File("text/plain", data="YQ==", file_id="file_a")
    await database.write(files.delete_file, "default", "file_a")
    messages = [Message.user("Hi."), message_with_files("a", "b"), Message.user(inline_file)]

    replaced = await database.read(files.replace_missing_files, "default", messages)

    assert [file for _, _, file in await list_references(database)] == ["file_b"]
    note = Text("[A file was attached here (text/plain), but it is no longer available.]")
    assert replaced[1].parts == (Text("Look."), note, File("text/plain", file_id="file_b"))
    assert (replaced[0], replaced[2]) == (messages[0], messages[2])
    assert await database.read(files.replace_missing_files, "default", messages[:1]) == messages[:1]


async def test_deleting_a_project_deletes_its_file_references(database: Database) -> None:
    await database.write(projects.insert_project, Project(name="team-b", created_at=NOW))
    await insert_file(database, "a", b"a", project="team-b")
    await create_thread(database, "conv_1", message_with_files("a"), project="team-b")

    while await database.write(projects.delete_project_batch, "team-b"):
        pass

    assert (await list_references(database), await list_file_ids(database)) == ([], set())


FILE_NAMES = st.lists(st.sampled_from("abcd"), max_size=3)
ACTIONS = st.one_of(
    st.tuples(st.just("say"), st.integers(0, 2), FILE_NAMES),
    st.tuples(st.just("unsay"), st.integers(0, 2), st.integers(0, 5)),
    st.tuples(st.just("delete"), st.integers(0, 2), st.just(0)),
    st.tuples(st.just("copy"), st.integers(0, 2), st.integers(0, 2)),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(ACTIONS, max_size=12))
async def test_files_exist_until_their_last_reference_for_any_sequence_of_changes(
    acts: Sequence[tuple[str, int, object]],
) -> None:
    database = open_database(MEMORY_URL)
    for name in "abcd":
        await insert_file(database, name, name.encode())
    references: dict[str, dict[str, set[str]]] = {}
    ever_referenced: set[str] = set()
    deleted: set[str] = set()

    def now_referenced() -> set[str]:
        return {name for nodes_of in references.values() for names in nodes_of.values() for name in names}

    for act, number, more in acts:
        thread = f"conv_{number}"
        match act, more:
            case "say", list():
                if thread not in references:
                    await create_thread(database, thread)
                    references[thread] = {}
                new_nodes = await database.write(
                    threads.append_messages,
                    "default",
                    thread,
                    "head",
                    [message_with_files(*more)],
                    origin="client",
                    at=NOW,
                )
                references[thread][new_nodes[0].id] = set(more) - deleted
            case "unsay", int() if references.get(thread):
                node = list(references[thread])[more % len(references[thread])]
                await database.write(threads.delete_message, "default", thread, node, below="keep", at=NOW)
                del references[thread][node]
            case "copy", int() if thread in references and f"conv_{more}" not in references:
                await database.write(thread_copies.duplicate_thread, "default", thread, id=f"conv_{more}", at=NOW)
                references[f"conv_{more}"] = {node: set(names) for node, names in references[thread].items()}
            case "delete", _ if thread in references:
                await database.write(threads.delete_thread, "default", thread)
                del references[thread]
            case _:
                continue
        ever_referenced |= now_referenced()
        deleted = ever_referenced - now_referenced()

        assert await list_file_ids(database) == set("abcd") - deleted
    await database.write(lambda db: db.execute(delete(table)))
    await database.close()
