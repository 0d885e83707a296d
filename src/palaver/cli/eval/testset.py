"""The test set that `palaver eval` runs over: a file, one that is stored, or one that an installed package brings."""

import secrets
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from palaver.core.ids import sortable_id
from palaver.errors import TargetNotFound

if TYPE_CHECKING:
    from palaver.storage.database import Database

ENTRY_POINT_GROUP = "palaver.testsets"
_CHUNK_BYTES = 256 * 1024
_FILE_SUFFIXES = (".csv", ".jsonl", ".ndjson", ".json", ".parquet", ".tsv", ".xlsx")
Types = Literal["auto", "text"]


def find_file(text: str) -> Path | None:
    """The file that is meant; None: it is the name of a set that is stored."""
    path = Path(text)
    if path.is_file() or text.lower().endswith(_FILE_SUFFIXES):
        return path
    return _installed_file(text)


def _installed_file(name: str) -> Path | None:
    """The file that an installed package brings under that name: `package:path in it`."""
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        if entry.name == name:
            package, _, below = entry.value.partition(":")
            spec = find_spec(package)
            places = list(spec.submodule_search_locations or ()) if spec is not None else []
            return Path(places[0], below) if places else None
    return None


async def resolve_testset_id(database: "Database", project: str, text: str, file: Path | None, *, types: Types) -> str:
    """The id of the set; a file is brought into the database first, and rows that it had before keep their ids."""
    if file is not None:
        return await _import_file(database, project, file, types)
    from palaver.storage.testsets import repository as testsets

    found = await database.read(testsets.find_testset, project, text)
    if found is not None:
        return found.id
    if text.startswith("ts_"):
        return (await database.read(testsets.get_testset, project, text)).id
    installed = ", ".join(sorted(entry.name for entry in entry_points(group=ENTRY_POINT_GROUP))) or "none"
    raise TargetNotFound(f"There is no file and no stored test set {text!r}. Installed ones: {installed}.")


async def _import_file(database: "Database", project: str, file: Path, types: Types) -> str:
    from palaver.storage.testsets import repository as testsets
    from palaver.storage.testsets.repository import TestSet
    from palaver.testsets import commits
    from palaver.testsets.commits import CommitInfo
    from palaver.testsets.files import format_of, open_reader
    from palaver.testsets.importer import ImportTarget, import_file

    found = await database.read(testsets.find_testset, project, file.name)
    into = (
        ImportTarget(testset=found.id, mode="replace")
        if found is not None
        else ImportTarget(testset=_new_id(), is_new=True)
    )
    reading = open_reader(format_of(file.name), types=types)
    async with import_file(database, project, into, reading, _read_chunks(file), now=_now) as taken:
        written, at = CommitInfo(message="palaver eval", at=_now()), _now()
        if found is not None:
            await database.write(commits.commit, project, found.id, taken.prepared, written)
        else:
            made = TestSet(id=into.testset, name=file.name, created_at=at, updated_at=at)
            await database.write(commits.create_testset, project, made, taken.prepared, written)
    return into.testset


async def _read_chunks(file: Path) -> AsyncIterator[bytes]:
    try:
        stream = file.open("rb")
    except OSError as error:
        raise TargetNotFound(f"{file} cannot be read: {error.strerror}.") from None
    with stream:
        while chunk := stream.read(_CHUNK_BYTES):
            yield chunk


def _new_id() -> str:
    return f"ts_{sortable_id(time.time_ns() // 1_000_000, secrets.randbits(80))}"


def _now() -> datetime:
    return datetime.now(UTC)
