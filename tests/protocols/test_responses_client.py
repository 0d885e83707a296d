"""The Responses client: requests to other servers, and parsing of their answers."""

import warnings
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from palaver.core import json
from palaver.core.events import (
    Event,
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
)
from palaver.core.fold import fold
from palaver.core.grammar import Grammar
from palaver.core.linearize import linearize
from palaver.core.messages import (
    Annotation,
    Data,
    File,
    Message,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from palaver.core.runs import Call
from palaver.errors import BadStream, InvalidMessages, UpstreamFailed
from palaver.protocols.responses import adapter as responses
from palaver.protocols.responses.client import ResponsesReplyDecoder, build_responses_request
from palaver.protocols.responses.request import ResponsesRequest
from tests.core.strategies import sloppy
from tests.protocols.fixed_run import STARTED, valid_events

HELLO = (Message.user("Hello"),)


def request_body(*, is_chat: bool = True, stream: bool = True, model: str | None = None, **call: Any) -> Any:
    sent = build_responses_request(
        Call(**({"workflow": "far", "messages": HELLO} | call)), is_chat=is_chat, stream=stream, model=model
    )
    return msgspec.json.decode(sent.body)


def frame(kind: str | None = None, **fields: Any) -> bytes:
    typed = {"type": kind} if kind else {}
    return b"data: " + msgspec.json.encode({**typed, **fields}) + b"\n\n"


DONE = b"data: [DONE]\n\n"


def decode_stream(*frames: bytes, content_type: str = "text/event-stream") -> list[object]:
    replies = ResponsesReplyDecoder(content_type)
    return [*(output for one in frames for output in replies.feed(one)), *replies.end()]


def decode_body(response: Any) -> list[object]:
    return decode_stream(msgspec.json.encode(response), content_type="application/json")


def feed_grammar(values: list[object], *, history: tuple[Message, ...] = ()) -> list[Event]:
    """Return the valid events that the grammar makes of the values."""
    grammar = Grammar("run_x", history=history)
    events = [*grammar.start(STARTED)]
    for one in values:
        assert isinstance(one, Event)
        events += grammar.feed(one)
    return [*events, *grammar.end(grammar.ending or RunFinished())]


def folded_parts(values: list[object]) -> list[list[Part]]:
    """Return the parts of each message that the values fold to."""
    return [list(message.parts) for message in fold(feed_grammar(values)).messages]


def text_done(text: str, item: str = "m", **fields: Any) -> bytes:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    finished = {"type": "message", "id": item, "role": "assistant", "content": content}
    return frame("response.output_item.done", item=finished, **fields)


def delta(text: str, item: str = "m", **fields: Any) -> bytes:
    return frame("response.output_text.delta", item_id=item, delta=text, **fields)


def completed(*output: Any, kind: str = "completed", **fields: Any) -> bytes:
    return frame(f"response.{kind}", response={"id": "resp_1", "status": kind, "output": list(output), **fields})


CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "now", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "12:00"}
MESSAGE = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}


# Requests


def test_request_without_a_model_carries_the_session() -> None:
    assert request_body(session="s-1") == {
        "input": [{"type": "message", "role": "user", "content": "Hello"}],
        "stream": True,
        "store": False,
        "context": {"conversation_id": "s-1"},
    }


def test_request_with_a_model_has_only_fields_that_openai_accepts() -> None:
    assert request_body(session="s-1", model="large", stream=False) == {
        "model": "large",
        "input": [{"type": "message", "role": "user", "content": "Hello"}],
        "stream": False,
        "store": False,
    }


def test_inputs_parameters_and_known_options_are_forwarded() -> None:
    tools = [{"type": "function", "name": "now", "parameters": {}}]
    options = {
        "temperature": 0,
        "tools": tools,
        "tool_choice": "auto",
        "stop": "x",
        "stream_options": {},
        "top_p": None,
    }

    assert request_body(inputs={"subject": "physics"}, parameters={"t": 1}, options=options) == {
        "input": [{"type": "message", "role": "user", "content": "Hello"}],
        "stream": True,
        "store": False,
        "temperature": 0,
        "tools": tools,
        "tool_choice": "auto",
        "custom_inputs": {"subject": "physics"},
        "parameters": {"t": 1},
    }


def test_request_headers_carry_accept_session_and_trace_parent() -> None:
    call = Call(workflow="far", session="s 1", trace_parent="00-a-b-01")

    assert dict(build_responses_request(call, is_chat=True, stream=True).headers) == {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "baggage": "ag.session.id=s%201",
        "traceparent": "00-a-b-01",
    }
    assert build_responses_request(call, is_chat=True, stream=False).headers["accept"] == "application/json"


