"""palaver testset: import, export, list, show, compare and convert test sets."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click
import msgspec

from palaver.cli.database import load_all_pages, new_id, read_database, use_database
from palaver.cli.input_files import open_input, read_progress
from palaver.cli.options import db_option, json_option, project_option
from palaver.cli.output import error_reason, format_count, format_json, open_output
from palaver.errors import NameTaken, NotFound, TargetNotFound, UnsupportedMediaType
from palaver.outbound import printable

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from palaver.storage.database import Database
    from palaver.storage.testsets.repository import Revision, TestSet
    from palaver.testsets.diff import ChangedRow, Difference
    from palaver.testsets.files import CellTypes, FileRows, Format, RowReader
    from palaver.testsets.importer import ImportedFile, ImportMode, ImportTarget
    from palaver.testsets.row_pages import StoredRow


def require_testset(db: "Connection", project: str, name: str) -> "TestSet":
    """Find a set by name or id. Raises NotFound."""
    from palaver.storage.testsets import repository as testsets  # Imported late: --help must not wait for SQLAlchemy.

    testset = testsets.find_testset(db, project, name)
    if testset is not None:
        return testset
    if name.startswith("ts_"):
        return testsets.get_testset(db, project, name)
    raise NotFound(f"Test set {name[:80]!r} not found. See `palaver testset list`.")


def require_revision(db: "Connection", project: str, name: str, reference: str) -> "tuple[TestSet, Revision]":
    from palaver.storage.testsets import repository as testsets

    testset = require_testset(db, project, name)
    return testset, testsets.get_revision(db, project, testset.id, reference, testset.head)


_FORMAT_CHOICE = click.Choice(("jsonl", "json", "csv", "parquet"))
_revision_option = click.option(
    "--revision", default="head", show_default=True, help="Revision: a number, a digest, or head (the latest)."
)


@click.command(name="export")
@click.argument("name")
@click.option("-o", "--output", metavar="FILE", help="Output file (default: standard output).")
@_revision_option
@click.option(
    "--format", "format_name", type=_FORMAT_CHOICE, help="File format (default: from the file extension, else jsonl)."
)
@click.option("--ids", is_flag=True, help="Include row ids, so that a later import can match rows.")
@project_option("test sets")
@db_option
def export_testset(
    name: str, output: str | None, revision: str, format_name: str | None, ids: bool, project: str, db: str | None
) -> None:
    """Export the rows of a test set.

    \b
    Examples:
      palaver testset export refunds -o refunds.jsonl
      palaver testset export refunds --revision 3 --format csv > refunds.csv
      palaver testset export refunds --ids -o refunds.csv
    """
    file_format = _output_format(output, format_name)
    with open_output(output, sys.stdout.buffer.write) as write:
        rows = asyncio.run(_export(db, project, name, revision, file_format, write, ids=ids))
    if output not in (None, "-"):
        click.echo(f"{output}: {format_count(rows, 'row')}.", err=True)


def _output_format(output: str | None, format_name: str | None) -> "Format":
    if format_name is not None or output is None or output == "-":
        return cast("Format", format_name or "jsonl")
    return _format_of(output)


def _format_of(file: str) -> "Format":
    """Return the format for the file's extension. Raises UsageError."""
    from palaver.testsets.files.base import format_of

    try:
        return format_of(file)
    except UnsupportedMediaType as error:
        raise click.UsageError(error.message) from None


async def _export(
    db: str | None,
    project: str,
    name: str,
    revision: str,
    file_format: "Format",
    write: Callable[[bytes], object],
    *,
    ids: bool,
) -> int:
    from palaver.testsets.export import export_revision

    async with use_database(db) as database:
        _, revision_row = await database.read(require_revision, project, name, revision)
        async for chunk in export_revision(database, project, revision_row, file_format, ids=ids):
            write(chunk)
    return revision_row.rows


_CHUNK_BYTES = 256 * 1024
_now = partial(datetime.now, UTC)


