"""palaver restore: replace a database by a backup."""

from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from palaver.cli.database import database_failures, database_url, postgres_command, sqlite_path
from palaver.cli.options import db_option
from palaver.errors import SettingsError
from palaver.outbound import printable


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@db_option
@click.option("--force", is_flag=True, help="Replace an existing database. It is renamed, not deleted.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(file: Path, db: str | None, force: bool, as_json: bool) -> None:
    """Restore a backup from FILE, as written by `palaver backup`.

    The hashes, the schema version and the database of the backup are checked
    first. With --force, an existing database stays in the same folder, with the
    current time added to its name. Stop the server before you restore.

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
        raise SettingsError(f"palaver restore supports SQLite only. For PostgreSQL, run: {line}")
    with database_failures():
        manifest = backup.read_manifest(file)
        kept_paths = [str(copy) for copy in backup.restore_backup(file, path, replace=force, now=datetime.now(UTC))]
    if as_json:
        report = {"database": str(path), "schema": manifest.schema, "made_at": manifest.made_at, "aside": kept_paths}
        click.echo(msgspec.json.encode(report).decode())
        return
    backup_time = f"{manifest.made_at:%Y-%m-%d %H:%M} UTC (schema version {manifest.schema})"
    note = f" The previous database was renamed to {' and '.join(kept_paths)}." if kept_paths else ""
    click.echo(printable(f"Restored {path} from the backup of {backup_time}.{note}", 2000))