HISTORY = (
    Message.system("Be brief."),
    Message.user("What is ", "this?", File(media_type="image/png", url="https://host/a.png")),
    Message(
        role="assistant",
        id="msg_1",
        parts=(
            Reasoning(text="Hm."),
            Reasoning(text="Sealed.", encrypted="x"),
            Text(text="Let me ", annotations=(Annotation(kind="url", url="https://host"),)),
            Text(text="see."),
            ToolCall(call_id="c1", name="look", arguments='{"a": 1}'),
            Data(name="chart", value=1),
            File(media_type="image/png", data="AAAA"),
            Data(name="responses:web_search_call", value={"type": "web_search_call", "id": "ws_1"}),
        ),
    ),
    Message.tool("c1", {"x": 1}, is_error=True),
    Message.assistant(Refusal(text="No.")),
    Message.assistant(),
)
ITEMS = [
    {"type": "message", "role": "system", "content": "Be brief."},
    {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_text", "text": "What is "},
            {"type": "input_text", "text": "this?"},
            {"type": "input_image", "image_url": "https://host/a.png", "detail": "auto"},
        ],
    },
    {
        "type": "reasoning",
        "id": "rs_3",
        "summary": [{"type": "summary_text", "text": "Sealed."}],
        "encrypted_content": "x",
    },
    {"type": "message", "role": "assistant", "content": "Let me see."},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"a": 1}'},
    {"type": "web_search_call", "id": "ws_1"},
    {"type": "function_call_output", "call_id": "c1", "output": '{"x":1}'},
    {"type": "message", "role": "assistant", "content": "No."},
]


def test_history_is_sent_as_portable_items() -> None:
    assert request_body(messages=HISTORY)["input"] == ITEMS


def test_mlflow_accepts_the_request() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow.types.responses import ResponsesAgentRequest

        body = request_body(messages=HISTORY, session="s-1", options={"temperature": 0})
        body.pop("stream")

        assert ResponsesAgentRequest(**body).model_dump(exclude_none=True)["input"][0]["content"] == "Be brief."


def test_history_items_validate_against_openai_types() -> None:
    from openai.types.responses import ResponseInputItemParam
    from pydantic import TypeAdapter

    adapter = TypeAdapter(ResponseInputItemParam)
    for item in ITEMS:
        if item["type"] != "web_search_call":  # Cut short for the test.
            adapter.validate_python(item)


def test_history_given_as_an_input_is_sent_as_items() -> None:
    sent = request_body(messages=(), inputs={"messages": [{"role": "user", "content": "Why?"}], "x": 1})

    assert (sent["input"], sent["custom_inputs"]) == (
        [{"type": "message", "role": "user", "content": "Why?"}],
        {"x": 1},
    )
    with pytest.raises(InvalidMessages):
        request_body(messages=(), inputs={"messages": [7]})


def test_non_chat_workflow_is_sent_only_its_inputs() -> None:
    assert request_body(is_chat=False, inputs={"text": "x", "messages": [1]}, session=None) == {
        "input": [],
        "stream": True,
        "store": False,
        "custom_inputs": {"text": "x", "messages": [1]},
    }


# MLflow's agents: pieces without a start, no sequence, no end


def test_deltas_are_emitted_once_and_not_repeated_when_their_item_is_done() -> None:
    assert decode_stream(delta("Hel"), delta("lo"), text_done("Hello"), DONE) == [
        TextStarted(item="m", message="m"),
        TextDelta(item="m", delta="Hel"),
        TextDelta(item="m", delta="lo"),
        TextEnded(item="m"),
        RunFinished(),
    ]


def test_item_without_deltas_is_emitted_when_it_is_done() -> None:
    assert decode_stream(text_done("Hello"), DONE) == [
        TextStarted(item="m", message="m"),
        TextDelta(item="m", delta="Hello"),
        TextEnded(item="m"),
        RunFinished(),
    ]


