"""Responses: parsing of requests, and answers that are not streamed."""

from typing import Any

import pytest
from msgspec.structs import replace

from palaver.core.descriptions import Description, Schemas
from palaver.core.events import RunCancelled, RunFailed
from palaver.core.messages import Data, File, Message, Reasoning, Text, ToolCall
from palaver.core.runs import Call
from palaver.errors import FaultyCall, MissingInput, PalaverError, UnknownCall, WorkflowNotFound
from palaver.protocols import openai
from palaver.protocols.responses import adapter as responses
from palaver.protocols.responses.request import ResponsesRequest
from tests.protocols.fixed_run import IDS, MESSAGE, RUN, STARTED, TRACE, find, json, request, valid_events

OPENAI, MLFLOW = "v1/responses", "invocations"


def decode(body: Any, route: str = OPENAI, **options: Any) -> tuple[Call, ResponsesRequest]:
    return responses.decode(replace(request(body, **options), route=route), find)


def decode_call(body: Any, **options: Any) -> Call:
    return decode(body, **options)[0]


def decode_error(body: Any, route: str = OPENAI, **options: Any) -> tuple[int, Any]:
    """Return the error code and param of a rejected request."""
    with pytest.raises(PalaverError) as caught:
        decode(body, route, **options)
    answer = responses.encode_error(caught.value, None, status=400)
    error = json(answer)["error"]
    assert json(answer)["detail"] == error["message"]
    return error["code"], error["param"]


# Which workflow, and in which profile


@pytest.mark.parametrize(
    ("route", "profile"), [(OPENAI, "open"), (MLFLOW, "invocations"), ("responses", "invocations")]
)
def test_profile_depends_only_on_the_route(route: str, profile: str) -> None:
    assert decode({"input": "Why?"}, route)[1].profile == profile


def test_model_selects_the_workflow_on_the_root_route() -> None:
    assert decode_call({"input": "x", "model": "headline"}).workflow == "headline"
    assert decode_call({"input": "x"}).workflow == "tutor"
    assert decode_call({"input": "x", "model": None}).workflow == "tutor"
    with pytest.raises(WorkflowNotFound):
        decode_call({"input": "x", "model": "gpt-9"})


def test_invocations_ignores_the_model_when_selecting_the_workflow() -> None:
    http_request, reading = decode({"input": "x", "model": "title-model"}, MLFLOW)

    assert (http_request.workflow, reading.model) == ("tutor", "title-model")


def test_any_model_is_accepted_and_echoed_on_a_workflow_route() -> None:
    http_request, reading = decode({"input": "x", "model": "gpt-9"}, workflow="tutor")

    assert (http_request.workflow, reading.model) == ("tutor", "gpt-9")


# Fields


def test_text_input_becomes_a_user_message_after_the_instructions() -> None:
    http_request, reading = decode({"input": "Why?", "instructions": "Be brief."})

    assert http_request.messages == (Message.system("Be brief."), Message.user("Why?"))
    assert reading.places == ("instructions", "input")
    assert decode_call({"input": ""}).messages == ()
    assert decode_call({"input": []}).messages == ()


def test_inputs_parameters_session_user_and_tags_are_parsed() -> None:
    http_request = decode_call(
        {
            "input": "x",
            "custom_inputs": {"subject": "maths", "thread_id": "t-1"},
            "parameters": {"temperature": 1},
            "context": {"conversation_id": "c-1", "user_id": "u-1"},
            "metadata": {"a": "b"},
            "user": "other",
        }
    )

    assert http_request.inputs == {"subject": "maths", "thread_id": "t-1"}
    assert (http_request.parameters, http_request.session, http_request.user, http_request.tags) == (
        {"temperature": 1},
        "t-1",
        "u-1",
        {"a": "b"},
    )


def test_the_session_in_custom_inputs_is_an_input_only_if_it_is_declared() -> None:
    schemas = Schemas(inputs={"properties": {"subject": {}}, "additionalProperties": False})
    tutor = Description(name="tutor", flags={"is_chat": True}, schemas=schemas)
    body = {"input": "x", "custom_inputs": {"subject": 1, "theirs": 2, "session_id": "s"}}

    http_request, _ = responses.decode(replace(request(body), route=OPENAI), lambda _: tutor)

    assert (http_request.inputs, http_request.session) == ({"subject": 1, "theirs": 2}, "s")


@pytest.mark.parametrize(
    ("context", "session"),
    [
        ({"conversation_id": "c"}, "c"),
        ({"conversation_id": ""}, None),
        ({}, None),
        ({"conversation_id": "x" * 200}, 53),
    ],
)
def test_session_is_the_conversation_id_with_bounded_length(context: Any, session: str | int | None) -> None:
    parsed_session = decode_call({"input": "x", "context": context}).session

    assert (len(parsed_session) if isinstance(session, int) and parsed_session else parsed_session) == session


