"""The event grammar: repairs of invalid streams, and violations that fail the run."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

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
from palaver.core.grammar import Grammar
from palaver.core.messages import Annotation, Data, File, Message, Reasoning, Refusal, Text, ToolCall, ToolResult, Usage
from palaver.errors import BadStream
from tests.core.strategies import Unwritable
from tests.core.stream_checker import check_stream

NOTE = Annotation(kind="url", url="https://host/")
PICTURE = File(media_type="image/png", url="https://host/a.png")
USAGE = Usage(input_tokens=3, output_tokens=5)


def emitted_events(grammar: Grammar, values: Sequence[Any], terminal: TerminalEvent | None = None) -> list[Event]:
    """All events that the grammar emits for the values, from start to end."""
    events = [*grammar.start(RunStarted(run_id="run_r"))]
    for value in values:
        events += grammar.text(value) if isinstance(value, str) else grammar.feed(value)
    return [*events, *grammar.end(terminal or grammar.ending or RunFinished())]


def run(*items: Event) -> list[Event]:
    """A complete numbered run around some events; it finishes normally unless the last event is terminal."""
    ends = bool(items) and isinstance(items[-1], RunFinished | RunFailed | RunCancelled)
    stream: list[Event] = [RunStarted(run_id="run_r"), *items, *([] if ends else [RunFinished()])]
    return [msgspec.structs.replace(event, seq=number) for number, event in enumerate(stream)]


def text(item: str, *pieces: str, message: str | None = None) -> list[Event]:
    """The events of one text item."""
    deltas = [TextDelta(item=item, delta=piece) for piece in pieces]
    return [TextStarted(item=item, message=message or item), *deltas, TextEnded(item=item, text="".join(pieces))]


def reasoning(item: str, *pieces: str, message: str) -> list[Event]:
    """The events of one reasoning item."""
    deltas = [ReasoningDelta(item=item, delta=piece) for piece in pieces]
    return [ReasoningStarted(item=item, message=message), *deltas, ReasoningEnded(item=item, text="".join(pieces))]


def call(call_id: str, *pieces: str, message: str, name: str = "now") -> list[Event]:
    """The events of one tool call."""
    item = f"fc_{call_id}"
    deltas = [ToolDelta(item=item, delta=piece) for piece in pieces]
    started = ToolStarted(item=item, message=message, call_id=call_id, name=name)
    return [started, *deltas, ToolEnded(item=item, arguments="".join(pieces))]


def result(call_id: str, output: Any, *, message: str) -> ToolReturned:
    return ToolReturned(item=f"fco_{call_id}", message=message, call_id=call_id, output=output)


FINISHED_WITH_CALLS = RunFinished(finish="tool-calls")
"""The end of a run that leaves a tool call to the client."""

REPAIRS: dict[str, tuple[list[Any], list[Event]]] = {
    "nothing at all": ([], []),
    "text": (["Hel", "lo"], text("msg_r_1", "Hel", "lo")),
    "an empty piece is dropped": (["", "a", "", TextDelta(), "b"], text("msg_r_1", "a", "b")),
    "text with no start is started": ([TextDelta(delta="a")], text("msg_r_1", "a")),
    "text under a name with no start is started": (
        [TextDelta(item="x", delta="a"), TextDelta(item="x", delta="b")],
        text("x", "a", "b", message="msg_r_1"),
    ),
    "a started text waits for its first piece": ([TextStarted(), "a", "b"], text("msg_r_1", "a", "b")),
    "a text that says nothing never was": ([TextStarted(item="x", message="m"), TextEnded(item="x")], []),
    "a text that never ends is ended": (
        [TextStarted(item="x", message="m"), TextDelta(item="x", delta="a")],
        text("x", "a", message="m"),
    ),
    "an end that was not begun is nothing": ([TextEnded(), ReasoningEnded(), ToolEnded()], []),
    "an end that says it all is one piece": ([TextEnded(text="whole")], text("msg_r_1", "whole")),
    "an end that says more is one more piece": (["a", TextEnded(text="ab")], text("msg_r_1", "a", "b")),
    "an end that says the same adds nothing": (["a", "b", TextEnded(text="ab")], text("msg_r_1", "a", "b")),
    "an end that comes twice": (
        [TextDelta(item="x", delta="a"), TextEnded(item="x"), TextEnded(item="x", text="a")],
        text("x", "a", message="msg_r_1"),
    ),
    "an end after something else ended it": (
        [
            TextStarted(item="x", message="m"),
            TextDelta(item="x", delta="a"),
            TextStarted(item="y", message="m"),
            TextDelta(item="y", delta="b"),
            TextEnded(item="x", text="a"),
            TextEnded(item="y"),
        ],
        [*text("x", "a", message="m"), *text("y", "b", message="m")],
    ),
    "annotations come with the end": (
        ["a", TextEnded(annotations=(NOTE,))],
        [*text("msg_r_1", "a")[:-1], TextEnded(item="msg_r_1", text="a", annotations=(NOTE,))],
    ),
    "another text of the same message ends the first": (
        [TextStarted(item="x", message="m"), TextDelta(item="x", delta="a"), TextDelta(item="y", delta="b")],
        [*text("x", "a", message="m"), *text("y", "b", message="m")],
    ),
    "texts of two messages grow side by side": (
        [
            TextStarted(item="x", message="m"),
            TextDelta(item="x", delta="a"),
            TextStarted(item="y", message="n"),
            TextDelta(item="y", delta="b"),
            TextDelta(item="x", delta="c"),
        ],
        [
            *text("x", "a", message="m")[:-1],
            *text("y", "b", message="n")[:-1],
            TextDelta(item="x", delta="c"),
            TextEnded(item="x", text="ac"),
            TextEnded(item="y", text="b"),
        ],
    ),
    "anything of another kind ends what is at hand": (
        ["a", ReasoningDelta(delta="b"), "c"],
        [
            *text("msg_r_1", "a"),
            *reasoning("rs_r_2", "b", message="msg_r_1"),
            *text("msg_r_3", "c", message="msg_r_1"),
        ],
    ),
    "named reasoning ends the text at hand": (
        [
            ReasoningStarted(item="r", message="m"),
            ReasoningDelta(item="r", delta="a"),
            "b",
            ReasoningDelta(item="r", delta="c"),
            "d",
        ],
        [
            *reasoning("r", "a", message="m")[:-1],
            *text("m", "b"),
            ReasoningDelta(item="r", delta="c"),
            *text("msg_r_1", "d", message="m")[:-1],
            ReasoningEnded(item="r", text="ac"),
            TextEnded(item="msg_r_1", text="d"),
        ],
    ),
    "data, files and usage pass by": (
        ["a", Data(name="n", value=1), PICTURE, USAGE, "b"],
        [
            *text("msg_r_1", "a")[:-1],
            PartAdded(item="dat_r_2", message="msg_r_1", part=Data(name="n", value=1)),
            PartAdded(item="fil_r_3", message="msg_r_1", part=PICTURE),
            UsageAdded(usage=USAGE),
            TextDelta(item="msg_r_1", delta="b"),
            TextEnded(item="msg_r_1", text="ab"),
        ],
    ),
    "a refusal does not pass by": (
        ["a", Refusal(text="no"), "b"],
        [
            *text("msg_r_1", "a"),
            PartAdded(item="msg_r_2", message="msg_r_1", part=Refusal(text="no")),
            *text("msg_r_3", "b", message="msg_r_1"),
        ],
    ),
    "consecutive reasoning continues one item": (
        [Reasoning("a"), Reasoning("b"), "c", Reasoning("d"), Reasoning("e", encrypted="x"), Reasoning("f")],
        [
            *reasoning("rs_r_2", "a", "b", message="msg_r_1"),
            *text("msg_r_1", "c"),
            *reasoning("rs_r_3", "d", message="msg_r_1"),
            *reasoning("rs_r_4", "e", message="msg_r_1")[:-1],
            ReasoningEnded(item="rs_r_4", text="e", encrypted="x"),
            *reasoning("rs_r_5", "f", message="msg_r_1"),
        ],
    ),
    "reasoning that nobody may read": (
        [Reasoning(text="", encrypted="x")],
        [ReasoningStarted(item="rs_r_2", message="msg_r_1"), ReasoningEnded(item="rs_r_2", encrypted="x")],
    ),
    "parts that come whole": (
        [Reasoning(text="hm"), Text(text="a", annotations=(NOTE,)), Text(text="b"), Text(text="")],
        [
            *reasoning("rs_r_2", "hm", message="msg_r_1"),
            *text("msg_r_1", "a")[:-1],
            TextEnded(item="msg_r_1", text="a", annotations=(NOTE,)),
            *text("msg_r_3", "b", message="msg_r_1"),
        ],
    ),
    "a transient part": (
        [PartAdded(part=Data(name="status", value="…"), transient=True)],
        [PartAdded(item="dat_r_2", message="msg_r_1", part=Data(name="status", value="…"), transient=True)],
    ),
    "a call, its result, and text in a new message": (
        ["a", ToolCall(call_id="c", name="now", arguments="{}"), ToolResult(call_id="c", output=12), "b"],
        [
            *text("msg_r_1", "a"),
            *call("c", "{}", message="msg_r_1"),
            result("c", 12, message="msg_r_2"),
            *text("msg_r_3", "b"),
        ],
    ),
    "a call without an id": (
        [ToolCall(call_id="", name="now")],
        [*call("call_r_1", message="msg_r_2"), FINISHED_WITH_CALLS],
    ),
    "a call in pieces": (
        [ToolStarted(call_id="c", name="now"), ToolDelta(delta="{"), ToolDelta(delta="}")],
        [*call("c", "{", "}", message="msg_r_1"), FINISHED_WITH_CALLS],
    ),
    "a call's arguments come whole": (
        [ToolStarted(item="i", call_id="c", name="now"), ToolEnded(item="i", arguments="{}")],
        [*call("c", "{}", message="msg_r_1"), FINISHED_WITH_CALLS],
    ),
    "a call answers to three names": (
        [
            ToolStarted(item="i", call_id="c", name="now"),
            ToolDelta(item="i", delta="1"),
            ToolDelta(item="fc_c", delta="2"),
            ToolDelta(item="c", delta="3"),
            ToolEnded(item="c"),
        ],
        [*call("c", "1", "2", "3", message="msg_r_1"), FINISHED_WITH_CALLS],
    ),
    "named calls grow side by side": (
        [
            ToolStarted(item="i", call_id="c", name="now"),
            ToolStarted(item="j", call_id="d", name="now"),
            ToolDelta(item="i", delta="1"),
            ToolDelta(item="j", delta="2"),
            ToolDelta(item="i", delta="3"),
        ],
        [
            call("c", message="msg_r_1")[0],
            call("d", message="msg_r_1")[0],
            ToolDelta(item="fc_c", delta="1"),
            ToolDelta(item="fc_d", delta="2"),
            ToolDelta(item="fc_c", delta="3"),
            ToolEnded(item="fc_c", arguments="13"),
            ToolEnded(item="fc_d", arguments="2"),
            FINISHED_WITH_CALLS,
        ],
    ),
    "a result ends its call, and the call's own end comes late": (
        [ToolStarted(item="i", call_id="c", name="now"), ToolReturned(call_id="c"), ToolEnded(item="i")],
        [*call("c", message="msg_r_1"), result("c", None, message="msg_r_2")],
    ),
    "results of several calls, one after the other": (
        [
            ToolCall(call_id="c", name="now"),
            ToolCall(call_id="d", name="now"),
            ToolResult(call_id="d", output=1),
            ToolResult(call_id="c", output=2),
        ],
        [
            *call("c", message="msg_r_1"),
            *call("d", message="msg_r_1"),
            result("d", 1, message="msg_r_2"),
            result("c", 2, message="msg_r_3"),
        ],
    ),
    "a call of the history is answered": (
        [ToolResult(call_id="asked", output=1)],
        [result("asked", 1, message="msg_r_1")],
    ),
    "a call has an id that the history had": (
        [ToolCall(call_id="done", name="now"), ToolResult(call_id="done", output=1)],
        [*call("done", message="msg_r_1"), result("done", 1, message="msg_r_2")],
    ),
    "a call has the id of one that was answered in this run": (
        [
            ToolResult(call_id="asked", output=1),
            ToolCall(call_id="asked", name="now"),
            ToolResult(call_id="asked", output=2),
        ],
        [
            result("asked", 1, message="msg_r_1"),
            *call("asked", message="msg_r_2"),
            ToolReturned(item="fco_r_3", message="msg_r_4", call_id="asked", output=2),
        ],
    ),
    "an item took a result's id": (
        [TextDelta(item="fco_c", delta="a"), ToolCall(call_id="c", name="now"), ToolResult(call_id="c")],
        [
            *text("fco_c", "a", message="msg_r_1")[:-1],
            *call("c", message="msg_r_1"),
            ToolReturned(item="fco_r_2", message="msg_r_3", call_id="c"),
            TextEnded(item="fco_c", text="a"),
        ],
    ),
    "messages have the ids that their producer gave them": (
        [TextStarted(message="m"), "a", Data(name="n"), PartAdded(message="o", part=Data(name="n")), "b"],
        [
            *text("m", "a")[:-1],
            PartAdded(item="dat_r_1", message="m", part=Data(name="n")),
            PartAdded(item="dat_r_2", message="o", part=Data(name="n")),
            TextDelta(item="m", delta="b"),
            TextEnded(item="m", text="ab"),
        ],
    ),
    "a message from before a result is another one after it": (
        [
            TextStarted(message="m"),
            "a",
            ToolCall(call_id="c", name="now"),
            ToolReturned(message="m", call_id="c"),
            TextStarted(message="m"),
            "b",
            PartAdded(message="m", part=Data(name="n")),
        ],
        [
            *text("m", "a"),
            *call("c", message="m"),
            result("c", None, message="msg_r_1"),
            *text("msg_r_2", "b")[:-1],
            PartAdded(item="dat_r_3", message="msg_r_2", part=Data(name="n")),
            TextEnded(item="msg_r_2", text="b"),
        ],
    ),
    "a text that waited through a result belongs to the message after it": (
        [
            TextStarted(item="x", message="m"),
            ToolCall(call_id="c", name="now"),
            ToolResult(call_id="c"),
            TextDelta(item="x", delta="a"),
        ],
        [*call("c", message="m"), result("c", None, message="msg_r_1"), *text("x", "a", message="msg_r_2")],
    ),
    "a whole message is a message of its own": (
        ["a", Message.assistant("b", Data(name="n")), "c"],
        [
            *text("msg_r_1", "a"),
            *text("msg_r_2", "b"),
            PartAdded(item="dat_r_3", message="msg_r_2", part=Data(name="n")),
            *text("msg_r_4", "c"),
        ],
    ),
    "an empty message only separates": (
        ["a", Message.assistant(), "b"],
        [*text("msg_r_1", "a"), *text("msg_r_2", "b")],
    ),
    "whole messages keep their ids": (
        [
            Message(role="assistant", id="m", parts=(ToolCall(call_id="c", name="now"),)),
            Message(role="tool", id="t", parts=(ToolResult(call_id="c", output=1),)),
            Message(role="assistant", id="n", parts=(Text(text="a"),)),
        ],
        [*call("c", message="m"), result("c", 1, message="t"), *text("n", "a")],
    ),
    "a message that holds its own result is three": (
        [
            Message(
                role="assistant",
                id="m",
                parts=(ToolCall(call_id="c", name="now"), ToolResult(call_id="c"), Text(text="a")),
            )
        ],
        [*call("c", message="m"), result("c", None, message="msg_r_1"), *text("msg_r_2", "a")],
    ),
    "ids that the grammar would make itself": (
        [
            ReasoningDelta(item="rs_r_2", delta="a"),
            ReasoningDelta(delta="b"),
            TextDelta(item="msg_r_1", delta="c"),
            "d",
        ],
        [
            *reasoning("rs_r_2", "a", message="msg_r_1"),
            *reasoning("rs_r_3", "b", message="msg_r_1"),
            *text("msg_r_1", "c"),
            *text("msg_r_4", "d", message="msg_r_1"),
        ],
    ),
    "ids that are too long": (
        [TextStarted(item="i" * 65, message="m" * 65), TextDelta(item="i" * 65, delta="a")],
        text(f"{'i' * 40}-7db92d77e8b1", "a", message=f"{'m' * 40}-676fc2b53890"),
    ),
    "text that UTF-8 cannot hold": (
        ["a", "\ud800", "\ud83d\ude00", ReasoningDelta(item="\udfff", delta="b")],
        [*text("msg_r_1", "a", "\ufffd", "😀"), *reasoning("\ufffd", "b", message="msg_r_1")],
    ),
    "values that only look like JSON": (
        [Data(name="n", value={"day": datetime(2025, 1, 1, tzinfo=UTC), "set": {1}, "half": "\ud800"})],
        [
            PartAdded(
                item="dat_r_2",
                message="msg_r_1",
                part=Data(name="n", value={"day": "2025-01-01T00:00:00Z", "set": [1], "half": "\ufffd"}),
            )
        ],
    ),
    "a remote's own start": ([RunStarted(run_id="theirs"), "a"], text("msg_r_1", "a")),
    "a producer's own end": (
        ["a", RunCancelled(usage=USAGE)],
        [*text("msg_r_1", "a"), RunCancelled(usage=USAGE)],
    ),
    "a producer's own end with open calls": (
        [ToolCall(call_id="c", name="now"), RunFinished(finish="length")],
        [*call("c", message="msg_r_1"), RunFinished(finish="length")],
    ),
}

HISTORY = [
    Message.assistant(ToolCall(call_id="asked", name="now"), ToolCall(call_id="done", name="now")),
    Message.tool("done", "12:00"),
]


@pytest.mark.parametrize(("values", "expected"), REPAIRS.values(), ids=REPAIRS)
def test_the_output_of_a_sloppy_producer_is_repaired(values: list[Any], expected: list[Event]) -> None:
    stream = emitted_events(Grammar("run_r", history=HISTORY), values)

    assert stream == run(*expected)
    check_stream(stream, open_calls={"asked"})


TYPE_MISMATCH = "with an invalid field (Expected"

FAULTS: dict[str, tuple[list[Any], Any, str]] = {
    "a result for no call": (
        ["a"],
        ToolResult(call_id="c"),
        "after 4 events (tool-result): there is no call 'c'",
    ),
    "a result without a call id": ([], ToolResult(call_id=""), "after 1 events (tool-result): there is no call ''"),
    "a second result": (
        [ToolCall(call_id="c", name="now"), ToolResult(call_id="c")],
        ToolReturned(call_id="c"),
        "after 4 events (tool-result): call 'c' already has a result",
    ),
    "a second result for a call of the history": (
        [],
        ToolResult(call_id="done"),
        "after 1 events (tool-result): call 'done' already has a result",
    ),
    "a second call of one id": (
        [ToolCall(call_id="c", name="now"), ToolResult(call_id="c")],
        ToolCall(call_id="c", name="now"),
        "after 4 events (tool-call): call 'c' already exists",
    ),
    "a piece for a closed text": (
        [TextDelta(item="x", delta="a"), TextEnded(item="x")],
        TextDelta(item="x", delta="b"),
        "after 4 events (text-delta): text item 'x' is already closed",
    ),
    "a piece for a part": (
        [PartAdded(item="x", part=Data(name="n"))],
        ReasoningDelta(item="x", delta="b"),
        "after 2 events (reasoning-delta): reasoning item 'x' is already closed",
    ),
    "a piece for an item of another kind": (
        [TextDelta(item="x", delta="a")],
        ReasoningDelta(item="x", delta="b"),
        "after 3 events (reasoning-delta): reasoning item 'x' was never opened",
    ),
    "a piece for a call that was never made": (
        [],
        ToolDelta(item="c", delta="b"),
        "after 1 events (tool-delta): tool item 'c' was never opened",
    ),
    "a piece for a call that nobody names": (
        ["a"],
        ToolDelta(delta="b"),
        "after 4 events (tool-delta): no tool call is open",
    ),
    "an end that contradicts": (
        ["a"],
        TextEnded(text="b"),
        "after 3 events (text-ended): its final content differs from what was streamed",
    ),
    "a late end that contradicts": (
        [ToolCall(call_id="c", name="now", arguments="{}")],
        ToolEnded(item="c", arguments="[]"),
        "after 4 events (tool-ended): its final content differs from what was streamed",
    ),
    "an item that was opened before": (
        [TextDelta(item="x", delta="a")],
        ReasoningStarted(item="x"),
        "after 3 events (reasoning-started): item 'x' already exists",
    ),
    "a part that has an item's id": (
        [TextDelta(item="x", delta="a")],
        PartAdded(item="x", part=Data(name="n")),
        "after 3 events (part): item 'x' already exists",
    ),
    "a part of nothing": ([], PartAdded(), "after 1 events (part): the part must be a file, a refusal or data"),
    "anything after the end": (
        [RunFinished()],
        TextDelta(delta="a"),
        "after 1 events (text-delta): the workflow has already ended the run",
    ),
    "a number where text belongs": (
        [],
        TextDelta(delta=5),  # type: ignore[arg-type]
        f"after 1 events (text-delta): got a value of type TextDelta {TYPE_MISMATCH} `str`, got `int` - at `$.delta`)",
    ),
    "a message of plain text": (
        [],
        Message(role="assistant", parts=["hi"]),  # type: ignore[list-item]
        f"after 1 events (message): got a value of type Message {TYPE_MISMATCH} `object`, got `str` - at `$.parts[0]`)",
    ),
    "a usage that is none": (
        [],
        Usage(input_tokens="3", output_tokens=5),  # type: ignore[arg-type]
        (
            f"after 1 events (usage): got a value of type UsageAdded "
            f"{TYPE_MISMATCH} `int`, got `str` - at `$.usage.input_tokens`)"
        ),
    ),
    "data that is not JSON": (
        [],
        Data(name="n", value=Unwritable()),
        "after 1 events (data): got a value of type Data that is not JSON-serializable (unsupported type Unwritable)",
    ),
    "an end that is not JSON": (
        [],
        RunFinished(value=Unwritable()),
        (
            "after 1 events (run-finished): got a value of type RunFinished "
            "that is not JSON-serializable (unsupported type Unwritable)"
        ),
    ),
}


@pytest.mark.parametrize(("before", "fault", "detail"), FAULTS.values(), ids=FAULTS)
def test_an_invalid_event_raises_bad_stream_with_its_position(before: list[Any], fault: Any, detail: str) -> None:
    grammar = Grammar("run_r", history=HISTORY)
    stream = [*grammar.start(RunStarted(run_id="run_r"))]
    for value in before:
        stream += grammar.text(value) if isinstance(value, str) else grammar.feed(value)

    with pytest.raises(BadStream) as caught:
        grammar.feed(fault)

    assert caught.value.message == f"Invalid workflow output {detail}."
    stream += grammar.end(RunFailed(code=caught.value.code, message=caught.value.message))
    check_stream(stream, open_calls={"asked"})


def test_events_before_a_violation_are_still_emitted() -> None:
    grammar = Grammar("run_r")
    stream = [*grammar.start(RunStarted(run_id="run_r")), *grammar.text("a")]

    with pytest.raises(BadStream):
        grammar.feed(Message.assistant("b", ToolResult(call_id="c")))
    stream += grammar.end(RunFailed(code="bad_stream", message="…"))

    assert stream == run(*text("msg_r_1", "a"), *text("msg_r_2", "b"), RunFailed(code="bad_stream", message="…"))


def test_a_broken_stream_raises_the_same_error_again_and_ends_as_failed() -> None:
    grammar = Grammar("run_r")
    grammar.start(RunStarted(run_id="run_r"))
    grammar.text("a")
    with pytest.raises(BadStream) as first:
        grammar.feed(ToolResult(call_id="c"))

    with pytest.raises(BadStream) as second:
        grammar.text("b")

    assert second.value is first.value
    assert grammar.ending == RunFailed(code="bad_stream", message=first.value.message)


def test_output_after_the_producers_own_end_fails_the_run() -> None:
    grammar = Grammar("run_r")
    stream = [*grammar.start(RunStarted(run_id="run_r")), *grammar.text("a"), *grammar.feed(RunFinished())]

    with pytest.raises(BadStream) as caught:
        grammar.text("b")
    stream += grammar.end(grammar.ending or RunFinished())

    assert stream == run(*text("msg_r_1", "a"), RunFailed(code="bad_stream", message=caught.value.message))


def test_text_after_the_end_raises_bad_stream() -> None:
    grammar = Grammar("run_r")
    grammar.start(RunStarted(run_id="run_r"))
    grammar.text("a")
    grammar.end(RunCancelled())

    with pytest.raises(BadStream):
        grammar.text("b")


@pytest.mark.parametrize(
    ("terminal", "expected"),
    [
        (RunFinished(), RunFinished(finish="tool-calls")),
        (RunFinished(finish="interrupted"), RunFinished(finish="interrupted")),
        (RunCancelled(usage=USAGE), RunCancelled(usage=USAGE)),
        (RunFailed(code="x", message="half \ud800"), RunFailed(code="x", message="half \ufffd")),
        (
            RunFailed(code="x", message="y", details={"who": Unwritable()}),
            RunFailed(
                code="bad_stream",
                message=(
                    "The workflow failed, and its error could not be encoded: "
                    "a value of type RunFailed that is not JSON-serializable (unsupported type Unwritable)."
                ),
            ),
        ),
    ],
    ids=["stop", "interrupted", "cancelled", "half a character", "details that are not JSON"],
)
def test_every_terminal_event_closes_open_items(terminal: TerminalEvent, expected: TerminalEvent) -> None:
    values = [ReasoningDelta(item="r", delta="a"), ToolStarted(call_id="c", name="now")]

    stream = emitted_events(Grammar("run_r"), values, terminal)

    assert stream == run(
        ReasoningStarted(item="r", message="msg_r_1"),
        ReasoningDelta(item="r", delta="a"),
        ToolStarted(item="fc_c", message="msg_r_1", call_id="c", name="now"),
        ReasoningEnded(item="r", text="a"),
        ToolEnded(item="fc_c"),
        expected,
    )


def test_a_long_call_id_of_the_history_is_matched_by_its_short_form() -> None:
    history = [Message.assistant(ToolCall(call_id="c" * 70, name="now"))]

    stream = emitted_events(Grammar("run_r", history=history), [ToolResult(call_id="c" * 70, output=1)])

    short = f"{'c' * 40}-6fe5981a3146"
    assert [event.call_id for event in stream if isinstance(event, ToolReturned)] == [short]


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("abc", 3),
        ("é€😀", 9),
        (TextDelta(item="x", delta="é"), 2),
        (TextEnded(text="ab", annotations=(NOTE,)), 2 + len('[{"kind":"url","url":"https://host/"}]')),
        (Reasoning(text="a", encrypted="xyz"), 1 + len('"xyz"')),
        (ToolCall(call_id="c", name="now", arguments="{}"), len('"now"') + 2),
        (Data(name="n", value=[1]), len('{"type":"data","name":"n","value":[1]}')),
        (Refusal(text="é"), len('{"type":"refusal","text":""}') + 2),
        (USAGE, 0),
        ("", 0),
    ],
)
def test_size_counts_the_bytes_of_the_output(value: Any, size: int) -> None:
    grammar = Grammar("run_r")

    emitted_events(grammar, [value])

    assert grammar.size == size


def test_size_counts_tool_outputs_and_all_deltas() -> None:
    grammar = Grammar("run_r")

    emitted_events(grammar, ["ab", "cd", "é", ToolCall(call_id="c", name=""), ToolResult(call_id="c", output={"a": 1})])

    assert grammar.size == 6 + len('{"a":1}')
    assert grammar.count == 10


def test_later_changes_to_a_value_do_not_change_the_emitted_event() -> None:
    value = {"list": [1]}
    grammar = Grammar("run_r")

    output = grammar.feed(Data(name="n", value=value))
    value["list"].append(2)

    assert output == [PartAdded(seq=0, item="dat_r_2", message="msg_r_1", part=Data(name="n", value={"list": [1]}))]


def test_a_refusal_without_text_is_dropped() -> None:
    grammar = Grammar("run_1")

    assert list(grammar.feed(Refusal(text=""))) == []
    assert [type(event) for event in grammar.feed(Refusal(text="No."))] == [PartAdded]