def test_a_tool_round_of_done_items() -> None:
    frames = [
        text_done("Let me see.", "m1"),
        frame("response.output_item.done", item=CALL),
        frame("response.output_item.done", item=RESULT),
        text_done("Noon.", "m2"),
    ]

    assert decode_stream(*frames, DONE) == [
        TextStarted(item="m1", message="m1"),
        TextDelta(item="m1", delta="Let me see."),
        TextEnded(item="m1"),
        ToolStarted(item="fc_1", message="", call_id="c1", name="now"),
        ToolDelta(item="fc_1", delta="{}"),
        ToolEnded(item="fc_1"),
        ToolReturned(call_id="c1", output="12:00"),
        TextStarted(item="m2", message="m2"),
        TextDelta(item="m2", delta="Noon."),
        TextEnded(item="m2"),
        RunFinished(),
    ]
    assert folded_parts(decode_stream(*frames)) == [
        [Text(text="Let me see."), ToolCall(call_id="c1", name="now", arguments="{}")],
        [ToolResult(call_id="c1", output="12:00")],
        [Text(text="Noon.")],
    ]


@pytest.mark.parametrize(
    "frames",
    [
        pytest.param([delta("Hello", "m1"), text_done("Hello", "other")], id="the item has another id"),
        pytest.param([delta("Hello", "m1"), text_done("Hello", "m1"), text_done("Hello", "m1")], id="done twice"),
        pytest.param([delta("Hel", "m1"), text_done("Hello", "m1")], id="a piece is missing"),
        pytest.param([delta("Hel", ""), delta("lo", ""), text_done("Hello", "")], id="no ids at all"),
        pytest.param(
            [delta("Hel", "a", output_index=0), delta("lo", "b", output_index=0)], id="an id that changes on the way"
        ),
        pytest.param([delta("Hello", "m1"), text_done("Hullo", "m1")], id="the end contradicts"),
        pytest.param([delta("Hello"), frame("response.output_text.done", item_id="m", text="Hello")], id="no item"),
        pytest.param([frame("response.output_text.done", item_id="m", text="Hello")], id="only the text's end"),
        pytest.param([delta("Hello"), completed({**MESSAGE, "id": "other"})], id="the output has other ids"),
        pytest.param([delta("Hel"), completed({**MESSAGE, "content": [{"text": "Hello"}]})], id="only the output ends"),
        pytest.param([completed({**MESSAGE, "content": [{"text": "Hello"}]})], id="only the output"),
        pytest.param([text_done("Hello"), frame(trace_id="tr-1"), DONE, delta(" again")], id="something after the end"),
    ],
)
def test_text_is_emitted_exactly_once(frames: list[bytes]) -> None:
    assert folded_parts(decode_stream(*frames)) == [[Text(text="Hello")]]


def test_text_after_a_call_is_a_new_text_even_with_the_same_id() -> None:
    frames = [delta("A"), frame("response.output_item.done", item=CALL), delta("B"), text_done("AB")]

    assert folded_parts(decode_stream(*frames)) == [
        [Text(text="A"), ToolCall(call_id="c1", name="now", arguments="{}")],
        [Text(text="B")],
    ]
    late = [delta("A"), frame("response.output_item.done", item=CALL), text_done("A"), text_done("AC", "m")]
    assert folded_parts(decode_stream(*late))[1:] == [[Text(text="AC")]]


def test_items_that_share_an_id_are_all_emitted() -> None:
    assert folded_parts(decode_stream(text_done("One."), text_done("Two."), delta("Three."), text_done("Three."))) == [
        [Text(text="One.")],
        [Text(text="Two.")],
        [Text(text="Three.")],
    ]


def test_calls_that_share_an_id_are_emitted_and_answered_under_distinct_ids() -> None:
    finished = [frame("response.output_item.done", item=item) for item in (CALL, CALL, RESULT, RESULT)]
    repeated = [frame("response.output_item.done", item=item) for item in ({**CALL, "id": "fc_2"}, RESULT)]

    output = decode_stream(*finished, *repeated)

    assert [one for one in output if isinstance(one, ToolStarted)] == [
        ToolStarted(item="fc_1", call_id="c1", name="now"),
        ToolStarted(item="fc_2", call_id="c1.2", name="now"),
    ]
    assert [one.call_id for one in output if isinstance(one, ToolReturned)] == ["c1", "c1.2"]
    assert len(folded_parts(output)) == 4


def test_calls_that_share_an_item_id_are_all_emitted() -> None:
    second = {**CALL, "call_id": "c2"}

    output = decode_stream(*(frame("response.output_item.done", item=item) for item in (CALL, second)))

    assert [one.call_id for one in output if isinstance(one, ToolStarted)] == ["c1", "c2"]
    feed_grammar(output)


def test_custom_outputs_are_data() -> None:
    finished = text_done("Hi", custom_outputs={"score": 1})

    assert decode_stream(finished, text_done("Ho", "n", custom_outputs={"score": 1}))[3] == PartAdded(
        part=Data(name="custom_outputs", value={"score": 1})
    )
    assert decode_body({"output": [], "custom_outputs": {"score": 1}}) == [
        PartAdded(part=Data(name="custom_outputs", value={"score": 1})),
        RunFinished(),
    ]


