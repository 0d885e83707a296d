"""palaver trace import: read files of spans, in records or OTLP, and store them.

Files hold records or OTLP requests as lines of JSON, one OTLP request as JSON, or one as protobuf; each may be gzipped.
The format is recognized by the first bytes, not by the name.
"""

import asyncio
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple, TypeAlias, assert_never, cast

import click
import msgspec
from msgspec import UNSET, Raw, UnsetType

from palaver.cli.database import use_database
from palaver.cli.input_files import Printer, open_input, read_progress
from palaver.cli.options import db_option, project_option
from palaver.cli.output import echo
from palaver.errors import InvalidBody, PalaverError, TooLarge
from palaver.outbound import printable, printable_json

if TYPE_CHECKING:
    from palaver.storage.database import Database
    from palaver.storage.spans.writes import SpanRow
    from palaver.traces.model import Span


MAX_LINE_BYTES = 64 * 1024 * 1024
"""Maximum size of one line, or of a file that is one request."""
MAX_BATCH_RECORDS, MAX_BATCH_BYTES = 500, 4 * 1024 * 1024
"""Maximum number and size of records that are stored together."""

_Buffered: TypeAlias = "io.BufferedReader[io.RawIOBase]"
_GZIP_MAGIC = b"\x1f\x8b"
_BLANK = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"  # Written by some editors.


class FileLine(NamedTuple):
    """A line with its number from 1; None for a whole file."""

    number: int | None
    text: bytes


class RecordBatch(NamedTuple):
    lines: list[FileLine]


class OtlpRequest(NamedTuple):
    line: FileLine
    encoding: Literal["json", "protobuf"]


class LineFault(NamedTuple):
    """A line that is neither a record nor a request."""

    number: int | None
    reason: str
    is_json: bool = False


FileChunk = RecordBatch | OtlpRequest | LineFault


class _LineFields(msgspec.Struct):
    """The fields that distinguish records from requests."""

    request: Raw | UnsetType = msgspec.field(default=UNSET, name="resourceSpans")
    trace_id: Raw | UnsetType = UNSET


_decode_line_fields = msgspec.json.Decoder(_LineFields).decode


def read_chunks(file: BinaryIO, name: str) -> Iterator[FileChunk]:
    stream = io.BufferedReader(cast("io.RawIOBase", file))
    try:
        if stream.peek(2)[:2] == _GZIP_MAGIC:
            yield from _gunzip_chunks(stream, name)
        else:
            yield from _plain_chunks(stream, name)
    finally:
        stream.detach()  # So that the file, which may be standard input, is not closed.


def _gunzip_chunks(stream: _Buffered, name: str) -> Iterator[FileChunk]:
    with gzip.GzipFile(fileobj=stream) as unzipped:
        try:
            yield from _plain_chunks(io.BufferedReader(cast("io.RawIOBase", unzipped)), name)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InvalidBody(f"{name} is not valid gzip: {error}. The spans before the error were imported.") from None


def _plain_chunks(stream: _Buffered, name: str) -> Iterator[FileChunk]:
    head = stream.peek(64)[:64]
    if not head:
        return
    if head.removeprefix(_BOM).lstrip(_BLANK)[:1] == b"{":
        yield from _group_lines(_split_lines(stream, name))
        return
    body = _read_rest(stream, b"", name)
    if not body.strip(_BLANK):
        return
    if b"\x12" not in body:  # Without the tag of a scope's spans, it is probably a text file.
        raise InvalidBody(f"No spans found in {name}. Expected the output of `palaver trace export` or OTLP.")
    yield OtlpRequest(FileLine(None, body), "protobuf")


def _read_rest(stream: _Buffered, start: bytes, name: str) -> bytes:
    body = start + stream.read(MAX_LINE_BYTES + 1 - len(start))
    if len(body) > MAX_LINE_BYTES:
        raise TooLarge(f"{name} is larger than {MAX_LINE_BYTES:,} bytes. Only line-delimited files may be larger.")
    return body


def _split_lines(stream: _Buffered, name: str) -> Iterator[FileLine | LineFault]:
    """Yield the lines of a file, or all of it as one if only the whole is a JSON value."""
    for number, line in _number_lines(stream):
        if isinstance(line, FileLine) and number == 1 and not _is_json(line.text):
            body = _read_rest(stream, line.text, name)
            if _is_json(body) or not any(map(_is_json, body.split(b"\n", 10)[1:10])):
                yield FileLine(None, body)
            else:
                yield from (FileLine(number, text) for number, text in enumerate(body.split(b"\n"), 1))
            return
        yield line


