"""Files are kept whole, once for each project and content, and go when nothing names them."""

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
LARGE = bytes(range(256)) * 8192 + b"end"  # Two pieces and three bytes.


def cut(content: bytes) -> FileChunks:
    pieces = FileChunks()
    pieces.feed(content)
    return pieces


def made(name: str, content: bytes, *, project: str = "default", at: datetime = NOON) -> StoredFile:
    return StoredFile(
        project=project,
        id=f"file_{name}",
        media_type="text/plain",
        filename=f"{name}.txt",
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        created_at=at,
    )


async def kept(database: Database, name: str, content: bytes, *, most: int = GIB, **fields: Any) -> StoredFile:
    file = made(name, content, **fields)
    await database.write(files.insert_file, file, cut(content).end()[0], max_total_bytes=most)
    return file


def naming(*names: str) -> list[Message]:
    return [Message.user(*(File("text/plain", file_id=name) for name in names))]


def held(db: Connection) -> list[tuple[str, str, int, int]]:
    """What lies in the table of pieces."""
    order = file_pieces.c.project, file_pieces.c.sha256, file_pieces.c.place
    return [
        (row.project, row.sha256, row.place, len(row.data)) for row in db.execute(select(file_pieces).order_by(*order))
    ]


@given(st.lists(st.integers(0, 3 * CHUNK_BYTES), max_size=5))
def test_pieces_are_of_one_size_and_together_what_came(sizes: list[int]) -> None:
    came = [bytes([place]) * size for place, size in enumerate(sizes)]
    pieces = FileChunks()
    for data in came:
        pieces.feed(data)
    whole = b"".join(came)

    found, sha256 = pieces.end()

    assert b"".join(found) == whole
    assert (pieces.bytes, sha256) == (len(whole), hashlib.sha256(whole).hexdigest())
    assert [len(piece) for piece in found[:-1]] == [CHUNK_BYTES] * (len(found) - 1)
    assert all(0 < len(piece) <= CHUNK_BYTES for piece in found)


async def test_a_file_comes_back_as_it_was_given(database: Database) -> None:
    file = await kept(database, "a", LARGE)

    assert await database.read(files.get_file, "default", "file_a") == file
    assert await database.read(files.read_content, "default", "file_a") == LARGE
    assert [await database.read(files.read_chunk, "default", file.sha256, place) for place in range(4)] == [
        LARGE[:CHUNK_BYTES],
        LARGE[CHUNK_BYTES : 2 * CHUNK_BYTES],
        b"end",
        None,
    ]
    assert file.expires_at == NOON + timedelta(hours=24)


async def test_another_projects_file_is_as_unknown_as_none(database: Database) -> None:
    file = await kept(database, "a", b"ours")

    assert await database.read(files.get_file, "team-b", "file_a") is None
    assert await database.read(files.read_content, "team-b", "file_a") is None
    assert await database.read(files.read_chunk, "team-b", file.sha256, 0) is None
    assert await database.read(files.find_files, "team-b", ["file_a"]) == {}
    assert (await database.read(files.list_files, "team-b")).data == []
    assert await database.write(files.delete_file, "team-b", "file_a") is False
    await database.write(files.add_run_references, "team-b", "run_1", naming("file_a"))
    assert await database.read(files.get_file, "default", "file_a") == file
    assert str(files.file_not_found("file_a", pointer="/x").message) == "There is no file 'file_a'."


async def test_equal_content_is_kept_once_in_a_project(database: Database) -> None:
    first = await kept(database, "a", LARGE)
    await kept(database, "b", LARGE)
    await kept(database, "c", LARGE, project="team-b")

    sizes = [(place, size) for place, size in enumerate([CHUNK_BYTES, CHUNK_BYTES, 3])]
    assert await database.read(held) == [
        *(("default", first.sha256, *one) for one in sizes),
        *(("team-b", first.sha256, *one) for one in sizes),
    ]
    assert await database.read(files.total_bytes, "default") == len(LARGE)


async def test_what_another_file_shares_stays_when_one_is_deleted(database: Database) -> None:
    await kept(database, "a", LARGE)
    await kept(database, "b", LARGE)

    assert await database.write(files.delete_file, "default", "file_a") is True
    assert await database.write(files.delete_file, "default", "file_a") is False
    assert await database.read(files.read_content, "default", "file_a") is None
    assert await database.read(files.read_content, "default", "file_b") == LARGE
    assert await database.write(files.delete_file, "default", "file_b") is True
    assert await database.read(held) == []
    assert await database.read(files.total_bytes, "default") == 0


async def test_a_project_holds_so_many_bytes_and_no_more(database: Database) -> None:
    await kept(database, "a", b"12345", most=10)
    await kept(database, "b", b"67890", most=10)
    await kept(database, "c", b"12345", most=10)  # There already.
    await kept(database, "d", b"12345", most=10, project="team-b")

    with pytest.raises(DiskFull) as full:
        await kept(database, "e", b"!", most=10)

    assert full.value.message == "The files of this project would come to more than 10 bytes: delete some."
    assert await database.read(files.get_file, "default", "file_e") is None
    await database.write(files.delete_file, "default", "file_b")
    await kept(database, "e", b"!", most=10)


async def test_files_are_listed_newest_first_by_pages(database: Database) -> None:
    for name in "abcde":
        await kept(database, name, name.encode())

    first = await database.read(files.list_files, "default", Window(limit=3))
    second = await database.read(files.list_files, "default", Window(limit=3, after=first.next))

    assert [[file.id[-1] for file in found.data] for found in (first, second)] == [["e", "d", "c"], ["b", "a"]]
    assert second.next is None


async def test_what_something_names_no_longer_goes_by_itself(database: Database) -> None:
    file = await kept(database, "a", b"named")
    await kept(database, "b", b"not named")

    await database.write(files.add_run_references, "default", "run_1", naming("file_a", "file_unknown"))

    used = msgspec.structs.replace(file, used=True)
    assert used.expires_at is None
    assert await database.read(files.find_files, "default", ["file_a", "file_b", "file_c"]) == {
        "file_a": used,
        "file_b": made("b", b"not named"),
    }


async def test_what_nothing_names_is_forgotten_a_project_and_a_few_at_a_time(database: Database) -> None:
    later = NOON + timedelta(hours=1)
    await kept(database, "a", b"old and shared")
    await kept(database, "b", b"old")
    await kept(database, "c", b"old and named")
    await kept(database, "d", b"old and shared", at=later)
    await kept(database, "e", b"old", project="team-b")
    await database.write(files.add_run_references, "default", "run_1", naming("file_c"))

    gone = [await database.write(files.delete_unused_files, later, limit=1) for _ in range(4)]

    assert gone == [1, 1, 1, 0]
    left = await database.read(lambda db: sorted(db.scalars(select(table.c.id))))
    assert left == ["file_c", "file_d"]
    assert await database.read(files.read_content, "default", "file_d") == b"old and shared"
    assert len(await database.read(held)) == 2


async def test_adding_and_deleting_the_same_content_at_once_never_leaves_a_file_without_it(database: Database) -> None:
    async def come_and_go(number: int) -> None:
        for turn in range(6):
            name = f"{number}-{turn}"
            await kept(database, name, b"the same")
            if turn % 2:
                await database.write(files.delete_file, "default", f"file_{name}")

    await asyncio.gather(*(come_and_go(number) for number in range(6)))

    left = await database.read(files.list_files, "default")
    assert len(left.data) == 18
    assert {await database.read(files.read_content, "default", file.id) for file in left.data} == {b"the same"}
    for file in left.data:
        await database.write(files.delete_file, "default", file.id)
    assert await database.read(held) == []
