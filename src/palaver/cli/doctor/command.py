"""palaver doctor: check this installation. With --attack: probe a running server for security problems."""

import os
import platform
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from palaver.cli.options import db_option
from palaver.cli.output import format_json
from palaver.discovery.config import mask_connections
from palaver.discovery.workflow_loader import installed_workflows, load, load_installed
from palaver.errors import PalaverError
from palaver.outbound import printable
from palaver.server.otlp_exporter import mask_headers
from palaver.server.settings import Settings, Source, read_settings
from palaver.storage.paths import default_path
from palaver.workflows.workflow import FunctionWorkflow, Workflow

if TYPE_CHECKING:
    from palaver.cli.doctor.checks import Check, ClockReading

_now = partial(datetime.now, UTC)
_LISTED_PACKAGES = ("palaver", "msgspec", "litestar", "uvicorn", "uvloop", "httptools", "httpx", "pydantic")


@click.command()
@click.argument("targets", nargs=-1, metavar="[TARGET...]")
@click.option("--attack", metavar="URL", help="Probe your running server with harmless attacks.")
@click.option("--key-file", metavar="FILE", help="With --attack: read the API key from FILE (- for standard input).")
@click.option(
    "--yes-it-is-mine", "is_mine", is_flag=True, help="With --attack: confirm that you own a server on another machine."
)
@db_option
@click.option(
    "--all", "shows_all", is_flag=True, help="List all settings, not only those that differ from their defaults."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    targets: tuple[str, ...],
    attack: str | None,
    key_file: str | None,
    is_mine: bool,
    db: str | None,
    shows_all: bool,
    as_json: bool,
) -> int:
    """Check the installation, or probe a server for security problems.

    Check packages, settings, database, port, file permissions, clocks and the
    workflows of TARGET, and list the settings that differ from their defaults.
    Nothing is created or changed. Exit code 1 means that a problem was found.

    With --attack, send harmless attack requests to a running server: foreign
    Host and Origin headers, missing and invalid keys, unusual paths and bodies,
    and oversized requests. The API key is read from --key-file, else from
    PALAVER_KEY. Without a key, checks that need one are skipped. Exit code 1
    means that a check failed or the server is unreachable.

    \b
    Examples:
      palaver doctor
      palaver doctor app.py --db postgresql://palaver@localhost/palaver --json
      palaver doctor --attack http://localhost:8642
      palaver doctor --attack https://chat.example.org --yes-it-is-mine
    """
    if attack is not None:
        if targets or db is not None or shows_all:
            raise click.UsageError("--attack can't be combined with TARGET, --db or --all.")
        from palaver.cli.security_probe.probe import probe_server

        return probe_server(attack, key_file=key_file, is_mine=is_mine, as_json=as_json)
    if key_file is not None or is_mine:
        raise click.UsageError("--key-file and --yes-it-is-mine require --attack.")
    report = _run_checks(targets, db)
    click.echo(format_json(report)) if as_json else _print_report(report, shows_all=shows_all)
    return 1 if report["problems"] else 0


def _run_checks(targets: tuple[str, ...], db: str | None) -> dict[str, Any]:
    from palaver.cli.doctor.checks import installed_version

    settings, sources = read_settings(flags={"db": db}, env=os.environ, folder=Path.cwd())
    checks = _collect_checks(settings, sources, settings.db or str(default_path()))
    workflows, workflow_checks = _inspect_workflows(targets, settings)
    checks += workflow_checks
    problems = [check.line for check in checks if check.sign == "problem"]
    return {
        "python": platform.python_version(),
        "packages": {name: installed_version(name) for name in _LISTED_PACKAGES},
        "workflows": workflows,
        "checks": checks,
        "problems": problems,
        "settings": [
            {"name": field.name, "value": _setting_value(settings, field.name), "source": sources[field.name]}
            for field in msgspec.structs.fields(Settings)
        ],
    }