@click.command(name="import")
@click.argument("file", metavar="FILE")
@click.option("--name", help="Test set name (default: file name without extension).")
@click.option(
    "--mode", type=click.Choice(("append", "replace", "upsert")), help="How to update a test set that already exists."
)
@click.option("--key", metavar="COLUMN", help="Column that identifies rows for --mode upsert, or __id__ for row ids.")
@click.option(
    "--types",
    type=click.Choice(("auto", "text")),
    default="auto",
    help="CSV cell types: detect them (default) or read all as text.",
)
@click.option("--delimiter", metavar="CHARACTER", help="CSV delimiter (default: detected).")
@click.option("--format", "format_name", type=_FORMAT_CHOICE, help="File format (default: from the file extension).")
@click.option("--message", default="", help="Description of the revision.")
@project_option("test sets")
@json_option
@db_option
def import_testset(
    file: str, project: str, as_json: bool, db: str | None, format_name: str | None, **options: Any
) -> None:
    """Import a test set from FILE: JSON Lines, JSON, CSV or Parquet.

    Use - for standard input. If any row is invalid, nothing is imported. If a
    test set with this name already exists, --mode is required.

    \b
    Examples:
      palaver testset import cases.csv
      palaver testset import cases.jsonl --name refunds --mode replace
      palaver testset import more.csv --name refunds --mode upsert --key id
    """
    if (options["mode"] == "upsert") != (options["key"] is not None):
        raise click.UsageError(
            "--mode upsert requires --key." if options["key"] is None else "--key requires --mode upsert."
        )
    name: str = options.pop("name") or Path(file).stem
    file_format = _input_format(file, format_name)
    if file == "-":
        result = asyncio.run(_import(sys.stdin.buffer, db, project, name, file_format, **options))
    else:
        with open_input(file) as stream, read_progress(stream) as (watched_stream, _):
            result = asyncio.run(_import(watched_stream, db, project, name, file_format, **options))
    if as_json:
        click.echo(format_json(result))
        return
    report = result["report"]
    parts = [f"{report[word]:,} {word}" for word in ("added", "changed", "unchanged", "removed") if report[word]]
    click.echo(
        f"{name}: revision {result['revision']}, {format_count(result['rows'], 'row')} ({', '.join(parts) or 'empty'})."
    )
    if report["wrapped"]:
        _print_wrapped(report["wrapped"])


def _print_wrapped(count: int) -> None:
    """Print where values were stored that are not objects."""
    values = "1 value that is not an object was" if count == 1 else f"{count:,} values that are not objects were"
    click.echo(f"note: {values} imported into the column 'value' (or 'messages').", err=True)


def _input_format(file: str, format_name: str | None) -> "Format":
    if format_name is not None:
        return cast("Format", format_name)
    if file == "-":
        raise click.UsageError("--format is required when reading from standard input.")
    return _format_of(file)


