"""Variants of workflows, their versions, and their import and export as files."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

import msgspec
from sqlalchemy import Connection, Select, and_, insert, select, update
from sqlalchemy.exc import IntegrityError

from palaver.core.variants import DEFAULT_VARIANT, VariantFile, VariantReference, is_same_json, parse_reference
from palaver.errors import InvalidParameter, NameTaken, NotFound, StaleBase
from palaver.storage.notifications import Change, mark_changed
from palaver.storage.pagination import FIRST_PAGE, Page, Window, fetch_page
from palaver.storage.schema import require_row, row_converter
from palaver.storage.tables import variant_versions as versions_table
from palaver.storage.tables import variants as table


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """A named set of parameters of a workflow."""

    id: str
    workflow: str
    name: str
    description: str = ""
    head: int = 1
    """The number of the newest version."""
    archived: bool = False
    created_at: datetime
    updated_at: datetime


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """An immutable version of a variant."""

    variant: str
    number: int
    parameters: Mapping[str, Any]
    message: str = ""
    key: str | None = None
    """The id of the API key that created it."""
    created_at: datetime


class VariantHead(NamedTuple):
    variant: Variant
    head: Version


class ResolvedVariant(msgspec.Struct, frozen=True):
    """A reference pinned to a version, and its parameters."""

    reference: str
    parameters: Mapping[str, Any]


class VariantDraft(msgspec.Struct, frozen=True, kw_only=True):
    workflow: str
    name: str
    description: str = ""
    parameters: Mapping[str, Any]
    message: str = ""
    key: str | None = None


_row_to_variant = row_converter(Variant)
_row_to_version = row_converter(Version)


# Queries


def get_variant(db: Connection, project: str, variant: str, *, lock: bool = False) -> Variant:
    """Return a variant, archived or not; with `lock`, locked until the transaction ends. Raises NotFound."""
    query = select(table).with_for_update() if lock else select(table)
    return _row_to_variant(require_row(db, query, table, project, variant, "Variant"))


def find_variant(db: Connection, project: str, workflow: str, name: str) -> Variant | None:
    """Return the variant of that name, archived or not."""
    row = db.execute(_select_variants(project).where(table.c.workflow == workflow, table.c.name == name)).one_or_none()
    return None if row is None else _row_to_variant(row)


def list_variants(
    db: Connection, project: str, *, workflow: str | None = None, archived: bool = False, window: Window = FIRST_PAGE
) -> Page[Variant]:
    """List the variants of a workflow, or of all workflows."""
    query = _select_variants(project)
    if workflow is not None:
        query = query.where(table.c.workflow == workflow)
    if not archived:
        query = query.where(table.c.archived.is_(False))
    filters = {"workflow": workflow, "archived": archived}
    return fetch_page(db, query, _row_to_variant, project=project, by=(table.c.id,), window=window, filters=filters)


def get_version(db: Connection, project: str, variant: str, number: int) -> Version:
    """Return a version. Raises NotFound."""
    query = _select_versions(project, variant).where(versions_table.c.number == number)
    row = db.execute(query).one_or_none() if number < 1 << 31 else None
    if row is None:
        raise NotFound(f"Version {number} not found in variant {variant[:80]!r}.")
    return _row_to_version(row)


def list_versions(db: Connection, project: str, variant: str, window: Window = FIRST_PAGE) -> Page[Version]:
    """List versions, newest first."""
    get_variant(db, project, variant)
    query, by = _select_versions(project, variant), (versions_table.c.number,)
    return fetch_page(db, query, _row_to_version, project=project, by=by, window=window, filters={"variant": variant})


def get_head(db: Connection, project: str, variant: str) -> VariantHead:
    current = get_variant(db, project, variant)
    return VariantHead(current, get_version(db, project, variant, current.head))


def resolve_reference(db: Connection, project: str, workflow: str, reference: str) -> ResolvedVariant:
    """Resolve a reference like `short` to the version that it means now, `short:3`."""
    parsed = parse_reference(reference)
    variant = find_variant(db, project, workflow, parsed.name) if parsed.workflow in (None, workflow) else None
    number = parsed.version or (variant.head if variant is not None else 0)
    if variant is None or number > variant.head:
        raise InvalidParameter(f"Variant {reference!r} of workflow {workflow!r} not found.")
    resolved = get_version(db, project, variant.id, number)
    return ResolvedVariant(str(VariantReference(parsed.name, number)), resolved.parameters)


# Changes


def create_variant(db: Connection, project: str, draft: VariantDraft, *, id: str, at: datetime) -> Variant:
    if draft.name == DEFAULT_VARIANT:
        raise NameTaken(f"The name {DEFAULT_VARIANT!r} is reserved for the variant defined in code.", pointer="/name")
    return _insert_variant(db, project, draft, id, at)


def _insert_variant(db: Connection, project: str, draft: VariantDraft, id: str, at: datetime) -> Variant:
    variant = Variant(
        id=id, workflow=draft.workflow, name=draft.name, description=draft.description, created_at=at, updated_at=at
    )
    _check_name_free(db, project, variant)
    try:
        db.execute(insert(table).values(project=project, **msgspec.structs.asdict(variant)))
    except IntegrityError:  # Created by another process in the meantime.
        raise _name_taken(variant.name, archived=False) from None
    _insert_version(db, project, variant, draft, at)
    return variant


def update_variant(
    db: Connection, project: str, variant: str, *, at: datetime, check: Callable[[VariantHead], None], **fields: Any
) -> VariantHead:
    """Change name, description or archived; `check` may raise to refuse."""
    current = get_variant(db, project, variant, lock=True)
    head = get_version(db, project, variant, current.head)
    check(VariantHead(current, head))
    changed = msgspec.structs.replace(current, **fields)
    if changed == current:
        return VariantHead(current, head)
    if changed.name != current.name:
        if changed.name == DEFAULT_VARIANT:
            raise NameTaken(
                f"The name {DEFAULT_VARIANT!r} is reserved for the variant defined in code.", pointer="/name"
            )
        _check_name_free(db, project, changed)
    db.execute(update(table).where(*_variant_conditions(project, variant)).values(**fields, updated_at=at))
    mark_changed(db, Change(project, "variant", variant))
    return VariantHead(msgspec.structs.replace(changed, updated_at=at), head)


def commit_version(
    db: Connection, project: str, variant: str, draft: VariantDraft, *, base: int, at: datetime
) -> tuple[Version, bool]:
    """Add a version based on version `base`; if nothing differs, return the newest one and False.

    Raises StaleBase if `base` is not the newest version.
    """
    current = get_variant(db, project, variant, lock=True)
    head = get_version(db, project, variant, current.head)
    if is_same_json(head.parameters, draft.parameters):
        return head, False
    if base != current.head:
        raise StaleBase(
            f"The latest version of {current.name!r} is {current.head}, not {base}. Review it and retry.",
            details={"head": current.head},
        )
    newer = msgspec.structs.replace(current, head=current.head + 1)
    db.execute(update(table).where(*_variant_conditions(project, variant)).values(head=newer.head, updated_at=at))
    return _insert_version(db, project, newer, draft, at), True


def sync_default(
    db: Connection, project: str, workflow: str, parameters: Mapping[str, Any], *, id: str, at: datetime
) -> None:
    """Make the parameters in the code the newest version of `default`."""
    draft = VariantDraft(workflow=workflow, name=DEFAULT_VARIANT, parameters=parameters)
    current = find_variant(db, project, workflow, DEFAULT_VARIANT)
    if current is None:
        _insert_variant(db, project, draft, id, at)
    else:
        commit_version(db, project, current.id, draft, base=current.head, at=at)


def is_default_current(db: Connection, project: str, workflow: str, parameters: Mapping[str, Any]) -> bool:
    """Whether the newest version of `default` has the parameters in the code."""
    current = find_variant(db, project, workflow, DEFAULT_VARIANT)
    return current is not None and is_same_json(
        get_version(db, project, current.id, current.head).parameters, parameters
    )


def _insert_version(db: Connection, project: str, variant: Variant, draft: VariantDraft, at: datetime) -> Version:
    version = Version(
        variant=variant.id,
        number=variant.head,
        parameters=draft.parameters,
        message=draft.message,
        key=draft.key,
        created_at=at,
    )
    db.execute(insert(versions_table).values(project=project, **msgspec.structs.asdict(version)))
    mark_changed(db, Change(project, "variant", variant.id))
    return version


def _check_name_free(db: Connection, project: str, variant: Variant) -> None:
    existing = find_variant(db, project, variant.workflow, variant.name)
    if existing is not None:
        raise _name_taken(variant.name, archived=existing.archived)


def _name_taken(name: str, *, archived: bool) -> NameTaken:
    tail = " by an archived variant. Unarchive that variant, or choose another name" if archived else ""
    return NameTaken(f"The name {name!r} is already in use{tail}.", pointer="/name")


# Database rows


def _select_variants(project: str) -> Select[Any]:
    return select(table).where(table.c.project == project)


def _select_versions(project: str, variant: str) -> Select[Any]:
    columns = versions_table.c
    return select(versions_table).where(and_(columns.project == project, columns.variant == variant))


def _variant_conditions(project: str, variant: str) -> tuple[Any, Any]:
    return table.c.project == project, table.c.id == variant


class ImportCounts(msgspec.Struct, frozen=True):
    created: int = 0
    updated: int = 0
    unchanged: int = 0


ImportVerdict = Literal["created", "updated", "unchanged"]


def export_variants(
    db: Connection, project: str, *, workflow: str | None = None, window: Window = FIRST_PAGE
) -> Page[VariantFile]:
    """List variants as files, except archived ones and `default`, which the code defines."""
    page = list_variants(db, project, workflow=workflow, window=window)
    files = [_variant_file(db, project, variant) for variant in page.data if variant.name != DEFAULT_VARIANT]
    return Page(files, page.next)


def _variant_file(db: Connection, project: str, variant: Variant) -> VariantFile:
    head = get_version(db, project, variant.id, variant.head)
    return VariantFile(
        workflow=variant.workflow,
        name=variant.name,
        description=variant.description,
        parameters=dict(head.parameters),
        palaver="variant/1",
    )


def import_variants(
    db: Connection,
    project: str,
    files: Sequence[VariantFile],
    *,
    new_id: Callable[[], str],
    at: datetime,
    key: str | None = None,
    mode: Literal["commit", "look"] = "commit",
) -> ImportCounts:
    """Import variants, or with mode `look` only report what would change."""
    verdicts: list[ImportVerdict] = []
    for file in files:
        existing = find_variant(db, project, file.workflow, file.name)
        head = get_head(db, project, existing.id) if existing is not None else None
        verdict = _verdict(file, head)
        if mode == "commit" and verdict != "unchanged":
            _import_variant(db, project, file, head, id=new_id(), at=at, key=key)
        verdicts.append(verdict)
    return ImportCounts(*(verdicts.count(verdict) for verdict in ("created", "updated", "unchanged")))


def _verdict(file: VariantFile, head: VariantHead | None) -> ImportVerdict:
    if head is None:
        return "created"
    same = is_same_json(head.head.parameters, file.parameters) and head.variant.description == file.description
    return "unchanged" if same and not head.variant.archived else "updated"


def _import_variant(
    db: Connection, project: str, file: VariantFile, head: VariantHead | None, *, id: str, at: datetime, key: str | None
) -> None:
    draft = VariantDraft(
        workflow=file.workflow, name=file.name, description=file.description, parameters=file.parameters, key=key
    )
    if head is None:
        create_variant(db, project, draft, id=id, at=at)
        return
    variant = head.variant
    commit_version(db, project, variant.id, draft, base=variant.head, at=at)
    fields = {"description": file.description, "archived": False}
    update_variant(db, project, variant.id, at=at, check=lambda _: None, **fields)
