"""The case that evaluators score, and its construction from replies.

UNSET means absent: no expected answer, no value (of a chat), no result of a tool call; null is a value. Whether the
workflow is a chat decides which fields are set: nothing is converted to text implicitly.
"""

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any, Literal, cast

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core import dialects, json
from palaver.core.dialects.detection import dialect_of
from palaver.core.events import Event
from palaver.core.messages import Data, Message, Refusal, ToolCall, ToolResult, Usage
from palaver.core.runs import Reply
from palaver.errors import InvalidMessages
from palaver.testsets.scripts import Script

Note = Literal["no_text", "empty", "refusal", "data_only"]
"""Why the text is empty: only tool calls, nothing, a refusal, or only data."""

NO_NOTES: frozenset[str] = frozenset()


class Flags(msgspec.Struct, frozen=True):
    """Properties of the workflow at the time of the call."""

    is_chat: bool = True
    is_chat_source: Literal["declared", "derived"] = "declared"


class CaseToolCall(msgspec.Struct, frozen=True, kw_only=True):
    call_id: str
    name: str
    arguments: str = ""
    """The JSON text exactly as produced."""
    parsed: Any | UnsetType = UNSET
    """The arguments as a value, `{}` for empty text; UNSET if they are not JSON."""
    result: Any | UnsetType = UNSET
    is_error: bool = False
    turn: int = 0
    index: int = 0
    """Index among all calls of the case."""


class TurnVerdict(msgspec.Struct, frozen=True):
    """A judge's verdict on a turn while the script was played, and its cost."""

    passed: bool
    reason: str = ""
    usage: Usage | None = None
    cost: float | None = None


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One user message and what followed. A plain case has one turn."""

    user: Message | None = None
    messages: tuple[Message, ...] = ()
    text: str = ""
    notes: frozenset[str] = NO_NOTES
    tool_calls: tuple[CaseToolCall, ...] = ()
    value: Any | UnsetType = UNSET
    usage: Usage | None = None
    latency: float = 0.0
    first_output: float | None = None
    finish: str = "stop"
    expect: Any = None
    """The `expect` of the script's turn."""
    reached: bool = True
    """False for turns after a script stopped: they count as failed, `not_reached`."""
    verdict: TurnVerdict | None = None
    """The verdict that decided whether to continue the script. It is reused for scoring, and not stored."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of one variant to one row of a test set: what an evaluator scores.

    All fields have defaults, so that a test can create a case with the fields that its evaluator reads.

    Example:
        from palaver import Case

        case = Case(text="Oslo", expected="Oslo", inputs={"country": "Norway"})
        assert case.text == case.expected
    """

    id: str = ""
    """Id of the result."""
    row_id: str = ""
    """Id of the row of the test set."""
    variant: str = ""
    """Name of the variant."""
    repeat: int = 0
    """Number of the repeat, starting at 0."""
    row: dict[str, Any] = {}
    """The data of the row, as stored."""
    inputs: dict[str, Any] = {}
    """The inputs of the call, from the row."""
    expected: Any | UnsetType = UNSET
    """The expected answer; `msgspec.UNSET` if the row has none."""
    history: tuple[Message, ...] = ()
    """The messages that were sent."""
    messages: tuple[Message, ...] = ()
    """The messages that came back, in all turns."""
    text: str = ""
    """The text of the last assistant message, or the string that the workflow returned."""
    notes: frozenset[str] = NO_NOTES
    """Why the text is empty: `no_text`, `empty`, `refusal` or `data_only`."""
    tool_calls: tuple[CaseToolCall, ...] = ()
    """The tool calls of all turns, with their parsed arguments and results."""
    value: Any | UnsetType = UNSET
    """The value that the workflow returned; UNSET if the workflow is a chat."""
    turns: tuple[Turn, ...] = ()
    """One turn for each user message; without a script, there is only one."""
    events: tuple[Event, ...] | None = None
    """Set only if an evaluator declares `needs={"events"}`."""
    usage: Usage | None = None
    """Token counts of all turns, if known."""
    latency: float = 0.0
    """Seconds from the call to the end of the answer, summed over all turns."""
    first_output: float | None = None
    """Seconds from the call to the first output, if known."""
    finish: str = "stop"
    """Why the answer ended."""
    trace_id: str | None = None
    """Id of the trace of the run."""
    flags: Flags = Flags()
    """Flags of the workflow, such as `is_chat`."""
    script: "Script | None" = None
    """The script that was played, if the row has one."""


def read_messages(value: Any) -> list[Message] | None:
    """Read one message or a list, in any dialect; None if the value is neither."""
    if isinstance(value, str) or dialect_of(value) is None:
        return None
    try:
        return list(dialects.read(value))
    except InvalidMessages:
        return None


def case_with_turns(case: Case, turns: Sequence[Turn]) -> Case:
    """Return the case with these turns. Text, value and finish are taken from the last turn that was reached."""
    numbered_turns = _number_calls(turns)
    last = next((turn for turn in reversed(numbered_turns) if turn.reached), Turn())
    usages = [turn.usage for turn in numbered_turns if turn.usage is not None]
    return msgspec.structs.replace(
        case,
        messages=tuple(message for turn in numbered_turns for message in turn.messages),
        text=last.text,
        notes=last.notes,
        tool_calls=tuple(call for turn in numbered_turns for call in turn.tool_calls),
        value=last.value,
        turns=numbered_turns,
        usage=reduce(add, usages) if usages else None,
        latency=sum(turn.latency for turn in numbered_turns),
        first_output=next((turn.first_output for turn in numbered_turns), None),
        finish=last.finish,
    )


