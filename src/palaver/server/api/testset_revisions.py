"""/api/testsets/{id}/revisions: commits, differences and rows; …/rows/from: rows from recorded calls."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, QueryParameter
from msgspec import UNSET
from sqlalchemy import Connection

from palaver.core.messages import Message
from palaver.errors import ConflictingFields, InvalidValue, ItemNotFound, NotFound
from palaver.evaluation.plan.column_map import find_expected_columns
from palaver.evaluation.plan.plan import Plan, parse_cell_id
from palaver.protocols.base import HttpResponse
from palaver.server.api.conventions import (
    After,
    ApiRequest,
    Limit,
    Search,
    caller_of,
    encode_object,
    find_replay,
    object_response,
    operation_with_body,
    read_body,
    run_idempotent,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.api.testsets import (
    CaseView,
    DiffView,
    FromConversation,
    FromResult,
    FromTrace,
    NewCase,
    NewRevision,
    RevisionDetail,
    RevisionRow,
    RevisionView,
    RowCounts,
    RowDetail,
    RowDifference,
    RowView,
    revision_detail,
    revision_row,
    revision_view,
    row_view,
    whole_row,
)
from palaver.server.api.trace_views import missing_trace
from palaver.server.redaction import RedactionPolicy
from palaver.server.settings import Settings
from palaver.storage import files, runs
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results as result_store
from palaver.storage.pagination import Page, Window
from palaver.storage.spans import queries as span_queries
from palaver.storage.spans import traces as span_traces
from palaver.storage.testsets import repository as testsets
from palaver.storage.testsets import rows as testset_rows
from palaver.storage.testsets.repository import Revision
from palaver.storage.threads import message_tree
from palaver.storage.threads import repository as threads
from palaver.testsets import commits, diff, from_traces, row_pages
from palaver.testsets.commits import CommitInfo, PreparedCommit, StagedImport, SubmittedRow
from palaver.testsets.delta import Added, Delta, Replaced
from palaver.testsets.diff import Difference
from palaver.testsets.from_traces import RecordedCall
from palaver.testsets.row_pages import RowFilter, StoredRow, parse_row_filter
from palaver.testsets.rows import format_row_id, pack_row_id
from palaver.traces.model import Span

if TYPE_CHECKING:
    from palaver.traces.redaction.redactor import RunRedactor


RevisionName = Annotated[
    str, QueryParameter(max_length=80, description="A revision number, a digest or digest prefix, or `head`.")
]
_MAX_TRANSACTION_ROWS = 2_000
"""Changes of columns in larger test sets are staged in batches."""
Since = Annotated[
    str,
    QueryParameter(
        name="from", max_length=80, description="The older revision: a number, a digest or digest prefix, or `head`."
    ),
]


class TestSetRevisionController(ApiController):
    path = "/api/testsets"

    database: Database
    settings: Settings

    @get(
        "/{testset:str}/revisions",
        operation_id="list_testset_revisions",
        summary="List the revisions of a test set, newest first",
    )
    async def list_testset_revisions(
        self, request: ApiRequest, testset: FromPath[str], limit: Limit = 50, after: After = None
    ) -> Page[RevisionRow]:
        window = Window(limit, after)
        return (await self.database.read(_list_revisions, caller_of(request).project, testset, window)).map(
            revision_row
        )

    @post(
        "/{testset:str}/revisions",
        operation_id="commit_testset",
        summary="Commit a revision: all rows, a delta, or an older revision to restore",
        operation_class=operation_with_body(NewRevision),
    )
    async def commit_testset(self, request: ApiRequest, testset: FromPath[str]) -> Response[RevisionView]:
        caller = caller_of(request)
        raw, body = await read_body(request, self.settings, NewRevision)
        if (replay := await find_replay(request, self.database, raw)) is not None:
            return replay
        delta = None if body.delta is UNSET or not body.delta.changes_columns else body.delta
        if delta is not None:
            _check_form(body)
            stored_testset = await self.database.read(
                commits.check_delta, caller.project, testset, delta, base=body.base
            )
            if stored_testset.rows > _MAX_TRANSACTION_ROWS:
                return await self._commit_column_changes(request, testset, raw, body, delta)
        prepared = await self.database.read(_prepare_commit, caller.project, testset, body, self.settings)
        return await self._commit(request, testset, raw, body, prepared)

    async def _commit_column_changes(
        self, request: ApiRequest, testset: str, raw: bytes, body: NewRevision, delta: Delta
    ) -> Response[RevisionView]:
        """Commit a delta that changes every row, staging the rows in batches first."""
        project, limits = caller_of(request).project, self.settings.testset_limits
        async with StagedImport(self.database, project, testset, utc_now) as staging:
            rehashed = await commits.stage_column_changes(
                self.database, staging, project, testset, body.base, delta.columns, limits
            )
            options = {"rehashed": rehashed, "staged_by": staging.claim, "base": body.base, "limits": limits}
            prepared = await self.database.read(partial(commits.prepare_delta, **options), project, testset, delta)
            return await self._commit(request, testset, raw, body, prepared)

    async def _commit(
        self, request: ApiRequest, testset: str, raw: bytes, body: NewRevision, prepared: PreparedCommit
    ) -> Response[RevisionView]:
        caller = caller_of(request)
        info = CommitInfo(message=body.message, key=caller.key, at=utc_now())

        def work(db: Connection) -> HttpResponse:
            revision, is_new = commits.commit(db, caller.project, testset, prepared, info)
            view = revision_view(revision, is_new=is_new)
            location = f"{self.settings.root_path}/api/testsets/{testset}/revisions/{revision.number}"
            return encode_object(view, status=201, location=location) if is_new else encode_object(view)

        return await run_idempotent(request, self.database, raw, work)

    @get(
        "/{testset:str}/revisions/{revision:str}",
        operation_id="get_testset_revision",
        summary="Get a revision by number, digest or head",
    )
    async def get_testset_revision(
        self, request: ApiRequest, testset: FromPath[str], revision: FromPath[str]
    ) -> Response[RevisionDetail]:
        stored_revision = await self.database.read(find_revision, caller_of(request).project, testset, revision)
        return object_response(request, revision_detail(stored_revision))

    @get(
        "/{testset:str}/diff",
        operation_id="compare_testset_revisions",
        summary="Compare two revisions",
    )
    async def compare_testset_revisions(
        self,
        request: ApiRequest,
        testset: FromPath[str],
        since: Since,
        to: RevisionName = "head",
        limit: Limit = 50,
        after: After = None,
    ) -> DiffView:
        project, window = caller_of(request).project, Window(limit, after)
        return _diff_view(await self.database.read(_compare_revisions, project, testset, since, to, window))


def find_revision(db: Connection, project: str, testset: str, revision: str) -> Revision:
    """Return a revision by number, digest or `head`. Raises NotFound."""
    stored_testset = testsets.get_testset(db, project, testset)
    return testsets.get_revision(db, project, testset, revision, stored_testset.head)


def _list_revisions(db: Connection, project: str, testset: str, window: Window) -> Page[Revision]:
    testsets.get_testset(db, project, testset)
    return testsets.list_revisions(db, project, testset, window)


def _prepare_commit(
    db: Connection, project: str, testset: str, body: NewRevision, settings: Settings
) -> PreparedCommit:
    _check_form(body)
    limits = settings.testset_limits
    if body.rows is not UNSET:
        rows = [SubmittedRow(row.data, row.id) for row in body.rows]
        return commits.prepare_rows(db, project, testset, rows, base=body.base, limits=limits)
    if body.delta is not UNSET:
        return commits.prepare_delta(db, project, testset, body.delta, base=body.base, limits=limits)
    return commits.prepare_restore(db, project, testset, str(body.restore), base=body.base)


def _check_form(body: NewRevision) -> None:
    forms = {"rows": body.rows, "delta": body.delta, "restore": body.restore}
    names = [name for name, form in forms.items() if form is not UNSET]
    if len(names) != 1:
        problem = f"got {' and '.join(names)}" if names else "got none"
        raise ConflictingFields(f"A commit needs exactly one of rows, delta and restore, {problem}.")


def _compare_revisions(db: Connection, project: str, testset: str, since: str, to: str, window: Window) -> Difference:
    old, new = find_revision(db, project, testset, since), find_revision(db, project, testset, to)
    return diff.diff_revisions(db, project, old, new, window)


def _diff_view(difference: Difference) -> DiffView:
    rows = [
        RowDifference(id=row.id, change=row.change, moved=row.moved, cells=list(row.cells))
        for row in difference.rows.data
    ]
    counts = RowCounts(**msgspec.structs.asdict(difference.counts))
    return DiffView(counts=counts, columns=difference.columns, rows=rows, next=difference.rows.next)


FindRedactor = Callable[[str, str | None], "RunRedactor | None"]
"""`(project, workflow)`: the redactor for recorded calls of the workflow."""
_decode_span = msgspec.json.Decoder(Span).decode


class _PreparedCase(NamedTuple):
    prepared: PreparedCommit
    row: str
    data: dict[str, Any]
    messages: Sequence[Message]
    """The source messages, which may reference files."""


class TestSetCaseController(ApiController):
    path = "/api/testsets"

    database: Database
    settings: Settings
    redaction: RedactionPolicy

    @post(
        "/{testset:str}/rows/from",
        operation_id="cut_testset_row",
        summary="Add a row from a thread, trace or evaluation result",
        operation_class=operation_with_body(NewCase),
    )
    async def cut_testset_row(self, request: ApiRequest, testset: FromPath[str]) -> Response[CaseView]:
        caller = caller_of(request)
        raw, body = await read_body(request, self.settings, NewCase)
        if (replay := await find_replay(request, self.database, raw)) is not None:
            return replay
        case = await self.database.read(
            _prepare_case, caller.project, testset, body, self.redaction.case_redactor, self.settings
        )
        info = CommitInfo(message=body.message, key=caller.key, at=utc_now())

        def work(db: Connection) -> HttpResponse:
            revision, is_new = commits.commit(db, caller.project, testset, case.prepared, info)
            files.add_references(db, caller.project, testset, ((case.row, message) for message in case.messages))
            fields = msgspec.structs.asdict(revision_view(revision, is_new=is_new))
            location = f"{self.settings.root_path}/api/testsets/{testset}/revisions/{revision.number}"
            view = CaseView(**fields, row=case.row, data=case.data)
            return encode_object(view, status=201, location=location) if is_new else encode_object(view)

        return await run_idempotent(request, self.database, raw, work)


def _prepare_case(
    db: Connection, project: str, testset: str, body: NewCase, find_redactor: FindRedactor, settings: Settings
) -> _PreparedCase:
    commits.require_base(db, project, testset, body.base)
    limits = settings.testset_limits
    match body.source:
        case FromResult():
            return _accept_result(db, project, testset, body, body.source, find_redactor, settings)
        case FromConversation():
            call, workflow = _call_from_thread(db, project, body.source)
        case FromTrace():
            call, workflow = _call_from_trace(db, project, body.source)
    call = _redact_call(call, find_redactor(project, workflow))
    if body.as_ == "script":
        data = from_traces.make_script_row(call, body.columns)
    else:
        other_columns = {from_traces.MESSAGES_COLUMN, *call.inputs, *body.columns.values()}
        expected_column = _find_expected_column(db, project, testset, body.base, other_columns)
        data = from_traces.make_row(call, body.columns, expected_column=expected_column)
    prepared = commits.prepare_delta(db, project, testset, Delta(add=[Added(data)]), base=body.base, limits=limits)
    return _PreparedCase(
        _add_source(body, prepared),
        format_row_id(prepared.added[0]),
        data,
        [*call.messages, *call.reply],
    )


_RECENT_EVALUATIONS = 10
"""Maximum number of evaluations whose column mapping is looked at."""


def _find_expected_column(
    db: Connection,
    project: str,
    testset: str,
    revision: int,
    other_columns: Collection[str | None],
    default: str | None = None,
) -> str:
    """Return the column of expected answers: the one that an evaluation used last, or one with a usual name.

    A second column would leave the other rows without an expected answer.
    """
    columns = testsets.get_revision(db, project, testset, revision, revision).columns
    names = [column["name"] for column in columns if column["name"] not in other_columns]
    filters = evaluations.EvaluationFilters(testset=testset)
    recent = evaluations.list_evaluations(db, project, filters, Window(_RECENT_EVALUATIONS)).data
    plans = evaluations.get_plans(db, project, [evaluation.id for evaluation in recent])
    variants = [variant for row in recent for variant in msgspec.convert(plans[row.id], Plan).variants]
    used = [variant.map.expected for variant in variants if variant.map.expected in names]
    recorded_answers = [variant.column for variant in variants]
    candidates = (*used, *find_expected_columns(names, recorded_answers), default, from_traces.EXPECTED_COLUMN)
    return next(name for name in candidates if name is not None)


def _add_source(body: NewCase, prepared: PreparedCommit) -> PreparedCommit:
    """Record the source in the metadata of the new row."""
    metas = {packed: {"source": msgspec.to_builtins(body.source)} for packed in prepared.added}
    return msgspec.structs.replace(prepared, metas=metas)


def _redact_call(call: RecordedCall, redactor: "RunRedactor | None") -> RecordedCall:
    if redactor is None:
        return call
    return RecordedCall(
        redactor.redact_messages(call.messages),
        redactor.redact_mapping(call.inputs),
        redactor.redact_messages(call.reply, "messages_out"),
        UNSET if call.value is UNSET else redactor.redact_value(call.value, "outputs"),
    )


def _call_from_thread(db: Connection, project: str, source: FromConversation) -> tuple[RecordedCall, str | None]:
    thread = threads.require_thread(db, project, source.id)
    branch = threads.get_branch(db, project, thread.id)
    if source.upto is not None and all(node.id != source.upto for node in branch):
        tree = message_tree.load_tree(db, project, thread.id)
        if source.upto not in tree:
            raise ItemNotFound(source.upto, pointer="/source/upto")
        branch = threads.get_branch(db, project, thread.id, tree.leaf(source.upto))
    messages = [msgspec.structs.replace(node.message, id=node.id) for node in branch]
    call = from_traces.call_from_conversation(messages, upto=source.upto)
    reply_ids = {message.id for message in call.reply}
    run = next((node.run for node in branch if node.id in reply_ids and node.run is not None), None)
    return call._replace(inputs=_run_inputs(db, project, run, thread.inputs)), thread.workflow


def _run_inputs(db: Connection, project: str, run: str | None, default: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the inputs of the run; `default` if it is gone."""
    stored_run = None if run is None else runs.get_stored_run(db, project, run)
    call = None if stored_run is None else runs.decode_call(stored_run)
    return default if call is None else call.inputs


