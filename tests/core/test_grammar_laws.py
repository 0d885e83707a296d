"""Properties of event streams: valid for any producer, and the fold equals what a client builds."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from msgspec import UNSET

from palaver.core.events import (
    Event,
    PartAdded,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunStarted,
    TerminalEvent,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolReturned,
    ToolStarted,
    UsageAdded,
)
from palaver.core.fold import fold
from palaver.core.grammar import Grammar
from palaver.core.messages import Message, Reasoning, Text, ToolCall, ToolResult, Usage
from palaver.core.runs import Reply
from palaver.errors import BadStream
from tests.core.strategies import RUN, hostile, sloppy, terminals
from tests.core.stream_checker import check_stream

more_examples = settings(max_examples=120)
"""More examples than in other tests: every protocol relies on these streams being valid."""

HISTORY = [
    Message.assistant(ToolCall(call_id="h1", name="now"), ToolCall(call_id="h2", name="now")),
    Message.tool("h2", "12:00"),
]


def stream_of(values: Sequence[Any], terminal: TerminalEvent | None = None) -> list[Event]:
    """The events that the engine would emit for a producer of these values."""
    grammar = Grammar(RUN, history=HISTORY)
    stream = [*grammar.start(RunStarted(run_id=RUN))]
    try:
        for value in values:
            stream += grammar.text(value) if isinstance(value, str) else grammar.feed(value)
    except BadStream as error:
        terminal = RunFailed(code=error.code, message=error.message)
    stream += grammar.end(terminal or grammar.ending or RunFinished())
    assert grammar.count == len(stream)
    return stream


@more_examples
@given(sloppy)
def test_a_sloppy_producer_yields_a_valid_stream(values: Sequence[Any]) -> None:
    check_stream(stream_of(values), open_calls={"h1"})


@more_examples
@given(hostile)
def test_a_hostile_producer_yields_a_valid_stream(values: Sequence[Any]) -> None:
    check_stream(stream_of(values), open_calls={"h1"})


@more_examples
@given(sloppy, terminals)
def test_the_stream_is_valid_for_any_terminal_event(values: Sequence[Any], terminal: TerminalEvent) -> None:
    check_stream(stream_of(values, terminal), open_calls={"h1"})


@more_examples
@given(hostile)
def test_the_same_values_give_the_same_stream(values: Sequence[Any]) -> None:
    assert stream_of(values) == stream_of(values)


@more_examples
@given(hostile)
def test_output_after_the_stream_broke_is_ignored(values: Sequence[Any]) -> None:
    grammar = Grammar(RUN, history=HISTORY)
    stream = [*grammar.start(RunStarted(run_id=RUN))]
    for value in values:
        try:
            stream += grammar.text(value) if isinstance(value, str) else grammar.feed(value)
        except BadStream:
            continue  # Like an author who wraps ctx.emit() in a try.
    stream += grammar.end(grammar.ending or RunFinished())

    assert stream == stream_of(values)


@more_examples
@given(sloppy, terminals)
def test_the_fold_equals_what_a_naive_client_builds_from_deltas(values: Sequence[Any], terminal: TerminalEvent) -> None:
    stream = stream_of(values, terminal)

    assert fold(stream) == naive_fold(stream)


@more_examples
@given(hostile)
def test_the_fold_of_a_hostile_producer_equals_what_a_naive_client_builds(values: Sequence[Any]) -> None:
    stream = stream_of(values)

    assert fold(stream) == naive_fold(stream)


def naive_fold(stream: Sequence[Event]) -> Reply:
    """Fold like a client that builds from starts and deltas, and takes from ends only what no delta carries."""
    rendered: dict[str, list[dict[str, Any]]] = {}
    items: dict[str, dict[str, Any]] = {}
    usages: list[Usage] = []
    finish, value, usage = "", UNSET, None
    for event in stream:
        match event:
            case TextStarted() | ReasoningStarted() | ToolStarted():
                items[event.item] = {"event": event, "said": "", "extra": None}
                rendered.setdefault(event.message, []).append(items[event.item])
            case TextDelta() | ReasoningDelta() | ToolDelta():
                items[event.item]["said"] += event.delta
            case TextEnded(annotations=extra) | ReasoningEnded(encrypted=extra):
                items[event.item]["extra"] = extra
            case ToolReturned():
                rendered[event.message] = [{"event": event}]
            case PartAdded(transient=False):
                rendered.setdefault(event.message, []).append({"event": event})
            case UsageAdded():
                usages.append(event.usage)
            case RunFinished():
                finish, value, usage = event.finish, event.value, event.usage
            case RunFailed():
                finish, usage = "error", event.usage
            case RunCancelled():
                finish, usage = "cancelled", event.usage
            case _:
                pass
    if usage is None and usages:
        usage = usages[0]
        for other in usages[1:]:
            usage += other
    messages: list[Message] = []
    for message, entries in rendered.items():
        parts = [_part(**one) for one in entries]
        role = "tool" if isinstance(parts[0], ToolResult) else "assistant"
        messages.append(Message(role=role, parts=tuple(parts), id=message))
    return Reply(run_id=RUN, messages=tuple(messages), value=value, usage=usage, finish=finish)  # type: ignore[arg-type]


def _part(event: Event, said: str = "", extra: Any = None) -> Any:
    match event:
        case TextStarted():
            return Text(text=said, annotations=extra)
        case ReasoningStarted():
            return Reasoning(text=said, encrypted=extra)
        case ToolStarted(call_id=call_id, name=name):
            return ToolCall(call_id=call_id, name=name, arguments=said)
        case ToolReturned(call_id=call_id, output=output, is_error=is_error):
            return ToolResult(call_id=call_id, output=output, is_error=is_error)
        case PartAdded(part=part):
            return part
        case _:
            raise AssertionError(event)
