"""Traces as conversations: the turn of a trace, the tabs of a session, and what continuing one needs.

The traces of a session usually repeat earlier messages. A history that repeats a tab continues it; one that diverges
starts a new tab. Histories often come back changed: without reasoning, without tool steps, or with their last messages
only. So they are compared twice, exactly and by their visible text; leading instructions never count. No I/O: the
caller loads the spans.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import msgspec

from palaver.core.extraction import read_conversation
from palaver.core.extraction.truncation import json_excerpt
from palaver.core.messages import Data, File, Message, Part, Text
from palaver.traces.model import Span, SpanStatus, ToolDefinition

_MAX_FILE_CHARS, _MAX_VALUE_CHARS = 256, 64 * 1024
"""Compared characters of a file and of a value."""
_KeyFunction = Callable[[Message], object]
_INSTRUCTIONS = ("system", "developer")


class HistoryMatch(NamedTuple):
    """Where a history matches one of several threads."""

    thread: int
    shared: int
    """Number of the thread's messages before the match ends."""
    new_from: int
    """Index of the history's first new message."""


def repeated_prefix_length(prefix: Sequence[Message], messages: Sequence[Message]) -> int:
    """Return len(prefix) if `messages` begins with all of `prefix`, else 0."""
    if not prefix or len(messages) < len(prefix):
        return 0
    is_same = all(_exact_key(one) == _exact_key(other) for one, other in zip(prefix, messages, strict=False))
    return len(prefix) if is_same else 0


def has_more_steps(history: Sequence[Message], messages_in: Sequence[Message], messages_out: Sequence[Message]) -> bool:
    """Whether `history` has `messages_in`, ends with the text of `messages_out`, and has more in between.

    An agent with a memory may record only the new question, and its model the earlier turns before it.
    """
    history_keys = [key for key, _ in _key_messages(history, _exact_key)]
    input_keys = [key for key, _ in _key_messages(messages_in, _exact_key)]
    count = len(input_keys)
    starts = range(len(history_keys) - count - len(messages_out) - 1, -1, -1)
    if not count or not any(history_keys[start : start + count] == input_keys for start in starts):
        return False
    last_text = _last_assistant_text(messages_out)
    return bool(last_text) and last_text == _last_assistant_text(history)


def is_prefix_of(messages: Sequence[Message], thread: Sequence[Message]) -> bool:
    """Whether `thread` begins with all of `messages`."""
    thread_keys, message_keys = _key_messages(thread, _exact_key), _key_messages(messages, _exact_key)
    return bool(message_keys) and _common_prefix_length(message_keys, thread_keys) == len(message_keys)


def find_continuation(history: Sequence[Message], threads: Sequence[Sequence[Message]]) -> HistoryMatch | None:
    """Find the longest thread that `history` repeats to its end, or one whose last part it begins with."""
    for key in (_exact_key, _visible_key):
        history_keys = _key_messages(history, key)
        match: HistoryMatch | None = None
        for index, thread in enumerate(threads):
            thread_keys = _key_messages(thread, key)
            count = _common_prefix_length(history_keys, thread_keys)
            if thread_keys and count == len(thread_keys) and (match is None or len(thread) >= match.shared):
                match = HistoryMatch(index, len(thread), history_keys[count - 1][1] + 1)
        if match is not None:
            return match
    history_keys = _key_messages(history, _exact_key)
    for index, thread in reversed(list(enumerate(threads))):
        thread_keys = _key_messages(thread, _exact_key)
        if not _common_prefix_length(history_keys, thread_keys) and (
            count := _overlap_length(history_keys, thread_keys)
        ):
            return HistoryMatch(index, len(thread), history_keys[count - 1][1] + 1)
    return None


def find_branch_point(history: Sequence[Message], threads: Sequence[Sequence[Message]]) -> HistoryMatch | None:
    """Find the thread that shares the longest beginning with `history`, and where they diverge."""
    best: HistoryMatch | None = None
    longest = 0
    for key in (_exact_key, _visible_key):
        history_keys = _key_messages(history, key)
        for index, thread in enumerate(threads):
            thread_keys = _key_messages(thread, key)
            count = _common_prefix_length(history_keys, thread_keys)
            if count > longest:
                longest = count
                best = HistoryMatch(index, thread_keys[count - 1][1] + 1, history_keys[count - 1][1] + 1)
        if best is not None:
            return best
    return None


def drop_known_instructions(history: Sequence[Message], thread: Sequence[Message]) -> Sequence[Message]:
    """Drop leading instructions of `history` that `thread` already holds."""
    instructions = {_role_and_text(message) for message in thread if message.role in _INSTRUCTIONS}
    first = 0
    while (
        first < len(history) and history[first].role in _INSTRUCTIONS and _role_and_text(history[first]) in instructions
    ):
        first += 1
    return history[first:]


# Comparison

_KeyedMessages = list[tuple[object, int]]