def _number_lines(stream: _Buffered) -> Iterator[tuple[int, FileLine | LineFault]]:
    """Yield nonblank lines, each with its number among these. A line that is too long becomes a fault, with 0."""
    nonblank_count = 0
    number = 0
    while text := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if number == 1:
            text = text.removeprefix(_BOM)
        if len(text) > MAX_LINE_BYTES:
            while text and not text.endswith(b"\n"):
                text = stream.readline(MAX_LINE_BYTES)
            yield 0, LineFault(number, f"larger than {MAX_LINE_BYTES:,} bytes")
        elif text.strip(_BLANK):
            nonblank_count += 1
            yield nonblank_count, FileLine(number, text)


def _is_json(text: bytes) -> bool:
    kind = _line_kind(FileLine(None, text))
    return kind.is_json if isinstance(kind, LineFault) else True


def _group_lines(lines: Iterator[FileLine | LineFault]) -> Iterator[FileChunk]:
    """Group records; requests stay single."""
    records: list[FileLine] = []
    size = 0
    for line in lines:
        kind = line if isinstance(line, LineFault) else _line_kind(line) if line.text.strip(_BLANK) else None
        if kind == "record" and isinstance(line, FileLine):
            records.append(line)
            size += len(line.text)
        if records and (kind != "record" or len(records) >= MAX_BATCH_RECORDS or size >= MAX_BATCH_BYTES):
            yield RecordBatch(records)
            records, size = [], 0
        if isinstance(kind, LineFault):
            yield kind
        elif kind == "request" and isinstance(line, FileLine):
            yield OtlpRequest(line, "json")
    if records:
        yield RecordBatch(records)


def _line_kind(line: FileLine) -> Literal["record", "request"] | LineFault:
    try:
        fields = _decode_line_fields(line.text)
    except RecursionError:
        return LineFault(line.number, "nested too deeply")
    except msgspec.ValidationError:
        return LineFault(line.number, "not a JSON object", is_json=True)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return LineFault(line.number, f"not valid JSON: {str(error).removeprefix('JSON is malformed: ')}")
    if fields.request is not UNSET:
        return "request"
    if fields.trace_id is not UNSET:
        return "record"
    reason = "neither a span record (no 'trace_id') nor OTLP (no 'resourceSpans')"
    return LineFault(line.number, reason, is_json=True)


_now = partial(datetime.now, UTC)
_MAX_REASONS = 5
_TRANSACTION_SPANS = 500
_MAX_RECORD_BYTES = 32 * 1024 * 1024
"""Maximum size of a record: the attributes of a span, and the fields that were read from them."""
_TRACE_ID, _SPAN_ID = re.compile(r"(?!0{32})[0-9a-f]{32}"), re.compile(r"(?!0{16})[0-9a-f]{16}")
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2554, 7, 22, tzinfo=UTC)
_MAX_DURATION_MS = (_LATEST - _EARLIEST) / timedelta(milliseconds=1)
"""OTLP cannot express other times and durations."""


