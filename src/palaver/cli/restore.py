"""palaver restore: replace a database by a backup."""

from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from palaver.cli.database import database_url, postgres_command, sqlite_path
from palaver.cli.options import db_option
from palaver.errors import SettingsError
from palaver.outbound import printable


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@db_option
@click.option("--force", is_flag=True, help="Do it although there is a database, which is set aside.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def command(file: Path, db: str | None, force: bool, as_json: bool) -> None:
    """Bring back the backup in FILE, which `palaver backup` made. Nothing is overwritten.

    Before anything is touched, the backup is looked at: its hashes, its form, its database. A database that is there is
    kept beside the new one, under a name that says when. It is refused while a server is at work.

    \b
    Examples:
      palaver restore palaver-2026-11-15.zip
      palaver restore palaver-2026-11-15.zip --force --db /srv/palaver/palaver.db
    """
    from palaver.storage import backup

    url = database_url(db)
    path = sqlite_path(url)
    if path is None:
        line = postgres_command("pg_restore", "--clean", "--if-exists", f"--dbname={url}", str(file))
        raise SettingsError(f"PostgreSQL has a program for that: {line}")
    manifest = backup.read_manifest(file)
    kept_paths = [str(copy) for copy in backup.restore_backup(file, path, replace=force, now=datetime.now(UTC))]
    if as_json:
        report = {"database": str(path), "schema": manifest.schema, "made_at": manifest.made_at, "aside": kept_paths}
        click.echo(msgspec.json.encode(report).decode())
        return
    backup_time = f"{manifest.made_at:%Y-%m-%d %H:%M} UTC, form {manifest.schema}"
    note = f" What was there before is kept as {' and '.join(kept_paths)}." if kept_paths else ""
    click.echo(printable(f"{path} is as it was at {backup_time}.{note}", 2000))
