"""Importing a file into a test set, as it comes: nothing is held, and nothing is seen before the commit at the end."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec
from sqlalchemy import Connection

from palaver.errors import InvalidValue
from palaver.storage.database import Database
from palaver.storage.testsets import keeping as testsets
from palaver.storage.testsets import pieces as testset_pieces
from palaver.storage.testsets import revisions as testset_revisions
from palaver.storage.testsets.keeping import TestSet
from palaver.storage.testsets.pieces import Place
from palaver.testsets import reading
from palaver.testsets.files.values import Reader
from palaver.testsets.gathering import NewId, cut_anew, entries_of, joined, last_piece, new_id
from palaver.testsets.keeping import Prepared
from palaver.testsets.limits import LIMITS, Limits
from palaver.testsets.rows import row_id
from palaver.testsets.staging import BATCH, Staging
from palaver.testsets.taking import BY_ID, Appended, Batch, Counts, Replacing, Taking, Upserting, keys_by_id, keys_of

Mode = Literal["append", "replace", "upsert"]
_CHUNK = 256 * 1024
"""Bytes that are read in one go: each goes to another thread and back."""
_SILENT = 30.0
"""Seconds after which an import says that it is still at work, although there is nothing to write."""


class Into(msgspec.Struct, frozen=True, kw_only=True):
    """Where rows go, and how."""

    testset: str
    """The id of a set, or the one that a new set will have."""
    is_new: bool = False
    mode: Mode = "append"
    key: str | None = None
    """Of an upsert: the column that rows are known by, or `__id__`."""

    def check(self) -> None:
        """Raise for what does not go together."""
        if (self.mode == "upsert") != (self.key is not None):
            raise InvalidValue("An upsert needs a key, and nothing else has one.", pointer="?key")


class Imported(NamedTuple):
    """All that there was, ready to be committed."""

    prepared: Prepared
    counts: Counts
    wrapped: int


@asynccontextmanager
async def imported(
    database: Database,
    project: str,
    into: Into,
    reader: Reader,
    chunks: AsyncIterable[bytes],
    *,
    now: Callable[[], datetime],
    limits: Limits = LIMITS,
    new: NewId = new_id,
) -> AsyncGenerator[Imported]:
    """A file, taken as a whole. What is not committed inside the block is gone after it."""
    into.check()
    base = None if into.is_new else await database.read(testsets.get, project, into.testset)
    async with Staging(database, project, into.testset, now) as staging:
        joining, before = await _joining(database, project, into, base, limits, new)
        taking = Taking(reader, joining, limits, batch=BATCH)
        await _bring(staging, taking, chunks)
        if isinstance(joining, Upserting):
            entries = bytes(joining.entries)
            gathered = await database.read(cut_anew, project, into.testset, entries, {}, limits)
        else:
            if isinstance(joining, Appended) and joining.brought and base is not None:
                await database.read(_check_new, project, base, joining.brought)
            gathered = await database.read(joined, project, into.testset, before, joining.pieces(), limits)
        head = None if base is None else base.head
        prepared = Prepared(base=head, gathered=gathered, brought_by=staging.own)
        yield Imported(prepared, joining.counts, reader.report.wrapped)


async def _joining(
    database: Database, project: str, into: Into, base: TestSet | None, limits: Limits, new: NewId
) -> tuple[Appended | Replacing | Upserting, list[Place]]:
    """How rows become rows of the set, and the pieces of it that stay as they are."""
    if base is None:
        return Appended(limits, new), []
    if into.mode == "append":
        places = await database.read(testset_revisions.places, project, base.id, base.head)
        last = await database.read(last_piece, project, base.id, places)
        return Appended(limits, new, last), places if last is None else places[:-1]
    entries = await database.read(entries_of, project, base.id, base.head)
    if into.mode == "replace":
        return Replacing(limits, new, entries), []
    key = into.key or BY_ID
    if key == BY_ID:
        return Upserting(new, key, entries, keys_by_id(entries)), []
    revision = await database.read(testset_revisions.get, project, base.id, "head", base.head)
    keys: dict[bytes, int] = {}
    async for rows in reading.every(database, project, revision):
        keys_of([(row.place, row.data) for row in rows], key, keys)
    return Upserting(new, key, entries, keys), []


def _check_new(db: Connection, project: str, base: TestSet, brought: set[bytes]) -> None:
    for packed, _ in testset_pieces.split(entries_of(db, project, base.id, base.head)):
        if packed in brought:
            told = f"The set has the row {row_id(packed)} already: import with mode=upsert and key={BY_ID}."
            raise InvalidValue(told, pointer="?mode")


# Bringing it in


async def _bring(staging: Staging, taking: Taking, chunks: AsyncIterable[bytes]) -> None:
    """Read on while what was read before is written."""
    writing: asyncio.Task[None] | None = None
    since = time.monotonic()
    try:
        async for chunk in _larger(chunks):
            batch = await asyncio.to_thread(taking.feed, chunk)
            if batch is None and time.monotonic() - since < _SILENT:
                continue
            if writing is not None:
                await writing
            writing = asyncio.ensure_future(_put(staging, batch))
            since = time.monotonic()
        ending = taking.end()
        while (batch := await asyncio.to_thread(next, ending, None)) is not None:
            if writing is not None:
                await writing
            writing = asyncio.ensure_future(_put(staging, batch))
        if writing is not None:
            await writing
    finally:
        if writing is not None and not writing.done():
            await asyncio.gather(writing, return_exceptions=True)


async def _put(staging: Staging, batch: Batch | None) -> None:
    given = batch or Batch({}, {})
    await staging.put(given.contents, given.metas)


async def _larger(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    """Fewer and larger ones."""
    waiting: list[bytes] = []
    size = 0
    async for chunk in chunks:
        waiting.append(chunk)
        size += len(chunk)
        if size >= _CHUNK:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)