def _call_from_trace(db: Connection, project: str, source: FromTrace) -> tuple[RecordedCall, str | None]:
    trace, span = source.trace_id.lower(), source.span_id
    if span is None:
        head = span_queries.get_head_span(db, project, trace)
        span = None if head is None else head.span_id
    body = None if span is None else span_traces.get_span_body(db, project, trace, span.lower())
    if body is None:
        raise missing_trace(source.trace_id)
    record = _decode_span(body)
    return from_traces.call_from_span(record), record.workflow


def _accept_result(
    db: Connection,
    project: str,
    testset: str,
    body: NewCase,
    source: FromResult,
    find_redactor: FindRedactor,
    settings: Settings,
) -> _PreparedCase:
    """Make the answer the expected answer of its row; add the row if the test set lacks it."""
    if body.as_ == "script":
        raise InvalidValue("'as': 'script' is not supported for evaluation results. Omit 'as'.", pointer="/as")
    evaluation, stored_plan = evaluations.get_plan(db, project, source.run)
    stored = result_store.get_result(db, project, evaluation.id, parse_cell_id(str(source.result)))
    variant = msgspec.convert(stored_plan, Plan).variants[stored.result.variant]
    answer = msgspec.convert(stored.body["messages"], list[Message])
    call = RecordedCall(reply=answer, value=stored.body.get("value", UNSET))
    call = _redact_call(call, find_redactor(project, variant.workflow))
    revision = testsets.get_revision(db, project, evaluation.testset, evaluation.revision, evaluation.revision)
    case = row_pages.get_row(db, project, revision, stored.result.row)
    columns = variant.map
    row_data, column = case.data, columns.expected_column(case.data)
    if column is None or evaluation.testset != testset:
        row_data = {name: value for name, value in row_data.items() if name != column}
        other_columns = {columns.messages, columns.history, columns.script, variant.column, *columns.inputs.values()}
        column = _find_expected_column(db, project, testset, body.base, other_columns, default=column)
    column = body.columns.get(from_traces.EXPECTED_COLUMN, column)
    data = from_traces.accept_answer(row_data, call, column=column)
    has_row = evaluation.testset == testset and _has_row(db, project, testset, body.base, case.id)
    changes = Delta(replace=[Replaced(case.id, data)]) if has_row else Delta(add=[Added(data)])
    prepared = commits.prepare_delta(db, project, testset, changes, base=body.base, limits=settings.testset_limits)
    row = case.id if has_row else format_row_id(prepared.added[0])
    return _PreparedCase(_add_source(body, prepared), row, data, call.reply)


