"""palaver testset: the group, and `list`, `show` and `diff`."""

import asyncio
from typing import TYPE_CHECKING, Any

import click
import msgspec

from palaver.cli.database import use_database
from palaver.cli.options import db_option, json_option, project_option
from palaver.cli.output import format_count, format_json
from palaver.cli.testset.files import convert, export, import_
from palaver.cli.testset.selection import require_revision
from palaver.outbound import printable

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from palaver.storage.testsets.repository import Revision, TestSet
    from palaver.testsets.diff import ChangedRow, Difference
    from palaver.testsets.row_pages import StoredRow


_MAX_CELL_CHARS = 60
"""Characters of a cell on the screen."""


@click.command(name="list")
@click.option("--search", help="Only those with this in their names.")
@click.option("--archived", is_flag=True, help="Archived ones too.")
@project_option("test sets")
@json_option
@db_option
def list_(search: str | None, archived: bool, project: str, as_json: bool, db: str | None) -> None:
    """List the test sets, last changed first.

    \b
    Examples:
      palaver testset list
      palaver testset list --search refund --json
    """
    found = asyncio.run(_load_testsets(db, project, search, archived=archived))
    if as_json:
        click.echo(format_json([_testset_json(one) for one in found]))
        return
    width = max((len(printable(one.name)) for one in found), default=0)
    for one in found:
        rows = format_count(one.rows, "row")
        click.echo(f"{printable(one.name):<{width}}  {rows:>14}  revision {one.head}  {one.updated_at:%Y-%m-%d %H:%M}")
    if not found:
        click.echo("No test sets.")


async def _load_testsets(db: str | None, project: str, search: str | None, *, archived: bool) -> "list[TestSet]":
    from palaver.storage.pagination import Window
    from palaver.storage.testsets import repository as testsets  # Late: --help must not wait for SQLAlchemy.

    found: list[TestSet] = []
    async with use_database(db) as database:
        after: str | None = None
        while True:
            window = Window(200, after)
            page = await database.read(testsets.list_testsets, project, search=search, archived=archived, window=window)
            found += page.data
            after = page.next
            if after is None:
                return found


@click.command()
@click.argument("name")
@click.option("--revision", default="head", show_default=True, help="A number, or a digest.")
@click.option("--rows", "limit", type=click.IntRange(0, 200), default=10, show_default=True, help="How many to show.")
@project_option("test sets")
@json_option
@db_option
def show(name: str, revision: str, limit: int, project: str, as_json: bool, db: str | None) -> None:
    """Show what NAME has: its columns, its history, and its first rows.

    \b
    Examples:
      palaver testset show refunds
      palaver testset show refunds --revision 3 --rows 50 --json
    """
    testset, found, history, rows = asyncio.run(_load_testset(db, project, name, revision, limit))
    if as_json:
        shown = [{"id": row.id, "data": row.data} for row in rows]
        told = _testset_json(testset) | {
            "revision": _revision_json(found),
            "history": [_revision_json(one) for one in history],
            "rows": shown,
        }
        click.echo(format_json(told))
        return
    click.echo(
        f"{printable(testset.name)}  {format_count(found.rows, 'row')}  revision {found.number}  {found.digest[:15]}"
    )
    if testset.description:
        click.echo(printable(testset.description, 500))
    for column in found.columns:
        looks = ", looks like chat" if column.get("looks_like") else ""
        click.echo(
            f"  {printable(column['name'])}: {column['kind']}{looks}, in {format_count(column['present'], 'row')}"
        )
    for one in history:
        click.echo(f"  {one.number}  {one.created_at:%Y-%m-%d %H:%M}  {printable(one.message)}".rstrip())
    for row in rows:
        click.echo(f"{row.id}  {'  '.join(f'{printable(k)}={_format_cell(v)}' for k, v in row.data.items())}")


async def _load_testset(
    db: str | None, project: str, name: str, revision: str, limit: int
) -> "tuple[TestSet, Revision, list[Revision], list[StoredRow]]":
    from palaver.storage.pagination import Window
    from palaver.storage.testsets import repository as testset_revisions
    from palaver.testsets import row_pages
    from palaver.testsets.row_filter import RowFilter

    def look(connection: "Connection") -> "tuple[TestSet, Revision, list[Revision], list[StoredRow]]":
        testset, found = require_revision(connection, project, name, revision)
        history = testset_revisions.list_revisions(connection, project, testset.id, Window(10)).data
        rows = row_pages.list_rows(connection, project, found, RowFilter(), Window(limit)).data if limit else []
        return testset, found, history, rows

    async with use_database(db) as database:
        return await database.read(look)


def _testset_json(testset: "TestSet") -> dict[str, Any]:
    return msgspec.to_builtins(testset)


def _revision_json(revision: "Revision") -> dict[str, Any]:
    return msgspec.to_builtins(revision)


def _format_cell(value: Any) -> str:
    return printable(msgspec.json.encode(value).decode(), _MAX_CELL_CHARS)


_SIGNS = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}
_MAX_SIDE_CHARS = 200
_DIFF_PAGE_ROWS = 200


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
    pages = asyncio.run(_load_diff(db, project, name, before, after))
    rows = [row for page in pages for row in page.rows.data]
    whole = pages[0]
    if as_json:
        told = {"counts": whole.counts, "columns": whole.columns, "rows": rows}
        click.echo(format_json(told))
        return
    for row in rows:
        _print_changed_row(row)
    for sign, names in (("+", whole.columns.added), ("-", whole.columns.removed)):
        for column in names:
            click.echo(f"{sign} column {printable(column)}")
    counts = msgspec.structs.asdict(whole.counts)
    told = ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)
    click.echo(f"{told}." if told else "They have the same rows.")


async def _load_diff(db: str | None, project: str, name: str, before: str, after: str) -> "list[Difference]":
    from palaver.storage.pagination import Window
    from palaver.testsets import diff

    def look(connection: "Connection", cursor: str | None) -> "Difference":
        sides = [require_revision(connection, project, name, named)[1] for named in (before, after)]
        return diff.diff_revisions(connection, project, sides[0], sides[1], Window(_DIFF_PAGE_ROWS, cursor))

    found: list[Difference] = []
    async with use_database(db) as database:
        cursor: str | None = None
        while True:
            found.append(await database.read(look, cursor))
            cursor = found[-1].rows.next
            if cursor is None:
                return found


def _print_changed_row(row: "ChangedRow") -> None:
    moved = ", moved" if row.moved and row.change != "moved" else ""
    click.echo(f"{_SIGNS[row.change]} {row.id} {row.change}{moved}")
    if row.change == "changed":
        for cell in row.cells:
            click.echo(f"    {printable(cell.column)}: {_format_side(cell.old)} -> {_format_side(cell.new)}")


def _format_side(value: Any) -> str:
    return "(absent)" if value is msgspec.UNSET else printable(msgspec.json.encode(value).decode(), _MAX_SIDE_CHARS)


@click.group()
def command() -> None:
    """Bring test sets in and out, look at them, compare their revisions.

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


for _subcommand in (import_, export, list_, show, diff, convert):
    command.add_command(_subcommand)
