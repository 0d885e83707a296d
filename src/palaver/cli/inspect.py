"""palaver inspect: print what a target or a URL declares."""

import asyncio
from importlib.metadata import version
from typing import Any

import click
import msgspec

from palaver.cli.output import format_json
from palaver.cli.workflow_lookup import is_url
from palaver.discovery.evidence import Discovery, public_report
from palaver.discovery.workflow_loader import installed_workflows, load_installed, load_one
from palaver.outbound import printable, printable_lines
from palaver.protocols.agenta.inspect import inspect_document
from palaver.workflows.workflow import Workflow


@click.command()
@click.argument("target", metavar="TARGET|URL")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the /inspect document or, for a URL, the evidence as JSON."
)
def command(target: str, as_json: bool) -> int:
    """Show the workflows in a file, module or folder, or at a URL.

    TARGET is a file, a folder, "module:name" or the name of an installed
    workflow. For a URL, show what Palaver discovers there.

    \b
    Examples:
      palaver inspect app.py
      palaver inspect eliza --json
      palaver inspect https://example.org/my-app
    """
    if is_url(target):
        return _inspect_url(target, as_json)
    workflows = [load_installed(target)] if target in installed_workflows() else load_one(target)
    if as_json:
        documents = [
            inspect_document(workflow.description, routes={}, version=version("palaver")) for workflow in workflows
        ]
        click.echo(format_json(documents[0] if len(documents) == 1 else documents))
        return 0
    for index, workflow in enumerate(workflows):
        click.echo("\n" * bool(index) + printable_lines(_describe_workflow(workflow)))
    return 0


def _inspect_url(url: str, as_json: bool) -> int:
    from palaver.discovery.probe import discover

    discovery = asyncio.run(discover(url))
    if as_json:
        click.echo(format_json(public_report(discovery)))
    else:
        click.echo(_describe_discovery(discovery))
    return 0 if discovery.evidence != "none" and not discovery.refused else 1


def _describe_workflow(workflow: Workflow) -> str:
    description = workflow.description
    lines = [f"{description.name}  {'chat' if description.is_chat else 'workflow'}  {workflow.place}"]
    if description.description:
        lines.append(f"  {description.description}")
    lines += _schema_lines("inputs", description.schemas.inputs)
    lines += _schema_lines("parameters", description.schemas.parameters)
    output = "a message or a list of messages" if description.is_chat else _type_name(description.schemas.outputs)
    return "\n".join([*lines, f"  output      {output}"])


def _schema_lines(title: str, schema: Any) -> list[str]:
    properties: dict[str, Any] = schema.get("properties", {})
    required = schema.get("required", [])
    width = max((len(name) for name in properties), default=0)
    lines: list[str] = []
    for name, field in properties.items():
        type_name = "messages" if field.get("x-ag-type-ref") == "messages" else _type_name(field)
        default_note = ", required" if name in required else f" = {msgspec.json.encode(field.get('default')).decode()}"
        description = f"  {field['description']}" if "description" in field else ""
        lines.append(f"  {title if not lines else '':<10}  {name:<{width}}  {type_name}{default_note}{description}")
    if schema.get("additionalProperties"):
        lines.append(f"  {title if not lines else '':<10}  additional properties allowed")
    return lines


def _type_name(schema: Any) -> str:
    match schema:
        case {"$ref": str(reference)}:
            return reference.rpartition("/")[2]
        case {"type": str(kind)}:
            return kind
        case {"type": list()}:
            return " or ".join(str(kind) for kind in schema["type"])
        case {"anyOf": list()}:
            return " or ".join(_type_name(choice) for choice in schema["anyOf"])
        case {"enum": list()}:
            return " or ".join(msgspec.json.encode(value).decode() for value in schema["enum"])
        case _:
            return "anything"


def _describe_discovery(discovery: Discovery) -> str:
    lines = [printable(discovery.url)]
    if discovery.refused:
        lines.append("  Requires credentials; cannot be inspected.")
    elif discovery.is_chat is None:
        lines.append("  No workflow found at this URL.")
    else:
        lines.append(
            f"  {'chat' if discovery.is_chat else 'not a chat'}: {discovery.confidence} by {discovery.evidence}"
        )
    if discovery.call:
        lines.append(f"  call      {printable(discovery.call)}  (dialect {discovery.dialect})")
    for attempt in discovery.tried:
        status = attempt.status if attempt.status is not None else "-"
        request = printable(attempt.request or "(documents above)")
        lines.append(f"  {attempt.step:<16}  {request:<22}  {status:<4}  {printable(attempt.found)}")
    lines += [f"  warning: {printable(warning)}" for warning in discovery.warnings]
    return "\n".join(lines)
