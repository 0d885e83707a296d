"""POST /api/testsets/{id}/rows/from: a conversation, a trace or a result becomes a row, or a script."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from litestar import Response, post
from litestar.params import FromPath
from msgspec import UNSET
from sqlalchemy import Connection

from palaver.core.messages import Message
from palaver.errors import InvalidValue, ItemNotFound, NotFound
from palaver.evaluation.plan.plan import Plan, parse_cell_id
from palaver.protocols.base import HttpResponse
from palaver.server.api.conventions import Asked, caller_of, read_body, shown_as, takes, utc_now
from palaver.server.api.dependencies import ApiController
from palaver.server.api.idempotency import answered, once
from palaver.server.api.testset_views import (
    CaseView,
    FromConversation,
    FromResult,
    FromTrace,
    NewCase,
    revision_view,
)
from palaver.server.api.trace_views import missing_trace
from palaver.server.redaction import RedactionPolicy
from palaver.server.settings import Settings
from palaver.storage import files, runs
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results as evaluation_pages
from palaver.storage.spans import queries as span_pages
from palaver.storage.spans import traces as span_trees
from palaver.storage.testsets import repository as testset_revisions
from palaver.storage.threads import message_tree
from palaver.storage.threads import repository as thread_rows
from palaver.storage.threads import repository as threads
from palaver.testsets import commits, from_traces, row_pages
from palaver.testsets.commits import CommitInfo, PreparedCommit
from palaver.testsets.delta import Added, Delta, Replaced
from palaver.testsets.from_traces import RecordedCall
from palaver.testsets.rows import format_row_id
from palaver.traces.model import Span

if TYPE_CHECKING:
    from palaver.traces.redaction.redactor import RunRedactor

Cleaning = Callable[[str, str | None], "RunRedactor | None"]
"""What removes from a case of a project's workflow what is not to be kept."""
_read_span = msgspec.json.Decoder(Span).decode


class _Cut(NamedTuple):
    """A case, ready to be committed."""

    prepared: PreparedCommit
    row: str
    data: dict[str, Any]
    messages: Sequence[Message]
    """What it was made of: they may name files."""


class TestSetCaseController(ApiController):
    path = "/api/testsets"

    database: Database
    settings: Settings
    redaction: RedactionPolicy

    @post(
        "/{testset:str}/rows/from",
        operation_id="cut_testset_row",
        summary="A row of what happened: a conversation, a trace, or a result of an evaluation",
        operation_class=takes(NewCase),
    )
    async def cut_testset_row(self, request: Asked, testset: FromPath[str]) -> Response[CaseView]:
        caller = caller_of(request)
        raw, body = await read_body(request, self.settings, NewCase)
        if (before := await answered(request, self.database, raw)) is not None:
            return before
        found = await self.database.read(
            _cut, caller.project, testset, body, self.redaction.case_redactor, self.settings
        )
        written = CommitInfo(message=body.message, key=caller.key, at=utc_now())

        def work(db: Connection) -> HttpResponse:
            made, is_new = commits.commit(db, caller.project, testset, found.prepared, written)
            files.add_references(db, caller.project, testset, ((found.row, message) for message in found.messages))
            about = msgspec.structs.asdict(revision_view(made, is_new=is_new))
            place = f"{self.settings.root_path}/api/testsets/{testset}/revisions/{made.number}"
            shown = CaseView(**about, row=found.row, data=found.data)
            return shown_as(shown, status=201, location=place) if is_new else shown_as(shown)

        return await once(request, self.database, raw, work)


def _cut(db: Connection, project: str, testset: str, body: NewCase, cleaning: Cleaning, settings: Settings) -> _Cut:
    commits.require_base(db, project, testset, body.base)
    limits = settings.testset_limits
    match body.source:
        case FromResult():
            return _accepted(db, project, testset, body, body.source, cleaning, settings)
        case FromConversation():
            happened, workflow = _conversation(db, project, body.source)
        case FromTrace():
            happened, workflow = _trace(db, project, body.source)
    happened = _cleaned(happened, cleaning(project, workflow))
    made = from_traces.make_row if body.as_ == "row" else from_traces.make_script_row
    data = made(happened, body.columns)
    prepared = commits.prepare_delta(db, project, testset, Delta(add=[Added(data)]), base=body.base, limits=limits)
    return _Cut(_from(body, prepared), format_row_id(prepared.added[0]), data, [*happened.messages, *happened.reply])


