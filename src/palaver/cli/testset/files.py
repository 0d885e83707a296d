"""palaver testset import, export and convert."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click
import msgspec

from palaver.cli.database import new_id, use_database
from palaver.cli.options import db_option, json_option, project_option
from palaver.cli.output import format_count, format_json, open_output
from palaver.cli.progress import read_progress
from palaver.cli.testset.selection import require_revision
from palaver.errors import NameTaken, SettingsError, TargetNotFound, UnsupportedMediaType

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from palaver.storage.database import Database
    from palaver.storage.testsets.repository import Revision
    from palaver.testsets.files import CellTypes, FileRows, Format
    from palaver.testsets.importer import ImportedFile, ImportMode, ImportTarget


@click.command(name="export")
@click.argument("name")
@click.option("-o", "--output", metavar="FILE", help="Where to. (standard output)")
@click.option("--revision", default="head", show_default=True, help="A number, or a digest.")
@click.option(
    "--format",
    "form",
    type=click.Choice(("jsonl", "json", "csv", "parquet")),
    help="(jsonl, or by the name of the file)",
)
@click.option("--ids", is_flag=True, help="Write rows' ids beside their data, so that an import finds them again.")
@project_option("test sets")
@db_option
def export(
    name: str, output: str | None, revision: str, form: str | None, ids: bool, project: str, db: str | None
) -> None:
    """Write the rows of NAME's newest revision, or of another one.

    \b
    Examples:
      palaver testset export refunds -o refunds.jsonl
      palaver testset export refunds --revision 3 --format csv > refunds.csv
      palaver testset export refunds --ids -o refunds.csv
    """
    format_ = _output_format(output, form)
    with open_output(output, sys.stdout.buffer.write) as write:
        rows = asyncio.run(_export(db, project, name, revision, format_, write, ids=ids))
    if output not in (None, "-"):
        click.echo(f"{output}: {format_count(rows, 'row')}.", err=True)


def _output_format(output: str | None, form: str | None) -> "Format":
    if form is not None or output is None or output == "-":
        return cast("Format", form or "jsonl")
    from palaver.testsets.files.base import format_of

    try:
        return format_of(output)
    except UnsupportedMediaType as error:
        raise SettingsError(error.message) from None


async def _export(
    db: str | None,
    project: str,
    name: str,
    revision: str,
    form: "Format",
    write: Callable[[bytes], object],
    *,
    ids: bool,
) -> int:
    from palaver.testsets.export import export_revision

    async with use_database(db) as database:
        _, revision_row = await database.read(require_revision, project, name, revision)
        async for chunk in export_revision(database, project, revision_row, form, ids=ids):
            write(chunk)
    return revision_row.rows


_CHUNK_BYTES = 256 * 1024


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
    format_ = _input_format(file, form)
    if file == "-":
        result = asyncio.run(_import(sys.stdin.buffer, db, project, name, format_, **options))
    else:
        try:
            stream = Path(file).open("rb")  # noqa: SIM115 - closed below
        except OSError as error:
            raise TargetNotFound(f"{file} cannot be read: {error.strerror}.") from None
        with stream, read_progress(stream) as (watched_stream, _):
            result = asyncio.run(_import(watched_stream, db, project, name, format_, **options))
    if as_json:
        click.echo(format_json(result))
        return
    report = result["report"]
    parts = [f"{report[word]:,} {word}" for word in ("added", "changed", "unchanged", "removed") if report[word]]
    click.echo(
        f"{name}: revision {result['revision']}, {format_count(result['rows'], 'row')} ({', '.join(parts) or 'none'})."
    )
    if report["wrapped"]:
        click.echo(f"{format_count(report['wrapped'], 'value')} that were no objects became rows.", err=True)


def _input_format(file: str, form: str | None) -> "Format":
    if form is not None:
        return cast("Format", form)
    if file == "-":
        raise SettingsError("What standard input holds, nobody can see: give --format jsonl, json, csv or parquet.")
    from palaver.testsets.files.base import format_of

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
    async with use_database(db) as database:
        testset_id = await _find_testset(database, project, name, mode)
        into = ImportTarget(
            testset=testset_id or new_id("ts"), is_new=testset_id is None, mode=mode or "append", key=key
        )
        async with import_file(database, project, into, reader, _read_chunks_async(stream), now=_now) as imported_rows:
            revision = await database.write(_commit, project, name, into, imported_rows, message)
    report = {**msgspec.structs.asdict(imported_rows.counts), "wrapped": imported_rows.wrapped}
    return {
        "testset": into.testset,
        "name": name,
        "revision": revision.number,
        "digest": revision.digest,
        "rows": revision.rows,
        "report": report,
    }


async def _find_testset(database: "Database", project: str, name: str, mode: "ImportMode | None") -> str | None:
    from palaver.storage.testsets import repository as testsets

    testset = await database.read(testsets.find_testset, project, name)
    if testset is not None and mode is None:
        text = f"A test set {name!r} is there already: say --mode append, replace or upsert, or give another --name."
        raise NameTaken(text)
    return None if testset is None else testset.id


def _commit(
    db: "Connection", project: str, name: str, into: "ImportTarget", imported_rows: "ImportedFile", message: str
) -> "Revision":
    from palaver.storage.testsets.repository import TestSet
    from palaver.testsets import commits
    from palaver.testsets.commits import CommitInfo

    at = _now()
    info = CommitInfo(message=message, at=at)
    if into.is_new:
        testset = TestSet(id=into.testset, name=name, created_at=at, updated_at=at)
        return commits.create_testset(db, project, testset, imported_rows.prepared, info)
    return commits.commit(db, project, into.testset, imported_rows.prepared, info)[0]


async def _read_chunks_async(stream: BinaryIO) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(stream.read, _CHUNK_BYTES):
        yield chunk


def _now() -> datetime:
    return datetime.now(UTC)


_CONVERT_CHUNK_BYTES = 256 * 1024


@click.command(name="convert")
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
@click.option(
    "--types",
    type=click.Choice(("auto", "text")),
    default="auto",
    show_default=True,
    help="In CSV: cells mean values, or every cell is a string.",
)
@click.option("--delimiter", metavar="CHARACTER", help="Between the cells of CSV. (as the header tells)")
def convert(source: str, target: str, types: str, delimiter: str | None) -> None:
    """Write the cases of the file IN to the file OUT; the endings of their names tell the formats.

    Known are .jsonl, .json, .csv and .parquet. Nothing is lost on the way, and the way back gives the same cases.

    \b
    Examples:
      palaver testset convert cases.csv cases.jsonl
      palaver testset convert agenta.json cases.parquet
    """
    from palaver.testsets.files import format_of

    formats = format_of(source), format_of(target)
    try:
        with Path(source).open("rb") as stream:
            rows, columns, wrapped = _convert_file(stream, Path(target), *formats, cast("CellTypes", types), delimiter)
    except OSError as error:
        raise TargetNotFound(f"{error.filename or source}: {error.strerror or error}.") from None
    click.echo(f"{rows} rows with {columns} columns are in {target}.", err=True)
    if wrapped:
        click.echo(f"{wrapped} of them were no objects, and are under messages or value.", err=True)


def _convert_file(
    stream: BinaryIO,
    target: Path,
    source_format: "Format",
    target_format: "Format",
    types: "CellTypes",
    delimiter: str | None,
) -> tuple[int, int, int]:
    """Read the file twice, as a header needs the columns first. OUT appears once it is complete."""
    from palaver.testsets.files import read_file, write_file
    from palaver.testsets.limits import DEFAULT_LIMITS

    def read_rows() -> "FileRows":
        stream.seek(0)
        return read_file(_read_chunks(stream), source_format, types=types, delimiter=delimiter)

    columns: dict[str, None] = {}
    meta: set[str] = set()
    first = read_rows()
    for row in first:
        columns |= dict.fromkeys(row.data)
        meta |= (row.meta or {}).keys()
        DEFAULT_LIMITS.check_columns(len(columns))
    header = [name for name in first.report.columns or () if name in columns]
    pieces = write_file(read_rows(), list(dict.fromkeys((*header, *columns))), target_format, meta=sorted(meta))
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with partial.open("wb") as out:
            for piece in pieces:
                out.write(piece)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return first.report.rows, len(columns), first.report.wrapped


def _read_chunks(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(_CONVERT_CHUNK_BYTES):
        yield chunk
