"""Manually written cases and answers, without a run: for trying an evaluator, and for recorded answers."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from palaver.core import dialects, json
from palaver.core.dialects.detection import dialect_of
from palaver.core.events import FinishReason, RunFinished, RunStarted, TextDelta
from palaver.core.fold import fold
from palaver.core.grammar import Grammar, OutputValue
from palaver.core.json import validation_error
from palaver.core.messages import Message, Usage
from palaver.core.runs import Reply
from palaver.errors import BadStream, InvalidValue, RequestError
from palaver.evaluation.case import Case, Flags, Turn, case_with_turns, last_user_message, make_turn, read_tool_calls
from palaver.workflows.execution import ReplyReader, Returned

_Seconds = Annotated[float, Meta(ge=0)]


class ManualUsage(msgspec.Struct, frozen=True):
    input_tokens: Annotated[int, Meta(ge=0)] = 0
    output_tokens: Annotated[int, Meta(ge=0)] = 0
    cached_input_tokens: Annotated[int, Meta(ge=0)] | None = None
    cache_creation_input_tokens: Annotated[int, Meta(ge=0)] | None = None
    reasoning_tokens: Annotated[int, Meta(ge=0)] | None = None
    cost: Annotated[float, Meta(ge=0)] | None = None


class _ManualAnswer(msgspec.Struct, frozen=True, kw_only=True):
    output: Any | UnsetType = UNSET
    usage: ManualUsage | None = None
    latency: _Seconds = 0.0
    first_output: _Seconds | None = None
    finish: FinishReason | None = None


class ManualTurn(_ManualAnswer, frozen=True, kw_only=True):
    """One turn of a conversation."""

    user: Any = None
    """The user's message: text, or a message in any dialect."""
    expect: Any = None
    """Expectations of the turn, as in a script."""


class ManualFlags(msgspec.Struct, frozen=True):
    """Properties of the workflow."""

    is_chat: bool = True


class ManualCase(_ManualAnswer, frozen=True, kw_only=True):
    """A manually written case. `output` is anything that a workflow may return."""

    inputs: dict[str, Any] = {}
    """Inputs of the call."""
    row: dict[str, Any] = {}
    """Additional columns of the row."""
    expected: Any | UnsetType = UNSET
    """The expected answer."""
    flags: ManualFlags | None = None
    """Properties of the workflow (default: inferred from the output)."""
    history: Any = None
    """The messages that were sent: text, or messages in any dialect."""
    turns: Annotated[tuple[ManualTurn, ...], Meta(min_length=1, max_length=1_000)] | None = None
    """A conversation of several turns, instead of `output`."""


def read_manual_case(document: Any, *, pointer: str = "/case") -> Case:
    """Read a case. Raises RequestError with a pointer."""
    manual = _decode_case(document, pointer)
    flags = Flags(is_chat=manual.flags.is_chat) if manual.flags is not None else Flags(True, "derived")
    if manual.turns is not None and manual.output is not UNSET:
        raise InvalidValue("'turns' can't be combined with 'output'.", pointer=f"{pointer}/turns")
    history: list[Message] = []
    if manual.history is not None:
        is_text = isinstance(manual.history, str)
        history = (
            [Message.user(manual.history)] if is_text else dialects.read(manual.history, pointer=f"{pointer}/history")
        )
    if manual.turns is None:
        turns = [_make_turn(manual, flags, history, last_user_message(history), None, f"{pointer}/output")]
    else:
        turns = list(_make_turns(manual.turns, flags, history, f"{pointer}/turns"))
    row = manual.row or {**manual.inputs, **({} if manual.expected is UNSET else {"expected": manual.expected})}
    case = Case(row=row, inputs=manual.inputs, expected=manual.expected, history=tuple(history), flags=flags)
    return case_with_turns(case, turns)


def reply_from_output(output: Any, *, is_chat: bool, history: Sequence[Message] = ()) -> Reply:
    """Convert a raw output to a reply; UNSET is empty. Raises BadStream for output that is not an answer."""
    replies = ReplyReader(is_chat=is_chat, history=history)
    items: list[OutputValue] = [] if output is UNSET else list(replies.feed(Returned(output)))
    items += replies.end()
    grammar = Grammar("", history=history)
    try:
        events = [*grammar.start(RunStarted())]
        for item in items:
            events += grammar.feed(item)
        events += grammar.end(RunFinished(value=replies.value()))
        return fold(events)
    except BadStream:  # A stream would break, for example on a repeated id, but the output can still be scored.
        messages = tuple(message for item in items if (message := _to_message(item)) is not None)
        is_calling = any(call.result is UNSET for call in read_tool_calls(messages))
        return Reply(run_id="", messages=messages, finish="tool-calls" if is_calling else "stop", value=replies.value())


def read_user_message(value: Any, *, pointer: str) -> Message:
    """Read text, parts, or a message in any dialect."""
    if isinstance(value, str):
        return Message.user(value)
    wrapped = value if dialect_of(value) is not None else {"role": "user", "content": value}
    messages = dialects.read(wrapped, pointer=pointer)
    if len(messages) != 1:
        raise InvalidValue("A turn must have exactly one user message.", pointer=pointer)
    return messages[0]


def _make_turns(
    manual_turns: Sequence[ManualTurn], flags: Flags, history: Sequence[Message], pointer: str
) -> Sequence[Turn]:
    messages = list(history)
    turns: list[Turn] = []
    for index, turn in enumerate(manual_turns):
        user = None if turn.user is None else read_user_message(turn.user, pointer=f"{pointer}/{index}/user")
        messages += [] if user is None else [user]
        turns.append(_make_turn(turn, flags, messages, user, turn.expect, f"{pointer}/{index}/output"))
        messages += turns[-1].messages
    return turns


def _make_turn(
    manual: _ManualAnswer, flags: Flags, history: Sequence[Message], user: Message | None, expect: Any, pointer: str
) -> Turn:
    try:
        reply = reply_from_output(manual.output, is_chat=flags.is_chat, history=history)
    except (BadStream, RequestError) as error:
        raise InvalidValue(error.message, pointer=pointer) from None
    usage = reply.usage if manual.usage is None else Usage(**msgspec.structs.asdict(manual.usage))
    reply = msgspec.structs.replace(reply, usage=usage, finish=manual.finish or reply.finish)
    return make_turn(
        reply,
        is_chat=flags.is_chat,
        user=user,
        latency=manual.latency,
        first_output=manual.first_output,
        expect=expect,
    )


def _decode_case(document: Any, pointer: str) -> ManualCase:
    if not isinstance(document, Mapping):
        raise InvalidValue("A case must be an object.", pointer=pointer)
    try:
        return msgspec.convert(cast("Mapping[str, Any]", document), ManualCase)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        case_error = validation_error(f"{reason} - at `${pointer.replace('/', '.')}{path or '`'}")
        raise InvalidValue(case_error.message, pointer=case_error.pointer) from None


def _to_message(item: OutputValue) -> Message | None:
    match item:
        case Message():
            return json.round_trip(item)
        case TextDelta(delta=text):
            return Message.assistant(text)
        case _:
            return None