@click.command(name="import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
@project_option("traces")
@db_option
def import_traces(files: tuple[str, ...], as_json: bool, project: str, db: str | None) -> int:
    """Import spans from files; use - for standard input.

    Accepts the output of `palaver trace export` and OTLP (JSON lines, JSON or
    protobuf), each optionally gzipped. Existing spans are skipped unless the
    imported span ended later, so you can repeat an interrupted import.
    Redaction rules apply as they do to received spans.

    Exit code 1 means that some spans were rejected; standard error lists the
    reasons.

    \b
    Examples:
      palaver trace import week.jsonl
      palaver trace import collector/*.json.gz --project team-a
      zcat traces.jsonl.gz | palaver trace import -
    """
    counts = _ImportCounts()
    asyncio.run(_import(db, project, files, counts))
    if as_json:
        echo(printable_json(msgspec.json.encode(counts).decode()))
    else:
        echo(counts.summary())
    return 1 if counts.rejected else 0


@dataclass
class _ImportCounts:
    new: int = 0
    replaced: int = 0
    unchanged: int = 0
    rejected: int = 0
    reasons: list[str] = field(default_factory=list[str])

    def reject(self, location: str, reasons: Sequence[str], printer: Printer) -> None:
        """Count rejected spans, and print the first reasons."""
        for reason in reasons[: max(0, _MAX_REASONS - len(self.reasons))]:
            self.reasons.append(f"{location}: {printable(reason, 300)}")
            printer(f"error: Rejected {self.reasons[-1].rstrip('.')}.", err=True)
        self.rejected += len(reasons)

    def summary(self) -> str:
        existing_text = (f"{self.replaced:,} replaced, " if self.replaced else "") + f"{self.unchanged:,} unchanged"
        rejected_text = f", {self.rejected:,} rejected" if self.rejected else ""
        return f"{self.new:,} span{'s' * (self.new != 1)} imported, {existing_text}{rejected_text}."


async def _import(db: str | None, project: str, files: Sequence[str], counts: _ImportCounts) -> None:
    from palaver.discovery.registry import Registry
    from palaver.server.redaction import RedactionPolicy
    from palaver.server.settings import read_settings

    settings, _ = read_settings(env=os.environ, folder=Path.cwd())
    redaction = RedactionPolicy(settings, Registry([]))
    async with use_database(db) as database:
        await redaction.load_hash_key(database, _now)
        for name in files:
            display_name = "standard input" if name == "-" else printable(name)
            with open_input(name) as stream, read_progress(stream) as (input_stream, printer):
                importer = _FileImporter(display_name, project, database, redaction.redact_span, counts, printer)
                for chunk in read_chunks(input_stream, display_name):
                    await importer.store(chunk)


@dataclass(frozen=True)
class _FileImporter:
    name: str
    project: str
    database: "Database"
    redact: "Callable[[Span], Span]"
    counts: _ImportCounts
    printer: Printer

    async def store(self, chunk: FileChunk) -> None:
        """Store a chunk, and report the lines and spans that are rejected."""
        match chunk:
            case LineFault(number=number, reason=reason):
                self._reject(number, reason)
            case RecordBatch(lines=lines):
                await self._store_all(self._rows_from_records(lines), lines[0].number)
            case OtlpRequest(line=line):
                await self._store_all(self._rows_from_request(chunk), line.number)
            case _:
                assert_never(chunk)

    def _reject(self, number: int | None, *reasons: str) -> None:
        location = self.name if number is None else f"{self.name}, line {number}"
        self.counts.reject(location, reasons, self.printer)

    # Rows

    def _rows_from_request(self, request: OtlpRequest) -> "Sequence[SpanRow]":
        from palaver.traces.ingest import TraceRequest, ingest_request
        from palaver.traces.otlp import MEDIA_TYPES
        from palaver.traces.otlp.decompression import RequestLimits

        number, body = request.line
        media_type = MEDIA_TYPES[request.encoding]
        try:
            trace_request = TraceRequest(project=self.project, body=body, media_type=media_type, received_at=_now())
            result = ingest_request(trace_request, self.redact, RequestLimits(compressed_bytes=MAX_LINE_BYTES))
        except PalaverError as error:  # A server would reject it as well.
            self._reject(number, error.message)
            return []
        self._reject(number, *map(str, result.rejected))
        return result.rows

    def _rows_from_records(self, lines: Sequence[FileLine]) -> "Sequence[SpanRow]":
        from palaver.traces.ingest import build_rows

        rows: list[SpanRow] = []
        for line in lines:
            span = _parse_record(line, self.project)
            if isinstance(span, str):
                self._reject(line.number, span)
            elif span_rows := build_rows([span], self.redact):
                rows += span_rows
            else:
                self._reject(line.number, "failed to process the span")
        return rows

    # Storing

    async def _store_all(self, rows: "Sequence[SpanRow]", number: int | None) -> None:
        """Store rows in several transactions, so that a server on the same database is not blocked for long."""
        for start in range(0, len(rows), _TRANSACTION_SPANS):
            await self._store_rows(rows[start : start + _TRANSACTION_SPANS], number)

    async def _store_rows(self, rows: "Sequence[SpanRow]", number: int | None) -> None:
        """Store rows, rejecting by bisection those that can't be stored."""
        from palaver.storage.spans import writes as spans

        try:
            inserted = await self.database.write(spans.insert_spans, rows, today=_now().date())
        except PalaverError:
            raise  # Concerns all rows, e.g. a full disk.
        except Exception:
            if len(rows) == 1:
                self._reject(number, f"failed to store span {rows[0].span_id}")
                return
            half = len(rows) // 2
            await self._store_rows(rows[:half], number)
            await self._store_rows(rows[half:], number)
            return
        self.counts.new += inserted.new
        self.counts.replaced += inserted.replaced
        self.counts.unchanged += inserted.ignored


def _parse_record(line: FileLine, project: str) -> "Span | str":
    """Return the span on a line, or why it is invalid."""
    from palaver.traces.model import Span

    if len(line.text) > _MAX_RECORD_BYTES:
        return f"larger than {_MAX_RECORD_BYTES:,} bytes"
    try:
        span = msgspec.json.decode(line.text, type=Span)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        return f"not a valid span record: {error}"
    return next(_find_record_faults(span), None) or msgspec.structs.replace(span, project=project)


def _find_record_faults(span: "Span") -> Iterator[str]:
    if not _TRACE_ID.fullmatch(span.trace_id):
        yield "trace_id must be 32 hexadecimal digits"
    if not _SPAN_ID.fullmatch(span.span_id) or (span.parent_id and not _SPAN_ID.fullmatch(span.parent_id)):
        yield "span_id and parent_id must be 16 hexadecimal digits"
    if span.start.tzinfo is None or not _EARLIEST <= span.start <= _LATEST:
        yield "start must be a timestamp with a time zone, in 1970 or later"
    if not 0 <= span.duration_ms <= _MAX_DURATION_MS:
        yield "duration_ms is negative or too large"
