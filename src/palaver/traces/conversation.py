"""Traces as conversations: the turn of a trace, the tabs of a session, and what continuing one needs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import msgspec

from palaver.core.extraction.excerpts import written
from palaver.core.messages import Data, File, Message, Part, Text
from palaver.traces.model import Defined, Span, SpanStatus

_MAX_FILE_CHARS, _MAX_VALUE_CHARS = 256, 64 * 1024
"""Characters that are compared, of a file and of a value."""
_KeyFunction = Callable[[Message], object]
_INSTRUCTIONS = ("system", "developer")


class HistoryMatch(NamedTuple):
    """Where a history meets a thread."""

    line: int
    kept: int
    """Messages of the thread that stand before it."""
    fresh: int
    """The first of the history that is new."""


def repeated_prefix_length(first: Sequence[Message], then: Sequence[Message]) -> int:
    """How many messages of the second begin it by repeating all of the first; 0 where it does not."""
    if not first or len(then) < len(first):
        return 0
    is_same = all(_exact_key(one) == _exact_key(other) for one, other in zip(first, then, strict=False))
    return len(first) if is_same else 0


def has_more_steps(history: Sequence[Message], given: Sequence[Message], answered: Sequence[Message]) -> bool:
    """Does a history begin with what was given, end with the same words, and tell of more steps in between?"""
    own, asked = _key_messages(history, _exact_key), _key_messages(given, _exact_key)
    if not asked or _common_prefix_length(own, asked) < len(asked) or len(own) <= len(asked) + len(answered):
        return False
    words = _last_assistant_text(answered)
    return bool(words) and words == _last_assistant_text(history)


def is_prefix_of(messages: Sequence[Message], thread: Sequence[Message]) -> bool:
    """Does the thread begin with all of these?"""
    theirs, own = _key_messages(thread, _exact_key), _key_messages(messages, _exact_key)
    return bool(own) and _common_prefix_length(own, theirs) == len(own)


def find_continuation(history: Sequence[Message], threads: Sequence[Sequence[Message]]) -> HistoryMatch | None:
    """The thread that a history repeats to its end, the longest of them; or the one of which it has the last part."""
    for key in (_exact_key, _visible_key):
        own = _key_messages(history, key)
        found: HistoryMatch | None = None
        for line, thread in enumerate(threads):
            theirs = _key_messages(thread, key)
            count = _common_prefix_length(own, theirs)
            if theirs and count == len(theirs) and (found is None or len(thread) >= found.kept):
                found = HistoryMatch(line, len(thread), own[count - 1][1] + 1)
        if found is not None:
            return found
    own = _key_messages(history, _exact_key)
    for line, thread in reversed(list(enumerate(threads))):
        theirs = _key_messages(thread, _exact_key)
        if not _common_prefix_length(own, theirs) and (count := _overlap_length(own, theirs)):
            return HistoryMatch(line, len(thread), own[count - 1][1] + 1)
    return None


def find_branch_point(history: Sequence[Message], threads: Sequence[Sequence[Message]]) -> HistoryMatch | None:
    """The thread that a history has the longest beginning in common with, and where it leaves it."""
    best: HistoryMatch | None = None
    most = 0
    for key in (_exact_key, _visible_key):
        own = _key_messages(history, key)
        for line, thread in enumerate(threads):
            theirs = _key_messages(thread, key)
            count = _common_prefix_length(own, theirs)
            if count > most:
                most, best = count, HistoryMatch(line, theirs[count - 1][1] + 1, own[count - 1][1] + 1)
        if best is not None:
            return best
    return None


def drop_known_instructions(history: Sequence[Message], thread: Sequence[Message]) -> Sequence[Message]:
    """The history without what it begins with that the thread was told before."""
    known = {_role_and_text(message) for message in thread if message.role in _INSTRUCTIONS}
    first = 0
    while first < len(history) and history[first].role in _INSTRUCTIONS and _role_and_text(history[first]) in known:
        first += 1
    return history[first:]


# Comparing

_KeyedMessages = list[tuple[object, int]]


def _key_messages(messages: Sequence[Message], key: _KeyFunction) -> _KeyedMessages:
    """What is compared of each message, and its place; those that do not count are left out."""
    found: _KeyedMessages = []
    for place, message in enumerate(messages):
        is_opening = message.role in _INSTRUCTIONS and not found
        if not is_opening and (told := key(message)) is not None:
            found.append((told, place))
    return found


def _common_prefix_length(own: _KeyedMessages, theirs: _KeyedMessages) -> int:
    count = 0
    for (one, _), (other, _) in zip(own, theirs, strict=False):
        if one != other:
            break
        count += 1
    return count


def _overlap_length(own: _KeyedMessages, theirs: _KeyedMessages) -> int:
    """How many of the history's first are the thread's last."""
    ours, last = [told for told, _ in own], [told for told, _ in theirs]
    for count in range(min(len(ours), len(last)), 0, -1):
        if ours[:count] == last[-count:]:
            return count
    return 0


def _last_assistant_text(messages: Sequence[Message]) -> str:
    spoken = (message.text.strip() for message in reversed(messages) if message.role == "assistant")
    return next(filter(None, spoken), "")


def _role_and_text(message: Message) -> tuple[str, str]:
    return message.role, message.text.strip()


def _exact_key(message: Message) -> object:
    calls = tuple((call.name, _compact(call.parsed)) for call in message.tool_calls)
    results = tuple(_compact(result.output) for result in message.tool_results)
    return (*_role_and_text(message), calls, results, _attachment_keys(message))


def _visible_key(message: Message) -> object:
    """What people see of it; None for steps in between."""
    if message.role not in ("user", "assistant"):
        return None
    others = _attachment_keys(message)
    return (*_role_and_text(message), others) if message.text.strip() or others else None


def _attachment_keys(message: Message) -> tuple[str, ...]:
    return tuple(
        f"{part.media_type} {(part.file_id or part.url or part.data or '')[:_MAX_FILE_CHARS]}"
        if isinstance(part, File)
        else _compact([part.name, part.value])
        for part in message.parts
        if isinstance(part, File | Data)
    )


def _compact(value: Any) -> str:
    return written(value, _MAX_VALUE_CHARS).text


class ToolStep(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="tool"):
    """A tool that ran and of which no message tells."""

    trace_id: str
    span_id: str
    name: str
    call_id: str | None
    inputs: Any
    outputs: Any
    status: SpanStatus


class MessageStep(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="message"):
    """A message, and the span that it was found on."""

    trace_id: str
    span_id: str
    message: Message


Step: TypeAlias = MessageStep | ToolStep


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What was said in one trace."""

    trace_id: str
    span_id: str
    """The span that the messages are of."""
    messages_in: tuple[Message, ...]
    messages_out: tuple[Message, ...]
    tools: tuple[ToolStep, ...] = ()


