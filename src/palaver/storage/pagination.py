"""Keyset pagination with opaque cursors.

A cursor holds the sort key of the last row of a page, so inserted or deleted rows do not make others repeat or
disappear. It is bound to the project and filters of its list. It needs no secret: the project is always the
caller's, and its values are only used in comparisons.
"""

import base64
import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar, cast

import msgspec
from sqlalchemy import ColumnElement, Connection, Integer, Select, String, column, literal, tuple_
from sqlalchemy.engine import Row

from palaver.errors import InvalidValue
from palaver.storage.schema import UtcTimestamp

T = TypeVar("T")
U = TypeVar("U")
Order = Literal["newest", "oldest"]
"""Descending or ascending by the columns of the sort key."""

_CHECKSUM_BYTES = 12
_MAX_CURSOR_LENGTH = 1_000
_INT64_RANGE = range(-(1 << 63), 1 << 63)
_decode_key = msgspec.json.Decoder(list[int | str]).decode


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A page of rows; `next` is the cursor of the one after it, null on the last."""

    data: list[T]
    next: str | None = None

    def map(self, convert: Callable[[T], U]) -> "Page[U]":
        return Page([convert(row) for row in self.data], self.next)


class Window(msgspec.Struct, frozen=True):
    limit: int = 50
    after: str | None = None
    """A cursor; None for the first page."""


FIRST_PAGE = Window()


def fetch_page(
    db: Connection,
    query: Select[Any],
    convert: Callable[[Row[Any]], T],
    *,
    project: str,
    by: Sequence[ColumnElement[Any]],
    window: Window = FIRST_PAGE,
    filters: Mapping[str, Any] | None = None,
    order: Order = "newest",
) -> Page[T]:
    """Return one page of what `query` selects.

    `by` is the sort key: columns that are never null, the last of them unique. An index should start with the project
    and these columns. A cursor is only valid for the `filters` it was created with.
    """
    scope = _cursor_scope(project, filters, order, by)
    # Appended under their own names: the query may select these columns under other names, or not at all.
    query = query.add_columns(*(column.label(f"by_{index}") for index, column in enumerate(by)))
    query = query.order_by(*((column.desc() if order == "newest" else column.asc()) for column in by))
    if window.after is not None:
        values = _decode_cursor(window.after, scope, by)
        key = tuple_(*by)
        last_key = tuple_(*(literal(value, column.type) for value, column in zip(values, by, strict=True)))
        query = query.where(key < last_key if order == "newest" else key > last_key)
    rows = db.execute(query.limit(window.limit + 1)).all()
    page_rows = rows[: window.limit]
    has_more = len(rows) > window.limit
    return Page(
        [convert(row) for row in page_rows], _encode_cursor(page_rows[-1][-len(by) :], scope, by) if has_more else None
    )


def decode_cursor(
    window: Window,
    *,
    project: str,
    by: Sequence[ColumnElement[Any]],
    filters: Mapping[str, Any] | None = None,
    order: Order = "newest",
) -> list[Any] | None:
    """Return the sort key after which the page of a window starts; None for the first page."""
    return (
        None if window.after is None else _decode_cursor(window.after, _cursor_scope(project, filters, order, by), by)
    )


def encode_cursor(
    values: Sequence[Any],
    *,
    project: str,
    by: Sequence[ColumnElement[Any]],
    filters: Mapping[str, Any] | None = None,
    order: Order = "newest",
) -> str:
    """Return the cursor for the page after a sort key."""
    return _encode_cursor(values, _cursor_scope(project, filters, order, by), by)


def _cursor_scope(
    project: str, filters: Mapping[str, Any] | None, order: Order, by: Sequence[ColumnElement[Any]]
) -> tuple[Any, ...]:
    return (project, dict(filters or {}), order, [f"{column.key}" for column in by])


def paginate_by_name(
    rows: Iterable[T],
    name: Callable[[T], str],
    *,
    project: str,
    window: Window = FIRST_PAGE,
    filters: Mapping[str, Any] | None = None,
) -> Page[T]:
    """Return one page of values in memory, sorted by their unique names."""
    return paginate_sorted(sorted(rows, key=name), name, project=project, window=window, filters=filters)


def paginate_sorted(
    rows: Sequence[T],
    name: Callable[[T], str],
    *,
    project: str,
    window: Window = FIRST_PAGE,
    filters: Mapping[str, Any] | None = None,
) -> Page[T]:
    """Return one page of values that are sorted by name already."""
    scope, by = (project, dict(filters or {}), "oldest", ["name"]), [column("name", String)]
    after = "" if window.after is None else _decode_cursor(window.after, scope, by)[0]
    first = bisect_right(rows, after, key=name)
    page_rows = list(rows[first : first + window.limit])
    has_more = len(rows) > first + window.limit
    return Page(page_rows, _encode_cursor([name(page_rows[-1])], scope, by) if has_more else None)


# Cursors


def _encode_cursor(values: Sequence[Any], scope: object, by: Sequence[ColumnElement[Any]]) -> str:
    key = msgspec.json.encode([_to_plain(value, column) for value, column in zip(values, by, strict=True)])
    return base64.urlsafe_b64encode(_checksum(key, scope) + key).rstrip(b"=").decode()


def _decode_cursor(cursor: str, scope: object, by: Sequence[ColumnElement[Any]]) -> list[Any]:
    if len(cursor) > _MAX_CURSOR_LENGTH or not cursor.isascii():
        raise _invalid_cursor()
    try:
        decoded = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        checksum, key = decoded[:_CHECKSUM_BYTES], decoded[_CHECKSUM_BYTES:]
        values = _decode_key(key)
    except (ValueError, msgspec.MsgspecError):
        raise _invalid_cursor() from None
    if checksum != _checksum(key, scope) or len(values) != len(by):
        raise _invalid_cursor()
    return [_to_typed(value, column) for value, column in zip(values, by, strict=True)]


def _checksum(key: bytes, scope: object) -> bytes:
    text = msgspec.json.encode(scope, order="sorted")
    return hashlib.blake2b(key, digest_size=_CHECKSUM_BYTES, key=hashlib.sha256(text).digest()).digest()


def _to_plain(value: Any, column: ColumnElement[Any]) -> int | str:
    kind = column.type
    return cast("int", kind.process_bind_param(value, cast("Any", None))) if isinstance(kind, UtcTimestamp) else value


def _to_typed(value: int | str, column: ColumnElement[Any]) -> Any:
    """Convert a value of a cursor to the type of its column. The checksum does not protect against forgery."""
    kind = column.type
    expected = int if isinstance(kind, UtcTimestamp | Integer) else str
    if type(value) is not expected or (type(value) is int and value not in _INT64_RANGE) or "\0" in str(value):
        raise _invalid_cursor()
    try:
        return (
            kind.process_result_value(cast("int", value), cast("Any", None))
            if isinstance(kind, UtcTimestamp)
            else value
        )
    except OverflowError:
        raise _invalid_cursor() from None


def _invalid_cursor() -> InvalidValue:
    return InvalidValue("Invalid cursor: malformed, or for another list. Start again without it.", pointer="?after")
