"""Interfaces and helpers that all file formats share."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal, Protocol, cast

import msgspec

from palaver.core import json
from palaver.core.dialects.detection import dialect_of
from palaver.errors import InvalidValue, UnsupportedMediaType
from palaver.testsets.limits import TestsetLimits

ID_COLUMN = "__id__"
META_COLUMNS = frozenset((ID_COLUMN, "__dedup_id__", "__flags__", "__tags__", "__meta__"))
EMPTY_COLUMN = "__empty__"
"""The single column of a file whose set has no columns."""
RESERVED_COLUMNS = META_COLUMNS | {EMPTY_COLUMN}

_encode_string = msgspec.json.Encoder().encode
_decode_string = msgspec.json.Decoder(str).decode


def json_literal(text: str) -> str:
    return _encode_string(text).decode()


def parse_json_literal(text: str) -> str | None:
    """Return the string if the whole text is a JSON string literal; None otherwise."""
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return None
    try:
        return _decode_string(text)
    except (msgspec.MsgspecError, UnicodeError):
        return None


def escape_name(name: str) -> str:
    return json_literal(name) if _is_reserved(name) else name


def unescape_name(name: str) -> str:
    inner = parse_json_literal(name)
    return inner if inner is not None and _is_reserved(inner) and json_literal(inner) == name else name


def split_meta(fields: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Split an object of a file into data and metadata."""
    meta = {name: value for name, value in fields.items() if name in META_COLUMNS}
    return {unescape_name(name): value for name, value in fields.items() if name not in META_COLUMNS}, meta or None


def merge_meta(data: Mapping[str, Any], meta: Mapping[str, Any]) -> dict[str, Any]:
    """The reverse of `split_meta`."""
    return {**meta, **{escape_name(name): value for name, value in data.items()}}


def _is_reserved(name: str) -> bool:
    while name not in RESERVED_COLUMNS:
        inner = parse_json_literal(name)
        if inner is None or json_literal(inner) != name:
            return False
        name = inner
    return True


Format = Literal["jsonl", "json", "csv", "parquet"]

MEDIA_TYPES: dict[Format, str] = {
    "jsonl": "application/x-ndjson",
    "json": "application/json",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
}

_FORMAT_BY_SUFFIX: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_FORMAT_BY_MEDIA_TYPE: dict[str, Format] = {
    **{media_type: name for name, media_type in MEDIA_TYPES.items()},
    "application/jsonl": "jsonl",
    "application/ndjson": "jsonl",
    "application/x-jsonlines": "jsonl",
    "application/csv": "csv",
    "text/tab-separated-values": "csv",
    "application/x-parquet": "parquet",
}
_SPREADSHEET_SUFFIXES = (".xlsx", ".xlsm", ".xls", ".ods")
_SPREADSHEET_TYPES = ("spreadsheet", "ms-excel")
SAVE_AS_CSV = (
    'Spreadsheets are not supported. Save the file as "CSV UTF-8" (in Excel: File > Save As) and import that file.'
)


def format_of(name: str) -> Format:
    """Return the format of a file name or media type. Raises UnsupportedMediaType."""
    normalized = name.partition(";")[0].strip().lower()
    if found := _FORMAT_BY_MEDIA_TYPE.get(normalized):
        return found
    suffix = PurePath(normalized).suffix
    if suffix in _SPREADSHEET_SUFFIXES or any(kind in normalized for kind in _SPREADSHEET_TYPES if "/" in normalized):
        raise UnsupportedMediaType(SAVE_AS_CSV)
    if found := _FORMAT_BY_SUFFIX.get(suffix):
        return found
    raise UnsupportedMediaType(
        f"Unsupported format {name[:80]!r}. Supported: .jsonl, .json, .csv and .parquet, or their media types."
    )


_decode = msgspec.json.Decoder().decode


class RowNumber(int):
    """The number of a row, from 1, in a format without lines. Errors then say "Row 5" instead of "Line 5"."""


class FileRow(msgspec.Struct, frozen=True, gc=False):
    data: dict[str, Any]
    meta: dict[str, Any] | None = None
    line: int = 0
    """The line in which the row begins, from 1; in Parquet, a `RowNumber`."""


class FileReport:
    """Counts and properties of a file; complete after the reader's `end`."""

    def __init__(self) -> None:
        self.rows = 0
        self.wrapped = 0
        """Values that were not objects and became `{"messages": …}` or `{"value": …}`."""
        self.bytes = 0
        self.columns: list[str] | None = None
        """The columns that the file declares, if it does."""
        self.delimiter: str | None = None


class RowReader(Protocol):
    """Reads one file from chunks of bytes that may be cut anywhere."""

    report: FileReport

    def feed(self, chunk: bytes) -> Sequence[FileRow]: ...

    def end(self) -> Iterable[FileRow]: ...