@pytest.mark.parametrize(
    "error",
    [
        frame("error", code="c", message="No tea."),
        frame("error", error={"message": "No tea.", "code": "c"}),
        frame(error={"message": "No tea."}),
        frame(error="No tea."),
    ],
    ids=["flat", "nested", "untyped", "a text"],
)
def test_error_of_any_shape_fails_the_run_after_the_partial_text(error: bytes) -> None:
    assert decode_stream(delta("Hel"), error, delta("lo"), DONE) == [
        TextStarted(item="m", message="m"),
        TextDelta(item="m", delta="Hel"),
        RunFailed(code="upstream_failed", message="No tea."),
    ]
    assert decode_stream(error) == [RunFailed(code="upstream_failed", message="No tea.")]


# OpenAI's streams


def lifecycle(*frames: bytes, **response: Any) -> list[bytes]:
    created = {"id": "resp_1", "status": "in_progress", "output": []}
    return [
        b"event: response.created\n" + frame("response.created", sequence_number=0, response=created),
        frame("response.in_progress", response=created),
        *frames,
        completed(**response),
    ]


USAGE = {
    "input_tokens": 3,
    "input_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 0},
    "output_tokens": 4,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 7,
}


def test_a_stream_of_reasoning_text_and_usage() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    summary = [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}]
    note = {"type": "url_citation", "url": "https://host", "title": "Host", "start_index": 0, "end_index": 2}
    content = [{"type": "output_text", "text": "Hi", "annotations": [note]}]
    reasoning_delta = "response.reasoning_summary_text.delta"
    frames = [
        frame("response.output_item.added", output_index=0, item=reasoning),
        frame("response.reasoning_summary_part.added", item_id="rs_1", output_index=0, summary_index=0, part={}),
        frame(reasoning_delta, item_id="rs_1", output_index=0, summary_index=0, delta="One."),
        frame("response.reasoning_summary_text.done", item_id="rs_1", output_index=0, summary_index=0, text="One."),
        frame(reasoning_delta, item_id="rs_1", output_index=0, summary_index=1, delta="Two."),
        frame(
            "response.output_item.done",
            output_index=0,
            item={**reasoning, "summary": summary, "encrypted_content": "sealed"},
        ),
        frame("response.output_item.added", output_index=1, item={**MESSAGE, "content": []}),
        frame("response.content_part.added", item_id="m", output_index=1, content_index=0, part={"text": ""}),
        delta("Hi", output_index=1, content_index=0),
        frame("response.output_text.annotation.added", item_id="m", content_index=0, annotation=note),
        frame("response.output_text.done", item_id="m", output_index=1, content_index=0, text="Hi"),
        frame("response.output_item.done", output_index=1, item={**MESSAGE, "content": content}),
    ]

    assert decode_stream(*lifecycle(*frames, usage=USAGE)) == [
        ReasoningStarted(item="rs_1", message=""),
        ReasoningDelta(item="rs_1", delta="One."),
        ReasoningDelta(item="rs_1", delta="\n\nTwo."),
        ReasoningEnded(item="rs_1", encrypted="sealed"),
        TextStarted(item="m", message=""),
        TextDelta(item="m", delta="Hi"),
        TextEnded(item="m", annotations=(Annotation(kind="url", url="https://host", title="Host", start=0, end=2),)),
        RunFinished(
            usage=Usage(input_tokens=3, output_tokens=4, cached_input_tokens=1, reasoning_tokens=2),
        ),
    ]


def test_annotations_sent_only_as_events_are_attached_to_the_text() -> None:
    note = {"type": "url_citation", "url": "https://host", "start_index": 0, "end_index": 2}
    annotation_frame = frame("response.output_text.annotation.added", item_id="m", annotation=note)

    output = decode_stream(delta("Hi"), annotation_frame, frame("response.output_item.done", item=MESSAGE))

    assert output[2] == TextEnded(item="m", annotations=(Annotation(kind="url", url="https://host", start=0, end=2),))
    assert decode_stream(frame("response.output_text.annotation.added", item_id="m", annotation=note)) == [
        RunFinished()
    ]


