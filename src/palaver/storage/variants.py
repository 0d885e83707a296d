"""Variants, and the versions of each: they are added to, never changed."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Row, Select, and_, insert, select, update
from sqlalchemy.exc import IntegrityError

from palaver.core import variants as core
from palaver.core.variants import DEFAULT, Reference, read_reference
from palaver.errors import InvalidParameter, NameTaken, NotFound, StaleBase
from palaver.storage.notices import Change, touch
from palaver.storage.pages import START, Page, Window, page
from palaver.storage.tables import variant_versions as versions_table
from palaver.storage.tables import variants as table


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """A named set of parameters of one workflow."""

    id: str
    workflow: str
    name: str
    description: str = ""
    head: int = 1
    """The number of its newest version."""
    archived: bool = False
    created_at: datetime
    updated_at: datetime


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """What a variant sets, for ever."""

    variant: str
    number: int
    parameters: Mapping[str, Any]
    message: str = ""
    key: str | None = None
    """The id of the key that it was made with."""
    created_at: datetime


class Current(NamedTuple):
    """A variant, and its newest version."""

    variant: Variant
    head: Version


class Resolved(msgspec.Struct, frozen=True):
    """A reference, fixed to a version, and what that sets."""

    reference: str
    parameters: Mapping[str, Any]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A variant as somebody wants it to be."""

    workflow: str
    name: str
    description: str = ""
    parameters: Mapping[str, Any]
    message: str = ""
    key: str | None = None


# Finding


def get(db: Connection, project: str, variant: str) -> Variant:
    """One, archived or not."""
    return _got(db, _of_project(project), variant)


def _locked(db: Connection, project: str, variant: str) -> Variant:
    """One that is to be changed: nobody else may change it meanwhile."""
    return _got(db, _of_project(project).with_for_update(), variant)


def _got(db: Connection, query: Select[Any], variant: str) -> Variant:
    row = db.execute(query.where(table.c.id == variant)).one_or_none()
    if row is None:
        raise NotFound(f"There is no variant {variant[:80]!r}.")
    return _variant(row)


def find(db: Connection, project: str, workflow: str, name: str) -> Variant | None:
    """The one of that name, archived or not."""
    row = db.execute(_of_project(project).where(table.c.workflow == workflow, table.c.name == name)).one_or_none()
    return None if row is None else _variant(row)


def listed(
    db: Connection, project: str, *, workflow: str | None = None, archived: bool = False, window: Window = START
) -> Page[Variant]:
    """Those of a workflow, or of all; archived ones too if they are asked for."""
    query = _of_project(project)
    if workflow is not None:
        query = query.where(table.c.workflow == workflow)
    if not archived:
        query = query.where(table.c.archived.is_(False))
    filters = {"workflow": workflow, "archived": archived}
    return page(db, query, _variant, project=project, by=(table.c.id,), window=window, filters=filters)


def version(db: Connection, project: str, variant: str, number: int) -> Version:
    """One version."""
    query = _versions(project, variant).where(versions_table.c.number == number)
    row = db.execute(query).one_or_none() if number < 1 << 31 else None
    if row is None:
        raise NotFound(f"The variant {variant[:80]!r} has no version {number}.")
    return _version(row)


def versions(db: Connection, project: str, variant: str, window: Window = START) -> Page[Version]:
    """All of them, newest first."""
    get(db, project, variant)
    query, by = _versions(project, variant), (versions_table.c.number,)
    return page(db, query, _version, project=project, by=by, window=window, filters={"variant": variant})


def current(db: Connection, project: str, variant: str) -> Current:
    """One, and what it sets now."""
    found = get(db, project, variant)
    return Current(found, version(db, project, variant, found.head))


def resolve(db: Connection, project: str, workflow: str, reference: str) -> Resolved:
    """What a reference means now, as `short:3` for ever after."""
    asked = read_reference(reference)
    found = find(db, project, workflow, asked.name) if asked.workflow in (None, workflow) else None
    number = asked.version or (found.head if found is not None else 0)
    if found is None or number > found.head:
        raise InvalidParameter(f"The workflow {workflow!r} has no variant {reference!r}.")
    set_by = version(db, project, found.id, number)
    return Resolved(str(Reference(asked.name, number)), set_by.parameters)


# Changing


def create(db: Connection, project: str, wanted: Wanted, *, id: str, at: datetime) -> Variant:
    """A new one, with its first version."""
    if wanted.name == DEFAULT:
        raise NameTaken(f"The variant {DEFAULT!r} is made by the code itself: take another name.", pointer="/name")
    return _create(db, project, wanted, id, at)


