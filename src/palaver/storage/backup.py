"""Backup and restore of SQLite databases: a zip archive with the database and a manifest.

A backup is a consistent snapshot, also while a server writes. A restored database is unpacked and checked as a whole in
a temporary file before it replaces the old one, which is renamed.
"""

import hashlib
import os
import sqlite3
import tempfile
import zipfile
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Literal

import msgspec

from palaver.errors import SettingsError
from palaver.storage.file_lock import exclusive_access
from palaver.storage.migrations import upgrade

MANIFEST_NAME = "manifest.json"
BackupFileName = Literal["palaver.db"]
DATABASE_NAME: BackupFileName = "palaver.db"
"""The name of the database file in every backup."""
_CHUNK_BYTES = 1024 * 1024
_MAX_MANIFEST_BYTES = 64 * 1024
_SIDE_FILE_SUFFIXES = ("-wal", "-shm", "-journal")


class BackupFile(msgspec.Struct, frozen=True):
    name: BackupFileName
    bytes: int
    sha256: str


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    palaver: Literal["backup/1"] = "backup/1"
    version: str
    """The version of Palaver that created the backup."""
    schema: str
    made_at: datetime
    files: Sequence[BackupFile]


# Create


def create_backup(database: Path, target: Path, *, version: str, now: datetime) -> BackupManifest:
    """Write a backup of the database to a new file with mode 0600. Raises SettingsError."""
    if not database.exists():
        raise SettingsError(f"Database {database} not found.")
    state = upgrade.file_schema_state(database)
    state.check(str(database))
    if state.version is None:
        raise SettingsError(f"The database {database} is empty. Nothing to back up.")
    if target.exists():
        raise SettingsError(f"{target} already exists. Choose another name.")
    try:
        with _temporary_file(target) as partial_archive:
            manifest = _write_archive(
                partial_archive, database, BackupManifest(version=version, schema=state.version, made_at=now, files=())
            )
            partial_archive.replace(target)
    except (OSError, sqlite3.Error) as error:
        raise SettingsError(f"Failed to create the backup: {error}.") from None
    return manifest


def _write_archive(partial_archive: Path, database: Path, manifest: BackupManifest) -> BackupManifest:
    with zipfile.ZipFile(partial_archive, "w", zipfile.ZIP_DEFLATED) as archive:
        files = [_add_database(archive, DATABASE_NAME, database, manifest.made_at)]
        manifest = msgspec.structs.replace(manifest, files=files)
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
        with archive.open(_zip_entry(MANIFEST_NAME, manifest.made_at), "w") as entry:
            entry.write(text)
    with partial_archive.open("rb") as file:
        os.fsync(file.fileno())
    return manifest


def _add_database(archive: zipfile.ZipFile, name: BackupFileName, path: Path, now: datetime) -> BackupFile:
    with _temporary_file(Path(archive.filename or "")) as copy:
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")  # A single file, without a WAL.
        with copy.open("rb") as source, archive.open(_zip_entry(name, now), "w", force_zip64=True) as entry:
            size, sha256 = _copy_stream(source, entry)
    return BackupFile(name=name, bytes=size, sha256=sha256)


def _zip_entry(name: str, now: datetime) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, now.timetuple()[:6])
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o600 << 16
    return entry


# Restore


def read_manifest(source: Path) -> BackupManifest:
    """Read the manifest of a backup. Raises SettingsError."""
    with _open_archive(source) as archive:
        return _decode_manifest(archive, source)


def restore_backup(source: Path, database: Path, *, replace: bool, now: datetime) -> list[Path]:
    """Replace a database by a backup after checking it; returns the new paths of the old database's files."""
    database.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with exclusive_access(database):
        try:
            if not replace and _has_data(database):
                message = f"The database {database} already exists. Use --force to rename it and continue."
                raise SettingsError(message)
            with _temporary_file(database) as unpacked:
                manifest = _unpack(source, {DATABASE_NAME: unpacked})
                _check_unpacked(source, unpacked, manifest)
                suffix = f"{now.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}.aside"
                old_file = _replace_file(unpacked, database, suffix)
        except (OSError, sqlite3.Error) as error:
            raise SettingsError(f"Failed to restore the backup: {error}.") from None
    return [] if old_file is None else [old_file]