def describe_line(line: int) -> str:
    """Return the location of an error in a file, such as `Line 5`."""
    return f"{'Row' if isinstance(line, RowNumber) else 'Line'} {line}"


def line_error(line: int, message: str) -> InvalidValue:
    return InvalidValue(f"{describe_line(line)}: {message}", pointer=f"/lines/{line}", details={"line": int(line)})


def file_error(line: int, message: str) -> InvalidValue:
    """Return an error that concerns the whole file; only its details name the line."""
    return InvalidValue(message, pointer=f"/lines/{line}", details={"line": line})


def decode_json(text: bytes, line: int) -> Any:
    try:
        return _decode(text)
    except RecursionError:
        raise _too_deep(line) from None
    except UnicodeError:
        raise line_error(line, "not valid UTF-8.") from None
    except msgspec.MsgspecError as error:
        reason = str(error).removeprefix("JSON is malformed: ")
        if _has_lone_surrogate(text):
            reason = "a string contains an unpaired surrogate, which UTF-8 can't encode"
        raise line_error(line, f"invalid JSON: {reason[:1].lower()}{reason[1:]}.") from None


def make_file_row(value: Any, text: bytes, line: int, report: FileReport, limits: TestsetLimits) -> FileRow:
    """Make the row for a value of a file. `text` is its source."""
    if type(value) is not dict:
        value = {"messages" if dialect_of(value) is not None else "value": value}
        report.wrapped += 1
    fields = cast("dict[str, Any]", value)
    report.rows += 1
    limits.check_rows(report.rows)
    check_row(fields, text, line, limits)
    if b"__" not in text:
        return FileRow(fields, None, line)
    data, meta = split_meta(fields)
    return FileRow(data, meta, line)


def check_row(fields: dict[str, Any], text: bytes, line: int, limits: TestsetLimits) -> None:
    """Check size and depth. Most rows are cleared by the size of their text alone."""
    if len(text) > limits.row_bytes:
        limits.check_row(len(json.encode(fields)), describe_line(line))
    if len(text) > 2 * json.MAX_DEPTH and text.count(b"[") + text.count(b"{") > json.MAX_DEPTH:
        check_depth(fields, line)


def check_depth(fields: dict[str, Any], line: int) -> None:
    """Raise InvalidValue if a cell is nested deeper than JSON in requests may be."""
    level: list[Any] = list(fields.values())
    for _ in range(json.MAX_DEPTH):
        level = [inner for item in level for inner in _children(item)]
    if any(isinstance(item, dict | list) for item in level):
        raise _too_deep(line)


def _children(item: Any) -> Iterable[Any]:
    if isinstance(item, dict):
        return cast("dict[str, Any]", item).values()
    return cast("list[Any]", item) if isinstance(item, list) else ()


def _too_deep(line: int) -> InvalidValue:
    return line_error(line, f"a value is nested deeper than {json.MAX_DEPTH} levels.")


def _has_lone_surrogate(text: bytes) -> bool:
    lowered = text.lower()
    return any(
        escape in lowered for escape in (b"\\ud8", b"\\ud9", b"\\uda", b"\\udb", b"\\udc", b"\\udd", b"\\ude", b"\\udf")
    )


class RowWriter(Protocol):
    def begin(self) -> bytes:
        """Return the bytes before the first row."""
        ...

    def rows(self, rows: Iterable[FileRow]) -> bytes: ...

    def end(self) -> Iterator[bytes]:
        """Return the bytes after the last row."""
        ...


def object_encoder(
    columns: Sequence[str], meta: Sequence[str]
) -> Callable[[Iterable[FileRow]], Iterator[dict[str, Any]]]:
    """Return a function that turns rows into objects of a file: metadata first, then keys in column order."""
    order = {name: index for index, name in enumerate(columns)}
    can_copy = not meta and all("__" not in name for name in columns)

    def encode_rows(rows: Iterable[FileRow]) -> Iterator[dict[str, Any]]:
        for row in rows:
            data = order_columns(row.data, order)
            yield data if can_copy else merge_meta(data, select_meta(row, meta))

    return encode_rows


def select_meta(row: FileRow, meta: Sequence[str]) -> dict[str, Any]:
    values = row.meta or {}
    return {name: values[name] for name in meta if name in values}


def order_columns(data: dict[str, Any], order: Mapping[str, int]) -> dict[str, Any]:
    """Sort keys in column order; unknown keys come last."""
    positions = [order.get(name, len(order)) for name in data]
    if positions == sorted(positions):
        return data
    return {name: data[name] for name in sorted(data, key=lambda name: order.get(name, len(order)))}
