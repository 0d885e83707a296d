"""Decide which column of a test set is messages, inputs, script or expected answer.

Columns that the request names are checked; others are derived from the columns and the workflow's inputs. The page
shows the same mapping before a run (web/src/pages/evaluations): tests/evaluation/plan/mapping_cases.json tests both.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

from msgspec import UNSET, UnsetType

from palaver.core import json
from palaver.core.descriptions import Description
from palaver.errors import InvalidValue, MissingInput, UnknownInput
from palaver.evaluation.plan.plan import ColumnMap
from palaver.evaluation.plan.request import ColumnMapInput

USER_TEXT_NAMES = ("question", "input", "prompt", "query", "message", "user_message", "user_input", "text", "q", "user")
"""Usual names of a column of user texts, in order of preference. `user` is last: it may hold names of people."""
_ANSWER_NAMES = frozenset({"response", "completion"})
"""Usual names of answer columns, besides EXPECTED_NAMES."""
_CONVERSATION_KINDS = frozenset({"chat", "message", "script"})
"""If a column holds whole conversations, no text column is guessed."""


def find_user_text_column(
    kinds: Mapping[str, str], *, reserved: Collection[str | None], answers: Collection[str]
) -> str | None:
    """A column with a usual name, else the only text column that is neither reserved nor named like an answer.

    Numbers are text as well, but only in a column with a usual name.
    """
    if not _CONVERSATION_KINDS.isdisjoint(kinds.values()):
        return None
    if (column := find_named_text_column(kinds, reserved=reserved)) is not None:
        return column
    candidates = [
        name
        for name in _columns_of_kind("text", kinds, reserved)
        if name.lower() not in _ANSWER_NAMES and name.lower() not in answers
    ]
    if len(candidates) == 1:
        return candidates[0]
    return None if candidates else find_named_text_column(kinds, reserved=reserved, kind="number")


def find_named_text_column(
    kinds: Mapping[str, str], *, reserved: Collection[str | None], kind: str = "text"
) -> str | None:
    texts = _columns_of_kind(kind, kinds, reserved)
    return next((name for usual_name in USER_TEXT_NAMES for name in texts if name.lower() == usual_name), None)


def _columns_of_kind(kind: str, kinds: Mapping[str, str], reserved: Collection[str | None]) -> list[str]:
    return [name for name, column_kind in kinds.items() if column_kind == kind and name not in reserved]


EXPECTED_NAMES = (
    "expected",
    "expected_output",
    "correct_answer",
    "ground_truth",
    "reference",
    "answer",
    "output",
)
"""Usual names of the expected answer, in order of preference."""
_MESSAGE_KINDS = frozenset({"chat", "message", "text", "number", "boolean", "mixed"})
"""Kinds of columns that can be sent to a chat as messages."""
_TYPE_REF_KEY = "x-ag-type-ref"
_MESSAGES, _CONTENT, _HISTORY = "messages", "content", "history"

ColumnKinds = Mapping[str, str]
"""The kind of each column, in order."""


def map_columns(
    wanted: ColumnMapInput,
    kinds: ColumnKinds,
    workflow: Description,
    *,
    answers: Collection[str] = (),
    gaps: Collection[str] = (),
) -> ColumnMap:
    """Map columns to the parts of a call.

    Columns in `answers` hold recorded answers; they are inputs only if the workflow has inputs of that name. `gaps`
    are columns that are empty in some rows.
    """
    script = _script_column(wanted.script, kinds, workflow)
    workflow_inputs = _input_properties(workflow)
    # A column with another role is neither the expected answer nor the user's text.
    other_roles = {*(wanted.inputs or {}).values(), *answers, *workflow_inputs}
    expected = _expected_columns(wanted, kinds, other_roles)
    assigned = {*expected, wanted.history or None, *other_roles}
    messages = _messages_column(wanted.messages, kinds, workflow, script=script, assigned=assigned)
    history = _history_column(wanted.history, kinds, workflow, messages)
    reserved = {messages, history, script, *expected, *(name for name in answers if name not in workflow_inputs)}
    inputs = _input_columns(wanted.inputs, kinds, workflow, [name for name in kinds if name not in reserved])
    _check_required(workflow, inputs)
    # A fallback is used only next to a certain match, never next to a guess.
    is_certain = wanted.messages is UNSET and messages == _find_messages_column(kinds, workflow)
    message_columns = [name for name in (messages, script) if name is not None]
    has_gaps = bool(message_columns) and all(name in gaps for name in message_columns)
    return ColumnMap(
        messages=messages,
        history=history,
        script=script,
        # In rows that have messages, this column stays an input.
        spoken=find_named_text_column(kinds, reserved=assigned | reserved) if is_certain and has_gaps else None,
        expected=next(iter(expected), None),
        expected_fallbacks=tuple(expected[1:]),
        inputs=inputs,
    )


def map_answer_columns(
    wanted: ColumnMapInput, kinds: ColumnKinds, column: str, *, answers: Collection[str] = ()
) -> ColumnMap:
    """Map columns for recorded answers; messages and inputs are only shown. `answers` are those of all variants."""
    messages = _checked_column(wanted.messages, kinds, "/map/messages")
    history = _checked_column(wanted.history, kinds, "/map/history") or None
    script = _checked_column(wanted.script, kinds, "/map/script") or None
    expected = _expected_columns(wanted, kinds, {column, *answers, *(wanted.inputs or {}).values()})
    if messages is UNSET:
        messages = _only_column_of_kind("chat", kinds, other_than=column)
    reserved = {messages, history, script, *expected, column}
    requested = wanted.inputs or {}
    for name, from_column in requested.items():
        check_column(from_column, kinds, f"/map/inputs/{json.escape_pointer(name)}")
    inputs = dict(requested) if wanted.inputs is not UNSET else {name: name for name in kinds if name not in reserved}
    return ColumnMap(
        messages=messages,
        history=history,
        script=script,
        expected=next(iter(expected), None),
        expected_fallbacks=tuple(expected[1:]),
        inputs=inputs,
    )


# Each part of a call


def _script_column(requested: str | UnsetType | None, kinds: ColumnKinds, workflow: Description) -> str | None:
    column = _checked_column(requested, kinds, "/map/script")
    if column is UNSET:
        if not workflow.is_chat:
            return None
        return "script" if kinds.get("script") == "script" else _only_column_of_kind("script", kinds)
    if column is not None and not workflow.is_chat:
        raise InvalidValue(f"Scripts require a chat, but {workflow.name!r} is not a chat.", pointer="/map/script")
    return column


def _messages_column(
    requested: str | UnsetType | None,
    kinds: ColumnKinds,
    workflow: Description,
    *,
    script: str | None,
    assigned: Collection[str | None],
) -> str | None:
    column = _checked_column(requested, kinds, "/map/messages")
    if column is UNSET:
        column = _find_messages_column(kinds, workflow)
        if column is None and script is None and workflow.is_chat:
            column = find_user_text_column(kinds, reserved=assigned, answers=EXPECTED_NAMES)
            if column is None:
                raise MissingInput(
                    f"Workflow {workflow.name!r} requires messages. Map a column to 'messages'.",
                    pointer="/map/messages",
                )
    if column is not None and kinds[column] not in _MESSAGE_KINDS:
        raise InvalidValue(
            f"Column {column!r} cannot be used as messages: its type is {kinds[column]!r}.", pointer="/map/messages"
        )
    return column


def _find_messages_column(kinds: ColumnKinds, workflow: Description) -> str | None:
    if not workflow.is_chat:
        return None
    properties = _input_properties(workflow)
    marked = [name for name, schema in properties.items() if _is_messages_schema(schema)]
    by_name = next((name for name in (*marked, _MESSAGES) if name in kinds), None)
    if by_name is None and kinds.get(_CONTENT) in _MESSAGE_KINDS and _CONTENT not in properties:
        return _CONTENT  # As in service payloads, whose only conversation column may be `history`.
    return by_name or _only_column_of_kind("chat", kinds)


def _history_column(
    requested: str | UnsetType | None, kinds: ColumnKinds, workflow: Description, messages: str | None
) -> str | None:
    column = _checked_column(requested, kinds, "/map/history")
    if column is not UNSET:
        return column
    is_payload = messages == _CONTENT and _HISTORY in kinds and _HISTORY not in _input_properties(workflow)
    return _HISTORY if is_payload else None


def find_expected_columns(names: Iterable[str], other_roles: Collection[str | None] = ()) -> list[str]:
    """Return the columns with a usual name, the preferred one first, except those with another role."""
    candidates = [name for name in names if name not in other_roles]
    return [name for usual_name in EXPECTED_NAMES for name in candidates if name.lower() == usual_name]


def _expected_columns(wanted: ColumnMapInput, kinds: ColumnKinds, other_roles: Collection[str]) -> list[str]:
    """Return the requested column, or those with a usual name: each row uses the first that it has."""
    column = _checked_column(wanted.expected, kinds, "/map/expected")
    if column is not UNSET:
        return [] if column is None else [column]
    requested = (wanted.messages or None, wanted.history or None, wanted.script or None)
    return find_expected_columns(kinds, {*requested, *other_roles})


def _input_columns(
    requested: Mapping[str, str] | UnsetType | None, kinds: ColumnKinds, workflow: Description, free: Collection[str]
) -> dict[str, str]:
    properties = _input_properties(workflow)
    allows_other_inputs = workflow.schemas.inputs.get("additionalProperties", True) is not False
    if requested is UNSET:
        return {name: name for name in free if name in properties or allows_other_inputs}
    mapped = dict(requested or {})
    for name, column in mapped.items():
        pointer = f"/map/inputs/{json.escape_pointer(name)}"
        if name not in properties and not allows_other_inputs:
            names = ", ".join(properties) or "none"
            message = f"Workflow {workflow.name!r} has no input {name[:80]!r}. Available: {names}."
            raise UnknownInput(message, pointer=pointer)
        check_column(column, kinds, pointer)
    return mapped


def _check_required(workflow: Description, inputs: Mapping[str, str]) -> None:
    required = cast("list[str]", workflow.schemas.inputs.get("required", []))
    properties = _input_properties(workflow)
    message_inputs = {
        name
        for name in required
        if workflow.is_chat and (name == _MESSAGES or _is_messages_schema(properties.get(name)))
    }
    missing = [name for name in required if name not in inputs and name not in message_inputs]
    if missing:
        raise MissingInput(
            f"Workflow {workflow.name!r} requires the input {missing[0]!r}. Map a column to it.",
            pointer=f"/map/inputs/{json.escape_pointer(missing[0])}",
        )


def _checked_column(requested: str | UnsetType | None, kinds: ColumnKinds, pointer: str) -> str | UnsetType | None:
    if isinstance(requested, str):
        check_column(requested, kinds, pointer)
    return requested


def check_column(column: str, kinds: ColumnKinds, pointer: str) -> None:
    if column not in kinds:
        names = ", ".join(list(kinds)[:20]) or "none"
        raise InvalidValue(f"Column {column[:80]!r} not found in the test set. Available: {names}.", pointer=pointer)


def _only_column_of_kind(kind: str, kinds: ColumnKinds, *, other_than: str | None = None) -> str | None:
    """The column of this kind if there is exactly one: several are ambiguous."""
    names = [name for name, column_kind in kinds.items() if column_kind == kind and name != other_than]
    return names[0] if len(names) == 1 else None


def _input_properties(workflow: Description) -> Mapping[str, Any]:
    return workflow.schemas.inputs.get("properties") or {}


def _is_messages_schema(schema: Any) -> bool:
    return isinstance(schema, dict) and cast("dict[str, Any]", schema).get(_TYPE_REF_KEY) == _MESSAGES
