"""Events: their stable names and fields on the wire."""

from typing import get_args

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from palaver.core.events import TERMINAL_EVENTS, Event, RunFinished, RunStarted, TerminalEvent
from tests.core.strategies import events, terminals, texts


def test_event_type_names_are_stable() -> None:
    assert sorted(str(kind.__struct_config__.tag) for kind in get_args(Event)) == [
        "part",
        "reasoning-delta",
        "reasoning-ended",
        "reasoning-started",
        "run-cancelled",
        "run-failed",
        "run-finished",
        "run-started",
        "text-delta",
        "text-ended",
        "text-started",
        "tool-delta",
        "tool-ended",
        "tool-result",
        "tool-started",
        "usage",
    ]
    assert get_args(TerminalEvent) == TERMINAL_EVENTS


def test_event_fields_are_stable() -> None:
    fields = {str(kind.__struct_config__.tag): " ".join(kind.__struct_fields__) for kind in get_args(Event)}

    assert fields == {
        "run-started": "seq run_id session at trace_id span_id",
        "text-started": "seq item message",
        "text-delta": "seq item delta",
        "text-ended": "seq item text annotations",
        "reasoning-started": "seq item message",
        "reasoning-delta": "seq item delta",
        "reasoning-ended": "seq item text encrypted",
        "tool-started": "seq item message call_id name",
        "tool-delta": "seq item delta",
        "tool-ended": "seq item arguments",
        "tool-result": "seq item message call_id output is_error",
        "part": "seq item message part transient",
        "usage": "seq usage",
        "run-finished": "seq finish usage value at",
        "run-failed": "seq code message status details usage at",
        "run-cancelled": "seq usage at",
    }


@given(events(texts, texts) | terminals, st.integers(-1, 10**6))
def test_every_event_round_trips_through_json(event: Event, seq: int) -> None:
    event = msgspec.structs.replace(event, seq=seq)

    assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event


def test_a_null_value_is_distinct_from_no_value() -> None:
    assert msgspec.json.encode(RunFinished(seq=1, value=None)) == b'{"type":"run-finished","seq":1,"value":null}'
    assert msgspec.json.encode(RunFinished(seq=1)) == b'{"type":"run-finished","seq":1}'
    assert msgspec.json.decode(b'{"type":"run-finished"}', type=Event) == RunFinished(value=UNSET)


def test_unknown_fields_are_ignored() -> None:
    assert msgspec.json.decode(b'{"type":"run-started","run_id":"r","new":1}', type=Event) == RunStarted(run_id="r")
