"""GET /api/evaluations/{id}/export: an evaluation as a file.

The writers are plain generators. They run in a thread, a piece at a time, and request results page by page from the
event loop, so that at most one page is in memory.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from typing import Annotated, Any, TypeVar, cast

from litestar import Response, get
from litestar.params import FromPath, QueryParameter

from palaver.evaluation.plan.plan import Plan
from palaver.evaluation.results.export.formats import EXPORT_FORMATS, ExportName
from palaver.evaluation.results.export.html import CONTENT_SECURITY_POLICY
from palaver.evaluation.results.export.report import Report
from palaver.evaluation.results.figures import Comparison, EvaluationSummary
from palaver.server.api import evaluation_views as shown
from palaver.server.api.conventions import ApiRequest, caller_of
from palaver.server.api.dependencies import ApiController
from palaver.server.api.evaluation_results import VARIANT_DESCRIPTION, FigureCache, Margin
from palaver.server.api.streaming import StreamingResponse, send_pieces
from palaver.server.rate_limit import RateLimits
from palaver.server.request import Exchange
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results as evaluation_pages
from palaver.storage.evaluations.repository import Evaluation
from palaver.storage.evaluations.results import ResultDetail
from palaver.storage.pagination import Window

T = TypeVar("T")
RunInLoop = Callable[[Coroutine[Any, Any, Any]], Any]
Cells = Callable[[], Iterator[ResultDetail]]

ExportBase = Annotated[
    str | None,
    QueryParameter(
        name="base", max_length=300, description=f"{VARIANT_DESCRIPTION} Without it, the first variant of this one."
    ),
]
Format = Annotated[
    ExportName,
    QueryParameter(name="format", description="For build servers, a comment, a spreadsheet, a program, or a reader."),
]
PIECE_BYTES = 64 * 1024
"""Bytes, about, that are sent at once."""
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
        summary="All of it as a file",
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
        caller = caller_of(request)
        evaluation_record, stored_plan = await self.database.read(evaluations.get_plan, caller.project, evaluation)
        summary = await self.figures.summary(caller.project, evaluation, None)
        beside = await self.figures.comparisons(caller.project, evaluation, base, margin)
        make = _report_factory(evaluation_record, shown.decode_plan(stored_plan), summary, beside)
        lines = export_pieces(self.database, caller.project, evaluation, form, make)
        first = await anext(lines, b"")

        async def send(exchange: Exchange) -> None:
            with self.rate_limits.streams.slot(caller):
                await send_pieces(
                    exchange, first, lines, self.settings.stream_stall, export_headers(evaluation_record.id, form)
                )

        return StreamingResponse(send)


def _report_factory(
    found: Evaluation, plan: Plan, summary: EvaluationSummary, comparisons: list[Comparison]
) -> Callable[[Cells], Report]:
    from palaver.evaluation.results.load import make_report

    return lambda cells: make_report(found, plan, summary=summary, comparisons=comparisons, cells=cells)


class _ClientLeft(Exception):
    """Nobody reads it any longer."""


async def export_pieces(
    database: Database, project: str, evaluation: str, form: ExportName, make: Callable[[Cells], Report]
) -> AsyncGenerator[bytes]:
    """The file, piece by piece; `make` is given the cells, and makes the report."""
    loop = asyncio.get_running_loop()
    is_left = False

    def ask(question: Coroutine[Any, Any, Any]) -> Any:
        """From the thread: what the loop finds."""
        if is_left:
            question.close()
            raise _ClientLeft
        return asyncio.run_coroutine_threadsafe(question, loop).result()

    read = _detailed_results if form == "jsonl" else _results
    lines = EXPORT_FORMATS[form].write(make(lambda: read(database, project, evaluation, ask)))
    try:
        while True:
            working = loop.run_in_executor(None, _next_piece, lines)
            try:
                piece = await asyncio.shield(working)
            except asyncio.CancelledError:
                is_left = True
                await asyncio.wait([working])  # It is at most one page away from seeing that.
                raise
            if not piece:
                return
            yield piece
    finally:
        if isinstance(lines, Generator):
            cast("Generator[bytes]", lines).close()


def export_headers(evaluation: str, form: ExportName) -> tuple[tuple[str, str], ...]:
    """It is saved, not shown; and where it is shown, nothing in it acts."""
    kind = EXPORT_FORMATS[form]
    policy = (("content-security-policy", f"{CONTENT_SECURITY_POLICY}; sandbox"),) if form == "html" else ()
    return (
        ("content-type", kind.media_type),
        ("content-disposition", f'attachment; filename="{evaluation}.{kind.extension}"'),
        ("x-content-type-options", "nosniff"),
        *policy,
    )


def _next_piece(lines: Iterator[bytes]) -> bytes:
    """Some lines, none at the end."""
    some: list[bytes] = []
    size = 0
    try:
        for line in lines:
            some.append(line)
            size += len(line)
            if size >= PIECE_BYTES:
                break
    except _ClientLeft:
        return b""
    return b"".join(some)


def _results(database: Database, project: str, evaluation: str, ask: RunInLoop) -> Iterator[ResultDetail]:
    """All cells, without their bodies."""
    after: str | None = None
    while True:
        window = Window(_PAGE_SIZE, after)
        page = ask(
            database.read(evaluation_pages.list_results, project, evaluation, evaluation_pages.ALL_RESULTS, window)
        )
        yield from (ResultDetail(result, None) for result in page.data)
        after = page.next
        if after is None:
            return


def _detailed_results(database: Database, project: str, evaluation: str, ask: RunInLoop) -> Iterator[ResultDetail]:
    """All cells, with their bodies."""
    after = -1
    while some := cast(
        "list[ResultDetail]", ask(database.read(evaluation_pages.list_result_details, project, evaluation, after))
    ):
        yield from some
        after = some[-1].result.cell
