"""Folding a stream of events into a reply; test_grammar_laws.py tests its agreement with clients."""

import pytest
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
    ToolEnded,
    ToolReturned,
    ToolStarted,
    UsageAdded,
)
from palaver.core.fold import fold
from palaver.core.messages import Annotation, Data, Message, Reasoning, Text, ToolCall, ToolResult, Usage
from palaver.core.runs import Reply

NOTE = Annotation(kind="url", url="https://host/")
STARTED = RunStarted(run_id="run_r")


def usage_of(tokens: int) -> Usage:
    return Usage(input_tokens=tokens, output_tokens=tokens)


def test_messages_and_parts_are_in_the_order_in_which_their_items_started() -> None:
    stream: list[Event] = [
        STARTED,
        ReasoningStarted(item="r", message="m"),
        TextStarted(item="t", message="m"),
        ReasoningDelta(item="r", delta="hm"),
        TextDelta(item="t", delta="Hello"),
        PartAdded(item="s", message="m", part=Data(name="status"), transient=True),
        PartAdded(item="d", message="m", part=Data(name="n", value=1)),
        TextEnded(item="t", text="Hello", annotations=(NOTE,)),
        ReasoningEnded(item="r", text="hm", encrypted="x"),
        ToolStarted(item="fc_c", message="m", call_id="c", name="now"),
        ToolDelta(item="fc_c", delta="{}"),
        ToolEnded(item="fc_c", arguments="{}"),
        ToolReturned(item="fco_c", message="u", call_id="c", output=12, is_error=True),
        TextStarted(item="v", message="v"),
        TextDelta(item="v", delta="Noon."),
        TextEnded(item="v", text="Noon."),
        RunFinished(),
    ]

    output = Text(text="Hello", annotations=(NOTE,))
    parts = (
        Reasoning(text="hm", encrypted="x"),
        output,
        Data(name="n", value=1),
        ToolCall(call_id="c", name="now", arguments="{}"),
    )
    assert fold(stream) == Reply(
        run_id="run_r",
        messages=(
            Message(role="assistant", id="m", parts=parts),
            Message(role="tool", id="u", parts=(ToolResult(call_id="c", output=12, is_error=True),)),
            Message(role="assistant", id="v", parts=(Text(text="Noon."),)),
        ),
        finish="stop",
    )


def test_a_run_without_output_has_no_messages() -> None:
    assert fold([STARTED, RunFinished()]) == Reply(run_id="run_r", finish="stop")


def test_a_message_with_only_transient_parts_is_left_out() -> None:
    status = PartAdded(item="s", message="m", part=Data(name="status"), transient=True)

    assert fold([STARTED, status, RunFinished()]) == Reply(run_id="run_r", finish="stop")


def test_the_fold_of_an_unfinished_run_contains_only_ended_items() -> None:
    stream: list[Event] = [
        STARTED,
        TextStarted(item="t", message="t"),
        TextDelta(item="t", delta="a"),
        TextEnded(item="t", text="a"),
        TextStarted(item="u", message="u"),
        TextDelta(item="u", delta="b"),
    ]

    assert fold(stream).messages == (Message(role="assistant", id="t", parts=(Text(text="a"),)),)


@pytest.mark.parametrize(
    ("terminal", "reply"),
    [
        (RunFinished(finish="length"), Reply(run_id="run_r", finish="length", usage=usage_of(3))),
        (RunFinished(value=None), Reply(run_id="run_r", finish="stop", usage=usage_of(3), value=None)),
        (RunFinished(usage=usage_of(9)), Reply(run_id="run_r", finish="stop", usage=usage_of(9))),
        (RunFailed(code="x", message="y"), Reply(run_id="run_r", finish="error", usage=usage_of(3))),
        (RunFailed(usage=usage_of(9)), Reply(run_id="run_r", finish="error", usage=usage_of(9))),
        (RunCancelled(), Reply(run_id="run_r", finish="cancelled", usage=usage_of(3))),
    ],
    ids=["length", "null is a value", "the end's usage replaces the sum", "failed", "failed with usage", "cancelled"],
)
def test_usage_is_summed_and_finish_comes_from_the_terminal_event(terminal: TerminalEvent, reply: Reply) -> None:
    assert fold([STARTED, UsageAdded(usage=usage_of(1)), UsageAdded(usage=usage_of(2)), terminal]) == reply


def test_a_chat_has_no_value() -> None:
    assert fold([STARTED, RunFinished()]).value is UNSET
