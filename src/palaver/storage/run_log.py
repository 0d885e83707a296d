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
from palaver.storage.runs import RunEnding, StoredRun, decode_call
from palaver.storage.tables import nodes
from palaver.storage.threads import repository as threads
from palaver.storage.threads.message_tree import Node, node_row


def record_runs(
    db: Connection,
    new: Sequence[NewRun],
    batches: Sequence[EventBatch],
    ended: Sequence[FinishedRun],
    now: datetime,
    followed: Collection[str] = (),
    process: str | None = None,
) -> None:
    """Write new runs, events and ends; notify other processes of the growth of `followed` runs.

    Runs of a process that others took for dead may have been ended or restarted elsewhere: what it writes of them is
    ignored.
    """
    if process is not None and db.dialect.name == "postgresql":  # A SQLite file has only one server.
        lost = runs.find_lost_runs(db, process, {one.run for one in batches} - {one.started.run_id for one in new})
        batches = [one for one in batches if one.run not in lost]
        ended = [one for one in ended if one.started.run_id not in lost]
    endings = {one.started.run_id: _run_ending(one, now) for one in ended}
    replies = list(endings.values())
    rows = [_run_row(one, endings.pop(one.started.run_id, None)) for one in new]
    if rows:
        runs.insert_runs(db, rows)
    for one in new:
        if _has_content(one):
            files.add_run_references(db, one.origin.project, one.started.run_id, _call_messages(one))
    _add_reply_references(db, replies)
    if batches:
        runs.append_events(db, batches)
        recent = {one.started.run_id for one in (*new, *ended)}  # Their rows contain it.
        runs.set_first_output(db, [one for one in batches if one.first_output_at is not None and one.run not in recent])
    if endings:
        runs.end_runs(db, list(endings.values()))
    for one in ended:
        if one.origin.waited:
            _redact_call(db, one.origin.project, one.started.run_id)
        if one.origin.thread is not None:
            _append_to_thread(db, one, now)
    notifications.mark_all_changed(
        db, (change for one in (*new, *ended) for change in _run_changes(one.origin, one.started.run_id))
    )
    notifications.notify(db, "grew", followed)


def _run_changes(origin: Origin, run: str) -> Iterator[Change]:
    """The changes that the start or end of a run causes, except in its thread."""
    yield Change(origin.project, "run", run)
    if origin.board is not None:
        yield Change(origin.project, "board", origin.board, run)


def _run_row(one: NewRun, ending: RunEnding | None) -> dict[str, Any]:
    call, origin, started = one.call, one.origin, one.started
    has_content, said = _has_content(one), _call_messages(one)
    row: dict[str, Any] = {
        "project": origin.project,
        "id": started.run_id,
        "workflow": one.workflow,
        "variant": origin.variant,
        "status": one.status,
        "finish": None,
        "error": None,
        "protocol": origin.protocol,
        "background": origin.background,
        "stored": origin.stored,
        "thread": origin.thread,
        "answers": origin.answers,
        "previous": origin.previous,
        "board": origin.board,
        "session": started.session,
        "user": call.user,
        "key": origin.key,
        "trace_id": started.trace_id,
        "seq": -1,
        "usage": None,
        "call": _encode_call(call, said) if has_content else None,
        "reading": None if origin.reading is None else json.encode(origin.reading),
        "reply": None,
        "preview_in": _input_preview(said or call.messages, call.inputs) if has_content else None,
        "preview_out": None,
        "process": one.process,
        "idempotent": one.idempotent,
        "attempts": 0,
        "cancel_asked_at": None,
        "created_at": started.at,
        "started_at": started.at if one.status == "running" else None,
        "first_output_at": one.first_output_at,
        "ended_at": None,
    }
    return row if ending is None else row | msgspec.structs.asdict(ending)


def _has_content(one: NewRun) -> bool:
    return (one.call.record == "full" and not one.origin.is_cell) or one.origin.is_needed


def _call_messages(one: NewRun) -> tuple[Message, ...]:
    """Return the messages of the call that are stored with the run."""
    return one.call.messages if one.origin.said is None else one.origin.said