def _create(db: Connection, project: str, wanted: Wanted, id: str, at: datetime) -> Variant:
    made = Variant(
        id=id,
        workflow=wanted.workflow,
        name=wanted.name,
        description=wanted.description,
        created_at=at,
        updated_at=at,
    )
    _check_free(db, project, made)
    try:
        db.execute(insert(table).values(project=project, **msgspec.structs.asdict(made)))
    except IntegrityError:  # Another process was quicker.
        raise _taken(made.name, archived=False) from None
    _add(db, project, made, wanted, at)
    return made


def change(
    db: Connection, project: str, variant: str, *, at: datetime, check: Callable[[Current], None], **fields: Any
) -> Current:
    """Another name or description, archived or not; `check` may refuse to change what it is given."""
    found = _locked(db, project, variant)
    head = version(db, project, variant, found.head)
    check(Current(found, head))
    changed = msgspec.structs.replace(found, **fields)
    if changed == found:
        return Current(found, head)
    if changed.name != found.name:
        if changed.name == DEFAULT:
            raise NameTaken(f"The variant {DEFAULT!r} is made by the code itself.", pointer="/name")
        _check_free(db, project, changed)
    db.execute(update(table).where(*_key(project, variant)).values(**fields, updated_at=at))
    touch(db, Change(project, "variant", variant))
    return Current(msgspec.structs.replace(changed, updated_at=at), head)


def commit(
    db: Connection, project: str, variant: str, wanted: Wanted, *, base: int, at: datetime
) -> tuple[Version, bool]:
    """A new version, made from version `base`; or the newest one and False, if it sets the same."""
    found = _locked(db, project, variant)
    head = version(db, project, variant, found.head)
    if core.is_same(head.parameters, wanted.parameters):
        return head, False
    if base != found.head:
        raise StaleBase(
            f"The newest version of {found.name!r} is {found.head}, not {base}: look at it first.",
            details={"head": found.head},
        )
    newer = msgspec.structs.replace(found, head=found.head + 1)
    db.execute(update(table).where(*_key(project, variant)).values(head=newer.head, updated_at=at))
    return _add(db, project, newer, wanted, at), True


def keep_default(
    db: Connection,
    project: str,
    workflow: str,
    parameters: Mapping[str, Any],
    *,
    id: str,
    at: datetime,
) -> None:
    """See to it that the newest version of `default` is what the code says now."""
    wanted = Wanted(workflow=workflow, name=DEFAULT, parameters=parameters)
    found = find(db, project, workflow, DEFAULT)
    if found is None:
        _create(db, project, wanted, id, at)
    else:
        commit(db, project, found.id, wanted, base=found.head, at=at)


def is_default_kept(db: Connection, project: str, workflow: str, parameters: Mapping[str, Any]) -> bool:
    """Is the newest version of `default` what the code says now?"""
    found = find(db, project, workflow, DEFAULT)
    return found is not None and core.is_same(version(db, project, found.id, found.head).parameters, parameters)


def _add(db: Connection, project: str, variant: Variant, wanted: Wanted, at: datetime) -> Version:
    """The version that the variant's head says is the newest."""
    made = Version(
        variant=variant.id,
        number=variant.head,
        parameters=wanted.parameters,
        message=wanted.message,
        key=wanted.key,
        created_at=at,
    )
    db.execute(insert(versions_table).values(project=project, **_columns(made)))
    touch(db, Change(project, "variant", variant.id))
    return made


def _check_free(db: Connection, project: str, variant: Variant) -> None:
    other = find(db, project, variant.workflow, variant.name)
    if other is not None:
        raise _taken(variant.name, archived=other.archived)


def _taken(name: str, *, archived: bool) -> NameTaken:
    tail = "archived: bring it back, or take another name" if archived else "there already: take another name"
    return NameTaken(f"A variant {name!r} is {tail}.", pointer="/name")


# Rows


def _of_project(project: str) -> Select[Any]:
    return select(table).where(table.c.project == project)


def _versions(project: str, variant: str) -> Select[Any]:
    columns = versions_table.c
    return select(versions_table).where(and_(columns.project == project, columns.variant == variant))


def _key(project: str, variant: str) -> tuple[Any, Any]:
    return table.c.project == project, table.c.id == variant


def _variant(row: Row[Any]) -> Variant:
    return Variant(**{name: getattr(row, name) for name in Variant.__struct_fields__})


def _version(row: Row[Any]) -> Version:
    return Version(**{name: getattr(row, name) for name in Version.__struct_fields__})


def _columns(made: Version) -> dict[str, Any]:
    return {name: getattr(made, name) for name in Version.__struct_fields__}