def test_raw_reasoning_is_used_instead_of_its_summary() -> None:
    frames = [
        frame("response.reasoning_text.delta", item_id="rs_1", content_index=0, delta="Raw."),
        frame("response.reasoning_summary_text.delta", item_id="rs_1", summary_index=0, delta="Short."),
        frame(
            "response.output_item.done",
            item={"type": "reasoning", "id": "rs_1", "summary": [{"text": "Short."}], "content": [{"text": "Raw."}]},
        ),
    ]

    assert folded_parts(decode_stream(*frames)) == [[Reasoning(text="Raw.")]]


@pytest.mark.parametrize(
    ("item", "parts"),
    [
        ({"summary": [{"text": "A"}, {"text": "B"}]}, [[Reasoning(text="A\n\nB")]]),
        ({"summary": [], "content": [{"type": "reasoning_text", "text": "Raw"}]}, [[Reasoning(text="Raw")]]),
        ({"summary": [], "encrypted_content": "x"}, [[Reasoning(text="", encrypted="x")]]),
        ({"summary": []}, []),
    ],
    ids=["summary", "content", "sealed", "nothing"],
)
def test_reasoning_item_without_deltas_is_parsed(item: dict[str, Any], parts: list[list[Part]]) -> None:
    finished = {"type": "reasoning", "id": "rs_1", **item}

    assert folded_parts(decode_stream(frame("response.output_item.done", item=finished))) == parts
    assert folded_parts(decode_body({"output": [finished, finished]})) == parts


def test_reasoning_and_the_text_that_follows_it_are_one_message() -> None:
    def reasoning_item(text: str) -> dict[str, Any]:
        return {"type": "reasoning", "id": f"rs_{text}", "summary": [{"text": text}]}

    second = {**MESSAGE, "id": "m2"}
    frames = [
        frame("response.output_item.done", item=item)
        for item in (
            reasoning_item("A"),
            reasoning_item("A"),
            MESSAGE,
            reasoning_item("B"),
            second,
            CALL,
            RESULT,
            reasoning_item("C"),
        )
    ]

    assert folded_parts(decode_stream(*frames)) == [
        [Reasoning(text="A"), Text(text="Hi")],
        [Reasoning(text="B"), Text(text="Hi"), ToolCall(call_id="c1", name="now", arguments="{}")],
        [ToolResult(call_id="c1", output="12:00")],
        [Reasoning(text="C")],
    ]


def test_call_arguments_are_emitted_as_deltas() -> None:
    frames = [
        frame("response.output_item.added", output_index=0, item={**CALL, "arguments": ""}),
        frame("response.function_call_arguments.delta", item_id="fc_1", output_index=0, delta='{"a"'),
        frame("response.function_call_arguments.delta", item_id="fc_1", output_index=0, delta=":1}"),
        frame("response.function_call_arguments.done", item_id="fc_1", output_index=0, arguments='{"a":1}'),
        frame("response.output_item.done", output_index=0, item={**CALL, "arguments": '{"a":1}'}),
    ]

    assert decode_stream(*lifecycle(*frames)) == [
        ToolStarted(item="fc_1", call_id="c1", name="now"),
        ToolDelta(item="fc_1", delta='{"a"'),
        ToolDelta(item="fc_1", delta=":1}"),
        ToolEnded(item="fc_1"),
        RunFinished(),
    ]


def test_a_custom_tool_is_called_like_any_other() -> None:
    call_item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "sql", "input": "select 1"}
    frames = [
        frame("response.output_item.added", output_index=0, item={**call_item, "input": ""}),
        frame("response.custom_tool_call_input.delta", item_id="ctc_1", output_index=0, delta="select "),
        frame("response.custom_tool_call_input.delta", item_id="ctc_1", output_index=0, delta="1"),
        frame("response.custom_tool_call_input.done", item_id="ctc_1", output_index=0, input="select 1"),
        frame("response.output_item.done", output_index=0, item=call_item),
        frame("response.output_item.done", item={**RESULT, "type": "custom_tool_call_output"}),
    ]
    turn = [[ToolCall(call_id="c1", name="sql", arguments="select 1")], [ToolResult(call_id="c1", output="12:00")]]

    assert folded_parts(decode_stream(*lifecycle(*frames))) == folded_parts(decode_stream(*frames[-2:])) == turn


def test_a_call_is_held_until_its_name_is_known() -> None:
    piece = frame("response.function_call_arguments.delta", item_id="fc_1", delta="{}")

    assert decode_stream(piece, frame("response.output_item.done", item=CALL)) == [
        ToolStarted(item="fc_1", call_id="c1", name="now"),
        ToolDelta(item="fc_1", delta="{}"),
        ToolEnded(item="fc_1"),
        RunFinished(),
    ]


