"""The test set of `palaver eval`: a file, a stored set, or one of an installed package."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from palaver.cli.database import new_id
from palaver.errors import TargetNotFound

if TYPE_CHECKING:
    from palaver.storage.database import Database

ENTRY_POINT_GROUP = "palaver.testsets"
_CHUNK_BYTES = 256 * 1024
_FILE_SUFFIXES = (".csv", ".jsonl", ".ndjson", ".json", ".parquet", ".tsv", ".xlsx")
Types = Literal["auto", "text"]


def find_file(text: str) -> Path | None:
    """Return the file that is meant; None for the name of a stored set."""
    path = Path(text)
    if path.is_file() or text.lower().endswith(_FILE_SUFFIXES):
        return path
    return _installed_file(text)


def _installed_file(name: str) -> Path | None:
    """Return the file that an installed package declares under this name, as `package:path`."""
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        if entry.name == name:
            package, _, path = entry.value.partition(":")
            spec = find_spec(package)
            locations = list(spec.submodule_search_locations or ()) if spec is not None else []
            return Path(locations[0], path) if locations else None
    return None


async def resolve_testset_id(database: "Database", project: str, text: str, file: Path | None, *, types: Types) -> str:
    """Return the set's id. A file is imported first; rows that it had before keep their ids."""
    if file is not None:
        return await _import_file(database, project, file, types)
    from palaver.storage.testsets import repository as testsets

    testset = await database.read(testsets.find_testset, project, text)
    if testset is not None:
        return testset.id
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

    testset = await database.read(testsets.find_testset, project, file.name)
    into = (
        ImportTarget(testset=testset.id, mode="replace")
        if testset is not None
        else ImportTarget(testset=new_id("ts"), is_new=True)
    )
    file_reader = open_reader(format_of(file.name), types=types)
    async with import_file(database, project, into, file_reader, _read_chunks(file), now=_now) as imported_rows:
        info, at = CommitInfo(message="palaver eval", at=_now()), _now()
        if testset is not None:
            await database.write(commits.commit, project, testset.id, imported_rows.prepared, info)
        else:
            new_testset = TestSet(id=into.testset, name=file.name, created_at=at, updated_at=at)
            await database.write(commits.create_testset, project, new_testset, imported_rows.prepared, info)
    return into.testset


async def _read_chunks(file: Path) -> AsyncIterator[bytes]:
    try:
        stream = file.open("rb")
    except OSError as error:
        raise TargetNotFound(f"{file} cannot be read: {error.strerror}.") from None
    with stream:
        while chunk := stream.read(_CHUNK_BYTES):
            yield chunk


def _now() -> datetime:
    return datetime.now(UTC)
