"""Asking: what a row says to a variant, by the columns that the plan names."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core import dialects
from palaver.core.messages import Message
from palaver.errors import InvalidMessages
from palaver.evaluation.planning.plans import ColumnMap, PlannedVariant
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
    script = _in(row, columns.script)
    if script is not None and is_script(script):
        return Asked(row=row, inputs=inputs, expected=expected, script=read_script(script, f"/{columns.script}"))
    column = columns.messages
    if columns.spoken is not None and _in(row, column) is None:
        # What the user says is no input as well, as in a set that has no messages at all.
        column = columns.spoken
        inputs = {name: value for name, value in inputs.items() if columns.inputs[name] != column}
    before, said = _in(row, columns.history), _in(row, column)
    history = (*_messages(before, columns.history or ""), *_messages(said, column or ""))
    return Asked(row=row, history=history, inputs=inputs, expected=expected)


def lack_of(asked: Asked, columns: ColumnMap) -> str | None:
    """What a row has not got that says nothing, though columns are for it. An empty list is what somebody meant."""
    if asked.script is not None or asked.history or _in(asked.row, columns.messages) is not None:
        return None
    if columns.messages is None and columns.script is None:
        return None
    wanted = {"messages": columns.messages, "script": columns.script, "text": columns.spoken}
    return ", ".join(f"no {what} in the column {column!r}" for what, column in wanted.items() if column is not None)


def _in(row: Mapping[str, Any], column: str | None) -> Any:
    return None if column is None else row.get(column)


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
