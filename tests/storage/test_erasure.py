"""Erasure of labelled data: all of it and nothing else, on every database."""

from palaver.core.messages import Message
from palaver.core.runs import Origin
from palaver.engine.engine import Engine
from palaver.engine.recorder import Recorder
from palaver.storage import erasure, feedback, runs
from palaver.storage.database import Database
from palaver.storage.erasure import ErasureCounts
from palaver.storage.feedback import Feedback
from palaver.storage.spans import queries as span_pages
from palaver.storage.spans.retention import Label
from palaver.storage.threads import message_tree
from palaver.storage.threads import repository as threads
from palaver.storage.threads.repository import NewThread
from palaver.workflows.decorators import chat
from tests.engine.run_factory import NOW, call
from tests.storage.span_factory import insert_rows, span_row


@chat
async def greeter(messages: list[Message]) -> str:
    return "Hello."


async def record_run(database: Database, user: str | None, **origin: object) -> str:
    engine = Engine(store=Recorder(database, process="p", now=lambda: NOW), now=lambda: NOW)
    new_call = call(Message.user("Hi."), user=user, session=f"of {user}")
    run = engine.start(greeter, new_call, origin=Origin(**origin))  # type: ignore[arg-type]
    await run.wait_ended()
    return run.id


async def erase_all(database: Database, label: Label, value: str, project: str = "default") -> None:
    while await database.write(erasure.erase_labelled_data, project, label, value, NOW):
        pass


async def test_erasing_a_user_deletes_all_of_their_data_and_nothing_else(database: Database) -> None:
    for name in ("conv_hers", "conv_both"):
        await database.write(threads.create_thread, "default", NewThread(id=name, at=NOW), [Message.user("Hi.")])
    single = await record_run(database, "ada", stored=True)
    hers = await record_run(database, "ada", thread="conv_hers")
    shared = await record_run(database, "ada", thread="conv_both")
    his = await record_run(database, "bob", thread="conv_both")
    elsewhere = await record_run(database, "ada", project="theirs")
    for user in ("ada", "bob"):
        opinion = Feedback(run=his, user=user, rating="up", created_at=NOW)
        await database.write(feedback.save_feedback, "default", opinion)
    result = await database.read(erasure.count_labelled_data, "default", "user", "ada")
    await erase_all(database, "user", "ada")
    remaining = await database.read(message_tree.list_nodes, "default", "conv_both")

    assert result == ErasureCounts(threads=1, runs=3, responses=1, feedback=1)
    assert await database.read(erasure.count_labelled_data, "default", "user", "ada") == ErasureCounts()
    assert [await database.read(runs.get_run, "default", run) for run in (single, hers, shared)] == [None, None, None]
    assert await database.read(runs.read_events, "default", single) == []
    assert await database.read(threads.get_thread, "default", "conv_hers") is None
    assert [node.run for node in remaining] == [None, his]
    assert await database.read(runs.get_run, "default", his) is not None
    assert await database.read(runs.get_run, "theirs", elsewhere) is not None
    assert await database.read(erasure.count_labelled_data, "default", "user", "bob") == ErasureCounts(
        threads=1, runs=1, feedback=1
    )


async def test_erasing_a_session_deletes_its_runs_and_an_unknown_label_nothing(database: Database) -> None:
    run = await record_run(database, "ada")
    unknown_counts = await database.read(erasure.count_labelled_data, "default", "session", "x' OR 1=1 --")
    await erase_all(database, "session", "x' OR 1=1 --")
    after = await database.read(runs.get_run, "default", run)
    await erase_all(database, "session", "of ada")

    assert unknown_counts == ErasureCounts()
    assert after is not None
    assert await database.read(runs.get_run, "default", run) is None


async def list_span_names(database: Database, project: str = "default") -> list[str]:
    result = await database.read(span_pages.list_spans, project)
    return [one.name for one in result.data]


async def test_erasing_a_user_deletes_labelled_spans_and_unlabelled_ones_below(database: Database) -> None:
    run = await record_run(database, "ada")
    await insert_rows(
        database,
        span_row("hers", project="default", user="ada", session="s1", run_id=run),
        span_row("her tool", 1, parent="hers", project="default", run_id=run),
        span_row("her llm", 2, parent="hers", project="default"),
        span_row("his", 3, project="default", user="bob", run_id="run_his"),
        span_row("his tool", 4, parent="his", project="default", run_id="run_his"),
        span_row("hidden", 5, trace="u", project="default", user="\u2039redacted\u203a", run_id=run),
        span_row("other", 6, trace="v", project="default"),
        span_row("theirs", 7, project="theirs", user="ada"),
    )
    result = await database.read(erasure.count_labelled_data, "default", "user", "ada")
    await erase_all(database, "user", "ada")

    assert result == ErasureCounts(runs=1, spans=4)
    assert await list_span_names(database) == ["other", "his tool", "his"]
    assert await list_span_names(database, "theirs") == ["theirs"]
    assert await database.read(erasure.count_labelled_data, "default", "user", "ada") == ErasureCounts()
    traces = await database.read(span_pages.list_traces, "default")
    assert [(one.name, one.spans) for one in traces.data] == [("other", 1), ("his", 2)]


async def test_text_of_erased_spans_is_not_found_by_search(database: Database) -> None:
    await insert_rows(
        database,
        span_row("hers", project="default", session="s1", text="unicorn"),
        span_row("his", 1, project="default"),
    )
    await erase_all(database, "session", "s1")
    result = await database.read(span_pages.list_spans, "default", span_pages.SpanQuery(search="unicorn"))

    assert result.data == []