def test_call_without_id_and_name_gets_placeholders() -> None:
    output = decode_stream(frame("response.output_item.done", item={"type": "function_call"}))

    assert folded_parts(output) == [[ToolCall(call_id="function_call 1", name="unknown")]]
    assert folded_parts(
        decode_stream(frame("response.output_item.done", item={"type": "function_call", "arguments": {"a": 1}}))
    ) == [[ToolCall(call_id="function_call 1", name="unknown", arguments='{"a":1}')]]


def test_refusal_is_parsed_as_a_refusal_part() -> None:
    finished = {**MESSAGE, "content": [{"type": "refusal", "refusal": "No."}]}
    frames = [
        frame("response.refusal.delta", item_id="m", content_index=0, delta="No."),
        frame("response.refusal.done", item_id="m", content_index=0, refusal="No."),
        frame("response.output_item.done", item=finished),
    ]

    assert decode_stream(*lifecycle(*frames)) == [
        PartAdded(item="m", message="m", part=Refusal(text="No.")),
        RunFinished(),
    ]
    assert decode_stream(frames[2]) == [PartAdded(item="m", message="m", part=Refusal(text="No.")), RunFinished()]


def test_message_with_several_parts_stays_one_message() -> None:
    content = [{"type": "output_text", "text": "A"}, {"type": "refusal", "refusal": "No."}, {"type": "output_text"}]
    finished = {**MESSAGE, "content": [*content, {"type": "output_text", "text": "B"}]}
    pieces = [delta("A", content_index=0), delta("B", content_index=3), delta("!", content_index=0)]

    expected = [
        [Text(text="A"), Refusal(text="No."), Data(name="responses:output_text", value=content[2]), Text(text="B")]
    ]
    assert folded_parts(decode_stream(frame("response.output_item.done", item=finished))) == expected
    assert folded_parts(decode_stream(*pieces)) == [[Text(text="A"), Text(text="B"), Text(text="!")]]


def test_unknown_items_become_data_parts_unchanged() -> None:
    item = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "x"}}
    frames = [
        frame("response.output_item.added", output_index=0, item={**item, "status": "in_progress"}),
        frame("response.web_search_call.searching", item_id="ws_1", output_index=0),
        frame("response.output_item.done", output_index=0, item=item),
    ]

    assert decode_stream(*lifecycle(*frames)) == [
        PartAdded(item="ws_1", part=Data(name="responses:web_search_call", value=item)),
        RunFinished(),
    ]


def test_user_messages_and_approvals_from_the_server_are_ignored() -> None:
    assert decode_body(
        {"output": [{**MESSAGE, "role": "user"}, {"type": "mcp_approval_response", "approve": True}]}
    ) == [RunFinished()]


@pytest.mark.parametrize(
    ("end", "terminal"),
    [
        (completed(), RunFinished()),
        (
            completed(kind="incomplete", incomplete_details={"reason": "max_output_tokens"}),
            RunFinished(finish="length"),
        ),
        (
            completed(kind="incomplete", incomplete_details={"reason": "content_filter"}),
            RunFinished(finish="content-filter"),
        ),
        (
            completed(kind="incomplete", incomplete_details={"reason": "interrupted"}),
            RunFinished(finish="interrupted"),
        ),
        (completed(kind="incomplete"), RunFinished()),
        (completed(kind="incomplete", incomplete_details={"reason": "cancelled"}), RunCancelled()),
        (frame("response.incomplete", response={"status": "cancelled"}), RunCancelled()),
        (
            completed(kind="failed", error={"code": "x", "message": "No."}, usage=USAGE),
            RunFailed(
                code="upstream_failed",
                message="No.",
                usage=Usage(input_tokens=3, output_tokens=4, cached_input_tokens=1, reasoning_tokens=2),
            ),
        ),
        (completed(kind="failed", error=None), RunFailed(code="upstream_failed")),
        (
            frame("error", message="Why.") + completed(kind="failed", error=None),
            RunFailed(code="upstream_failed", message="Why."),
        ),
        (frame("response.completed", response={}), RunFinished()),
        (completed(usage={"input_tokens": -1, "output_tokens": True}), RunFinished()),
    ],
)
def test_last_frame_is_translated_to_the_terminal_event(end: bytes, terminal: TerminalEvent) -> None:
    assert decode_stream(end, DONE) == [terminal]


# JSON responses


