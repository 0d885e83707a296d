"""Find the test set and revision that a command is about."""

from typing import TYPE_CHECKING

from palaver.errors import NotFound

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from palaver.storage.testsets.repository import Revision, TestSet


def require_testset(db: "Connection", project: str, name: str) -> "TestSet":
    """Find a set by name or id. Raises NotFound."""
    from palaver.storage.testsets import repository as testsets  # Imported late: --help must not wait for SQLAlchemy.

    testset = testsets.find_testset(db, project, name)
    if testset is not None:
        return testset
    if name.startswith("ts_"):
        return testsets.get_testset(db, project, name)
    raise NotFound(f"There is no test set {name[:80]!r}: palaver testset list names them.")


def require_revision(db: "Connection", project: str, name: str, reference: str) -> "tuple[TestSet, Revision]":
    from palaver.storage.testsets import repository as testset_revisions

    testset = require_testset(db, project, name)
    return testset, testset_revisions.get_revision(db, project, testset.id, reference, testset.head)
