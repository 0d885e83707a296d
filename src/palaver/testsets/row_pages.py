"""Rows of a revision: pages, filters, single rows, and truncated cells."""

import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast

import msgspec
from sqlalchemy import Connection, Integer, column

from palaver.core import json
from palaver.core.json import json_equal
from palaver.errors import InvalidValue, NotFound
from palaver.storage import pagination
from palaver.storage.database import Database
from palaver.storage.pagination import FIRST_PAGE, Page, Window
from palaver.storage.testsets import repository as testsets
from palaver.storage.testsets import row_chunks
from palaver.storage.testsets import rows as testset_rows
from palaver.storage.testsets.repository import Revision
from palaver.storage.testsets.row_chunks import ENTRY_BYTES, ID_BYTES
from palaver.testsets.rows import format_row_id, pack_row_id

_POINTER = "?filter"


class RowFilter(msgspec.Struct, frozen=True):
    """Conditions that a row must all meet."""

    search: str | None = None
    """Text to find in any cell, ignoring case. No wildcards."""
    cells: Mapping[str, Any] = {}
    """The required value by column. A missing cell equals nothing, not even null."""

    def matches(self, raw: bytes) -> bool:
        """Whether a row matches; `raw` is its data as JSON."""
        if self.search and not _may_contain(raw, self.search):
            return False
        if not self.search and not self.cells:
            return True
        data: dict[str, Any] = msgspec.json.decode(raw)
        if not all(name in data and json_equal(data[name], value) for name, value in self.cells.items()):
            return False
        return not self.search or _contains_text(data, self.search.casefold())


def parse_row_filter(text: str | None) -> Mapping[str, Any]:
    """Parse `topic=maths`, or a JSON object of several columns. Values that are not JSON are text."""
    if not text:
        return {}
    if text.startswith("{"):
        parsed = json.parse_or_text(text)
        if not isinstance(parsed, dict):
            raise InvalidValue(
                "Invalid filter: a filter that starts with { must be a JSON object of columns and values.",
                pointer=_POINTER,
            )
        return cast("dict[str, Any]", parsed)
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise InvalidValue('Invalid filter: use column=value or {"column": value}.', pointer=_POINTER)
    return {name: json.parse_or_text(value)}


def _may_contain(raw: bytes, needle: str) -> bool:
    """Check the raw bytes quickly, which rules out most rows without parsing them."""
    encoded = json.encode(needle)[1:-1]
    if needle.isascii() and raw.isascii():
        return encoded.lower() in raw.lower()
    return True


def _contains_text(data: Mapping[str, Any], needle: str) -> bool:
    return any(needle in text.casefold() for value in data.values() for text in _iterate_texts(value))


def _iterate_texts(value: Any) -> Iterator[str]:
    """Yield all text in a value, including keys and numbers; without recursion."""
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, list):
            stack += cast("list[Any]", item)
        elif isinstance(item, dict):
            fields = cast("dict[str, Any]", item)
            yield from fields
            stack += fields.values()
        else:
            yield json.encode(item).decode()


_decode = msgspec.json.Decoder().decode
_ORDER_COLUMNS = (column("place", Integer),)
_ALL_ROWS = RowFilter()
MAX_CELL_BYTES = 4 * 1024
"""Cells with more JSON than this are truncated in a page."""
_MAX_PAGE_BYTES = 16 * 1024 * 1024
_SEARCH_TIMEOUT_S = 2.0
_CHUNKS_PER_READ = 64
_ROWS_PER_READ = 100


class StoredRow(NamedTuple):
    position: int
    id: str
    hash: bytes
    raw: bytes
    """The data as JSON."""

    @property
    def data(self) -> dict[str, Any]:
        return _decode(self.raw)


