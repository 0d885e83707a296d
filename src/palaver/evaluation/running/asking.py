"""Asking: what a row says to a variant, by the columns that the plan names."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core import dialects
from palaver.core.messages import Message
from palaver.errors import InvalidMessages
from palaver.evaluation.planning.plans import PlannedVariant
from palaver.testsets.scripts import Script, is_script, read_script


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What one cell is about."""

    row: dict[str, Any]
    history: tuple[Message, ...] = ()
    inputs: dict[str, Any] = {}
    expected: Any | UnsetType = UNSET
    script: Script | None = None


def asked_of(row: dict[str, Any], variant: PlannedVariant) -> Asked:
    """What the row says. A RequestError says what in it cannot be said to a workflow."""
    columns = variant.map
    inputs = {name: row[column] for name, column in columns.inputs.items() if column in row}
    expected: Any = UNSET if columns.expected is None else row.get(columns.expected, UNSET)
    script = row.get(columns.script) if columns.script is not None else None
    if script is not None and is_script(script):
        return Asked(row=row, inputs=inputs, expected=expected, script=read_script(script, f"/{columns.script}"))
    said = row.get(columns.messages) if columns.messages is not None else None
    before = row.get(columns.history) if columns.history is not None else None
    history = (*_messages(before, columns.history or ""), *_messages(said, columns.messages or ""))
    return Asked(row=row, history=history, inputs=inputs, expected=expected)


def _messages(said: Any, column: str) -> list[Message]:
    """A text is what a user says; anything else is messages, in whatever dialect."""
    if said is None or said == []:
        return []
    if isinstance(said, str):
        return [Message.user(said)]
    if isinstance(said, Mapping) and "role" in said:
        said = [cast("Mapping[str, Any]", said)]
    try:
        return dialects.read(said, pointer=f"/{column}")
    except InvalidMessages as error:
        raise InvalidMessages(
            f"The column {column!r} holds no messages: {error.message}", pointer=error.pointer
        ) from None
