"""palaver testset export: a revision as a file, to be kept beside the code."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from palaver.cli.databases import using
from palaver.cli.options import db_option, project_option
from palaver.cli.testsets.asking import counted, revision_of
from palaver.errors import SettingsError, TargetNotFound, UnsupportedMediaType

if TYPE_CHECKING:
    from palaver.testsets.files import Format


@click.command()
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
    chosen = _format(output, form)
    if output is None or output == "-":
        asyncio.run(_export(db, project, name, revision, chosen, sys.stdout.buffer.write, ids=ids))
        sys.stdout.buffer.flush()
        return
    try:
        with Path(output).open("wb") as stream:
            rows = asyncio.run(_export(db, project, name, revision, chosen, stream.write, ids=ids))
    except OSError as error:
        raise TargetNotFound(f"{output} cannot be written: {error.strerror}.") from None
    click.echo(f"{output}: {counted(rows, 'row')}.", err=True)


def _format(output: str | None, form: str | None) -> "Format":
    if form is not None or output is None or output == "-":
        return cast("Format", form or "jsonl")
    from palaver.testsets.files.formats import format_of

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

    async with using(db) as database:
        _, found = await database.read(revision_of, project, name, revision)
        async for piece in export_revision(database, project, found, form, ids=ids):
            write(piece)
    return found.rows
