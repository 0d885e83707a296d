"""palaver key: create, list and revoke keys."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from palaver.cli.database import database_url, read_database, write_database
from palaver.cli.options import db_option
from palaver.cli.output import align_columns, format_json
from palaver.core import api_keys
from palaver.core.runs import DEFAULT_PROJECT
from palaver.errors import NotFound, RequestError
from palaver.outbound import printable

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from palaver.storage.api_keys import ApiKey


@click.group()
def command() -> None:
    """Create, list and revoke API keys.

    As soon as a key exists, every request needs one. While there is none, a
    server accepts local connections only and gives them full access.

    \b
    Examples:
      palaver key create --name laptop
      palaver key create --scope invoke --project team-a --expires 90d
      palaver key list
      palaver key revoke key_8h2k4m6p
    """


@command.command(name="create")
@click.option("--name", default="unnamed", show_default=True, help="Name shown in lists.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    default=("invoke", "read"),
    help="invoke: call workflows; read: read stored data; admin: everything. Repeatable (default: invoke and read).",
)
@click.option("--project", default=DEFAULT_PROJECT, show_default=True, help="Project that the key belongs to.")
@click.option(
    "--expires",
    metavar="WHEN",
    help="Expiry: a duration such as 90d or 12h, or the last valid day, such as 2026-12-31 (default: never).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the key and its details as JSON.")
@db_option
def create(
    name: str, scopes: tuple[str, ...], project: str, expires: str | None, as_json: bool, db: str | None
) -> None:
    """Create an API key. It is shown only once.

    Prints the key to standard output. Everything else goes to standard error.

    \b
    Examples:
      palaver key create --name laptop
      palaver key create --scope read --expires 90d --name "nightly job"
      export PALAVER_KEY=$(palaver key create --scope admin)
    """
    now = datetime.now(UTC)
    try:
        options = {
            "name": api_keys.check_key_name(name),
            "scopes": api_keys.parse_scopes(scopes),
            "project": api_keys.check_project(project),
            "expires_at": api_keys.parse_expiry(expires, now=now) if expires is not None else None,
        }
    except RequestError as error:
        raise click.UsageError(error.message) from None
    key, secret, is_first = write_database(db, _create, options, now)
    click.echo(format_json(_key_json(key) | {"secret": secret}) if as_json else secret)
    _print_notes(key, is_first=is_first, db=db)


def _print_notes(key: "ApiKey", *, is_first: bool, db: str | None) -> None:
    from palaver.storage.database import printable_location

    location = printable_location(database_url(db))
    scopes = ", ".join(api_keys.minimal_scopes(key.scopes))
    click.echo(f"Created {api_keys.format_key_id(key.id)} ({scopes}) in {printable(location, 500)}.", err=True)
    if not is_first:
        return
    click.echo(
        "warning: This is the first key. Servers that use this database now reject requests without a key.", err=True
    )
    if "admin" not in key.scopes:
        option = f" --db {shlex.quote(printable(location, 500))}" if db is not None and "***" not in location else ""
        click.echo(
            f"hint: To manage the server in the web interface, run `palaver key create --scope admin{option}`.",
            err=True,
        )


def _create(db: "Connection", options: dict[str, Any], now: datetime) -> "tuple[ApiKey, str, bool]":
    """Store a new key. Return it with its secret, and whether it is the first key of the database."""
    from palaver.storage import api_keys as stored_keys  # Imported late: --help must not wait for SQLAlchemy.
    from palaver.storage import projects
    from palaver.storage.projects import Project

    is_first = not stored_keys.list_all_keys(db, None)
    key, secret = stored_keys.new_api_key(**options, now=now)
    projects.insert_project(db, Project(name=key.project, created_at=now))
    stored_keys.insert_key(db, key)
    return key, secret, is_first


@command.command(name="list")
@click.option("--project", help="Only keys of this project.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@db_option
def list_keys(project: str | None, as_json: bool, db: str | None) -> None:
    """List API keys, including revoked ones, without their secrets.

    \b
    Examples:
      palaver key list
      palaver key list --project team-a --json
    """
    from palaver.storage import api_keys as stored_keys

    keys = read_database(db, stored_keys.list_all_keys, project)
    if as_json:
        click.echo(format_json([_key_json(key) for key in keys]))
    else:
        _print_table(keys)


@command.command(name="revoke")
@click.argument("key", metavar="KEY")
@click.option("--json", "as_json", is_flag=True, help="Print the revoked key as JSON.")
@db_option
def revoke(key: str, as_json: bool, db: str | None) -> None:
    """Revoke an API key, given by its id or in full.

    Further requests with the key are rejected, and its open streams end.

    \b
    Example:
      palaver key revoke key_8h2k4m6p
    """
    parsed = api_keys.parse_key(key)
    key_id = parsed.id if parsed else api_keys.parse_key_id(key)
    revoked = write_database(db, _revoke, key_id) if key_id else None
    if revoked is None:
        raise NotFound(
            f"API key {api_keys.format_key_id(parsed.id) if parsed else key[:40]!r} not found. See `palaver key list`."
        )
    text = f"Revoked {api_keys.format_key_id(revoked.id)} ({printable(revoked.name)}) in project {revoked.project}."
    click.echo(format_json(_key_json(revoked)) if as_json else text)


def _revoke(db: "Connection", key_id: str) -> "ApiKey | None":
    from palaver.storage import api_keys as stored_keys

    rows = stored_keys.find_keys(db, [key_id])
    return stored_keys.revoke_key(db, rows[0].project, key_id, at=datetime.now(UTC)) if rows else None


# Formatting


def _key_json(key: "ApiKey") -> dict[str, Any]:
    fields = msgspec.structs.asdict(key)
    del fields["hash"]
    made_by = api_keys.format_key_id(key.made_by) if key.made_by else None
    return fields | {
        "id": api_keys.format_key_id(key.id),
        "scopes": api_keys.minimal_scopes(key.scopes),
        "made_by": made_by,
    }


def _print_table(keys: "Sequence[ApiKey]") -> None:
    if not keys:
        click.echo("No keys.")
        return
    rows = [("id", "project", "scopes", "state", "last used", "name")]
    rows += [
        (
            api_keys.format_key_id(key.id),
            key.project,
            ",".join(api_keys.minimal_scopes(key.scopes)),
            _format_state(key),
            f"{key.last_used_at:%Y-%m-%d}" if key.last_used_at else "never",
            printable(key.name),
        )
        for key in keys
    ]
    for line in align_columns(rows):
        click.echo(line)


def _format_state(key: "ApiKey") -> str:
    if key.revoked_at is not None:
        return f"revoked {key.revoked_at:%Y-%m-%d}"
    if key.expires_at is None:
        return "active"
    state = "active until" if key.is_valid(datetime.now(UTC)) else "expired"
    return f"{state} {key.expires_at:%Y-%m-%d %H:%M}"
