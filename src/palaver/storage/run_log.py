"""Recording of runs, and the conversation that a stored run saw."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, select, update

from palaver.core import json
from palaver.core.events import TERMINAL_EVENTS, Event, RunCancelled, RunFailed, RunFinished, RunStarted, TerminalEvent
from palaver.core.extraction import preview, preview_messages
from palaver.core.fold import fold
from palaver.core.messages import Message, file_ids
from palaver.core.runs import Call, EventBatch, FinishedRun, NewRun, Origin, Reply, RunStatus, interruption_events
from palaver.storage import files, notifications, redaction, runs
from palaver.storage.notifications import Change
from palaver.storage.runs import RunEnding, RunRow, StoredRun, decode_call
from palaver.storage.tables import nodes
from palaver.storage.threads import repository as threads
from palaver.storage.threads.message_tree import Node, node_row


def record_runs(
    db: Connection,
    new_runs: Sequence[NewRun],
    batches: Sequence[EventBatch],
    ended: Sequence[FinishedRun],
    now: datetime,
    followed: Collection[str] = (),
    process: str | None = None,
) -> None:
    """Write new runs, events and endings; notify other processes of the growth of `followed` runs.

    If other processes considered this one dead and ended or restarted some of its runs, their events are ignored.
    """
    if process is not None and db.dialect.name == "postgresql":  # A SQLite file has only one server.
        new_ids = {run.started.run_id for run in new_runs}
        lost = runs.find_lost_runs(db, process, {batch.run for batch in batches} - new_ids)
        batches = [batch for batch in batches if batch.run not in lost]
        ended = [run for run in ended if run.started.run_id not in lost]
    endings = {run.started.run_id: _run_ending(run, now) for run in ended}
    all_endings = list(endings.values())
    rows = [_run_row(run, endings.pop(run.started.run_id, None)) for run in new_runs]
    if rows:
        runs.insert_runs(db, rows)
    for run in new_runs:
        if _has_content(run):
            files.add_run_references(db, run.origin.project, run.started.run_id, _call_messages(run))
    _add_reply_references(db, all_endings)
    if batches:
        runs.append_events(db, batches)
        recent = {run.started.run_id for run in (*new_runs, *ended)}  # Their rows have it already.
        runs.set_first_output(db, [batch for batch in batches if batch.first_output_at and batch.run not in recent])
    if endings:
        runs.end_runs(db, list(endings.values()))
    for run in ended:
        if run.origin.was_queued:
            _redact_call(db, run.origin.project, run.started.run_id)
        if run.origin.thread is not None:
            _append_to_thread(db, run, now)
    for run in (*new_runs, *ended):
        notifications.mark_changed(db, *_run_changes(run.origin, run.started.run_id))
    notifications.notify(db, "grew", followed)


def _run_changes(origin: Origin, run: str) -> Iterator[Change]:
    """Yield the changes that the start or end of a run causes, except in its thread."""
    yield Change(origin.project, "run", run)
    if origin.board is not None:
        yield Change(origin.project, "board", origin.board, run)


def _run_row(new: NewRun, ending: RunEnding | None) -> dict[str, Any]:
    call, origin, started = new.call, new.origin, new.started
    has_content, messages = _has_content(new), _call_messages(new)
    assert started.at is not None
    row = RunRow(
        project=origin.project,
        id=started.run_id,
        workflow=new.workflow,
        variant=origin.variant,
        status=new.status,
        protocol=origin.protocol,
        background=origin.background,
        stored=origin.stored,
        thread=origin.thread,
        answers=origin.answers,
        previous=origin.previous,
        board=origin.board,
        session=started.session,
        user=call.user,
        key=origin.key,
        trace_id=started.trace_id,
        preview_in=_input_preview(messages or call.messages, call.inputs) if has_content else None,
        process=new.process,
        idempotent=new.idempotent,
        created_at=started.at,
        started_at=started.at if new.status == "running" else None,
        first_output_at=new.first_output_at,
    )
    values: dict[str, Any] = msgspec.structs.asdict(row) | {
        "call": _encode_call(call, messages) if has_content else None,
        "reading": None if origin.reading is None else json.encode(origin.reading),
        "reply": None,
    }
    return values if ending is None else values | msgspec.structs.asdict(ending)


def _has_content(new: NewRun) -> bool:
    return (new.call.record == "full" and not new.origin.is_evaluation_cell) or new.origin.must_be_stored


def _call_messages(new: NewRun) -> tuple[Message, ...]:
    return new.call.messages if new.origin.stored_messages is None else new.origin.stored_messages


def _add_reply_references(db: Connection, endings: Sequence[RunEnding]) -> None:
    """Reference the files of replies, so that they live as long as the run."""
    for ending in endings:
        if ending.reply is not None:
            files.add_run_references(db, ending.project, ending.id, ending.reply.messages)


def _encode_call(call: Call, messages: tuple[Message, ...]) -> bytes | None:
    """Encode the call without its secrets; None if it is not JSON."""
    stored = msgspec.structs.replace(call, secrets={}, messages=messages)
    try:
        return json.encode(stored)
    except json.NotJson:  # A call from Python may contain anything.
        return None


def _input_preview(messages: Sequence[Message], inputs: Mapping[str, Any]) -> Any:
    return preview_messages(messages, "input") if messages else preview(dict(inputs), "input")


def _run_ending(finished: FinishedRun, now: datetime) -> RunEnding:
    last = finished.events[-1]
    assert isinstance(last, TERMINAL_EVENTS)
    reply = fold(finished.events)
    stored_reply = reply if finished.has_content else None
    has_value = isinstance(last, RunFinished) and last.value is not msgspec.UNSET
    return RunEnding(
        project=finished.origin.project,
        id=finished.started.run_id,
        status=terminal_status(last),
        finish=reply.finish,
        error={"code": last.code, "message": last.message} if isinstance(last, RunFailed) else None,
        seq=last.seq,
        usage=reply.usage,
        reply=stored_reply,
        preview_out=None if stored_reply is None else _output_preview(stored_reply),
        first_output_at=finished.first_output_at or (last.at if has_value else None),
        ended_at=last.at or now,
    )


def terminal_status(last: TerminalEvent) -> RunStatus:
    if isinstance(last, RunFailed):
        return "failed"
    if isinstance(last, RunCancelled):
        return "cancelled"
    return "interrupted" if last.finish == "interrupted" else "finished"


def _output_preview(reply: Reply) -> Any:
    if reply.messages:
        return preview_messages(reply.messages, "output")
    return None if reply.value is msgspec.UNSET else preview(reply.value, "output")


def _append_to_thread(db: Connection, finished: FinishedRun, now: datetime) -> None:
    origin, last, reply = finished.origin, finished.events[-1], fold(finished.events)
    assert origin.thread is not None
    assert isinstance(last, TERMINAL_EVENTS)
    status = terminal_status(last)
    threads.append_run_output(
        db,
        origin.project,
        origin.thread,
        run=finished.started.run_id,
        answers=origin.answers,
        messages=reply.messages,
        status="done" if status == "finished" else "failed" if status == "failed" else "partial",
        error={"code": last.code, "message": last.message} if isinstance(last, RunFailed) else None,
        usage=reply.usage,
        at=last.at or now,
    )


def _redact_call(db: Connection, project: str, run: str) -> None:
    """Redact the call of a queued run, which had to be stored in full until the run ended."""
    redactor = redaction.get_redactor(db)
    stored = None if redactor is None else runs.get_stored_run(db, project, run)
    call = None if stored is None else runs.decode_call(stored)
    if redactor is None or stored is None or call is None:
        return
    redacted, redacted_reading = redactor.call(project, stored.row.workflow, call, stored.reading)
    input_preview = _input_preview(redacted.messages, redacted.inputs) if redacted.messages or redacted.inputs else None
    runs.update_run(db, project, run, call=json.encode(redacted), reading=redacted_reading, preview_in=input_preview)


def interrupt_run(db: Connection, project: str, run: str, now: datetime) -> bool:
    """End a run whose process died, keeping its logged events; False if it has ended."""
    stored = _lock_stored_run(db, project, run)
    if stored is None:
        return False
    now = _end_time(stored, now)
    events = runs.read_events(db, project, run)
    if events:
        _finish_run(db, stored, events, interruption_events(events, now), now)
    else:
        started = _started_event(stored)
        _finish_run(db, stored, [], [started, *interruption_events([started], now)], now)
    return True


def cancel_queued_run(db: Connection, project: str, run: str, now: datetime) -> bool:
    """Cancel a queued run; False if it has started."""
    stored = _lock_stored_run(db, project, run)
    if stored is None or stored.row.status != "queued":
        return False
    now = _end_time(stored, now)
    _finish_run(db, stored, [], [_started_event(stored), RunCancelled(1, at=now)], now)
    return True


def fail_queued_run(db: Connection, project: str, run: str, error: tuple[str, str], now: datetime) -> None:
    """Fail a queued run that could not start, with an error code and message."""
    stored = _lock_stored_run(db, project, run)
    if stored is not None:
        now = _end_time(stored, now)
        _finish_run(db, stored, [], [_started_event(stored), RunFailed(1, *error, at=now)], now)


def _lock_stored_run(db: Connection, project: str, run: str) -> StoredRun | None:
    """Return an active run, locked until the transaction ends; None if it has ended."""
    return runs.get_stored_run(db, project, run) if runs.lock_active_run(db, project, run) else None


def _end_time(stored: StoredRun, now: datetime) -> datetime:
    """Return the time of the end, never before the start: the clock may have been set back."""
    return max(now, stored.row.started_at or stored.row.created_at)


def _started_event(stored: StoredRun) -> RunStarted:
    row = stored.row
    return RunStarted(0, row.id, row.session, row.created_at, row.trace_id or "")


def _finish_run(db: Connection, stored: StoredRun, logged: list[Event], new_events: list[Event], now: datetime) -> None:
    row, events = stored.row, [*logged, *new_events]
    has_content = stored.call is not None
    if has_content:
        runs.append_events(db, [EventBatch(row.project, row.id, new_events)])
    origin = Origin(project=row.project, protocol=row.protocol, thread=row.thread, answers=row.answers, board=row.board)
    started = events[0]
    assert isinstance(started, RunStarted)
    finished = FinishedRun(
        started=started, origin=origin, events=events, has_content=has_content, first_output_at=row.first_output_at
    )
    ending = _run_ending(finished, now)
    runs.end_runs(db, [ending])
    _redact_call(db, row.project, row.id)
    _add_reply_references(db, [ending])
    if row.thread is not None:
        _append_to_thread(db, finished, now)
    notifications.mark_changed(db, *_run_changes(origin, row.id))
    notifications.notify(db, "grew", [row.id])


_MAX_CHAIN = 2_000
"""Maximum length of a chain: a call does not accept more messages."""


def run_chain(db: Connection, project: str, run: str) -> list[StoredRun] | None:
    """Return the run and the runs that it continues, oldest first; None if one of them is not stored."""
    chain: list[StoredRun] = []
    run_id: str | None = run
    while run_id is not None and len(chain) < _MAX_CHAIN:
        stored = runs.get_stored_run(db, project, run_id)
        if stored is None or not stored.row.stored:
            return None
        chain.insert(0, stored)
        run_id = None if stored.row.thread is not None else stored.row.previous
    return chain


def messages_seen_by(db: Connection, project: str, run: StoredRun) -> list[Message] | None:
    """Return the messages that a run saw, without its own instructions; None if some are deleted."""
    before = run_chain(db, project, run.row.previous) if run.row.previous and not run.row.thread else []
    if before is None:
        return None
    return [*chain_messages(db, project, before), *_run_messages(db, project, run)]


def chain_messages(db: Connection, project: str, chain: list[StoredRun]) -> list[Message]:
    messages: list[Message] = []
    for run in chain:
        messages += _run_messages(db, project, run)
        messages += run.reply.messages if run.reply is not None else ()
    return messages


def find_threads_with_message(db: Connection, project: str, node: str) -> list[str]:
    query = select(nodes.c.thread).where(nodes.c.project == project, nodes.c.id == node).limit(10)
    return list(db.scalars(query))


def replace_message(db: Connection, project: str, thread: str, node: Node, message: Message) -> None:
    """Replace a node's message after one of its items was deleted."""
    row = node_row(msgspec.structs.replace(node, message=message))
    statement = update(nodes).where(nodes.c.project == project, nodes.c.thread == thread, nodes.c.id == node.id)
    db.execute(statement.values({name: row[name] for name in ("message", "line", "folded")}))
    if lost := set(file_ids([node.message])).difference(file_ids([message])):
        files.remove_node_references(db, project, thread, [node.id], only=lost)


def _run_messages(db: Connection, project: str, run: StoredRun) -> list[Message]:
    if run.row.thread is not None:
        if run.row.answers is None:
            return []
        return [node.message for node in threads.get_branch(db, project, run.row.thread, run.row.answers)]
    call = decode_call(run)
    return list(call.messages[call.preface :]) if call is not None else []
