"""Pages: a long list, a piece at a time.

A cursor says after which row the next piece begins. It is bound to the project and the filter of the list that gave it,
and to nothing else: what was added or removed meanwhile neither repeats a row nor hides one. Nobody needs to trust it:
the project is always the caller's own, and what the cursor brings is compared with, never run.
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
"""Which end comes first: that of the greatest values of the columns, or of the smallest."""

_CHECKSUM_BYTES = 12
"""Bytes of the checksum in front of a cursor."""
_MAX_CURSOR_LENGTH = 1_000
"""Characters of a cursor; ours are far shorter."""
_INT64_RANGE = range(-(1 << 63), 1 << 63)
_decode_key = msgspec.json.Decoder(list[int | str]).decode


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A page of rows; `next` is the cursor of the one after it, null on the last."""

    data: list[T]
    next: str | None = None

    def map(self, shown: Callable[[T], U]) -> "Page[U]":
        """The same page, each row as it is shown."""
        return Page([shown(row) for row in self.data], self.next)


class Window(msgspec.Struct, frozen=True):
    """Which piece of a list is wanted."""

    limit: int = 50
    after: str | None = None
    """A cursor; None: from the start."""


FIRST_PAGE = Window()


def fetch_page(
    db: Connection,
    query: Select[Any],
    read: Callable[[Row[Any]], T],
    *,
    project: str,
    by: Sequence[ColumnElement[Any]],
    window: Window = FIRST_PAGE,
    filters: Mapping[str, Any] | None = None,
    order: Order = "newest",
) -> Page[T]:
    """One page of what `query` selects.

    `by` are columns that are never null, the last of which tells all rows apart; an index should begin with the project
    and go on with them. `filters` is what else the list was asked for: a cursor fits those it was made with.
    """
    bound = _cursor_scope(project, filters, order, by)
    # The columns of the order come last in the row: a query may select them under names of its own, or not at all.
    query = query.add_columns(*(column.label(f"by_{place}") for place, column in enumerate(by)))
    query = query.order_by(*((column.desc() if order == "newest" else column.asc()) for column in by))
    if window.after is not None:
        values = _decode_cursor(window.after, bound, by)
        here = tuple_(*by)
        there = tuple_(*(literal(value, column.type) for value, column in zip(values, by, strict=True)))
        query = query.where(here < there if order == "newest" else here > there)
    rows = db.execute(query.limit(window.limit + 1)).all()
    shown = rows[: window.limit]
    more = len(rows) > window.limit
    return Page([read(row) for row in shown], _encode_cursor(shown[-1][-len(by) :], bound, by) if more else None)


def decode_cursor(
    window: Window,
    *,
    project: str,
    by: Sequence[ColumnElement[Any]],
    filters: Mapping[str, Any] | None = None,
    order: Order = "newest",
) -> list[Any] | None:
    """The values that the columns of the order have where a page of `page` begins; None: at the start."""
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
    """The cursor of the page that `begin` gives these values for."""
    return _encode_cursor(values, _cursor_scope(project, filters, order, by), by)


def _cursor_scope(
    project: str, filters: Mapping[str, Any] | None, order: Order, by: Sequence[ColumnElement[Any]]
) -> tuple[Any, ...]:
    """What a cursor is bound to."""
    return (project, dict(filters or {}), order, [f"{column.key}" for column in by])


def paginate_by_name(
    rows: Iterable[T],
    name: Callable[[T], str],
    *,
    project: str,
    window: Window = FIRST_PAGE,
    filters: Mapping[str, Any] | None = None,
) -> Page[T]:
    """One page of what is in memory, each under a name of its own, in the order of their names."""
    return paginate_sorted(sorted(rows, key=name), name, project=project, window=window, filters=filters)


def paginate_sorted(
    rows: Sequence[T],
    name: Callable[[T], str],
    *,
    project: str,
    window: Window = FIRST_PAGE,
    filters: Mapping[str, Any] | None = None,
) -> Page[T]:
    """The same of what is in the order of its names already: only what is shown is looked at."""
    bound, by = (project, dict(filters or {}), "oldest", ["name"]), [column("name", String)]
    after = "" if window.after is None else _decode_cursor(window.after, bound, by)[0]
    first = bisect_right(rows, after, key=name)
    shown = list(rows[first : first + window.limit])
    more = len(rows) > first + window.limit
    return Page(shown, _encode_cursor([name(shown[-1])], bound, by) if more else None)


# Cursors


def _encode_cursor(values: Sequence[Any], bound: object, by: Sequence[ColumnElement[Any]]) -> str:
    key = msgspec.json.encode([_to_plain(value, column) for value, column in zip(values, by, strict=True)])
    return base64.urlsafe_b64encode(_checksum(key, bound) + key).rstrip(b"=").decode()


def _decode_cursor(cursor: str, bound: object, by: Sequence[ColumnElement[Any]]) -> list[Any]:
    if len(cursor) > _MAX_CURSOR_LENGTH or not cursor.isascii():
        raise _invalid_cursor()
    try:
        whole = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        check, key = whole[:_CHECKSUM_BYTES], whole[_CHECKSUM_BYTES:]
        values = _decode_key(key)
    except (ValueError, msgspec.MsgspecError):
        raise _invalid_cursor() from None
    if check != _checksum(key, bound) or len(values) != len(by):
        raise _invalid_cursor()
    return [_to_typed(value, column) for value, column in zip(values, by, strict=True)]


def _checksum(key: bytes, bound: object) -> bytes:
    text = msgspec.json.encode(bound, order="sorted")
    return hashlib.blake2b(key, digest_size=_CHECKSUM_BYTES, key=hashlib.sha256(text).digest()).digest()


def _to_plain(value: Any, column: ColumnElement[Any]) -> int | str:
    kind = column.type
    return cast("int", kind.process_bind_param(value, cast("Any", None))) if isinstance(kind, UtcTimestamp) else value


def _to_typed(value: int | str, column: ColumnElement[Any]) -> Any:
    """The value, if the column can be compared with it: a checksum can be made by anybody who knows how."""
    kind = column.type
    wanted = int if isinstance(kind, UtcTimestamp | Integer) else str
    if type(value) is not wanted or (type(value) is int and value not in _INT64_RANGE) or "\0" in str(value):
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
    return InvalidValue("This cursor is damaged, or of another list: start again without it.", pointer="?after")
