"""palaver demo: everything, offline."""

import os
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import msgspec

from palaver.cli.serve import serve
from palaver.discovery.targets import load_installed
from palaver.errors import PalaverError
from palaver.server.settings import read_settings
from palaver.storage.locking import is_held
from palaver.storage.places import MEMORY, default_path, lock_path
from palaver.workflows.workflow import Workflow


@click.command()
@click.option("--port", type=int, help="Port to listen on (8642, or the next free one).")
@click.option("--no-browser", is_flag=True, help="Do not open the page.")
def command(no_browser: bool, **flags: Any) -> None:
    """Run everything, offline, with sample workflows, and open the page.

    \b
    Example:
      palaver demo --port 9000 --no-browser
    """
    settings, sources = read_settings(flags=flags, env=os.environ, folder=Path.cwd())
    if not settings.db:
        settings = msgspec.structs.replace(settings, db=_database())
    serve(_samples(), settings, sources=sources, or_next=True, started=None if no_browser else _open)


def _samples() -> list[Workflow]:
    """The sample workflows, and of the applications beside them those whose packages are installed."""
    found = [load_installed(name) for name in ("eliza", "calculator", "headline", "echo")]
    with suppress(PalaverError):
        found.append(load_installed("job_chat"))
    return found


def _database() -> str:
    """A file of the demo's own; nothing is kept by a second demo beside the first."""
    path = default_path().with_name("demo.db")
    return MEMORY if is_held(lock_path(path)) else str(path)


def _open(url: str) -> None:
    # A machine without a screen has no browser that webbrowser could find; it says so by returning False.
    if (
        os.environ.get("DISPLAY")
        or os.environ.get("WAYLAND_DISPLAY")
        or os.name == "nt"
        or os.uname().sysname == "Darwin"
    ):
        webbrowser.open(url)
