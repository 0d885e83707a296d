"""palaver testset import: a file becomes a test set, or goes into one."""

import asyncio
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click
import msgspec

from palaver.cli.bar import watched
from palaver.cli.databases import using
from palaver.cli.options import db_option, json_option, project_option
from palaver.cli.testsets.asking import as_text, counted
from palaver.errors import NameTaken, SettingsError, TargetNotFound, UnsupportedMediaType

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from palaver.storage.database import Database
    from palaver.storage.testsets.repository import Revision
    from palaver.testsets.files import Format
    from palaver.testsets.importer import ImportedFile, ImportMode, ImportTarget

_PIECE = 256 * 1024


@click.command(name="import")
@click.argument("file", metavar="FILE")
@click.option("--name", help="The set's name. (the file's, without its ending)")
@click.option(
    "--mode", type=click.Choice(("append", "replace", "upsert")), help="How rows go into a set that is there."
)
@click.option("--key", metavar="COLUMN", help="Of an upsert: what rows are known by; __id__ for their ids.")
@click.option("--types", type=click.Choice(("auto", "text")), default="auto", help="CSV: all cells as text, or not.")
@click.option("--delimiter", metavar="CHARACTER", help="CSV: what stands between cells. (the most frequent one)")
@click.option("--format", "form", type=click.Choice(("jsonl", "json", "csv", "parquet")), help="(by the file's ending)")
@click.option("--message", default="", help="What the revision is about.")
@project_option("test sets")
@json_option
@db_option
def import_(file: str, project: str, as_json: bool, db: str | None, form: str | None, **options: Any) -> None:
    """Make a test set of FILE, which is JSON Lines, JSON, CSV or Parquet, or - for standard input.

    Nothing is kept unless all of it can be. A set of that name that is there already is left alone unless --mode says
    how the rows go into it.

    \b
    Examples:
      palaver testset import cases.csv
      palaver testset import cases.jsonl --name refunds --mode replace --message "from the shop"
      palaver testset import more.csv --name refunds --mode upsert --key id
    """
    name: str = options.pop("name") or Path(file).stem
    chosen = _format(file, form)
    if file == "-":
        told = asyncio.run(_import(sys.stdin.buffer, db, project, name, chosen, **options))
    else:
        try:
            stream = Path(file).open("rb")  # noqa: SIM115 - closed below
        except OSError as error:
            raise TargetNotFound(f"{file} cannot be read: {error.strerror}.") from None
        with stream, watched(stream) as (seen, _):
            told = asyncio.run(_import(seen, db, project, name, chosen, **options))
    if as_json:
        click.echo(as_text(told))
        return
    report = told["report"]
    parts = [f"{report[word]:,} {word}" for word in ("added", "changed", "unchanged", "removed") if report[word]]
    click.echo(f"{name}: revision {told['revision']}, {counted(told['rows'], 'row')} ({', '.join(parts) or 'none'}).")
    if report["wrapped"]:
        click.echo(f"{counted(report['wrapped'], 'value')} that were no objects became rows.", err=True)


def _format(file: str, form: str | None) -> "Format":
    if form is not None:
        return cast("Format", form)
    if file == "-":
        raise SettingsError("What standard input holds, nobody can see: give --format jsonl, json, csv or parquet.")
    from palaver.testsets.files.formats import format_of

    try:
        return format_of(file)
    except UnsupportedMediaType as error:
        raise SettingsError(error.message) from None


async def _import(
    stream: BinaryIO,
    db: str | None,
    project: str,
    name: str,
    form: "Format",
    *,
    mode: "ImportMode | None",
    key: str | None,
    types: Any,
    delimiter: str | None,
    message: str,
) -> dict[str, Any]:
    from palaver.testsets import files
    from palaver.testsets.importer import ImportTarget, import_file

    reader = files.open_reader(form, types=types, delimiter=delimiter)
    async with using(db) as database:
        known = await _known(database, project, name, mode)
        into = ImportTarget(testset=known or _new_id(), is_new=known is None, mode=mode or "append", key=key)
        async with import_file(database, project, into, reader, _pieces(stream), now=_now) as found:
            revision = await database.write(_commit, project, name, into, found, message)
    report = {**msgspec.structs.asdict(found.counts), "wrapped": found.wrapped}
    return {
        "testset": into.testset,
        "name": name,
        "revision": revision.number,
        "digest": revision.digest,
        "rows": revision.rows,
        "report": report,
    }


async def _known(database: "Database", project: str, name: str, mode: "ImportMode | None") -> str | None:
    from palaver.storage.testsets import repository as testsets

    found = await database.read(testsets.find_testset, project, name)
    if found is not None and mode is None:
        told = f"A test set {name!r} is there already: say --mode append, replace or upsert, or give another --name."
        raise NameTaken(told)
    return None if found is None else found.id


def _commit(
    db: "Connection", project: str, name: str, into: "ImportTarget", found: "ImportedFile", message: str
) -> "Revision":
    from palaver.storage.testsets.repository import TestSet
    from palaver.testsets import commits
    from palaver.testsets.commits import CommitInfo

    at = _now()
    written = CommitInfo(message=message, at=at)
    if into.is_new:
        made = TestSet(id=into.testset, name=name, created_at=at, updated_at=at)
        return commits.create_testset(db, project, made, found.prepared, written)
    return commits.commit(db, project, into.testset, found.prepared, written)[0]


async def _pieces(stream: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(stream.read, _PIECE):
        yield piece


def _now() -> datetime:
    return datetime.now(UTC)


def _new_id() -> str:
    import secrets
    import time

    from palaver.core.ids import sortable_id

    return f"ts_{sortable_id(time.time_ns() // 1_000_000, secrets.randbits(80))}"
