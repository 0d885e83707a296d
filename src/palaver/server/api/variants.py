"""/api/variants: variants of workflows, their versions, and files of them."""

from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Annotated, Any

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.params import FromPath, FromQuery, QueryParameter
from litestar.response import Stream
from msgspec import UNSET, UnsetType
from sqlalchemy import Connection

from palaver.core.api_keys import format_key_id
from palaver.core.variants import (
    DEFAULT_VARIANT,
    NAME_PATTERN,
    Change,
    VariantFile,
    check_parameters_size,
    decode_variant_file,
    diff_json,
    encode_variant_line,
    parse_reference,
)
from palaver.discovery.registry import Registry
from palaver.errors import (
    FaultyCall,
    MethodNotAllowed,
    NotFound,
    RequestError,
    WorkflowNotFound,
)
from palaver.protocols.base import HttpResponse
from palaver.server.api.conventions import (
    NDJSON,
    After,
    ApiRequest,
    Filter,
    FreeText,
    Limit,
    Timestamp,
    caller_of,
    changed_fields,
    encode_object,
    error_document,
    if_match_check,
    line_error,
    make_view,
    new_id,
    object_response,
    operation_with_body,
    read_body,
    read_lines,
    run_idempotent,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.settings import Settings
from palaver.server.variant_resolver import store_default_variant
from palaver.storage import variants
from palaver.storage.database import Database
from palaver.storage.pagination import Page, Window
from palaver.storage.variants import Variant, VariantDraft, VariantHead, Version
from palaver.workflows.workflow import find_parameter_faults

_Name = Annotated[str, msgspec.Meta(pattern=NAME_PATTERN)]


class NewVariant(msgspec.Struct, frozen=True, kw_only=True):
    """A variant to create, with its parameters."""

    name: _Name
    parameters: dict[str, Any]
    description: FreeText = ""
    message: FreeText = ""
    """The commit message of the first version."""


class VariantPatch(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a variant. Omitted fields are not changed; null resets a field."""

    name: _Name | UnsetType = UNSET
    description: FreeText | UnsetType | None = UNSET
    archived: bool | UnsetType | None = UNSET


class NewVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A new version of a variant's parameters."""

    base: int
    """The version that the new one is based on, which must be the latest one."""
    parameters: dict[str, Any]
    message: FreeText = ""


class VariantRow(msgspec.Struct, frozen=True, kw_only=True):
    """A variant in a list."""

    id: str
    workflow: str
    name: str
    description: str
    head: int
    archived: bool
    created_at: Timestamp
    updated_at: Timestamp


class VariantView(VariantRow, frozen=True, kw_only=True):
    """A variant with the parameters of its latest version."""

    parameters: Mapping[str, Any]
    """Parameters of the latest version."""
    fits: bool
    """Whether the current workflow accepts the parameters."""
    faults: list[dict[str, Any]]


class VersionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A version in a list."""

    variant: str
    version: int
    message: str
    key: str | None
    created_at: Timestamp


class VersionView(VersionRow, frozen=True, kw_only=True):
    """A version with its parameters."""

    parameters: Mapping[str, Any]
    unchanged: bool | UnsetType = UNSET
    """True if no version was created, because the latest one has the same parameters."""


class VariantDiff(msgspec.Struct, frozen=True):
    """The differences between two versions."""

    changes: list[Change]


def variant_row(variant: Variant) -> VariantRow:
    return make_view(VariantRow, variant)


def version_row(version: Version) -> VersionRow:
    return make_view(VersionRow, version, version=version.number, key=_key_id(version))


def version_view(version: Version, *, is_new: bool = True) -> VersionView:
    """`is_new` is False if the latest version already had the same parameters."""
    unchanged = UNSET if is_new else True
    return make_view(VersionView, version, version=version.number, key=_key_id(version), unchanged=unchanged)


def _key_id(version: Version) -> str | None:
    return format_key_id(version.key) if version.key else None


class VariantViews:
    """Views of variants, checked against the workflows that are served now."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def view(self, current: VariantHead) -> VariantView:
        variant, head = current
        faults = self.faults(variant.workflow, head.parameters)
        return make_view(VariantView, variant, parameters=head.parameters, fits=not faults, faults=faults)

    def faults(self, workflow: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return what the current workflow rejects in the parameters."""
        try:
            parameter_faults = find_parameter_faults(self._registry.workflow(workflow), parameters)
        except WorkflowNotFound as error:
            return [error_document(error)]
        return [error_document(fault) for fault in parameter_faults[: FaultyCall.MAX_FAULTS]]

    def check(self, workflow: str, parameters: Mapping[str, Any]) -> None:
        """Raise FaultyCall with all faults of the parameters."""
        check_parameters_size(parameters)
        faults = find_parameter_faults(self._registry.workflow(workflow), parameters)
        if faults:
            raise FaultyCall(faults)


class VariantImportResult(msgspec.Struct, frozen=True):
    """The result of an import. Nothing is imported if any line is invalid."""

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
        summary="Export variants that are not archived, one per line",
        media_type=NDJSON,
    )
    async def export_variants(self, request: ApiRequest, workflow: Filter = None) -> Stream:
        project = caller_of(request).project
        first_page = await self.database.read(variants.export_variants, project, workflow=workflow)
        return Stream(_export_lines(self.database, project, workflow, first_page), media_type=NDJSON)

    @post(
        "/import",
        operation_id="import_variants",
        summary="Import variants; those that differ get a new version",
        operation_class=operation_with_body(VariantFile, NDJSON),
        status_code=200,
    )
    async def import_variants(
        self,
        request: ApiRequest,
        dry_run: FromQuery[bool] = False,  # noqa: FBT002
    ) -> Response[VariantImportResult]:
        caller, raw = caller_of(request), await read_lines(request, self.settings, "variant")
        files, faults = _parse_lines(raw, self.registry, self.settings)
        mode = "look" if dry_run or faults else "commit"
        now, make_id = utc_now(), partial(new_id, "var")

        def work(db: Connection) -> HttpResponse:
            counts = variants.import_variants(
                db, caller.project, files, new_id=make_id, at=now, key=caller.key, mode=mode
            )
            return encode_object(VariantImportResult(counts.created, counts.updated, counts.unchanged, faults))

        return await run_idempotent(request, self.database, raw, work)


async def _export_lines(database: Database, project: str, workflow: str | None, page: Any) -> AsyncIterator[bytes]:
    while True:
        yield b"".join(encode_variant_line(file) for file in page.data)
        if page.next is None:
            return
        window = Window(after=page.next)
        page = await database.read(variants.export_variants, project, workflow=workflow, window=window)


def _parse_lines(raw: bytes, registry: Registry, settings: Settings) -> tuple[list[VariantFile], list[dict[str, Any]]]:
    """Return the variants of the body, and the faults of its lines."""
    files: dict[tuple[str, str], VariantFile] = {}
    faults: list[dict[str, Any]] = []
    for line_number, line in enumerate(raw.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            file = decode_variant_file(line, settings.json_limits)
            errors: list[RequestError] = [*find_parameter_faults(registry.workflow(file.workflow), file.parameters)]
        except RequestError as error:
            faults.append(line_error(line_number, error))
            continue
        if (file.workflow, file.name) in files:
            faults.append(
                {
                    "line": line_number,
                    "code": "conflicting_fields",
                    "message": f"Duplicate variant {file.workflow}@{file.name}.",
                }
            )
        faults += [line_error(line_number, error) for error in errors]
        files[file.workflow, file.name] = file
    return list(files.values()), faults


class VariantController(ApiController):
    path = "/api"

    database: Database
    settings: Settings
    registry: Registry
    variant_views: VariantViews

    @get("/workflows/{workflow:str}/variants", operation_id="list_variants", summary="List the variants of a workflow")
    async def list_variants(
        self,
        request: ApiRequest,
        workflow: FromPath[str],
        archived: FromQuery[bool] = False,  # noqa: FBT002
        limit: Limit = 50,
        after: After = None,
    ) -> Page[VariantRow]:
        project = caller_of(request).project
        await store_default_variant(self.database, project, self.registry.workflow(workflow))
        window = Window(limit, after)
        page = await self.database.read(
            variants.list_variants, project, workflow=workflow, archived=archived, window=window
        )
        return page.map(variant_row)

    @post(
        "/workflows/{workflow:str}/variants",
        operation_id="create_variant",
        summary="Create a variant with its first version",
        operation_class=operation_with_body(NewVariant),
    )
    async def create_variant(self, request: ApiRequest, workflow: FromPath[str]) -> Response[VariantView]:
        caller = caller_of(request)
        raw, body = await read_body(request, self.settings, NewVariant)
        self.variant_views.check(workflow, body.parameters)
        draft = VariantDraft(workflow=workflow, key=caller.key, **msgspec.structs.asdict(body))
        variant_id, now = new_id("var"), utc_now()

        def work(db: Connection) -> HttpResponse:
            variants.create_variant(db, caller.project, draft, id=variant_id, at=now)
            created = variants.get_head(db, caller.project, variant_id)
            location = f"{self.settings.root_path}/api/variants/{variant_id}"
            return encode_object(self.variant_views.view(created), status=201, location=location)

        return await run_idempotent(request, self.database, raw, work)

    @get("/variants/{variant:str}", operation_id="get_variant", summary="Get a variant and its current parameters")
    async def get_variant(self, request: ApiRequest, variant: FromPath[str]) -> Response[VariantView]:
        current = await self.database.read(variants.get_head, caller_of(request).project, variant)
        return object_response(request, self.variant_views.view(current))

    @patch(
        "/variants/{variant:str}",
        operation_id="change_variant",
        summary="Rename, describe, archive or unarchive a variant",
        operation_class=operation_with_body(VariantPatch),
    )
    async def change_variant(self, request: ApiRequest, variant: FromPath[str]) -> Response[VariantView]:
        _, body = await read_body(request, self.settings, VariantPatch)
        fields = changed_fields(body, {"description": "", "archived": False})
        return object_response(request, self.variant_views.view(await self._change(request, variant, fields)))

    @delete(
        "/variants/{variant:str}", operation_id="archive_variant", summary="Archive a variant; its versions are kept"
    )
    async def archive_variant(self, request: ApiRequest, variant: FromPath[str]) -> None:
        await self._change(request, variant, {"archived": True})

    async def _change(self, request: ApiRequest, variant: str, fields: dict[str, Any]) -> VariantHead:
        check_etag = if_match_check(request, self.variant_views.view)

        def check(current: VariantHead) -> None:
            _check_editable(request, current.variant)
            check_etag(current)

        project = caller_of(request).project
        return await self.database.write(variants.update_variant, project, variant, at=utc_now(), check=check, **fields)

    @get(
        "/variants/{variant:str}/versions",
        operation_id="list_variant_versions",
        summary="List the versions of a variant, newest first",
    )
    async def list_variant_versions(
        self, request: ApiRequest, variant: FromPath[str], limit: Limit = 50, after: After = None
    ) -> Page[VersionRow]:
        window = Window(limit, after)
        page = await self.database.read(variants.list_versions, caller_of(request).project, variant, window)
        return page.map(version_row)

    @post(
        "/variants/{variant:str}/versions",
        operation_id="commit_variant",
        summary="Commit a new version of a variant",
        operation_class=operation_with_body(NewVersion),
    )
    async def commit_variant(self, request: ApiRequest, variant: FromPath[str]) -> Response[VersionView]:
        caller = caller_of(request)
        raw, body = await read_body(request, self.settings, NewVersion)
        stored_variant = await self.database.read(variants.get_variant, caller.project, variant)
        _check_editable(request, stored_variant)
        self.variant_views.check(stored_variant.workflow, body.parameters)
        draft = VariantDraft(
            workflow=stored_variant.workflow,
            name=stored_variant.name,
            parameters=body.parameters,
            message=body.message,
            key=caller.key,
        )
        now = utc_now()

        def work(db: Connection) -> HttpResponse:
            version, is_new = variants.commit_version(db, caller.project, variant, draft, base=body.base, at=now)
            location = f"{self.settings.root_path}/api/variants/{variant}/versions/{version.number}"
            view = version_view(version, is_new=is_new)
            return encode_object(view, status=201, location=location) if is_new else encode_object(view)

        return await run_idempotent(request, self.database, raw, work)

    @get(
        "/variants/{variant:str}/versions/{number:int}",
        operation_id="get_variant_version",
        summary="Get a version of a variant",
    )
    async def get_variant_version(
        self, request: ApiRequest, variant: FromPath[str], number: FromPath[int]
    ) -> Response[VersionView]:
        version = await self.database.read(variants.get_version, caller_of(request).project, variant, number)
        return object_response(request, version_view(version))

    @get(
        "/variants/{variant:str}/diff",
        operation_id="compare_variants",
        summary="Compare two versions; either may belong to another variant, e.g. name:1",
    )
    async def compare_variants(
        self,
        request: ApiRequest,
        variant: FromPath[str],
        to: FromQuery[str],
        since: Annotated[str, QueryParameter(name="from")],
    ) -> VariantDiff:
        project = caller_of(request).project
        old, new = await self.database.read(_load_versions, project, variant, since, to)
        return VariantDiff(diff_json(old.parameters, new.parameters))


def _load_versions(db: Connection, project: str, variant: str, since: str, to: str) -> tuple[Version, Version]:
    stored_variant = variants.get_variant(db, project, variant)
    return _find_version(db, project, stored_variant, since), _find_version(db, project, stored_variant, to)


def _find_version(db: Connection, project: str, variant: Variant, text: str) -> Version:
    """Return a version by its number, or by a reference such as `other` or `other:3`."""
    if text.isascii() and text.isdigit() and len(text) < 10:
        return variants.get_version(db, project, variant.id, int(text))
    reference = parse_reference(text)
    other_variant = variants.find_variant(db, project, reference.workflow or variant.workflow, reference.name)
    if other_variant is None:
        raise NotFound(f"Variant {text[:160]!r} not found.")
    return variants.get_version(db, project, other_variant.id, reference.version or other_variant.head)


def _check_editable(request: ApiRequest, variant: Variant) -> None:
    if variant.name == DEFAULT_VARIANT:
        reason = "This variant is defined in code. Change the code, or create another variant."
        raise MethodNotAllowed(request.method, request.scope["path"], allowed=["GET"], reason=reason)