def _add_reply_references(db: Connection, endings: Sequence[RunEnding]) -> None:
    """Reference the files of replies, so that they live as long as the run."""
    for one in endings:
        if one.reply is not None:
            files.add_run_references(db, one.project, one.id, one.reply.messages)


def _encode_call(call: Call, said: tuple[Message, ...]) -> bytes | None:
    """Encode the call without its secrets; None if it is not JSON."""
    kept = msgspec.structs.replace(call, secrets={}, messages=said)
    try:
        return json.encode(kept)
    except json.NotJson:  # A call from Python may contain anything.
        return None


def _input_preview(said: Sequence[Message], inputs: Mapping[str, Any]) -> Any:
    return preview_messages(said, "input") if said else preview(dict(inputs), "input")


def _run_ending(one: FinishedRun, now: datetime) -> RunEnding:
    last = one.events[-1]
    assert isinstance(last, TERMINAL_EVENTS)
    reply = fold(one.events)
    kept = reply if one.has_content else None
    return RunEnding(
        project=one.origin.project,
        id=one.started.run_id,
        status=terminal_status(last),
        finish=reply.finish,
        error={"code": last.code, "message": last.message} if isinstance(last, RunFailed) else None,
        seq=last.seq,
        usage=reply.usage,
        reply=kept,
        preview_out=None if kept is None else _output_preview(kept),
        first_output_at=one.first_output_at or (None if _value(last) is msgspec.UNSET else last.at),
        ended_at=last.at or now,
    )


def _value(last: TerminalEvent) -> Any:
    return last.value if isinstance(last, RunFinished) else msgspec.UNSET


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


def _append_to_thread(db: Connection, one: FinishedRun, now: datetime) -> None:
    from palaver.storage.threads import repository as threads

    origin, last, reply = one.origin, one.events[-1], fold(one.events)
    assert origin.thread is not None
    assert isinstance(last, TERMINAL_EVENTS)
    status = terminal_status(last)
    threads.append_run_output(
        db,
        origin.project,
        origin.thread,
        run=one.started.run_id,
        answers=origin.answers,
        messages=reply.messages,
        status="done" if status == "finished" else "failed" if status == "failed" else "partial",
        error={"code": last.code, "message": last.message} if isinstance(last, RunFailed) else None,
        usage=reply.usage,
        at=last.at or now,
    )


def _redact_call(db: Connection, project: str, run: str) -> None:
    """Redact the call of a queued run, which had to be stored in full until the run ended."""
    redactor = redaction.redactor_of(db)
    found = None if redactor is None else runs.get_stored_run(db, project, run)
    call = None if found is None else runs.decode_call(found)
    if redactor is None or found is None or call is None:
        return
    redacted, reading = redactor.call(project, found.row.workflow, call, found.reading)
    shown = _input_preview(redacted.messages, redacted.inputs) if redacted.messages or redacted.inputs else None
    runs.update_run(db, project, run, call=json.encode(redacted), reading=reading, preview_in=shown)


def interrupt_run(db: Connection, project: str, run: str, now: datetime) -> bool:
    """End a run whose process died, keeping its logged events; False if it has ended."""
    if not runs.lock_active_run(db, project, run):
        return False
    found = runs.get_stored_run(db, project, run)
    assert found is not None
    now = _end_time(found, now)
    said = runs.read_events(db, project, run)
    if said:
        _finish_run(db, found, said, interruption_events(said, now), now)
    else:
        started = _started_event(found)
        _finish_run(db, found, [], [started, *interruption_events([started], now)], now)
    return True


def cancel_queued_run(db: Connection, project: str, run: str, now: datetime) -> bool:
    """Cancel a queued run; False if it has started."""
    if not runs.lock_active_run(db, project, run):
        return False
    found = runs.get_stored_run(db, project, run)
    if found is None or found.row.status != "queued":
        return False
    now = _end_time(found, now)
    _finish_run(db, found, [], [_started_event(found), RunCancelled(1, at=now)], now)
    return True


