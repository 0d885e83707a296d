"""Bodies: a result as it is kept. What tables and searches show of it, and the whole of it, packed."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import UNSET

from palaver.core import jsons
from palaver.core.extraction import preview, preview_of
from palaver.core.messages import Message
from palaver.evaluation.scoring.cases import Case, CaseCall, Turn
from palaver.evaluation.scoring.casing import last_user
from palaver.storage.evaluations.results import compress_result

_LONGEST = 10_000
"""Characters of what was asked, and of what was answered, that a search looks at."""


class Redactor(Protocol):
    """Takes out what is not to be kept."""

    def inputs(self, inputs: Mapping[str, Any], field: str = "inputs") -> Mapping[str, Any]:
        """Of what was given besides."""
        ...

    def messages(self, messages: Sequence[Message], field: str = "messages_in") -> Sequence[Message]:
        """Of what was said, on one side."""
        ...

    def value(self, value: Any, field: str = "inputs") -> Any:
        """Of any JSON value."""
        ...


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a case."""

    preview_in: Any
    preview_out: Any
    words: str
    body: bytes


def kept(case: Case) -> Kept:
    """What is kept of it."""
    asked = preview_of(case.history, "input") if case.history else preview(case.inputs, "input")
    value = None if case.value is UNSET else case.value
    told = preview_of(case.messages, "output") if case.messages else preview(value, "output")
    user = last_user(case.history)
    said = case.text or ("" if value is None else _text(value))
    words = "\n".join([_beginning(user.text if user is not None else _text(case.inputs)), _beginning(said)])
    return Kept(preview_in=asked, preview_out=told, words=words, body=compress_result(_body(case)))


def redacted(case: Case, redactor: Redactor) -> Case:
    """The case without what is not to be kept; evaluators have seen all of it. What was asked comes first."""
    return msgspec.structs.replace(
        case,
        inputs=dict(redactor.inputs(case.inputs)),
        history=tuple(redactor.messages(case.history)),
        expected=case.expected if case.expected is UNSET else redactor.value(case.expected, "outputs"),
        messages=tuple(redactor.messages(case.messages, "messages_out")),
        text=redacted_text(case.text, redactor),
        tool_calls=tuple(_redacted_call(call, redactor) for call in case.tool_calls),
        value=case.value if case.value is UNSET else redactor.value(case.value, "outputs"),
        turns=tuple(_redacted_turn(turn, redactor) for turn in case.turns),
    )


def redacted_text(text: str, redactor: Redactor) -> str:
    """A text that may repeat what was said."""
    clean = redactor.value(text, "outputs") if text else text
    return clean if isinstance(clean, str) else ""


def _redacted_turn(turn: Turn, redactor: Redactor) -> Turn:
    return msgspec.structs.replace(
        turn,
        user=None if turn.user is None else redactor.messages([turn.user])[0],
        messages=tuple(redactor.messages(turn.messages, "messages_out")),
        text=redacted_text(turn.text, redactor),
        tool_calls=tuple(_redacted_call(call, redactor) for call in turn.tool_calls),
        value=turn.value if turn.value is UNSET else redactor.value(turn.value, "outputs"),
    )


def _redacted_call(call: CaseCall, redactor: Redactor) -> CaseCall:
    return msgspec.structs.replace(
        call,
        arguments=redacted_text(call.arguments, redactor),
        parsed=call.parsed if call.parsed is UNSET else redactor.value(call.parsed, "outputs"),
        result=call.result if call.result is UNSET else redactor.value(call.result, "outputs"),
    )


def _body(case: Case) -> dict[str, Any]:
    body: dict[str, Any] = {"inputs": case.inputs, "history": case.history, "messages": case.messages}
    body |= {"text": case.text, "notes": sorted(case.notes), "tool_calls": case.tool_calls}
    if case.value is not UNSET:
        body["value"] = case.value
    if case.expected is not UNSET:
        body["expected"] = case.expected
    if len(case.turns) > 1 or case.script is not None:
        body["turns"] = [_turn(turn) for turn in case.turns]
    return body


def _turn(turn: Turn) -> Mapping[str, Any]:
    fields = {**msgspec.structs.asdict(turn), "notes": sorted(turn.notes)}
    return {name: value for name, value in fields.items() if value is not UNSET and name != "verdict"}


def _text(value: Any) -> str:
    return jsons.encode(value).decode()


def _beginning(text: str) -> str:
    return text[:_LONGEST]