def test_json_response_is_parsed_into_events() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [{"text": "Hm."}]}
    response = {"output": [reasoning, MESSAGE, CALL], "status": "completed", "error": None, "usage": USAGE}

    assert decode_body(response) == [
        ReasoningStarted(item="rs_1", message=""),
        ReasoningDelta(item="rs_1", delta="Hm."),
        ReasoningEnded(item="rs_1"),
        TextStarted(item="m", message=""),
        TextDelta(item="m", delta="Hi"),
        TextEnded(item="m"),
        ToolStarted(item="fc_1", message="", call_id="c1", name="now"),
        ToolDelta(item="fc_1", delta="{}"),
        ToolEnded(item="fc_1"),
        RunFinished(usage=Usage(input_tokens=3, output_tokens=4, cached_input_tokens=1, reasoning_tokens=2)),
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {"output": [], "status": "failed", "error": {"message": "No."}},
            [RunFailed(code="upstream_failed", message="No.")],
        ),
        ({"error": {"message": "No."}}, [RunFailed(code="upstream_failed", message="No.")]),
        ({"error": "No."}, [RunFailed(code="upstream_failed", message="No.")]),
        ({"role": "assistant", "content": "Hi"}, [{"role": "assistant", "content": "Hi"}]),
        ("Hi", ["Hi"]),
    ],
)
def test_json_errors_fail_the_run_and_other_bodies_are_returned_as_values(body: Any, expected: list[Any]) -> None:
    assert decode_body(body) == expected


# Palaver extensions


def test_data_and_files_sent_as_items_or_events_are_emitted_once() -> None:
    data = {"type": "palaver:data", "id": "dat_1", "status": "completed", "name": "chart", "value": {"x": 1}}
    file = {"type": "palaver:file", "id": "fil_1", "media_type": "image/png", "data": "AAAA", "filename": "p.png"}
    parts = [
        PartAdded(item="dat_1", part=Data(name="chart", value={"x": 1})),
        PartAdded(item="fil_1", part=File(media_type="image/png", data="AAAA", filename="p.png")),
    ]
    custom = {
        "data": [{"id": "dat_1", "name": "chart", "value": {"x": 1}}],
        "files": [{"id": "fil_1", "media_type": "image/png", "data": "AAAA", "filename": "p.png"}],
    }
    rendered = frame("palaver:data", sequence_number=2, item_id="dat_2", name="hint", value=1, transient=True)

    items = [frame("response.output_item.done", item=item) for item in (data, file)]
    events = [
        frame("palaver:data", sequence_number=2, item_id="dat_1", name="chart", value={"x": 1}),
        frame(
            **{"kind": "palaver:file", "item_id": "fil_1", **{k: v for k, v in file.items() if k not in ("id", "type")}}
        ),
    ]
    assert decode_stream(*lifecycle(*items)) == [*parts, RunFinished()]
    assert decode_stream(*lifecycle(*events, custom_outputs=custom)) == [*parts, RunFinished()]
    assert decode_body({"output": [], "custom_outputs": custom}) == [*parts, RunFinished()]
    assert decode_body({"output": [data, file]}) == [*parts, RunFinished()]
    assert decode_stream(rendered)[0] == PartAdded(item="dat_2", part=Data(name="hint", value=1), transient=True)


def test_approval_request_refers_to_its_call() -> None:
    approval = {"type": "mcp_approval_request", "id": "c1", "name": "now", "arguments": "{}", "server_label": "x"}
    expected = {"id": "c1", "call_id": "c1", "name": "now", "arguments": "{}"}

    assert decode_body({"output": [CALL, approval]})[-2] == PartAdded(
        part=Data(name="approval-request", value=expected)
    )
    assert decode_body({"output": [approval]})[0] == PartAdded(
        part=Data(name="approval-request", value={**expected, "call_id": None})
    )


def test_tool_result_can_be_marked_as_an_error() -> None:
    assert decode_body({"output": [CALL, {**RESULT, "palaver:is_error": True}]})[-2] == ToolReturned(
        call_id="c1", output="12:00", is_error=True
    )


# Broken streams


def test_truncated_record_raises_upstream_failed() -> None:
    replies = ResponsesReplyDecoder("text/event-stream")
    replies.feed(delta("Hel") + b'data: {"type":"resp')

    with pytest.raises(UpstreamFailed, match="not JSON"):
        replies.end()


def test_record_longer_than_the_limit_raises_upstream_failed() -> None:
    with pytest.raises(UpstreamFailed, match="larger than 100 bytes"):
        ResponsesReplyDecoder("text/event-stream", max_bytes=100).feed(b"data: " + b"x" * 200)


def test_values_that_are_not_frames_are_returned_unchanged() -> None:
    assert decode_stream(b"data: 7\n\n", frame(choices=[])) == [7, {"choices": []}, RunFinished()]


