"""The Chat Completions client: requests to other servers, and their various answers."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from palaver.core.events import (
    Event,
    PartAdded,
    ReasoningDelta,
    RunFailed,
    RunFinished,
    TextDelta,
    TextEnded,
    ToolDelta,
    ToolEnded,
    ToolStarted,
)
from palaver.core.fold import fold
from palaver.core.grammar import Grammar
from palaver.core.messages import Annotation, Data, Message, Reasoning, Refusal, Text, ToolCall, ToolResult, Usage
from palaver.core.runs import Call, Secret
from palaver.errors import BadStream, UpstreamFailed
from palaver.protocols.chat_completions.adapter import encode_response, stream_encoder
from palaver.protocols.chat_completions.client import ChatReplyDecoder, build_chat_request
from tests.protocols.chat_chunks import USAGE, chat_request, run, valid_runs
from tests.protocols.fixed_run import STARTED, json

SSE, JSON = "text/event-stream; charset=utf-8", "application/json"
TOKENS_USED = Usage(input_tokens=3, output_tokens=4)
DONE = b"data: [DONE]\n\n"


# The request


def request_body(call: Call, **options: Any) -> Any:
    return msgspec.json.decode(build_chat_request(call, **{"is_chat": True, "stream": True, **options}).body)


def test_streaming_request_includes_the_usage_option() -> None:
    call = Call(
        workflow="far",
        messages=(Message.user("Hi"),),
        session="s-1",
        user="ada",
        trace_parent="00-0-0-01",
        secrets={"key": Secret("x")},
    )

    sent = build_chat_request(call, is_chat=True, stream=True, model="gpt-9")

    assert sent.headers == {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "baggage": "ag.session.id=s-1",
        "traceparent": "00-0-0-01",
    }
    assert msgspec.json.decode(sent.body) == {
        "model": "gpt-9",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_json_request_has_no_stream_fields() -> None:
    sent = build_chat_request(Call(workflow="far", messages=(Message.user("Hi"),)), is_chat=True, stream=False)

    assert sent.headers == {"content-type": "application/json", "accept": "application/json"}
    assert msgspec.json.decode(sent.body) == {"messages": [{"role": "user", "content": "Hi"}]}


def test_inputs_and_parameters_are_forwarded() -> None:
    call = Call(workflow="far", messages=(Message.user("Hi"),), inputs={"subject": "maths"}, parameters={"tone": "dry"})

    assert request_body(call, stream=False) == {
        "messages": [{"role": "user", "content": "Hi"}],
        "custom_inputs": {"subject": "maths"},
        "parameters": {"tone": "dry"},
    }


def test_history_given_as_an_input_is_sent_as_messages() -> None:
    call = Call(workflow="far", inputs={"messages": [{"role": "user", "content": "Hi"}]})

    assert request_body(call, is_chat=False, stream=False) == {"messages": [{"role": "user", "content": "Hi"}]}


def test_parts_unknown_to_chat_completions_are_not_sent() -> None:
    note = Annotation(kind="url", url="https://x")
    history = (
        Message.assistant(Reasoning(text="Hm."), Text(text="Yes.", annotations=(note,)), Data(name="chart")),
        Message.assistant(Data(name="chart")),
        Message.assistant(ToolCall(call_id="c1", name="add", arguments="{}")),
        Message.tool("c1", [2], is_error=True),
        Message.assistant(Refusal(text="No.")),
        Message.user(),
    )

    assert request_body(Call(workflow="far", messages=history), stream=False)["messages"] == [
        {"role": "assistant", "content": "Yes."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "[2]"},
        {"role": "assistant", "content": None, "refusal": "No."},
        {"role": "user", "content": ""},
    ]


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({"temperature": 0, "stop": ["x"], "seed": 1}, {"temperature": 0, "stop": ["x"], "seed": 1}),
        ({"max_output_tokens": 5}, {"max_completion_tokens": 5}),
        ({"reasoning": {"effort": "low", "summary": None}}, {"reasoning_effort": "low"}),
        ({"text": {"verbosity": "low"}}, {"verbosity": "low"}),
        ({"text": {"format": {"type": "json_object"}}}, {"response_format": {"type": "json_object"}}),
        (
            {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": None}}},
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}},
        ),
        (
            {
                "tools": [{"type": "function", "name": "add", "strict": None}, {"type": "web_search"}],
                "tool_choice": {"type": "function", "name": "add"},
                "parallel_tool_calls": False,
            },
            {
                "tools": [{"type": "function", "function": {"name": "add"}}],
                "tool_choice": {"type": "function", "function": {"name": "add"}},
                "parallel_tool_calls": False,
            },
        ),
        ({"tool_choice": "auto", "parallel_tool_calls": True, "tools": [{"type": "web_search"}]}, {}),
        ({"tools": [{"type": "custom", "name": "x"}]}, {"tools": [{"type": "custom", "custom": {"name": "x"}}]}),
        ({"truncation": "auto", "include": [], "user": "ada", "prompt_cache_key": "k", "text": "?"}, {}),
    ],
    ids=str,
)
def test_options_are_translated_to_chat_completions_names(options: Any, sent: Any) -> None:
    body = request_body(Call(workflow="far", messages=(Message.user("Hi"),), options=options), stream=False)

    assert body == {"messages": [{"role": "user", "content": "Hi"}], **sent}


# Streams


def frame(value: Any) -> bytes:
    return b"data: " + (value if isinstance(value, bytes) else msgspec.json.encode(value)) + b"\n\n"


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def piece(arguments: Any = "", index: int | None = 0, call_id: Any = None, name: Any = None) -> dict[str, Any]:
    document = {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}
    return delta(tool_calls=[{key: value for key, value in document.items() if value is not None}])


def decode_stream(*chunks: Any, content_type: str = SSE) -> list[object]:
    replies = ChatReplyDecoder(content_type)
    return [value for one in chunks for value in replies.feed(frame(one))] + replies.end()


def tool_started(number: int, call_id: str, name: str) -> ToolStarted:
    return ToolStarted(item=f"call {number}", call_id=call_id, name=name)


def tool_delta(number: int, arguments: str) -> ToolDelta:
    return ToolDelta(item=f"call {number}", delta=arguments)


def tool_ended(number: int) -> ToolEnded:
    return ToolEnded(item=f"call {number}")


@pytest.mark.parametrize(
    ("chunks", "events"),
    [
        pytest.param([], [RunFinished()], id="nothing at all"),
        pytest.param(
            [delta(role="assistant", content=""), delta(content="Hel"), delta(content="lo"), delta("stop"), b"[DONE]"],
            [TextDelta(delta="Hel"), TextDelta(delta="lo"), RunFinished()],
            id="text",
        ),
        pytest.param([delta(content="Hi")], [TextDelta(delta="Hi"), RunFinished()], id="no finish reason and no end"),
        pytest.param([b"[DONE]", delta(content="more")], [RunFinished()], id="nothing counts after the end"),
        pytest.param(
            [delta(reasoning_content="a"), delta(reasoning="b"), delta(reasoning_content=None, reasoning={"x": 1})],
            [ReasoningDelta(delta="a"), ReasoningDelta(delta="b"), RunFinished()],
            id="reasoning by either name",
        ),
        pytest.param(
            [delta(refusal="I ca"), delta(refusal="nnot.")],
            [PartAdded(part=Refusal(text="I cannot.")), RunFinished()],
            id="a refusal in pieces",
        ),
        pytest.param(
            [delta("stop"), {"choices": [], "usage": USAGE}, b"[DONE]"],
            [RunFinished(usage=TOKENS_USED)],
            id="usage in a chunk of its own",
        ),
        pytest.param(
            [
                {**delta(content="a"), "usage": {"prompt_tokens": 9, "completion_tokens": 1}},
                {**delta(), "usage": USAGE},
            ],
            [TextDelta(delta="a"), RunFinished(usage=TOKENS_USED)],
            id="usage in every chunk: the last one counts",
        ),
        pytest.param(
            [{**delta(), "usage": usage} for usage in (None, {}, {"prompt_tokens": "3"}, [1])],
            [RunFinished()],
            id="no usage",
        ),
        pytest.param(
            [{**delta(), "usage": {"prompt_tokens": -3, "completion_tokens": 2}}],
            [RunFinished(usage=Usage(input_tokens=0, output_tokens=2))],
            id="a count that is none",
        ),
        pytest.param(
            [delta(content=[{"type": "text", "text": "a"}, "?", {"type": "text", "text": "b"}])],
            [TextDelta(delta="ab"), RunFinished()],
            id="content as parts",
        ),
        pytest.param(
            [{"choices": [{"delta": {"content": "a"}}, {"index": 1, "delta": {"content": "b"}}, {"delta": None}, 7]}],
            [TextDelta(delta="a"), RunFinished()],
            id="other choices are passed over",
        ),
        pytest.param(
            [{"type": "ping"}, {"choices": None}, {"choices": [], "prompt_filter_results": []}, {"error": None}, b""],
            [RunFinished()],
            id="chunks that say nothing",
        ),
        pytest.param(
            [
                delta(content="ab"),
                delta(reasoning="Hm"),
                delta(content="See"),
                delta(
                    annotations=[
                        {"url_citation": {"url": "https://x", "title": "X", "start_index": 2, "end_index": 5}},
                        {"url_citation": {"url": "https://y", "title": "", "start_index": "?"}},
                        {"file_citation": {}},
                    ]
                ),
                delta(annotations=[{"url_citation": {"url": "https://late"}}]),
                delta(content="."),
            ],
            [
                TextDelta(delta="ab"),
                ReasoningDelta(delta="Hm"),
                TextDelta(delta="See"),
                TextEnded(
                    annotations=(
                        Annotation(kind="url", url="https://x", title="X", start=0, end=3),
                        Annotation(kind="url", url="https://y"),
                    )
                ),
                TextDelta(delta="."),
                RunFinished(),
            ],
            id="sources end their text",
        ),
    ],
)
def test_stream_is_parsed_into_events(chunks: list[Any], events: list[object]) -> None:
    assert decode_stream(*chunks) == events


@pytest.mark.parametrize(
    ("chunks", "events"),
    [
        pytest.param(
            [piece(call_id="c1", name="add"), piece('{"a"'), piece(":1}"), delta("tool_calls")],
            [tool_started(0, "c1", "add"), tool_delta(0, '{"a"'), tool_delta(0, ":1}"), tool_ended(0)],
            id="id and name in the first piece",
        ),
        pytest.param(
            [piece("{", call_id="c1", name="add"), piece("}", call_id="c1", name="add")],
            [tool_started(0, "c1", "add"), tool_delta(0, "{"), tool_delta(0, "}"), tool_ended(0)],
            id="id and name in every piece",
        ),
        pytest.param(
            [
                piece("[", 0, "c1", "add"),
                piece("(", 1, "c2", "sub"),
                piece("]", 0),
                piece(")", 1),
            ],
            [
                tool_started(0, "c1", "add"),
                tool_delta(0, "["),
                tool_started(1, "c2", "sub"),
                tool_delta(1, "("),
                tool_delta(0, "]"),
                tool_delta(1, ")"),
                tool_ended(0),
                tool_ended(1),
            ],
            id="two that take turns",
        ),
        pytest.param(
            [piece("1", 0, "c1", "add"), piece("2", 0, "c2", "add")],
            [
                tool_started(0, "c1", "add"),
                tool_delta(0, "1"),
                tool_started(1, "c2", "add"),
                tool_delta(1, "2"),
                tool_ended(0),
                tool_ended(1),
            ],
            id="index 0 for every call",
        ),
        pytest.param(
            [piece("1", None, "c1", "add"), piece("2", None), piece("3", None, "c2", "add"), piece("4", None, "c1")],
            [
                tool_started(0, "c1", "add"),
                tool_delta(0, "1"),
                tool_delta(0, "2"),
                tool_started(1, "c2", "add"),
                tool_delta(1, "3"),
                tool_delta(0, "4"),
                tool_ended(0),
                tool_ended(1),
            ],
            id="no index",
        ),
        pytest.param(
            [piece("1", None, name="add"), piece("2", None, name="add")],
            [
                tool_started(0, "", "add"),
                tool_delta(0, "1"),
                tool_started(1, "", "add"),
                tool_delta(1, "2"),
                tool_ended(0),
                tool_ended(1),
            ],
            id="neither index nor id",
        ),
        pytest.param(
            [piece("{", call_id="c1", name=""), piece("", name="add"), piece("}", name="")],
            [tool_started(0, "c1", "add"), tool_delta(0, "{"), tool_delta(0, "}"), tool_ended(0)],
            id="a name that comes late",
        ),
        pytest.param(
            [piece("{}", call_id="c1")],
            [tool_started(0, "c1", "unknown"), tool_delta(0, "{}"), tool_ended(0)],
            id="a name that never comes",
        ),
        pytest.param(
            [piece("1", 0, "c", "add"), piece("2", 1, "c", "add")],
            [
                tool_started(0, "c", "add"),
                tool_delta(0, "1"),
                tool_started(1, "", "add"),
                tool_delta(1, "2"),
                tool_ended(0),
                tool_ended(1),
            ],
            id="one id for all",
        ),
        pytest.param(
            [piece({"a": 1}, call_id=7, name="add"), piece(None)],
            [tool_started(0, "", "add"), tool_delta(0, '{"a":1}'), tool_ended(0)],
            id="arguments as a value, an id that is none",
        ),
        pytest.param(
            [
                delta(function_call={"name": "add", "arguments": "{"}),
                delta("function_call", function_call={"arguments": "}"}),
            ],
            [tool_started(0, "", "add"), tool_delta(0, "{"), tool_delta(0, "}"), tool_ended(0)],
            id="the elder of calls",
        ),
        pytest.param(
            [delta(tool_calls=[{}, "?", None]), delta(tool_calls="?")],
            [],
            id="pieces that say nothing",
        ),
    ],
)
def test_tool_call_deltas_are_joined_into_calls(chunks: list[Any], events: list[object]) -> None:
    *output, last = decode_stream(*chunks)

    assert isinstance(last, RunFinished)
    assert output == events


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("tool_calls", "tool-calls"),
        ("function_call", "tool-calls"),
        ("content_filter", "content-filter"),
        ("eos", "stop"),
    ],
)
def test_finish_reason_is_translated(reason: str, finish: Any) -> None:
    assert decode_stream(delta(reason)) == [RunFinished(finish=finish)]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ({"error": {"message": "Too busy.", "code": 503}}, "Too busy."),
        ({"error": "Too busy."}, "Too busy."),
        ({"object": "error", "message": "Too busy."}, "Too busy."),
        ({"error": {}}, ""),
    ],
)
def test_error_fails_the_run(error: Any, message: str) -> None:
    failed = RunFailed(code="upstream_failed", message=message)

    assert decode_stream(delta(content="Hel"), error, delta(content="?"), b"[DONE]") == [TextDelta(delta="Hel"), failed]
    assert decode_body(error) == [failed]


def test_an_error_keeps_the_usage_so_far() -> None:
    assert decode_stream({"choices": [], "usage": USAGE}, {"error": "No."}) == [
        RunFailed(code="upstream_failed", message="No.", usage=TOKENS_USED)
    ]


@pytest.mark.parametrize("record", [b"{", b"[1]", b'"x"', b"7", b"\xff", b"null"])
def test_record_that_is_not_an_object_raises_upstream_failed(record: bytes) -> None:
    with pytest.raises(UpstreamFailed, match="The remote service sent a stream record that is not a JSON object"):
        decode_stream(record)


def test_record_longer_than_the_limit_raises_upstream_failed() -> None:
    with pytest.raises(UpstreamFailed, match="larger than 9 bytes"):
        ChatReplyDecoder(SSE, max_bytes=9).feed(b"data: 0123456789")


def test_last_record_needs_no_line_end() -> None:
    replies = ChatReplyDecoder(SSE)

    assert replies.streamed
    assert replies.feed(frame(delta(content="Hi")).rstrip()) == []
    assert replies.end() == [TextDelta(delta="Hi"), RunFinished()]


# JSON responses


def decode_body(body: Any, content_type: str = JSON) -> list[object]:
    replies = ChatReplyDecoder(content_type)
    assert not replies.streamed
    assert replies.feed(body if isinstance(body, bytes) else msgspec.json.encode(body)) == []
    return replies.end()


def test_json_response_is_parsed_into_events() -> None:
    calls = [{"id": f"c{n}", "type": "function", "function": {"name": "add", "arguments": "{}"}} for n in (1, 2)]
    message = {"role": "assistant", "content": "Hi", "reasoning_content": "Hm", "refusal": None, "tool_calls": calls}

    output = decode_body({"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": USAGE})

    assert output == [
        ReasoningDelta(delta="Hm"),
        TextDelta(delta="Hi"),
        tool_started(0, "c1", "add"),
        tool_delta(0, "{}"),
        tool_started(1, "c2", "add"),
        tool_delta(1, "{}"),
        tool_ended(0),
        tool_ended(1),
        RunFinished(finish="tool-calls", usage=TOKENS_USED),
    ]


def test_calls_without_ids_stay_separate() -> None:
    calls = [{"function": {"name": "add"}}, {"function": {"name": "sub"}}, {"function": {"arguments": "{}"}}]

    assert decode_body({"choices": [{"message": {"tool_calls": calls}}]}) == [
        tool_started(0, "", "add"),
        tool_started(1, "", "sub"),
        tool_ended(0),
        tool_ended(1),
        tool_started(2, "", "unknown"),
        tool_delta(2, "{}"),
        tool_ended(2),
        RunFinished(),
    ]


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"choices":[]}', b'{"choices":[{"text":"x"}]}', b"null"])
def test_json_that_is_not_a_completion_raises_upstream_failed(body: bytes) -> None:
    with pytest.raises(UpstreamFailed, match="The response from the remote service is not a chat completion"):
        decode_body(body)


def test_invalid_json_raises_upstream_failed() -> None:
    with pytest.raises(UpstreamFailed, match="The response from the remote service is not JSON"):
        decode_body(b"<html>")


# Round trips


def fold_run(values: Sequence[Any]) -> Any:
    """Return the fold of a run that yields these values, as remote workflows do."""
    grammar = Grammar("run_01k00000000000000000000001")
    events = [*grammar.start(STARTED)]
    for value in values:
        events += grammar.feed(value)
    assert grammar.ending is not None
    return fold([*events, *grammar.end(grammar.ending)])


def message_content(message: Any) -> dict[str, Any]:
    """Return the fields of a completion's message that the fold of a run also has."""
    return {
        "text": message["content"] or "",
        "reasoning": message.get("reasoning_content", ""),
        "refusal": message["refusal"] or "",
        "calls": [
            (call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls", ())
        ],
        "sources": len(message["annotations"]),
    }


@given(valid_runs, st.booleans(), st.integers(1, 40))
@example(run("Hi \U0001f984"), True, 1)
@example(run(ToolCall(call_id="c1", name="mine"), ToolResult(call_id="c1"), Text(text="x")), True, 7)
def test_encoded_completions_are_parsed_back(events: list[Event], stream: bool, size: int) -> None:
    request = chat_request("mine", include_usage=True)
    answer = encode_response(events, request, status=200)
    frames = stream_encoder(request)
    body = b"".join(frames(event) for event in events) if stream else answer.body
    replies = ChatReplyDecoder(SSE if stream else JSON)

    values = [value for start in range(0, len(body), size) for value in replies.feed(body[start : start + size])]
    output = fold_run([*values, *replies.end()])

    completion = json(answer)
    message, finish = completion["choices"][0]["message"], completion["choices"][0]["finish_reason"]
    parts = [part for one in output.messages for part in one.parts]
    assert message_content(message) == {
        "text": "".join(part.text for part in parts if isinstance(part, Text)),
        "reasoning": "".join(part.text for part in parts if isinstance(part, Reasoning)),
        "refusal": "".join(part.text for part in parts if isinstance(part, Refusal)),
        "calls": [(part.call_id, part.name, part.arguments) for part in parts if isinstance(part, ToolCall)],
        "sources": sum(len(part.annotations) for part in parts if isinstance(part, Text)),
    }
    assert (output.usage and output.usage.total_tokens) == completion.get("usage", {}).get("total_tokens")
    assert output.finish.replace("-", "_") in (finish, "tool_calls" if message.get("tool_calls") else finish)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "x", "stop", "tool_calls"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "choices delta message index content tool_calls function name arguments id usage error"
                " finish_reason annotations url_citation url refusal reasoning".split()
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=15,
)


@given(st.lists(ANY_JSON, max_size=5), st.sampled_from([SSE, JSON]))
def test_any_values_are_rejected_or_make_a_valid_run(chunks: list[Any], content_type: str) -> None:
    replies = ChatReplyDecoder(content_type)
    values: list[object] = []
    try:
        for one in chunks:
            values += replies.feed(frame(one) if content_type == SSE else msgspec.json.encode(one))
        values += replies.end()
    except (UpstreamFailed, BadStream):
        return
    assert fold_run(values).finish
