"""Reading a revision: its rows page by page, one of them by its id, and what is long cut short.

A revision never changes, so that a cursor is a place in it. Pages without a search read only what they show; with one,
rows are looked at until the page is full or enough were looked at: then it is short, and the cursor goes on from there.
"""

import time
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Integer, column

from palaver.core import jsons
from palaver.errors import NotFound
from palaver.storage import pages
from palaver.storage.database import Database
from palaver.storage.pages import START, Page, Window
from palaver.storage.testsets import pieces as testset_pieces
from palaver.storage.testsets import revisions as testset_revisions
from palaver.storage.testsets import rows as testset_rows
from palaver.storage.testsets.pieces import ENTRY, ID
from palaver.storage.testsets.revisions import Revision
from palaver.testsets.finding import Wanted
from palaver.testsets.rows import packed_id, row_id

_decode = msgspec.json.Decoder().decode
_BY = (column("place", Integer),)
_ALL = Wanted()
LONGEST_CELL = 4 * 1024
"""Bytes of JSON of a cell that is shown whole in a page."""
_LARGEST_PAGE = 16 * 1024 * 1024
"""Bytes of the rows of one page."""
_SECONDS = 2.0
"""How long a search goes on for one page."""
_PIECES_AT_ONCE = 64
_ROWS_AT_ONCE = 100


class Found(NamedTuple):
    """A row of a revision."""

    place: int
    id: str
    hash: bytes
    raw: bytes
    """Its data, as JSON."""

    @property
    def data(self) -> dict[str, Any]:
        """Its data."""
        return _decode(self.raw)


def page(
    db: Connection,
    project: str,
    revision: Revision,
    wanted: Wanted = _ALL,
    window: Window = START,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Page[Found]:
    """A page of rows, in their order."""
    filters = {
        "testset": revision.testset,
        "revision": revision.number,
        "search": wanted.search,
        "cells": dict(wanted.cells),
    }
    bound: Any = {"project": project, "by": _BY, "filters": filters, "order": "oldest"}
    begun = pages.begin(window, **bound)
    shown: list[Found] = []
    read, until = 0, clock() + _SECONDS
    last = (begun[0] if begun else -1) if revision.rows else revision.rows
    for some in _stretches(db, project, revision, last + 1):
        for row in some:
            last = row.place
            if wanted.fits(row.raw):
                shown.append(row)
                read += len(row.raw)
            if len(shown) == window.limit or read > _LARGEST_PAGE:
                break
        if len(shown) == window.limit or read > _LARGEST_PAGE or clock() > until:
            break
    return Page(shown, pages.follow([last], **bound) if last + 1 < revision.rows else None)


def rows(db: Connection, project: str, revision: Revision, start: int, most: int) -> list[Found]:
    """So many rows from a place on, fewer only at the end: for whoever reads all of them, bit by bit."""
    shown: list[Found] = []
    for some in _stretches(db, project, revision, start):
        shown += some
        if len(shown) >= most:
            break
    return shown[:most]


async def every(database: Database, project: str, revision: Revision) -> AsyncGenerator[list[Found]]:
    """All rows in their order, some at a time, each time in a look of its own: nobody is kept waiting."""
    of, first = revision.testset, 0
    for place in await database.read(testset_revisions.places, project, of, revision.number):
        entries = (await database.read(testset_pieces.read, project, of, [place.digest]))[place.digest]
        for start in range(0, place.rows, _ROWS_AT_ONCE):
            some = entries[start * ENTRY : (start + _ROWS_AT_ONCE) * ENTRY]
            yield await database.read(found, project, of, some, first + start)
        first += place.rows


def found(db: Connection, project: str, testset: str, entries: bytes, first: int = 0) -> list[Found]:
    """The rows of a stretch of a revision's list, whose first one stands at that place."""
    pairs = list(testset_pieces.split(entries))
    raw = testset_rows.contents(db, project, testset, [hashed for _, hashed in pairs])
    return [Found(first + at, row_id(packed), hashed, raw[hashed]) for at, (packed, hashed) in enumerate(pairs)]


def row(db: Connection, project: str, revision: Revision, named: str) -> Found:
    """The row of that id."""
    missing = NotFound(f"The revision {revision.number} has no row {named[:80]!r}.")
    try:
        packed = packed_id(named)
    except ValueError:
        raise missing from None
    places = testset_revisions.places(db, project, revision.testset, revision.number)
    before = 0
    for start in range(0, len(places), _PIECES_AT_ONCE):
        some = places[start : start + _PIECES_AT_ONCE]
        data = testset_pieces.read(db, project, revision.testset, [place.digest for place in some])
        for place in some:
            at = _at(data[place.digest], packed)
            if at is not None:
                hashed = data[place.digest][at * ENTRY + ID : (at + 1) * ENTRY]
                raw = testset_rows.contents(db, project, revision.testset, [hashed])[hashed]
                return Found(before + at, named, hashed, raw)
            before += place.rows
    raise missing


def _at(entries: bytes, packed: bytes) -> int | None:
    """The place of a row in a piece."""
    found = entries.find(packed)
    while found >= 0 and found % ENTRY:  # The same bytes, by chance elsewhere.
        found = entries.find(packed, found + 1)
    return None if found < 0 else found // ENTRY


def _stretches(db: Connection, project: str, revision: Revision, start: int) -> Iterator[list[Found]]:
    """All rows from a place on, some at once."""
    of, before = revision.testset, 0
    for place in testset_revisions.places(db, project, of, revision.number):
        if before + place.rows > start:
            entries = testset_pieces.read(db, project, of, [place.digest])[place.digest]
            for at in range(max(0, start - before), place.rows, _ROWS_AT_ONCE):
                some = entries[at * ENTRY : (at + _ROWS_AT_ONCE) * ENTRY]
                yield found(db, project, of, some, before + at)
        before += place.rows


# Cutting short


def shortened(data: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """The data with its long cells cut, and the bytes of JSON that each of those has."""
    cut: dict[str, int] = {}
    shown: dict[str, Any] = {}
    for name, value in data.items():
        size = len(jsons.encode(value)) if isinstance(value, str | list | dict) else 0
        if size > LONGEST_CELL:
            cut[name] = size
        shown[name] = _cut(value, LONGEST_CELL)[0] if name in cut else value
    return shown, cut


def _cut(value: Any, room: int) -> tuple[Any, int]:
    """As much of a value as there is room for, of the same shape: the beginning of a conversation is one, too."""
    size = len(jsons.encode(value))
    if size <= room:
        return value, size
    if isinstance(value, str):
        text = value.encode()[: max(0, room)].decode(errors="ignore")
        return text, room
    used, items = 2, value
    if isinstance(value, list):
        some: list[Any] = []
        for item in items:
            if used >= room:
                break
            part, size = _cut(item, room - used)
            some.append(part)
            used += size + 1
        return some, used
    if isinstance(value, dict):
        few: dict[str, Any] = {}
        for name, item in items.items():
            if used + len(name) >= room:
                break
            few[name], size = _cut(item, room - used - len(name))
            used += size + len(name) + 4
        return few, used
    return value, size
