"""Which column of a test set goes where: to the messages of a call, its inputs, the script, the expected answer.

What a request says is checked, what it leaves open is found out from the columns and from what the workflow takes.
"""

from collections.abc import Collection, Mapping
from typing import Any, cast

from msgspec import UNSET, UnsetType

from palaver.core import jsons
from palaver.core.descriptions import Description
from palaver.errors import InvalidValue, MissingInput, UnknownInput
from palaver.evaluation.planning.plans import ColumnMap, WantedMap
from palaver.evaluation.planning.spoken import spoken, usually_spoken

EXPECTED = ("expected", "expected_output", "correct_answer", "ground_truth", "reference")
"""What the column of expected answers may be called; the first that is there counts."""
_SPOKEN = frozenset({"chat", "message", "text", "mixed"})
"""Kinds of columns whose values can be what is said to a chat."""
_MARK = "x-ag-type-ref"
_MESSAGES, _CONTENT, _HISTORY = "messages", "content", "history"

Kinds = Mapping[str, str]
"""The kind of each column of a test set, in their order."""


def mapped(
    wanted: WantedMap,
    kinds: Kinds,
    workflow: Description,
    *,
    answers: Collection[str] = (),
    gaps: Collection[str] = (),
) -> ColumnMap:
    """Where the columns go for a workflow; `answers` hold answers already, and are inputs only where it names them.

    `gaps` are the columns that some rows have nothing in.
    """
    script = _script(wanted.script, kinds, workflow)
    expected = _expected(wanted.expected, kinds)
    named = _properties(workflow)
    # What a column was said to be, or the workflow calls an input of its own, is not what the user says as well.
    placed = {expected, wanted.history or None, *(wanted.inputs or {}).values(), *answers, *named}
    messages = _messages(wanted.messages, kinds, workflow, script=script, placed=placed)
    history = _history(wanted.history, kinds, workflow, messages)
    taken = {messages, history, script, expected, *(name for name in answers if name not in named)}
    inputs = _inputs(wanted.inputs, kinds, workflow, [name for name in kinds if name not in taken])
    _check_required(workflow, inputs)
    # Only beside what was found for certain: of one guess there is no second.
    is_certain = wanted.messages is UNSET and messages == _found_messages(kinds, workflow)
    told = [name for name in (messages, script) if name is not None]
    has_gaps = bool(told) and all(name in gaps for name in told)
    return ColumnMap(
        messages=messages,
        history=history,
        script=script,
        # It stays an input of the rows that have messages: they are asked as if nobody had looked for it.
        spoken=usually_spoken(kinds, taken=placed | taken) if is_certain and has_gaps else None,
        expected=expected,
        inputs=inputs,
    )


def mapped_answers(wanted: WantedMap, kinds: Kinds, column: str) -> ColumnMap:
    """The same for answers that are in a column: what was asked is shown where it can be told."""
    messages = _known(wanted.messages, kinds, "/map/messages")
    history = _known(wanted.history, kinds, "/map/history") or None
    script = _known(wanted.script, kinds, "/map/script") or None
    expected = _expected(wanted.expected, kinds)
    if messages is UNSET:
        messages = next(iter(_only([name for name, kind in kinds.items() if kind == "chat" and name != column])), None)
    taken = {messages, history, script, expected, column}
    given = wanted.inputs or {}
    for name, from_column in given.items():
        _check_known(from_column, kinds, f"/map/inputs/{jsons.escaped(name)}")
    inputs = dict(given) if wanted.inputs is not UNSET else {name: name for name in kinds if name not in taken}
    return ColumnMap(messages=messages, history=history, script=script, expected=expected, inputs=inputs)


# One by one


def _script(wanted: str | UnsetType | None, kinds: Kinds, workflow: Description) -> str | None:
    given = _known(wanted, kinds, "/map/script")
    if given is UNSET:
        scripts = [name for name, kind in kinds.items() if kind == "script"] if workflow.is_chat else []
        return "script" if "script" in scripts else next(iter(_only(scripts)), None)
    if given is not None and not workflow.is_chat:
        raise InvalidValue(f"A script is played with a chat, and {workflow.name!r} is none.", pointer="/map/script")
    return given


