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
"""Of a printed cell."""


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
    testsets = asyncio.run(_load_testsets(db, project, search, archived=archived))
    if as_json:
        click.echo(format_json([_testset_json(testset) for testset in testsets]))
        return
    width = max((len(printable(testset.name)) for testset in testsets), default=0)
    for testset in testsets:
        rows = format_count(testset.rows, "row")
        updated = f"{testset.updated_at:%Y-%m-%d %H:%M}"
        click.echo(f"{printable(testset.name):<{width}}  {rows:>14}  revision {testset.head}  {updated}")
    if not testsets:
        click.echo("No test sets.")


async def _load_testsets(db: str | None, project: str, search: str | None, *, archived: bool) -> "list[TestSet]":
    from palaver.storage.pagination import Window
    from palaver.storage.testsets import repository as testsets  # Imported late: --help must not wait for SQLAlchemy.

    rows: list[TestSet] = []
    async with use_database(db) as database:
        after: str | None = None
        while True:
            window = Window(200, after)
            page = await database.read(testsets.list_testsets, project, search=search, archived=archived, window=window)
            rows += page.data
            after = page.next
            if after is None:
                return rows


@click.command(name="show")
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
    testset, revision_row, history, rows = asyncio.run(_load_testset(db, project, name, revision, limit))
    if as_json:
        row_objects = [{"id": row.id, "data": row.data} for row in rows]
        document = _testset_json(testset) | {
            "revision": _revision_json(revision_row),
            "history": [_revision_json(older) for older in history],
            "rows": row_objects,
        }
        click.echo(format_json(document))
        return
    rows_text = format_count(revision_row.rows, "row")
    click.echo(f"{printable(testset.name)}  {rows_text}  revision {revision_row.number}  {revision_row.digest[:15]}")
    if testset.description:
        click.echo(printable(testset.description, 500))
    for column in revision_row.columns:
        chat_hint = ", looks like chat" if column.get("looks_like") else ""
        click.echo(
            f"  {printable(column['name'])}: {column['kind']}{chat_hint}, in {format_count(column['present'], 'row')}"
        )
    for older in history:
        click.echo(f"  {older.number}  {older.created_at:%Y-%m-%d %H:%M}  {printable(older.message)}".rstrip())
    for row in rows:
        click.echo(f"{row.id}  {'  '.join(f'{printable(k)}={_format_cell(v)}' for k, v in row.data.items())}")


async def _load_testset(
    db: str | None, project: str, name: str, revision: str, limit: int
) -> "tuple[TestSet, Revision, list[Revision], list[StoredRow]]":
    from palaver.storage.pagination import Window
    from palaver.storage.testsets import repository as testset_revisions
    from palaver.testsets import row_pages
    from palaver.testsets.row_pages import RowFilter

    def load(connection: "Connection") -> "tuple[TestSet, Revision, list[Revision], list[StoredRow]]":
        testset, revision_row = require_revision(connection, project, name, revision)
        history = testset_revisions.list_revisions(connection, project, testset.id, Window(10)).data
        rows = row_pages.list_rows(connection, project, revision_row, RowFilter(), Window(limit)).data if limit else []
        return testset, revision_row, history, rows

    async with use_database(db) as database:
        return await database.read(load)


def _testset_json(testset: "TestSet") -> dict[str, Any]:
    return msgspec.to_builtins(testset)


def _revision_json(revision: "Revision") -> dict[str, Any]:
    return msgspec.to_builtins(revision)


def _format_cell(value: Any) -> str:
    return printable(msgspec.json.encode(value).decode(), _MAX_CELL_CHARS)


_SIGNS = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}
_MAX_SIDE_CHARS = 200
_DIFF_PAGE_ROWS = 200


@click.command(name="diff")
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
    click.echo(f"{summary}." if summary else "They have the same rows.")


async def _load_diff(db: str | None, project: str, name: str, before: str, after: str) -> "list[Difference]":
    from palaver.storage.pagination import Window
    from palaver.testsets import diff

    def load(connection: "Connection", cursor: str | None) -> "Difference":
        sides = [require_revision(connection, project, name, named)[1] for named in (before, after)]
        return diff.diff_revisions(connection, project, sides[0], sides[1], Window(_DIFF_PAGE_ROWS, cursor))

    pages: list[Difference] = []
    async with use_database(db) as database:
        cursor: str | None = None
        while True:
            pages.append(await database.read(load, cursor))
            cursor = pages[-1].rows.next
            if cursor is None:
                return pages


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
