"""palaver demo: everything, offline."""

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
from palaver.discovery.targets import load_installed
from palaver.errors import PalaverError, SettingsError
from palaver.outbound import client as outbound
from palaver.server.settings import read_settings
from palaver.storage.file_lock import is_locked
from palaver.storage.paths import MEMORY_URL, default_path, lock_path
from palaver.workflows.workflow import Workflow


@click.command()
@click.option("--port", type=int, help="Port to listen on (8642, or the next free one).")
@click.option("--no-browser", is_flag=True, help="Do not open the page.")
@click.option("--fresh", is_flag=True, help="Begin anew: forget what was done in earlier demos.")
def command(no_browser: bool, fresh: bool, **flags: Any) -> None:
    """Run everything, offline, with sample workflows, and open the page.

    The first time it has conversations, traces, a test set and two evaluations to look at. What you do stays in a
    database of the demo's own.

    \b
    Examples:
      palaver demo
      palaver demo --fresh --port 9000 --no-browser
    """
    settings, sources = read_settings(flags=flags, env=os.environ, folder=Path.cwd())
    opening = _open_nothing if no_browser else _open_browser
    if settings.db and fresh:
        raise SettingsError("--fresh forgets the demo's own database, but db names another: leave one of them out.")
    if settings.db:  # Somebody's own: nothing is put there that nobody asked for.
        serve(_sample_workflows(), settings, sources=sources, or_next=True, started=opening)
        return
    toured = settings.tour or sources["tour"] == "default"  # Unless somebody wants none.
    settings = msgspec.structs.replace(settings, db=_demo_database(fresh=fresh), tour=toured)
    serve(_sample_workflows(), settings, sources=sources, or_next=True, started=_fill_then_open(opening))


def _sample_workflows() -> list[Workflow]:
    """The sample workflows, and of the applications beside them those whose packages are installed."""
    found = [load_installed(name) for name in ("eliza", "calculator", "headline", "echo")]
    with suppress(PalaverError):
        found.append(load_installed("job_chat"))
    return found


def _demo_database(*, fresh: bool) -> str:
    """A file of the demo's own; nothing is kept by a second demo beside the first."""
    path = default_path().with_name("demo.db")
    if is_locked(lock_path(path)):
        return MEMORY_URL
    if fresh:
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    return str(path)


def _fill_then_open(opening: Callable[[str], None]) -> Callable[[str], None]:
    """Once it serves: fill it, then open the page."""
    going: set[asyncio.Task[None]] = set()  # The loop itself would let go of it.

    def started(url: str) -> None:
        task = asyncio.get_running_loop().create_task(_fill(url, opening))
        going.add(task)
        task.add_done_callback(going.discard)

    return started


async def _fill(url: str, opening: Callable[[str], None]) -> None:
    import httpx  # Late: --help must not wait for it.

    from palaver.demo.filling import fill

    begun, told = time.monotonic(), False

    def tell(line: str) -> None:
        nonlocal told
        told = True
        click.echo(f"  filling the demo: {line}", err=True)

    log = logging.getLogger("palaver.access")
    log.addFilter(_drop_record)
    try:
        async with outbound() as http:
            http.base_url = url
            await fill(http, tell)
        took = time.monotonic() - begun
        found = f"Everything is there, after {took:.1f} s" if told else "All is as you left it; --fresh begins anew"
        click.echo(f"{found}: open {url}", err=True)
    except (httpx.HTTPError, PalaverError) as error:
        why = str(error).partition("\n")[0]
        click.echo(f"The demo is not filled to its end ({why}). It works all the same; --fresh tries again.", err=True)
    finally:
        log.removeFilter(_drop_record)
        opening(url)


def _drop_record(_record: logging.LogRecord) -> bool:
    """What fills the demo is no news to whoever started it."""
    return False


def _open_nothing(url: str) -> None:
    pass


def _open_browser(url: str) -> None:
    # A machine without a screen has no browser that webbrowser could find; it says so by returning False.
    if (
        os.environ.get("DISPLAY")
        or os.environ.get("WAYLAND_DISPLAY")
        or os.name == "nt"
        or os.uname().sysname == "Darwin"
    ):
        webbrowser.open(url)
