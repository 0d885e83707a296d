"""Linearizing a stream so that at most one item is open at a time."""

import pytest
from hypothesis import given

from palaver.core.events import (
    Event,
    PartAdded,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolReturned,
    ToolStarted,
    UsageAdded,
)
from palaver.core.linearize import Linearizer, linearize
from palaver.core.messages import Annotation, Data, File, Refusal, Usage
from tests.core.strategies import hostile, sloppy
from tests.core.test_grammar_laws import stream_of

A = [TextStarted(item="a", message="m"), TextDelta(item="a", delta="one ")]
REST_OF_A = [TextDelta(item="a", delta="two"), TextEnded(item="a", text="one two")]
A_CLOSED = [*A, TextEnded(item="a", text="one ")]
A_CONTINUED = [
    TextStarted(item="a.2", message="m"),
    TextDelta(item="a.2", delta="two"),
    TextEnded(item="a.2", text="two"),
]
CALL = [
    ToolStarted(item="fc_1", message="m", call_id="1", name="now"),
    ToolDelta(item="fc_1", delta="{}"),
    ToolEnded(item="fc_1", arguments="{}"),
]
RESULT = ToolReturned(item="fco_1", message="r", call_id="1", output="noon")


def test_a_stream_with_one_open_item_at_a_time_is_unchanged() -> None:
    events: list[Event] = [*A, *REST_OF_A, *CALL, RESULT]

    assert linearize(events) == events


def test_a_call_closes_the_text_and_later_deltas_start_a_new_item() -> None:
    assert linearize([*A, *CALL, *REST_OF_A]) == [*A_CLOSED, *CALL, *A_CONTINUED]


@pytest.mark.parametrize(
    "event",
    [
        RESULT,
        PartAdded(item="no", message="m", part=Refusal(text="No.")),
        PartAdded(item="ask", message="m", part=Data(name="approval-request", value={"id": "1"})),
    ],
)
def test_a_result_a_refusal_or_an_approval_request_closes_the_text(event: Event) -> None:
    assert linearize([*A, event, *REST_OF_A]) == [*A_CLOSED, event, *A_CONTINUED]


@pytest.mark.parametrize(
    "event",
    [
        PartAdded(item="d", message="m", part=Data(name="chart", value=1)),
        PartAdded(item="f", message="m", part=File(media_type="image/png", data="AAAA")),
        UsageAdded(usage=Usage(input_tokens=1, output_tokens=1)),
    ],
)
def test_data_files_and_usage_do_not_close_open_items(event: Event) -> None:
    assert linearize([*A, event, *REST_OF_A]) == [*A, event, *REST_OF_A]
    assert linearize([*CALL[:1], event, *CALL[1:]]) == [*CALL[:1], event, *CALL[1:]]


def test_reasoning_of_the_same_message_closes_the_text() -> None:
    reasoning = [ReasoningStarted(item="r", message="m"), ReasoningDelta(item="r", delta="Hm.")]
    ended = ReasoningEnded(item="r", text="Hm.", encrypted="sealed")

    assert linearize([*A, *reasoning, ended, *REST_OF_A]) == [*A_CLOSED, *reasoning, ended, *A_CONTINUED]


def test_text_of_another_message_is_held_until_the_open_item_ends() -> None:
    other = [
        TextStarted(item="b", message="n"),
        TextDelta(item="b", delta="B"),
        TextEnded(item="b", text="B"),
    ]

    assert linearize([*A, *other, *REST_OF_A]) == [*A, *REST_OF_A, *other]
    assert linearize([*A, *other[:2], *REST_OF_A, other[2]]) == [*A, *REST_OF_A, *other]


def test_while_a_call_is_open_other_items_are_held_in_start_order() -> None:
    second = [
        ToolStarted(item="fc_2", message="m", call_id="2", name="then"),
        ToolDelta(item="fc_2", delta="[]"),
        ToolEnded(item="fc_2", arguments="[]"),
    ]
    text = [*A, *REST_OF_A]
    events: list[Event] = [CALL[0], second[0], *A, second[1], CALL[1], second[2], *REST_OF_A, CALL[2]]

    assert linearize(events) == [*CALL, *second, *text]


