"""palaver backup: all that a database in a file holds, in one zip."""

from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import click
import msgspec

from palaver.cli.databases import command_of_server, file_of, url_of
from palaver.cli.options import db_option
from palaver.errors import SettingsError
from palaver.outbound import printable


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@db_option
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON.")
def command(file: Path, db: str | None, as_json: bool) -> None:
    """Write a backup of the database to FILE, a zip that only you can read; a server may be at work meanwhile.

    For PostgreSQL, use its own programs: the error shows the line.

    \b
    Examples:
      palaver backup palaver-$(date +%F).zip
      palaver backup /mnt/backups/palaver.zip --db /srv/palaver/palaver.db
    """
    from palaver.storage import backup

    url = url_of(db)
    path = file_of(url)
    if path is None:
        line = command_of_server("pg_dump", "--format=custom", f"--file={file}", f"--dbname={url}")
        raise SettingsError(f"PostgreSQL has a program for that: {line}")
    manifest = backup.create_backup(path, file, version=version("palaver"), now=datetime.now(UTC))
    if as_json:
        click.echo(msgspec.json.encode(manifest).decode())
    else:
        size = sum(part.bytes for part in manifest.parts)
        click.echo(printable(f"{file}: {path}, {size:,} bytes, form {manifest.schema}.", 2000))