def _unpack(source: Path, targets: dict[str, Path]) -> BackupManifest:
    with _open_archive(source) as archive:
        manifest = _decode_manifest(archive, source)
        for file in manifest.files:
            with archive.open(file.name) as entry, targets[file.name].open("wb") as target:
                size, sha256 = _copy_stream(entry, target, max_bytes=file.bytes)
                os.fsync(target.fileno())
            if (size, sha256) != (file.bytes, file.sha256):
                raise _damaged_backup(source, f"{file.name} does not match the manifest")
    return manifest


def _check_unpacked(source: Path, unpacked: Path, manifest: BackupManifest) -> None:
    state = upgrade.file_schema_state(unpacked)
    state.check(f"The database in {source}")
    if state.version != manifest.schema:
        raise _damaged_backup(
            source, f"the database has schema version {state.version}, but the manifest says {manifest.schema}"
        )
    with closing(sqlite3.connect(unpacked)) as file:
        check_result = file.execute("PRAGMA quick_check(1)").fetchone()[0]
    if check_result != "ok":
        raise _damaged_backup(source, check_result)


def _has_data(database: Path) -> bool:
    if not database.exists():
        return False
    with suppress(SettingsError):
        return not upgrade.file_schema_state(database).is_empty
    return True  # Unreadable, but not empty.


def _replace_file(file: Path, target: Path, suffix: str) -> Path | None:
    """Move a file into place; the old file and its side files are renamed with `suffix`."""
    renamed = None
    if target.exists():
        renamed = target.with_name(f"{target.name}.{suffix}")
        with suppress(sqlite3.Error), closing(sqlite3.connect(target)) as old:
            old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for side_suffix in _SIDE_FILE_SUFFIXES:
            with suppress(FileNotFoundError):
                target.with_name(target.name + side_suffix).rename(renamed.with_name(renamed.name + side_suffix))
        try:
            # With a hard link there is a database at `target` at all times.
            renamed.hardlink_to(target)
        except OSError:
            target.rename(renamed)  # Not every file system has hard links.
    file.replace(target)
    return renamed


def _decode_manifest(archive: zipfile.ZipFile, source: Path) -> BackupManifest:
    try:
        with archive.open(MANIFEST_NAME) as entry:
            manifest = msgspec.json.decode(entry.read(_MAX_MANIFEST_BYTES), type=BackupManifest)
        names = [file.name for file in manifest.files]
    except (KeyError, msgspec.MsgspecError):
        raise _damaged_backup(source, "missing or invalid manifest") from None
    if sorted([*names, MANIFEST_NAME]) != sorted(archive.namelist()) or DATABASE_NAME not in names:
        raise _damaged_backup(source, "the files do not match the manifest")
    return manifest


@contextmanager
def _open_archive(source: Path) -> Generator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(source) as archive:
            yield archive
    except FileNotFoundError:
        raise SettingsError(f"File {source} not found.") from None
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise _damaged_backup(source, f"{str(error)[:1].lower()}{str(error)[1:]}") from None


def _damaged_backup(source: Path, reason: str) -> SettingsError:
    return SettingsError(f"{source} is not a usable backup: {reason}.")


# Files


@contextmanager
def _temporary_file(neighbor: Path) -> Generator[Path]:
    """Create a temporary file next to another one; it is removed afterwards unless it was moved."""
    descriptor, path = tempfile.mkstemp(".part", f"{neighbor.name}.", neighbor.parent)  # Created with mode 0600.
    os.close(descriptor)
    try:
        yield Path(path)
    finally:
        for side_suffix in ("", *_SIDE_FILE_SUFFIXES):
            Path(path + side_suffix).unlink(missing_ok=True)


def _copy_stream(source: IO[bytes], target: IO[bytes], max_bytes: int | None = None) -> tuple[int, str]:
    """Copy a stream; returns its size and SHA-256. Stops soon after `max_bytes`."""
    size, sha256 = 0, hashlib.sha256()
    while (max_bytes is None or size <= max_bytes) and (data := source.read(_CHUNK_BYTES)):
        size += len(data)
        sha256.update(data)
        target.write(data)
    return size, sha256.hexdigest()
