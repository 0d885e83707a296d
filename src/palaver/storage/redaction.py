"""What may be kept of what people say, where the operator wants less than all: whoever knows the rules is asked here.

A database is given one that cleans; every connection of it brings that along. Without one, all is kept as it is.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import Connection

from palaver.core.messages import Message
from palaver.core.runs import Call

_REDACTOR_KEY = "palaver.cleaner"


class StorageRedactor(Protocol):
    """Takes out what is not to be kept. The workflow is None where nobody knows yet which it will be."""

    def messages(self, project: str, workflow: str | None, messages: Sequence[Message]) -> Sequence[Message]:
        """Messages of a conversation."""
        ...

    def inputs(self, project: str, workflow: str | None, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """What runs in a conversation are given besides."""
        ...

    def call(self, project: str, workflow: str, call: Call, reading: Any) -> tuple[Call, Any]:
        """What a run was asked, and the note of how to answer it."""
        ...


def attach_redactor(db: Connection, cleaner: StorageRedactor) -> None:
    """From here on this connection has one."""
    db.info[_REDACTOR_KEY] = cleaner


def redactor_of(db: Connection) -> StorageRedactor | None:
    """The one that it has."""
    return db.info.get(_REDACTOR_KEY)


def redact_messages(db: Connection, project: str, workflow: str | None, said: Sequence[Message]) -> Sequence[Message]:
    """Messages as they may be kept."""
    cleaner = redactor_of(db)
    return said if cleaner is None or not said else cleaner.messages(project, workflow, said)


def redact_title(db: Connection, project: str, workflow: str | None, given: str) -> str:
    """A title as it may be kept: like something that was said."""
    return redact_messages(db, project, workflow, [Message.user(given)])[0].text if given else given


def redact_inputs(db: Connection, project: str, workflow: str | None, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Inputs as they may be kept."""
    cleaner = redactor_of(db)
    return given if cleaner is None or not given else cleaner.inputs(project, workflow, given)
