"""Files are stored once per project and content, and deleted with their last reference."""

import asyncio
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, select

from palaver.core.messages import File, Message
from palaver.errors import DiskFull
from palaver.storage import files
from palaver.storage.database import Database
from palaver.storage.files import CHUNK_BYTES, FileChunks, StoredFile
from palaver.storage.pagination import Window
from palaver.storage.tables import file_pieces
from palaver.storage.tables import files as table

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
GIB = 1024 * 1024 * 1024
LARGE_CONTENT = bytes(range(256)) * 8192 + b"end"  # Two chunks and three bytes.


def split(content: bytes) -> FileChunks:
    pieces = FileChunks()
    pieces.feed(content)
    return pieces


def stored_file(name: str, content: bytes, *, project: str = "default", at: datetime = NOON) -> StoredFile:
    return StoredFile(
        project=project,
        id=f"file_{name}",
        media_type="text/plain",
        filename=f"{name}.txt",
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        created_at=at,
    )


async def insert(database: Database, name: str, content: bytes, *, max_bytes: int = GIB, **fields: Any) -> StoredFile:
    file = stored_file(name, content, **fields)
    await database.write(files.insert_file, file, split(content).end()[0], max_total_bytes=max_bytes)
    return file


def messages_with_files(*names: str) -> list[Message]:
    return [Message.user(*(File("text/plain", file_id=name) for name in names))]


def list_file_pieces(db: Connection) -> list[tuple[str, str, int, int]]:
    """Return the rows of `file_pieces`, with the size of their data."""
    order = file_pieces.c.project, file_pieces.c.sha256, file_pieces.c.place
    return [
        (row.project, row.sha256, row.place, len(row.data)) for row in db.execute(select(file_pieces).order_by(*order))
    ]