def _has_row(db: Connection, project: str, testset: str, base: int, row: str) -> bool:
    try:
        row_pages.get_row(db, project, testsets.get_revision(db, project, testset, base, base), row)
    except NotFound:
        return False
    return True


FilterText = Annotated[
    str | None,
    QueryParameter(
        name="filter",
        max_length=4_000,
        description='Only rows with these cell values, e.g. topic=maths or {"topic": "maths"}.',
    ),
]


class TestSetRowController(ApiController):
    path = "/api/testsets"

    database: Database

    @get(
        "/{testset:str}/revisions/{revision:str}/rows",
        operation_id="list_testset_rows",
        summary="List rows in order, with long cells truncated; in a search, a page may have fewer rows than `limit`",
    )
    async def list_testset_rows(
        self,
        request: ApiRequest,
        testset: FromPath[str],
        revision: FromPath[str],
        search: Search = None,
        filter_: FilterText = None,
        limit: Limit = 100,
        after: After = None,
    ) -> Page[RowView]:
        row_filter = RowFilter(search or None, parse_row_filter(filter_))
        project, window = caller_of(request).project, Window(limit, after)
        return (await self.database.read(_list_rows, project, testset, revision, row_filter, window)).map(row_view)

    @get(
        "/{testset:str}/revisions/{revision:str}/rows/{row:str}",
        operation_id="get_testset_row",
        summary="Get a row with all its data",
    )
    async def get_testset_row(
        self, request: ApiRequest, testset: FromPath[str], revision: FromPath[str], row: FromPath[str]
    ) -> Response[RowDetail]:
        return object_response(
            request, await self.database.read(_get_row, caller_of(request).project, testset, revision, row)
        )


def _list_rows(
    db: Connection, project: str, testset: str, revision: str, row_filter: RowFilter, window: Window
) -> Page[StoredRow]:
    return row_pages.list_rows(db, project, find_revision(db, project, testset, revision), row_filter, window)


def _get_row(db: Connection, project: str, testset: str, revision: str, row: str) -> RowDetail:
    stored_row = row_pages.get_row(db, project, find_revision(db, project, testset, revision), row)
    packed = pack_row_id(row)
    return whole_row(stored_row, testset_rows.read_metas(db, project, testset, [packed]).get(packed))
