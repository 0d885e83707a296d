"""Agenta's stream records: encoding, and decoding those of other servers."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from palaver.core.events import (
    Event,
    FinishReason,
    PartAdded,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunCancelled,
    RunFailed,
    RunFinished,
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
from palaver.core.json import parse_or_text
from palaver.core.messages import Annotation, Data, File, Reasoning, Refusal, Text, ToolCall, ToolResult, Usage
from palaver.errors import UpstreamFailed
from palaver.protocols.agenta.response import RecordDecoder, RecordEncoder, stop_reason
from palaver.protocols.sse import data_event
from tests.protocols.fixed_run import MESSAGE, RUN, TRACE, record, records, valid_events

ID = f"{MESSAGE}_1"
DONE = record("done", stopReason="stop", run_id=RUN, trace_id=TRACE)


def generated_id(prefix: str, number: int) -> str:
    """Return an id as the run generates it."""
    return f"{prefix}_{RUN.removeprefix('run_')}_{number}"


def line(content: bytes) -> bytes:
    return content + b"\n"


def encode_records(*given: Any, is_chat: bool = True, end: TerminalEvent | None = None) -> list[Any]:
    writer = RecordEncoder(line, is_chat=is_chat).encode
    return records([writer(event) for event in valid_events(*given, end=end)])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param(
            ["Hel", 'l"ö\n'],
            [
                record("message_start", id=ID, message=ID),
                record("message_delta", id=ID, message=ID, delta="Hel"),
                record("message_delta", id=ID, message=ID, delta='l"ö\n'),
                record("message_end", id=ID, message=ID),
            ],
            id="text",
        ),
        pytest.param(
            [Text(text="Hi", annotations=(Annotation(kind="url", url="https://x"),))],
            [
                record("message_start", id=ID, message=ID),
                record("message_delta", id=ID, message=ID, delta="Hi"),
                record("message_end", id=ID, message=ID, annotations=[{"kind": "url", "url": "https://x"}]),
            ],
            id="text with annotations",
        ),
        pytest.param(
            [ReasoningDelta(item="r", delta="H"), ReasoningDelta(item="r", delta="m")],
            [
                record("thought_start", id="r", message=ID),
                record("thought_delta", id="r", message=ID, delta="H"),
                record("thought_delta", id="r", message=ID, delta="m"),
                record("thought_end", id="r", message=ID),
            ],
            id="reasoning",
        ),
        pytest.param(
            [ReasoningStarted(item="r"), ReasoningEnded(item="r", encrypted="x")],
            [
                record("thought_start", id="r", message=ID),
                record("thought_end", id="r", message=ID, encrypted="x"),
            ],
            id="sealed reasoning",
        ),
        pytest.param(
            [
                TextStarted(item="a", message="m"),
                ReasoningStarted(item="b", message="m"),
                TextDelta(item="a", delta="1"),
                ReasoningDelta(item="b", delta="2"),
                TextDelta(item="a", delta="3"),
                ReasoningEnded(item="b"),
                TextEnded(item="a"),
            ],
            [
                record("message_start", id="a", message="m"),
                record("message_delta", id="a", message="m", delta="1"),
                record("thought_start", id="b", message="m"),
                record("thought_delta", id="b", message="m", delta="2"),
                record("message_delta", id="a", message="m", delta="3"),
                record("thought_end", id="b", message="m"),
                record("message_end", id="a", message="m"),
            ],
            id="items side by side",
        ),
        pytest.param(
            [
                ToolStarted(call_id="c", name="add"),
                ToolDelta(delta='{"a": '),
                ToolDelta(delta="1}"),
                ToolEnded(),
                ToolReturned(call_id="c", output=[2], is_error=True),
            ],
            [
                record("tool_call", id="c", message=ID, name="add", input={"a": 1}, arguments='{"a": 1}'),
                record("tool_result", id="c", message=f"{MESSAGE}_2", output=[2], isError=True),
            ],
            id="a call and its result",
        ),
        pytest.param(
            [ToolCall(call_id="c", name="add", arguments="{oops"), ToolResult(call_id="c")],
            [
                record("tool_call", id="c", message=ID, name="add", input="{oops", arguments="{oops"),
                record("tool_result", id="c", message=f"{MESSAGE}_2", output=None, isError=False),
            ],
            id="arguments that are not JSON",
        ),
        pytest.param(
            [
                File(media_type="image/png", data="AA==", filename="x.png"),
                Refusal(text="No."),
                Data(name="chart", value={"x": [1]}),
                PartAdded(part=Data(name="status", value="…"), transient=True),
            ],
            [
                record(
                    "file", media_type="image/png", data="AA==", filename="x.png", id=generated_id("fil", 2), message=ID
                ),
                record("refusal", text="No.", id=f"{MESSAGE}_3", message=ID),
                record("data", name="chart", value={"x": [1]}, id=generated_id("dat", 4), message=ID),
                record("data", name="status", value="…", transient=True, id=generated_id("dat", 5), message=ID),
            ],
            id="parts",
        ),
        pytest.param(
            [Usage(input_tokens=1, output_tokens=2), Usage(input_tokens=10, output_tokens=20)],
            [record("usage", input=11, output=22, total=33)],
            id="usage, once and at the end",
        ),
    ],
)
def test_events_are_encoded_as_records(given: list[Any], expected: list[Any]) -> None:
    assert encode_records(*given) == [*expected, DONE]


def test_interleaved_calls_are_sent_in_the_order_in_which_they_started() -> None:
    writer = RecordEncoder(line, is_chat=True).encode
    given = [
        TextDelta(item="before", delta="1"),
        ToolStarted(item="x", call_id="a", name="add"),
        TextDelta(item="before", delta="2"),
        ToolStarted(item="y", call_id="b", name="add"),
        TextDelta(item="after", delta="3"),
        Data(name="chart"),
        ToolEnded(item="y", arguments="{}"),
        TextEnded(item="before"),
        Usage(input_tokens=1, output_tokens=1),
        ToolDelta(item="x", delta="[]"),
        ToolEnded(item="x"),
        TextDelta(item="after", delta="4"),
    ]

    output = [[one["type"] for one in records([writer(event)])] for event in valid_events(*given)]

    assert [kinds for kinds in output if kinds] == [
        ["message_start"],
        ["message_delta"],
        ["message_delta"],  # A text that started before the calls continues;
        ["message_end"],
        [
            "tool_call",
            "tool_call",
            "message_start",
            "message_delta",
            "data",
        ],  # one that started after a call waits for it.
        ["message_delta"],
        ["message_end"],
        ["usage", "done"],
    ]


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        pytest.param(RunFinished(), [DONE], id="finished"),
        pytest.param(
            RunFinished(finish="length", usage=Usage(input_tokens=3, output_tokens=4)),
            [
                record("usage", input=3, output=4, total=7),
                record("done", stopReason="length", run_id=RUN, trace_id=TRACE),
            ],
            id="finished with the usage of all",
        ),
        pytest.param(
            RunCancelled(), [record("done", stopReason="cancelled", run_id=RUN, trace_id=TRACE)], id="cancelled"
        ),
        pytest.param(
            RunFailed(code="mine", message="No.", usage=Usage(input_tokens=1, output_tokens=1)),
            [
                record("error", code="mine", message="No."),
                record("usage", input=1, output=1, total=2),
                record("done", stopReason="error", run_id=RUN, trace_id=TRACE),
            ],
            id="failed",
        ),
    ],
)
def test_the_last_record_is_always_done(end: TerminalEvent, expected: list[Any]) -> None:
    output = [
        record("message_start", id=ID, message=ID),
        record("message_delta", id=ID, message=ID, delta="Hel"),
        record("message_end", id=ID, message=ID),
    ]

    assert encode_records("Hel", end=end) == [*output, *expected]


@pytest.mark.parametrize("value", [None, 0, "text", {"a": [1]}])
def test_done_record_has_the_value_of_a_non_chat_workflow(value: Any) -> None:
    assert encode_records(is_chat=False, end=RunFinished(value=value)) == [
        record("done", stopReason="stop", run_id=RUN, trace_id=TRACE, outputs=value)
    ]
    assert encode_records(is_chat=True, end=RunFinished(value=value)) == [DONE]
    assert encode_records(is_chat=False, end=RunFinished(value=UNSET)) == [DONE]


@pytest.mark.parametrize("finish", get_args(FinishReason))
def test_stop_reason_reflects_how_the_run_ended(finish: FinishReason) -> None:
    assert stop_reason(RunFinished(finish=finish)) == finish
    assert stop_reason(RunFailed()) == "error"
    assert stop_reason(RunCancelled()) == "cancelled"


def test_empty_part_is_not_sent() -> None:
    assert RecordEncoder(line, is_chat=True).encode(PartAdded(item="x", message="m")) == b""


def test_each_record_is_framed_separately() -> None:
    writer = RecordEncoder(data_event, is_chat=True).encode
    sent = [writer(event) for event in valid_events("Hi")]

    ids = f'"id":"{ID}","message":"{ID}"'
    assert [one.decode() for one in sent] == [
        "",
        f'data: {{"type":"message_start","data":{{{ids}}}}}\n\n',
        f'data: {{"type":"message_delta","data":{{{ids},"delta":"Hi"}}}}\n\n',
        f'data: {{"type":"message_end","data":{{{ids}}}}}\n\n',
        f'data: {{"type":"done","data":{{"stopReason":"stop","run_id":"{RUN}","trace_id":"{TRACE}"}}}}\n\n',
    ]


# Reading


def decode_records(*records_or_bytes: Any) -> list[object]:
    reader = RecordDecoder()
    raw = [value if isinstance(value, bytes) else msgspec.json.encode(value) for value in records_or_bytes]
    return [value for one in raw for value in reader(one)] + reader.end()


@pytest.mark.parametrize(
    ("received", "event"),
    [
        (record("message_start", id="a", message="m"), TextStarted(item="a", message="m")),
        (record("message_delta", id="a", message="m", delta="Hi"), TextDelta(item="a", delta="Hi")),
        (record("message_end", id="a", message="m"), TextEnded(item="a")),
        (
            record("message_end", id="a", annotations=[{"kind": "url", "url": "https://x"}]),
            TextEnded(item="a", annotations=(Annotation(kind="url", url="https://x"),)),
        ),
        (record("thought_start", id="r", message="m"), ReasoningStarted(item="r", message="m")),
        (record("thought_delta", id="r", delta="Hm"), ReasoningDelta(item="r", delta="Hm")),
        (record("thought_end", id="r", encrypted="x"), ReasoningEnded(item="r", encrypted="x")),
        (record("thought_end", id="r"), ReasoningEnded(item="r")),
        (
            record("tool_result", id="c", message="m", output=[1], isError=True),
            ToolReturned(call_id="c", message="m", output=[1], is_error=True),
        ),
        (
            record("file", id="f", message="m", media_type="image/png", data="AA==", url=7),
            PartAdded(item="f", message="m", part=File(media_type="image/png", data="AA==")),
        ),
        (record("file", id="f"), PartAdded(item="f", part=File(media_type="application/octet-stream"))),
        (record("refusal", id="x", text="No."), PartAdded(item="x", part=Refusal(text="No."))),
        (
            record("data", id="d", name="status", value="…", transient=True),
            PartAdded(item="d", part=Data(name="status", value="…"), transient=True),
        ),
        (record("done", stopReason="stop"), RunFinished()),
        (record("done", stopReason="stop", outputs=None), RunFinished(value=None)),
        (record("done", stopReason="length", outputs=[1]), RunFinished(finish="length", value=[1])),
        (record("done", stopReason="tool-calls"), RunFinished(finish="tool-calls")),
        (record("done", stopReason="content-filter"), RunFinished(finish="content-filter")),
        (record("done", stopReason="interrupted"), RunFinished(finish="interrupted")),
        (record("done", stopReason="cancelled"), RunCancelled()),
        (record("done", stopReason="error"), RunFailed(code="upstream_failed")),
        (record("done"), RunFinished()),
        (record("done", stopReason="a stranger's word"), RunFinished()),
    ],
    ids=lambda value: msgspec.json.encode(value).decode() if isinstance(value, dict) else type(value).__name__,
)
def test_record_is_decoded_to_its_event(received: Any, event: Event) -> None:
    assert decode_records(received) == [event]


@pytest.mark.parametrize(
    ("fields", "arguments"),
    [
        ({"arguments": '{ "a":1}', "input": {"a": 1}}, '{ "a":1}'),
        ({"input": {"a": 1}}, '{"a":1}'),
        ({"input": "{oops"}, "{oops"),
        ({"arguments": None}, ""),
        ({}, ""),
    ],
    ids=["the exact text", "only the value", "only the text", "null", "nothing"],
)
def test_tool_call_record_is_decoded_with_its_exact_arguments(fields: Any, arguments: str) -> None:
    assert decode_records(record("tool_call", id="c", message="m", name="add", **fields)) == [
        ToolStarted(item="fc_c", message="m", call_id="c", name="add"),
        ToolEnded(item="fc_c", arguments=arguments),
    ]


def test_usage_and_error_are_reported_with_done() -> None:
    usage = Usage(input_tokens=3, output_tokens=4)

    assert decode_records(record("usage", input=3, output=4, total=7), DONE) == [RunFinished(usage=usage)]
    assert decode_records(record("error", code="mine", message="No."), record("usage", input=3, output=4), DONE) == [
        RunFailed(code="upstream_failed", message="No.", usage=usage)
    ]


def test_usage_and_error_are_reported_at_the_end_without_done() -> None:
    usage = Usage(input_tokens=3, output_tokens=4)

    assert decode_records(record("usage", input=3, output=4)) == [usage]
    assert decode_records(record("error", message="No."), record("usage", input=3, output=4)) == [
        RunFailed(code="upstream_failed", message="No.", usage=usage)
    ]
    assert decode_records() == []


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        pytest.param(b'"Hi"', "Hi", id="a JSON text"),
        pytest.param(b"Hi there", "Hi there", id="a text that is not JSON"),
        pytest.param(b"{oops", "{oops", id="broken JSON"),
        pytest.param(b"\xff", "\ufffd", id="not UTF-8"),
        pytest.param(b"[1]", [1], id="a list"),
        pytest.param(b'{"role":"assistant","content":"x"}', {"role": "assistant", "content": "x"}, id="a message"),
        pytest.param(b'{"type":"message_delta"}', {"type": "message_delta"}, id="a record without data"),
        pytest.param(b'{"type":"x","data":{"a":1}}', {"type": "x", "data": {"a": 1}}, id="another record"),
        pytest.param(b'{"type":1,"data":{}}', {"type": 1, "data": {}}, id="a type that is none"),
        pytest.param(b'{"type":"data","data":[]}', {"type": "data", "data": []}, id="data that is no object"),
    ],
)
def test_value_that_is_not_a_record_is_returned_unchanged(raw: bytes, value: object) -> None:
    assert decode_records(raw) == [value]


@pytest.mark.parametrize("raw", [b'{"type":"mess', b' ["a', b'"Hel'])
def test_truncated_last_record_raises_upstream_failed(raw: bytes) -> None:
    with pytest.raises(UpstreamFailed, match=r"The stream from the remote service ended in the middle of a record\."):
        RecordDecoder()(raw, is_complete=False)


@pytest.mark.parametrize(("raw", "value"), [(b'"Hi"', "Hi"), (b"Hi", "Hi")])
def test_last_record_needs_no_line_end(raw: bytes, value: str) -> None:
    assert RecordDecoder()(raw, is_complete=False) == [value]


@pytest.mark.parametrize(
    ("received", "event"),
    [
        (record("message_delta", id=None, delta=None), TextDelta()),
        (record("message_delta", id=7, delta=1.5), TextDelta(item="7", delta="1.5")),
        (record("message_start", id=[1], message={}), TextStarted()),
        (record("message_end", id="a", annotations=[{"kind": "?"}]), TextEnded(item="a")),
        (record("message_end", id="a", annotations="?"), TextEnded(item="a")),
        (record("tool_result", id="c", isError="yes"), ToolReturned(call_id="c")),
        (record("data", id="d"), PartAdded(item="d", part=Data(name=""))),
    ],
)
def test_fields_of_the_wrong_type_are_converted_or_ignored(received: Any, event: Event) -> None:
    assert decode_records(received) == [event]


@pytest.mark.parametrize("count", [-1, True, 1.5, "7", None])
def test_invalid_usage_count_is_zero(count: Any) -> None:
    assert decode_records(record("usage", input=count, output=2)) == [Usage(input_tokens=0, output_tokens=2)]


KINDS = (
    "message_start message_delta message_end thought_start thought_delta thought_end tool_call tool_result"
    " file refusal data usage error done other".split()
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
FIELDS = st.sampled_from(
    "id message delta annotations encrypted name arguments input output text value media_type stopReason".split()
)
ODD_RECORDS = st.builds(
    lambda kind, data: {"type": kind, "data": data},
    st.sampled_from(KINDS),
    st.dictionaries(FIELDS, ANY_JSON, max_size=5),
)


@given(st.lists(ODD_RECORDS | ANY_JSON, max_size=6), st.binary())
def test_any_record_is_decoded_without_an_error(received: list[Any], noise: bytes) -> None:
    decoded = decode_records(*received, noise)

    values = [value for value in decoded if not isinstance(value, Event | Usage)]
    unknown = [value for value in received if not isinstance(value, dict) or value.get("type") in (None, "other")]
    assert values == [*unknown, parse_or_text(noise.decode(errors="replace"))]


def test_usage_event_alone_sends_no_record() -> None:
    assert RecordEncoder(line, is_chat=True).encode(UsageAdded()) == b""


def test_reasoning_and_text_have_different_records() -> None:
    kinds = [output["type"] for output in encode_records(Reasoning(text="Hm."), "So.")]

    assert kinds == "thought_start thought_delta thought_end message_start message_delta message_end done".split()
