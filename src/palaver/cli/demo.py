"""palaver demo: sample workflows and data, offline."""

import asyncio
import logging
import os
import time
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import msgspec

from palaver.cli.serve import serve
from palaver.discovery.workflow_loader import load_installed
from palaver.errors import PalaverError
from palaver.outbound import client as outbound
from palaver.server.settings import read_settings
from palaver.storage.file_lock import is_locked
from palaver.storage.paths import MEMORY_URL, default_path, lock_path
from palaver.workflows.workflow import Workflow


@click.command()
@click.option("--port", type=int, help="Port to listen on (default: 8642 or the next free port).")
@click.option("--no-browser", is_flag=True, help="Don't open the browser.")
@click.option("--fresh", is_flag=True, help="Start over: delete the data of earlier demos.")
def command(no_browser: bool, fresh: bool, **flags: Any) -> None:
    """Run everything offline with sample workflows, and open the browser.

    The first run adds sample conversations, traces, a test set and two
    evaluations. The demo stores its data in a separate database.

    \b
    Examples:
      palaver demo
      palaver demo --fresh --port 9000 --no-browser
    """
    settings, sources = read_settings(flags=flags, env=os.environ, folder=Path.cwd())
    open_page: Callable[[str], None] = (lambda _url: None) if no_browser else _open_browser
    if settings.db and fresh:
        raise click.UsageError("--fresh can't be combined with a configured database (setting 'db').")
    if settings.db:  # The user's own database: no sample data is added.
        serve(_sample_workflows(), settings, sources=sources, use_next_port=True, on_started=open_page)
        return
    shows_tour = settings.tour or sources["tour"] == "default"  # On unless the user turned it off.
    settings = msgspec.structs.replace(settings, db=_demo_database(fresh=fresh), tour=shows_tour)
    serve(_sample_workflows(), settings, sources=sources, use_next_port=True, on_started=_fill_then_open(open_page))


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


def _fill_then_open(open_page: Callable[[str], None]) -> Callable[[str], None]:
    """Return a callback that fills the demo once it serves, and then opens the page."""
    tasks: set[asyncio.Task[None]] = set()  # The loop holds weak references only.

    def on_started(url: str) -> None:
        task = asyncio.get_running_loop().create_task(_fill(url, open_page))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    return on_started


async def _fill(url: str, open_page: Callable[[str], None]) -> None:
    import httpx  # Imported late: --help must not wait for it.

    from palaver.demo.sample_data import create_sample_data

    start, has_filled = time.monotonic(), False

    def print_progress(line: str) -> None:
        nonlocal has_filled
        has_filled = True
        click.echo(f"  adding sample data: {line}", err=True)

    log = logging.getLogger("palaver.access")
    log.addFilter(_drop_record)
    try:
        async with outbound() as http:
            http.base_url = url
            await create_sample_data(http, print_progress)
        elapsed_s = time.monotonic() - start
        status = (
            f"Sample data added in {elapsed_s:.1f} s."
            if has_filled
            else "Using the data of your previous demo (--fresh starts over)."
        )
        click.echo(f"{status} Open {url}", err=True)
    except (httpx.HTTPError, PalaverError) as error:
        reason = str(error).partition("\n")[0]
        click.echo(
            f"warning: Some sample data is missing: {reason}. The demo still works; --fresh tries again.", err=True
        )
    finally:
        log.removeFilter(_drop_record)
        open_page(url)


def _drop_record(_record: logging.LogRecord) -> bool:
    """Hide access log lines while the demo is filled."""
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
