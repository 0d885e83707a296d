"""palaver erase: delete the data of a user or a session."""

import asyncio

import click
import msgspec

from palaver.cli.database import use_database
from palaver.cli.options import db_option
from palaver.cli.output import format_count
from palaver.core.runs import DEFAULT_PROJECT


@click.command()
@click.option("--user", metavar="LABEL", help="Label of the user, as sent by the client.")
@click.option("--session", metavar="LABEL", help="Label of the session, or its chat id.")
@click.option("--project", default=DEFAULT_PROJECT, show_default=True, help="Project that the data belongs to.")
@click.option("--yes", is_flag=True, help="Erase the data instead of only counting it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@db_option
def command(user: str | None, session: str | None, project: str, yes: bool, as_json: bool, db: str | None) -> None:
    """Delete all data for a user or session. Dry run unless --yes is given.

    This covers runs, responses, threads, files, spans and feedback. A thread is
    deleted if all its runs carry the label; otherwise only the messages of the
    labelled runs are deleted. Test set rows copied from this data are kept and
    listed.

    \b
    Examples:
      palaver erase --user ada@example.org
      palaver erase --user ada@example.org --yes
    """
    if (user is None) == (session is None):
        raise click.UsageError("Pass either --user LABEL or --session LABEL.")
    counts, copies = asyncio.run(_erase(db, project, user, session, yes))
    if as_json:
        click.echo(msgspec.json.encode({**counts, "kept": copies}).decode())
        return
    summary = ", ".join(
        format_count(count, "feedback record" if name == "feedback" else name.removesuffix("s"))
        for name, count in counts.items()
        if name != "running"
    )
    click.echo(f"Erased: {summary}." if yes else f"Found: {summary}. Nothing was erased. Pass --yes to erase.")
    if counts["running"]:
        skipped = format_count(counts["running"], "active run")
        click.echo(f"warning: Skipped {skipped}. Run the command again later.", err=True)
    if copies:
        click.echo("Copies kept in test sets (edit or purge them yourself):")
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
