"""Decide which column of a test set is messages, inputs, script or expected answer."""

from collections.abc import Collection, Mapping
from typing import Any, cast

from msgspec import UNSET, UnsetType

from palaver.core import json
from palaver.core.descriptions import Description
from palaver.errors import InvalidValue, MissingInput, UnknownInput
from palaver.evaluation.plan.plan import ColumnMap
from palaver.evaluation.plan.request import WantedMap

USER_TEXT_NAMES = ("question", "input", "prompt", "query", "message", "user_message", "user_input", "text", "q", "user")
"""What such a column is usually called; the first that is there counts. `user` is last: it may be somebody's name."""
_ANSWER_NAMES = frozenset({"answer", "output", "response", "completion"})
"""What a column of answers is often called, beside the names of expected ones."""
_CONVERSATION_KINDS = frozenset({"chat", "message", "script"})
"""Where a column holds what was said in full, nobody guesses at another."""


def find_user_text_column(
    kinds: Mapping[str, str], *, taken: Collection[str | None], answers: Collection[str]
) -> str | None:
    """The column with a usual name, else the only one of texts that is neither taken nor called as one of `answers`."""
    if not _CONVERSATION_KINDS.isdisjoint(kinds.values()):
        return None
    if (named := find_named_text_column(kinds, taken=taken)) is not None:
        return named
    rest = [
        name
        for name in _text_columns(kinds, taken)
        if name.lower() not in _ANSWER_NAMES and name.lower() not in answers
    ]
    return rest[0] if len(rest) == 1 else None


def find_named_text_column(kinds: Mapping[str, str], *, taken: Collection[str | None]) -> str | None:
    """The column of texts with a usual name, and no other."""
    texts = _text_columns(kinds, taken)
    return next((name for word in USER_TEXT_NAMES for name in texts if name.lower() == word), None)


def _text_columns(kinds: Mapping[str, str], taken: Collection[str | None]) -> list[str]:
    return [name for name, kind in kinds.items() if kind == "text" and name not in taken]


EXPECTED_NAMES = ("expected", "expected_output", "correct_answer", "ground_truth", "reference")
"""What the column of expected answers may be called; the first that is there counts."""
_MESSAGE_KINDS = frozenset({"chat", "message", "text", "mixed"})
"""Kinds of columns whose values can be what is said to a chat."""
_TYPE_REF_KEY = "x-ag-type-ref"
_MESSAGES, _CONTENT, _HISTORY = "messages", "content", "history"

ColumnKinds = Mapping[str, str]
"""The kind of each column of a test set, in their order."""


def map_columns(
    wanted: WantedMap,
    kinds: ColumnKinds,
    workflow: Description,
    *,
    answers: Collection[str] = (),
    gaps: Collection[str] = (),
) -> ColumnMap:
    """Where the columns go for a workflow; `answers` hold answers already, and are inputs only where it names them.

    `gaps` are the columns that some rows have nothing in.
    """
    script = _script_column(wanted.script, kinds, workflow)
    expected = _expected_column(wanted.expected, kinds)
    named = _input_properties(workflow)
    # What a column was said to be, or the workflow calls an input of its own, is not what the user says as well.
    placed = {expected, wanted.history or None, *(wanted.inputs or {}).values(), *answers, *named}
    messages = _messages_column(wanted.messages, kinds, workflow, script=script, placed=placed)
    history = _history_column(wanted.history, kinds, workflow, messages)
    taken = {messages, history, script, expected, *(name for name in answers if name not in named)}
    inputs = _input_columns(wanted.inputs, kinds, workflow, [name for name in kinds if name not in taken])
    _check_required(workflow, inputs)
    # Only beside what was found for certain: of one guess there is no second.
    is_certain = wanted.messages is UNSET and messages == _find_messages_column(kinds, workflow)
    told = [name for name in (messages, script) if name is not None]
    has_gaps = bool(told) and all(name in gaps for name in told)
    return ColumnMap(
        messages=messages,
        history=history,
        script=script,
        # It stays an input of the rows that have messages: they are asked as if nobody had looked for it.
        spoken=find_named_text_column(kinds, taken=placed | taken) if is_certain and has_gaps else None,
        expected=expected,
        inputs=inputs,
    )


def map_answer_columns(wanted: WantedMap, kinds: ColumnKinds, column: str) -> ColumnMap:
    """The same for answers that are in a column: what was asked is shown where it can be told."""
    messages = _checked_column(wanted.messages, kinds, "/map/messages")
    history = _checked_column(wanted.history, kinds, "/map/history") or None
    script = _checked_column(wanted.script, kinds, "/map/script") or None
    expected = _expected_column(wanted.expected, kinds)
    if messages is UNSET:
        messages = next(
            iter(_single([name for name, kind in kinds.items() if kind == "chat" and name != column])), None
        )
    taken = {messages, history, script, expected, column}
    given = wanted.inputs or {}
    for name, from_column in given.items():
        _check_column(from_column, kinds, f"/map/inputs/{json.escape_pointer(name)}")
    inputs = dict(given) if wanted.inputs is not UNSET else {name: name for name in kinds if name not in taken}
    return ColumnMap(messages=messages, history=history, script=script, expected=expected, inputs=inputs)


