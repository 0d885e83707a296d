"""palaver backup: write a SQLite database to one zip file."""

from datetime import UTC, datetime
from importlib.metadata import version
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
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON.")
def command(file: Path, db: str | None, as_json: bool) -> None:
    """Back up the database to FILE, a zip archive that only you can read.

    You can run this while the server is running. SQLite only: for PostgreSQL,
    the command prints the pg_dump command to use instead.

    \b
    Examples:
      palaver backup palaver-$(date +%F).zip
      palaver backup /mnt/backups/palaver.zip --db /srv/palaver/palaver.db
    """
    from palaver.storage import backup

    url = database_url(db)
    path = sqlite_path(url)
    if path is None:
        line = postgres_command("pg_dump", "--format=custom", f"--file={file}", f"--dbname={url}")
        raise SettingsError(f"palaver backup supports SQLite only. For PostgreSQL, run: {line}")
    with database_failures():
        manifest = backup.create_backup(path, file, version=version("palaver"), now=datetime.now(UTC))
    if as_json:
        click.echo(msgspec.json.encode(manifest).decode())
    else:
        size = sum(part.bytes for part in manifest.files)
        click.echo(printable(f"Backed up {path} to {file} ({size:,} bytes, schema version {manifest.schema}).", 2000))
