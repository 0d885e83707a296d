"""Spans of runs whose process died, built from the database by the process that notices; on every database."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from palaver.core.messages import ToolCall, ToolResult
from palaver.core.runs import Origin
from palaver.engine.engine import Engine
from palaver.engine.heartbeat import Heartbeat
from palaver.engine.recorder import Recorder
from palaver.engine.run import Run
from palaver.engine.tracing import RunTracer, load_interrupted_run
from palaver.storage import run_log, runs
from palaver.storage.database import Database
from palaver.traces.model import Span
from palaver.traces.run_spans import build_run_spans, derive_span_id
from palaver.workflows.decorators import chat
from tests.engine.run_factory import NOW, QUESTION, call, wait_until

ORIGIN = Origin(project="theirs", protocol="responses", key="key_1")


async def run_of_dead_process(database: Database, **options: Any) -> Run:
    """Return a run of a process that dies after its first output."""

    @chat(**options)
    async def tutor(messages: Any) -> AsyncIterator[Any]:
        yield ToolCall("c1", "look", "{}")
        yield ToolResult("c1", "seen")
        yield "Hel"
        await asyncio.Event().wait()

    recorder = Recorder(database, process="p1", now=lambda: NOW, delay=0.01)
    engine = Engine(store=recorder, now=lambda: NOW)
    run = engine.start(tutor, call(QUESTION, user="u-1"), origin=ORIGIN)
    await wait_until(lambda: len(run.log) >= 6)
    await recorder.flush()
    recorder._states.clear()  # The process is dead: it writes nothing more.
    await engine.drain(0)
    return run


async def test_the_process_that_detects_the_crash_builds_the_spans_of_the_run(database: Database) -> None:
    run = await run_of_dead_process(database)
    spans: list[Span] = []
    tracing = RunTracer(spans.extend)
    engine = Engine(now=lambda: NOW)
    presence = Heartbeat("p2", database, engine, kind="server", version="1", now=lambda: NOW, tracer=tracing)

    await presence.start(only_server=True)
    await presence.stop()
    await tracing.close()

    root, tool = spans
    assert (root.trace_id, root.span_id) == (run.started.trace_id, run.started.span_id)
    assert (root.project, root.status, root.finish, root.user) == ("theirs", "incomplete", "interrupted", "u-1")
    assert root.messages_in == (QUESTION,)
    assert [message.text for message in root.messages_out] == ["", "", "Hel"]
    assert (tool.outputs, tool.notes, tool.parent_id) == ("seen", ("untimed",), root.span_id)


async def test_an_interrupted_run_recorded_as_metadata_has_a_span_without_content(database: Database) -> None:
    run = await run_of_dead_process(database, record="metadata")
    await database.write(run_log.interrupt_run, "theirs", run.id, NOW)

    facts = await database.read(load_interrupted_run, "theirs", run.id)

    assert facts is not None
    [span] = build_run_spans(facts)
    assert (span.trace_id, span.span_id, span.status) == (run.started.trace_id, derive_span_id(run.id), "incomplete")
    assert (span.messages_in, span.messages_out, span.user) == ((), (), "u-1")
    assert span.attributes["palaver.key"] == "key_1"


async def test_an_active_or_unknown_run_is_not_loaded_as_interrupted(database: Database) -> None:
    run = await run_of_dead_process(database)
    row = await database.read(runs.get_run, "theirs", run.id)

    assert row is not None
    assert row.ended_at is None
    assert await database.read(load_interrupted_run, "theirs", run.id) is None
    assert await database.read(load_interrupted_run, "theirs", "run_unknown") is None
