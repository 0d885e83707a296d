"""palaver serve: workflows over HTTP."""

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from palaver.cli.database import configured_url, database_failures
from palaver.cli.options import db_option, private_urls_option
from palaver.discovery.config import declared_workflows
from palaver.discovery.registry import Registry
from palaver.discovery.workflow_loader import DeclaredEvaluator, load, load_evaluators
from palaver.outbound import printable
from palaver.server import logging_setup
from palaver.server.settings import Settings, Source, read_settings, unknown_names
from palaver.workflows.decorators import TakesMessages
from palaver.workflows.workflow import Workflow

if TYPE_CHECKING:
    from palaver.server.supervisor import InheritedSockets


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option("--host", help="Address to listen on (default: 127.0.0.1).")
@click.option("--port", type=int, help="Port to listen on (default: 8642; 0 picks a free port).")
@db_option
@click.option("--default", metavar="NAME", help="Default workflow, also served at the root path.")
@click.option("--root-path", metavar="PREFIX", help="Path prefix added by a reverse proxy.")
@click.option(
    "--workers", type=int, metavar="N", help="Number of server processes (default: 1; more require PostgreSQL)."
)
@click.option("--inherit", hidden=True)
@click.option("--reload", is_flag=True, help="Restart when a Python file changes.")
@private_urls_option
@click.option("--debug", is_flag=True, default=None, help="Include details of workflow errors in responses.")
def command(targets: tuple[str, ...], reload: bool, inherit: str | None, **flags: Any) -> int:
    """Serve every workflow found in TARGET: a file, a folder, "module" or "module:name".

    \b
    Examples:
      palaver serve app.py
      palaver serve app.py agents/ mypackage.flows:tutor --default tutor
      palaver serve app.py --reload --port 9000
      palaver serve app.py --workers 4 --db postgresql://palaver@localhost/palaver
    """
    settings, sources = read_settings(flags=flags, env=os.environ, folder=Path.cwd())
    if reload:
        from palaver.server.supervisor import run_with_reload

        arguments = [argument for argument in sys.argv[1:] if argument != "--reload"]
        return run_with_reload([sys.executable, "-m", "palaver.cli", *arguments], _watched_folders(targets))
    if inherit is None:
        print_unknown_settings(Path.cwd())
        if settings.workers > 1:
            return _run_workers(settings)
    inherited = None
    if inherit is not None:
        from palaver.server.supervisor import InheritedSockets

        inherited = InheritedSockets.parse(inherit)
    is_announcer = inherited is None or inherited.is_announcer
    workflows = _load_with_hints(targets) if is_announcer else _load_silently(targets)
    serve(workflows, settings, sources=sources, inherited=inherited, evaluators=load_evaluators(targets))
    return 0


def print_unknown_settings(folder: Path) -> None:
    """Print a warning for each unknown setting in palaver.toml, which would go unnoticed."""
    for name, advice in unknown_names(folder).items():
        click.echo(f"warning: Unknown setting '{printable(name, 60)}' in palaver.toml. {advice}", err=True)


def _run_workers(settings: Settings) -> int:
    """Start worker processes on one socket, and supervise them."""
    from palaver.server import supervisor
    from palaver.server.serve import open_socket

    supervisor.check_worker_count(settings, settings.db)
    logging_setup.configure_logging(verbose=settings.debug)
    command = [sys.executable, "-m", "palaver.cli", *sys.argv[1:]]
    with database_failures():
        socket = open_socket(settings)
    with socket as listener:
        seconds = settings.shutdown_seconds + 30
        return supervisor.WorkerSupervisor(command, listener, settings.workers, seconds=seconds).run()


def serve(
    workflows: Sequence[Workflow],
    settings: Settings,
    *,
    sources: Mapping[str, Source],
    use_next_port: bool = False,
    on_started: Callable[[str], None] | None = None,
    inherited: "InheritedSockets | None" = None,
    evaluators: Sequence[DeclaredEvaluator] = (),
) -> None:
    """Serve until stopped.

    Calls `on_started` with the address, or without it, prints a line per workflow and the address.
    """
    from palaver.server.app import Server
    from palaver.server.exposure import require_key_if_exposed
    from palaver.server.serve import open_locked_database, open_socket, run_server

    logging_setup.configure_logging(verbose=settings.debug, worker=inherited.number if inherited else None)
    url = configured_url(settings)
    with ExitStack() as stack:
        with database_failures():
            database = stack.enter_context(open_locked_database(url))
        require_key_if_exposed(settings, database)
        connections, is_only_server = declared_workflows(settings.connections, os.environ), database.kind == "sqlite"
        registry = Registry(workflows, connections=connections, default=settings.default, evaluators=evaluators)
        server = Server(registry, settings, database=database, only_server=is_only_server, sources=sources)
        if inherited is not None:
            if inherited.is_announcer:
                _announce(registry, settings, inherited.listening.getsockname()[1])
            run_server(server, inherited.listening, started=inherited.report_ready, parent=inherited.parent_socket)
            return
        with database_failures():
            listener = open_socket(settings, or_next=use_next_port)
        port = listener.getsockname()[1]
        if on_started is not None:
            run_server(server, listener, started=lambda: on_started(_server_url(settings, port)))
            return
        _announce(registry, settings, port)
        run_server(server, listener)


def _server_url(settings: Settings, port: int) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{port}{settings.root_path}"


def _announce(workflows: Iterable[Workflow], settings: Settings, port: int) -> None:
    width = max(len(workflow.description.name) for workflow in workflows)
    for workflow in workflows:
        kind = "chat" if workflow.description.is_chat else "remote" if _is_undiscovered(workflow) else "workflow"
        click.echo(f"{workflow.description.name:<{width}}  {kind:<8}  {workflow.place}", err=True)
    workers_text = f" with {settings.workers} workers" if settings.workers > 1 else ""
    click.echo(f"Serving at {_server_url(settings, port)}{workers_text}  (Ctrl+C to stop)", err=True)


def _is_undiscovered(workflow: Workflow) -> bool:
    """Whether the workflow is a remote service that has not been discovered yet."""
    return workflow.description.remote and getattr(workflow, "service", None) is None


def _load_with_hints(targets: tuple[str, ...]) -> list[Workflow]:
    """Load the workflows; hints are printed as lines, not as Python warnings."""
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always", TakesMessages)
        workflows = load(targets)
    for warning in caught_warnings:
        if issubclass(warning.category, TakesMessages):
            click.echo(f"hint: {warning.message}", err=True)
        else:
            warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)
    return workflows


def _load_silently(targets: tuple[str, ...]) -> list[Workflow]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load(targets)


def _watched_folders(targets: tuple[str, ...]) -> list[Path]:
    paths = [Path(target.partition(":")[0]) for target in targets]
    return [path if path.is_dir() else path.parent if path.is_file() else Path.cwd() for path in paths]
