"""palaver worker: a process that takes background runs and serves nobody."""

import asyncio
import os
from pathlib import Path

import click

from palaver.cli.databases import db_option
from palaver.discovery.registry import Registry
from palaver.discovery.targets import load
from palaver.server import logs
from palaver.server.settings import Settings, read_settings
from palaver.storage.places import default_path
from palaver.workflows.workflow import Workflow


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@db_option
@click.option("--runs", type=click.IntRange(1), metavar="N", help="How many runs it has at once (16).")
def command(targets: tuple[str, ...], db: str | None, runs: int | None) -> None:
    """Take runs of the background, of the workflows found in TARGET, from the queue of a database.

    It works beside servers on the same PostgreSQL, wherever it runs, or beside the server of a SQLite file, on the same
    machine. On the first signal to stop it begins nothing more and lets its runs end; on the second it ends them.

    \b
    Examples:
      palaver worker app.py
      palaver worker app.py --runs 4 --db postgresql://palaver@db.example.org/palaver
    """
    flags = {"db": db, "background_runs": runs}
    settings, _ = read_settings(flags=flags, env=os.environ, folder=Path.cwd())
    logs.set_up(verbose=settings.debug)
    asyncio.run(_work(load(targets), settings))


async def _work(workflows: list[Workflow], settings: Settings) -> None:
    from palaver.server.app import Server  # Late: --help must not wait for SQLAlchemy.
    from palaver.server.working import work
    from palaver.storage.database import open_database, redacted

    url = settings.db or str(default_path())
    database = await asyncio.to_thread(open_database, url)
    worker = Server(Registry(workflows), settings, database=database, kind="worker")
    names = ", ".join(workflow.description.name for workflow in workflows)
    told = f"Working on background runs of {names}: {settings.background_runs} at once, from {redacted(url)}"
    await work(worker, started=lambda: click.echo(f"{told}  (Ctrl+C stops)", err=True))
