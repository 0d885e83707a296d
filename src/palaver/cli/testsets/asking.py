"""What the commands of test sets have in common: whose sets, which set, which revision, and JSON on the screen."""

from typing import TYPE_CHECKING, Any

import msgspec

from palaver.errors import NotFound
from palaver.outbound import printable_json

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from palaver.storage.testsets.repository import Revision, TestSet


def sure(db: "Connection", project: str, name: str) -> "TestSet":
    """The set of that name, or of that id."""
    from palaver.storage.testsets import repository as testsets  # Late: --help must not wait for SQLAlchemy.

    found = testsets.find_testset(db, project, name)
    if found is not None:
        return found
    if name.startswith("ts_"):
        return testsets.get_testset(db, project, name)
    raise NotFound(f"There is no test set {name[:80]!r}: palaver testset list names them.")


def revision_of(db: "Connection", project: str, name: str, named: str) -> "tuple[TestSet, Revision]":
    """The set, and the revision of it that is meant."""
    from palaver.storage.testsets import repository as testset_revisions

    found = sure(db, project, name)
    return found, testset_revisions.get_revision(db, project, found.id, named, found.head)


def as_text(value: Any) -> str:
    """JSON for a screen."""
    return printable_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def counted(number: int, word: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number:,} {word}{'s' * (number != 1)}"
