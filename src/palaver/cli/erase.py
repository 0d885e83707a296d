"""palaver erase: delete the data of a user or a session."""

import asyncio

import click
import msgspec

from palaver.cli.database import use_database
from palaver.cli.options import db_option
from palaver.core.runs import DEFAULT_PROJECT
from palaver.errors import SettingsError


@click.command()
@click.option("--user", metavar="LABEL", help="Whom the caller spoke for, as it said.")
@click.option("--session", metavar="LABEL", help="A session, or the id of a chat.")
@click.option("--project", default=DEFAULT_PROJECT, show_default=True, help="Whose.")
@click.option("--yes", is_flag=True, help="Erase it; without, it is only counted.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@db_option
def command(user: str | None, session: str | None, project: str, yes: bool, as_json: bool, db: str | None) -> None:
    """Erase all runs, responses, conversations, files, spans and opinions that carry a label; without --yes, count.

    A conversation goes as a whole if all its runs carry the label; else what those runs said is taken out of it. Rows
    of test sets that were cut from any of it are copies: they stay, and are named.

    \b
    Examples:
      palaver erase --user ada@example.org
      palaver erase --user ada@example.org --yes
    """
    if (user is None) == (session is None):
        raise SettingsError("Name a user or a session, one of them: --user LABEL or --session LABEL.")
    counts, copies = asyncio.run(_erase(db, project, user, session, yes))
    if as_json:
        click.echo(msgspec.json.encode({**counts, "kept": copies}).decode())
        return
    summary = ", ".join(f"{count} {name}" for name, count in counts.items() if name != "running")
    click.echo(f"Erased: {summary}." if yes else f"Found: {summary}. Nothing was erased: say --yes.")
    if counts["running"]:
        click.echo(f"{counts['running']} runs have not ended, and stay.", err=True)
    if copies:
        click.echo("Kept, as copies in test sets; change or purge these yourself:")
    for row in copies:
        click.echo(f"  {row['testset']}  {row['id']}")


async def _erase(
    db: str | None, project: str, user: str | None, session: str | None, confirmed: bool
) -> tuple[dict[str, int], list[dict[str, str]]]:
    from palaver.engine.engine import utc_now
    from palaver.storage import erasure

    label, value = ("user", user) if user is not None else ("session", session)
    assert value is not None
    async with use_database(db) as database:
        counts = await database.read(erasure.count_labelled_data, project, label, value)
        copies = await database.read(erasure.find_copied_rows, project, label, value)  # Before the erasure.
        while confirmed and await database.write(erasure.erase_labelled_data, project, label, value, utc_now()):
            pass
    return msgspec.structs.asdict(counts), copies
