"""Threads as files: all that was said, a line each; branches as test cases; one page to read. And back again."""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Literal, cast

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery
from litestar.response import Stream
from sqlalchemy import Connection

from palaver.core import json
from palaver.errors import PalaverError, RequestError, ThreadNotFound, UnsupportedMediaType
from palaver.protocols.base import HttpResponse
from palaver.server.api.conventions import Asked, Filter, Search, caller_of, exchange_of, new_id, shown_as, takes
from palaver.server.api.dependencies import ApiController
from palaver.server.api.idempotency import once
from palaver.server.api.problems import told
from palaver.server.api.thread_page import POLICY, shown
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.pagination import Page, Window
from palaver.storage.threads import import_export as thread_files
from palaver.storage.threads import repository as threads
from palaver.storage.threads.copies import Branches
from palaver.storage.threads.import_export import ExportFormat, ThreadFile
from palaver.storage.threads.repository import ThreadFilters, ThreadListItem

LINES = "application/x-ndjson"
Format = Literal["jsonl", "messages", "html"]


class ImportedThreads(msgspec.Struct, frozen=True):
    """What an import came to. With a fault anywhere, nothing is written."""

    created: int
    unchanged: int
    """Threads that were there already, with the same messages."""
    threads: list[str]
    """The ids of those that were made, in the order of the lines."""
    faults: list[dict[str, Any]]


class ThreadFileController(ApiController):
    path = "/api/threads"

    database: Database
    settings: Settings

    @get(
        "/{thread:str}/export",
        operation_id="export_thread",
        summary="One thread, as a file",
        media_type=LINES,
    )
    async def export_thread(
        self,
        request: Asked,
        thread: FromPath[str],
        format: FromQuery[Format] = "jsonl",
        branches: FromQuery[Branches] = "current",
    ) -> Response[bytes]:
        project = caller_of(request).project
        if format != "html":
            body = await self.database.read(thread_files.export_thread, project, thread, format, branches)
            return Response(body, headers=_named(f"{thread}.jsonl"), media_type=LINES)
        body = await self.database.read(shown, project, thread)
        headers = _named(f"{thread}.html") | {"content-security-policy": f"{POLICY}; sandbox"}
        return Response(body, headers=headers, media_type="text/html")

    @get(
        "/export",
        operation_id="export_threads",
        summary="The threads of a list, a line each",
        media_type=LINES,
    )
    async def export_threads(
        self,
        request: Asked,
        format: FromQuery[ExportFormat] = "jsonl",
        branches: FromQuery[Branches] = "current",
        search: Search = None,
        workflow: Filter = None,
        pinned: FromQuery[bool | None] = None,
        origin: Filter = None,
    ) -> Stream:
        project = caller_of(request).project
        filters = ThreadFilters(search=search, workflow=workflow, pinned=pinned, origin=origin)
        first = await self.database.read(threads.list_threads, project, filters)
        written = _written(self.database, project, filters, first, format, branches)
        return Stream(written, headers=_named("threads.jsonl"), media_type=LINES)

    @post(
        "/import",
        operation_id="import_threads",
        summary="Make the threads of an exported file, which come back equal",
        operation_class=takes(ThreadFile, LINES),
        status_code=200,
    )
    async def import_threads(self, request: Asked) -> Response[ImportedThreads]:
        exchange, project = exchange_of(request), caller_of(request).project
        if exchange.headers.get("content-type", "").partition(";")[0].strip().lower() != LINES:
            raise UnsupportedMediaType(f"Send {LINES}: one thread a line.")
        raw = await exchange.body(self.settings)
        files, faults = _read(raw, self.settings)

        def work(db: Connection) -> HttpResponse:
            kept = [] if faults else files
            made = [thread_files.import_thread(db, project, file, id=new_id("conv")) for file in kept]
            names = [thread.id for thread in made if thread is not None]
            return shown_as(ImportedThreads(len(names), len(made) - len(names), names, faults))

        return await once(request, self.database, raw, work)


async def _written(
    database: Database,
    project: str,
    filters: ThreadFilters,
    page: Page[ThreadListItem],
    form: ExportFormat,
    branches: Branches,
) -> AsyncIterator[bytes]:
    """A thread at a time is in memory; one that goes meanwhile is left out."""
    while True:
        for found in page.data:
            with suppress(ThreadNotFound):
                yield await database.read(thread_files.export_thread, project, found.thread.id, form, branches)
        if page.next is None:
            return
        page = await database.read(threads.list_threads, project, filters, Window(after=page.next))


def _read(raw: bytes, settings: Settings) -> tuple[list[ThreadFile], list[dict[str, Any]]]:
    """The threads that a body holds, and what is wrong with its lines."""
    files: list[ThreadFile] = []
    faults: list[dict[str, Any]] = []
    for number, text in enumerate(raw.split(b"\n"), 1):
        if not text.strip():
            continue
        try:
            files.append(thread_files.parse_thread_file(json.decode(text, settings.json_limits)))
        except RequestError as error:
            faults.append(_fault(number, error))
    return files, faults[:20]


def _fault(number: int, error: PalaverError) -> dict[str, Any]:
    return cast("dict[str, Any]", {"line": number}) | told(error)


def _named(name: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="{name}"', "x-content-type-options": "nosniff"}
