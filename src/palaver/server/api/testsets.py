"""/api/testsets: test sets, and test sets, revisions and rows as responses."""

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.params import FromPath, FromQuery
from msgspec import UNSET, Meta, UnsetType
from sqlalchemy import Connection

from palaver.core.api_keys import format_key_id
from palaver.errors import MissingScope
from palaver.protocols.base import HttpResponse
from palaver.server.api.conventions import (
    After,
    ApiRequest,
    FreeText,
    Limit,
    Search,
    Timestamp,
    caller_of,
    changed_fields,
    encode_object,
    if_match_check,
    make_view,
    new_id,
    object_response,
    operation_with_body,
    read_body,
    run_idempotent,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.pagination import Page, Window
from palaver.storage.testsets import repository as testsets
from palaver.storage.testsets.imports import sweep_import
from palaver.storage.testsets.repository import Revision, TestSet
from palaver.testsets import commits
from palaver.testsets.commits import CommitInfo, SubmittedRow
from palaver.testsets.delta import Delta
from palaver.testsets.diff import CellChange, Change, ColumnNames
from palaver.testsets.row_pages import StoredRow, shorten_cells

Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
RowId = Annotated[str, Meta(pattern=r"^row_[0-9a-hjkmnp-tv-z]{26}$")]
Kind = Literal["chat", "message", "script", "text", "number", "boolean", "json", "mixed"]
Cells = dict[str, Any]
"""JSON values by column name."""


class RowInput(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a commit. Without an id, it gets the id of an existing row with the same data, or a new id."""

    data: Cells
    """Values by column."""
    id: RowId | None = None
    """Id of an existing row, so that the row keeps it."""


# Sets


class NewTestSet(msgspec.Struct, frozen=True, kw_only=True):
    """A test set to create, with its first rows."""

    name: Name
    description: FreeText = ""
    rows: list[RowInput] = []
    """The first rows, in order."""
    message: FreeText = ""
    """The commit message of the first revision."""


class TestSetPatch(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a test set. Omitted fields are not changed; null resets a field."""

    name: Name | UnsetType = UNSET
    description: FreeText | UnsetType | None = UNSET
    archived: bool | UnsetType | None = UNSET


class ColumnView(msgspec.Struct, frozen=True, kw_only=True):
    """A column, with statistics of its values."""

    name: str
    kind: Kind
    present: int
    """Number of rows with a value that is not null."""
    missing: int
    """Number of rows without the column."""
    nulls: int
    looks_like: Literal["chat"] | UnsetType = UNSET
    """Set if the values are strings that contain messages."""


class TestSetRow(msgspec.Struct, frozen=True, kw_only=True):
    """A test set in a list."""

    id: str
    name: str
    description: str
    head: int
    """Number of the latest revision."""
    rows: int
    archived: bool
    created_at: Timestamp
    updated_at: Timestamp


class TestSetView(TestSetRow, frozen=True, kw_only=True):
    """A test set with the columns of its latest revision."""

    columns: list[ColumnView]


# Revisions


class NewRevision(msgspec.Struct, frozen=True, kw_only=True):
    """A commit of exactly one of `rows`, `delta` and `restore`."""

    base: int
    """The revision that the commit is based on, which must be the latest one."""
    message: FreeText = ""
    """The commit message."""
    rows: list[RowInput] | UnsetType = UNSET
    """All rows of the new revision."""
    delta: Delta | UnsetType = UNSET
    """Changes to the rows of `base`."""
    restore: int | str | UnsetType = UNSET
    """The number or digest of an older revision."""


class RevisionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A revision."""

    testset: str
    revision: int
    parent: int | None
    digest: str
    rows: int
    columns: list[str]
    message: str
    author: str | None
    """The id of the key that made the commit."""
    created_at: Timestamp


RevisionT = TypeVar("RevisionT", bound=RevisionRow)


class RevisionView(RevisionRow, frozen=True, kw_only=True):
    """The revision that a commit created, or the existing one if nothing changed."""

    unchanged: bool = False
    """True if no revision was created, because the latest one has the same rows."""


class RevisionDetail(RevisionRow, frozen=True, kw_only=True):
    """A revision with the kinds of its columns."""

    kinds: list[ColumnView]
    """Columns of the revision, with the kinds of their values."""


# Rows


class RowView(msgspec.Struct, frozen=True, kw_only=True):
    """A row in a list. Long cells are truncated."""

    id: str
    hash: str
    """Hash of the data."""
    place: int
    """Position in the revision, starting at 0."""
    data: Cells
    cut: dict[str, int] | UnsetType = UNSET
    """The full size of each truncated cell, in bytes of JSON, by column."""


class RowDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A row with all its data."""

    id: str
    hash: str
    place: int
    data: Cells
    meta: Cells | None
    """Metadata of an import or a recorded call."""


# Differences


class RowDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A row that differs."""

    id: str
    change: Change
    moved: bool
    """Whether the row moved. A changed row may have moved as well."""
    cells: list[CellChange]
    """The cells that differ, in full; empty if the row only moved."""


class RowCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Row counts by kind of difference. A row that both changed and moved is counted twice."""

    added: int
    removed: int
    changed: int
    moved: int


class DiffView(msgspec.Struct, frozen=True, kw_only=True):
    """One page of the differences between two revisions."""

    counts: RowCounts
    columns: ColumnNames
    rows: list[RowDifference]
    next: str | None


# Imports, and rows from recorded calls


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """Row counts by import outcome."""

    rows: int
    """Number of rows in the file."""
    added: int
    changed: int
    """Number of rows whose key already existed, with different data."""
    unchanged: int
    removed: int
    wrapped: int = 0
    """Number of values that were not objects and became rows with a single column."""


class ImportView(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an import."""

    testset: TestSetView
    revision: RevisionView
    report: ImportReport


class FromConversation(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="conversation"):
    """A thread, up to one of its messages."""

    id: str
    upto: str | None = None


class FromTrace(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="trace"):
    """A trace, or one span of it."""

    trace_id: str
    span_id: str | None = None


class FromResult(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="result"):
    """One result of an evaluation."""

    run: str
    result: str | int


Source = FromConversation | FromTrace | FromResult


class NewCase(msgspec.Struct, frozen=True, kw_only=True, rename={"as_": "as"}):
    """A thread, trace or result to add as a row."""

    base: int
    """The revision that the row is added to, which must be the latest one."""
    source: Source
    """Where the row comes from."""
    as_: Literal["row", "script"] = "row"
    """`row`: a row with the messages and the expected answer; `script`: a row with a script of all turns."""
    columns: dict[str, str] = {}
    """New names for the columns of the row, by their default names."""
    message: FreeText = ""
    """The commit message."""


class CaseView(RevisionView, frozen=True, kw_only=True):
    """The revision with the new row, and that row."""

    row: str
    data: Cells


def testset_row(testset: TestSet) -> TestSetRow:
    return make_view(TestSetRow, testset)


def testset_view(testset: TestSet) -> TestSetView:
    return make_view(TestSetView, testset, columns=column_views(testset.columns))


def column_views(columns: list[dict[str, Any]]) -> list[ColumnView]:
    return msgspec.convert([{k: v for k, v in column.items() if v is not None} for column in columns], list[ColumnView])


def revision_row(revision: Revision) -> RevisionRow:
    return _make_revision_view(RevisionRow, revision)


def revision_view(revision: Revision, *, is_new: bool = True) -> RevisionView:
    """`is_new` is False if the latest revision already had the same rows."""
    return _make_revision_view(RevisionView, revision, unchanged=not is_new)


def revision_detail(revision: Revision) -> RevisionDetail:
    return _make_revision_view(RevisionDetail, revision, kinds=column_views(revision.columns))


def _make_revision_view(kind: type[RevisionT], revision: Revision, **fields: Any) -> RevisionT:
    names, author = (
        [column["name"] for column in revision.columns],
        format_key_id(revision.key) if revision.key else None,
    )
    return make_view(kind, revision, revision=revision.number, columns=names, author=author, **fields)


def row_view(row: StoredRow) -> RowView:
    data, cut = shorten_cells(row.data)
    return RowView(id=row.id, hash=row.hash.hex(), place=row.position, data=data, cut=cut or UNSET)


def whole_row(row: StoredRow, meta: Cells | None) -> RowDetail:
    return RowDetail(id=row.id, hash=row.hash.hex(), place=row.position, data=row.data, meta=meta)


class TestSetController(ApiController):
    path = "/api/testsets"

    database: Database
    settings: Settings

    @get(operation_id="list_testsets", summary="List test sets, most recently changed first")
    async def list_testsets(
        self,
        request: ApiRequest,
        search: Search = None,
        archived: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
        limit: Limit = 50,
        after: After = None,
    ) -> Page[TestSetRow]:
        project, window = caller_of(request).project, Window(limit, after)
        page = await self.database.read(
            testsets.list_testsets, project, search=search, archived=archived, window=window
        )
        return page.map(testset_row)

    @post(
        operation_id="create_testset",
        summary="Create a test set with its first revision",
        operation_class=operation_with_body(NewTestSet),
    )
    async def create_testset(self, request: ApiRequest) -> Response[TestSetView]:
        caller = caller_of(request)
        raw, body = await read_body(request, self.settings, NewTestSet)
        rows = [SubmittedRow(row.data, row.id) for row in body.rows]
        prepared = await self.database.read(
            commits.prepare_rows, caller.project, None, rows, limits=self.settings.testset_limits
        )
        now = utc_now()
        testset = TestSet(id=new_id("ts"), name=body.name, description=body.description, created_at=now, updated_at=now)
        info = CommitInfo(message=body.message, key=caller.key, at=now)

        def work(db: Connection) -> HttpResponse:
            commits.create_testset(db, caller.project, testset, prepared, info)
            created = testsets.get_testset(db, caller.project, testset.id)
            return encode_object(
                testset_view(created), status=201, location=f"{self.settings.root_path}/api/testsets/{created.id}"
            )

        return await run_idempotent(request, self.database, raw, work)

    @get("/{testset:str}", operation_id="get_testset", summary="Get a test set")
    async def get_testset(self, request: ApiRequest, testset: FromPath[str]) -> Response[TestSetView]:
        return object_response(
            request, testset_view(await self.database.read(testsets.get_testset, caller_of(request).project, testset))
        )

    @patch(
        "/{testset:str}",
        operation_id="change_testset",
        summary="Rename, describe, archive or unarchive a test set",
        operation_class=operation_with_body(TestSetPatch),
    )
    async def change_testset(self, request: ApiRequest, testset: FromPath[str]) -> Response[TestSetView]:
        _, body = await read_body(request, self.settings, TestSetPatch)
        fields = changed_fields(body, {"description": "", "archived": False})
        return object_response(request, testset_view(await self._change(request, testset, fields)))

    @delete(
        "/{testset:str}",
        operation_id="archive_testset",
        summary="Archive a test set; with purge=true (admin only), delete it permanently",
    )
    async def archive_testset(
        self,
        request: ApiRequest,
        testset: FromPath[str],
        purge: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
    ) -> None:
        if not purge:
            await self._change(request, testset, {"archived": True})
            return
        caller = caller_of(request)
        if "admin" not in caller.scopes:
            raise MissingScope("admin")
        check = if_match_check(request, testset_view)
        claim = await self.database.write(testsets.delete_testset, caller.project, testset, check=check, at=utc_now())
        await sweep_import(self.database, claim)

    async def _change(self, request: ApiRequest, testset: str, fields: dict[str, Any]) -> TestSet:
        project, check = caller_of(request).project, if_match_check(request, testset_view)
        return await self.database.write(testsets.update_testset, project, testset, at=utc_now(), check=check, **fields)
