"""What a reader of files gives, and JSON as it stands in one: decoded, within its limits, or refused with its line."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, cast

import msgspec

from palaver.core import jsons
from palaver.core.recognition import dialect_of
from palaver.errors import InvalidValue
from palaver.testsets.files import names
from palaver.testsets.limits import Limits

_decode = msgspec.json.Decoder().decode


class Read(msgspec.Struct, frozen=True, gc=False):
    """A row of a file."""

    data: dict[str, Any]
    meta: dict[str, Any] | None = None
    line: int = 0
    """Where it begins, counted from 1; in Parquet, which row it is."""


class Report:
    """What a reader can tell besides the rows; true once it has ended."""

    def __init__(self) -> None:
        self.rows = 0
        self.wrapped = 0
        """Values that were no objects, and became `{"messages": …}` or `{"value": …}`."""
        self.bytes = 0
        self.columns: list[str] | None = None
        """What the file itself calls its columns, where it says."""
        self.delimiter: str | None = None


class Reader(Protocol):
    """Reads one file: bytes as they come, cut anywhere; rows as soon as they are whole."""

    report: Report

    def feed(self, chunk: bytes) -> Sequence[Read]:
        """The rows that are known to be whole now."""
        ...

    def end(self) -> Iterable[Read]:
        """The rest."""
        ...


def wrong(line: int, message: str) -> InvalidValue:
    """What is wrong with a file, and in which line."""
    return InvalidValue(f"Line {line}: {message}", pointer=f"/lines/{line}", details={"line": line})


def decoded(text: bytes, line: int) -> Any:
    """The value of a JSON text."""
    try:
        return _decode(text)
    except RecursionError:
        raise _too_deep(line) from None
    except UnicodeError:
        raise wrong(line, "this is not UTF-8.") from None
    except msgspec.MsgspecError as error:
        reason = str(error).removeprefix("JSON is malformed: ")
        if _has_lone_surrogate(text):
            reason = "a string holds half of a surrogate pair, which no UTF-8 can"
        raise wrong(line, f"this is not JSON that we read: {reason[:1].lower()}{reason[1:]}.") from None


def row(value: Any, text: bytes, line: int, report: Report, limits: Limits) -> Read:
    """The row that a value in a file is. `text` is what it was read from."""
    if type(value) is not dict:
        value = {"messages" if dialect_of(value) is not None else "value": value}
        report.wrapped += 1
    fields = cast("dict[str, Any]", value)
    report.rows += 1
    limits.check_rows(report.rows)
    check(fields, text, line, limits)
    if b"__" not in text:
        return Read(fields, None, line)
    data, meta = names.parted(fields)
    return Read(data, meta, line)


def check(fields: dict[str, Any], text: bytes, line: int, limits: Limits) -> None:
    """Is it small enough, and not too deep? Its text tells of most without a look."""
    if len(text) > limits.row:
        limits.check_row(len(jsons.encode(fields)), f"Line {line}")
    if len(text) > 2 * jsons.DEEPEST and text.count(b"[") + text.count(b"{") > jsons.DEEPEST:
        check_depth(fields, line)


def check_depth(fields: dict[str, Any], line: int) -> None:
    """Is each cell no deeper than what we read from anybody?"""
    level: list[Any] = list(fields.values())
    for _ in range(jsons.DEEPEST):
        level = [inner for item in level for inner in _inside(item)]
    if any(isinstance(item, dict | list) for item in level):
        raise _too_deep(line)


def _inside(item: Any) -> Iterable[Any]:
    if isinstance(item, dict):
        return cast("dict[str, Any]", item).values()
    return cast("list[Any]", item) if isinstance(item, list) else ()


def _too_deep(line: int) -> InvalidValue:
    return wrong(line, f"a value is nested deeper than {jsons.DEEPEST} levels.")


def _has_lone_surrogate(text: bytes) -> bool:
    lowered = text.lower()
    return any(
        mark in lowered for mark in (b"\\ud8", b"\\ud9", b"\\uda", b"\\udb", b"\\udc", b"\\udd", b"\\ude", b"\\udf")
    )
