"""The log of a run whose process died is completed to a valid stream."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from palaver.core.events import ReasoningStarted, RunFinished, RunStarted, TextDelta, TextEnded, TextStarted
from palaver.core.runs import interruption_events
from tests.core.strategies import hostile, sloppy
from tests.core.stream_checker import check_stream
from tests.core.test_grammar_laws import HISTORY, stream_of

NOW = datetime(2026, 1, 2, tzinfo=UTC)
OPEN_CALL_IDS = [call.call_id for message in HISTORY for call in message.tool_calls if call.call_id != "h2"]


@given(sloppy | hostile, st.data())
def test_any_interrupted_log_is_completed_to_a_valid_stream(values: list[Any], data: st.DataObject) -> None:
    stream = stream_of(values)
    logged = stream[: data.draw(st.integers(1, len(stream) - 1))]
    while isinstance(logged[-1], TextStarted | ReasoningStarted):
        logged.pop()  # A start event is logged together with its first delta.
    ended = [*logged, *interruption_events(logged, NOW)]

    check_stream(ended, open_calls=OPEN_CALL_IDS)
    assert ended[-1] == RunFinished(len(ended) - 1, finish="interrupted", at=NOW)


def test_open_items_are_closed_with_their_accumulated_text() -> None:
    logged = [RunStarted(0, "run_1"), TextStarted(1, "a", "a"), TextDelta(2, "a", "Hel"), TextDelta(3, "a", "lo")]

    assert interruption_events(logged, NOW) == [
        TextEnded(4, "a", "Hello"),
        RunFinished(5, finish="interrupted", at=NOW),
    ]
