"""palaver demo: everything, offline."""

import os
import webbrowser
from pathlib import Path
from typing import Any

import click

from palaver.cli.serve import serve
from palaver.server.settings import read_settings


@click.command()
@click.option("--port", type=int, help="Port to listen on (8642, or the next free one).")
@click.option("--no-browser", is_flag=True, help="Do not open the page.")
def command(no_browser: bool, **flags: Any) -> None:
    """Run everything, offline, with sample workflows, and open the page.

    \b
    Example:
      palaver demo --port 9000 --no-browser
    """
    from palaver import demo

    settings, _ = read_settings(flags=flags, env=os.environ, folder=Path.cwd())
    workflows = [demo.eliza, demo.calculator, demo.headline, demo.echo]
    serve(workflows, settings, or_next=True, started=None if no_browser else _open)


def _open(url: str) -> None:
    # A machine without a screen has no browser that webbrowser could find; it says so by returning False.
    if (
        os.environ.get("DISPLAY")
        or os.environ.get("WAYLAND_DISPLAY")
        or os.name == "nt"
        or os.uname().sysname == "Darwin"
    ):
        webbrowser.open(url)
