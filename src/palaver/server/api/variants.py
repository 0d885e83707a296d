"""/api/variants: named sets of parameters, and their versions."""

from typing import Annotated, Any

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.params import FromPath, FromQuery, QueryParameter
from msgspec import UNSET
from sqlalchemy import Connection

from palaver.core.variants import DEFAULT_VARIANT, VariantReference, diff_json, parse_reference
from palaver.discovery.registry import Registry
from palaver.errors import MethodNotAllowed, NotFound
from palaver.protocols.base import HttpResponse
from palaver.server.api.conventions import (
    After,
    Asked,
    Limit,
    answer,
    caller_of,
    new_id,
    read_body,
    shown_as,
    takes,
    unless_stale,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.api.idempotency import once
from palaver.server.api.variant_views import (
    Difference,
    NewVariant,
    NewVersion,
    VariantPatch,
    VariantRow,
    VariantView,
    VersionRow,
    VersionView,
    Views,
    row,
    version_row,
    version_view,
)
from palaver.server.conversations import store_default_variant
from palaver.server.settings import Settings
from palaver.storage import variants
from palaver.storage.database import Database
from palaver.storage.pagination import Page, Window
from palaver.storage.variants import Variant, VariantDraft, VariantHead, Version


class VariantController(ApiController):
    path = "/api"

    database: Database
    settings: Settings
    registry: Registry
    variant_views: Views

    @get("/workflows/{workflow:str}/variants", operation_id="list_variants", summary="A workflow's variants")
    async def list_variants(
        self,
        request: Asked,
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
        return page.map(row)

    @post(
        "/workflows/{workflow:str}/variants",
        operation_id="create_variant",
        summary="A new variant, with its first version",
        operation_class=takes(NewVariant),
    )
    async def create_variant(self, request: Asked, workflow: FromPath[str]) -> Response[VariantView]:
        caller = caller_of(request)
        raw, body = await read_body(request, self.settings, NewVariant)
        self.variant_views.check(workflow, body.parameters)
        wanted = VariantDraft(
            workflow=workflow,
            name=body.name,
            description=body.description,
            parameters=body.parameters,
            message=body.message,
            key=caller.key,
        )
        made_id, now = new_id("var"), utc_now()

        def work(db: Connection) -> HttpResponse:
            variants.create_variant(db, caller.project, wanted, id=made_id, at=now)
            made = variants.get_head(db, caller.project, made_id)
            return shown_as(
                self.variant_views.view(made), status=201, location=f"{self.settings.root_path}/api/variants/{made_id}"
            )

        return await once(request, self.database, raw, work)

    @get("/variants/{variant:str}", operation_id="get_variant", summary="One variant, and what it sets now")
    async def get_variant(self, request: Asked, variant: FromPath[str]) -> Response[VariantView]:
        found = await self.database.read(variants.get_head, caller_of(request).project, variant)
        return answer(request, self.variant_views.view(found))

    @patch(
        "/variants/{variant:str}",
        operation_id="change_variant",
        summary="Another name or description, archived or not",
        operation_class=takes(VariantPatch),
    )
    async def change_variant(self, request: Asked, variant: FromPath[str]) -> Response[VariantView]:
        _, body = await read_body(request, self.settings, VariantPatch)
        return answer(request, self.variant_views.view(await self._change(request, variant, _fields(body))))

    @delete("/variants/{variant:str}", operation_id="archive_variant", summary="Archive it: its versions stay")
    async def archive_variant(self, request: Asked, variant: FromPath[str]) -> None:
        await self._change(request, variant, {"archived": True})

    async def _change(self, request: Asked, variant: str, fields: dict[str, Any]) -> VariantHead:
        fits = unless_stale(request, self.variant_views.view)

        def check(current: VariantHead) -> None:
            _check_editable(request, current.variant)
            fits(current)

        project = caller_of(request).project
        return await self.database.write(variants.update_variant, project, variant, at=utc_now(), check=check, **fields)

    @get("/variants/{variant:str}/versions", operation_id="list_variant_versions", summary="A variant's history")
    async def list_variant_versions(
        self, request: Asked, variant: FromPath[str], limit: Limit = 50, after: After = None
    ) -> Page[VersionRow]:
        window = Window(limit, after)
        found = await self.database.read(variants.list_versions, caller_of(request).project, variant, window)
        return found.map(version_row)

    @post(
        "/variants/{variant:str}/versions",
        operation_id="commit_variant",
        summary="A new version of what a variant sets",
        operation_class=takes(NewVersion),
    )
    async def commit_variant(self, request: Asked, variant: FromPath[str]) -> Response[VersionView]:
        caller = caller_of(request)
        raw, body = await read_body(request, self.settings, NewVersion)
        found = await self.database.read(variants.get_variant, caller.project, variant)
        _check_editable(request, found)
        self.variant_views.check(found.workflow, body.parameters)
        wanted = VariantDraft(
            workflow=found.workflow,
            name=found.name,
            parameters=body.parameters,
            message=body.message,
            key=caller.key,
        )
        now = utc_now()

        def work(db: Connection) -> HttpResponse:
            made, is_new = variants.commit_version(db, caller.project, variant, wanted, base=body.base, at=now)
            place = f"{self.settings.root_path}/api/variants/{variant}/versions/{made.number}"
            view = version_view(made, is_new=is_new)
            return shown_as(view, status=201, location=place) if is_new else shown_as(view)

        return await once(request, self.database, raw, work)

    @get("/variants/{variant:str}/versions/{number:int}", operation_id="get_variant_version", summary="One version")
    async def get_variant_version(
        self, request: Asked, variant: FromPath[str], number: FromPath[int]
    ) -> Response[VersionView]:
        found = await self.database.read(variants.get_version, caller_of(request).project, variant, number)
        return answer(request, version_view(found))

    @get(
        "/variants/{variant:str}/diff",
        operation_id="compare_variants",
        summary="Where two versions differ; `to` may be one of another variant, as name:1",
    )
    async def compare_variants(
        self,
        request: Asked,
        variant: FromPath[str],
        to: FromQuery[str],
        since: Annotated[str, QueryParameter(name="from")],
    ) -> Difference:
        project = caller_of(request).project
        before, after = await self.database.read(_both, project, variant, since, to)
        return Difference(diff_json(before.parameters, after.parameters))


def _both(db: Connection, project: str, variant: str, since: str, to: str) -> tuple[Version, Version]:
    found = variants.get_variant(db, project, variant)
    return _named(db, project, found, since), _named(db, project, found, to)


def _named(db: Connection, project: str, variant: Variant, text: str) -> Version:
    """The version that `3`, `other` or `other:3` names."""
    if text.isascii() and text.isdigit() and len(text) < 10:
        return variants.get_version(db, project, variant.id, int(text))
    asked: VariantReference = parse_reference(text)
    other = variants.find_variant(db, project, asked.workflow or variant.workflow, asked.name)
    if other is None:
        raise NotFound(f"There is no variant {text[:160]!r}.")
    return variants.get_version(db, project, other.id, asked.version or other.head)


def _fields(body: VariantPatch) -> dict[str, Any]:
    cleared: dict[str, Any] = {"description": "", "archived": False}
    given = msgspec.structs.asdict(body)
    return {name: cleared[name] if value is None else value for name, value in given.items() if value is not UNSET}


def _check_editable(request: Asked, variant: Variant) -> None:
    if variant.name == DEFAULT_VARIANT:
        why = "This variant is what the code says: change the code, or make another."
        raise MethodNotAllowed(request.method, request.scope["path"], allowed=["GET"], reason=why)