def _key_messages(messages: Sequence[Message], key: _KeyFunction) -> _KeyedMessages:
    """Return the comparison key and index of each message that counts."""
    keyed: _KeyedMessages = []
    for index, message in enumerate(messages):
        is_leading_instruction = message.role in _INSTRUCTIONS and not keyed
        if not is_leading_instruction and (value := key(message)) is not None:
            keyed.append((value, index))
    return keyed


def _common_prefix_length(keys: _KeyedMessages, others: _KeyedMessages) -> int:
    count = 0
    for (one, _), (other, _) in zip(keys, others, strict=False):
        if one != other:
            break
        count += 1
    return count


def _overlap_length(keys: _KeyedMessages, others: _KeyedMessages) -> int:
    """Return how many of the first keys are the last of `others`."""
    first, last = [key for key, _ in keys], [key for key, _ in others]
    for count in range(min(len(first), len(last)), 0, -1):
        if first[:count] == last[-count:]:
            return count
    return 0


def _last_assistant_text(messages: Sequence[Message]) -> str:
    texts = (message.text.strip() for message in reversed(messages) if message.role == "assistant")
    return next(filter(None, texts), "")


def _role_and_text(message: Message) -> tuple[str, str]:
    return message.role, message.text.strip()


def _exact_key(message: Message) -> object:
    calls = tuple((call.name, _compact(call.parsed)) for call in message.tool_calls)
    results = tuple(_compact(result.output) for result in message.tool_results)
    return (*_role_and_text(message), calls, results, _attachment_keys(message))


def _visible_key(message: Message) -> object:
    """Return the visible text and attachments; None for messages without any."""
    if message.role not in ("user", "assistant"):
        return None
    attachments = _attachment_keys(message)
    return (*_role_and_text(message), attachments) if message.text.strip() or attachments else None


def _attachment_keys(message: Message) -> tuple[str, ...]:
    return tuple(
        f"{part.media_type} {(part.file_id or part.url or part.data or '')[:_MAX_FILE_CHARS]}"
        if isinstance(part, File)
        else _compact([part.name, part.value])
        for part in message.parts
        if isinstance(part, File | Data)
    )


def _compact(value: Any) -> str:
    return json_excerpt(value, _MAX_VALUE_CHARS).text


class ToolStep(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="tool"):
    """A tool that ran and that no message mentions."""

    trace_id: str
    span_id: str
    name: str
    call_id: str | None
    inputs: Any
    outputs: Any
    status: SpanStatus


class MessageStep(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="message"):
    trace_id: str
    span_id: str
    message: Message


Step: TypeAlias = MessageStep | ToolStep


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    trace_id: str
    span_id: str
    """The span that holds the messages."""
    messages_in: tuple[Message, ...]
    messages_out: tuple[Message, ...]
    tools: tuple[ToolStep, ...] = ()


class Origin(msgspec.Struct, frozen=True):
    """Where a tab branches off: the tab and the number of its steps before the branch, including inherited ones."""

    tab: int
    steps: int


class Tab(msgspec.Struct, frozen=True):
    """One branch of a session's conversation."""

    origin: Origin | None
    steps: list[Step]


class ThreadDraft(msgspec.Struct, frozen=True, kw_only=True):
    """What the playground needs to continue a conversation."""

    workflow: str | None
    messages: tuple[Message, ...]
    inputs: dict[str, Any]
    parameters: dict[str, Any]
    tools: tuple[ToolDefinition, ...]


# Turns


def build_turn(head: Span, calls: Iterable[Span] = (), tools: Iterable[Span] = ()) -> Turn:
    """Build the conversation of a trace from its head, or from its last model call that has both sides.

    `calls` are ordered by end, latest first. Without messages, the head's inputs and outputs are used. The last call
    also wins if it repeats the head's question and answer with more steps in between, except for Palaver's runs: their
    models were sent another conversation.
    """
    source, (messages_in, messages_out) = head, _span_messages(head)
    call = next((call for call in calls if call.messages_in and call.messages_out), None)
    if call is not None:
        is_palaver_run, has_both_sides = "palaver" in head.conventions, head.messages_in and head.messages_out
        history = (*call.messages_in, *call.messages_out)
        if not has_both_sides or (not is_palaver_run and has_more_steps(history, messages_in, messages_out)):
            source, (messages_in, messages_out) = call, _span_messages(call)
    return Turn(
        trace_id=head.trace_id,
        span_id=source.span_id,
        messages_in=messages_in,
        messages_out=messages_out,
        tools=tuple(_unreported_tools((*messages_in, *messages_out), tools)),
    )


def _span_messages(span: Span) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    messages_in = span.messages_in or _value_as_message(span.inputs, "user", "inputs")
    messages_out = span.messages_out or _value_as_message(span.outputs, "assistant", "outputs")
    return messages_in, messages_out[repeated_prefix_length(messages_in, messages_out) :]


