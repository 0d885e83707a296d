"""Export a revision as a file, streamed."""

import asyncio
import re
from collections.abc import AsyncGenerator

import msgspec

from palaver.storage.database import Database
from palaver.storage.testsets.repository import Revision
from palaver.testsets import files, row_pages
from palaver.testsets.columns import Column, find_mixed_columns
from palaver.testsets.files import FileRow, Format
from palaver.testsets.files.base import ID_COLUMN

_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME_LENGTH = 80


async def export_revision(
    database: Database, project: str, revision: Revision, file_format: Format, *, ids: bool = False
) -> AsyncGenerator[bytes]:
    """Yield the bytes of the file.

    With `ids`, each row's id is written too, so that an import can find the row again.
    """
    columns = [column["name"] for column in revision.columns]
    mixed = find_mixed_columns(msgspec.convert(revision.columns, list[Column]))
    writer = files.open_writer(file_format, columns, meta=[ID_COLUMN] if ids else (), mixed=mixed)
    if opening := writer.begin():
        yield opening
    async for rows in row_pages.iterate_rows(database, project, revision):
        file_rows = [FileRow(row.data, {ID_COLUMN: row.id} if ids else None) for row in rows]
        if piece := await asyncio.to_thread(writer.rows, file_rows):
            yield piece
    last_pieces = writer.end()
    while (piece := await asyncio.to_thread(next, last_pieces, None)) is not None:
        if piece:
            yield piece


def export_filename(name: str, revision: int, file_format: Format) -> str:
    """Return a file name without path separators and special characters."""
    safe_name = _UNSAFE_CHARACTERS.sub("-", name).strip(".-")[:_MAX_NAME_LENGTH].rstrip(".-") or "testset"
    return f"{safe_name}-{revision}.{file_format}"
