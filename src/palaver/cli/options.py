"""Options that several commands have."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from palaver.core.runs import DEFAULT_PROJECT
from palaver.errors import SettingsError

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def db_option(command: CommandT) -> CommandT:
    """Add --db: `def command(db: str | None)`."""
    text = "Database file, sqlite:///path or postgresql://host/name (default: palaver.db in your data folder)."
    return click.option("--db", metavar="URL", help=text, callback=_check_url)(command)


def _check_url(_context: click.Context, _option: click.Parameter, url: str | None) -> str | None:
    if url is None:
        return None
    from palaver.cli.database import check_database_url

    try:
        check_database_url(url)
    except SettingsError as error:
        raise click.BadParameter(error.message) from None
    return url


def json_option(command: CommandT) -> CommandT:
    """Add --json: `def command(as_json: bool)`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def project_option(items: str) -> Callable[[CommandT], CommandT]:
    """Add --project, whose help names `items`: `def command(project: str)`."""
    return click.option(
        "--project", default=DEFAULT_PROJECT, show_default=True, help=f"Project that the {items} belong to."
    )


private_urls_option = click.option(
    "--allow-private-urls",
    is_flag=True,
    default=None,
    help="Allow user-supplied URLs to reach localhost and private networks (disables SSRF protection).",
)
