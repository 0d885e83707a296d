"""palaver variant: list and compare variants, and move them between a database and files."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from palaver.cli.database import load_all_pages, new_id, read_database, write_database
from palaver.cli.options import db_option, json_option, project_option
from palaver.cli.output import error_reason, format_count, format_json
from palaver.core.variants import (
    VariantFile,
    VariantReference,
    decode_variant_file,
    diff_json,
    encode_variant_file,
    parse_reference,
)
from palaver.errors import NotFound, PalaverError, RequestError, TargetNotFound
from palaver.outbound import printable

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from palaver.discovery.registry import Registry

_MAX_FILE_BYTES = 1024 * 1024


@click.group()
def command() -> None:
    """List, compare, export and import variants (named parameter sets).

    \b
    Examples:
      palaver variant list
      palaver variant diff tutor@short:2 tutor@short:3
      palaver variant export variants/
      palaver variant import variants/ --against app.py
    """


@command.command(name="list")
@click.option("--workflow", help="Only variants of this workflow.")
@project_option("variants")
@json_option
@db_option
def list_variants(workflow: str | None, project: str, as_json: bool, db: str | None) -> None:
    """List active variants, newest first.

    \b
    Examples:
      palaver variant list
      palaver variant list --workflow tutor --json
    """
    from palaver.storage import variants as stored  # Imported late: --help must not wait for SQLAlchemy.

    variants = load_all_pages(db, stored.list_variants, project, workflow=workflow)
    if as_json:
        click.echo(format_json(variants))
        return
    rows = [
        (str(VariantReference(variant.name, variant.head, variant.workflow)), f"{variant.updated_at:%Y-%m-%d %H:%M}")
        for variant in variants
    ]
    width = max((len(name) for name, _ in rows), default=0)
    for (name, updated), variant in zip(rows, variants, strict=True):
        click.echo(f"{name:<{width}}  {updated}  {printable(variant.description)}".rstrip())
    if not variants:
        click.echo("No variants.")


@command.command(name="diff")
@click.argument("before", metavar="FROM")
@click.argument("after", metavar="TO")
@project_option("variants")
@json_option
@db_option
def diff_variants(before: str, after: str, project: str, as_json: bool, db: str | None) -> None:
    """Show how the parameters of two variant versions differ.

    FROM and TO have the form tutor@short:3, or tutor@short for the latest
    version.

    \b
    Example:
      palaver variant diff tutor@short:2 tutor@short:3
    """
    references = [_parse_reference(before), _parse_reference(after)]
    changes = diff_json(*read_database(db, _load_parameters, project, references))
    if as_json:
        click.echo(format_json({"changes": changes}))
        return
    for change in changes:
        values = [_format_value(change.before), _format_value(change.after)]
        click.echo(f"{printable(change.path, 200)}: {' -> '.join(values)}")
    if not changes:
        click.echo("The parameters are identical.")


def _parse_reference(text: str) -> VariantReference:
    try:
        reference = parse_reference(text)
    except RequestError as error:
        raise click.UsageError(error.message) from None
    if reference.workflow is None:
        raise click.UsageError(f"Variant {text!r} is ambiguous. Use workflow@variant, e.g. tutor@{text}.")
    return reference


def _load_parameters(db: "Connection", project: str, references: Sequence[VariantReference]) -> list[Any]:
    from palaver.storage import variants

    parameters: list[Any] = []
    for reference in references:
        variant = variants.find_variant(db, project, reference.workflow or "", reference.name)
        if variant is None:
            raise NotFound(f"Variant {str(reference)!r} not found. See `palaver variant list`.")
        number = reference.version or variant.head
        parameters.append(variants.get_version(db, project, variant.id, number).parameters)
    return parameters


def _format_value(value: Any) -> str:
    return "(not set)" if value is msgspec.UNSET else printable(msgspec.json.encode(value).decode(), 500)


@command.command(name="export")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--workflow", help="Only variants of this workflow.")
@project_option("variants")
@db_option
def export_variants(folder: Path, workflow: str | None, project: str, db: str | None) -> None:
    """Export active variants to DIR/<workflow>/<name>.json.

    \b
    Example:
      palaver variant export variants/
    """
    from palaver.storage import variants

    files = load_all_pages(db, variants.export_variants, project, workflow=workflow)
    for file in files:
        path = folder / file.workflow / f"{file.name}.json"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode_variant_file(file))
        except OSError as error:
            raise TargetNotFound(f"Cannot write {path}: {error_reason(error)}.") from None
    click.echo(f"Exported {format_count(len(files), 'variant')} to {folder}.")


@command.command(name="import")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--against", metavar="TARGET", help="Check parameters against the workflows of a file, folder or module.")
@click.option("--dry-run", is_flag=True, help="Show what would change, without changing anything.")
@project_option("variants")
@json_option
@db_option
def import_variants(
    folder: Path, against: str | None, dry_run: bool, project: str, as_json: bool, db: str | None
) -> int:
    """Import new and changed variants from DIR/<workflow>/<name>.json.

    If any file is invalid, nothing is imported.

    \b
    Examples:
      palaver variant import variants/
      palaver variant import variants/ --against app.py --dry-run
    """
    from palaver.discovery.registry import Registry
    from palaver.discovery.workflow_loader import load
    from palaver.storage import variants

    files, faults = _read_folder(folder, Registry(load((against,))) if against else None)
    report = write_database(
        db,
        variants.import_variants,
        project,
        files,
        new_id=partial(new_id, "var"),
        at=datetime.now(UTC),
        mode="look" if dry_run or faults else "commit",
    )
    counts = msgspec.structs.asdict(report)
    if as_json:
        click.echo(format_json(counts | {"faults": faults}))
    else:
        for fault in faults:
            click.echo(f"error: {fault['file']}: {printable(fault['message'], 500)}", err=True)
        text = ", ".join(f"{count} {word}" for word, count in counts.items())
        note = " (nothing was changed)" if dry_run or faults else ""
        click.echo(f"{text}{note}")
    return 1 if faults else 0


def _read_folder(folder: Path, registry: "Registry | None") -> tuple[list[VariantFile], list[dict[str, Any]]]:
    """Return the variants of a folder, and the faults of its files."""
    from palaver.workflows.workflow import find_parameter_faults

    if not folder.is_dir():
        reason = "not a directory" if folder.exists() else "no such file or directory"
        raise TargetNotFound(f"Cannot read {folder}: {reason}.")
    files: list[VariantFile] = []
    faults: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*/*.json")):
        name = str(path.relative_to(folder))
        try:
            file = _read_variant_file(path)
            errors: list[RequestError] = []
            if registry is not None:
                errors += find_parameter_faults(registry.workflow(file.workflow), file.parameters)
        except PalaverError as error:
            faults.append({"file": name, "code": error.code, "message": error.message})
            continue
        files.append(file)
        faults += [{"file": name, "code": error.code, "message": error.message} for error in errors]
    return files, faults


def _read_variant_file(path: Path) -> VariantFile:
    try:
        with path.open("rb") as stream:
            raw = stream.read(_MAX_FILE_BYTES)
    except OSError as error:
        raise NotFound(f"Cannot read the file: {error_reason(error)}.") from None
    file = decode_variant_file(raw)
    if (file.workflow, f"{file.name}.json") != (path.parent.name, path.name):
        raise NotFound(f"The file contains {file.workflow}@{file.name}. Move it to {file.workflow}/{file.name}.json.")
    return file