def test_options_are_passed_to_the_workflow_and_echoed() -> None:
    tool = {"type": "function", "name": "now"}
    body = {
        "input": "x", "temperature": 0, "top_p": 0.5, "max_output_tokens": 5, "tools": [tool], "tool_choice": "none",
        "reasoning": {"effort": "low"}, "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}},
        "include": ["reasoning.encrypted_content"], "stream": True, "store": True, "safety_identifier": "who",
        "unknown": 1,
    }  # fmt: skip
    http_request, reading = decode(body)

    assert http_request.client_tools == {"now"}
    assert http_request.user == "who"
    assert set(http_request.options) == {
        "temperature", "top_p", "max_output_tokens", "tools", "tool_choice", "reasoning", "text", "include",
    }  # fmt: skip
    assert (reading.stream, reading.encrypted) == (True, True)
    assert reading.echo == {
        "temperature": 0,
        "top_p": 0.5,
        "max_output_tokens": 5,
        "tools": [{"type": "function", "name": "now", "description": None, "parameters": None, "strict": None}],
        "tool_choice": "none",
        "reasoning": {"effort": "low", "summary": None},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "description": None, "strict": None}},
        "safety_identifier": "who",
    }


def test_options_for_the_model_provider_are_not_echoed() -> None:
    body = {"stop": "END", "seed": 1, "service_tier": "priority", "prompt_cache_options": {"mode": "explicit"}}
    http_request, reading = decode({"input": "x", **body})

    assert http_request.options == {**body, "stop": ["END"]}
    assert reading.echo == {}


def test_invocations_echoes_tools_without_null_fields() -> None:
    tool = {"type": "function", "name": "now"}

    assert decode({"input": "x", "tools": [tool]}, MLFLOW)[1].echo == {"tools": [tool]}


def test_other_tools_are_echoed_unchanged_and_text_gets_a_default_format() -> None:
    echo = decode({"input": "x", "tools": [{"type": "web_search"}], "text": {"verbosity": "low"}})[1].echo

    assert echo == {"tools": [{"type": "web_search"}], "text": {"verbosity": "low", "format": {"type": "text"}}}
    assert decode({"input": "x", "text": {"format": {"type": "json_object"}}})[1].echo == {
        "text": {"format": {"type": "json_object"}}
    }


@pytest.mark.parametrize(
    ("body", "headers", "trace"),
    [
        ({}, {}, False),
        ({}, {"x_mlflow_return_trace_id": "TRUE"}, True),
        ({}, {"x_mlflow_return_trace_id": "1"}, False),
        ({"databricks_options": {"return_trace": True}}, {}, True),
        ({"databricks_options": {}}, {}, False),
    ],
)
def test_trace_is_requested_by_header_or_databricks_option(body: Any, headers: Any, trace: bool) -> None:
    http_request, reading = decode({"input": "x", **body}, **headers)

    assert reading.trace is trace
    assert http_request.options == {}


def test_valid_traceparent_header_is_continued() -> None:
    parent = f"00-{TRACE}-a1b2c3d4e5f60718-01"

    assert decode_call({"input": "x"}, traceparent=parent).trace_parent == parent
    assert decode_call({"input": "x"}, traceparent="nonsense").trace_parent is None


