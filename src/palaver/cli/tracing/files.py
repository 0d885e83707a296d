"""Files of spans, read a piece at a time: records or OTLP as lines of JSON, OTLP as one JSON document or as protobuf.

Any of them may be packed with gzip. What a file is shows in its first bytes; its name does not matter.
"""

import gzip
import io
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Literal, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

from palaver.errors import InvalidBody, TooLarge

LONGEST = 64 * 1024 * 1024
"""Bytes of one line, or of a file that is one request."""
RECORDS = 500
"""Records that are handed on together,"""
RECORDS_BYTES = 4 * 1024 * 1024
"""or so many bytes of them."""

_Buffered: TypeAlias = "io.BufferedReader[io.RawIOBase]"
_GZIP = b"\x1f\x8b"
_BLANK = b" \t\r\n"
_MARK = b"\xef\xbb\xbf"  # Some editors begin a UTF-8 file with it.


class Line(NamedTuple):
    """A line, counted from 1; None: the whole file."""

    number: int | None
    text: bytes


class Records(NamedTuple):
    """Lines of which each is a record."""

    lines: list[Line]


class Request(NamedTuple):
    """A request for /v1/traces."""

    line: Line
    form: Literal["json", "protobuf"]


class Fault(NamedTuple):
    """A line that is neither, and why."""

    number: int | None
    reason: str
    is_json: bool = False


Lot = Records | Request | Fault


class _Shape(msgspec.Struct):
    """As much of an object as tells what it is."""

    request: Raw | UnsetType = msgspec.field(default=UNSET, name="resourceSpans")
    trace_id: Raw | UnsetType = UNSET


_shape = msgspec.json.Decoder(_Shape).decode


def lots(given: BinaryIO, name: str) -> Iterator[Lot]:
    """What a file holds, in its order."""
    stream = io.BufferedReader(cast("io.RawIOBase", given))
    try:
        if stream.peek(2)[:2] == _GZIP:
            yield from _unpacked(stream, name)
        else:
            yield from _lots(stream, name)
    finally:
        stream.detach()  # Else it would be closed with us, standard input too.


def _unpacked(stream: _Buffered, name: str) -> Iterator[Lot]:
    with gzip.GzipFile(fileobj=stream) as inner:
        try:
            yield from _lots(io.BufferedReader(cast("io.RawIOBase", inner)), name)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InvalidBody(f"{name} is damaged gzip: {error}. What came before it was read.") from None


def _lots(stream: _Buffered, name: str) -> Iterator[Lot]:
    head = stream.peek(64)[:64]
    if not head:
        return
    if head.removeprefix(_MARK).lstrip(_BLANK)[:1] == b"{":
        yield from _gathered(_lines(stream, name))
        return
    body = _rest(stream, b"", name)
    if not body.strip(_BLANK):
        return
    if b"\x12" not in body:  # The tag of a scope's spans: without it there are none, and mostly it is a file of text.
        raise InvalidBody(f"{name} holds no spans: give what palaver trace export writes, or OTLP.")
    yield Request(Line(None, body), "protobuf")


def _rest(stream: _Buffered, begun: bytes, name: str) -> bytes:
    body = begun + stream.read(LONGEST + 1 - len(begun))
    if len(body) > LONGEST:
        raise TooLarge(f"{name} is one document of more than {LONGEST} bytes: only files of lines may be larger.")
    return body


def _lines(stream: _Buffered, name: str) -> Iterator[Line | Fault]:
    """The lines of a file; all of it, where the first is no whole value but the file is."""
    for number, line in _numbered(stream):
        if isinstance(line, Line) and number == 1 and not _is_json(line.text):
            body = _rest(stream, line.text, name)
            if _is_json(body) or not _has_lines(body):
                yield Line(None, body)
            else:
                yield from (Line(place, text) for place, text in enumerate(body.split(b"\n"), 1))
            return
        yield line


def _numbered(stream: _Buffered) -> Iterator[tuple[int, Line | Fault]]:
    """Lines and their numbers. One that is too long is left out."""
    said = 0
    number = 0
    while text := stream.readline(LONGEST + 1):
        number += 1
        if number == 1:
            text = text.removeprefix(_MARK)
        if len(text) > LONGEST:
            while text and not text.endswith(b"\n"):
                text = stream.readline(LONGEST)
            yield 0, Fault(number, f"it has more than {LONGEST} bytes")
        elif text.strip(_BLANK):
            said += 1
            yield said, Line(number, text)


def _has_lines(body: bytes) -> bool:
    """Were these meant as lines, though the first is broken?"""
    return any(map(_is_json, body.split(b"\n", 10)[1:10]))


def _is_json(text: bytes) -> bool:
    kind = _kind(Line(None, text))
    return kind.is_json if isinstance(kind, Fault) else True


def _gathered(lines: Iterator[Line | Fault]) -> Iterator[Lot]:
    """Records together, requests each by itself."""
    records: list[Line] = []
    size = 0
    for line in lines:
        kind = line if isinstance(line, Fault) else _kind(line) if line.text.strip(_BLANK) else None
        if kind == "record" and isinstance(line, Line):
            records.append(line)
            size += len(line.text)
        if records and (kind != "record" or len(records) >= RECORDS or size >= RECORDS_BYTES):
            yield Records(records)
            records, size = [], 0
        if isinstance(kind, Fault):
            yield kind
        elif kind == "request" and isinstance(line, Line):
            yield Request(line, "json")
    if records:
        yield Records(records)


def _kind(line: Line) -> Literal["record", "request"] | Fault:
    try:
        shape = _shape(line.text)
    except RecursionError:
        return Fault(line.number, "it is nested too deep")
    except msgspec.ValidationError:
        return Fault(line.number, "it is no JSON object", is_json=True)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Fault(line.number, f"it is not JSON: {str(error).removeprefix('JSON is malformed: ')}")
    if shape.request is not UNSET:
        return "request"
    if shape.trace_id is not UNSET:
        return "record"
    reason = "it is neither a record, with trace_id, nor OTLP, with resourceSpans"
    return Fault(line.number, reason, is_json=True)