class Origin(msgspec.Struct, frozen=True):
    """Where a tab leaves another: which one, and after how many of its steps, those of its own origin included."""

    tab: int
    steps: int


class Tab(msgspec.Struct, frozen=True):
    """One line of a session's conversation: what it shares with another tab, and what is its own."""

    origin: Origin | None
    steps: list[Step]


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """What the playground needs to go on with a workflow."""

    workflow: str | None
    messages: tuple[Message, ...]
    inputs: dict[str, Any]
    parameters: dict[str, Any]
    tools: tuple[Defined, ...]


# One trace


def build_turn(head: Span, calls: Iterable[Span] = (), tools: Iterable[Span] = ()) -> Turn:
    """The conversation of a trace: its head's; else that of its last call of a model that has both sides.

    `calls` come the last ended first. Where none has, what stands for the head's inputs and outputs is lifted. A head
    may tell of the question and the answer only: where its last call tells the same with the steps between, it does. A
    run of ours tells all that its workflow said; what the models behind it were told is another conversation.
    """
    source, (given, answered) = head, _span_messages(head)
    call = next((call for call in calls if call.messages_in and call.messages_out), None)
    if call is not None:
        is_ours, is_whole = "palaver" in head.conventions, head.messages_in and head.messages_out
        told = (*call.messages_in, *call.messages_out)
        if not is_whole or (not is_ours and has_more_steps(told, given, answered)):
            source, (given, answered) = call, _span_messages(call)
    return Turn(
        trace_id=head.trace_id,
        span_id=source.span_id,
        messages_in=given,
        messages_out=answered,
        tools=tuple(_unreported_tools((*given, *answered), tools)),
    )


def _span_messages(span: Span) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    given = span.messages_in or _value_as_message(span.inputs, "user", "inputs")
    answered = span.messages_out or _value_as_message(span.outputs, "assistant", "outputs")
    return given, answered[repeated_prefix_length(given, answered) :]


