"""palaver migrate: upgrade a database to this version's schema."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from palaver.cli.database import database_failures, database_url, open_configured_database, sqlite_path
from palaver.cli.options import db_option
from palaver.outbound import printable

if TYPE_CHECKING:
    from palaver.storage.migrations.upgrade import SchemaState


class _MigrationReport(msgspec.Struct, frozen=True, kw_only=True):
    database: str
    before: str | None = msgspec.field(name="from")
    """The previous schema version; null for a new database."""
    to: str
    changed: bool
    copy: str | None = None
    """Path of the copy made before the migration."""


@click.command()
@db_option
@click.option("--dry-run", is_flag=True, help="Show what would change, without changing anything.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(db: str | None, dry_run: bool, as_json: bool) -> None:
    """Upgrade the database schema.

    Servers also do this when they start. A SQLite file is copied first, and the
    copy is kept next to it. Back up a PostgreSQL database yourself first.

    \b
    Examples:
      palaver migrate
      palaver migrate --dry-run
      palaver migrate --db postgresql://palaver@db.example.org/palaver
    """
    url = database_url(db)
    path = sqlite_path(url)
    with database_failures():
        report = _migrate_server(url, dry_run) if path is None else _migrate_file(path, dry_run)
    click.echo(msgspec.json.encode(report).decode() if as_json else printable(_format_summary(report, dry_run), 2000))


def _migrate_file(path: Path, dry_run: bool) -> _MigrationReport:
    from palaver.storage import file_lock
    from palaver.storage.migrations import upgrade

    state = upgrade.file_schema_state(path) if path.exists() else upgrade.SchemaState(None, is_empty=True)
    state.check(str(path))
    copy = None
    if not state.is_current and not dry_run:
        if path.exists():
            with file_lock.exclusive_access(path):
                copy = upgrade.upgrade_file(path)
        else:
            _open_once(str(path))
    return _make_report(str(path), state, dry_run, copy)


def _migrate_server(url: str, dry_run: bool) -> _MigrationReport:
    from palaver.storage.migrations import upgrade
    from palaver.storage.paths import redact_url
    from palaver.storage.postgres import create_postgres_engine

    display_url = redact_url(url)
    engine = create_postgres_engine(url)
    try:
        state = upgrade.server_schema_state(engine, display_url)
        state.check(display_url)
    finally:
        engine.dispose()
    if not state.is_current and not dry_run:
        _open_once(url)
    return _make_report(display_url, state, dry_run)


def _make_report(database: str, state: "SchemaState", dry_run: bool, copy: Path | None = None) -> _MigrationReport:
    from palaver.storage.migrations.upgrade import SCHEMA_VERSION

    return _MigrationReport(
        database=database,
        before=state.version,
        to=SCHEMA_VERSION,
        changed=not state.is_current and not dry_run,
        copy=None if copy is None else str(copy),
    )


def _open_once(url: str) -> None:
    """Open and close the database, which migrates it."""
    asyncio.run(open_configured_database(url).close())


def _format_summary(report: _MigrationReport, dry_run: bool) -> str:
    if report.before == report.to:
        return f"{report.database} is up to date (schema version {report.to})."
    if report.before is None:
        return f"{'Would create' if dry_run else 'Created'} {report.database} (schema version {report.to})."
    verb = "Would upgrade" if dry_run else "Upgraded"
    text = f"{verb} {report.database} from schema version {report.before} to {report.to}."
    return text + (f" A copy of the previous version is in {report.copy}." if report.copy else "")
