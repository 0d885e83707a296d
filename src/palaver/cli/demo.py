"""palaver demo: sample workflows and data, offline."""

import asyncio
import logging
import os
import time
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import msgspec

from palaver.cli.serve import serve
from palaver.discovery.workflow_loader import load_installed
from palaver.errors import PalaverError
from palaver.outbound import client as outbound
from palaver.server.settings import Settings, read_settings
from palaver.storage.file_lock import is_locked
from palaver.storage.paths import MEMORY_URL, default_path, lock_path
from palaver.workflows.workflow import Workflow

_SHUTDOWN_SECONDS = 0.5
"""Nothing in a demo is worth a longer wait after Ctrl+C."""


@click.command()
@click.option("--port", type=int, help="Port to listen on (default: 8642 or the next free port).")
@click.option("--no-browser", is_flag=True, help="Don't open the browser.")
@click.option("--fresh", is_flag=True, help="Start over: delete the data of earlier demos.")
def command(no_browser: bool, fresh: bool, **flags: Any) -> None:
    """Start a demo server with sample workflows and data, and open it in the browser.

    Works offline. The first run adds sample threads, traces, a test set, two
    evaluations and a review. The demo stores its data in a separate database.

    \b
    Examples:
      palaver demo
      palaver demo --fresh --port 9000 --no-browser
    """
    settings, sources = read_settings(flags=flags, env=os.environ, folder=Path.cwd())
    if settings.db and fresh:
        raise click.UsageError("--fresh can't be combined with a configured database (setting 'db').")
    fills = not settings.db  # No sample data is added to the user's own database.
    if fills:
        shows_tour = settings.tour or sources["tour"] == "default"  # On unless the user turned it off.
        settings = msgspec.structs.replace(settings, db=_demo_database(fresh=fresh), tour=shows_tour)
    if sources["shutdown_seconds"] == "default":
        settings = msgspec.structs.replace(settings, shutdown_seconds=_SHUTDOWN_SECONDS)

    def on_ready(url: str) -> None:
        click.echo(f"\nServing at {url}  (Ctrl+C to stop)\n{_suggestion(settings)}", err=True)
        if not no_browser:
            _open_browser(url)

    workflows = _sample_workflows()
    names = ", ".join(workflow.description.name for workflow in workflows)
    click.echo(f"Palaver {version('palaver')} with {len(workflows)} sample workflows: {names}", err=True)
    on_started = partial(_start_fill, on_ready) if fills else on_ready
    if not settings.debug:
        logging.getLogger("palaver.access").addFilter(_drop_record)
    serve(workflows, settings, sources=sources, use_next_port=True, on_started=on_started)


def _suggestion(settings: Settings) -> str:
    """Return one line on what to try first."""
    tour = ", or follow the tour in the sidebar" if settings.tour else ""
    return f'Try: open the address in a browser, choose calculator and ask "What is 2 + 3 * 4?"{tour}.'


def _sample_workflows() -> list[Workflow]:
    """Load the sample workflows, and the applications whose packages are installed."""
    workflows = [load_installed(name) for name in ("eliza", "calculator", "headline", "echo")]
    with suppress(PalaverError):
        workflows.append(load_installed("job_chat"))
    return workflows


def _demo_database(*, fresh: bool) -> str:
    """Return the demo's database file; a second demo runs in memory."""
    path = default_path().with_name("demo.db")
    if is_locked(lock_path(path)):
        return MEMORY_URL
    if fresh:
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    return str(path)


def _start_fill(on_ready: Callable[[str], None], url: str) -> asyncio.Task[None]:
    """Fill the demo, which serves already, and then call `on_ready`."""
    return asyncio.get_running_loop().create_task(_fill(url, on_ready))


async def _fill(url: str, on_ready: Callable[[str], None]) -> None:
    import httpx  # Imported late: --help must not wait for it.

    from palaver.demo.sample_data import create_sample_data

    start, has_started = time.monotonic(), False

    def report_start() -> None:
        nonlocal has_started
        has_started = True
        click.echo("Adding sample data…", err=True, nl=False)

    try:
        async with outbound() as http:
            http.base_url = url
            await create_sample_data(http, report_start)
        if has_started:
            click.echo(f" {time.monotonic() - start:.0f} s", err=True)
        else:
            click.echo("Using the data of your previous demo (--fresh starts over).", err=True)
    except asyncio.CancelledError:  # The demo is being stopped.
        if has_started:
            click.echo("\nwarning: Stopped before all sample data was added; --fresh starts over.", err=True)
        raise
    except (httpx.HTTPError, PalaverError) as error:
        reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        click.echo(
            f"\nwarning: Some sample data could not be added: {reason}. The demo still works; --fresh tries again.",
            err=True,
        )
    on_ready(url)


def _drop_record(_record: logging.LogRecord) -> bool:
    """Hide the access log, which would scroll the address away."""
    return False


def _open_browser(url: str) -> None:
    # Without a display webbrowser finds no browser and returns False.
    if (
        os.environ.get("DISPLAY")
        or os.environ.get("WAYLAND_DISPLAY")
        or os.name == "nt"
        or os.uname().sysname == "Darwin"
    ):
        webbrowser.open(url)