def _value_as_message(value: Any, role: Literal["user", "assistant"], name: str) -> tuple[Message, ...]:
    """Return a text as a message, and any other value as a message with a data part."""
    if value is None or value in ("", {}, []):
        return ()
    part: Part = Text(text=value) if isinstance(value, str) else Data(name=name, value=value)
    return (Message(role=role, parts=(part,)),)


def _unreported_tools(messages: Sequence[Message], tools: Iterable[Span]) -> Iterator[ToolStep]:
    """Yield the tools that no message mentions, by call id or, without one, by name."""
    calls = [call for message in messages for call in message.tool_calls]
    mentioned_ids = {call.call_id for call in calls}
    mentioned_ids |= {result.call_id for message in messages for result in message.tool_results}
    names = [call.name for call in calls]
    for span in tools:
        name = span.tool.name if span.tool else span.name
        call_id = span.tool.call_id if span.tool else None
        if call_id is not None and call_id in mentioned_ids:
            continue
        if call_id is None and name in names:
            names.remove(name)
            continue
        yield ToolStep(
            trace_id=span.trace_id,
            span_id=span.span_id,
            name=name,
            call_id=call_id,
            inputs=span.inputs,
            outputs=span.outputs,
            status=span.status,
        )


# Tabs


def build_tabs(turns: Iterable[Turn]) -> list[Tab]:
    """Build the tabs of a session from its turns, ordered by start."""
    builders: list[_TabBuilder] = []
    for turn in turns:
        _add_turn(builders, turn)
    return [Tab(builder.origin, builder.steps[builder.shared_count :]) for builder in builders]


class _TabBuilder:
    """A tab being built: all its steps, shared ones first."""

    def __init__(self, origin: Origin | None, steps: list[Step]) -> None:
        self.origin = origin
        self.shared_count = len(steps)
        self.steps = steps
        self.is_incremental = False
        """Whether its traces hold new messages only, not the history."""

    @property
    def messages(self) -> list[Message]:
        return [step.message for step in self.steps if isinstance(step, MessageStep)]

    def count_steps(self, message_count: int) -> int:
        """Return the number of steps up to the end of the first `message_count` messages."""
        indexes = [index for index, step in enumerate(self.steps) if isinstance(step, MessageStep)]
        return indexes[message_count - 1] + 1 if message_count else 0

    def add(self, turn: Turn, new_messages: Sequence[Message]) -> None:
        """Append the new input messages of a turn, its tools, and its output."""
        ids = {"trace_id": turn.trace_id, "span_id": turn.span_id}
        self.steps += [MessageStep(**ids, message=message) for message in new_messages]
        self.steps += turn.tools
        self.steps += [MessageStep(**ids, message=message) for message in turn.messages_out]


def _add_turn(builders: list[_TabBuilder], turn: Turn) -> None:
    history = turn.messages_in
    messages = [builder.messages for builder in builders]
    last = builders[-1] if builders else None
    is_incremental = last is not None and last.is_incremental
    if not is_incremental and any(
        is_prefix_of((*history, *turn.messages_out), tab_messages) for tab_messages in messages
    ):
        return  # The tab has all of it already.
    match = find_continuation(history, messages)
    if match is not None:
        builders[match.thread].add(turn, history[match.new_from :])
        return
    has_no_history = not any(message.role == "assistant" for message in history)
    match = find_branch_point(history, messages)
    if last is not None and has_no_history and (is_incremental or match is None):
        last.is_incremental = True
        last.add(turn, drop_known_instructions(history, last.messages))
        return
    if match is None:
        builders.append(_TabBuilder(None, []))
        builders[-1].add(turn, history)
        return
    shared = builders[match.thread].count_steps(match.shared)
    builders.append(_TabBuilder(Origin(match.thread, shared), builders[match.thread].steps[:shared]))
    builders[-1].add(turn, history[match.new_from :])


# Continuation


def build_live(head: Span, turn: Turn, source: Span | None = None, *, upto: int | None = None) -> ThreadDraft:
    """Collect the values for continuing from a trace or one of its spans, after its first `upto` messages."""
    messages = (*turn.messages_in, *turn.messages_out)
    span = source or head
    return ThreadDraft(
        workflow=head.workflow or span.workflow,
        messages=messages if upto is None else messages[:upto],
        inputs=_extra_inputs(span) or _extra_inputs(head),
        parameters=span.parameters or head.parameters,
        tools=span.tools or head.tools,
    )


def _extra_inputs(span: Span) -> dict[str, Any]:
    value = span.inputs
    if not isinstance(value, dict):
        return {}
    inputs = cast("dict[str, Any]", value)
    excluded = {"messages", "system", "prompt"} if "ai-sdk" in span.conventions else {"messages"}
    found = None if "palaver" in span.conventions else read_conversation(inputs, "input")
    if found is not None and found.other_paths:  # The question and its history are messages now.
        excluded |= found.root_keys
    return {name: item for name, item in inputs.items() if name not in excluded}
