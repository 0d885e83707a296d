"""A backup is a consistent snapshot, and a restore overwrites nothing."""

import asyncio
import hashlib
import sqlite3
import stat
import zipfile
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import Connection, text

from palaver.errors import SettingsError
from palaver.storage.backup import BackupFile, BackupManifest, create_backup, os, read_manifest, restore_backup
from palaver.storage.database import open_database
from palaver.storage.file_lock import FileLock
from palaver.storage.migrations import upgrade
from palaver.storage.paths import lock_path

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def create_database(path: Path, *projects: str) -> Path:
    """Create a database with these projects."""
    asyncio.run(open_database(str(path)).close())
    with closing(sqlite3.connect(path)) as file:
        file.executemany("INSERT INTO projects VALUES (?, 0)", [(name,) for name in projects])
        file.commit()
    return path


def projects(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as file:
        return [name for (name,) in file.execute("SELECT name FROM projects ORDER BY name")]


def backup(database: Path, target: Path) -> BackupManifest:
    return create_backup(database, target, version="1.2.3", now=NOON)


def restore(source: Path, database: Path, *, replace: bool = False) -> list[Path]:
    return restore_backup(source, database, replace=replace, now=NOON)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_backup_is_one_file_readable_only_by_its_owner(tmp_path: Path) -> None:
    database, target = create_database(tmp_path / "palaver.db", "team-a"), tmp_path / "backup.zip"

    manifest = backup(database, target)

    assert names(tmp_path) == ["backup.zip", "palaver.db"]
    assert oct(stat.S_IMODE(target.stat().st_mode)) == "0o600"
    assert read_manifest(target) == manifest
    with zipfile.ZipFile(target) as archive:
        assert {entry.filename: oct(entry.external_attr >> 16) for entry in archive.infolist()} == {
            "palaver.db": "0o600",
            "manifest.json": "0o600",
        }
        assert msgspec.json.decode(archive.read("manifest.json")) == {
            "palaver": "backup/1",
            "version": "1.2.3",
            "schema": upgrade.SCHEMA_VERSION,
            "made_at": "2026-11-15T12:00:00Z",
            "files": [msgspec.to_builtins(manifest.files[0])],
        }


def test_restored_backup_has_the_same_content(tmp_path: Path) -> None:
    database, target = create_database(tmp_path / "a" / "palaver.db", "team-a", "team-b"), tmp_path / "backup.zip"
    backup(database, target)
    elsewhere = tmp_path / "b" / "data" / "other.db"

    assert restore(target, elsewhere) == []

    assert projects(elsewhere) == ["team-a", "team-b"]
    assert names(elsewhere.parent) == ["other.db", "other.db.lock", "other.db.workers.lock"]
    assert [oct(stat.S_IMODE(path.stat().st_mode)) for path in (elsewhere, elsewhere.parent)] == ["0o600", "0o700"]


async def test_backup_during_writes_is_consistent(tmp_path: Path) -> None:
    database, target = tmp_path / "palaver.db", tmp_path / "backup.zip"
    opened = open_database(str(database))
    started, done = asyncio.Event(), asyncio.Event()
    written = 0

    def add(db: Connection, name: str) -> None:
        db.execute(text("INSERT INTO projects VALUES (:name, 0)"), {"name": name})

    async def write() -> None:
        nonlocal written
        while not done.is_set():
            await opened.write(add, f"team-{written:05}")
            written += 1
            if written == 20:
                started.set()

    writing = asyncio.create_task(write())
    await started.wait()
    with FileLock(lock_path(database)):  # As a server does.
        await asyncio.to_thread(backup, database, target)
    done.set()
    await writing
    await opened.close()

    await asyncio.to_thread(restore, target, tmp_path / "again.db")
    result = projects(tmp_path / "again.db")
    assert result == [f"team-{number:05}" for number in range(len(result))]
    assert 20 <= len(result) <= written


def test_restore_moves_an_existing_database_aside_only_with_replace(tmp_path: Path) -> None:
    database, target = create_database(tmp_path / "palaver.db", "before"), tmp_path / "backup.zip"
    backup(database, target)
    with closing(sqlite3.connect(database)) as file:
        file.execute("UPDATE projects SET name = 'after'")
        file.commit()

    with pytest.raises(SettingsError) as refused:
        restore(target, database)
    assert refused.value.message == (f"The database {database} already exists. Use --force to rename it and continue.")
    assert projects(database) == ["after"]

    moved = restore(target, database, replace=True)

    assert [path.name for path in moved] == ["palaver.db.20261115T120000.000000Z.aside"]
    assert (projects(database), projects(moved[0])) == (["before"], ["after"])
    locks = ["palaver.db.lock", "palaver.db.workers.lock"]
    assert names(tmp_path) == sorted(["backup.zip", "palaver.db", *locks, *(path.name for path in moved)])


def test_database_moved_aside_includes_changes_in_its_wal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database, target = create_database(tmp_path / "palaver.db", "before"), tmp_path / "backup.zip"
    backup(database, target)

    def without(*_: object) -> None:
        raise OSError("no two names for one file here")

    monkeypatch.setattr(Path, "hardlink_to", without)
    with closing(sqlite3.connect(database)) as busy:  # An open read transaction keeps writes in the WAL.
        busy.execute("BEGIN")
        busy.execute("SELECT * FROM projects").fetchall()
        with closing(sqlite3.connect(database)) as file:
            file.execute("UPDATE projects SET name = 'after'")
            file.commit()
        monkeypatch.setattr(sqlite3, "connect", _without_timeout(sqlite3.connect))
        [moved] = restore(target, database, replace=True)
        monkeypatch.undo()

    assert (projects(database), projects(moved)) == (["before"], ["after"])


def _without_timeout(connect: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **options: connect(*args, **{"timeout": 0, **options})


def test_restore_overwrites_an_empty_file(tmp_path: Path) -> None:
    database, target = create_database(tmp_path / "palaver.db", "team-a"), tmp_path / "backup.zip"
    backup(database, target)
    empty = tmp_path / "empty.db"
    empty.touch()

    restore(target, empty)

    assert projects(empty) == ["team-a"]


def test_restore_moves_a_file_that_is_not_a_database_aside(tmp_path: Path) -> None:
    database, target = create_database(tmp_path / "palaver.db", "team-a"), tmp_path / "backup.zip"
    backup(database, target)
    odd = tmp_path / "odd.db"
    odd.write_bytes(b"no database at all" * 99)

    with pytest.raises(SettingsError):
        restore(target, odd)
    [moved] = restore(target, odd, replace=True)

    assert (projects(odd), moved.read_bytes()) == (["team-a"], b"no database at all" * 99)


def test_restore_is_refused_while_a_server_uses_the_database(tmp_path: Path) -> None:
    database, target = create_database(tmp_path / "palaver.db", "team-a"), tmp_path / "backup.zip"
    backup(database, target)

    with FileLock(lock_path(database), "shared"), pytest.raises(SettingsError) as refused:
        restore(target, database, replace=True)

    assert refused.value.message == f"A server is using {database}. Stop it first."


def write_changed_copy(source: Path, target: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """Write a changed copy of a backup."""
    with zipfile.ZipFile(source) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    change(entries)
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return target


def rewrite_manifest(entries: dict[str, bytes], **fields: Any) -> None:
    entries["manifest.json"] = msgspec.json.encode(msgspec.json.decode(entries["manifest.json"]) | fields)


def replace_database(entries: dict[str, bytes], content: bytes) -> None:
    entries["palaver.db"] = content
    rewrite_manifest(entries, files=[BackupFile("palaver.db", len(content), hashlib.sha256(content).hexdigest())])


def set_newer_schema(entries: dict[str, bytes]) -> None:
    with closing(sqlite3.connect(":memory:")) as file:
        file.deserialize(entries["palaver.db"])
        file.execute("UPDATE alembic_version SET version_num = '9999'")
        file.commit()
        replace_database(entries, file.serialize())
    rewrite_manifest(entries, schema="9999")


CONTENT_MISMATCH = "palaver.db does not match the manifest."
NO_MANIFEST = "missing or invalid manifest."
ENTRIES_MISMATCH = "the files do not match the manifest."
DAMAGES: dict[str, tuple[Callable[[dict[str, bytes]], Any], str]] = {
    "changed": (lambda e: e.update({"palaver.db": e["palaver.db"][:-1] + b"!"}), CONTENT_MISMATCH),
    "longer": (lambda e: e.update({"palaver.db": e["palaver.db"] + b"!"}), CONTENT_MISMATCH),
    "shorter": (lambda e: e.update({"palaver.db": e["palaver.db"][:-9]}), CONTENT_MISMATCH),
    "no manifest": (lambda e: e.pop("manifest.json"), NO_MANIFEST),
    "not JSON": (lambda e: e.update({"manifest.json": b"{"}), NO_MANIFEST),
    "of a later kind": (lambda e: rewrite_manifest(e, palaver="backup/2"), NO_MANIFEST),
    "a path": (lambda e: rewrite_manifest(e, files=[{"name": "../x", "bytes": 1, "sha256": ""}]), NO_MANIFEST),
    "nothing named": (lambda e: rewrite_manifest(e, files=[]), ENTRIES_MISMATCH),
    "nothing there": (lambda e: e.pop("palaver.db"), ENTRIES_MISMATCH),
    "something more": (lambda e: e.update({"../evil": b"x"}), ENTRIES_MISMATCH),
    "another form": (
        lambda e: rewrite_manifest(e, schema="0000"),
        f"the database has schema version {upgrade.SCHEMA_VERSION}, but the manifest says 0000.",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_invalid_backup_is_rejected_and_changes_nothing(tmp_path: Path, damage: str) -> None:
    change, reason = DAMAGES[damage]
    database = create_database(tmp_path / "data" / "palaver.db", "team-a")
    backup(database, tmp_path / "good.zip")
    bad = write_changed_copy(tmp_path / "good.zip", tmp_path / "bad.zip", change)
    before = database.read_bytes()

    with pytest.raises(SettingsError) as refused:
        restore(bad, database, replace=True)

    assert refused.value.message == f"{bad} is not a usable backup: {reason}"
    assert database.read_bytes() == before
    assert names(database.parent) == ["palaver.db", "palaver.db.lock", "palaver.db.workers.lock"]
    assert names(tmp_path) == ["bad.zip", "data", "good.zip"]


def test_backup_of_a_newer_version_or_a_damaged_database_is_rejected(tmp_path: Path) -> None:
    database = create_database(tmp_path / "palaver.db", *(f"team-{number}" for number in range(5_000)))
    backup(database, tmp_path / "good.zip")

    def torn(entries: dict[str, bytes]) -> None:
        content = entries["palaver.db"]
        replace_database(entries, content[:-8192] + b"\xff" * 8192)

    newer = write_changed_copy(tmp_path / "good.zip", tmp_path / "newer.zip", set_newer_schema)
    damaged = write_changed_copy(tmp_path / "good.zip", tmp_path / "damaged.zip", torn)
    foreign = write_changed_copy(
        tmp_path / "good.zip", tmp_path / "foreign.zip", lambda e: replace_database(e, b"not a database" * 99)
    )

    for source, reason in [
        (newer, "was created by a newer version of Palaver (schema version 9999"),
        (damaged, "damaged.zip is not a usable backup: "),
        (foreign, " as a database"),
    ]:
        with pytest.raises(SettingsError) as refused:
            restore(source, tmp_path / "elsewhere.db")
        assert reason in refused.value.message
        assert not (tmp_path / "elsewhere.db").exists()


def test_file_that_is_not_a_backup_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "text.zip").write_text("hello", encoding="utf-8")

    for name, message in [
        ("text.zip", f"{tmp_path}/text.zip is not a usable backup: file is not a zip file."),
        ("none.zip", f"File {tmp_path}/none.zip not found."),
    ]:
        with pytest.raises(SettingsError) as refused:
            restore(tmp_path / name, tmp_path / "palaver.db")
        assert refused.value.message == message


def test_backup_without_a_source_or_a_free_target_path_is_rejected(tmp_path: Path) -> None:
    database, empty, target = create_database(tmp_path / "palaver.db"), tmp_path / "empty.db", tmp_path / "there.zip"
    empty.touch()
    target.touch()

    for source, to, message in [
        (tmp_path / "none.db", target, f"Database {tmp_path}/none.db not found."),
        (empty, target, f"The database {empty} is empty. Nothing to back up."),
        (database, target, f"{target} already exists. Choose another name."),
    ]:
        with pytest.raises(SettingsError) as refused:
            backup(source, to)
        assert refused.value.message == message
    with pytest.raises(SettingsError) as refused:
        backup(database, tmp_path / "no such folder" / "x.zip")
    assert refused.value.message.startswith("Failed to create the backup: [Errno 2] No such file or directory")


def test_restore_on_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database, target = create_database(tmp_path / "palaver.db", "team-a"), tmp_path / "backup.zip"
    backup(database, target)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SettingsError) as refused:
        restore(target, database, replace=True)

    assert refused.value.message == "Failed to restore the backup: [Errno 28] No space left on device."
    assert names(tmp_path) == ["backup.zip", "palaver.db", "palaver.db.lock", "palaver.db.workers.lock"]
    assert projects(database) == ["team-a"]