async def _import(
    stream: BinaryIO,
    db: str | None,
    project: str,
    name: str,
    file_format: "Format",
    *,
    mode: "ImportMode | None",
    key: str | None,
    types: Any,
    delimiter: str | None,
    message: str,
) -> dict[str, Any]:
    from palaver.testsets import files
    from palaver.testsets.importer import ImportTarget

    reader = files.open_reader(file_format, types=types, delimiter=delimiter)
    async with use_database(db) as database:
        testset_id = await _find_testset(database, project, name, mode)
        target = ImportTarget(
            testset=testset_id or new_id("ts"), is_new=testset_id is None, mode=mode or "append", key=key
        )
        imported, revision = await import_rows(
            database, project, name, target, reader, _read_chunks_async(stream), message
        )
    report = {**msgspec.structs.asdict(imported.counts), "wrapped": imported.wrapped}
    return {
        "testset": target.testset,
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
        text = f"Test set {name!r} already exists. Pass --mode append, replace or upsert, or choose another --name."
        raise NameTaken(text)
    return None if testset is None else testset.id


async def import_rows(
    database: "Database",
    project: str,
    name: str,
    target: "ImportTarget",
    reader: "RowReader",
    chunks: AsyncIterator[bytes],
    message: str,
) -> "tuple[ImportedFile, Revision]":
    """Import a file into a test set, in a new revision. `name` is that of a new set."""
    from palaver.testsets.importer import import_file

    async with import_file(database, project, target, reader, chunks, now=_now) as imported:
        return imported, await database.write(_commit, project, name, target, imported, message)


def _commit(
    db: "Connection", project: str, name: str, target: "ImportTarget", imported: "ImportedFile", message: str
) -> "Revision":
    from palaver.storage.testsets.repository import TestSet
    from palaver.testsets import commits
    from palaver.testsets.commits import CommitInfo

    now = _now()
    info = CommitInfo(message=message, at=now)
    if target.is_new:
        testset = TestSet(id=target.testset, name=name, created_at=now, updated_at=now)
        return commits.create_testset(db, project, testset, imported.prepared, info)
    return commits.commit(db, project, target.testset, imported.prepared, info)[0]


async def _read_chunks_async(stream: BinaryIO) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(stream.read, _CHUNK_BYTES):
        yield chunk


@click.command(name="convert")
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
@click.option(
    "--types",
    type=click.Choice(("auto", "text")),
    default="auto",
    show_default=True,
    help="CSV cell types: detect them or read all as text.",
)
@click.option("--delimiter", metavar="CHARACTER", help="CSV delimiter (default: detected from the header).")
def convert_testset(source: str, target: str, types: str, delimiter: str | None) -> None:
    """Convert the test set file IN to the format of OUT.

    The file extensions determine the formats: .jsonl, .json, .csv or .parquet.
    The conversion is lossless; converting back gives the same rows.

    \b
    Examples:
      palaver testset convert cases.csv cases.jsonl
      palaver testset convert agenta.json cases.parquet
    """
    formats = _format_of(source), _format_of(target)
    with open_input(source) as stream:
        try:
            rows, columns, wrapped = _convert_file(stream, Path(target), *formats, cast("CellTypes", types), delimiter)
        except OSError as error:
            raise TargetNotFound(f"Cannot write {target}: {error_reason(error)}.") from None
    click.echo(f"Wrote {format_count(rows, 'row')} with {format_count(columns, 'column')} to {target}.", err=True)
    if wrapped:
        _print_wrapped(wrapped)


def _convert_file(
    stream: BinaryIO,
    target: Path,
    source_format: "Format",
    target_format: "Format",
    types: "CellTypes",
    delimiter: str | None,
) -> tuple[int, int, int]:
    """Read the file twice, as a header needs the columns first. `target` appears once it is complete."""
    from palaver.testsets.columns import ColumnCounter, find_mixed_columns
    from palaver.testsets.files import read_file, write_file
    from palaver.testsets.limits import DEFAULT_LIMITS

    def read_rows() -> "FileRows":
        stream.seek(0)
        return read_file(_read_chunks(stream), source_format, types=types, delimiter=delimiter)

    counter = ColumnCounter(max_columns=DEFAULT_LIMITS.columns)
    meta: set[str] = set()
    first_pass = read_rows()
    for row in first_pass:
        counter.add(row.data)
        meta |= (row.meta or {}).keys()
    columns = [column.name for column in counter.columns()]
    header = [name for name in first_pass.report.columns or () if name in columns]
    names, mixed = list(dict.fromkeys((*header, *columns))), find_mixed_columns(counter.columns())
    pieces = write_file(read_rows(), names, target_format, meta=sorted(meta), mixed=mixed)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as output:
            for piece in pieces:
                output.write(piece)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return first_pass.report.rows, len(columns), first_pass.report.wrapped


def _read_chunks(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK_BYTES):
        yield chunk


_MAX_CELL_CHARS = 60
"""Maximum length of a printed cell."""


@click.command(name="list")
@click.option("--search", help="Only test sets whose name contains this text.")
@click.option("--archived", is_flag=True, help="Include archived test sets.")
@project_option("test sets")
@json_option
@db_option
def list_testsets(search: str | None, archived: bool, project: str, as_json: bool, db: str | None) -> None:
    """List test sets, most recently changed first.

    \b
    Examples:
      palaver testset list
      palaver testset list --search refund --json
    """
    from palaver.storage.testsets import repository

    testsets = load_all_pages(db, repository.list_testsets, project, search=search, archived=archived)
    if as_json:
        click.echo(format_json(testsets))
        return
    width = max((len(printable(testset.name)) for testset in testsets), default=0)
    for testset in testsets:
        rows = format_count(testset.rows, "row")
        updated = f"{testset.updated_at:%Y-%m-%d %H:%M}"
        click.echo(f"{printable(testset.name):<{width}}  {rows:>14}  revision {testset.head}  {updated}")
    if not testsets:
        click.echo("No test sets.")


@click.command(name="show")
@click.argument("name")
@_revision_option
@click.option(
    "--rows", "limit", type=click.IntRange(0, 200), default=10, show_default=True, help="Number of rows to show."
)
@project_option("test sets")
@json_option
@db_option
def show_testset(name: str, revision: str, limit: int, project: str, as_json: bool, db: str | None) -> None:
    """Show a test set: its columns, history and first rows.

    \b
    Examples:
      palaver testset show refunds
      palaver testset show refunds --revision 3 --rows 50 --json
    """
    testset, revision_row, history, rows = read_database(db, _load_testset, project, name, revision, limit)
    if as_json:
        document = msgspec.to_builtins(testset) | {
            "revision": revision_row,
            "history": history,
            "rows": [{"id": row.id, "data": row.data} for row in rows],
        }
        click.echo(format_json(document))
        return
    rows_text = format_count(revision_row.rows, "row")
    click.echo(f"{printable(testset.name)}  {rows_text}  revision {revision_row.number}  {revision_row.digest[:15]}")
    if testset.description:
        click.echo(printable(testset.description, 500))
    for column in revision_row.columns:
        chat_hint = ", looks like a chat" if column.get("looks_like") else ""
        click.echo(
            f"  {printable(column['name'])}: {column['kind']}{chat_hint}, in {format_count(column['present'], 'row')}"
        )
    for listed in history:
        click.echo(f"  {listed.number}  {listed.created_at:%Y-%m-%d %H:%M}  {printable(listed.message)}".rstrip())
    for row in rows:
        click.echo(f"{row.id}  {'  '.join(f'{printable(k)}={_format_cell(v)}' for k, v in row.data.items())}")


def _load_testset(
    db: "Connection", project: str, name: str, revision: str, limit: int
) -> "tuple[TestSet, Revision, list[Revision], list[StoredRow]]":
    from palaver.storage.pagination import Window
    from palaver.storage.testsets import repository as testsets
    from palaver.testsets import row_pages
    from palaver.testsets.row_pages import RowFilter

    testset, revision_row = require_revision(db, project, name, revision)
    history = testsets.list_revisions(db, project, testset.id, Window(10)).data
    rows = row_pages.list_rows(db, project, revision_row, RowFilter(), Window(limit)).data if limit else []
    return testset, revision_row, history, rows


def _format_cell(value: Any, max_chars: int = _MAX_CELL_CHARS) -> str:
    return "(absent)" if value is msgspec.UNSET else printable(msgspec.json.encode(value).decode(), max_chars)


_SIGNS = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}
_MAX_DIFF_CHARS = 200
_DIFF_PAGE_ROWS = 200


