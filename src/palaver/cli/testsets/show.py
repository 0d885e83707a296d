"""palaver testset list and show: which sets there are, and what is in one."""

import asyncio
from typing import TYPE_CHECKING, Any

import click
import msgspec

from palaver.cli.databases import using
from palaver.cli.options import db_option, json_option, project_option
from palaver.cli.testsets.asking import as_text, counted, revision_of
from palaver.outbound import printable

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from palaver.storage.testsets.repository import Revision, TestSet
    from palaver.testsets.row_pages import StoredRow

_WIDEST = 60
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
    found = asyncio.run(_listed(db, project, search, archived=archived))
    if as_json:
        click.echo(as_text([_told(one) for one in found]))
        return
    width = max((len(printable(one.name)) for one in found), default=0)
    for one in found:
        rows = counted(one.rows, "row")
        click.echo(f"{printable(one.name):<{width}}  {rows:>14}  revision {one.head}  {one.updated_at:%Y-%m-%d %H:%M}")
    if not found:
        click.echo("No test sets.")


async def _listed(db: str | None, project: str, search: str | None, *, archived: bool) -> "list[TestSet]":
    from palaver.storage.pagination import Window
    from palaver.storage.testsets import repository as testsets  # Late: --help must not wait for SQLAlchemy.

    found: list[TestSet] = []
    async with using(db) as database:
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
    testset, found, history, rows = asyncio.run(_shown(db, project, name, revision, limit))
    if as_json:
        shown = [{"id": row.id, "data": row.data} for row in rows]
        told = _told(testset) | {"revision": _about(found), "history": [_about(one) for one in history], "rows": shown}
        click.echo(as_text(told))
        return
    click.echo(f"{printable(testset.name)}  {counted(found.rows, 'row')}  revision {found.number}  {found.digest[:15]}")
    if testset.description:
        click.echo(printable(testset.description, 500))
    for column in found.columns:
        looks = ", looks like chat" if column.get("looks_like") else ""
        click.echo(f"  {printable(column['name'])}: {column['kind']}{looks}, in {counted(column['present'], 'row')}")
    for one in history:
        click.echo(f"  {one.number}  {one.created_at:%Y-%m-%d %H:%M}  {printable(one.message)}".rstrip())
    for row in rows:
        click.echo(f"{row.id}  {'  '.join(f'{printable(k)}={_cell(v)}' for k, v in row.data.items())}")


async def _shown(
    db: str | None, project: str, name: str, revision: str, limit: int
) -> "tuple[TestSet, Revision, list[Revision], list[StoredRow]]":
    from palaver.storage.pagination import Window
    from palaver.storage.testsets import repository as testset_revisions
    from palaver.testsets import row_pages
    from palaver.testsets.row_filter import RowFilter

    def look(connection: "Connection") -> "tuple[TestSet, Revision, list[Revision], list[StoredRow]]":
        testset, found = revision_of(connection, project, name, revision)
        history = testset_revisions.list_revisions(connection, project, testset.id, Window(10)).data
        rows = row_pages.list_rows(connection, project, found, RowFilter(), Window(limit)).data if limit else []
        return testset, found, history, rows

    async with using(db) as database:
        return await database.read(look)


def _told(testset: "TestSet") -> dict[str, Any]:
    return msgspec.to_builtins(testset)


def _about(revision: "Revision") -> dict[str, Any]:
    return msgspec.to_builtins(revision)


def _cell(value: Any) -> str:
    return printable(msgspec.json.encode(value).decode(), _WIDEST)
