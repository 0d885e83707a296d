"""palaver testset convert: a file of cases in another format, without a database."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import click

from palaver.errors import TargetNotFound

if TYPE_CHECKING:
    from palaver.testsets.files import CellTypes, FileRows, Format

_PIECE = 256 * 1024


@click.command()
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
            rows, columns, wrapped = _converted(stream, Path(target), *formats, cast("CellTypes", types), delimiter)
    except OSError as error:
        raise TargetNotFound(f"{error.filename or source}: {error.strerror or error}.") from None
    click.echo(f"{rows} rows with {columns} columns are in {target}.", err=True)
    if wrapped:
        click.echo(f"{wrapped} of them were no objects, and are under messages or value.", err=True)


def _converted(
    stream: BinaryIO, target: Path, given: "Format", form: "Format", types: "CellTypes", delimiter: str | None
) -> tuple[int, int, int]:
    """Go over the file twice: which columns there are, a header has to tell first. OUT is there when all is written."""
    from palaver.testsets.files import read_file, write_file
    from palaver.testsets.limits import DEFAULT_LIMITS

    def reading() -> "FileRows":
        stream.seek(0)
        return read_file(_pieces(stream), given, types=types, delimiter=delimiter)

    columns: dict[str, None] = {}
    meta: set[str] = set()
    first = reading()
    for row in first:
        columns |= dict.fromkeys(row.data)
        meta |= (row.meta or {}).keys()
        DEFAULT_LIMITS.check_columns(len(columns))
    header = [name for name in first.report.columns or () if name in columns]
    pieces = write_file(reading(), list(dict.fromkeys((*header, *columns))), form, meta=sorted(meta))
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with unfinished.open("wb") as out:
            for piece in pieces:
                out.write(piece)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return first.report.rows, len(columns), first.report.wrapped


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    while piece := stream.read(_PIECE):
        yield piece