def test_non_chat_workflow_needs_no_input_and_gets_no_messages() -> None:
    assert decode_call({"custom_inputs": {"text": "x"}}, workflow="headline").messages == ()
    assert decode_call({"input": "x"}, workflow="headline").messages == ()


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ([], "invalid_type", None),
        ({}, "missing_required_parameter", "input"),
        ({"input": None}, "missing_required_parameter", "input"),
        ({"input": 42}, "invalid_type", "input"),
        ({"input": {}}, "invalid_type", "input"),
        ({"input": "x", "instructions": []}, "invalid_type", "instructions"),
        ({"input": "x", "stream": "false"}, "invalid_type", "stream"),
        ({"input": "x", "stream": 0}, "invalid_type", "stream"),
        ({"input": "x", "store": 1}, "invalid_type", "store"),
        ({"input": "x", "background": "true"}, "invalid_type", "background"),
        ({"input": "x", "parallel_tool_calls": 1}, "invalid_type", "parallel_tool_calls"),
        ({"input": "x", "model": 5}, "invalid_type", "model"),
        ({"input": "x", "model": "x" * 257}, "string_too_long", "model"),
        ({"input": "x", "temperature": 2.1}, "invalid_value", "temperature"),
        ({"input": "x", "temperature": "1"}, "invalid_type", "temperature"),
        ({"input": "x", "temperature": True}, "invalid_type", "temperature"),
        ({"input": "x", "top_p": -0.1}, "invalid_value", "top_p"),
        ({"input": "x", "presence_penalty": 3}, "invalid_value", "presence_penalty"),
        ({"input": "x", "max_output_tokens": 0}, "invalid_value", "max_output_tokens"),
        ({"input": "x", "max_output_tokens": 1.5}, "invalid_type", "max_output_tokens"),
        ({"input": "x", "max_tool_calls": 0}, "invalid_value", "max_tool_calls"),
        ({"input": "x", "top_logprobs": 21}, "invalid_value", "top_logprobs"),
        ({"input": "x", "tools": {}}, "invalid_type", "tools"),
        ({"input": "x", "tools": ["now"]}, "invalid_type", "tools[0]"),
        ({"input": "x", "tools": [{"type": "x"}] * 129}, "invalid_value", "tools"),
        ({"input": "x", "tool_choice": "maybe"}, "invalid_value", "tool_choice"),
        ({"input": "x", "tool_choice": {}}, "invalid_value", "tool_choice"),
        ({"input": "x", "tool_choice": 1}, "invalid_type", "tool_choice"),
        ({"input": "x", "text": "x"}, "invalid_type", "text"),
        ({"input": "x", "truncation": "some"}, "invalid_value", "truncation"),
        ({"input": "x", "include": "x"}, "invalid_type", "include"),
        ({"input": "x", "include": [1]}, "invalid_value", "include"),
        ({"input": "x", "custom_inputs": []}, "invalid_type", "custom_inputs"),
        ({"input": "x", "parameters": 1}, "invalid_type", "parameters"),
        ({"input": "x", "context": {"conversation_id": 1}}, "invalid_type", "context.conversation_id"),
        ({"input": "x", "metadata": {"a": 1}}, "invalid_type", "metadata.a"),
        ({"input": "x", "metadata": {"a": "x" * 513}}, "string_too_long", "metadata.a"),
        ({"input": "x", "metadata": {str(n): "" for n in range(17)}}, "invalid_value", "metadata"),
        ({"input": "x", "previous_response_id": "x" * 65}, "string_too_long", "previous_response_id"),
        ({"input": "x", "conversation": 1}, "invalid_type", "conversation"),
        ({"input": "x", "conversation": {}}, "invalid_value", "conversation"),
        ({"input": "x", "store": False, "background": True}, "conflicting_fields", "background"),
        ({"input": "x", "previous_response_id": "a", "conversation": "b"}, "mutually_exclusive", "conversation"),
        ({"input": "x", "conversation": ""}, "invalid_value", "conversation"),
        ({"input": "x", "conversation": "x" * 65}, "string_too_long", "conversation"),
        ({"input": "x", "conversation": {"id": 5}}, "invalid_type", "conversation.id"),
        ({"input": "x", "conversation": {"id": "x" * 65}}, "string_too_long", "conversation.id"),
        ({"background": True}, "missing_required_parameter", "input"),
        ({"input": 42, "previous_response_id": "resp_1"}, "invalid_type", "input"),
    ],
)
def test_invalid_field_is_rejected_with_code_and_param(body: Any, code: str, param: str | None) -> None:
    assert decode_error(body) == (code, param)


# Storage and continuation


def test_response_is_stored_by_default() -> None:
    _, plain = decode({"input": "x"})
    _, explicit = decode({"input": "x", "store": True, "background": False})
    _, unstored = decode({"input": "x", "store": False})

    assert explicit is plain, "who says the defaults costs no more than who says nothing"
    assert (plain.stored, plain.background, plain.echo) == (True, False, {})
    assert (unstored.stored, unstored.background, unstored.echo) == (False, False, {"store": False})


def test_background_request_is_stored_and_echoed() -> None:
    http_request, reading = decode({"input": "x", "background": True, "store": True})

    assert (reading.stored, reading.background, reading.echo) == (True, True, {"background": True})
    assert http_request.options == {}


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}])
def test_conversation_is_given_as_an_id_or_an_object(conversation: Any) -> None:
    http_request, reading = decode({"input": "x", "conversation": conversation})

    assert (http_request.conversation, http_request.previous, http_request.session) == ("conv_1", None, None)
    assert (reading.echo, http_request.options) == ({"conversation": {"id": "conv_1"}}, {})


