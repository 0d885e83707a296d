"""palaver worker: run background runs and cells of evaluations, without serving."""

import asyncio
import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from palaver.cli.database import configured_url, database_failures, sqlite_path
from palaver.cli.options import db_option, private_urls_option
from palaver.cli.serve import print_unknown_settings
from palaver.discovery.config import declared_workflows
from palaver.discovery.registry import Registry
from palaver.discovery.workflow_loader import DeclaredEvaluator, load, load_evaluators
from palaver.server import logging_setup
from palaver.server.settings import Settings, read_settings
from palaver.storage.file_lock import FileLock
from palaver.storage.paths import MEMORY_URL, workers_lock_path
from palaver.workflows.workflow import Workflow


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@db_option
@click.option("--runs", type=click.IntRange(1), metavar="N", help="Maximum number of concurrent runs (default: 16).")
@private_urls_option
def command(targets: tuple[str, ...], db: str | None, runs: int | None, allow_private_urls: bool | None) -> None:
    """Process background runs and evaluations of the workflows found in TARGET.

    A worker uses the same database as the servers. With PostgreSQL, it can run
    on any machine; with SQLite, on the same machine as the server. After the
    first stop signal, it accepts no new work, hands over its evaluations and
    finishes its runs. A second signal cancels them.

    \b
    Examples:
      palaver worker app.py
      palaver worker app.py --runs 4 --db postgresql://palaver@db.example/palaver
    """
    flags = {"db": db, "background_runs": runs, "allow_private_urls": allow_private_urls}
    settings, _ = read_settings(flags=flags, env=os.environ, folder=Path.cwd())
    print_unknown_settings(Path.cwd())
    logging_setup.configure_logging(verbose=settings.debug)
    workflows, url = load(targets), configured_url(settings)
    with hold_worker_lock(url):
        asyncio.run(_run_worker(workflows, load_evaluators(targets), settings, url))


@contextmanager
def hold_worker_lock(url: str) -> Generator[None]:
    """Hold a shared lock on a SQLite file during the block. Any number of workers may hold it."""
    path = None if url == MEMORY_URL else sqlite_path(url)
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = FileLock(workers_lock_path(path), "shared")
    with ExitStack() as stack:
        with database_failures():
            stack.enter_context(lock)
        yield


async def _run_worker(
    workflows: list[Workflow], evaluators: list[DeclaredEvaluator], settings: Settings, url: str
) -> None:
    from palaver.server.runtime import ProcessRuntime, run_worker  # Imported late: --help must not wait for SQLAlchemy.
    from palaver.storage.database import open_database
    from palaver.storage.paths import redact_url

    with database_failures():
        database = await asyncio.to_thread(open_database, url)
    connections = declared_workflows(settings.connections, os.environ)
    registry = Registry(workflows, connections=connections, evaluators=evaluators)
    runtime = ProcessRuntime(registry, settings, database, kind="worker")
    names = ", ".join(registry.names())
    text = f"Processing background runs of {names} from {redact_url(url)}, up to {settings.background_runs} at a time"
    await run_worker(runtime, started=lambda: click.echo(f"{text}  (Ctrl+C to stop)", err=True))
