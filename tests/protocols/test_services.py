"""The services protocol: payloads, JSON documents and event streams, and their agreement."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core.descriptions import Description, Schemas
from palaver.core.events import (
    Event,
    FinishReason,
    PartAdded,
    ReasoningDelta,
    RunCancelled,
    RunFailed,
    RunFinished,
    TextStarted,
    ToolEnded,
    ToolStarted,
)
from palaver.core.grammar import Grammar
from palaver.core.json import is_encodable
from palaver.core.messages import Data, File, Message, Refusal, Text, ToolCall, ToolResult, Usage
from palaver.core.runs import Call
from palaver.errors import (
    BadStream,
    FaultyCall,
    InvalidBody,
    InvalidInput,
    InvalidJson,
    MissingInput,
    Overloaded,
    RateLimited,
    RequestError,
    WorkflowNotFound,
)
from palaver.protocols.base import RejectedRequest
from palaver.protocols.services import adapter, socket
from palaver.protocols.services import adapter as services
from palaver.protocols.services.request import ServiceRequest, find_palaver_key
from palaver.protocols.services.response import field_path, usage_counts
from tests.core.strategies import hostile, sloppy, terminals
from tests.protocols.fixed_run import IDS, RUN, STARTED, find, json, request, valid_events

CHAT = ServiceRequest(workflow="tutor", stream=True, history=({"role": "user", "content": "Hi"},))
FORM = ServiceRequest(workflow="headline", is_chat=False, stream=True)
NO_USAGE = {"input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
START = {
    "type": "message_start",
    "message": {
        "id": RUN,
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": "tutor",
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    },
}
STOP_EVENTS = [
    ("message_delta", {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                       "usage": {"output_tokens": 0}}),
    ("message_stop", {"type": "message_stop"}),
]  # fmt: skip


def status(line: Any) -> PartAdded:
    return PartAdded(part=Data(name="status", value=line), transient=True)


def decode(body: Any, **options: Any) -> tuple[Call, ServiceRequest]:
    http_request = msgspec.structs.replace(request(body, **options), route="services/{w}", new_id="fresh-1")
    return services.decode(http_request, find)


def decode_error(body: Any, workflow: str = "tutor") -> Any:
    with pytest.raises(RequestError) as raised:
        decode(body, workflow=workflow)
    return json(services.encode_error(raised.value, None, status=400))


def encode_events(given_events: list[Event], reading: ServiceRequest = CHAT) -> list[tuple[str, Any]]:
    return decode_events(b"".join(map(services.stream_encoder(reading), given_events)))


def decode_events(body: bytes) -> list[tuple[str, Any]]:
    """Return the events of a stream whose frames all have an event line and a data line."""
    *frames, remaining = body.decode().split("\n\n")
    assert remaining == ""
    result: list[tuple[str, Any]] = []
    for frame in frames:
        name, data = frame.split("\n")
        result.append((name.removeprefix("event: "), msgspec.json.decode(data.removeprefix("data: "))))
    return result


def block(index: int, kind: str, *pieces: str, **fields: Any) -> list[tuple[str, Any]]:
    names = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}
    delta, name = names.get(kind, ("input_json_delta", "partial_json"))
    opened = {"type": kind, **fields} if kind == "tool_use" else {"type": kind, name: ""}
    output = [
        ("content_block_delta", {"type": "content_block_delta", "index": index, "delta": {"type": delta, name: piece}})
        for piece in pieces
    ]
    return [
        ("content_block_start", {"type": "content_block_start", "index": index, "content_block": opened}),
        *output,
        ("content_block_stop", {"type": "content_block_stop", "index": index}),
    ]


def encode_body(given_events: list[Event], reading: ServiceRequest = CHAT) -> Any:
    return json(services.encode_response(given_events, msgspec.structs.replace(reading, stream=False), status=200))


@st.composite
def event_streams(draw: st.DrawFn) -> list[Event]:
    """Valid event streams of everything that producers yield, including status lines and replies."""
    output = st.one_of(
        st.builds(status, st.sampled_from(["Busy", {"text": "Busy"}, {"text": 7}, 7])),
        st.builds(Data, name=st.sampled_from(["reply", "code-edit"]), value=st.sampled_from([{"x": 1, "new": "b"}, 7])),
    )
    chunks = draw(st.lists(sloppy | hostile | st.lists(output, max_size=2), max_size=4))
    grammar = Grammar(RUN)
    created = [*grammar.start(STARTED)]
    try:
        for value in [value for chunk in chunks for value in chunk]:
            created += grammar.text(value) if isinstance(value, str) else grammar.feed(value)
            if grammar.ending is not None:
                break
    except BadStream:
        return [*created, *grammar.end(RunFailed(code="bad_stream", message="No."))]
    end = draw(st.none() | terminals)
    if isinstance(end, RunFinished | RunFailed | RunCancelled) and not is_encodable(end):
        end = None
    return [*created, *grammar.end(end or RunFinished())]


# Payloads


def test_content_and_history_become_messages_and_other_fields_inputs() -> None:
    history = [{"role": "user", "content": "Hi", "id": 7}, {"role": "assistant", "content": " "}]
    meta = {"rag": {}, "session_id": "s-9", "user": {"id": "u", "persona": "p"}}
    call, parsed = decode(
        {"content": "Why?", "history": history, "context": {"a": 1}, "meta": meta, "stream": True,
         "parameters": {"tone": "dry"}, "api_key": "sk-1", "metrics_opt_in": False},
        workflow="tutor",
    )  # fmt: skip

    assert call.messages == (Message.user("Hi"), Message.user("Why?"))
    assert call.inputs == {
        "context": {"a": 1},
        "meta": {"rag": {}, "session_id": "s-9"},  # The user's identity is removed.
        "session_id": "s-9",
    }
    assert call.parameters == {"tone": "dry"}
    assert (call.session, call.record) == ("s-9", "metadata")
    assert {name: (secret.reveal(), repr(secret)) for name, secret in call.secrets.items()} == {
        "api_key": ("sk-1", "***")
    }
    assert parsed == ServiceRequest(workflow="tutor", history=(*history, {"role": "user", "content": "Why?"}))


def test_messages_in_any_dialect_replace_content_and_history() -> None:
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": "Hello."},
    ]
    call, parsed = decode({"messages": messages}, workflow="tutor")

    assert [message.role for message in call.messages] == ["system", "user", "assistant"]
    assert parsed.history == ({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."})


def test_non_chat_workflow_gets_the_body_as_inputs() -> None:
    call, parsed = decode(
        {"text": "x", "content": 1, "history": 2, "messages": 3, "parameters": 4, "api_key": "k", "stream": False},
        workflow="headline",
    )

    assert call.inputs == {
        "text": "x", "content": 1, "history": 2, "messages": 3, "parameters": 4, "session_id": "fresh-1"
    }  # fmt: skip
    assert (call.messages, call.parameters, call.session) == ((), {}, "fresh-1")
    assert parsed == ServiceRequest(workflow="headline", is_chat=False)


@pytest.mark.parametrize(
    ("meta", "session"),
    [
        ({"session_id": "a"}, "a"),
        ({"session_id": "a" * 64}, "a" * 64),
        ({"session_id": "a" * 65}, "fresh-1"),
        ({"session_id": ""}, "fresh-1"),
        ({"session_id": 7}, "fresh-1"),
        ("no object", "fresh-1"),
        (None, "fresh-1"),
    ],
)
def test_session_is_the_clients_id_or_a_new_one(meta: Any, session: str) -> None:
    assert decode({"content": "Hi", "meta": meta, "session_id": "mine"})[0].session == session


@pytest.mark.parametrize(
    ("schema", "inputs"),
    [
        ({"properties": {"subject": {}}, "additionalProperties": False}, {"subject": "maths"}),
        ({"properties": {"subject": {}}}, {"subject": "maths"}),
        ({"properties": {}, "additionalProperties": True}, {"subject": "maths", "odd": 1, "session_id": "fresh-1"}),
        ({}, {"subject": "maths", "odd": 1, "session_id": "fresh-1"}),
    ],
)
def test_undeclared_inputs_are_dropped_unless_additional_ones_are_allowed(schema: Any, inputs: Any) -> None:
    described = Description(name="tutor", flags={"is_chat": True}, schemas=Schemas(inputs=schema))
    http_request = msgspec.structs.replace(request({"content": "Hi", "subject": "maths", "odd": 1}), new_id="fresh-1")

    assert services.decode(http_request, lambda _: described)[0].inputs == inputs


@pytest.mark.parametrize("key", [None, "", "  ", f"plv_abcd1234_{'x' * 40}"])
def test_blank_and_palaver_api_keys_are_not_passed_as_secrets(key: Any) -> None:
    assert decode({"content": "Hi", "api_key": key})[0].secrets == {}


INVALID_PAYLOADS: list[tuple[Any, list[tuple[str, str]]]] = [
    ({}, [("content", "is required")]),
    ({"content": None}, [("content", "is required")]),
    ({"content": 1}, [("content", "must be a string")]),
    ({"content": " \n"}, [("content", "must not be blank")]),
    ({"content": "x", "history": {}}, [("history", "must be a list")]),
    ({"content": "x", "history": ["y"]}, [("history[0]", "must be an object")]),
    (
        {"history": [{"role": "user", "content": "a"}, {"role": "system", "content": 2}]},
        [
            ("content", "is required"),
            ("history[1].role", "must be 'user' or 'assistant'"),
            ("history[1].content", "must be a string"),
        ],
    ),
    ({"content": "x", "parameters": []}, [("parameters", "must be an object")]),
    ({"content": "x", "metrics_opt_in": "no"}, [("metrics_opt_in", "must be true or false")]),
    ({"content": "x", "api_key": 7}, [("api_key", "must be a string")]),
    (
        {"content": "x", "messages": []},
        [("messages", "can't be combined with content or history")],
    ),
]


@pytest.mark.parametrize(("body", "errors"), INVALID_PAYLOADS)
def test_all_errors_of_a_payload_are_listed(body: Any, errors: list[tuple[str, str]]) -> None:
    assert decode_error(body) == {
        "code": 400,
        "type": "BAD_REQUEST",
        "message": " ".join(errors[0]),
        "details": {"errors": [{"field": name, "message": why} for name, why in errors]},
    }


INPUTS = {
    "properties": {
        "messages": {"type": "array"},
        "context": {"type": ["object", "null"], "properties": {"log": {"type": ["string", "null"]}, "input": {}}},
        "flag": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "size": {"type": "integer"},
        "ratio": {"type": "number"},
        "rows": {"type": "array"},
        "nothing": {"type": "null"},
        "far": {"anyOf": [{"$ref": "#/$defs/Far"}, 7, {"type": "null"}]},
        "odd": {"type": "odd"},
        "odder": {"type": [{}]},
        "any": True,
    },
    "required": ["messages", "context", "size"],
}


@pytest.mark.parametrize(
    ("inputs", "errors"),
    [
        ({"context": None, "size": 1, "flag": None, "ratio": 0.5, "rows": [], "nothing": None}, []),
        ({}, [("context", "is required"), ("size", "is required")]),
        ({"context": 7, "size": True}, [("context", "must be an object"), ("size", "must be an integer")]),
        ({"context": {"log": 7, "input": 7}, "size": 1}, [("context.log", "must be a string")]),
        (
            {"context": {}, "size": 1, "flag": "true", "ratio": True, "rows": {}, "nothing": 0},
            [
                ("flag", "must be true or false"),
                ("ratio", "must be a number"),
                ("rows", "must be a list"),
                ("nothing", "must be null"),
            ],
        ),
        ({"context": {}, "size": 1, "far": 7, "odd": 7, "odder": 7, "any": 7}, []),
    ],
)
def test_inputs_of_a_rejected_payload_are_validated(inputs: Any, errors: Any) -> None:
    described = Description(name="tutor", flags={"is_chat": True}, schemas=Schemas(inputs=INPUTS))
    http_request = msgspec.structs.replace(request({**inputs, "stream": 7}), route=services.STREAM_ROUTE)
    with pytest.raises(RejectedRequest) as raised:
        services.decode(http_request, lambda _: described)

    first = [("stream", "must be true or false"), ("content", "is required")]
    assert raised.value.details["errors"] == [{"field": name, "message": why} for name, why in [*first, *errors]]


def test_payload_errors_of_a_non_chat_workflow_are_reported() -> None:
    assert decode_error({"metrics_opt_in": 1}, "headline")["message"] == "metrics_opt_in must be true or false"


def test_invalid_message_is_named_by_its_index() -> None:
    output = decode_error({"messages": [{"role": "user", "content": "x"}, 7]})

    assert (output["type"], output["details"]["errors"][0]["field"]) == ("BAD_REQUEST", "messages[1]")


@pytest.mark.parametrize(
    ("body", "details"),
    [
        (b'{"a": 1,\n  "b": oops}', {"line": 2, "column": 8}),
        ('{"ä": x'.encode(), {"line": 1, "column": 7}),
        (b'{"a":', None),
        (b"\xff", {"line": 1, "column": 1}),
        (b"[]", None),
        (b'"x"', None),
    ],
)
def test_body_that_is_not_a_json_object_is_rejected_with_its_position(body: bytes, details: Any) -> None:
    output = decode_error(body)

    assert (output["code"], output["type"], output.get("details")) == (400, "BAD_REQUEST", details)
    assert "line 2, column 8" in output["message"] or (details or {}).get("line") != 2


def test_unknown_workflow_is_reported_as_an_unknown_service() -> None:
    error = WorkflowNotFound("nobody", known=["tutor"])

    assert json(services.encode_error(error, None, status=404)) == {
        "code": 404,
        "type": "NOT_FOUND",
        "message": "There is no service named 'nobody'.",
    }


def test_binding_errors_are_listed_by_field() -> None:
    error = FaultyCall(
        [
            MissingInput("Input 'a' is required.", pointer="/inputs/a"),
            InvalidInput("Input 'b' does not fit: no.", pointer="/inputs/b/rows/2/x~1y"),
        ]
    )

    assert json(services.encode_error(error, None, status=400)) == {
        "code": 400,
        "type": "BAD_REQUEST",
        "message": "Input 'a' is required.",
        "details": {
            "errors": [
                {"field": "a", "message": "Input 'a' is required."},
                {"field": "b.rows[2].x/y", "message": "Input 'b' does not fit: no."},
            ]
        },
    }


@pytest.mark.parametrize(
    ("error", "code", "word"),
    [
        (Overloaded("Full."), 503, "OVERLOADED"),
        (RateLimited("Slow down."), 429, "RATE_LIMITED"),
        (InvalidBody("No."), 400, "BAD_REQUEST"),
        (InvalidJson("No."), 400, "BAD_REQUEST"),
    ],
)
def test_error_types_are_in_upper_case(error: Any, code: int, word: str) -> None:
    answer = services.encode_error(error, None, status=code)

    assert (answer.status, json(answer)) == (code, {"code": code, "type": word, "message": error.message})
    assert dict(answer.headers) == {"content-type": "application/json", "x-api-version": services.VERSION}


def test_stream_reports_a_payload_error_as_its_only_event() -> None:
    http_request = msgspec.structs.replace(request({"content": ""}), route=services.STREAM_ROUTE)
    with pytest.raises(RejectedRequest) as raised:
        services.decode(http_request, find)
    answer = services.encode_error(raised.value, None, status=400)

    assert answer.status == 200
    assert decode_events(answer.body) == [
        (
            "error",
            {
                "code": 400,
                "type": "BAD_REQUEST",
                "message": "content must not be blank",
                "details": {"errors": [{"field": "content", "message": "must not be blank"}]},
            },
        )
    ]


@pytest.mark.parametrize(("stream", "sparse"), [(True, False), (None, False), (False, True)])
def test_stream_false_on_the_stream_route_makes_the_stream_sparse(stream: Any, sparse: bool) -> None:
    http_request = msgspec.structs.replace(request({"content": "Hi", "stream": stream}), route=services.STREAM_ROUTE)
    _, parsed = services.decode(http_request, find)

    assert (parsed.stream, parsed.sparse) == (True, sparse)


def test_stream_field_must_be_a_boolean_on_the_stream_route() -> None:
    http_request = msgspec.structs.replace(request({"content": "Hi", "stream": "yes"}), route=services.STREAM_ROUTE)
    with pytest.raises(RejectedRequest, match="stream must be true or false"):
        services.decode(http_request, find)


def test_on_the_plain_route_stream_is_ignored() -> None:
    assert decode({"content": "Hi", "stream": "yes"})[1].stream is False


# Documents


def test_chat_response_has_text_history_usage_and_reply_fields() -> None:
    run = valid_events(
        Usage(input_tokens=100, output_tokens=7, cached_input_tokens=60, cache_creation_input_tokens=30),
        TextStarted(item="a"),
        " One.",
        TextStarted(item="b", message="m2"),
        Text(text="Two. \n"),
        Refusal(text="No more."),
        Data(name="reply", value={"suggested_code": None, "meta": {"a": 1, "b": 1}, "usage": 7, "history": [], "x": 1}),
        Data(name="reply", value={"meta": {"b": 2}, "x": 2, "response": "!"}),
        Data(name="reply", value="no object"),
        Data(name="other", value=1),
    )
    response = "One.\n\nTwo. \n\n\nNo more."

    assert encode_body(run) == {
        "response": response,
        "history": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": response}],
        "usage": {
            "input_tokens": 10,
            "output_tokens": 7,
            "cache_creation_input_tokens": 30,
            "cache_read_input_tokens": 60,
        },
        "meta": {"a": 1, "b": 2},
        "suggested_code": None,
        "x": 2,
    }


def test_reply_meta_that_is_not_an_object_is_ignored() -> None:
    assert encode_body(valid_events(Data(name="reply", value={"meta": "x"})))["meta"] == {}


@pytest.mark.parametrize("value", [None, "text", 7, [1], {"error": "x", "code": 500, "type": "ERROR"}])
def test_non_chat_workflow_answers_its_value_even_if_it_looks_like_an_error(value: Any) -> None:
    run = valid_events(end=RunFinished(value=value))
    answer = services.encode_response(run, ServiceRequest(workflow="headline", is_chat=False), status=200)

    assert (answer.status, json(answer)) == (200, value)
    assert ("x-palaver-run-id", RUN) in answer.headers


def test_a_workflow_without_a_value_answers_null() -> None:
    assert encode_body(valid_events(), FORM) is None


@given(st.builds(Usage, *[st.integers(0, 10**9)] * 2, *[st.none() | st.integers(0, 10**9)] * 2))
def test_usage_is_four_counts_and_nothing_is_counted_twice(usage: Usage) -> None:
    counts = usage_counts(usage)

    assert counts.keys() == NO_USAGE.keys()
    assert all(count >= 0 for count in counts.values())
    cached = counts["cache_read_input_tokens"] + counts["cache_creation_input_tokens"]
    assert counts["input_tokens"] + cached == max(usage.input_tokens, cached)


NOT_FOUND = RunFailed(code="no_such_city", message="Where?", status=404, details={"city": "Atlantis"})


def test_failed_run_is_answered_with_an_error_object() -> None:
    answer = services.encode_response(
        valid_events("Hel", end=NOT_FOUND), msgspec.structs.replace(CHAT, stream=False), status=404
    )

    assert (answer.status, json(answer)) == (
        404,
        {"code": 404, "type": "NO_SUCH_CITY", "message": "Where?", "details": {"city": "Atlantis"}},
    )


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ("workflow_failed", "INTERNAL_ERROR"),
        ("shutting_down", "SHUTTING_DOWN"),
        ("a-b c", "A_B_C"),
        ("", "INTERNAL_ERROR"),
        ("!", "INTERNAL_ERROR"),
    ],
)
def test_failure_code_becomes_the_error_type(code: str, word: str) -> None:
    run = valid_events(end=RunFailed(code=code, message="m"))

    assert encode_body(run) == {"code": 200, "type": word, "message": "m"}


def test_failure_without_a_message_gets_a_default_message() -> None:
    assert (
        encode_body(valid_events(end=RunFailed(code="odd", message="")))["message"]
        == "The run failed without an error message."
    )


def test_cancelled_run_is_answered_with_an_error_of_code_499() -> None:
    cancelled = {"code": 499, "type": "CANCELLED", "message": "The run was cancelled."}
    run = valid_events("Hel", end=RunCancelled())

    assert encode_body(run) == cancelled
    assert encode_events(run)[-1] == ("error", cancelled)


# Streams


def test_stream_sends_content_blocks_and_then_the_complete_document() -> None:
    run = valid_events("Hel", "lo")

    assert encode_events(run) == [
        ("message_start", START),
        *block(0, "text", "Hel", "lo"),
        *STOP_EVENTS,
        ("complete", encode_body(run)),
    ]


def test_status_and_reasoning_are_sent_as_thinking_blocks() -> None:
    run = valid_events(status({"text": "Searching"}), status("As ctx.log says it"), ReasoningDelta(delta="Hm."), "A")

    assert encode_events(run) == [
        ("message_start", START),
        ("log", "Searching"),
        *block(0, "thinking", "Searching"),
        ("log", "As ctx.log says it"),
        *block(1, "thinking", "As ctx.log says it"),
        *block(2, "thinking", "Hm."),
        *block(3, "text", "A"),
        *STOP_EVENTS,
        ("complete", encode_body(run)),
    ]


def test_status_splits_a_text_into_two_blocks() -> None:
    run = valid_events("Hel", status("Wait"), "lo")

    assert encode_events(run)[1:-3] == [
        *block(0, "text", "Hel")[:-1],
        ("log", "Wait"),
        block(0, "text")[-1],
        *block(1, "thinking", "Wait"),
        *block(2, "text", "lo"),
    ]
    assert encode_body(run)["response"] == "Hello"


def test_status_block_is_delayed_until_the_call_ends() -> None:
    run = valid_events(ToolStarted(call_id="c1", name="add"), status("Busy"), ToolEnded(arguments='{"a":1}'))

    assert encode_events(run)[1:-3] == [
        block(0, "tool_use", id="c1", name="add", input={})[0],
        ("log", "Busy"),
        *block(0, "tool_use", '{"a":1}')[1:],
        *block(1, "thinking", "Busy"),
    ]


def test_tool_calls_and_results_are_streamed() -> None:
    run = valid_events(
        ToolCall(call_id="c1", name="add", arguments="{}"), ToolResult(call_id="c1", output=[3], is_error=True)
    )

    assert encode_events(run)[1:-3] == [
        *block(0, "tool_use", "{}", id="c1", name="add", input={}),
        ("tool_result", {"type": "tool_result", "call_id": "c1", "output": [3], "is_error": True}),
    ]


PICTURE = File(media_type="image/png", url="https://x")


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (Data(name="code-edit", value={"old": "a", "new": "b", "edits": []}), [("changes", {"code": "b"})]),
        (Data(name="code-edit", value={"old": "a", "new": "a"}), []),
        (Data(name="code-edit", value={"old": "a", "new": None}), []),
        (Data(name="code-edit", value=7), [("data", {"name": "code-edit", "value": 7})]),
        (Data(name="chart", value=[1]), [("data", {"name": "chart", "value": [1]})]),
        (Data(name="status", value="kept"), [("data", {"name": "status", "value": "kept"})]),
        (Data(name="reply", value={"x": 1}), []),
        (PICTURE, [("data", {"name": "file", "value": {"type": "file", "media_type": "image/png", "url": "https://x"}})]),
        (Refusal(text="No."), block(0, "text", "No.")),
    ],
)  # fmt: skip
def test_each_part_is_streamed_as_its_event(part: Any, expected: Any) -> None:
    assert encode_events(valid_events(part))[1:-3] == expected


def test_a_transient_refusal_is_not_part_of_the_streamed_text() -> None:
    transient = PartAdded(part=Refusal(text="Wait."), transient=True)
    output = encode_events(valid_events(transient, "Hello"))

    assert output[1:-3] == block(0, "text", "Hello")
    assert output[-1][1]["response"] == "Hello"


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("tool-calls", "tool_use"), ("content-filter", "refusal")],
)
def test_finish_reason_is_translated_to_the_anthropic_stop_reason(finish: FinishReason, reason: str) -> None:
    run = valid_events(Usage(input_tokens=9, output_tokens=5), end=RunFinished(finish=finish))

    assert encode_events(run)[-3] == (
        "message_delta",
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 5},
        },
    )


def test_failure_closes_the_open_block_and_is_the_last_event() -> None:
    run = valid_events("Hel", end=NOT_FOUND)
    document = {"code": 404, "type": "NO_SUCH_CITY", "message": "Where?", "details": {"city": "Atlantis"}}

    assert encode_events(run) == [("message_start", START), *block(0, "text", "Hel"), ("error", document)]


def test_error_code_of_a_failure_is_the_servers_status() -> None:
    run = valid_events(end=RunFailed(code="timeout", message="Late."))
    frames = services.stream_encoder(CHAT, status=lambda _: 504)

    assert decode_events(b"".join(map(frames, run)))[-1] == (
        "error",
        {"code": 504, "type": "TIMEOUT", "message": "Late."},
    )


def test_sparse_stream_sends_only_logs_and_the_result() -> None:
    run = valid_events(status("Busy"), "Hello", Data(name="chart", value=1))

    assert encode_events(run, msgspec.structs.replace(CHAT, sparse=True)) == [
        ("log", "Busy"),
        ("complete", encode_body(run)),
    ]


def test_non_chat_workflow_streams_logs_data_and_the_result() -> None:
    run = valid_events(status("Busy"), "Hello", Data(name="chart", value=1), end=RunFinished(value=3))

    assert encode_events(run, FORM) == [("log", "Busy"), ("data", {"name": "chart", "value": 1}), ("complete", 3)]


def test_run_that_fails_at_once_is_streamed_as_a_single_error_event() -> None:
    answer = services.encode_response(valid_events(end=NOT_FOUND), FORM, status=404)

    assert answer.status == 200
    assert [name for name, _ in decode_events(answer.body)] == ["error"]


def test_stream_head_has_the_event_stream_headers() -> None:
    run = valid_events()
    head = services.response_head(run[0], CHAT)  # type: ignore[arg-type]

    assert head is not None
    assert dict(head.headers) == {
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        "x-accel-buffering": "no",
        "x-api-version": services.VERSION,
        **dict(IDS),
    }
    assert head.keep_alive == b": keep-alive\n\n"
    assert services.response_head(run[0], msgspec.structs.replace(CHAT, stream=False)) is None  # type: ignore[arg-type]


# Properties


@given(event_streams(), st.booleans(), st.booleans())
def test_the_last_event_is_what_the_plain_route_answers(run: list[Event], is_chat: bool, sparse: bool) -> None:
    parsed = msgspec.structs.replace(CHAT, is_chat=is_chat, sparse=sparse)
    output = decode_events(b"".join(map(services.stream_encoder(parsed, status=lambda _: 418), run)))
    plain = services.encode_response(run, msgspec.structs.replace(parsed, stream=False), status=418)

    assert [name for name, _ in output if name in ("complete", "error")] == [output[-1][0]]
    assert output[-1][1] == json(plain)


@given(event_streams())
def test_blocks_never_overlap_and_are_numbered_from_zero(run: list[Event]) -> None:
    output = decode_events(b"".join(map(services.stream_encoder(CHAT), run)))
    is_open, count, texts = False, 0, ""
    for name, data in output:
        assert name in ("log", "changes", "data", "complete", "error") or data["type"] == name
        match name:
            case "content_block_start":
                assert not is_open
                assert data["index"] == count
                is_open = True
            case "content_block_delta":
                assert is_open
                assert data["index"] == count
                texts += data["delta"].get("text", "")
            case "content_block_stop":
                assert is_open
                assert data["index"] == count
                is_open, count = False, count + 1
            case _:
                pass
    assert not is_open
    if output[-1][0] == "complete":
        assert "".join(texts.split()) == "".join(output[-1][1]["response"].split())


# WebSocket


def test_socket_messages_are_parsed() -> None:
    assert socket.parse_message('{"event":"start","data":{"content":"Hi"}}') == ("start", b'{"content":"Hi"}')
    assert socket.parse_message('{"event":"start"}') == ("start", b"null")
    assert socket.parse_message('{"event":"cancel","more":1}') == ("cancel", b"null")


@pytest.mark.parametrize("text", ["", "x", "[]", "{}", '{"event":7}', '{"event":"stop"}', "[" * 100_000])
def test_invalid_socket_message_is_answered_with_an_error(text: str) -> None:
    with pytest.raises(RequestError) as raised:
        socket.parse_message(text)
    document = msgspec.json.decode(socket.error_message(raised.value, status=400))

    assert (document["event"], document["data"]["type"]) == ("error", "BAD_REQUEST")


@pytest.mark.parametrize(
    ("payload", "key"),
    [
        ({"content": "x"}, "query"),
        ({"api_key": None}, "query"),
        ({"api_key": " "}, "query"),
        ({"api_key": "own"}, "own"),
        ({"api_key": 7}, 7),
    ],
)
def test_api_key_of_the_payload_takes_precedence_over_the_query(payload: Any, key: Any) -> None:
    output = socket.with_api_key(msgspec.json.encode(payload), "query")

    assert msgspec.json.decode(output) == {**payload, "api_key": key}


def test_payload_that_is_not_an_object_is_unchanged() -> None:
    assert socket.with_api_key(b"null", "query") == b"null"


@given(event_streams(), st.integers(1, 50))
def test_socket_sends_the_events_of_the_stream_for_any_chunk_boundaries(run: list[Event], size: int) -> None:
    body = b": keep-alive\n\n" + b"".join(map(services.stream_encoder(CHAT), run))
    frames = socket.SocketMessageEncoder()
    output = [
        msgspec.json.decode(text)
        for start in range(0, len(body), size)
        for text in frames.feed(body[start : start + size])
    ]

    last = ("complete", "error")
    assert output == [
        {"event": "log", "data": data}
        if name == "log"
        else {"event": "complete", "data": data}
        if name in last
        else {"event": "event", "type": name, "data": data}
        for name, data in decode_events(body.removeprefix(b": keep-alive\n\n"))
    ]
    assert frames.has_ended


# Keys and lists


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (b'{"api_key": "plv_x"}', "plv_x"),
        (b'{"api\\u005fkey": "plv_x"}', "plv_x"),
        (b'{"api_key": "sk-x"}', None),
        (b'{"api_key": 7}', None),
        (b'["api_key"]', None),
        (b'{"api_key": ', None),
        (b"{}", None),
    ],
)
def test_palaver_api_key_is_found_in_a_body(body: bytes, key: str | None) -> None:
    assert find_palaver_key(body, request({}).json_limits) == key


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("", ""),
        ("One. Two.", "One."),
        ("No end", "No end"),
        ("# Title\n\n## Sub\nAnswers questions\nabout jobs. And more.\n\nNext.", "Answers questions about jobs."),
        ("Version 1.2 is here! Yes.", "Version 1.2 is here!"),
        ("Knows things, e.g. jobs. More.", "Knows things, e.g. jobs."),
        ("Job Chat\n========\n\nHelps. Much.", "Helps."),
    ],
)
def test_a_summary_is_the_first_sentence(text: str, summary: str) -> None:
    assert adapter.first_sentence(text) == summary


def test_default_readme_has_the_description_and_the_inputs() -> None:
    inputs = {
        "properties": {
            "messages": {"type": "array"},
            "subject": {"type": "string", "description": "What it is\nabout | or not"},
            "level": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "any": {},
        },
        "required": ["subject"],
    }
    service = Description(name="tutor", description="Teaches.", flags={"is_chat": True}, schemas=Schemas(inputs=inputs))

    assert adapter.default_readme(service) == (
        "# tutor\n\nTeaches.\n\n"
        'Send a JSON object such as `{"content": "…", "history": []}` to `POST /services/tutor`, '
        "or to `POST /services/tutor/stream` to stream events.\n\n"
        "| input | type | required | description |\n|---|---|---|---|\n"
        "| `subject` | string | yes | What it is about \\| or not |\n"
        "| `level` | integer or null | no |  |\n"
        "| `any` | any | no |  |\n"
    )


@pytest.mark.parametrize(("pointer", "name"), [("/inputs/a/0", "a[0]"), ("/messages/3", "messages[3]"), ("/0", "0")])
def test_pointer_is_formatted_as_a_field_path(pointer: str, name: str) -> None:
    assert field_path(pointer) == name
