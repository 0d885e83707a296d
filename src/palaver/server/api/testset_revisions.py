"""/api/testsets/{id}/revisions, and where two of them differ."""

from functools import partial
from typing import Annotated

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, QueryParameter
from msgspec import UNSET
from sqlalchemy import Connection

from palaver.errors import ConflictingFields
from palaver.protocols.base import HttpResponse
from palaver.server.api.conventions import (
    After,
    Asked,
    Limit,
    Page,
    Window,
    answer,
    caller_of,
    read_body,
    shown_as,
    takes,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.api.idempotency import answered, once
from palaver.server.api.testset_views import (
    DiffView,
    NewRevision,
    RevisionDetail,
    RevisionRow,
    RevisionView,
    RowCounts,
    RowDifference,
    revision_detail,
    revision_row,
    revision_view,
)
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.testsets import repository as testset_revisions
from palaver.storage.testsets import repository as testsets
from palaver.storage.testsets.repository import Revision
from palaver.testsets import commits, diff
from palaver.testsets.commits import CommitInfo, PreparedCommit, StagedImport, SubmittedRow
from palaver.testsets.delta import Delta
from palaver.testsets.diff import Difference

Named = Annotated[
    str, QueryParameter(max_length=80, description="A number, a digest or the beginning of one, or head.")
]
_FEW = 2_000
"""Rows that are all changed in one transaction."""
Since = Annotated[str, QueryParameter(name="from", max_length=80, description="The older one, likewise.")]


class TestSetRevisionController(ApiController):
    path = "/api/testsets"

    database: Database
    settings: Settings

    @get(
        "/{testset:str}/revisions",
        operation_id="list_testset_revisions",
        summary="A test set's history, newest first",
    )
    async def list_testset_revisions(
        self, request: Asked, testset: FromPath[str], limit: Limit = 50, after: After = None
    ) -> Page[RevisionRow]:
        window = Window(limit, after)
        return (await self.database.read(_listed, caller_of(request).project, testset, window)).map(revision_row)

    @post(
        "/{testset:str}/revisions",
        operation_id="commit_testset",
        summary="The next revision: all rows, a delta, or an older one again",
        operation_class=takes(NewRevision),
    )
    async def commit_testset(self, request: Asked, testset: FromPath[str]) -> Response[RevisionView]:
        caller = caller_of(request)
        raw, body = await read_body(request, self.settings, NewRevision)
        if (before := await answered(request, self.database, raw)) is not None:
            return before
        delta = None if body.delta is UNSET or not body.delta.changes_columns else body.delta
        if delta is not None:
            _check_form(body)
            found = await self.database.read(commits.check_delta, caller.project, testset, delta, base=body.base)
            if found.rows > _FEW:
                return await self._recolumn(request, testset, raw, body, delta)
        prepared = await self.database.read(_prepared, caller.project, testset, body, self.settings)
        return await self._made(request, testset, raw, body, prepared)

    async def _recolumn(
        self, request: Asked, testset: str, raw: bytes, body: NewRevision, delta: Delta
    ) -> Response[RevisionView]:
        """Every row changes, and they are many: they are brought in before, a batch at a time."""
        project, limits = caller_of(request).project, self.settings.testset_limits
        async with StagedImport(self.database, project, testset, utc_now) as staging:
            rehashed = await commits.stage_column_changes(
                self.database, staging, project, testset, body.base, delta.columns, limits
            )
            known = {"rehashed": rehashed, "staged_by": staging.claim, "base": body.base, "limits": limits}
            prepared = await self.database.read(partial(commits.prepare_delta, **known), project, testset, delta)
            return await self._made(request, testset, raw, body, prepared)

    async def _made(
        self, request: Asked, testset: str, raw: bytes, body: NewRevision, prepared: PreparedCommit
    ) -> Response[RevisionView]:
        caller = caller_of(request)
        written = CommitInfo(message=body.message, key=caller.key, at=utc_now())

        def work(db: Connection) -> HttpResponse:
            revision, is_new = commits.commit(db, caller.project, testset, prepared, written)
            shown = revision_view(revision, is_new=is_new)
            place = f"{self.settings.root_path}/api/testsets/{testset}/revisions/{revision.number}"
            return shown_as(shown, status=201, location=place) if is_new else shown_as(shown)

        return await once(request, self.database, raw, work)

    @get(
        "/{testset:str}/revisions/{revision:str}",
        operation_id="get_testset_revision",
        summary="One revision, by number, digest or head",
    )
    async def get_testset_revision(
        self, request: Asked, testset: FromPath[str], revision: FromPath[str]
    ) -> Response[RevisionDetail]:
        found = await self.database.read(named, caller_of(request).project, testset, revision)
        return answer(request, revision_detail(found))

    @get(
        "/{testset:str}/diff",
        operation_id="compare_testset_revisions",
        summary="Where two revisions differ",
    )
    async def compare_testset_revisions(
        self,
        request: Asked,
        testset: FromPath[str],
        since: Since,
        to: Named = "head",
        limit: Limit = 50,
        after: After = None,
    ) -> DiffView:
        project, window = caller_of(request).project, Window(limit, after)
        return _shown(await self.database.read(_compared, project, testset, since, to, window))


def named(db: Connection, project: str, testset: str, revision: str) -> Revision:
    """The revision of a set that somebody names."""
    found = testsets.get_testset(db, project, testset)
    return testset_revisions.get_revision(db, project, testset, revision, found.head)


def _listed(db: Connection, project: str, testset: str, window: Window) -> Page[Revision]:
    testsets.get_testset(db, project, testset)
    return testset_revisions.list_revisions(db, project, testset, window)


def _prepared(db: Connection, project: str, testset: str, body: NewRevision, settings: Settings) -> PreparedCommit:
    _check_form(body)
    limits = settings.testset_limits
    if body.rows is not UNSET:
        rows = [SubmittedRow(one.data, one.id) for one in body.rows]
        return commits.prepare_rows(db, project, testset, rows, base=body.base, limits=limits)
    if body.delta is not UNSET:
        return commits.prepare_delta(db, project, testset, body.delta, base=body.base, limits=limits)
    return commits.prepare_restore(db, project, testset, str(body.restore), base=body.base)


def _check_form(body: NewRevision) -> None:
    forms = {"rows": body.rows, "delta": body.delta, "restore": body.restore}
    given = [name for name, form in forms.items() if form is not UNSET]
    if len(given) != 1:
        told = f"not {' and '.join(given)}" if given else "and it has none"
        raise ConflictingFields(f"A commit has one of rows, delta and restore, {told}.")


def _compared(db: Connection, project: str, testset: str, since: str, to: str, window: Window) -> Difference:
    before, after = named(db, project, testset, since), named(db, project, testset, to)
    return diff.diff_revisions(db, project, before, after, window)


def _shown(found: Difference) -> DiffView:
    rows = [
        RowDifference(id=row.id, change=row.change, moved=row.moved, cells=list(row.cells)) for row in found.rows.data
    ]
    counts = RowCounts(**msgspec.structs.asdict(found.counts))
    return DiffView(counts=counts, columns=found.columns, rows=rows, next=found.rows.next)
