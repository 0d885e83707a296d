"""palaver trace import: spans out of files, as anybody's exporter or palaver trace export wrote them."""

import asyncio
import os
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

import click
import msgspec

from palaver.cli.bar import Say, echo, watched
from palaver.cli.databases import using
from palaver.cli.options import db_option, project_option
from palaver.cli.records import opened
from palaver.cli.tracing.files import LONGEST, Fault, Line, Lot, Records, Request, lots
from palaver.errors import PalaverError
from palaver.outbound import printable, printable_json

if TYPE_CHECKING:
    from palaver.storage.database import Database
    from palaver.storage.spans.writes import SpanRow
    from palaver.traces.model import Span

_MOST_REASONS = 5
_TOGETHER = 500
"""Spans that are kept in one transaction."""
_LARGEST = 32 * 1024 * 1024
"""Bytes of one record: what a span may hold, in its attributes and once more as they were read."""
_TRACE, _SPAN = re.compile(r"(?!0{32})[0-9a-f]{32}"), re.compile(r"(?!0{16})[0-9a-f]{16}")
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2554, 7, 22, tzinfo=UTC)
_LONGEST_MS = (_LATEST - _EARLIEST) / timedelta(milliseconds=1)
"""OTLP can tell of no other times."""


@click.command(name="import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
@project_option("traces")
@db_option
def import_(files: tuple[str, ...], as_json: bool, project: str, db: str | None) -> int:
    """Keep the spans of FILEs; - stands for standard input.

    Taken are the lines that palaver trace export writes, OTLP as lines of JSON, as one JSON document or as protobuf,
    and any of these packed with gzip. A span that is there already is left alone, unless this one ended later: so an
    import that was broken off can be begun again. Redaction goes as for spans that are sent. Exit code 1: something
    was rejected, and standard error says what.

    \b
    Examples:
      palaver trace import week.jsonl
      palaver trace import collector/*.json.gz --project team-a
      zcat traces.jsonl.gz | palaver trace import -
    """
    counts = _Counts()
    asyncio.run(_import(db, project, files, counts))
    if as_json:
        echo(printable_json(msgspec.json.encode(counts.told()).decode()))
    else:
        echo(counts.line())
    return 1 if counts.rejected else 0


class _Counts:
    """What became of what was read."""

    def __init__(self) -> None:
        self.new = self.replaced = self.unchanged = self.rejected = 0
        self.reasons: list[str] = []

    def reject(self, where: str, reasons: Sequence[str], say: Say) -> None:
        """Some were not kept; of the first few it is said why."""
        for reason in reasons[: max(0, _MOST_REASONS - len(self.reasons))]:
            self.reasons.append(f"{where}: {printable(reason, 300)}")
            say(f"rejected: {self.reasons[-1]}", err=True)
        self.rejected += len(reasons)

    def told(self) -> dict[str, Any]:
        return {
            "new": self.new,
            "replaced": self.replaced,
            "unchanged": self.unchanged,
            "rejected": self.rejected,
            "reasons": self.reasons,
        }

    def line(self) -> str:
        several = (f"{self.replaced:,} replaced, " if self.replaced else "") + f"{self.unchanged:,} there already"
        rejected = f", {self.rejected:,} rejected" if self.rejected else ""
        return f"{self.new:,} span{'s' * (self.new != 1)} kept, {several}{rejected}."


async def _import(db: str | None, project: str, files: Sequence[str], counts: _Counts) -> None:
    from palaver.discovery.registry import Registry
    from palaver.server.redaction import RedactionPolicy
    from palaver.server.settings import read_settings

    settings, _ = read_settings(env=os.environ, folder=Path.cwd())
    redacting = RedactionPolicy(settings, Registry([]))
    async with using(db) as database:
        await redacting.begin(database, _now)
        for name in files:
            called = "standard input" if name == "-" else printable(name)
            with opened(name) as stream, watched(stream) as (read, say):
                one = _File(called, project, database, redacting.span, counts, say)
                for lot in lots(read, called):
                    await one.take(lot)


class _File:
    """Keeps what one file holds."""

    def __init__(
        self,
        name: str,
        project: str,
        database: "Database",
        redact: "Callable[[Span], Span]",
        counts: _Counts,
        say: Say,
    ) -> None:
        self._name = name
        self._project = project
        self._database = database
        self._redact = redact
        self._counts = counts
        self._say = say

    async def take(self, lot: Lot) -> None:
        """Keep a piece of it; what cannot be kept is told of."""
        match lot:
            case Fault(number=number, reason=reason):
                self._reject(number, reason)
            case Records(lines=lines):
                await self._keep_all(self._of_records(lines), lines[0].number)
            case Request(line=line):
                await self._keep_all(self._of_request(lot), line.number)
            case _:
                assert_never(lot)

    def _reject(self, number: int | None, *reasons: str) -> None:
        where = self._name if number is None else f"{self._name}, line {number}"
        self._counts.reject(where, reasons, self._say)

    # From a file to rows

    def _of_request(self, request: Request) -> "Sequence[SpanRow]":
        from palaver.traces.ingest import TraceRequest, ingest_request
        from palaver.traces.otlp import MEDIA_TYPES, RequestLimits

        number, body = request.line
        kind = MEDIA_TYPES[request.form]
        try:
            sent = TraceRequest(project=self._project, body=body, media_type=kind, received_at=_now())
            taken = ingest_request(sent, self._redact, RequestLimits(wire=LONGEST))
        except PalaverError as error:  # As a server would refuse it.
            self._reject(number, error.message)
            return []
        self._reject(number, *map(str, taken.rejected))
        return taken.rows

    def _of_records(self, lines: Sequence[Line]) -> "Sequence[SpanRow]":
        from palaver.traces.ingest import build_rows

        rows: list[SpanRow] = []
        for line in lines:
            read = _record(line, self._project)
            if isinstance(read, str):
                self._reject(line.number, read)
            elif made := build_rows([read], self._redact):
                rows += made
            else:
                self._reject(line.number, "it could not be read")
        return rows

    # Keeping them

    async def _keep_all(self, rows: "Sequence[SpanRow]", number: int | None) -> None:
        """Keep them, some at a time: a server on the same database wants its turn."""
        for first in range(0, len(rows), _TOGETHER):
            await self._keep(rows[first : first + _TOGETHER], number)

    async def _keep(self, rows: "Sequence[SpanRow]", number: int | None) -> None:
        """Keep all but those that cannot be."""
        from palaver.storage.spans import writes as spans

        try:
            added = await self._database.write(spans.insert_spans, rows, today=_now().date())
        except PalaverError:
            raise  # Of all: a full disk, say.
        except Exception:
            if len(rows) == 1:
                self._reject(number, f"the span {rows[0].span_id} could not be kept")
                return
            half = len(rows) // 2
            await self._keep(rows[:half], number)
            await self._keep(rows[half:], number)
            return
        counts = self._counts
        counts.new, counts.replaced = counts.new + added.new, counts.replaced + added.replaced
        counts.unchanged += added.ignored


def _now() -> datetime:
    return datetime.now(UTC)


def _record(line: Line, project: str) -> "Span | str":
    """The record on a line, or why it is none."""
    from palaver.traces.model import Span

    if len(line.text) > _LARGEST:
        return f"it has more than {_LARGEST} bytes"
    try:
        span = msgspec.json.decode(line.text, type=Span)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        return f"it is no record: {error}"
    return next(_faults(span), None) or msgspec.structs.replace(span, project=project)


def _faults(span: "Span") -> Iterator[str]:
    if not _TRACE.fullmatch(span.trace_id):
        yield "trace_id is not 32 hexadecimal digits"
    if not _SPAN.fullmatch(span.span_id) or (span.parent_id and not _SPAN.fullmatch(span.parent_id)):
        yield "span_id or parent_id is not 16 hexadecimal digits"
    if span.start.tzinfo is None or not _EARLIEST <= span.start <= _LATEST:
        yield "start is no time with a zone, from 1970 on"
    if not 0 <= span.duration_ms <= _LONGEST_MS:
        yield "duration_ms is negative, or too large"
