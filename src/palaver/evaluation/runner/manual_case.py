"""Trying: a case that somebody wrote down, or an answer that a test set already holds, without any run."""

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
from palaver.evaluation.case import Case, Flags, Turn, last_user_message, make_case, make_turn, read_tool_calls
from palaver.workflows.execution import Returned
from palaver.workflows.replies import ReplyReader

_Seconds = Annotated[float, Meta(ge=0)]


class _ManualUsage(msgspec.Struct, frozen=True):
    """What it cost, as far as somebody says it."""

    input_tokens: Annotated[int, Meta(ge=0)] = 0
    output_tokens: Annotated[int, Meta(ge=0)] = 0
    cached_input_tokens: Annotated[int, Meta(ge=0)] | None = None
    cache_creation_input_tokens: Annotated[int, Meta(ge=0)] | None = None
    reasoning_tokens: Annotated[int, Meta(ge=0)] | None = None
    cost: Annotated[float, Meta(ge=0)] | None = None


class _ManualAnswer(msgspec.Struct, frozen=True, kw_only=True):
    output: Any | UnsetType = UNSET
    usage: _ManualUsage | None = None
    latency: _Seconds = 0.0
    first_output: _Seconds | None = None
    finish: FinishReason | None = None


class TriedTurn(_ManualAnswer, frozen=True, kw_only=True):
    """One turn of a conversation."""

    user: Any = None
    expect: Any = None


class TriedFlags(msgspec.Struct, frozen=True):
    """What the workflow would be."""

    is_chat: bool = True


class TriedCase(_ManualAnswer, frozen=True, kw_only=True):
    """A case as somebody writes it down: `output` is anything that a workflow may return."""

    inputs: dict[str, Any] = {}
    row: dict[str, Any] = {}
    expected: Any | UnsetType = UNSET
    flags: TriedFlags | None = None
    history: Any = None
    turns: Annotated[tuple[TriedTurn, ...], Meta(min_length=1, max_length=1_000)] | None = None
    """Instead of `output`."""


def read_manual_case(document: Any, *, pointer: str = "/case") -> Case:
    """The case that a document tells of; a RequestError points at what is wrong with it."""
    told = _decode_case(document, pointer)
    flags = Flags(is_chat=told.flags.is_chat) if told.flags is not None else Flags(True, "derived")
    if told.turns is not None and told.output is not UNSET:
        raise InvalidValue("Give turns or output, not both.", pointer=f"{pointer}/turns")
    history = _read_history(told.history, f"{pointer}/history")
    if told.turns is None:
        turns = [_make_turn(told, flags, history, last_user_message(history), None, f"{pointer}/output")]
    else:
        turns = list(_make_turns(told.turns, flags, history, f"{pointer}/turns"))
    row = told.row or {**told.inputs, **({} if told.expected is UNSET else {"expected": told.expected})}
    return make_case(turns=turns, flags=flags, row=row, inputs=told.inputs, expected=told.expected, history=history)


def reply_from_output(output: Any, *, is_chat: bool, history: Sequence[Message] = ()) -> Reply:
    """What a raw output amounts to by the reply grammar; UNSET is nothing. BadStream for what is no answer."""
    replies = ReplyReader(is_chat=is_chat, history=history)
    given: list[OutputValue] = [] if output is UNSET else list(replies.feed(Returned(output)))
    given += replies.end()
    grammar = Grammar("", history=history)
    try:
        events = [*grammar.start(RunStarted())]
        for one in given:
            events += grammar.feed(one)
        events += grammar.end(RunFinished(value=replies.value()))
        return fold(events)
    except BadStream:  # A stream would be broken by, say, an id used twice. What was written down can still be scored.
        messages = tuple(message for one in given if (message := _to_message(one)) is not None)
        is_open = any(call.result is UNSET for call in read_tool_calls(messages))
        return Reply(run_id="", messages=messages, finish="tool-calls" if is_open else "stop", value=replies.value())


def read_user_message(value: Any, *, pointer: str) -> Message:
    """What a user says: text, parts, or a message in any dialect."""
    if isinstance(value, str):
        return Message.user(value)
    wrapped = value if dialect_of(value) is not None else {"role": "user", "content": value}
    messages = dialects.read(wrapped, pointer=pointer)
    if len(messages) != 1:
        raise InvalidValue("A turn has one message of the user's.", pointer=pointer)
    return messages[0]


def _make_turns(given: Sequence[TriedTurn], flags: Flags, history: Sequence[Message], pointer: str) -> Sequence[Turn]:
    said = list(history)
    turns: list[Turn] = []
    for place, one in enumerate(given):
        user = None if one.user is None else read_user_message(one.user, pointer=f"{pointer}/{place}/user")
        said += [] if user is None else [user]
        turns.append(_make_turn(one, flags, said, user, one.expect, f"{pointer}/{place}/output"))
        said += turns[-1].messages
    return turns


def _make_turn(
    told: _ManualAnswer, flags: Flags, history: Sequence[Message], user: Message | None, expect: Any, pointer: str
) -> Turn:
    try:
        reply = reply_from_output(told.output, is_chat=flags.is_chat, history=history)
    except (BadStream, RequestError) as error:
        raise InvalidValue(error.message, pointer=pointer) from None
    reply = msgspec.structs.replace(
        reply, usage=_make_usage(told.usage) or reply.usage, finish=told.finish or reply.finish
    )
    return make_turn(
        reply,
        is_chat=flags.is_chat,
        user=user,
        latency=told.latency,
        first_output=told.first_output,
        expect=expect,
    )


def _decode_case(document: Any, pointer: str) -> TriedCase:
    if not isinstance(document, Mapping):
        raise InvalidValue("A case is an object.", pointer=pointer)
    try:
        return msgspec.convert(cast("Mapping[str, Any]", document), TriedCase)
    except msgspec.ValidationError as error:
        said = validation_error(str(error))
        raise InvalidValue(f"{pointer}{said.message}", pointer=f"{pointer}{said.pointer or ''}") from None


def _read_history(value: Any, pointer: str) -> list[Message]:
    if value is None:
        return []
    return [Message.user(value)] if isinstance(value, str) else list(dialects.read(value, pointer=pointer))


def _make_usage(told: _ManualUsage | None) -> Usage | None:
    return None if told is None else Usage(**msgspec.structs.asdict(told))


def _to_message(given: OutputValue) -> Message | None:
    match given:
        case Message():
            return json.round_trip(given)
        case TextDelta(delta=text):
            return Message.assistant(text)
        case _:
            return None