def _messages(
    wanted: str | UnsetType | None,
    kinds: Kinds,
    workflow: Description,
    *,
    script: str | None,
    placed: Collection[str | None],
) -> str | None:
    given = _known(wanted, kinds, "/map/messages")
    if given is UNSET:
        given = _found_messages(kinds, workflow)
        if given is None and script is None and workflow.is_chat:
            given = _spoken(kinds, workflow, placed)
    if given is not None and kinds[given] not in _SPOKEN:
        raise InvalidValue(f"The column {given!r} is {kinds[given]}, no conversation.", pointer="/map/messages")
    return given


def _spoken(kinds: Kinds, workflow: Description, placed: Collection[str | None]) -> str:
    found = spoken(kinds, taken=placed, answers=EXPECTED)
    if found is None:
        raise MissingInput(
            f"The chat {workflow.name!r} wants messages, and no column is theirs: name one in map.messages.",
            pointer="/map/messages",
        )
    return found


def _found_messages(kinds: Kinds, workflow: Description) -> str | None:
    if not workflow.is_chat:
        return None
    properties = _properties(workflow)
    marked = [name for name, schema in properties.items() if _is_marked(schema)]
    by_name = next((name for name in (*marked, _MESSAGES) if name in kinds), None)
    if by_name is None and kinds.get(_CONTENT) in _SPOKEN and _CONTENT not in properties:
        return _CONTENT  # As in the payload of a service: the one column of conversations may be what came before.
    return by_name or next(iter(_only([name for name, kind in kinds.items() if kind == "chat"])), None)


def _history(wanted: str | UnsetType | None, kinds: Kinds, workflow: Description, messages: str | None) -> str | None:
    given = _known(wanted, kinds, "/map/history")
    if given is not UNSET:
        return given
    is_payload = messages == _CONTENT and _HISTORY in kinds and _HISTORY not in _properties(workflow)
    return _HISTORY if is_payload else None


def _expected(wanted: str | UnsetType | None, kinds: Kinds) -> str | None:
    given = _known(wanted, kinds, "/map/expected")
    return next((name for name in EXPECTED if name in kinds), None) if given is UNSET else given


def _inputs(
    wanted: Mapping[str, str] | UnsetType | None, kinds: Kinds, workflow: Description, free: Collection[str]
) -> dict[str, str]:
    named, is_open = _properties(workflow), workflow.schemas.inputs.get("additionalProperties", True) is not False
    if wanted is UNSET:
        return {name: name for name in free if name in named or is_open}
    given = dict(wanted or {})
    for name, column in given.items():
        pointer = f"/map/inputs/{jsons.escaped(name)}"
        if name not in named and not is_open:
            raise UnknownInput(f"{workflow.name!r} has no input {name!r}.", pointer=pointer)
        _check_known(column, kinds, pointer)
    return given


def _check_required(workflow: Description, inputs: Mapping[str, str]) -> None:
    required = cast("list[str]", workflow.schemas.inputs.get("required", []))
    properties = _properties(workflow)
    said = {name for name in required if workflow.is_chat and (name == _MESSAGES or _is_marked(properties.get(name)))}
    missing = [name for name in required if name not in inputs and name not in said]
    if missing:
        raise MissingInput(
            f"{workflow.name!r} wants the input {missing[0]!r}, and no column is for it: name one in map.inputs.",
            pointer=f"/map/inputs/{jsons.escaped(missing[0])}",
        )


# Columns


def _known(wanted: str | UnsetType | None, kinds: Kinds, pointer: str) -> str | UnsetType | None:
    if isinstance(wanted, str):
        _check_known(wanted, kinds, pointer)
    return wanted


def _check_known(column: str, kinds: Kinds, pointer: str) -> None:
    if column not in kinds:
        names = ", ".join(list(kinds)[:20]) or "none"
        raise InvalidValue(f"The test set has no column {column[:80]!r}. It has: {names}.", pointer=pointer)


def _only(names: list[str]) -> list[str]:
    """The one, where there is but one: of several nobody knows which is meant."""
    return names if len(names) == 1 else []


def _properties(workflow: Description) -> Mapping[str, Any]:
    return workflow.schemas.inputs.get("properties") or {}


def _is_marked(schema: Any) -> bool:
    return isinstance(schema, dict) and cast("dict[str, Any]", schema).get(_MARK) == _MESSAGES
