"""Options that several commands have."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from palaver.core.runs import DEFAULT_PROJECT

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def db_option(command: CommandT) -> CommandT:
    """Add --db: `def command(db: str | None)`."""
    text = "A file, sqlite:///path or postgresql://host/name (palaver.db in your data folder)."
    return click.option("--db", metavar="URL", help=text)(command)


def json_option(command: CommandT) -> CommandT:
    """Add --json: `def command(as_json: bool)`."""
    return click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")(command)


def project_option(items: str) -> Callable[[CommandT], CommandT]:
    """Add --project, whose help names `items`: `def command(project: str)`."""
    return click.option("--project", default=DEFAULT_PROJECT, show_default=True, help=f"Whose {items}.")


private_urls_option = click.option(
    "--allow-private-urls",
    is_flag=True,
    default=None,
    help="Let URLs that come over HTTP lead to this machine and to private networks.",
)