@click.command(name="diff")
@click.argument("name")
@click.argument("before", metavar="FROM")
@click.argument("after", metavar="[TO]", default="head")
@project_option("test sets")
@json_option
@db_option
def diff_testset(name: str, before: str, after: str, project: str, as_json: bool, db: str | None) -> None:
    """Show the rows that differ between two revisions.

    TO is the latest revision by default.

    \b
    Examples:
      palaver testset diff refunds 3 4
      palaver testset diff refunds 3 --json
    """
    pages = asyncio.run(_load_diff(db, project, name, before, after))
    rows = [row for page in pages for row in page.rows.data]
    first_page = pages[0]
    if as_json:
        summary = {"counts": first_page.counts, "columns": first_page.columns, "rows": rows}
        click.echo(format_json(summary))
        return
    for row in rows:
        _print_changed_row(row)
    for sign, names in (("+", first_page.columns.added), ("-", first_page.columns.removed)):
        for column in names:
            click.echo(f"{sign} column {printable(column)}")
    counts = msgspec.structs.asdict(first_page.counts)
    summary = ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)
    click.echo(f"{summary}." if summary else "The rows are identical.")


async def _load_diff(db: str | None, project: str, name: str, before: str, after: str) -> "list[Difference]":
    from palaver.storage.pagination import Window
    from palaver.testsets import diff

    def load(connection: "Connection", cursor: str | None) -> "Difference":
        revisions = [require_revision(connection, project, name, reference)[1] for reference in (before, after)]
        return diff.diff_revisions(connection, project, revisions[0], revisions[1], Window(_DIFF_PAGE_ROWS, cursor))

    pages: list[Difference] = []
    async with use_database(db) as database:
        cursor: str | None = None
        while True:
            pages.append(await database.read(load, cursor))
            cursor = pages[-1].rows.next
            if cursor is None:
                return pages


def _print_changed_row(row: "ChangedRow") -> None:
    moved_note = ", moved" if row.moved and row.change != "moved" else ""
    click.echo(f"{_SIGNS[row.change]} {row.id} {row.change}{moved_note}")
    if row.change == "changed":
        for cell in row.cells:
            old, new = (_format_cell(value, _MAX_DIFF_CHARS) for value in (cell.old, cell.new))
            click.echo(f"    {printable(cell.column)}: {old} -> {new}")


@click.group()
def command() -> None:
    """Import, export, show, diff and convert test sets.

    \b
    Examples:
      palaver testset import cases.csv --name refunds
      palaver testset import more.jsonl --name refunds --mode append
      palaver testset list
      palaver testset show refunds
      palaver testset diff refunds 3 4
      palaver testset export refunds -o refunds.jsonl
      palaver testset convert cases.csv cases.jsonl
    """


for _subcommand in (import_testset, export_testset, list_testsets, show_testset, diff_testset, convert_testset):
    command.add_command(_subcommand)
