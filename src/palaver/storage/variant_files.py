"""Variants as files, out of the database and into it again: what comes back is what went."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal

import msgspec
from sqlalchemy import Connection

from palaver.core.variants import DEFAULT, VariantFile, is_same
from palaver.storage import variants
from palaver.storage.pages import START, Page, Window
from palaver.storage.variants import Current, Variant, Wanted


class Report(msgspec.Struct, frozen=True):
    """How many variants an import made, changed, and left as they were."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0


Verdict = Literal["created", "updated", "unchanged"]


def given(db: Connection, project: str, *, workflow: str | None = None, window: Window = START) -> Page[VariantFile]:
    """A page of those that are in use, as files; what the code makes itself is not among them."""
    found = variants.listed(db, project, workflow=workflow, window=window)
    kept = [_file(db, project, variant) for variant in found.data if variant.name != DEFAULT]
    return Page(kept, found.next)


def _file(db: Connection, project: str, variant: Variant) -> VariantFile:
    head = variants.version(db, project, variant.id, variant.head)
    return VariantFile(
        workflow=variant.workflow,
        name=variant.name,
        description=variant.description,
        parameters=dict(head.parameters),
        palaver="variant/1",
    )


def take(
    db: Connection,
    project: str,
    files: Sequence[VariantFile],
    *,
    new_id: Callable[[], str],
    at: datetime,
    key: str | None = None,
    mode: Literal["commit", "look"] = "commit",
) -> Report:
    """Commit what differs, or only look what does."""
    verdicts: list[Verdict] = []
    for file in files:
        found = variants.find(db, project, file.workflow, file.name)
        head = variants.current(db, project, found.id) if found is not None else None
        verdict = _verdict(file, head)
        if mode == "commit" and verdict != "unchanged":
            _commit(db, project, file, head, id=new_id(), at=at, key=key)
        verdicts.append(verdict)
    return Report(*(verdicts.count(verdict) for verdict in ("created", "updated", "unchanged")))


def _verdict(file: VariantFile, head: Current | None) -> Verdict:
    if head is None:
        return "created"
    same = is_same(head.head.parameters, file.parameters) and head.variant.description == file.description
    return "unchanged" if same and not head.variant.archived else "updated"


def _commit(
    db: Connection,
    project: str,
    file: VariantFile,
    head: Current | None,
    *,
    id: str,
    at: datetime,
    key: str | None,
) -> None:
    wanted = Wanted(
        workflow=file.workflow, name=file.name, description=file.description, parameters=file.parameters, key=key
    )
    if head is None:
        variants.create(db, project, wanted, id=id, at=at)
        return
    variant = head.variant
    variants.commit(db, project, variant.id, wanted, base=variant.head, at=at)
    fields = {"description": file.description, "archived": False}
    variants.change(db, project, variant.id, at=at, check=lambda _: None, **fields)