def make_turn(
    reply: Reply,
    *,
    is_chat: bool,
    user: Message | None = None,
    latency: float = 0.0,
    first_output: float | None = None,
    expect: Any = None,
) -> Turn:
    """Make the turn of one reply. Several calls of one turn, with tool results between them, come as one reply."""
    messages = tuple(reply.messages)
    text, notes = reply_text(messages) if is_chat else (reply.value if isinstance(reply.value, str) else "", NO_NOTES)
    return Turn(
        user=user,
        messages=messages,
        text=text,
        notes=notes,
        tool_calls=read_tool_calls(messages) if is_chat else _calls_in_value(reply.value),
        value=UNSET if is_chat else reply.value,
        usage=reply.usage,
        latency=latency,
        first_output=first_output,
        finish=reply.finish,
        expect=expect,
    )


def reply_text(messages: Sequence[Message]) -> tuple[str, frozenset[str]]:
    """Return the text of the last assistant message, and a note if it is empty."""
    last = next((message for message in reversed(messages) if message.role == "assistant"), None)
    text = last.text if last is not None else ""
    if text.strip():
        return text, NO_NOTES
    kinds = {type(part) for part in last.parts} if last is not None else set[type]()
    note = (
        "no_text" if ToolCall in kinds else "refusal" if Refusal in kinds else "data_only" if Data in kinds else "empty"
    )
    return text, frozenset({note})


def read_tool_calls(messages: Sequence[Message]) -> tuple[CaseToolCall, ...]:
    """Return the calls of all assistant messages with their results. Results of a repeated id are assigned in order."""
    calls: list[CaseToolCall] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCall) and message.role == "assistant":
                calls.append(make_tool_call(part, index=len(calls)))
            elif isinstance(part, ToolResult):
                _add_result(calls, part)
    return tuple(calls)


def make_tool_call(part: ToolCall, *, index: int = 0) -> CaseToolCall:
    value = part.parsed
    return CaseToolCall(
        call_id=part.call_id,
        name=part.name,
        arguments=part.arguments,
        parsed=UNSET if value is part.arguments else value,
        index=index,
    )


def last_user_message(history: Sequence[Message]) -> Message | None:
    return next((message for message in reversed(history) if message.role == "user"), None)


def case_of_turn(case: Case, number: int) -> Case:
    """Return one turn as a separate case; its history is everything before it."""
    turn = case.turns[number]
    history = list(case.history)
    if len(case.turns) > 1:  # The history of a single turn contains its user message.
        for earlier in case.turns[:number]:
            history += [*([earlier.user] if earlier.user is not None else []), *earlier.messages]
        history += [turn.user] if turn.user is not None else []
    return msgspec.structs.replace(
        case,
        history=tuple(history),
        messages=turn.messages,
        text=turn.text,
        notes=turn.notes,
        tool_calls=tuple(msgspec.structs.replace(call, index=index) for index, call in enumerate(turn.tool_calls)),
        value=turn.value,
        turns=(turn,),
        usage=turn.usage,
        latency=turn.latency,
        first_output=turn.first_output,
        finish=turn.finish,
    )


def _number_calls(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    numbered_turns: list[Turn] = []
    index = 0
    for number, turn in enumerate(turns):
        calls = [
            msgspec.structs.replace(call, turn=number, index=index + offset)
            for offset, call in enumerate(turn.tool_calls)
        ]
        index += len(calls)
        numbered_turns.append(msgspec.structs.replace(turn, tool_calls=tuple(calls)) if calls else turn)
    return tuple(numbered_turns)


def _add_result(calls: list[CaseToolCall], result: ToolResult) -> None:
    for index, call in enumerate(calls):
        if call.call_id == result.call_id and call.result is UNSET:
            calls[index] = msgspec.structs.replace(call, result=result.output, is_error=result.is_error)
            return


def _calls_in_value(value: Any) -> tuple[CaseToolCall, ...]:
    """Return the calls in a workflow's value: messages, or a list of Chat Completions calls."""
    if not isinstance(value, list | dict):
        return ()
    messages = read_messages(value)
    if messages is not None:
        return read_tool_calls(messages)
    if not isinstance(value, list):
        return ()
    parts = [_read_chat_completions_call(item) for item in cast("list[Any]", value)]
    if any(part is None for part in parts):
        return ()
    return tuple(make_tool_call(part, index=index) for index, part in enumerate(parts) if part is not None)


def _read_chat_completions_call(item: Any) -> ToolCall | None:
    match item:
        case {"function": {"name": str(name), **function}, **fields} if fields.get("type", "function") == "function":
            raw: Any = function.get("arguments", "")
            arguments = raw if isinstance(raw, str) else json.encode(raw).decode()
            return ToolCall(call_id=str(fields.get("id", "")), name=name, arguments=arguments)
        case _:
            return None