def test_previous_response_can_be_continued_without_new_input() -> None:
    http_request, reading = decode({"previous_response_id": "resp_1", "instructions": "Be brief.", "custom_inputs": {}})

    assert (http_request.conversation, http_request.previous, http_request.session) == (None, "resp_1", None)
    assert http_request.messages == (Message.system("Be brief."),)
    assert reading.echo == {"previous_response_id": "resp_1", "instructions": "Be brief."}


def test_context_conversation_id_is_the_session_even_with_a_conversation() -> None:
    body = {"input": "x", "conversation": "conv_1", "context": {"conversation_id": "mine"}}

    assert decode_call(body).session == "mine"


def test_previous_response_id_and_conversation_exclude_each_other() -> None:
    with pytest.raises(PalaverError, match="previous_response_id can't be combined with conversation"):
        decode_call({"input": "x", "previous_response_id": "resp_1", "conversation": "conv_1"})


def test_only_instructions_are_counted_as_the_preface() -> None:
    assert decode_call({"input": "x", "instructions": "Be brief."}).preface == 1
    assert decode_call({"input": [], "instructions": "Be brief."}).preface == 1
    assert decode_call({"input": "x", "instructions": None}).preface == 0
    assert decode_call({"input": [{"role": "system", "content": "Be brief."}]}).preface == 0
    assert decode_call({"input": "x", "instructions": "Be brief."}, workflow="headline").preface == 0


def test_item_references_are_left_unresolved_by_decode() -> None:
    items = [{"role": "user", "content": "And?"}, {"type": "item_reference", "id": "msg_1"}]
    http_request, reading = decode({"input": items, "instructions": "Be brief."})

    assert http_request.messages == (Message.system("Be brief."),)
    assert (reading.references, reading.unresolved, reading.places) == (["msg_1"], tuple(items), ("instructions",))
    assert decode({"input": "x"})[1].references == []


# Items


@pytest.mark.parametrize(
    ("item", "code", "param"),
    [
        (5, "invalid_type", "input[0]"),
        ({}, "invalid_value", "input[0]"),
        ({"type": 5}, "invalid_value", "input[0]"),
        ({"role": "robot", "content": "x"}, "invalid_value", "input[0].role"),
        ({"type": "message", "content": "x"}, "invalid_value", "input[0].role"),
        ({"role": "user", "content": None}, "invalid_type", "input[0].content"),
        ({"role": "user", "content": {"text": "x"}}, "invalid_type", "input[0].content"),
        ({"role": "user", "content": ["x"]}, "invalid_value", "input[0].content[0]"),
        ({"role": "user", "content": [{"text": "x"}, {"type": "input_image"}]}, "invalid_value", "input[0].content[1]"),
        (
            {"role": "user", "content": [{"type": "input_file", "filename": "x"}]},
            "invalid_value",
            "input[0].content[0]",
        ),
        ({"role": "user", "content": [{"type": "input_audio"}]}, "invalid_value", "input[0].content[0]"),
        ({"role": "user", "content": "x", "id": "x" * 65}, "string_too_long", "input[0].id"),
        ({"role": "user", "content": "x", "id": 5}, "invalid_type", "input[0].id"),
        ({"type": "function_call", "name": "now"}, "invalid_type", "input[0].call_id"),
        ({"type": "function_call", "call_id": "c1"}, "invalid_type", "input[0].name"),
        ({"type": "function_call", "call_id": "c", "name": "n", "arguments": {}}, "invalid_type", "input[0].arguments"),
        ({"type": "function_call_output", "output": "x"}, "invalid_type", "input[0].call_id"),
        ({"type": "function_call_output", "call_id": "c1"}, "invalid_type", "input[0].output"),
        ({"type": "function_call_output", "call_id": "x" * 65, "output": ""}, "string_too_long", "input[0].call_id"),
        ({"type": "mcp_approval_response", "approve": True}, "invalid_type", "input[0].approval_request_id"),
        ({"type": "mcp_approval_response", "approval_request_id": "a"}, "invalid_type", "input[0].approve"),
        ({"type": "item_reference"}, "invalid_type", "input[0].id"),
        ({"type": "item_reference", "id": "x" * 65}, "string_too_long", "input[0].id"),
    ],
)
def test_invalid_item_is_rejected_with_its_path(item: Any, code: str, param: str) -> None:
    assert decode_error({"input": [item]}) == (code, param)


