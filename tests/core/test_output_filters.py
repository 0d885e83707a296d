"""Text ends before the first stop sequence, and commentary is separated from JSON, in whatever pieces it comes."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core.events import (
    Event,
    RunFailed,
    RunFinished,
    RunStarted,
    TerminalEvent,
    TextDelta,
    TextEnded,
    ToolDelta,
    ToolEnded,
    ToolStarted,
)
from palaver.core.fold import fold
from palaver.core.grammar import Grammar
from palaver.core.messages import Annotation, Data, Message, Reasoning, Text, ToolCall, ToolResult, Usage
from palaver.core.output_filters import FilteredGrammar, StopReached
from palaver.errors import BadStream
from tests.core.strategies import RUN, sloppy
from tests.core.stream_checker import check_stream


def stream_of(values: Sequence[Any], *stop: str, terminal: TerminalEvent | None = None) -> list[Event]:
    """Return the events of a producer of these values, with stop sequences."""
    grammar = FilteredGrammar(RUN, stop) if stop else Grammar(RUN)
    stream = [*grammar.start(RunStarted(run_id=RUN))]
    try:
        for value in values:
            stream += grammar.text(value) if isinstance(value, str) else grammar.feed(value)
    except StopReached:
        terminal = terminal or RunFinished()
    except BadStream as error:
        terminal = RunFailed(code=error.code, message=error.message)
    return [*stream, *grammar.end(terminal or grammar.ending or RunFinished())]


def text_of(stream: Sequence[Event]) -> str:
    return "".join(event.delta for event in stream if isinstance(event, TextDelta))


def cut(text: str, stop: Sequence[str]) -> str:
    """Return the text up to the stop sequence that is complete first."""
    for end in range(len(text) + 1):
        if found := [sequence for sequence in stop if text[:end].endswith(sequence)]:
            return text[: end - max(map(len, found))]
    return text


@given(st.lists(st.text("abc", max_size=4)), st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=4))
def test_the_pieces_of_a_text_make_no_difference(pieces: list[str], stop: list[str]) -> None:
    stream = stream_of(pieces, *stop)
    text = cut("".join(pieces), stop)

    check_stream(stream)
    assert text_of(stream) == text
    assert [event.text for event in stream if isinstance(event, TextEnded)] == ([text] if text else [])


@given(sloppy, st.lists(st.text("abcdexyz <\n", min_size=1, max_size=2), min_size=1, max_size=2))
def test_streams_with_stop_sequences_are_valid(values: list[Any], stop: list[str]) -> None:
    stream = stream_of(values, *stop)

    check_stream(stream)
    assert [event.seq for event in stream] == list(range(len(stream)))
    for event in stream:
        assert not isinstance(event, TextEnded) or not any(found in event.text for found in stop)


def test_output_after_the_stop_sequence_keeps_the_stream_valid() -> None:
    grammar = FilteredGrammar(RUN, ["END"])
    stream = [*grammar.start(RunStarted(run_id=RUN)), *grammar.feed(ToolStarted(item="t", call_id="c", name="now"))]
    with pytest.raises(StopReached):
        grammar.feed(TextDelta(item="m", delta="One. END"))
    for late in (ToolDelta(item="t", delta="{}"), TextDelta(item="m", delta="Two."), Text(text="Three."), "Four."):
        stream += grammar.text(late) if isinstance(late, str) else grammar.feed(late)
    stream += grammar.end(RunFinished())

    check_stream(stream)
    assert [event.seq for event in stream] == list(range(len(stream)))
    assert text_of(stream) == "One. "
    assert [event.arguments for event in stream if isinstance(event, ToolEnded)] == ["{}"]


@given(sloppy)
def test_stop_sequences_that_never_occur_change_nothing(values: list[Any]) -> None:
    assert fold(stream_of(values, "§never§")) == fold(stream_of(values))


def test_text_that_may_begin_a_stop_sequence_waits_until_it_does_not() -> None:
    grammar = FilteredGrammar(RUN, ["END"])
    grammar.start(RunStarted(run_id=RUN))

    sent = [text_of(grammar.text(piece)) for piece in ("One E", "N", "o. E")]
    rest = text_of(grammar.end(RunFinished()))

    assert (sent, rest) == (["One ", "", "ENo. "], "E")


def test_everything_after_the_stop_sequence_is_dropped_and_the_finish_is_stop() -> None:
    message = Message.assistant(
        Reasoning(text="Hm."),
        Text(text="One. END Two.", annotations=(Annotation(kind="url", end=3), Annotation(kind="url", end=12))),
        Data(name="chart", value=1),
        ToolCall(call_id="c1", name="now"),
    )
    stream = stream_of([message, Usage(input_tokens=1, output_tokens=1)], "END", terminal=RunFinished(finish="length"))
    reply = fold(stream)

    assert reply.messages[0].parts == (
        Reasoning(text="Hm."),
        Text(text="One. ", annotations=(Annotation(kind="url", end=3),)),
    )
    assert reply.finish == "stop"


@pytest.mark.parametrize("terminal", [RunFinished(), RunFailed(message="No.")])
def test_a_text_that_begins_with_a_stop_sequence_is_empty(terminal: TerminalEvent) -> None:
    stream = stream_of(["END", " of it."], "END", terminal=terminal)

    assert [type(event) for event in stream] == [RunStarted, type(terminal)]


# Commentary


def separated(values: Sequence[Any], *stop: str) -> list[Event]:
    """Return the events of a producer whose reply has to be a JSON object."""
    grammar = FilteredGrammar(RUN, stop, separates_commentary=True)
    stream = [*grammar.start(RunStarted(run_id=RUN))]
    try:
        for value in values:
            stream += grammar.text(value) if isinstance(value, str) else grammar.feed(value)
    except StopReached:
        return [*stream, *grammar.end(RunFinished())]
    except BadStream as error:
        return [*stream, *grammar.end(RunFailed(code=error.code, message=error.message))]
    return [*stream, *grammar.end(grammar.ending or RunFinished())]


def test_text_before_a_tool_call_becomes_reasoning() -> None:
    call, result = ToolCall(call_id="c1", name="now"), ToolResult(call_id="c1", output="12:00")
    reply = fold(separated(["\n", "Let me ", "look.", call, result, " \n", ' {"time"', ': "12:00"}']))

    assert [message.parts for message in reply.messages] == [
        (Reasoning(text="\nLet me look."), call),
        (result,),
        (Text(text=' \n {"time": "12:00"}'),),
    ]


def test_text_of_white_space_is_left_out() -> None:
    call = ToolCall(call_id="c1", name="now")

    assert fold(separated([" ", "\n", call])).messages[0].parts == (call,)


def test_commentary_has_no_stop_sequence() -> None:
    stream = separated(["One. END Two.", Message.assistant('{"a": "b END c"}')], "END")

    assert text_of(stream) == '{"a": "b '
    assert fold(stream).messages[0].parts == (Reasoning(text="One. END Two."),)


@given(sloppy)
def test_streams_without_commentary_are_valid(values: list[Any]) -> None:
    stream = separated(values)

    check_stream(stream)
    assert [event.seq for event in stream] == list(range(len(stream)))
    assert all(event.text.lstrip().startswith(("{", "[")) for event in stream if isinstance(event, TextEnded))
