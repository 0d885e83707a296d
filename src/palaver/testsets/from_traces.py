"""Make test set rows and scripts from recorded conversations, spans and results.

The recorded answer becomes the expected one. Outputs never become inputs, and nothing is invented.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from msgspec import UNSET

from palaver.core import dialects
from palaver.core.extraction import Prefer, read_conversation
from palaver.core.messages import Message, Text
from palaver.errors import InvalidValue
from palaver.testsets.rows import RowData
from palaver.traces import conversation
from palaver.traces.model import Span

MESSAGES_COLUMN, EXPECTED_COLUMN, SCRIPT_COLUMN = "messages", "expected", "script"
_MODEL_SPAN_KINDS = ("llm",)
"""Span kinds whose inputs are a model request: its settings are not inputs of a row."""


class RecordedCall(NamedTuple):
    """One call: messages and inputs sent, and the reply."""

    messages: Sequence[Message] = ()
    inputs: Mapping[str, Any] = {}
    reply: Sequence[Message] = ()
    value: Any = UNSET
    """The value that the workflow returned; UNSET if the workflow is a chat."""


def make_row(
    call: RecordedCall, columns: Mapping[str, str] | None = None, *, expected_column: str = EXPECTED_COLUMN
) -> RowData:
    """Make the row of one call. `columns` renames its columns; by default, the answer is in `expected_column`."""
    cells: list[tuple[str, Any]] = [*call.inputs.items()]
    if call.messages:
        cells.insert(0, (MESSAGES_COLUMN, encode_messages(call.messages)))
    expected = call.value if call.value is not UNSET else expected_value(call.reply)
    if expected is not UNSET:
        cells.append((EXPECTED_COLUMN, expected))
        columns = {EXPECTED_COLUMN: expected_column, **(columns or {})}
    return _rename_columns(cells, columns or {})


def make_script_row(call: RecordedCall, columns: Mapping[str, str] | None = None) -> RowData:
    """Make the row of a whole conversation, to be played again turn by turn."""
    script = make_script((*call.messages, *call.reply))
    return _rename_columns([(SCRIPT_COLUMN, script), *call.inputs.items()], columns or {})


def call_from_conversation(
    messages: Sequence[Message], *, upto: str | None = None, inputs: Mapping[str, Any] | None = None
) -> RecordedCall:
    """Split a conversation after the last user message at or before the message `upto`; the rest is the reply."""
    last_index = len(messages) - 1
    if upto is not None:
        last_index = next((index for index, message in enumerate(messages) if message.id == upto), -1)
        if last_index < 0:
            raise InvalidValue(f"Message {upto[:80]!r} not found in the conversation.", pointer="/source/upto")
    question_index = max((index for index in range(last_index + 1) if messages[index].role == "user"), default=-1)
    if question_index < 0:
        raise InvalidValue("The conversation has no user message up to this point.", pointer="/source/upto")
    following = range(question_index + 1, len(messages))
    end = next((index for index in following if messages[index].role == "user"), len(messages))
    return RecordedCall(messages[: question_index + 1], inputs or {}, messages[question_index + 1 : end])


def call_from_span(span: Span) -> RecordedCall:
    messages_in, reply = _side_messages(span, "input"), _side_messages(span, "output")
    reply = reply[conversation.repeated_prefix_length(messages_in, reply) :]
    is_palaver_span = "palaver" in span.conventions
    value = span.outputs if span.outputs is not None and (is_palaver_span or not reply) else UNSET
    messages, inputs = _sent_messages_and_inputs(span, messages_in)
    if not messages and not inputs and not reply and value is UNSET:
        raise InvalidValue("The span has no recorded input or output.", pointer="/source")
    return RecordedCall(messages, inputs, () if value is not UNSET else reply, value)


def accept_answer(row: Mapping[str, Any], answer: RecordedCall, *, column: str = EXPECTED_COLUMN) -> RowData:
    expected = answer.value if answer.value is not UNSET else expected_value(answer.reply)
    if expected is UNSET:
        raise InvalidValue("The result has no answer to use as the expected answer.", pointer="/source/result")
    return {**row, column: expected}


def encode_messages(messages: Sequence[Message]) -> list[Any]:
    """Encode messages as Chat Completions, with arguments verbatim."""
    return dialects.write(messages, "chat-completions")


def expected_value(reply: Sequence[Message]) -> Any:
    """Return one message as an object, several as a list, UNSET for none."""
    messages = encode_messages(reply)
    return UNSET if not messages else messages[0] if len(messages) == 1 else messages


def make_script(messages: Sequence[Message]) -> dict[str, Any]:
    """Make a turn for each user message, expecting the same tool calls in order, and no particular text."""
    first = next((index for index, message in enumerate(messages) if message.role == "user"), len(messages))
    turns: list[dict[str, Any]] = []
    for message in messages[first:]:
        if message.role == "user":
            turns.append({"user": _user_turn(message)})
        elif calls := message.tool_calls:
            expect = turns[-1].setdefault("expect", {"tools": []})
            expect["tools"] += [{"name": call.name} for call in calls]
    if not turns:
        raise InvalidValue("Cannot create a script: the conversation has no user message.", pointer="/source")
    start = encode_messages(messages[:first])
    return {"start": start, "turns": turns} if start else {"turns": turns}


def _user_turn(message: Message) -> Any:
    is_text = all(type(part) is Text for part in message.parts) and message.name is None
    return message.text if is_text else encode_messages([message])[0]


def _side_messages(span: Span, side: Prefer) -> tuple[Message, ...]:
    """Return the messages of one side, unless extraction found them under a key of the other side."""
    messages, value = (span.messages_in, span.inputs) if side == "input" else (span.messages_out, span.outputs)
    found = read_conversation(value, side) if messages and value is not None else None
    is_from_other_side = found is not None and found.side not in (None, side) and found.messages == messages
    return () if is_from_other_side else messages


def _sent_messages_and_inputs(span: Span, messages: tuple[Message, ...]) -> tuple[Sequence[Message], Mapping[str, Any]]:
    """Return the messages and inputs that were sent, without repeating a conversation that is among the inputs."""
    value = span.inputs
    if messages and (value is None or span.kind in _MODEL_SPAN_KINDS):
        return messages, {}
    if not isinstance(value, dict):
        return messages, {} if messages or value is None else {"input": value}
    inputs = cast("dict[str, Any]", value)
    found = read_conversation(inputs, "input") if messages else None
    if found is None:
        return messages, inputs
    key, *deeper_keys = found.path.removeprefix("/").split("/")
    is_column = not deeper_keys and isinstance(inputs.get(key), list) and not found.other_paths
    if "palaver" in span.conventions or is_column:
        return (), inputs
    keys = found.root_keys if found.messages[-1].text in {message.text for message in messages} else {key}
    return messages, {name: item for name, item in inputs.items() if name not in keys}


def _rename_columns(cells: Sequence[tuple[str, Any]], columns: Mapping[str, str]) -> RowData:
    data: RowData = {}
    unknown = columns.keys() - {name for name, _ in cells}
    if unknown:
        raise InvalidValue(f"Cannot rename column {min(unknown)[:80]!r}: not found.", pointer="/columns")
    for name, value in cells:
        column = columns.get(name, name)
        if column in data:
            raise InvalidValue(f"Two columns would be named {column[:80]!r}. Rename one of them.", pointer="/columns")
        data[column] = value
    return data
