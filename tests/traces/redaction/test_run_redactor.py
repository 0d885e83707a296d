"""Redaction of runs: their events keep their order and numbers."""

from typing import Any

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
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolReturned,
    ToolStarted,
    UsageAdded,
)
from palaver.core.messages import Annotation, Data, File, Message, Reasoning, Refusal, Text, ToolCall, ToolResult
from palaver.core.runs import Call, NewRun, Origin
from palaver.traces.redaction import MASK, Redactor, parse_rules
from palaver.traces.redaction.redactor import RunRedactor

KEY = b"the key of a project"


def redactor(*tables: dict[str, Any]) -> RunRedactor:
    return RunRedactor(Redactor(parse_rules([{"scope": ["runs"], **table} for table in tables]), KEY, "runs"))


EMAIL_RULE = {"detector": "email"}


def text_events(*pieces: str, item: str = "i1", first: int = 1, **ended: Any) -> list[Event]:
    events: list[Event] = [TextStarted(first, item, "m1")]
    events += [TextDelta(first + index, item, piece) for index, piece in enumerate(pieces, 1)]
    return [*events, TextEnded(first + len(pieces) + 1, item, "".join(pieces), **ended)]


def test_a_match_across_deltas_is_masked_and_every_event_remains() -> None:
    original = [RunStarted(0, "run_1"), *text_events("to ada@exa", "mple.org", " and on"), RunFinished(6)]

    assert redactor(EMAIL_RULE).redact_events(original) == [
        RunStarted(0, "run_1"),
        TextStarted(1, "i1", "m1"),
        TextDelta(2, "i1", f"to {MASK} and on"),
        TextDelta(3, "i1", ""),
        TextDelta(4, "i1", ""),
        TextEnded(5, "i1", f"to {MASK} and on"),
        RunFinished(6),
    ]


def test_events_without_matches_are_unchanged() -> None:
    note = Annotation(kind="url", url="https://a.example", start=0, end=2)
    original = [RunStarted(0), *text_events("He", "llo", annotations=(note,)), UsageAdded(5), RunCancelled(6)]

    assert redactor(EMAIL_RULE).redact_events(original) == original


def test_each_item_is_redacted_separately() -> None:
    original = [
        *text_events("ada@example.org", item="a"),
        *text_events("Hi", item="b", first=10),
        TextStarted(20, "c"),
        TextDelta(21, "c", "x@y.org"),
    ]

    new = redactor(EMAIL_RULE).redact_events(original)

    assert new[:3] == text_events(MASK, item="a")
    assert new[3:6] == original[3:6]
    assert new[6:] == [TextStarted(20, "c"), TextDelta(21, "c", MASK)]


def test_reasoning_arguments_results_parts_values_and_failures_are_redacted() -> None:
    mail = "ada@example.org"
    original: list[Event] = [
        ReasoningStarted(0, "r"),
        ReasoningDelta(1, "r", mail),
        ReasoningEnded(2, "r", mail, "sealed"),
        ToolStarted(3, "t", "m", "c1", "send"),
        ToolDelta(4, "t", '{"to":"ada@'),
        ToolDelta(5, "t", 'example.org"}'),
        ToolEnded(6, "t", '{"to":"ada@example.org"}'),
        ToolReturned(7, "u", "m2", "c1", {"sent": [mail]}),
        PartAdded(8, "p", "m3", Data("mail", {"to": mail})),
        PartAdded(9, "p", "m3", Refusal(f"not to {mail}")),
        RunFailed(10, "bad", f"no {mail}", 400, {"of": mail}),
    ]

    assert redactor(EMAIL_RULE).redact_events(original) == [
        ReasoningStarted(0, "r"),
        ReasoningDelta(1, "r", MASK),
        ReasoningEnded(2, "r", MASK),
        ToolStarted(3, "t", "m", "c1", "send"),
        ToolDelta(4, "t", f'{{"to":"{MASK}"}}'),
        ToolDelta(5, "t", ""),
        ToolEnded(6, "t", f'{{"to":"{MASK}"}}'),
        ToolReturned(7, "u", "m2", "c1", {"sent": [MASK]}),
        PartAdded(8, "p", "m3", Data("mail", {"to": MASK})),
        PartAdded(9, "p", "m3", Refusal(f"not to {MASK}")),
        RunFailed(10, "bad", f"no {MASK}", 400, {"of": MASK}),
    ]
    finished = redactor(EMAIL_RULE).redact_events(
        [RunFinished(0, value={"to": mail}), RunFinished(1), RunFinished(2, value=None)]
    )
    assert [event.value for event in finished if isinstance(event, RunFinished)] == [{"to": MASK}, UNSET, None]


