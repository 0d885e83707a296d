"""Redaction of content before it is stored.

A database may have a redactor, which its connections carry. Without one, content is stored unchanged.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import Connection

from palaver.core.messages import Message
from palaver.core.runs import Call

_REDACTOR_KEY = "palaver.redactor"


class StorageRedactor(Protocol):
    """Removes what must not be stored. The workflow is None if it is not known yet."""

    def messages(self, project: str, workflow: str | None, messages: Sequence[Message]) -> Sequence[Message]: ...

    def inputs(self, project: str, workflow: str | None, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Redact the inputs of a thread's runs."""
        ...

    def call(self, project: str, workflow: str, call: Call, reading: Any) -> tuple[Call, Any]:
        """Redact the call of a run and its protocol note."""
        ...


def attach_redactor(db: Connection, redactor: StorageRedactor) -> None:
    db.info[_REDACTOR_KEY] = redactor


def get_redactor(db: Connection) -> StorageRedactor | None:
    return db.info.get(_REDACTOR_KEY)


def redact_messages(
    db: Connection, project: str, workflow: str | None, messages: Sequence[Message]
) -> Sequence[Message]:
    redactor = get_redactor(db)
    return messages if redactor is None or not messages else redactor.messages(project, workflow, messages)


def redact_title(db: Connection, project: str, workflow: str | None, title: str) -> str:
    return redact_messages(db, project, workflow, [Message.user(title)])[0].text if title else title


def redact_inputs(db: Connection, project: str, workflow: str | None, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    redactor = get_redactor(db)
    return inputs if redactor is None or not inputs else redactor.inputs(project, workflow, inputs)
