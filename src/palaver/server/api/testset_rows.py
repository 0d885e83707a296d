"""/api/testsets/{id}/revisions/{v}/rows: the rows of a revision, page by page, or one as a whole."""

from typing import Annotated

from litestar import Response, get
from litestar.params import FromPath, QueryParameter
from sqlalchemy import Connection

from palaver.server.api.conventions import After, Asked, Limit, Page, Search, Window, answer, caller_of
from palaver.server.api.dependencies import ApiController
from palaver.server.api.testset_revisions import named
from palaver.server.api.testset_views import RowView, WholeRow, row_view, whole_row
from palaver.storage.database import Database
from palaver.storage.testsets import rows as testset_rows
from palaver.testsets import row_pages
from palaver.testsets.row_pages import RowFilter, StoredRow, parse_row_filter
from palaver.testsets.rows import pack_row_id

FilterText = Annotated[
    str | None,
    QueryParameter(
        name="filter", max_length=4_000, description='What cells must be: topic=maths, or {"topic": "maths"}.'
    ),
]


class TestSetRowController(ApiController):
    path = "/api/testsets"

    database: Database

    @get(
        "/{testset:str}/revisions/{revision:str}/rows",
        operation_id="list_testset_rows",
        summary="Rows in their order, long cells cut; a search may give short pages before it is through",
    )
    async def list_testset_rows(
        self,
        request: Asked,
        testset: FromPath[str],
        revision: FromPath[str],
        search: Search = None,
        filter_: FilterText = None,
        limit: Limit = 100,
        after: After = None,
    ) -> Page[RowView]:
        wanted = RowFilter(search or None, parse_row_filter(filter_))
        project, window = caller_of(request).project, Window(limit, after)
        return (await self.database.read(_page, project, testset, revision, wanted, window)).map(row_view)

    @get(
        "/{testset:str}/revisions/{revision:str}/rows/{row:str}",
        operation_id="get_testset_row",
        summary="One row, whole",
    )
    async def get_testset_row(
        self, request: Asked, testset: FromPath[str], revision: FromPath[str], row: FromPath[str]
    ) -> Response[WholeRow]:
        return answer(request, await self.database.read(_row, caller_of(request).project, testset, revision, row))


def _page(
    db: Connection, project: str, testset: str, revision: str, wanted: RowFilter, window: Window
) -> Page[StoredRow]:
    return row_pages.list_rows(db, project, named(db, project, testset, revision), wanted, window)


def _row(db: Connection, project: str, testset: str, revision: str, row: str) -> WholeRow:
    found = row_pages.get_row(db, project, named(db, project, testset, revision), row)
    packed = pack_row_id(row)
    return whole_row(found, testset_rows.read_metas(db, project, testset, [packed]).get(packed))
