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
@click.option("--yes-it-is-mine", "is_mine", is_flag=True, help="With --attack: allow a server on another machine.")
@db_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    targets: tuple[str, ...], attack: str | None, key_file: str | None, is_mine: bool, db: str | None, as_json: bool
) -> int:
    """Check the installation, or probe a server for security problems.

    Show all settings with their sources, and check packages, settings, database,
    port, file permissions, clocks and the workflows of TARGET. Nothing is
    created or changed. Exit code 1 means that a problem was found.

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
        if targets or db is not None:
            raise click.UsageError("--attack can't be combined with TARGET or --db.")
        from palaver.cli.security_probe.probe import probe_server

        return probe_server(attack, key_file=key_file, is_mine=is_mine, as_json=as_json)
    if key_file is not None or is_mine:
        raise click.UsageError("--key-file and --yes-it-is-mine require --attack.")
    return _run_checks(targets, db, as_json)


def _run_checks(targets: tuple[str, ...], db: str | None, as_json: bool) -> int:
    from palaver.cli.doctor.checks import installed_version

    settings, sources = read_settings(flags={"db": db}, env=os.environ, folder=Path.cwd())
    checks = _collect_checks(settings, sources, settings.db or str(default_path()))
    workflows, faults = _inspect_workflows(targets, settings)
    checks += faults
    problems = [check.line for check in checks if check.sign == "problem"]
    report: dict[str, Any] = {
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
    if as_json:
        click.echo(format_json(report))
    else:
        _print_report(report)
    return 1 if problems else 0


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
    faults: list[Check] = []
    try:
        workflows = load(targets) if targets else [load_installed(name) for name in sorted(installed_workflows())]
    except PalaverError as error:
        faults.append(problem("workflows", error.message, ""))
    names = {workflow.description.name for workflow in workflows} | set(settings.connections)
    if targets and workflows and settings.default is not None and settings.default not in names:
        message = f"default: workflow {settings.default!r} not found."
        faults.append(problem("workflows", message, f"Available: {', '.join(sorted(names))}."))
    rows: list[dict[str, Any]] = []
    for workflow in workflows:
        description = workflow.description
        unknown = workflow.unknown_types if isinstance(workflow, FunctionWorkflow) else []
        row = {"name": description.name, "is_chat": description.is_chat, "place": workflow.place}
        rows.append(row | {"without_schema": unknown})
    return rows, faults


def _print_report(report: dict[str, Any]) -> None:
    from palaver.cli.doctor.checks import print_checks

    click.echo(f"Python {report['python']}")
    click.echo("  ".join(f"{name} {version or '(not installed)'}" for name, version in report["packages"].items()))
    click.echo("\nWorkflows")
    for row in report["workflows"]:
        kind = "chat" if row["is_chat"] else "workflow"
        unknown = f"  (no schema for: {', '.join(row['without_schema'])})" if row["without_schema"] else ""
        click.echo(f"  {row['name']:<14}  {kind:<8}  {row['place']}{unknown}")
    click.echo("\nSettings")
    width = max(len(row["name"]) for row in report["settings"])
    for row in report["settings"]:
        value = msgspec.json.encode(row["value"]).decode()
        click.echo(f"  {row['name']:<{width}}  {printable(value):<15}  {row['source']}")
    click.echo("\nChecks")
    print_checks(report["checks"])