def test_held_items_are_emitted_before_the_call_that_closes_the_text() -> None:
    other = [TextStarted(item="b", message="n"), TextDelta(item="b", delta="B")]
    late = [TextDelta(item="b", delta="!"), TextEnded(item="b", text="B!")]

    assert linearize([*A, *other, *CALL, *REST_OF_A, *late]) == [
        *A_CLOSED,
        *other,
        TextEnded(item="b", text="B"),
        *CALL,
        *A_CONTINUED,
        TextStarted(item="b.2", message="n"),
        TextDelta(item="b.2", delta="!"),
        TextEnded(item="b.2", text="!"),
    ]


def test_annotation_offsets_are_relative_to_their_item() -> None:
    note = Annotation(kind="url", url="https://host", start=5, end=7)
    bare = Annotation(kind="url", url="https://host")
    last = TextEnded(item="a", text="one two", annotations=(note, bare))

    assert linearize([*A, *CALL, REST_OF_A[0], last])[-1] == TextEnded(
        item="a.2", text="two", annotations=(Annotation(kind="url", url="https://host", start=1, end=3), bare)
    )
    assert linearize([*A, REST_OF_A[0], last])[-1] == last


def test_generated_item_ids_are_not_reused() -> None:
    producer_events = [
        TextStarted(item="a.2", message="n"),
        TextDelta(item="a.2", delta="own"),
        TextEnded(item="a.2", text="own"),
    ]

    names = [
        event.item for event in linearize([*A, *CALL, *REST_OF_A, *producer_events]) if isinstance(event, TextStarted)
    ]
    assert names == ["a", "a.2", "a.2.2"]


def test_a_text_that_is_interrupted_5000_times_restarts_each_time() -> None:
    machine, names = Linearizer(), set[str]()
    machine.feed(A[0])
    for number in range(5_000):
        for event in machine.feed(TextDelta(item="a", delta="x")):
            if isinstance(event, TextStarted):
                names.add(event.item)
        machine.feed(PartAdded(item=f"no{number}", message="m", part=Refusal(text="No.")))

    assert len(names) == 4_999


def test_thousands_of_interleaved_items_are_emitted_one_after_another() -> None:
    number = 5_000
    starts: list[Event] = [TextStarted(item=str(n), message=str(n)) for n in range(number)]
    deltas: list[Event] = [TextDelta(item=str(n), delta="x") for n in range(number)]
    ends: list[Event] = [TextEnded(item=str(n), text="x") for n in range(number)]

    output = linearize([*starts, *deltas, *ends])

    assert output == [event for item in zip(starts, deltas, ends, strict=True) for event in item]


@given(sloppy | hostile)
def test_at_most_one_item_is_open_and_nothing_is_lost(values: list[object]) -> None:
    events = stream_of(values)
    output = linearize(events)

    open_item: str | None = None
    seen: set[str] = set()
    pieces: list[str] = []
    for event in output:
        match event:
            case TextStarted() | ReasoningStarted() | ToolStarted():
                assert open_item is None
                assert event.item not in seen
                seen.add(event.item)
                open_item, pieces = event.item, []
            case TextDelta() | ReasoningDelta() | ToolDelta():
                assert event.item == open_item
                pieces.append(event.delta)
            case TextEnded(item=item, text=content) | ReasoningEnded(item=item, text=content):
                assert (item, "".join(pieces)) == (open_item, content)
                open_item = None
            case ToolEnded(item=item, arguments=content):
                assert (item, "".join(pieces)) == (open_item, content)
                open_item = None
            case ToolReturned():
                assert open_item is None
            case _:
                pass
    assert open_item is None
    assert sorted(_content(output)) == sorted(_content(events))


def _content(events: list[Event]) -> list[tuple[str, str]]:
    """The deltas and other events, regardless of their item."""
    pieces = [(type(event).__name__, event.delta) for event in events if hasattr(event, "delta")]  # type: ignore[attr-defined]
    others = [
        (type(event).__name__, str(event.seq))
        for event in events
        if isinstance(event, ToolStarted | ToolReturned | PartAdded | UsageAdded)
    ]
    return [*pieces, *others, ("last", str(events[-1].seq))]
