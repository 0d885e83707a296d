"""Properties of the checkers: changes to a valid stream are detected or harmless, and no input makes them raise."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.conform import Protocol, Report, grade, grade_body, grade_refusal
from palaver.conform.frames import MAX_FRAME_BYTES
from tests.conform import streams
from tests.conform.streams import Frame, renumber, sse

PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
VALID_STREAMS: dict[Protocol, list[Frame]] = {
    "responses": streams.EVERYTHING,
    "invocations": streams.ON_INVOCATIONS,
    "chat-completions": streams.CHAT_WITH_USAGE,
    "ui-stream": streams.UI_EVERYTHING,
    "services": streams.SERVICE,
}


@st.composite
def changed_frames(draw: st.DrawFn, frames: list[Frame]) -> list[Frame]:
    """The frames with one of them left out or repeated, or two of them swapped."""
    index, other = draw(st.integers(0, len(frames) - 1)), draw(st.integers(0, len(frames) - 1))
    changed = list(frames)
    match draw(st.sampled_from(["leave out", "say twice", "swap"])):
        case "leave out":
            del changed[index]
        case "say twice":
            changed.insert(index, changed[index])
        case _:
            changed[index], changed[other] = changed[other], changed[index]
    return changed


def without_sequence_numbers(frames: list[Frame]) -> list[Any]:
    """The frames without their sequence numbers."""
    return [{key: value for key, value in frame.items() if key != "sequence_number"} for frame in frames]


REDUNDANT_FRAME_TYPES = {"response.in_progress"}
"""Frames that carry no new information: they may be repeated or left out."""


def significant_frames(frames: list[Frame]) -> list[Any]:
    return [frame for frame in without_sequence_numbers(frames) if frame["type"] not in REDUNDANT_FRAME_TYPES]


@pytest.mark.parametrize("protocol", ["responses", "invocations"])
@given(data=st.data())
def test_every_significant_change_to_a_responses_stream_is_reported(protocol: Protocol, data: st.DataObject) -> None:
    frames = VALID_STREAMS[protocol]
    changed = data.draw(changed_frames(frames))

    report = grade(sse(renumber(changed), protocol), protocol)

    assert (report.violations == ()) == (significant_frames(changed) == significant_frames(frames)), report
    if changed != frames:
        assert grade(sse(changed, protocol), protocol).violations, "without fresh numbers it is caught by those"


OPTIONAL_UI_PARTS = "text-delta reasoning-delta tool-input-delta source-url file message-metadata data-chart".split()
"""Parts of the UI stream whose absence cannot be detected: no other part depends on them."""


@pytest.mark.parametrize("index", range(len(streams.UI_EVERYTHING)))
def test_a_missing_or_repeated_ui_part_is_reported(index: int) -> None:
    parts, kind = streams.UI_EVERYTHING, streams.UI_EVERYTHING[index]["type"]

    left_out = grade(sse([*parts[:index], *parts[index + 1 :]], "ui-stream"), "ui-stream")
    repeated = grade(sse([*parts[: index + 1], *parts[index:]], "ui-stream"), "ui-stream")

    # A call may also stay without a result, or need no approval.
    assert left_out.ok == (kind in [*OPTIONAL_UI_PARTS, "tool-output-available", "tool-approval-request"])
    assert repeated.ok == (kind in [*OPTIONAL_UI_PARTS, "tool-approval-request"] and kind != "tool-input-delta")


@pytest.mark.parametrize("index", range(len(streams.CHAT_WITH_USAGE)))
def test_a_missing_or_repeated_chunk_is_reported(index: int) -> None:
    chunks = streams.CHAT_WITH_USAGE

    def graded(*changed: Frame) -> Report:
        return grade(sse(changed, "chat-completions"), "chat-completions", body=streams.CHAT_WHOLE)

    assert graded(*chunks[:index], *chunks[index + 1 :]).ok == (index == len(chunks) - 1)
    assert not graded(*chunks[: index + 1], *chunks[index:]).ok


UNORDERED_SERVICE_EVENTS = ("log", "tool_result", "changes", "data")
"""Service events that may occur anywhere, any number of times."""


@pytest.mark.parametrize("index", range(len(streams.SERVICE)))
def test_a_missing_or_repeated_service_event_is_reported(index: int) -> None:
    events, name = streams.SERVICE, streams.SERVICE[index]["event"]
    delta: dict[str, Any] = events[index]["data"].get("delta", {}) if name == "content_block_delta" else {}
    is_free = name in UNORDERED_SERVICE_EVENTS or delta.get("type") in ("thinking_delta", "input_json_delta")

    assert grade(sse([*events[:index], *events[index + 1 :]], "services"), "services").ok == is_free
    assert grade(sse([*events[: index + 1], *events[index:]], "services"), "services").ok == is_free


@pytest.mark.parametrize("protocol", ["chat-completions", "ui-stream", "services"])
@given(data=st.data())
def test_frames_in_any_order_are_graded(protocol: Protocol, data: st.DataObject) -> None:
    report = grade(sse(data.draw(st.permutations(VALID_STREAMS[protocol])), protocol), protocol)

    assert report.ok == (report.first is None)
    assert all(one.frame_index is not None and one.frame_index <= report.frames for one in report.violations)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def corrupted_frames(draw: st.DrawFn, frames: list[Frame]) -> list[Frame]:
    """The frames with random JSON in place of some of their values."""
    changed: list[Frame] = msgspec.json.decode(msgspec.json.encode(frames))
    for _ in range(draw(st.integers(1, 6))):
        value: Any = changed[draw(st.integers(0, len(changed) - 1))]
        while True:
            keys = list(value) if isinstance(value, dict) else list(range(len(value)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(value[key], dict | list) and draw(st.booleans()):
                value = value[key]
                continue
            value[key] = draw(JSON)
            break
    return changed


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(data=st.data())
def test_wrong_types_anywhere_never_raise(protocol: Protocol, data: st.DataObject) -> None:
    frames = data.draw(corrupted_frames(VALID_STREAMS[protocol]))
    response_body = data.draw(
        JSON | st.sampled_from(data.draw(corrupted_frames([streams.TOOL_ROUND[-1]["response"]]))[:1])
    )
    body_source: Any = data.draw(st.sampled_from(["same-run", "another-run"]))

    form: Protocol = "services" if protocol == "services" else "invocations"
    report = grade(sse([frame for frame in frames if isinstance(frame, dict)], form), protocol, body=response_body)

    assert isinstance(str(report), str)
    assert isinstance(grade_body(response_body, protocol, stream=sse(frames, form), body_from=body_source), Report)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(stream=st.binary(max_size=200), values=st.lists(JSON, max_size=4))
def test_random_bytes_never_pass_and_never_raise(protocol: Protocol, stream: bytes, values: list[Any]) -> None:
    events = b"".join(b"data: " + msgspec.json.encode(value) + b"\n\n" for value in values)

    assert not grade(events + stream, protocol).ok
    assert isinstance(grade_refusal(400, stream, protocol), Report)
    assert isinstance(grade_body(stream, protocol), Report)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "stream",
    [
        b"data: " + b"x" * (MAX_FRAME_BYTES + 1),
        b"data: " + b"[" * 100_000 + b"\n\n",
        b"data: " + b'{"a":' * 5000 + b"1" + b"}" * 5000,
    ],
    ids=["an endless line", "an endless list", "a deep object"],
)
def test_oversized_or_deeply_nested_input_is_reported_as_f1_first(protocol: Protocol, stream: bytes) -> None:
    assert next(one.rule for one in grade(stream, protocol).violations) == "F1"


def test_deep_and_wide_values_are_read_up_to_a_limit() -> None:
    def rules_broken(value: Any) -> tuple[Any, ...]:
        return grade(sse(streams.run(streams.single(streams.DATA | {"value": value}))), "responses").violations

    deep: Any = 1
    for _ in range(380):
        deep = [deep]
    assert (rules_broken(deep), rules_broken([{}] * 1000)) == ((), ())
    assert {one.rule for one in rules_broken([[[deep, {"x": [deep] * 20}]]] * 20)} == set()
    assert "F1" in {one.rule for one in rules_broken([[[[[[[[[[[[[[[[[[[[deep]]]]]]]]]]]]]]]]]]]])}


def test_violations_of_one_rule_are_reported_at_most_20_times() -> None:
    deltas = [chunk for _ in range(1000) for chunk in (streams.chunk({"content": ""}),)]
    report = grade(sse([*streams.CHAT[:1], *deltas, *streams.CHAT[1:]], "chat-completions"), "chat-completions")

    assert [one.rule for one in report.violations] == ["C10"] * 20
