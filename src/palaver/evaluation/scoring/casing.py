"""Casing: an answer becomes a case. What its text is, what its calls are, and why there is no text (B3).

`turn_of` reads the reply of one call; `case_of` puts the turns of a case together. The JSON of an answer is looked for
when somebody wants it (aim.py). Whether it is a chat decides what is read: nothing is made into text behind anybody's
back.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, cast

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core import jsons
from palaver.core.calls import Reply
from palaver.core.events import Event
from palaver.core.messages import Message
from palaver.core.parts import Data, Refusal, ToolCall, ToolResult
from palaver.evaluation.scoring.aim import messages_in
from palaver.evaluation.scoring.cases import NO_NOTES, Case, CaseCall, Flags, Turn
from palaver.testsets.scripts import Script


def case_of(  # noqa: PLR0913 - a case has as many fields, all by keyword
    *,
    turns: Sequence[Turn],
    flags: Flags,
    id: str = "",
    row_id: str = "",
    variant: str = "",
    repeat: int = 0,
    row: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Any] | None = None,
    expected: Any | UnsetType = UNSET,
    history: Sequence[Message] = (),
    events: Iterable[Event] | None = None,
    trace_id: str | None = None,
    script: Script | None = None,
) -> Case:
    """The case that these turns make; a plain one has one. Text, value and finish are those of the last reached."""
    numbered = _numbered(turns)
    last = next((turn for turn in reversed(numbered) if turn.reached), Turn())
    usages = [turn.usage for turn in numbered if turn.usage is not None]
    return Case(
        id=id,
        row_id=row_id,
        variant=variant,
        repeat=repeat,
        row=dict(row or {}),
        inputs=dict(inputs or {}),
        expected=expected,
        history=tuple(history),
        messages=tuple(message for turn in numbered for message in turn.messages),
        text=last.text,
        notes=last.notes,
        tool_calls=tuple(call for turn in numbered for call in turn.tool_calls),
        value=last.value,
        turns=numbered,
        events=tuple(events) if events is not None else None,
        usage=reduce(add, usages) if usages else None,
        latency=sum(turn.latency for turn in numbered),
        first_output=next((turn.first_output for turn in numbered), None),
        finish=last.finish,
        trace_id=trace_id,
        flags=flags,
        script=script,
    )


def turn_of(
    reply: Reply,
    *,
    is_chat: bool,
    user: Message | None = None,
    latency: float = 0.0,
    first_output: float | None = None,
    expect: Any = None,
) -> Turn:
    """What one call came to. Several replies of one turn, with a tool's results between, come as one reply."""
    messages = tuple(reply.messages)
    text, notes = read_text(messages) if is_chat else (reply.value if isinstance(reply.value, str) else "", NO_NOTES)
    return Turn(
        user=user,
        messages=messages,
        text=text,
        notes=notes,
        tool_calls=calls_in(messages) if is_chat else _calls_of_value(reply.value),
        value=UNSET if is_chat else reply.value,
        usage=reply.usage,
        latency=latency,
        first_output=first_output,
        finish=reply.finish,
        expect=expect,
    )


def read_text(messages: Sequence[Message]) -> tuple[str, frozenset[str]]:
    """The text of a chat's answer, that of its last assistant message; and a note that says why there is none."""
    last = next((message for message in reversed(messages) if message.role == "assistant"), None)
    text = last.text if last is not None else ""
    if text.strip():
        return text, NO_NOTES
    kinds = {type(part) for part in last.parts} if last is not None else set[type]()
    note = (
        "no_text" if ToolCall in kinds else "refusal" if Refusal in kinds else "data_only" if Data in kinds else "empty"
    )
    return text, frozenset({note})


def calls_in(messages: Sequence[Message]) -> tuple[CaseCall, ...]:
    """The calls of all assistant messages, in order, each with its result. An id used twice is answered in order."""
    calls: list[CaseCall] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCall) and message.role == "assistant":
                calls.append(call_of(part, index=len(calls)))
            elif isinstance(part, ToolResult):
                _answer(calls, part)
    return tuple(calls)


def call_of(part: ToolCall, *, index: int = 0) -> CaseCall:
    """A call that has no result yet."""
    value = part.parsed
    return CaseCall(
        call_id=part.call_id,
        name=part.name,
        arguments=part.arguments,
        parsed=UNSET if value is part.arguments else value,
        index=index,
    )


def last_user(history: Sequence[Message]) -> Message | None:
    """The last thing that the user said."""
    return next((message for message in reversed(history) if message.role == "user"), None)


def turn_case(case: Case, number: int) -> Case:
    """One turn of a case as a case of its own: its history is all that was said before."""
    turn = case.turns[number]
    before: list[Message] = list(case.history) if len(case.turns) > 1 else []
    for earlier in case.turns[:number] if len(case.turns) > 1 else ():
        before += [*([earlier.user] if earlier.user is not None else []), *earlier.messages]
    if turn.user is not None and len(case.turns) > 1:
        before.append(turn.user)
    return msgspec.structs.replace(
        case,
        history=tuple(before) if len(case.turns) > 1 else case.history,
        messages=turn.messages,
        text=turn.text,
        notes=turn.notes,
        tool_calls=tuple(msgspec.structs.replace(call, index=place) for place, call in enumerate(turn.tool_calls)),
        value=turn.value,
        turns=(turn,),
        usage=turn.usage,
        latency=turn.latency,
        first_output=turn.first_output,
        finish=turn.finish,
    )


def _numbered(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns with their calls numbered through."""
    numbered: list[Turn] = []
    index = 0
    for number, turn in enumerate(turns):
        calls = [
            msgspec.structs.replace(call, turn=number, index=index + place)
            for place, call in enumerate(turn.tool_calls)
        ]
        index += len(calls)
        numbered.append(msgspec.structs.replace(turn, tool_calls=tuple(calls)) if calls else turn)
    return tuple(numbered)


def _answer(calls: list[CaseCall], result: ToolResult) -> None:
    for place, call in enumerate(calls):
        if call.call_id == result.call_id and call.result is UNSET:
            calls[place] = msgspec.structs.replace(call, result=result.output, is_error=result.is_error)
            return


def _calls_of_value(value: Any) -> tuple[CaseCall, ...]:
    """A workflow's value may be messages, or a list of calls as Chat Completions write them."""
    if not isinstance(value, list | dict):
        return ()
    messages = messages_in(value)
    if messages is not None:
        return calls_in(messages)
    if not isinstance(value, list):
        return ()
    parts = [_chat_completions_call(item) for item in cast("list[Any]", value)]
    if any(part is None for part in parts):
        return ()
    return tuple(call_of(part, index=place) for place, part in enumerate(parts) if part is not None)


def _chat_completions_call(item: Any) -> ToolCall | None:
    match item:
        case {"function": {"name": str(name), **rest}, **outer} if outer.get("type", "function") == "function":
            given: Any = rest.get("arguments", "")
            arguments = given if isinstance(given, str) else jsons.encode(given).decode()
            return ToolCall(call_id=str(outer.get("id", "")), name=name, arguments=arguments)
        case _:
            return None
