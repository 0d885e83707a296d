"""Import and export of threads: NDJSON, test cases (`messages`) or an HTML page."""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Literal

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery
from litestar.response import Stream
from sqlalchemy import Connection

from palaver.core import json
from palaver.errors import RequestError, ThreadNotFound
from palaver.protocols.base import HttpResponse
from palaver.server.api.conventions import (
    NDJSON,
    ApiRequest,
    Filter,
    Search,
    caller_of,
    encode_object,
    line_error,
    new_id,
    operation_with_body,
    read_lines,
    run_idempotent,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.api.html_export import PAGE_POLICY, read_thread_page
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.pagination import Page, Window
from palaver.storage.threads import import_export as thread_files
from palaver.storage.threads import repository as threads
from palaver.storage.threads.copies import Branches
from palaver.storage.threads.import_export import ExportFormat, ThreadFile
from palaver.storage.threads.repository import ThreadFilters, ThreadListItem

Format = Literal["jsonl", "messages", "html"]


class ThreadImportResult(msgspec.Struct, frozen=True):
    """The result of an import. Nothing is imported if any line is invalid."""

    created: int
    unchanged: int
    """Number of threads that already existed with the same messages."""
    threads: list[str]
    """The ids of the created threads, in the order of the lines."""
    faults: list[dict[str, Any]]


class ThreadFileController(ApiController):
    path = "/api/threads"

    database: Database
    settings: Settings

    @get(
        "/{thread:str}/export",
        operation_id="export_thread",
        summary="Export a thread as a file",
        media_type=NDJSON,
    )
    async def export_thread(
        self,
        request: ApiRequest,
        thread: FromPath[str],
        format: FromQuery[Format] = "jsonl",
        branches: FromQuery[Branches] = "current",
    ) -> Response[bytes]:
        project = caller_of(request).project
        if format != "html":
            body = await self.database.read(thread_files.export_thread, project, thread, format, branches)
            return Response(body, headers=_download_headers(f"{thread}.jsonl"), media_type=NDJSON)
        body = await self.database.read(read_thread_page, project, thread)
        headers = _download_headers(f"{thread}.html") | {"content-security-policy": f"{PAGE_POLICY}; sandbox"}
        return Response(body, headers=headers, media_type="text/html")

    @get(
        "/export",
        operation_id="export_threads",
        summary="Export threads, one per line",
        media_type=NDJSON,
    )
    async def export_threads(
        self,
        request: ApiRequest,
        format: FromQuery[ExportFormat] = "jsonl",
        branches: FromQuery[Branches] = "current",
        search: Search = None,
        workflow: Filter = None,
        pinned: FromQuery[bool | None] = None,
        origin: Filter = None,
    ) -> Stream:
        project = caller_of(request).project
        filters = ThreadFilters(search=search, workflow=workflow, pinned=pinned, origin=origin)
        first_page = await self.database.read(threads.list_threads, project, filters)
        lines = _export_lines(self.database, project, filters, first_page, format, branches)
        return Stream(lines, headers=_download_headers("threads.jsonl"), media_type=NDJSON)

    @post(
        "/import",
        operation_id="import_threads",
        summary="Import threads from an exported file",
        operation_class=operation_with_body(ThreadFile, NDJSON),
        status_code=200,
    )
    async def import_threads(self, request: ApiRequest) -> Response[ThreadImportResult]:
        project, raw = caller_of(request).project, await read_lines(request, self.settings, "thread")
        files, faults = _parse_lines(raw, self.settings)

        def work(db: Connection) -> HttpResponse:
            accepted = [] if faults else files
            created = [thread_files.import_thread(db, project, file, id=new_id("conv")) for file in accepted]
            ids = [thread.id for thread in created if thread is not None]
            return encode_object(ThreadImportResult(len(ids), len(created) - len(ids), ids, faults))

        return await run_idempotent(request, self.database, raw, work)


async def _export_lines(
    database: Database,
    project: str,
    filters: ThreadFilters,
    page: Page[ThreadListItem],
    form: ExportFormat,
    branches: Branches,
) -> AsyncIterator[bytes]:
    """Yield one thread at a time, skipping those deleted meanwhile."""
    while True:
        for item in page.data:
            with suppress(ThreadNotFound):
                yield await database.read(thread_files.export_thread, project, item.thread.id, form, branches)
        if page.next is None:
            return
        page = await database.read(threads.list_threads, project, filters, Window(after=page.next))


def _parse_lines(raw: bytes, settings: Settings) -> tuple[list[ThreadFile], list[dict[str, Any]]]:
    """Return the threads of the body, and the first 20 invalid lines."""
    files: list[ThreadFile] = []
    faults: list[dict[str, Any]] = []
    for line_number, line in enumerate(raw.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            files.append(thread_files.parse_thread_file(json.decode(line, settings.json_limits)))
        except RequestError as error:
            faults.append(line_error(line_number, error))
    return files, faults[:20]


def _download_headers(name: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="{name}"', "x-content-type-options": "nosniff"}
