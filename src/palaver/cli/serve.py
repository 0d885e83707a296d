"""palaver serve: workflows over HTTP."""

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from palaver.cli.databases import db_option
from palaver.discovery.registry import Registry
from palaver.discovery.targets import load
from palaver.server import logs
from palaver.server.settings import Settings, read_settings
from palaver.storage.places import default_path
from palaver.workflows.declare import TakesMessages
from palaver.workflows.workflow import Workflow


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option("--host", help="Address to listen on (127.0.0.1).")
@click.option("--port", type=int, help="Port to listen on (8642; 0 picks a free one).")
@db_option
@click.option("--default", metavar="NAME", help="The workflow that also answers at the root.")
@click.option("--root-path", metavar="PREFIX", help="A prefix that a proxy in front of us adds to every path.")
@click.option("--reload", is_flag=True, help="Start again whenever a Python file changes.")
@click.option("--debug", is_flag=True, default=None, help="Tell callers what went wrong inside a workflow.")
def command(targets: tuple[str, ...], reload: bool, **flags: Any) -> int:
    """Serve every workflow found in TARGET: a file, a folder, "module" or "module:name".

    \b
    Examples:
      palaver serve app.py
      palaver serve app.py agents/ mypackage.flows:tutor --default tutor
      palaver serve app.py --reload --port 9000
    """
    settings, _ = read_settings(flags=flags, env=os.environ, folder=Path.cwd())
    if reload:
        from palaver.server.reload import watch

        again = [argument for argument in sys.argv[1:] if argument != "--reload"]
        return watch([sys.executable, "-m", "palaver.cli", *again], _folders(targets))
    serve(_load(targets), settings)
    return 0


def serve(workflows: Sequence[Workflow], settings: Settings, *, or_next: bool = False, started: Any = None) -> None:
    """Serve these until told to stop; prints a line each and the address."""
    from palaver.server.app import Server
    from palaver.server.serve import check_reach, keeping, open_socket, run  # Late: --help must not wait for uvicorn.

    logs.set_up(verbose=settings.debug)
    with keeping(settings.db or str(default_path())) as database:
        check_reach(settings, database)
        registry, alone = Registry(workflows, default=settings.default), database.kind == "sqlite"
        server = Server(registry, settings, database=database, only_server=alone)
        listening = open_socket(settings, or_next=or_next)
        url = _announced(workflows, settings, listening.getsockname()[1])
        run(server, listening, started=(lambda: started(url)) if started else lambda: None)


def _announced(workflows: Sequence[Workflow], settings: Settings, port: int) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"http://{host}:{port}{settings.root_path}"
    width = max(len(workflow.description.name) for workflow in workflows)
    for workflow in workflows:
        kind = "chat" if workflow.description.is_chat else "workflow"
        click.echo(f"{workflow.description.name:<{width}}  {kind:<8}  {workflow.place}", err=True)
    click.echo(f"Serving at {url}  (Ctrl+C stops)", err=True)
    return url


def _load(targets: tuple[str, ...]) -> list[Workflow]:
    """The workflows of the targets; hints are shown as lines, not as Python warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TakesMessages)
        workflows = load(targets)
    for warning in caught:
        if issubclass(warning.category, TakesMessages):
            click.echo(f"hint: {warning.message}", err=True)
        else:
            warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)
    return workflows


def _folders(targets: tuple[str, ...]) -> list[Path]:
    paths = [Path(target.partition(":")[0]) for target in targets]
    return [path if path.is_dir() else path.parent if path.is_file() else Path.cwd() for path in paths]