def test_items_become_messages_and_errors_point_to_the_sent_item() -> None:
    http_request, reading = decode(
        {
            "instructions": "Be brief.",
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "Time?"}]},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
                {"type": "function_call", "call_id": "c1", "name": "now", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c2", "output": "noon"},
                {"role": "user", "content": [{"type": "input_image", "image_url": "https://host/a.png"}]},
            ],
        }
    )

    assert http_request.messages == (
        Message.system("Be brief."),
        Message.user("Time?"),
        Message.assistant(Reasoning(text="Hm."), ToolCall(call_id="c1", name="now", arguments="{}")),
        Message.tool("c2", "noon"),
        Message.user(File(media_type="image/*", url="https://host/a.png")),
    )
    assert reading.places == ("instructions", "input[0]", "input[1]", "input[3]", "input[4]")
    error = UnknownCall("It answers no call.", pointer="/messages/3")
    assert json(responses.encode_error(error, reading, status=400))["error"]["param"] == "input[3]"


def test_unknown_item_type_becomes_a_data_part_unchanged() -> None:
    item = {"type": "web_search_call", "id": "ws_1", "status": "completed"}

    assert decode_call({"input": [item]}).messages == (
        Message.assistant(Data(name="responses:web_search_call", value=item)),
    )


def test_any_content_object_with_a_text_field_is_text() -> None:
    content = [{"type": "strange", "text": "a"}, {"type": "output_text", "text": "b", "annotations": []}]

    assert decode_call({"input": [{"role": "user", "content": content}]}).messages[0].parts == (
        Text(text="a"),
        Text(text="b"),
    )


# Answers


def responses_request(**fields: Any) -> ResponsesRequest:
    return ResponsesRequest(model="tutor", workflow="tutor", **fields)


def test_json_response_has_the_headers_of_its_run() -> None:
    answer = responses.encode_response(valid_events("Hi"), responses_request(), status=200)

    assert answer.status == 200
    assert answer.headers == (
        ("content-type", "application/json"),
        *IDS,
    )
    assert json(answer)["output"][0]["id"] == f"{MESSAGE}_1"


def test_only_a_streamed_response_has_a_stream_head() -> None:
    assert responses.response_head(STARTED, responses_request()) is None
    head = responses.response_head(STARTED, responses_request(stream=True))
    assert head is not None
    assert head.headers[:3] == (
        ("content-type", "text/event-stream; charset=utf-8"),
        ("cache-control", "no-cache, no-transform"),
        ("x-accel-buffering", "no"),
    )
    assert head.keep_alive == b": keep-alive\n\n"


def test_failed_run_is_an_error_response_that_sdks_do_not_retry() -> None:
    events = valid_events("Hi", end=RunFailed(code="model_down", message="The model is down."))

    answer = responses.encode_response(events, responses_request(), status=502)

    assert (answer.status, dict(answer.headers)["x-should-retry"]) == (502, "false")
    assert json(answer) == {
        "error": {"message": "The model is down.", "type": "model_error", "code": "model_down", "param": None},
        "detail": "The model is down.",
        "response_id": "resp_" + RUN.removeprefix("run_"),
    }


def test_cancelled_run_returns_the_partial_output() -> None:
    answer = json(responses.encode_response(valid_events("Hi", end=RunCancelled()), responses_request(), status=200))

    assert (answer["status"], answer["incomplete_details"]) == ("cancelled", {"reason": "cancelled"})
    assert answer["output"][0]["content"][0]["text"] == "Hi"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request"), (401, "authentication_error"), (403, "permission_error"), (404, "not_found"),
        (413, "invalid_request"), (429, "too_many_requests"), (503, "server_error"),
    ],
)  # fmt: skip
def test_the_type_of_an_error_follows_its_status(status: int, kind: str) -> None:
    answer = responses.encode_error(WorkflowNotFound("x", known=["tutor"]), None, status=status)

    assert json(answer)["error"] == {
        "message": "Workflow 'x' not found. Available: tutor.",
        "type": kind,
        "code": "model_not_found",
        "param": None,
    }


def test_input_error_points_into_custom_inputs() -> None:
    error = FaultyCall([MissingInput("Input 'subject' is required.", pointer="/inputs/subject")])

    document = json(responses.encode_error(error, responses_request(), status=400))["error"]

    assert (document["code"], document["param"]) == ("missing_input", "custom_inputs.subject")


@pytest.mark.parametrize(
    ("pointer", "param"),
    [
        ("/messages", "input"),
        ("/messages/9", "input"),
        ("/messages/0/parts", "input[4].parts"),
        ("/inputs", "custom_inputs"),
        ("/parameters/x/y", "parameters.x.y"),
    ],
)
def test_core_pointers_are_translated_to_request_params(pointer: str, param: str) -> None:
    assert responses_request(places=("input[4]",)).param(pointer) == param


def test_cancelled_run_has_the_error_code_cancelled() -> None:
    assert openai.error_object(RunCancelled())["code"] == "cancelled"
