"""Import and export of test sets as files, both streamed."""

import hashlib
from collections.abc import AsyncGenerator, Callable
from typing import Annotated, Any

from litestar import Response, get, post
from litestar.params import FromPath, FromQuery, QueryParameter
from sqlalchemy import Connection

from palaver.errors import UnsupportedMediaType
from palaver.protocols.base import HttpResponse
from palaver.server.api.conventions import (
    ApiRequest,
    caller_of,
    encode_object,
    exchange_of,
    new_id,
    run_idempotent,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.api.files import FORM_TYPES, upload_chunks, upload_operation
from palaver.server.api.streaming import stream_chunks
from palaver.server.api.testset_revisions import find_revision
from palaver.server.api.testsets import ImportReport, ImportView, revision_view, testset_view
from palaver.server.rate_limit import RateLimits
from palaver.server.request import Exchange
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.testsets import repository as testsets
from palaver.storage.testsets.repository import Revision, TestSet
from palaver.testsets import commits, files
from palaver.testsets.commits import CommitInfo
from palaver.testsets.export import export_filename, export_revision
from palaver.testsets.files import MEDIA_TYPES, CellTypes, Format, format_of
from palaver.testsets.importer import ImportedFile, ImportMode, ImportTarget, import_file

_NO_CONTROL = r"^[^\x00-\x1f\x7f]*$"
Name = Annotated[
    str, QueryParameter(min_length=1, max_length=200, pattern=_NO_CONTROL, description="The name of the new test set.")
]
Line = Annotated[str, QueryParameter(max_length=4_000, pattern=r"^[^\x00]*$")]
Key = Annotated[
    str | None,
    QueryParameter(min_length=1, max_length=1_000, description="The column that identifies rows, or __id__."),
]
Mode = Annotated[
    ImportMode, QueryParameter(description="Append the rows, replace all rows, or update and add rows by key.")
]
Types = Annotated[CellTypes, QueryParameter(description="CSV only: detect cell types, or read all cells as text.")]
Delimiter = Annotated[
    str | None, QueryParameter(max_length=4, description="CSV only: the cell delimiter (default: detected).")
]
Form = Annotated[Format, QueryParameter(name="format")]


_UploadOperation = upload_operation(*MEDIA_TYPES.values())


class TestSetFileController(ApiController):
    path = "/api/testsets"

    database: Database
    settings: Settings
    rate_limits: RateLimits

    @post(
        "/import",
        operation_id="import_testset",
        summary="Create a test set from a file, sent as the body",
        operation_class=_UploadOperation,
    )
    async def import_testset(
        self,
        request: ApiRequest,
        name: Name,
        types: Types = "auto",
        delimiter: Delimiter = None,
        message: Line = "",
        description: Line = "",
    ) -> Response[ImportView]:
        if "idempotency-key" not in request.headers:  # With a key it may be a replay, which is known after reading.
            await self.database.read(testsets.check_name_free, caller_of(request).project, name)
        target = ImportTarget(testset=new_id("ts"), is_new=True)
        new_testset = TestSet(
            id=target.testset, name=name, description=description, created_at=utc_now(), updated_at=utc_now()
        )
        return await self._import(request, target, types, delimiter, message, new_testset)

    @post(
        "/{testset:str}/import",
        operation_id="import_into_testset",
        summary="Import a file, sent as the body, as a new revision",
        operation_class=_UploadOperation,
    )
    async def import_into_testset(
        self,
        request: ApiRequest,
        testset: FromPath[str],
        mode: Mode = "append",
        key: Key = None,
        types: Types = "auto",
        delimiter: Delimiter = None,
        message: Line = "",
    ) -> Response[ImportView]:
        await self.database.read(testsets.get_testset, caller_of(request).project, testset)
        target = ImportTarget(testset=testset, mode=mode, key=key)
        return await self._import(request, target, types, delimiter, message)

    async def _import(
        self,
        request: ApiRequest,
        target: ImportTarget,
        types: CellTypes,
        delimiter: str | None,
        message: str,
        new_testset: TestSet | None = None,
    ) -> Response[ImportView]:
        caller, limits, exchange = caller_of(request), self.settings.testset_limits, exchange_of(request)
        reader = files.open_reader(_format(exchange), types=types, delimiter=delimiter, limits=limits)
        digest = hashlib.sha256()
        chunks = _hash_chunks(upload_chunks(exchange, self.settings, self.settings.testset_max_file), digest.update)
        importer = import_file(self.database, caller.project, target, reader, chunks, now=utc_now, limits=limits)
        async with importer as imported:
            info = CommitInfo(message=message, key=caller.key, at=utc_now())

            def work(db: Connection) -> HttpResponse:
                return _commit_import(db, caller.project, target, imported, info, new_testset, self.settings.root_path)

            return await run_idempotent(request, self.database, digest.digest(), work)

    @get(
        "/{testset:str}/revisions/{revision:str}/export",
        operation_id="export_testset",
        summary="Export a revision as a file",
        media_type="application/x-ndjson",
    )
    async def export_testset(
        self,
        request: ApiRequest,
        testset: FromPath[str],
        revision: FromPath[str],
        form: Form = "jsonl",
        ids: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
    ) -> Response[Any]:
        project = caller_of(request).project
        name, stored_revision = await self.database.read(_find_export, project, testset, revision)
        chunks = export_revision(self.database, project, stored_revision, form, ids=ids)
        disposition = f'attachment; filename="{export_filename(name, stored_revision.number, form)}"'
        headers = (("content-type", MEDIA_TYPES[form]), ("content-disposition", disposition))
        return await stream_chunks(request, chunks, headers, self.rate_limits, self.settings)


def _find_export(db: Connection, project: str, testset: str, revision: str) -> tuple[str, Revision]:
    return testsets.get_testset(db, project, testset).name, find_revision(db, project, testset, revision)


def _commit_import(
    db: Connection,
    project: str,
    target: ImportTarget,
    imported: ImportedFile,
    info: CommitInfo,
    new_testset: TestSet | None,
    root: str,
) -> HttpResponse:
    if new_testset is not None:
        revision, is_new = commits.create_testset(db, project, new_testset, imported.prepared, info), True
    else:
        revision, is_new = commits.commit(db, project, target.testset, imported.prepared, info)
    counts = imported.counts
    report = ImportReport(
        rows=counts.rows,
        added=counts.added,
        changed=counts.changed,
        unchanged=counts.unchanged,
        removed=counts.removed,
        wrapped=imported.wrapped,
    )
    view = ImportView(
        testset=testset_view(testsets.get_testset(db, project, target.testset)),
        revision=revision_view(revision, is_new=is_new),
        report=report,
    )
    location = f"{root}/api/testsets/{target.testset}"
    if new_testset is None:
        location += f"/revisions/{revision.number}"
    return encode_object(view, status=201, location=location) if is_new else encode_object(view)


def _format(exchange: Exchange) -> Format:
    declared = exchange.headers.get("content-type", "")
    if declared.strip().lower().startswith(FORM_TYPES):
        raise UnsupportedMediaType(
            "Form uploads are not supported. "
            "Send the file as the request body, with its media type as the Content-Type."
        )
    if exchange.headers.get("content-encoding", "identity") != "identity":
        raise UnsupportedMediaType("Content-Encoding is not supported. Send the file uncompressed.")
    if not declared:
        raise UnsupportedMediaType(f"Missing Content-Type. Supported: {', '.join(MEDIA_TYPES.values())}.")
    return format_of(declared)


async def _hash_chunks(chunks: AsyncGenerator[bytes], update: Callable[[bytes], None]) -> AsyncGenerator[bytes]:
    """Yield the chunks, and add them to the digest that the Idempotency-Key is bound to."""
    async for chunk in chunks:
        update(chunk)
        yield chunk