def _from(body: NewCase, prepared: PreparedCommit) -> PreparedCommit:
    """The same, and beside the new row where it came from."""
    metas = {packed: {"source": msgspec.to_builtins(body.source)} for packed in prepared.added}
    return msgspec.structs.replace(prepared, metas=metas)


def _cleaned(happened: RecordedCall, redactor: "RunRedactor | None") -> RecordedCall:
    if redactor is None:
        return happened
    return RecordedCall(
        redactor.redact_messages(happened.messages),
        redactor.redact_mapping(happened.inputs),
        redactor.redact_messages(happened.reply, "messages_out"),
        UNSET if happened.value is UNSET else redactor.redact_value(happened.value, "outputs"),
    )


# What happened


def _conversation(db: Connection, project: str, source: FromConversation) -> tuple[RecordedCall, str | None]:
    thread = thread_rows.require_thread(db, project, source.id)
    branch = threads.get_branch(db, project, thread.id)
    if source.upto is not None and all(node.id != source.upto for node in branch):
        tree = message_tree.load_tree(db, project, thread.id)
        if source.upto not in tree:
            raise ItemNotFound(source.upto, pointer="/source/upto")
        branch = threads.get_branch(db, project, thread.id, tree.leaf(source.upto))
    messages = [msgspec.structs.replace(node.message, id=node.id) for node in branch]
    happened = from_traces.call_from_conversation(messages, upto=source.upto)
    said = {message.id for message in happened.reply}
    run = next((node.run for node in branch if node.id in said and node.run is not None), None)
    return happened._replace(inputs=_inputs(db, project, run, thread.inputs)), thread.workflow


def _inputs(db: Connection, project: str, run: str | None, otherwise: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the run that answered was given; where nobody knows any more, what the conversation gives to all."""
    whole = None if run is None else runs.get_stored_run(db, project, run)
    call = None if whole is None else runs.decode_call(whole)
    return otherwise if call is None else call.inputs


def _trace(db: Connection, project: str, source: FromTrace) -> tuple[RecordedCall, str | None]:
    trace, span = source.trace_id.lower(), source.span_id
    if span is None:
        head = span_pages.get_head_span(db, project, trace)
        span = None if head is None else head.span_id
    body = None if span is None else span_trees.get_span_body(db, project, trace, span.lower())
    if body is None:
        raise missing_trace(source.trace_id)
    found = _read_span(body)
    return from_traces.call_from_span(found), found.workflow


def _accepted(
    db: Connection,
    project: str,
    testset: str,
    body: NewCase,
    source: FromResult,
    cleaning: Cleaning,
    settings: Settings,
) -> _Cut:
    """The case's row, which expects from now on what was answered."""
    if body.as_ == "script":
        raise InvalidValue("A result is accepted as a row: leave out `as`.", pointer="/as")
    evaluation, kept = evaluations.get_plan(db, project, source.run)
    whole = evaluation_pages.get_result(db, project, evaluation.id, parse_cell_id(str(source.result)))
    variant = msgspec.convert(kept, Plan).variants[whole.result.variant]
    answer = msgspec.convert(whole.body["messages"], list[Message])
    happened = RecordedCall(reply=answer, value=whole.body.get("value", UNSET))
    happened = _cleaned(happened, cleaning(project, variant.workflow))
    revision = testset_revisions.get_revision(db, project, evaluation.testset, evaluation.revision, evaluation.revision)
    case = row_pages.get_row(db, project, revision, whole.result.row)
    column = body.columns.get(from_traces.EXPECTED_COLUMN) or variant.map.expected or from_traces.EXPECTED_COLUMN
    data = from_traces.accept_answer(case.data, happened, column=column)
    is_there = evaluation.testset == testset and _has(db, project, testset, body.base, case.id)
    changes = Delta(replace=[Replaced(case.id, data)]) if is_there else Delta(add=[Added(data)])
    prepared = commits.prepare_delta(db, project, testset, changes, base=body.base, limits=settings.testset_limits)
    named = case.id if is_there else format_row_id(prepared.added[0])
    return _Cut(_from(body, prepared), named, data, happened.reply)


def _has(db: Connection, project: str, testset: str, base: int, row: str) -> bool:
    try:
        row_pages.get_row(db, project, testset_revisions.get_revision(db, project, testset, base, base), row)
    except NotFound:
        return False
    return True
