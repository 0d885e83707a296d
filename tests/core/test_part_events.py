"""Complete parts expanded into events."""

import pytest

from palaver.core.events import (
    Event,
    PartAdded,
    ReasoningEnded,
    ReasoningStarted,
    TextEnded,
    TextStarted,
    ToolEnded,
    ToolReturned,
    ToolStarted,
)
from palaver.core.grammar import part_events
from palaver.core.messages import Data, File, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

PICTURE = File(media_type="image/png", url="https://host/a.png")


@pytest.mark.parametrize(
    ("part", "events"),
    [
        (Text(text="a"), (TextStarted(message="m"), TextEnded(text="a"))),
        (
            Reasoning(text="hm", encrypted="x"),
            (ReasoningStarted(message="m"), ReasoningEnded(text="hm", encrypted="x")),
        ),
        (
            ToolCall(call_id="c", name="now", arguments="{}"),
            (ToolStarted(message="m", call_id="c", name="now"), ToolEnded(arguments="{}")),
        ),
        (
            ToolResult(call_id="c", output=1, is_error=True),
            (ToolReturned(message="m", call_id="c", output=1, is_error=True),),
        ),
        (PICTURE, (PartAdded(message="m", part=PICTURE),)),
        (Refusal(text="no"), (PartAdded(message="m", part=Refusal(text="no")),)),
        (Data(name="n", value=1), (PartAdded(message="m", part=Data(name="n", value=1)),)),
    ],
)
def test_a_part_is_expanded_into_its_events(part: Part, events: tuple[Event, ...]) -> None:
    assert part_events(part, "m") == events