# One by one


def _script_column(wanted: str | UnsetType | None, kinds: ColumnKinds, workflow: Description) -> str | None:
    given = _checked_column(wanted, kinds, "/map/script")
    if given is UNSET:
        scripts = [name for name, kind in kinds.items() if kind == "script"] if workflow.is_chat else []
        return "script" if "script" in scripts else next(iter(_single(scripts)), None)
    if given is not None and not workflow.is_chat:
        raise InvalidValue(f"A script is played with a chat, and {workflow.name!r} is none.", pointer="/map/script")
    return given


def _messages_column(
    wanted: str | UnsetType | None,
    kinds: ColumnKinds,
    workflow: Description,
    *,
    script: str | None,
    placed: Collection[str | None],
) -> str | None:
    given = _checked_column(wanted, kinds, "/map/messages")
    if given is UNSET:
        given = _find_messages_column(kinds, workflow)
        if given is None and script is None and workflow.is_chat:
            given = _require_spoken_column(kinds, workflow, placed)
    if given is not None and kinds[given] not in _MESSAGE_KINDS:
        raise InvalidValue(f"The column {given!r} is {kinds[given]}, no conversation.", pointer="/map/messages")
    return given


def _require_spoken_column(kinds: ColumnKinds, workflow: Description, placed: Collection[str | None]) -> str:
    found = find_user_text_column(kinds, taken=placed, answers=EXPECTED_NAMES)
    if found is None:
        raise MissingInput(
            f"The chat {workflow.name!r} wants messages, and no column is theirs: name one in map.messages.",
            pointer="/map/messages",
        )
    return found


def _find_messages_column(kinds: ColumnKinds, workflow: Description) -> str | None:
    if not workflow.is_chat:
        return None
    properties = _input_properties(workflow)
    marked = [name for name, schema in properties.items() if _is_messages_schema(schema)]
    by_name = next((name for name in (*marked, _MESSAGES) if name in kinds), None)
    if by_name is None and kinds.get(_CONTENT) in _MESSAGE_KINDS and _CONTENT not in properties:
        return _CONTENT  # As in the payload of a service: the one column of conversations may be what came before.
    return by_name or next(iter(_single([name for name, kind in kinds.items() if kind == "chat"])), None)


def _history_column(
    wanted: str | UnsetType | None, kinds: ColumnKinds, workflow: Description, messages: str | None
) -> str | None:
    given = _checked_column(wanted, kinds, "/map/history")
    if given is not UNSET:
        return given
    is_payload = messages == _CONTENT and _HISTORY in kinds and _HISTORY not in _input_properties(workflow)
    return _HISTORY if is_payload else None


def _expected_column(wanted: str | UnsetType | None, kinds: ColumnKinds) -> str | None:
    given = _checked_column(wanted, kinds, "/map/expected")
    return next((name for name in EXPECTED_NAMES if name in kinds), None) if given is UNSET else given


def _input_columns(
    wanted: Mapping[str, str] | UnsetType | None, kinds: ColumnKinds, workflow: Description, free: Collection[str]
) -> dict[str, str]:
    named, is_open = _input_properties(workflow), workflow.schemas.inputs.get("additionalProperties", True) is not False
    if wanted is UNSET:
        return {name: name for name in free if name in named or is_open}
    given = dict(wanted or {})
    for name, column in given.items():
        pointer = f"/map/inputs/{json.escape_pointer(name)}"
        if name not in named and not is_open:
            raise UnknownInput(f"{workflow.name!r} has no input {name!r}.", pointer=pointer)
        _check_column(column, kinds, pointer)
    return given


def _check_required(workflow: Description, inputs: Mapping[str, str]) -> None:
    required = cast("list[str]", workflow.schemas.inputs.get("required", []))
    properties = _input_properties(workflow)
    said = {
        name
        for name in required
        if workflow.is_chat and (name == _MESSAGES or _is_messages_schema(properties.get(name)))
    }
    missing = [name for name in required if name not in inputs and name not in said]
    if missing:
        raise MissingInput(
            f"{workflow.name!r} wants the input {missing[0]!r}, and no column is for it: name one in map.inputs.",
            pointer=f"/map/inputs/{json.escape_pointer(missing[0])}",
        )


# Columns


def _checked_column(wanted: str | UnsetType | None, kinds: ColumnKinds, pointer: str) -> str | UnsetType | None:
    if isinstance(wanted, str):
        _check_column(wanted, kinds, pointer)
    return wanted


def _check_column(column: str, kinds: ColumnKinds, pointer: str) -> None:
    if column not in kinds:
        names = ", ".join(list(kinds)[:20]) or "none"
        raise InvalidValue(f"The test set has no column {column[:80]!r}. It has: {names}.", pointer=pointer)


def _single(names: list[str]) -> list[str]:
    """The one, where there is but one: of several nobody knows which is meant."""
    return names if len(names) == 1 else []


def _input_properties(workflow: Description) -> Mapping[str, Any]:
    return workflow.schemas.inputs.get("properties") or {}


def _is_messages_schema(schema: Any) -> bool:
    return isinstance(schema, dict) and cast("dict[str, Any]", schema).get(_TYPE_REF_KEY) == _MESSAGES
