"""GET /api/evaluations/{id}/export: an evaluation as a file.

The writers are plain generators. They run in a thread, a chunk at a time, and request results page by page from the
event loop, so that at most one page is in memory.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from typing import Annotated, Any, cast

from litestar import Response, get
from litestar.params import FromPath, QueryParameter

from palaver.evaluation.plan.plan import Plan
from palaver.evaluation.results.export.formats import EXPORT_FORMATS, ExportName
from palaver.evaluation.results.export.html import CONTENT_SECURITY_POLICY
from palaver.evaluation.results.export.report import Report
from palaver.evaluation.results.figures import Comparison, EvaluationSummary
from palaver.server.api import evaluation_views as views
from palaver.server.api.conventions import ApiRequest, caller_of
from palaver.server.api.dependencies import ApiController
from palaver.server.api.evaluation_results import VARIANT_DESCRIPTION, FigureCache, Margin
from palaver.server.api.streaming import Headers, stream_chunks
from palaver.server.rate_limit import RateLimits
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results as result_store
from palaver.storage.evaluations.repository import Evaluation
from palaver.storage.evaluations.results import ResultDetail
from palaver.storage.pagination import Window

RunInLoop = Callable[[Coroutine[Any, Any, Any]], Any]
Cells = Callable[[], Iterator[ResultDetail]]

ExportBase = Annotated[
    str | None,
    QueryParameter(
        name="base",
        max_length=300,
        description=f"{VARIANT_DESCRIPTION} Defaults to the first variant of this evaluation.",
    ),
]
Format = Annotated[
    ExportName,
    QueryParameter(name="format", description="The file format."),
]
CHUNK_BYTES = 64 * 1024
_PAGE_SIZE = 200


class EvaluationExportController(ApiController):
    path = "/api/evaluations"

    database: Database
    settings: Settings
    rate_limits: RateLimits
    figures: FigureCache

    @get(
        "/{evaluation:str}/export",
        operation_id="export_evaluation",
        summary="Export an evaluation as a file",
        media_type="application/octet-stream",
    )
    async def export_evaluation(
        self,
        request: ApiRequest,
        evaluation: FromPath[str],
        form: Format,
        base: ExportBase = None,
        margin: Margin = 0.02,
    ) -> Response[Any]:
        project = caller_of(request).project
        evaluation_record, stored_plan = await self.database.read(evaluations.get_plan, project, evaluation)
        summary = await self.figures.summary(project, evaluation, None)
        comparisons = await self.figures.comparisons(project, evaluation, base, margin)
        make_report = _report_factory(evaluation_record, views.decode_plan(stored_plan), summary, comparisons)
        chunks = export_chunks(self.database, project, evaluation, form, make_report)
        headers = export_headers(evaluation_record.id, form)
        return await stream_chunks(request, chunks, headers, self.rate_limits, self.settings)


def _report_factory(
    evaluation: Evaluation, plan: Plan, summary: EvaluationSummary, comparisons: list[Comparison]
) -> Callable[[Cells], Report]:
    from palaver.evaluation.results.load import make_report

    return lambda cells: make_report(evaluation, plan, summary=summary, comparisons=comparisons, cells=cells)


class _ClientLeft(Exception):
    """Raised in the writer's thread after the client has disconnected."""


async def export_chunks(
    database: Database, project: str, evaluation: str, form: ExportName, make_report: Callable[[Cells], Report]
) -> AsyncGenerator[bytes]:
    loop = asyncio.get_running_loop()
    client_left = False

    def run_in_loop(coroutine: Coroutine[Any, Any, Any]) -> Any:
        if client_left:
            coroutine.close()
            raise _ClientLeft
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    read_cells = _read_details if form == "jsonl" else _read_results
    lines = EXPORT_FORMATS[form].write(make_report(lambda: read_cells(database, project, evaluation, run_in_loop)))
    try:
        while True:
            future = loop.run_in_executor(None, _next_chunk, lines)
            try:
                chunk = await asyncio.shield(future)
            except asyncio.CancelledError:
                client_left = True
                await asyncio.wait([future])  # It ends after at most one page.
                raise
            if not chunk:
                return
            yield chunk
    finally:
        if isinstance(lines, Generator):
            cast("Generator[bytes]", lines).close()


def export_headers(evaluation: str, form: ExportName) -> Headers:
    """Return headers that make browsers save the file, and sandbox it if they display it."""
    export_format = EXPORT_FORMATS[form]
    policy = (("content-security-policy", f"{CONTENT_SECURITY_POLICY}; sandbox"),) if form == "html" else ()
    return (
        ("content-type", export_format.media_type),
        ("content-disposition", f'attachment; filename="{evaluation}.{export_format.extension}"'),
        ("x-content-type-options", "nosniff"),
        *policy,
    )


def _next_chunk(lines: Iterator[bytes]) -> bytes:
    """Return about CHUNK_BYTES of lines; empty at the end."""
    chunk: list[bytes] = []
    size = 0
    try:
        for line in lines:
            chunk.append(line)
            size += len(line)
            if size >= CHUNK_BYTES:
                break
    except _ClientLeft:
        return b""
    return b"".join(chunk)


def _read_results(database: Database, project: str, evaluation: str, run_in_loop: RunInLoop) -> Iterator[ResultDetail]:
    after: str | None = None
    while True:
        window = Window(_PAGE_SIZE, after)
        page = run_in_loop(
            database.read(result_store.list_results, project, evaluation, result_store.ALL_RESULTS, window)
        )
        yield from (ResultDetail(result, None) for result in page.data)
        after = page.next
        if after is None:
            return


def _read_details(database: Database, project: str, evaluation: str, run_in_loop: RunInLoop) -> Iterator[ResultDetail]:
    after = -1
    while batch := cast(
        "list[ResultDetail]", run_in_loop(database.read(result_store.list_result_details, project, evaluation, after))
    ):
        yield from batch
        after = batch[-1].result.cell
