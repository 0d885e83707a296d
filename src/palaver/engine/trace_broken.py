"""The facts of a run whose process died, as far as the database has them: for its span, which nobody else will make."""

from msgspec.structs import replace
from sqlalchemy import Connection

from palaver.core.calls import Call
from palaver.core.events import Event, RunFinished, RunStarted
from palaver.core.origins import Origin
from palaver.storage import events, histories, runs
from palaver.traces.facts import Facts


def broken_off(db: Connection, project: str, run: str) -> Facts | None:
    """What is known of a run that was interrupted; None where its trace is not known.

    When its tools were called nobody knows any more. Where its content was not kept, there is no log, and no call.
    """
    found = runs.whole(db, project, run)
    if found is None:
        return None
    row, call = found.row, runs.call_of(found)
    trace_id, ended_at = row.trace_id, row.ended_at
    if not trace_id or ended_at is None:
        return None
    if call is None:
        call = Call(workflow=row.workflow, user=row.user, record="metadata")
    else:
        call = replace(call, messages=tuple(histories.seen(db, project, found) or call.messages))
    said: list[Event] = events.after(db, project, run)
    if not said:
        started = RunStarted(0, row.id, row.session, row.started_at or row.created_at, trace_id)
        said = [started, RunFinished(1, finish="interrupted", at=ended_at)]
    return Facts(
        workflow=row.workflow,
        is_chat=bool(call.messages),
        call=call,
        origin=Origin(project=project, key=row.key, protocol=row.protocol, variant=row.variant),
        events=said,
        ended_at=ended_at,
        first_output_at=row.first_output_at,
    )
