"""Exporting a revision as a file, a piece at a time, as fast as it is taken."""

import asyncio
import re
from collections.abc import AsyncGenerator

from palaver.storage.database import Database
from palaver.storage.testsets.revisions import Revision
from palaver.testsets import files, reading
from palaver.testsets.files import Format, Read
from palaver.testsets.files.names import ID

_ODD = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 80


async def exported(
    database: Database, project: str, revision: Revision, form: Format, *, ids: bool = False
) -> AsyncGenerator[bytes]:
    """The bytes of the file; with `ids`, each row's is written beside its data, so that an import finds it again."""
    columns = [column["name"] for column in revision.columns]
    writer = files.writer(form, columns, meta=[ID] if ids else ())
    if opening := writer.begin():
        yield opening
    async for rows in reading.every(database, project, revision):
        outgoing = [Read(row.data, {ID: row.id} if ids else None) for row in rows]
        if piece := await asyncio.to_thread(writer.rows, outgoing):
            yield piece
    ending = writer.end()
    while (piece := await asyncio.to_thread(next, ending, None)) is not None:
        if piece:
            yield piece


def filename(name: str, revision: int, form: Format) -> str:
    """What the file of a revision is called, whatever its set is called: no path, no trick."""
    plain = _ODD.sub("-", name).strip(".-")[:_LONGEST_NAME].rstrip(".-") or "testset"
    return f"{plain}-{revision}.{form}"
