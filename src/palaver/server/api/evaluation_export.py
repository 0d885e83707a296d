"""An evaluation on its way to a file: what writes it is a plain generator, run in a thread a piece at a time.

It asks for cells as it goes. Each page of them is read as anything else is, and no more than one is in memory.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from typing import Any, TypeVar, cast

from palaver.evaluation.results.export.formats import EXPORT_FORMATS, ExportName
from palaver.evaluation.results.export.html import CONTENT_SECURITY_POLICY
from palaver.evaluation.results.export.report import Report
from palaver.server.api.conventions import Window
from palaver.storage.database import Database
from palaver.storage.evaluations import results as evaluation_pages
from palaver.storage.evaluations.results import ResultDetail

T = TypeVar("T")
Ask = Callable[[Coroutine[Any, Any, Any]], Any]
Cells = Callable[[], Iterator[ResultDetail]]

PIECE = 64 * 1024
"""Bytes, about, that are sent at once."""
_PAGE = 200


class _Left(Exception):
    """Nobody reads it any longer."""


async def streamed(
    database: Database, project: str, evaluation: str, form: ExportName, make: Callable[[Cells], Report]
) -> AsyncGenerator[bytes]:
    """The file, piece by piece; `make` is given the cells, and makes the report."""
    loop = asyncio.get_running_loop()
    is_left = False

    def ask(question: Coroutine[Any, Any, Any]) -> Any:
        """From the thread: what the loop finds."""
        if is_left:
            question.close()
            raise _Left
        return asyncio.run_coroutine_threadsafe(question, loop).result()

    read = _whole if form == "jsonl" else _light
    lines = EXPORT_FORMATS[form].write(make(lambda: read(database, project, evaluation, ask)))
    try:
        while True:
            working = loop.run_in_executor(None, _piece, lines)
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


def headers(evaluation: str, form: ExportName) -> tuple[tuple[str, str], ...]:
    """It is saved, not shown; and where it is shown, nothing in it acts."""
    kind = EXPORT_FORMATS[form]
    policy = (("content-security-policy", f"{CONTENT_SECURITY_POLICY}; sandbox"),) if form == "html" else ()
    return (
        ("content-type", kind.media_type),
        ("content-disposition", f'attachment; filename="{evaluation}.{kind.extension}"'),
        ("x-content-type-options", "nosniff"),
        *policy,
    )


def _piece(lines: Iterator[bytes]) -> bytes:
    """Some lines, none at the end."""
    some: list[bytes] = []
    size = 0
    try:
        for line in lines:
            some.append(line)
            size += len(line)
            if size >= PIECE:
                break
    except _Left:
        return b""
    return b"".join(some)


def _light(database: Database, project: str, evaluation: str, ask: Ask) -> Iterator[ResultDetail]:
    """All cells, without their bodies."""
    after: str | None = None
    while True:
        window = Window(_PAGE, after)
        page = ask(
            database.read(evaluation_pages.list_results, project, evaluation, evaluation_pages.ALL_RESULTS, window)
        )
        yield from (ResultDetail(result, None) for result in page.data)
        after = page.next
        if after is None:
            return


def _whole(database: Database, project: str, evaluation: str, ask: Ask) -> Iterator[ResultDetail]:
    """All cells, with their bodies."""
    after = -1
    while some := cast(
        "list[ResultDetail]", ask(database.read(evaluation_pages.list_result_details, project, evaluation, after))
    ):
        yield from some
        after = some[-1].result.cell
