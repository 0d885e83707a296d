"""Chat Completions answers: events as chunks, and as one completion."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from palaver.core.events import (
    Event,
    PartAdded,
    ReasoningDelta,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunStarted,
    TerminalEvent,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolEnded,
    ToolStarted,
    UsageAdded,
)
from palaver.core.grammar import OutputValue
from palaver.core.messages import Annotation, Data, File, Message, Reasoning, Refusal, Text, ToolCall, ToolResult, Usage
from palaver.protocols.base import HttpResponse
from palaver.protocols.chat_completions import adapter as chat_completions
from tests.protocols.chat_chunks import (
    COMPLETION_FIELDS,
    DONE,
    FIRST,
    USAGE,
    call,
    chat_request,
    chunk,
    citation,
    encode_stream,
    piece,
    run,
    valid_runs,
)
from tests.protocols.fixed_run import IDS, RUN, STARTED, json

STOP_CHUNK = chunk({}, finish="stop")
TOOL_CALLS_CHUNK = chunk({}, finish="tool_calls")
TOKENS_USED = Usage(input_tokens=3, output_tokens=4)


def approval(call_id: str | None) -> Data:
    return Data(name="approval-request", value={"id": "a", "call_id": call_id})


# The stream


@pytest.mark.parametrize(
    ("values", "deltas", "last"),
    [
        pytest.param([], [], STOP_CHUNK, id="nothing"),
        pytest.param(["Hel", "lo"], [{"content": "Hel"}, {"content": "lo"}], STOP_CHUNK, id="text"),
        pytest.param(
            ["\U0001f984 ü", "\u2028"], [{"content": "\U0001f984 ü"}, {"content": "\u2028"}], STOP_CHUNK, id="unicode"
        ),
        pytest.param(
            [Message.assistant("One", "more"), Message.assistant("Two")],
            [{"content": "One"}, {"content": "more"}, {"content": "\n\n"}, {"content": "Two"}],
            STOP_CHUNK,
            id="messages are joined by an empty line, texts of one by nothing",
        ),
        pytest.param(
            [Reasoning(text="Hm."), "So."],
            [{"reasoning_content": "Hm."}, {"content": "So."}],
            STOP_CHUNK,
            id="reasoning",
        ),
        pytest.param(
            [ReasoningDelta(delta="H"), ReasoningDelta(delta="m")],
            [{"reasoning_content": "H"}, {"reasoning_content": "m"}],
            STOP_CHUNK,
            id="reasoning in pieces",
        ),
        pytest.param([Refusal(text="No.")], [{"refusal": "No."}], STOP_CHUNK, id="a refusal"),
        pytest.param([Refusal(text="")], [], STOP_CHUNK, id="a refusal that says nothing"),
        pytest.param(
            ["a", File(media_type="image/png", data="AA=="), Data(name="chart", value=[1]), "b"],
            [{"content": "a"}, {"content": "b"}],
            STOP_CHUNK,
            id="data and files are left out",
        ),
        pytest.param(
            [PartAdded(part=Data(name="status"), transient=True), TOKENS_USED], [], STOP_CHUNK, id="status and usage"
        ),
        pytest.param(
            ["I look.", ToolCall(call_id="c1", name="mine", arguments='{"a":1}')],
            [{"content": "I look."}, call(0, "c1", "mine"), piece(0, '{"a":1}')],
            TOOL_CALLS_CHUNK,
            id="a call of the client's",
        ),
        pytest.param(
            [
                ToolStarted(item="x", call_id="c1", name="mine"),
                ToolStarted(item="y", call_id="c2", name="mine"),
                *(ToolEnded(item=item, arguments="{}") for item in "xy"),
            ],
            [call(0, "c1", "mine"), piece(0, "{}"), call(1, "c2", "mine"), piece(1, "{}")],
            TOOL_CALLS_CHUNK,
            id="two at once, one after the other",
        ),
        pytest.param(
            [ToolCall(call_id="c1", name="mine")], [call(0, "c1", "mine")], TOOL_CALLS_CHUNK, id="no arguments"
        ),
        pytest.param(
            [ToolCall(call_id="c1", name="mine", arguments="{}"), ToolResult(call_id="c1", output="x"), "Done."],
            [call(0, "c1", "mine"), piece(0, "{}"), {"content": "Done."}],
            STOP_CHUNK,
            id="a call of the client's that the workflow answered stays",
        ),
        pytest.param(
            ["a", ToolCall(call_id="c1", name="own", arguments="{}"), ToolResult(call_id="c1", output="x"), "b"],
            [{"content": "a"}, {"content": "\n\n"}, {"content": "b"}],
            STOP_CHUNK,
            id="an own call with its result is left out",
        ),
        pytest.param(
            [ToolCall(call_id="c1", name="own", arguments="{}"), ToolCall(call_id="c2", name="own"), "b"],
            [{"content": "b"}, call(0, "c1", "own"), piece(0, "{}"), call(1, "c2", "own")],
            TOOL_CALLS_CHUNK,
            id="own calls that nobody answered are told at the end",
        ),
        pytest.param(
            [
                ToolCall(call_id="c1", name="own"),
                ToolCall(call_id="c2", name="mine"),
                ToolCall(call_id="c3", name="own"),
            ],
            [call(0, "c2", "mine"), call(1, "c1", "own"), call(2, "c3", "own")],
            TOOL_CALLS_CHUNK,
            id="calls are numbered as they are told",
        ),
        pytest.param(
            [ToolCall(call_id="c1", name="own"), approval("c1"), approval(None)],
            [],
            STOP_CHUNK,
            id="a call that waits for an approval is left out",
        ),
        pytest.param(
            [
                Text(
                    text="See it.",
                    annotations=(
                        Annotation(kind="url", url="https://a", title="A", start=0, end=3),
                        Annotation(kind="span", start=0, end=3),
                        Annotation(kind="url", url="https://b"),
                    ),
                ),
            ],
            [
                {"content": "See it."},
                {"annotations": [citation("https://a", 0, 3, "A"), citation("https://b", 0, 7)]},
            ],
            STOP_CHUNK,
            id="sources",
        ),
        pytest.param(
            [
                Message.assistant(Text(text="ab", annotations=(Annotation(kind="url", url="https://a"),))),
                Message.assistant(
                    Text(text="cde", annotations=(Annotation(kind="url", url="https://b", start=1, end=2),))
                ),
            ],
            [
                {"content": "ab"},
                {"annotations": [citation("https://a", 0, 2)]},
                {"content": "\n\n"},
                {"content": "cde"},
                {"annotations": [{"index": 1, **citation("https://b", 5, 6)}]},
            ],
            STOP_CHUNK,
            id="indexes count in the whole content, and later entries have a number",
        ),
    ],
)
def test_events_are_encoded_as_chunks(values: list[OutputValue | str], deltas: list[Any], last: Any) -> None:
    sent = encode_stream(run(*values), chat_request("mine"))

    assert sent == [chunk(FIRST), *map(chunk, deltas), last, DONE]


def test_call_without_deltas_is_encoded_with_its_arguments() -> None:
    """The grammar always emits a delta; a joined event log may have none."""
    start = ToolStarted(item="fc_c1", message="m", call_id="c1", name="mine")
    events = [STARTED, start, ToolEnded(item="fc_c1", arguments="{}"), RunFinished()]

    sent = [one["choices"][0]["delta"] for one in encode_stream(events, chat_request("mine"))[:-1]]

    assert sent == [FIRST, call(0, "c1", "mine"), piece(0, "{}"), {}]


def test_interleaved_texts_are_sent_one_after_the_other() -> None:
    messages = [TextDelta(item="a", delta="1"), TextStarted(item="b", message="m2"), TextDelta(item="b", delta="2")]
    remaining = [TextDelta(item="a", delta="3"), TextEnded(item="a")]

    sent = encode_stream(run(*messages, *remaining), chat_request())

    assert sent == [chunk(FIRST), *(chunk({"content": output}) for output in ("1", "3", "\n\n", "2")), STOP_CHUNK, DONE]


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("stop", "stop"),
        ("tool-calls", "stop"),
        ("length", "length"),
        ("content-filter", "content_filter"),
        ("cancelled", "stop"),
        ("error", "stop"),
    ],
)
def test_finish_reason_reflects_how_the_run_ended(finish: Any, expected: str) -> None:
    end = RunFinished(finish=finish)

    assert encode_stream(run(end=end), chat_request()) == [chunk(FIRST), chunk({}, finish=expected), DONE]
    assert (
        json(chat_completions.encode_response(run(end=end), chat_request(), status=200))["choices"][0]["finish_reason"]
        == expected
    )


def test_finish_reason_length_takes_precedence_over_tool_calls() -> None:
    cut = run(ToolCall(call_id="c1", name="own"), end=RunFinished(finish="length"))

    assert encode_stream(cut, chat_request())[-2:] == [chunk({}, finish="length"), DONE]


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("Hi", [{"content": "Hi"}]),
        ("", []),
        (None, [{"content": "null"}]),
        ({"a": [1, "ü"]}, [{"content": '{"a":[1,"ü"]}'}]),
    ],
)
def test_value_is_the_content_only_if_no_text_was_streamed(value: Any, content: list[Any]) -> None:
    end = RunFinished(value=value)

    assert encode_stream(run(end=end), chat_request()) == [chunk(FIRST), *map(chunk, content), STOP_CHUNK, DONE]
    assert encode_stream(run("x", end=end), chat_request()) == [chunk(FIRST), chunk({"content": "x"}), STOP_CHUNK, DONE]


@pytest.mark.parametrize(
    ("end", "code", "message"),
    [
        (RunFailed(code="model_down", message="The model is down."), "model_down", "The model is down."),
        (RunCancelled(), "cancelled", "The run was cancelled."),
        (RunFinished(finish="interrupted"), "interrupted", "The run was interrupted."),
    ],
)
def test_broken_stream_ends_with_an_error_after_the_partial_text(end: TerminalEvent, code: str, message: str) -> None:
    sent = encode_stream(
        run("Hel", ToolCall(call_id="c1", name="own"), TOKENS_USED, end=end), chat_request(include_usage=True)
    )

    document = {"message": message, "type": "model_error", "code": code, "param": None}
    output = [{**chunk(delta), "usage": None} for delta in (FIRST, {"content": "Hel"})]
    assert sent == [*output, {"error": document}, DONE]


@pytest.mark.parametrize(
    ("values", "end"),
    [([TOKENS_USED], RunFinished()), ([Usage(input_tokens=9, output_tokens=9)], RunFinished(usage=TOKENS_USED))],
    ids=["what was counted", "what the end says"],
)
def test_usage_is_sent_last_on_request(values: list[OutputValue], end: TerminalEvent) -> None:
    events = run("Hi", *values, end=end)

    assert encode_stream(events, chat_request()) == [chunk(FIRST), chunk({"content": "Hi"}), STOP_CHUNK, DONE]
    assert encode_stream(events, chat_request(include_usage=True)) == [
        *({**one, "usage": None} for one in (chunk(FIRST), chunk({"content": "Hi"}), STOP_CHUNK)),
        {**COMPLETION_FIELDS, "object": "chat.completion.chunk", "choices": [], "usage": USAGE},
        DONE,
    ]


def test_usage_events_are_summed() -> None:
    part = Usage(input_tokens=1, output_tokens=2, cached_input_tokens=1, reasoning_tokens=2)
    sent = encode_stream(run(part, UsageAdded(usage=part)), chat_request(include_usage=True))

    assert sent[-2]["usage"] == {
        "prompt_tokens": 2,
        "completion_tokens": 4,
        "total_tokens": 6,
        "prompt_tokens_details": {"cached_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 4},
    }


def test_no_usage_chunk_is_sent_if_usage_is_unknown() -> None:
    sent = encode_stream(run("Hi"), chat_request(include_usage=True))

    assert sent == [{**chunk(delta), "usage": None} for delta in (FIRST, {"content": "Hi"})] + [
        {**STOP_CHUNK, "usage": None},
        DONE,
    ]


def test_a_frame_is_one_line_of_compact_json() -> None:
    frames = chat_completions.stream_encoder(chat_request(model='tu"tor'))
    sent = [frames(event) for event in (RunStarted(run_id="r"), TextStarted(item="a"), TextDelta(item="a", delta="\n"))]

    head = b'data: {"id":"chatcmpl-r","object":"chat.completion.chunk","created":0,"model":"tu\\"tor","choices":['
    tail = b',"logprobs":null,"finish_reason":null}]}\n\n'
    assert sent == [
        head + b'{"index":0,"delta":{"role":"assistant","content":""}' + tail,
        b"",
        head + b'{"index":0,"delta":{"content":"\\n"}' + tail,
    ]


def test_only_a_streamed_response_has_a_stream_head() -> None:
    assert chat_completions.response_head(STARTED, chat_request(stream=True)) == HttpResponse(
        status=200,
        headers=(
            ("content-type", "text/event-stream; charset=utf-8"),
            ("cache-control", "no-cache, no-transform"),
            ("x-accel-buffering", "no"),
            *IDS,
        ),
        keep_alive=b": keep-alive\n\n",
    )
    assert chat_completions.response_head(STARTED, chat_request()) is None


# JSON responses


def completion(message: dict[str, Any], finish: str = "stop", **usage: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    return {**COMPLETION_FIELDS, "object": "chat.completion", "system_fingerprint": None, "choices": [choice], **usage}


def assistant_message(content: str | None, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "refusal": None, "annotations": [], **fields}


def encode_completion(*values: OutputValue | str, end: TerminalEvent | None = None) -> Any:
    return json(chat_completions.encode_response(run(*values, end=end), chat_request("mine"), status=200))


def test_json_response_is_one_completion() -> None:
    events = run(Message.assistant("Let me check."), Message.assistant("It is noon."), TOKENS_USED)

    answer = chat_completions.encode_response(events, chat_request(), status=200)

    assert (answer.status, answer.headers) == (200, (("content-type", "application/json"), *IDS))
    assert json(answer) == completion(assistant_message("Let me check.\n\nIt is noon."), usage=USAGE)
    ChatCompletion.model_validate_json(answer.body, strict=True)


def test_run_without_a_trace_has_no_trace_header() -> None:
    events = [RunStarted(run_id="r"), RunFinished()]

    assert chat_completions.encode_response(events, chat_request(), status=200).headers == (
        ("content-type", "application/json"),
        ("x-palaver-run-id", "r"),
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([], completion(assistant_message("")), id="nothing"),
        pytest.param([Refusal(text="No.")], completion(assistant_message(None, refusal="No.")), id="a refusal"),
        pytest.param(
            [Reasoning(text="Hm.")], completion(assistant_message("", reasoning_content="Hm.")), id="reasoning"
        ),
        pytest.param(
            [ToolCall(call_id="c1", name="mine", arguments='{"a"'), ToolCall(call_id="c2", name="own")],
            completion(
                assistant_message(
                    None,
                    tool_calls=[
                        {"id": "c1", "type": "function", "function": {"name": "mine", "arguments": '{"a"'}},
                        {"id": "c2", "type": "function", "function": {"name": "own", "arguments": ""}},
                    ],
                ),
                finish="tool_calls",
            ),
            id="calls",
        ),
        pytest.param(
            [Text(text="ab", annotations=(Annotation(kind="url", url="https://a"),))],
            completion(assistant_message("ab", annotations=[citation("https://a", 0, 2)])),
            id="sources",
        ),
    ],
)
def test_output_is_encoded_as_a_completion_message(values: list[OutputValue], expected: Any) -> None:
    assert encode_completion(*values) == expected


@pytest.mark.parametrize("end", [RunCancelled(), RunFinished(finish="interrupted")])
def test_stopped_run_is_answered_with_partial_text_and_finish_reason_length(end: TerminalEvent) -> None:
    output = encode_completion("Hel", ToolCall(call_id="c1", name="own"), end=end)

    assert output == completion(assistant_message("Hel"), finish="length")


def test_a_failed_run_is_answered_with_its_error() -> None:
    events = run("Hel", end=RunFailed(code="model_down", message="The model is down."))

    answer = chat_completions.encode_response(events, chat_request(), status=502)

    error = {"message": "The model is down.", "type": "model_error", "code": "model_down", "param": None}
    assert answer.status == 502
    assert answer.headers == (("content-type", "application/json"), *IDS, ("x-should-retry", "false"))
    assert json(answer) == {
        "error": error,
        "detail": "The model is down.",
        "response_id": f"resp_{RUN.removeprefix('run_')}",
    }


# The completion is what a client builds from the stream


def client_completion(sent: list[Any]) -> Any:
    """Return what OpenAI's own client builds from a stream."""
    state = ChatCompletionStreamState()
    for one in sent:
        state.handle_chunk(ChatCompletionChunk.model_validate(one, strict=True))
    return state.current_completion_snapshot.model_dump(
        exclude_none=True, exclude={"choices": {"__all__": {"logprobs"}}}
    )