def list_rows(
    db: Connection,
    project: str,
    revision: Revision,
    row_filter: RowFilter = _ALL_ROWS,
    window: Window = FIRST_PAGE,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Page[StoredRow]:
    """Return a page of matching rows, in order; fewer if the search takes too long."""
    filters = {
        "testset": revision.testset,
        "revision": revision.number,
        "search": row_filter.search,
        "cells": dict(row_filter.cells),
    }
    scope: Any = {"project": project, "by": _ORDER_COLUMNS, "filters": filters, "order": "oldest"}
    last_key = pagination.decode_cursor(window, **scope)
    page_rows: list[StoredRow] = []
    page_bytes, deadline = 0, clock() + _SEARCH_TIMEOUT_S
    position = (last_key[0] if last_key else -1) if revision.rows else revision.rows
    for batch in _row_batches(db, project, revision, position + 1):
        for row in batch:
            position = row.position
            if row_filter.matches(row.raw):
                page_rows.append(row)
                page_bytes += len(row.raw)
            if len(page_rows) == window.limit or page_bytes > _MAX_PAGE_BYTES:
                break
        if len(page_rows) == window.limit or page_bytes > _MAX_PAGE_BYTES or clock() > deadline:
            break
    return Page(page_rows, pagination.encode_cursor([position], **scope) if position + 1 < revision.rows else None)


def read_rows(db: Connection, project: str, revision: Revision, start: int, limit: int) -> list[StoredRow]:
    """Return at most `limit` rows from position `start` on."""
    collected: list[StoredRow] = []
    for batch in _row_batches(db, project, revision, start):
        collected += batch
        if len(collected) >= limit:
            break
    return collected[:limit]


async def iterate_rows(database: Database, project: str, revision: Revision) -> AsyncGenerator[list[StoredRow]]:
    """Yield all rows in order, in batches. Each batch is a separate read, so that other readers are not blocked."""
    testset, first_position = revision.testset, 0
    for ref in await database.read(testsets.list_chunks, project, testset, revision.number):
        entries = (await database.read(row_chunks.read_chunks, project, testset, [ref.digest]))[ref.digest]
        for start in range(0, ref.rows, _ROWS_PER_READ):
            batch = entries[start * ENTRY_BYTES : (start + _ROWS_PER_READ) * ENTRY_BYTES]
            yield await database.read(load_rows, project, testset, batch, first_position + start)
        first_position += ref.rows


def load_rows(db: Connection, project: str, testset: str, entries: bytes, first: int = 0) -> list[StoredRow]:
    """Load the rows of some entries of a revision; `first` is the position of the first one."""
    pairs = list(row_chunks.iter_entries(entries))
    raw = testset_rows.read_contents(db, project, testset, [digest for _, digest in pairs])
    return [
        StoredRow(first + index, format_row_id(packed), digest, raw[digest])
        for index, (packed, digest) in enumerate(pairs)
    ]


def get_row(db: Connection, project: str, revision: Revision, row_id: str) -> StoredRow:
    not_found = NotFound(f"Row {row_id[:80]!r} not found in revision {revision.number}.")
    try:
        packed = pack_row_id(row_id)
    except ValueError:
        raise not_found from None
    refs = testsets.list_chunks(db, project, revision.testset, revision.number)
    chunk_start = 0
    for start in range(0, len(refs), _CHUNKS_PER_READ):
        batch = refs[start : start + _CHUNKS_PER_READ]
        data = row_chunks.read_chunks(db, project, revision.testset, [ref.digest for ref in batch])
        for ref in batch:
            index = _position_in_chunk(data[ref.digest], packed)
            if index is not None:
                content_hash = data[ref.digest][index * ENTRY_BYTES + ID_BYTES : (index + 1) * ENTRY_BYTES]
                raw = testset_rows.read_contents(db, project, revision.testset, [content_hash])[content_hash]
                return StoredRow(chunk_start + index, row_id, content_hash, raw)
            chunk_start += ref.rows
    raise not_found


def _position_in_chunk(entries: bytes, packed: bytes) -> int | None:
    offset = entries.find(packed)
    while offset >= 0 and offset % ENTRY_BYTES:  # The same bytes by chance, across two entries.
        offset = entries.find(packed, offset + 1)
    return None if offset < 0 else offset // ENTRY_BYTES


def _row_batches(db: Connection, project: str, revision: Revision, start: int) -> Iterator[list[StoredRow]]:
    """Yield all rows from position `start` on, in batches."""
    testset, chunk_start = revision.testset, 0
    for ref in testsets.list_chunks(db, project, testset, revision.number):
        if chunk_start + ref.rows > start:
            entries = row_chunks.read_chunks(db, project, testset, [ref.digest])[ref.digest]
            for index in range(max(0, start - chunk_start), ref.rows, _ROWS_PER_READ):
                batch = entries[index * ENTRY_BYTES : (index + _ROWS_PER_READ) * ENTRY_BYTES]
                yield load_rows(db, project, testset, batch, chunk_start + index)
        chunk_start += ref.rows


# Shortening


def shorten_cells(data: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the data with long cells truncated, and the original size in bytes of each of those."""
    sizes: dict[str, int] = {}
    shortened: dict[str, Any] = {}
    for name, value in data.items():
        size = len(json.encode(value)) if isinstance(value, str | list | dict) else 0
        if size > MAX_CELL_BYTES:
            sizes[name] = size
        shortened[name] = _shorten(value, MAX_CELL_BYTES)[0] if name in sizes else value
    return shortened, sizes


def _shorten(value: Any, max_bytes: int) -> tuple[Any, int]:
    """Shorten a value to `max_bytes`, keeping its shape: the beginning of a conversation is a conversation."""
    size = len(json.encode(value))
    if size <= max_bytes:
        return value, size
    if isinstance(value, str):
        text = value.encode()[: max(0, max_bytes)].decode(errors="ignore")
        return text, max_bytes
    used, items = 2, value
    if isinstance(value, list):
        shortened: list[Any] = []
        for item in items:
            if used >= max_bytes:
                break
            part, size = _shorten(item, max_bytes - used)
            shortened.append(part)
            used += size + 1
        return shortened, used
    if isinstance(value, dict):
        fields: dict[str, Any] = {}
        for name, item in items.items():
            if used + len(name) >= max_bytes:
                break
            fields[name], size = _shorten(item, max_bytes - used - len(name))
            used += size + len(name) + 4
        return fields, used
    return value, size