@given(st.lists(st.integers(0, 3 * CHUNK_BYTES), max_size=5))
def test_chunks_have_one_size_and_join_to_the_content(sizes: list[int]) -> None:
    received = [bytes([index]) * size for index, size in enumerate(sizes)]
    pieces = FileChunks()
    for data in received:
        pieces.feed(data)
    content = b"".join(received)

    result, sha256 = pieces.end()

    assert b"".join(result) == content
    assert (pieces.bytes, sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert [len(piece) for piece in result[:-1]] == [CHUNK_BYTES] * (len(result) - 1)
    assert all(0 < len(piece) <= CHUNK_BYTES for piece in result)


async def test_stored_file_is_read_back_unchanged(database: Database) -> None:
    file = await insert(database, "a", LARGE_CONTENT)

    assert await database.read(files.get_file, "default", "file_a") == file
    assert await database.read(files.read_content, "default", "file_a") == LARGE_CONTENT
    assert [await database.read(files.read_chunk, "default", file.sha256, index) for index in range(4)] == [
        LARGE_CONTENT[:CHUNK_BYTES],
        LARGE_CONTENT[CHUNK_BYTES : 2 * CHUNK_BYTES],
        b"end",
        None,
    ]
    assert file.expires_at == NOON + timedelta(hours=24)


async def test_file_of_another_project_is_not_found(database: Database) -> None:
    file = await insert(database, "a", b"ours")

    assert await database.read(files.get_file, "team-b", "file_a") is None
    assert await database.read(files.read_content, "team-b", "file_a") is None
    assert await database.read(files.read_chunk, "team-b", file.sha256, 0) is None
    assert await database.read(files.find_files, "team-b", ["file_a"]) == {}
    assert (await database.read(files.list_files, "team-b")).data == []
    assert await database.write(files.delete_file, "team-b", "file_a") is False
    await database.write(files.add_run_references, "team-b", "run_1", messages_with_files("file_a"))
    assert await database.read(files.get_file, "default", "file_a") == file
    assert str(files.file_not_found("file_a", pointer="/x").message) == "File 'file_a' not found."


async def test_equal_content_is_stored_once_per_project(database: Database) -> None:
    first = await insert(database, "a", LARGE_CONTENT)
    await insert(database, "b", LARGE_CONTENT)
    await insert(database, "c", LARGE_CONTENT, project="team-b")

    sizes = [(index, size) for index, size in enumerate([CHUNK_BYTES, CHUNK_BYTES, 3])]
    assert await database.read(list_file_pieces) == [
        *(("default", first.sha256, *one) for one in sizes),
        *(("team-b", first.sha256, *one) for one in sizes),
    ]
    assert await database.read(files.total_bytes, "default") == len(LARGE_CONTENT)


async def test_shared_content_stays_until_the_last_file_is_deleted(database: Database) -> None:
    await insert(database, "a", LARGE_CONTENT)
    await insert(database, "b", LARGE_CONTENT)

    assert await database.write(files.delete_file, "default", "file_a") is True
    assert await database.write(files.delete_file, "default", "file_a") is False
    assert await database.read(files.read_content, "default", "file_a") is None
    assert await database.read(files.read_content, "default", "file_b") == LARGE_CONTENT
    assert await database.write(files.delete_file, "default", "file_b") is True
    assert await database.read(list_file_pieces) == []
    assert await database.read(files.total_bytes, "default") == 0


async def test_total_size_of_the_files_of_a_project_is_limited(database: Database) -> None:
    await insert(database, "a", b"12345", max_bytes=10)
    await insert(database, "b", b"67890", max_bytes=10)
    await insert(database, "c", b"12345", max_bytes=10)  # Stored already.
    await insert(database, "d", b"12345", max_bytes=10, project="team-b")

    with pytest.raises(DiskFull) as caught:
        await insert(database, "e", b"!", max_bytes=10)

    assert caught.value.message == "This file would exceed the project's limit of 10 bytes. Delete some files first."
    assert await database.read(files.get_file, "default", "file_e") is None
    await database.write(files.delete_file, "default", "file_b")
    await insert(database, "e", b"!", max_bytes=10)


async def test_files_are_listed_newest_first_by_pages(database: Database) -> None:
    for name in "abcde":
        await insert(database, name, name.encode())

    first = await database.read(files.list_files, "default", Window(limit=3))
    second = await database.read(files.list_files, "default", Window(limit=3, after=first.next))

    assert [[file.id[-1] for file in result.data] for result in (first, second)] == [["e", "d", "c"], ["b", "a"]]
    assert second.next is None


async def test_referenced_file_does_not_expire(database: Database) -> None:
    file = await insert(database, "a", b"named")
    await insert(database, "b", b"not named")

    await database.write(files.add_run_references, "default", "run_1", messages_with_files("file_a", "file_unknown"))

    used = msgspec.structs.replace(file, used=True)
    assert used.expires_at is None
    assert await database.read(files.find_files, "default", ["file_a", "file_b", "file_c"]) == {
        "file_a": used,
        "file_b": stored_file("b", b"not named"),
    }


async def test_old_unreferenced_files_are_deleted_in_batches(database: Database) -> None:
    later = NOON + timedelta(hours=1)
    await insert(database, "a", b"old and shared")
    await insert(database, "b", b"old")
    await insert(database, "c", b"old and named")
    await insert(database, "d", b"old and shared", at=later)
    await insert(database, "e", b"old", project="team-b")
    await database.write(files.add_run_references, "default", "run_1", messages_with_files("file_c"))

    deleted = [await database.write(files.delete_unused_files, later, limit=1) for _ in range(4)]

    assert deleted == [1, 1, 1, 0]
    remaining = await database.read(lambda db: sorted(db.scalars(select(table.c.id))))
    assert remaining == ["file_c", "file_d"]
    assert await database.read(files.read_content, "default", "file_d") == b"old and shared"
    assert len(await database.read(list_file_pieces)) == 2


async def test_concurrent_inserts_and_deletes_of_equal_content_lose_no_content(database: Database) -> None:
    async def insert_and_delete(number: int) -> None:
        for turn in range(6):
            name = f"{number}-{turn}"
            await insert(database, name, b"the same")
            if turn % 2:
                await database.write(files.delete_file, "default", f"file_{name}")

    await asyncio.gather(*(insert_and_delete(number) for number in range(6)))

    remaining = await database.read(files.list_files, "default")
    assert len(remaining.data) == 18
    assert {await database.read(files.read_content, "default", file.id) for file in remaining.data} == {b"the same"}
    for file in remaining.data:
        await database.write(files.delete_file, "default", file.id)
    assert await database.read(list_file_pieces) == []