def comparable(document: Any) -> Any:
    """Remove what differs between the two forms: nulls, the object's name, list indexes, "" for no content."""
    choice = document["choices"][0]
    output = {name: value for name, value in choice["message"].items() if value or value == ""}
    output["content"] = output.get("content") or ""
    for field in ("annotations", "tool_calls"):
        for entry in output.get(field, ()):
            entry.pop("index", None)
    return {
        "message": output,
        "finish": choice["finish_reason"],
        "usage": document.get("usage"),
        **{name: document[name] for name in ("id", "created", "model")},
    }


@settings(max_examples=150, deadline=None)
@given(valid_runs, st.sampled_from([(), ("mine",), ("mine", "yours")]))
def test_json_response_is_what_the_openai_client_builds_from_the_stream(
    events: list[Event], tools: tuple[str, ...]
) -> None:
    *sent, finished = encode_stream(events, chat_request(*tools, include_usage=True))
    answer = json(chat_completions.encode_response(events, chat_request(*tools), status=200))

    assert finished == DONE
    assert comparable(client_completion(sent)) == comparable(answer)


@given(valid_runs, st.sampled_from([(), ("mine",)]))
def test_only_the_last_chunk_has_an_empty_delta(events: list[Event], tools: tuple[str, ...]) -> None:
    first, *sent, last, _ = encode_stream(events, chat_request(*tools))

    assert first == chunk(FIRST)
    assert last["choices"][0]["delta"] == {}
    for one in sent:
        ((name, value),) = one["choices"][0]["delta"].items()
        assert value
        if name == "tool_calls":
            assert "id" in value[0] or value[0]["function"]["arguments"]
