"""What the commands of test sets have in common: whose sets, which set, which revision, and JSON on the screen."""

from typing import TYPE_CHECKING

from palaver.errors import NotFound

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from palaver.storage.testsets.repository import Revision, TestSet


def require_testset(db: "Connection", project: str, name: str) -> "TestSet":
    """The set of that name, or of that id."""
    from palaver.storage.testsets import repository as testsets  # Late: --help must not wait for SQLAlchemy.

    found = testsets.find_testset(db, project, name)
    if found is not None:
        return found
    if name.startswith("ts_"):
        return testsets.get_testset(db, project, name)
    raise NotFound(f"There is no test set {name[:80]!r}: palaver testset list names them.")


def require_revision(db: "Connection", project: str, name: str, named: str) -> "tuple[TestSet, Revision]":
    """The set, and the revision of it that is meant."""
    from palaver.storage.testsets import repository as testset_revisions

    found = require_testset(db, project, name)
    return found, testset_revisions.get_revision(db, project, found.id, named, found.head)
