"""/api/variants/export and /api/variants/import: variants as lines of JSON, each the content of one file."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, cast

import msgspec
from litestar import Response, get, post
from litestar.params import FromQuery
from litestar.response import Stream
from sqlalchemy import Connection

from palaver.core.variants import VariantFile, decode_variant_file, encode_variant_line
from palaver.discovery.registry import Registry
from palaver.errors import PalaverError, RequestError, UnsupportedMediaType
from palaver.protocols.base import HttpResponse
from palaver.server.api.conventions import Asked, Filter, caller_of, exchange_of, new_id, shown_as, takes, utc_now
from palaver.server.api.dependencies import ApiController
from palaver.server.api.idempotency import once
from palaver.server.api.problems import told
from palaver.server.settings import Settings
from palaver.storage import variants
from palaver.storage.database import Database
from palaver.storage.pagination import Window
from palaver.workflows.workflow import find_parameter_faults

LINES = "application/x-ndjson"


class Imported(msgspec.Struct, frozen=True):
    """What an import came to. With a fault anywhere, nothing is written."""

    created: int
    updated: int
    unchanged: int
    faults: list[dict[str, Any]]


class VariantFileController(ApiController):
    path = "/api/variants"

    database: Database
    settings: Settings
    registry: Registry

    @get(
        "/export",
        operation_id="export_variants",
        summary="All variants that are in use, a line each",
        media_type=LINES,
    )
    async def export_variants(self, request: Asked, workflow: Filter = None) -> Stream:
        project = caller_of(request).project
        first = await self.database.read(variants.export_variants, project, workflow=workflow)
        return Stream(_lines(self.database, project, workflow, first), media_type=LINES)

    @post(
        "/import",
        operation_id="import_variants",
        summary="Commit what differs",
        operation_class=takes(VariantFile, LINES),
        status_code=200,
    )
    async def import_variants(self, request: Asked, dry_run: FromQuery[bool] = False) -> Response[Imported]:  # noqa: FBT002
        caller, exchange = caller_of(request), exchange_of(request)
        if exchange.headers.get("content-type", "").partition(";")[0].strip().lower() != LINES:
            raise UnsupportedMediaType(f"Send {LINES}: one variant a line.")
        raw = await exchange.body(self.settings)
        files, faults = _read(raw, self.registry, self.settings)
        mode = "look" if dry_run or faults else "commit"
        now, new = utc_now(), partial(new_id, "var")

        def work(db: Connection) -> HttpResponse:
            report = variants.import_variants(db, caller.project, files, new_id=new, at=now, key=caller.key, mode=mode)
            return shown_as(Imported(report.created, report.updated, report.unchanged, faults))

        return await once(request, self.database, raw, work)


async def _lines(database: Database, project: str, workflow: str | None, page: Any) -> AsyncIterator[bytes]:
    while True:
        yield b"".join(encode_variant_line(file) for file in page.data)
        if page.next is None:
            return
        window = Window(after=page.next)
        page = await database.read(variants.export_variants, project, workflow=workflow, window=window)


def _read(raw: bytes, registry: Registry, settings: Settings) -> tuple[list[VariantFile], list[dict[str, Any]]]:
    """The variants that a body holds, and what is wrong with its lines."""
    files: dict[tuple[str, str], VariantFile] = {}
    faults: list[dict[str, Any]] = []
    for number, text in enumerate(raw.split(b"\n"), 1):
        if not text.strip():
            continue
        try:
            file = decode_variant_file(text, settings.json_limits)
            found: list[RequestError] = [*find_parameter_faults(registry.workflow(file.workflow), file.parameters)]
        except RequestError as error:
            faults.append(_fault(number, error))
            continue
        if (file.workflow, file.name) in files:
            faults.append({"line": number, "code": "conflicting_fields", "message": "This variant is here twice."})
        faults += [_fault(number, error) for error in found]
        files[file.workflow, file.name] = file
    return list(files.values()), faults


def _fault(number: int, error: PalaverError) -> dict[str, Any]:
    return cast("dict[str, Any]", {"line": number}) | told(error)
