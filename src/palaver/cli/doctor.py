"""palaver doctor: is this installation well?"""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import msgspec

from palaver.discovery.declared import masked
from palaver.discovery.targets import installed, load, load_installed
from palaver.errors import PalaverError
from palaver.outbound import printable, printable_json
from palaver.server.otlp_endpoint import hidden
from palaver.server.settings import Settings, read_settings
from palaver.workflows.workflow import FunctionWorkflow, Workflow

_PACKAGES = ("palaver", "msgspec", "litestar", "uvicorn", "uvloop", "httptools", "httpx", "pydantic")


@click.command()
@click.argument("targets", nargs=-1, metavar="[TARGET...]")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def command(targets: tuple[str, ...], as_json: bool) -> int:
    """Check this installation and, if given, the workflows of TARGET; show every setting and where it came from.

    \b
    Examples:
      palaver doctor
      palaver doctor app.py --json
    """
    settings, sources = read_settings(env=os.environ, folder=Path.cwd())
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "workflows": [],
        "problems": _installation_problems(),
        "settings": [
            {"name": field.name, "value": _value(settings, field.name), "source": sources[field.name]}
            for field in msgspec.structs.fields(Settings)
        ],
    }
    _look_at_workflows(targets, found)
    if as_json:
        click.echo(printable_json(msgspec.json.format(msgspec.json.encode(found), indent=2).decode()))
    else:
        _print(found)
    return 1 if found["problems"] else 0


def _value(settings: Settings, name: str) -> Any:
    """What is set, without passwords."""
    if name == "connections":
        return masked(settings.connections)
    if name == "redact":
        return len(settings.redact)  # How many rules.
    if name == "otlp_headers":
        return hidden(settings.otlp_headers)
    if name != "db":
        return getattr(settings, name)
    from palaver.storage.database import redacted

    return redacted(settings.db)


def _look_at_workflows(targets: tuple[str, ...], found: dict[str, Any]) -> None:
    workflows: list[Workflow] = []
    try:
        workflows = load(targets) if targets else [load_installed(name) for name in sorted(installed())]
    except PalaverError as error:
        found["problems"].append(error.message)
    for workflow in workflows:
        description = workflow.description
        unknown = workflow.unknown_types if isinstance(workflow, FunctionWorkflow) else []
        row = {"name": description.name, "is_chat": description.is_chat, "place": workflow.place}
        found["workflows"].append(row | {"without_schema": unknown})


def _installation_problems() -> list[str]:
    problems: list[str] = []
    if find_spec("uvloop") is None and os.name != "nt":
        problems.append("uvloop is missing: streams will be slower. Install it with pip install uvloop.")
    return problems


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _print(found: dict[str, Any]) -> None:
    click.echo(f"Python {found['python']}")
    click.echo("  ".join(f"{name} {told or '(not installed)'}" for name, told in found["packages"].items()))
    click.echo("\nWorkflows")
    for row in found["workflows"]:
        kind = "chat" if row["is_chat"] else "workflow"
        unknown = f"  no schema for: {', '.join(row['without_schema'])}" if row["without_schema"] else ""
        click.echo(f"  {row['name']:<14}  {kind:<8}  {row['place']}{unknown}")
    click.echo("\nSettings")
    for row in found["settings"]:
        value = msgspec.json.encode(row["value"]).decode()
        click.echo(f"  {row['name']:<18}  {printable(value):<14}  {row['source']}")
    click.echo()
    for problem in found["problems"]:
        click.echo(f"problem: {printable(problem, 500)}")
    if not found["problems"]:
        click.echo("No problems found.")