def _collect_checks(settings: Settings, sources: dict[str, Source], url: str) -> "list[Check]":
    """Run all checks, in the order in which they are printed."""
    from palaver.cli.doctor.checks import (  # Imported late, so that --help does not wait for them.
        check_clock,
        check_database,
        check_file_modes,
        check_packages,
        check_port,
    )
    from palaver.cli.doctor.settings import check_settings

    folder = Path.cwd()
    first_reading = _read_clocks()
    database_checks = check_database(url, _now)
    checks = [
        *check_packages(),
        *check_settings(settings, folder=folder, env=os.environ, database=url, has_key=database_checks.has_key),
        *database_checks.checks,
        *check_port(settings),
        *check_file_modes(settings, sources, folder=folder, database=database_checks.path),
    ]
    return [*checks, *check_clock(first_reading, _read_clocks(), database_checks.report)]


def _read_clocks() -> "ClockReading":
    from palaver.cli.doctor.checks import ClockReading

    return ClockReading(_now(), time.monotonic())


def _setting_value(settings: Settings, name: str) -> Any:
    from palaver.storage.paths import redact_url

    # Of the rules of redaction, the number is shown.
    masks = {"connections": mask_connections, "redact": len, "otlp_headers": mask_headers, "db": redact_url}
    value = getattr(settings, name)
    return masks[name](value) if name in masks else value


def _inspect_workflows(targets: tuple[str, ...], settings: Settings) -> "tuple[list[dict[str, Any]], list[Check]]":
    from palaver.cli.doctor.checks import problem

    workflows: list[Workflow] = []
    checks: list[Check] = []
    if targets:
        try:
            workflows = load(targets)
        except PalaverError as error:
            checks.append(problem("workflows", error.message, ""))
    else:
        workflows, checks = _load_installed_workflows()
    names = {workflow.description.name for workflow in workflows} | set(settings.connections)
    if targets and workflows and settings.default is not None and settings.default not in names:
        message = f"Default workflow {settings.default!r} not found."
        checks.append(problem("workflows", message, f"Available: {', '.join(sorted(names))}."))
    rows: list[dict[str, Any]] = []
    for workflow in workflows:
        description = workflow.description
        unknown = workflow.unknown_types if isinstance(workflow, FunctionWorkflow) else []
        row = {"name": description.name, "is_chat": description.is_chat, "place": workflow.place}
        rows.append(row | {"without_schema": unknown})
    return rows, checks


def _load_installed_workflows() -> "tuple[list[Workflow], list[Check]]":
    """Load the workflows of installed packages. One whose extra is not installed is no problem."""
    from palaver.cli.doctor.checks import ok, problem, split_advice

    workflows: list[Workflow] = []
    checks: list[Check] = []
    for name in sorted(installed_workflows()):
        try:
            workflows.append(load_installed(name))
        except PalaverError as error:
            message = f"{name} is not available: {error.message}"
            needs_extra = isinstance(error.__cause__, ImportError)
            checks.append(ok("workflows", *split_advice(message)) if needs_extra else problem("workflows", message, ""))
    return workflows, checks


def _print_report(report: dict[str, Any], *, shows_all: bool) -> None:
    from palaver.cli.doctor.checks import print_checks

    versions = {"Python": report["python"], **report["packages"]}
    click.echo("  ".join(f"{name} {version or '(not installed)'}" for name, version in versions.items()))
    if report["workflows"]:
        click.echo("\nWorkflows")
    width = max((len(row["name"]) for row in report["workflows"]), default=0)
    for row in report["workflows"]:
        kind = "chat" if row["is_chat"] else "workflow"
        unknown = f"  (no schema for: {', '.join(row['without_schema'])})" if row["without_schema"] else ""
        click.echo(f"  {row['name']:<{width}}  {kind:<8}  {row['place']}{unknown}")
    click.echo("\nSettings")
    _print_settings(report["settings"], shows_all=shows_all)
    click.echo("\nChecks")
    print_checks(report["checks"])


def _print_settings(rows: list[dict[str, Any]], *, shows_all: bool) -> None:
    shown = [row for row in rows if shows_all or row["source"] != "default"]
    width = max((len(row["name"]) for row in shown), default=0)
    for row in shown:
        value = msgspec.json.encode(row["value"]).decode()
        click.echo(f"  {row['name']:<{width}}  {printable(value):<15}  {row['source']}")
    hidden = len(rows) - len(shown)
    if hidden:
        others = f"{hidden} others have" if shown else f"All {hidden} settings have"
        click.echo(f"  {others} their default values (--all lists them).")
