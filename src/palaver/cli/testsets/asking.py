"""What the commands of test sets have in common: whose sets, which set, which revision, and JSON on the screen."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from palaver.core.runs import DEFAULT_PROJECT
from palaver.errors import NotFound
from palaver.outbound import printable_json

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from palaver.storage.testsets.repository import Revision, TestSet

F = TypeVar("F", bound=Callable[..., Any])


def project_option(command: F) -> F:
    """A command with the option: `def command(project: str)`."""
    return click.option("--project", default=DEFAULT_PROJECT, show_default=True, help="Whose test sets.")(command)


def json_option(command: F) -> F:
    """A command with the option: `def command(as_json: bool)`."""
    return click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")(command)


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