def test_a_value_removed_from_the_inputs_is_removed_from_the_answer() -> None:
    run_redactor = redactor({"path": "inputs.patient.name"})
    call = run_redactor.redact_call(
        Call(workflow="w", inputs={"patient": {"name": "Ada Lovelace", "ward": "B"}}, user="u", session="s")
    )

    assert call == Call(workflow="w", inputs={"patient": {"name": MASK, "ward": "B"}}, user="u", session="s")
    assert run_redactor.redact_events(text_events("Dear Ada ", "Lovelace!"))[1] == TextDelta(2, "i1", f"Dear {MASK}!")


@pytest.mark.parametrize("path", ["messages_in.*.text", "messages_in.0.parts.1.text", "messages_in"])
def test_a_path_redacts_every_input_message_regardless_of_its_index(path: str) -> None:
    original = (Message.system("Be kind."), Message.user("Hi", "there"))
    call = redactor({"path": path}).redact_call(Call(workflow="w", messages=original))

    assert call.messages == (Message.system(MASK), Message.user(MASK, MASK))


def test_dropping_a_part_leaves_an_empty_message() -> None:
    call = redactor({"path": "messages_in", "action": "drop"}).redact_call(
        Call(workflow="w", messages=(Message.user("Hi"),))
    )

    assert call.messages == (Message(role="user", parts=()),)


def test_detectors_leave_ids_and_file_contents_unchanged() -> None:
    image = File(media_type="image/png", data="MDA5IDQxMTExMTExMTExMTExMTE=" + "4111111111111111", filename="a@b.org")
    original = Message(
        role="assistant",
        id="m4111111111111111",
        parts=(
            image,
            File(media_type="image/png", file_id="file_4111111111111111"),
            ToolCall("4111111111111111", "pay", "4111111111111111"),
            ToolResult("4111111111111111", "4111111111111111"),
            Reasoning("4111111111111111"),
            Text("4111111111111111"),
        ),
        metadata={"card": "4111111111111111"},
    )
    (new,) = redactor({"detector": ["card", "email"]}).redact_messages([original])

    assert new == Message(
        role="assistant",
        id="m4111111111111111",
        parts=(
            File(media_type="image/png", data=image.data, filename=MASK),
            File(media_type="image/png", file_id="file_4111111111111111"),
            ToolCall("4111111111111111", "pay", MASK),
            ToolResult("4111111111111111", MASK),
            Reasoning(MASK),
            Text(MASK),
        ),
        metadata={"card": MASK},
    )
    (message,) = redactor({"path": "messages_in.*.data"}).redact_messages([Message.user(image)])
    assert message.parts == (File(media_type="image/png", data=MASK, filename="a@b.org"),)


def test_a_new_run_is_redacted_in_its_call_and_origin() -> None:
    origin = Origin(
        stored_messages=(Message.user("I am ada@example.org"),), reading={"instructions": "Mail ada@example.org"}
    )
    call = Call(workflow="w", messages=(Message.user("I am ada@example.org"),), parameters={"to": "ada@example.org"})
    run = NewRun(started=RunStarted(0, "run_1"), workflow="w", call=call, origin=origin, process="p")

    new = redactor(EMAIL_RULE).redact_new_run(run)

    assert new.call.messages == new.origin.stored_messages == (Message.user(f"I am {MASK}"),)
    assert new.call.parameters == {"to": MASK}
    assert new.origin.reading == {"instructions": f"Mail {MASK}"}
    assert (
        redactor(EMAIL_RULE)
        .redact_new_run(NewRun(started=RunStarted(0), workflow="w", call=call, origin=Origin(), process=None))
        .origin
        == Origin()
    )


def test_values_that_cannot_be_searched_are_masked() -> None:
    class Odd:
        """A type that JSON cannot encode."""

    run_redactor = redactor(EMAIL_RULE)

    assert run_redactor.redact_messages([Message.tool("c", Odd())]) == (Message(role="tool", parts=(Text(MASK),)),)
    assert run_redactor.redact_events([ToolReturned(0, "u", "m", "c", Odd())]) == [ToolReturned(0, "u", "m", "c", MASK)]
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert run_redactor.redact_value(deep) == MASK
