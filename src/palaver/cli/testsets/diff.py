"""palaver testset diff: where two revisions of a set differ."""

import asyncio
from typing import TYPE_CHECKING, Any

import click
import msgspec

from palaver.cli.databases import using
from palaver.cli.options import db_option, json_option, project_option
from palaver.cli.testsets.asking import as_text, revision_of
from palaver.outbound import printable

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from palaver.testsets.diff import ChangedRow, Difference

_SIGNS = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}
_WIDEST = 200
_AT_ONCE = 200


@click.command()
@click.argument("name")
@click.argument("before", metavar="FROM")
@click.argument("after", metavar="TO", default="head")
@project_option("test sets")
@json_option
@db_option
def diff(name: str, before: str, after: str, project: str, as_json: bool, db: str | None) -> None:
    """Show which rows of NAME came, went, changed or moved between revisions FROM and TO, and which cells.

    \b
    Examples:
      palaver testset diff refunds 3 4
      palaver testset diff refunds 3 --json
    """
    pages = asyncio.run(_compared(db, project, name, before, after))
    rows = [row for page in pages for row in page.rows.data]
    whole = pages[0]
    if as_json:
        told = {"counts": whole.counts, "columns": whole.columns, "rows": rows}
        click.echo(as_text(told))
        return
    for row in rows:
        _print(row)
    for sign, names in (("+", whole.columns.added), ("-", whole.columns.removed)):
        for column in names:
            click.echo(f"{sign} column {printable(column)}")
    counts = msgspec.structs.asdict(whole.counts)
    told = ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)
    click.echo(f"{told}." if told else "They have the same rows.")


async def _compared(db: str | None, project: str, name: str, before: str, after: str) -> "list[Difference]":
    from palaver.storage.pagination import Window
    from palaver.testsets import diff

    def look(connection: "Connection", cursor: str | None) -> "Difference":
        sides = [revision_of(connection, project, name, named)[1] for named in (before, after)]
        return diff.diff_revisions(connection, project, sides[0], sides[1], Window(_AT_ONCE, cursor))

    found: list[Difference] = []
    async with using(db) as database:
        cursor: str | None = None
        while True:
            found.append(await database.read(look, cursor))
            cursor = found[-1].rows.next
            if cursor is None:
                return found


def _print(row: "ChangedRow") -> None:
    moved = ", moved" if row.moved and row.change != "moved" else ""
    click.echo(f"{_SIGNS[row.change]} {row.id} {row.change}{moved}")
    if row.change == "changed":
        for cell in row.cells:
            click.echo(f"    {printable(cell.column)}: {_side(cell.old)} -> {_side(cell.new)}")


def _side(value: Any) -> str:
    return "(absent)" if value is msgspec.UNSET else printable(msgspec.json.encode(value).decode(), _WIDEST)