def _value_as_message(value: Any, role: Literal["user", "assistant"], name: str) -> tuple[Message, ...]:
    """A text as a message; any other value as a message that carries it: nothing is hidden for its form."""
    if value is None or value in ("", {}, []):
        return ()
    part: Part = Text(text=value) if isinstance(value, str) else Data(name=name, value=value)
    return (Message(role=role, parts=(part,)),)


def _unreported_tools(messages: Sequence[Message], tools: Iterable[Span]) -> Iterator[ToolStep]:
    """The tools of which no message tells: a call tells of a tool by its id, or by its name where there is none."""
    calls = [call for message in messages for call in message.tool_calls]
    by_id = {call.call_id for call in calls}
    by_id |= {result.call_id for message in messages for result in message.tool_results}
    names = [call.name for call in calls]
    for span in tools:
        name = span.tool.name if span.tool else span.name
        call = span.tool.call_id if span.tool else None
        if call is not None and call in by_id:
            continue
        if call is None and name in names:
            names.remove(name)
            continue
        yield ToolStep(
            trace_id=span.trace_id,
            span_id=span.span_id,
            name=name,
            call_id=call,
            inputs=span.inputs,
            outputs=span.outputs,
            status=span.status,
        )


# A session


def build_tabs(turns: Iterable[Turn]) -> list[Tab]:
    """What a session's traces come to, given in the order of their start."""
    lines: list[_TabBuilder] = []
    for turn in turns:
        _add_turn(lines, turn)
    return [Tab(line.origin, line.steps[line.shared :]) for line in lines]


class _TabBuilder:
    """A tab as it grows: all its steps, those that it shares first."""

    def __init__(self, origin: Origin | None, steps: list[Step]) -> None:
        self.origin = origin
        self.shared = len(steps)
        self.steps = steps
        self.is_piecemeal = False
        """Do its traces bring only what is new?"""

    @property
    def messages(self) -> list[Message]:
        return [step.message for step in self.steps if isinstance(step, MessageStep)]

    def until(self, messages: int) -> int:
        """How many of its steps stand before the end of so many of its messages."""
        places = [place for place, step in enumerate(self.steps) if isinstance(step, MessageStep)]
        return places[messages - 1] + 1 if messages else 0

    def add(self, turn: Turn, fresh: Sequence[Message]) -> None:
        """Go on with what is new of a turn's input, its tools, and its answer."""
        here = {"trace_id": turn.trace_id, "span_id": turn.span_id}
        self.steps += [MessageStep(**here, message=message) for message in fresh]
        self.steps += turn.tools
        self.steps += [MessageStep(**here, message=message) for message in turn.messages_out]


def _add_turn(lines: list[_TabBuilder], turn: Turn) -> None:
    given = turn.messages_in
    known = [line.messages for line in lines]
    last = lines[-1] if lines else None
    is_piecemeal = last is not None and last.is_piecemeal
    if not is_piecemeal and any(is_prefix_of((*given, *turn.messages_out), said) for said in known):
        return  # All of it stands there already.
    place = find_continuation(given, known)
    if place is not None:
        lines[place.line].add(turn, given[place.fresh :])
        return
    is_new_only = not any(message.role == "assistant" for message in given)
    place = find_branch_point(given, known)
    if last is not None and is_new_only and (is_piecemeal or place is None):
        last.is_piecemeal = True
        last.add(turn, drop_known_instructions(given, last.messages))
        return
    if place is None:
        lines.append(_TabBuilder(None, []))
        lines[-1].add(turn, given)
        return
    kept = lines[place.line].until(place.kept)
    lines.append(_TabBuilder(Origin(place.line, kept), lines[place.line].steps[:kept]))
    lines[-1].add(turn, given[place.fresh :])


# Going on


def build_live(head: Span, turn: Turn, source: Span | None = None, *, upto: int | None = None) -> Live:
    """What is needed to go on from a trace, or from one of its spans, after so many of its messages."""
    messages = (*turn.messages_in, *turn.messages_out)
    first = source or head
    return Live(
        workflow=head.workflow or first.workflow,
        messages=messages if upto is None else messages[:upto],
        inputs=_extra_inputs(first) or _extra_inputs(head),
        parameters=first.parameters or head.parameters,
        tools=first.tools or head.tools,
    )


def _extra_inputs(span: Span) -> dict[str, Any]:
    """What was given beside the messages."""
    value = span.inputs
    if not isinstance(value, dict):
        return {}
    said = ("messages", "system", "prompt") if "ai-sdk" in span.conventions else ("messages",)
    return {name: item for name, item in cast("dict[str, Any]", value).items() if name not in said}
