"""Packing events for storage, and unpacking them unchanged."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from palaver.core.events import (
    Event,
    ReasoningDelta,
    RunFinished,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    pack_events,
    unpack_events,
)


def test_consecutive_deltas_of_one_item_are_packed_together() -> None:
    events: list[Event] = [TextDelta(0, "a", "Hel"), TextDelta(1, "a", "lo"), TextDelta(2, "b", "!")]

    assert pack_events(events) == (
        b'[{"type":"text-deltas","seq":0,"item":"a","deltas":["Hel","lo"]},'
        b'{"type":"text-deltas","seq":2,"item":"b","deltas":["!"]}]'
    )


_events = st.builds(
    lambda kind, item, delta: kind(item=item, delta=delta),
    st.sampled_from([TextDelta, ReasoningDelta, ToolDelta]),
    st.sampled_from("ab"),
    st.text(max_size=3),
) | st.sampled_from([TextStarted(item="a"), TextEnded(item="a", text="x"), RunFinished()])


@given(st.lists(_events, max_size=30), st.integers(0, 5))
def test_unpacking_gives_the_same_events_again(given_: list[Event], first: int) -> None:
    events = [msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(given_, first)]

    assert unpack_events(pack_events(events)) == events