def fail_queued_run(db: Connection, project: str, run: str, error: tuple[str, str], now: datetime) -> None:
    """Fail a queued run that could not start, with the error code and message `why`."""
    if runs.lock_active_run(db, project, run):
        found = runs.get_stored_run(db, project, run)
        assert found is not None
        now = _end_time(found, now)
        _finish_run(db, found, [], [_started_event(found), RunFailed(1, *error, at=now)], now)


def _end_time(found: StoredRun, now: datetime) -> datetime:
    """Return the time of the end, never before the start: the clock may have been set back."""
    return max(now, found.row.started_at or found.row.created_at)


def _started_event(found: StoredRun) -> RunStarted:
    row = found.row
    return RunStarted(0, row.id, row.session, row.created_at, row.trace_id or "")


def _finish_run(db: Connection, found: StoredRun, said: list[Event], last: list[Event], now: datetime) -> None:
    row, whole = found.row, [*said, *last]
    has_content = found.call is not None
    if has_content:
        runs.append_events(db, [EventBatch(row.project, row.id, last)])
    origin = Origin(project=row.project, protocol=row.protocol, thread=row.thread, answers=row.answers, board=row.board)
    started = whole[0]
    assert isinstance(started, RunStarted)
    one = FinishedRun(
        started=started,
        origin=origin,
        events=whole,
        has_content=has_content,
        first_output_at=row.first_output_at,
    )
    ending = _run_ending(one, now)
    runs.end_runs(db, [ending])
    _redact_call(db, row.project, row.id)
    _add_reply_references(db, [ending])
    if row.thread is not None:
        _append_to_thread(db, one, now)
    notifications.mark_all_changed(db, _run_changes(origin, row.id))
    notifications.notify(db, "grew", [row.id])


_MAX_CHAIN = 2_000
"""Maximum length of a chain: a call does not accept more messages."""


def run_chain(db: Connection, project: str, run: str) -> list[StoredRun] | None:
    """Return the run and those it continues, oldest first; None if one of them is not stored."""
    found: list[StoredRun] = []
    wanted: str | None = run
    while wanted is not None and len(found) < _MAX_CHAIN:
        one = runs.get_stored_run(db, project, wanted)
        if one is None or not one.row.stored:
            return None
        found.insert(0, one)
        wanted = None if one.row.thread is not None else one.row.previous
    return found


def messages_seen_by(db: Connection, project: str, run: StoredRun) -> list[Message] | None:
    """Return the messages that a run saw, without its own instructions; None if some are deleted."""
    before = run_chain(db, project, run.row.previous) if run.row.previous and not run.row.thread else []
    if before is None:
        return None
    return [*chain_messages(db, project, before), *_run_messages(db, project, run)]


def chain_messages(db: Connection, project: str, chain: list[StoredRun]) -> list[Message]:
    """Return the questions and answers of a chain of runs."""
    messages: list[Message] = []
    for run in chain:
        messages += _run_messages(db, project, run)
        messages += run.reply.messages if run.reply is not None else ()
    return messages


def find_threads_with_message(db: Connection, project: str, node: str) -> list[str]:
    """Return the ids of threads that contain a message."""
    asked = select(nodes.c.thread).where(nodes.c.project == project, nodes.c.id == node).limit(10)
    return list(db.scalars(asked))


def replace_message(db: Connection, project: str, thread: str, node: Node, message: Message) -> None:
    """Replace a node's message after one of its items was deleted."""
    row = node_row(msgspec.structs.replace(node, message=message))
    theirs = update(nodes).where(nodes.c.project == project, nodes.c.thread == thread, nodes.c.id == node.id)
    db.execute(theirs.values({name: row[name] for name in ("message", "line", "folded")}))
    if lost := set(file_ids([node.message])).difference(file_ids([message])):
        files.remove_node_references(db, project, thread, [node.id], only=lost)


def _run_messages(db: Connection, project: str, run: StoredRun) -> list[Message]:
    if run.row.thread is not None:
        if run.row.answers is None:
            return []
        return [node.message for node in threads.get_branch(db, project, run.row.thread, run.row.answers)]
    call = decode_call(run)
    return list(call.messages[call.preface :]) if call is not None else []
