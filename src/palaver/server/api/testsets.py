"""/api/testsets: the sets. Their revisions, rows and files have files of their own."""

from typing import Any

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.params import FromPath, FromQuery
from msgspec import UNSET
from sqlalchemy import Connection

from palaver.errors import MissingScope
from palaver.protocols.base import HttpResponse
from palaver.server.api.conventions import (
    After,
    Asked,
    Limit,
    Page,
    Search,
    Window,
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
from palaver.server.api.testset_views import NewTestSet, TestSetPatch, TestSetRow, TestSetView, row, view
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.testsets import repository as testsets
from palaver.storage.testsets.imports import sweep_import
from palaver.storage.testsets.repository import TestSet
from palaver.testsets import commits
from palaver.testsets.commits import CommitInfo, SubmittedRow


class TestSetController(ApiController):
    path = "/api/testsets"

    database: Database
    settings: Settings

    @get(operation_id="list_testsets", summary="The project's test sets, last changed first")
    async def list_testsets(
        self,
        request: Asked,
        search: Search = None,
        archived: FromQuery[bool] = False,  # noqa: FBT002 - of the query
        limit: Limit = 50,
        after: After = None,
    ) -> Page[TestSetRow]:
        project, window = caller_of(request).project, Window(limit, after)
        found = await self.database.read(
            testsets.list_testsets, project, search=search, archived=archived, window=window
        )
        return found.map(row)

    @post(
        operation_id="create_testset",
        summary="A new test set, with its first revision",
        operation_class=takes(NewTestSet),
    )
    async def create_testset(self, request: Asked) -> Response[TestSetView]:
        caller = caller_of(request)
        raw, body = await read_body(request, self.settings, NewTestSet)
        given = [SubmittedRow(one.data, one.id) for one in body.rows]
        prepared = await self.database.read(
            commits.prepare_rows, caller.project, None, given, limits=self.settings.testset_limits
        )
        now = utc_now()
        wanted = TestSet(id=new_id("ts"), name=body.name, description=body.description, created_at=now, updated_at=now)
        written = CommitInfo(message=body.message, key=caller.key, at=now)

        def work(db: Connection) -> HttpResponse:
            commits.create_testset(db, caller.project, wanted, prepared, written)
            made = testsets.get_testset(db, caller.project, wanted.id)
            return shown_as(view(made), status=201, location=f"{self.settings.root_path}/api/testsets/{made.id}")

        return await once(request, self.database, raw, work)

    @get("/{testset:str}", operation_id="get_testset", summary="One test set, as it is now")
    async def get_testset(self, request: Asked, testset: FromPath[str]) -> Response[TestSetView]:
        return answer(
            request, view(await self.database.read(testsets.get_testset, caller_of(request).project, testset))
        )

    @patch(
        "/{testset:str}",
        operation_id="change_testset",
        summary="Another name or description, archived or not",
        operation_class=takes(TestSetPatch),
    )
    async def change_testset(self, request: Asked, testset: FromPath[str]) -> Response[TestSetView]:
        _, body = await read_body(request, self.settings, TestSetPatch)
        return answer(request, view(await self._change(request, testset, _fields(body))))

    @delete(
        "/{testset:str}",
        operation_id="archive_testset",
        summary="Archive it: revisions stay; with purge=true, which needs an admin, erase it for ever",
    )
    async def archive_testset(
        self,
        request: Asked,
        testset: FromPath[str],
        purge: FromQuery[bool] = False,  # noqa: FBT002 - of the query
    ) -> None:
        if not purge:
            await self._change(request, testset, {"archived": True})
            return
        caller = caller_of(request)
        if "admin" not in caller.scopes:
            raise MissingScope("admin")
        check = unless_stale(request, view)
        left = await self.database.write(testsets.delete_testset, caller.project, testset, check=check, at=utc_now())
        await sweep_import(self.database, left)

    async def _change(self, request: Asked, testset: str, fields: dict[str, Any]) -> TestSet:
        project, check = caller_of(request).project, unless_stale(request, view)
        return await self.database.write(testsets.update_testset, project, testset, at=utc_now(), check=check, **fields)


def _fields(body: TestSetPatch) -> dict[str, Any]:
    cleared: dict[str, Any] = {"description": "", "archived": False}
    given = msgspec.structs.asdict(body)
    return {name: cleared[name] if value is None else value for name, value in given.items() if value is not UNSET}
