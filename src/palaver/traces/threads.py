"""Traces as conversations: what was said in one, what a session comes to, and how to go on from there.

A session's traces usually repeat what was said before. What repeats the thread so far is not shown twice; where a trace
leaves the thread, a new tab begins. Pure: whoever reads spans brings them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, cast

import msgspec

from palaver.core.messages import Data, Message, Part, Text
from palaver.traces import repeats
from palaver.traces.record import Defined, Span, Status


class ToolStep(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="tool"):
    """A tool that ran and of which no message tells."""

    trace_id: str
    span_id: str
    name: str
    call_id: str | None
    inputs: Any
    outputs: Any
    status: Status


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


def turn_of(head: Span, calls: Iterable[Span] = (), tools: Iterable[Span] = ()) -> Turn:
    """The conversation of a trace: its head's; else that of its last call of a model that has both sides.

    `calls` come the last ended first. Where none has, what stands for the head's inputs and outputs is lifted. A head
    may tell of the question and the answer only: where its last call tells the same with the steps between, it does. A
    run of ours tells all that its workflow said; what the models behind it were told is another conversation.
    """
    source, (given, answered) = head, _sides(head)
    call = next((call for call in calls if call.messages_in and call.messages_out), None)
    if call is not None:
        is_ours, is_whole = "palaver" in head.conventions, head.messages_in and head.messages_out
        told = (*call.messages_in, *call.messages_out)
        if not is_whole or (not is_ours and repeats.is_fuller(told, given, answered)):
            source, (given, answered) = call, _sides(call)
    return Turn(
        trace_id=head.trace_id,
        span_id=source.span_id,
        messages_in=given,
        messages_out=answered,
        tools=tuple(_untold((*given, *answered), tools)),
    )


def _sides(span: Span) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    given = span.messages_in or _lifted(span.inputs, "user", "inputs")
    answered = span.messages_out or _lifted(span.outputs, "assistant", "outputs")
    return given, answered[repeats.repeated(given, answered) :]


def _lifted(value: Any, role: Literal["user", "assistant"], name: str) -> tuple[Message, ...]:
    """A text as a message; any other value as a message that carries it: nothing is hidden for its form."""
    if value is None or value in ("", {}, []):
        return ()
    part: Part = Text(text=value) if isinstance(value, str) else Data(name=name, value=value)
    return (Message(role=role, parts=(part,)),)


def _untold(messages: Sequence[Message], tools: Iterable[Span]) -> Iterator[ToolStep]:
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


def thread(turns: Iterable[Turn]) -> list[Tab]:
    """What a session's traces come to, given in the order of their start."""
    lines: list[_Line] = []
    for turn in turns:
        _join(lines, turn)
    return [Tab(line.origin, line.steps[line.shared :]) for line in lines]


class _Line:
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


def _join(lines: list[_Line], turn: Turn) -> None:
    given = turn.messages_in
    known = [line.messages for line in lines]
    last = lines[-1] if lines else None
    is_piecemeal = last is not None and last.is_piecemeal
    if not is_piecemeal and any(repeats.is_within((*given, *turn.messages_out), said) for said in known):
        return  # All of it stands there already.
    place = repeats.continued(given, known)
    if place is not None:
        lines[place.line].add(turn, given[place.fresh :])
        return
    is_new_only = not any(message.role == "assistant" for message in given)
    place = repeats.left(given, known)
    if last is not None and is_new_only and (is_piecemeal or place is None):
        last.is_piecemeal = True
        last.add(turn, repeats.without_known_instructions(given, last.messages))
        return
    if place is None:
        lines.append(_Line(None, []))
        lines[-1].add(turn, given)
        return
    kept = lines[place.line].until(place.kept)
    lines.append(_Line(Origin(place.line, kept), lines[place.line].steps[:kept]))
    lines[-1].add(turn, given[place.fresh :])


# Going on


def live(head: Span, turn: Turn, source: Span | None = None, *, upto: int | None = None) -> Live:
    """What is needed to go on from a trace, or from one of its spans, after so many of its messages."""
    messages = (*turn.messages_in, *turn.messages_out)
    first = source or head
    return Live(
        workflow=head.workflow or first.workflow,
        messages=messages if upto is None else messages[:upto],
        inputs=_inputs(first) or _inputs(head),
        parameters=first.parameters or head.parameters,
        tools=first.tools or head.tools,
    )


def _inputs(span: Span) -> dict[str, Any]:
    """What was given beside the messages."""
    value = span.inputs
    if not isinstance(value, dict):
        return {}
    said = ("messages", "system", "prompt") if "ai-sdk" in span.conventions else ("messages",)
    return {name: item for name, item in cast("dict[str, Any]", value).items() if name not in said}