@given(st.data())
def test_parsing_does_not_depend_on_chunk_boundaries(data: st.DataObject) -> None:
    stream = b"".join(lifecycle(delta("Hé"), text_done("Hél"), frame("response.output_item.done", item=CALL)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))

    pieces = [stream[one:other] for one, other in zip([0, *cuts], [*cuts, len(stream)], strict=True)]

    assert decode_stream(*pieces) == decode_stream(stream)


KINDS = st.sampled_from(
    "response.output_text.delta response.output_text.done response.output_item.added response.output_item.done"
    " response.function_call_arguments.delta response.reasoning_summary_text.delta response.reasoning_text.delta"
    " response.output_text.annotation.added response.refusal.done palaver:data palaver:file other".split()
)
IDS = st.sampled_from(["a", "b", "", None, 7])
STRAY_VALUES: Any = (
    st.none() | st.integers(0, 2) | st.sampled_from(["", "x", "xy"]) | st.just([{"text": "x"}, {"refusal": "n"}])
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "id": IDS,
        "type": st.sampled_from(
            "message reasoning function_call palaver:data mcp_approval_request web_search_call x".split()
        ),
        "role": st.sampled_from(["assistant", "user", None]),
        "call_id": IDS,
        "name": STRAY_VALUES,
        "arguments": STRAY_VALUES,
        "content": STRAY_VALUES,
        "summary": STRAY_VALUES,
        "encrypted_content": STRAY_VALUES,
    },
)
FRAMES = st.fixed_dictionaries(
    {"type": KINDS},
    optional={
        "item_id": IDS,
        "output_index": st.none() | st.integers(0, 2),
        "content_index": st.none() | st.integers(0, 2),
        "summary_index": st.none() | st.integers(0, 2),
        "delta": STRAY_VALUES,
        "text": STRAY_VALUES,
        "refusal": STRAY_VALUES,
        "annotation": STRAY_VALUES,
        "item": FIELDS,
        "name": STRAY_VALUES,
        "media_type": STRAY_VALUES,
    },
)


@given(st.lists(FRAMES, max_size=12), st.lists(FIELDS, max_size=4))
def test_any_frames_in_any_order_make_a_valid_event_stream(frames: list[Any], output: list[Any]) -> None:
    feed_grammar(decode_stream(*(frame(None, **one) for one in frames), completed(*output)))


# Round trips


def stream_content(events: list[Event]) -> list[Any]:
    """Return the content of a stream item by item, without what Responses cannot carry."""
    document: dict[str, Any] = {}
    for one in events:
        match one:
            case TextEnded(item=item, text=text):
                document[item] = ["text", text]
            case ReasoningEnded(item=item, text=text):
                document[item] = ["reasoning", text, one.encrypted or None]
            case TextStarted(item=item) | ReasoningStarted(item=item):
                document[item] = None
            case ToolStarted():
                document[one.item] = ["call", one.call_id, one.name]
            case ToolEnded():
                document[one.item] = [*document[one.item], one.arguments]
            case ToolReturned(output=output):
                text = output if isinstance(output, str) else json.encode(output).decode()
                document[one.item] = ["result", one.call_id, text, one.is_error]
            case PartAdded(part=Refusal(text="")):
                pass
            case PartAdded(transient=True):
                pass
            case PartAdded(part=File() as file):
                document[one.item] = replace(file, detail=None)
            case PartAdded():
                document[one.item] = one.part
            case RunFinished() | RunFailed() | RunCancelled():
                document["end"] = type(one)
            case _:
                pass
    return list(document.items())


@given(sloppy, st.booleans())
def test_encoded_responses_are_parsed_back_item_by_item(values: list[Any], is_streamed: bool) -> None:
    # Empty refusals are dropped, and a call without a name is held until it has one.
    values = [one for one in values if not (isinstance(one, Refusal) and not one.text)]
    calls = (ToolStarted, ToolCall)
    values = [replace(one, name=one.name or "now") if isinstance(one, calls) else one for one in values]
    try:
        events = linearize(valid_events(*values))
    except BadStream:
        return
    parsed = ResponsesRequest(profile="open", stream=is_streamed, model="m", workflow="w", encrypted=True)
    if is_streamed:
        frames = responses.stream_encoder(parsed)
        output = decode_stream(*(frames(one) for one in events))
    else:
        answer = responses.encode_response(events, parsed, status=200)
        output = decode_stream(answer.body, content_type="application/json")

    assert stream_content(feed_grammar(output, history=())) == stream_content(events)
