"""POST /v1/chat/completions: parsing of requests, and errors."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core.messages import Data, File, Message, Reasoning, Refusal, Text, ToolCall
from palaver.core.runs import Call
from palaver.errors import FaultyCall, InvalidJson, InvalidMessages, MissingInput, PalaverError, WorkflowNotFound
from palaver.protocols.chat_completions import adapter as chat_completions
from palaver.protocols.chat_completions.adapter import ChatRequest
from palaver.server.error_responses import error_status
from tests.protocols.fixed_run import HISTORY, find, json, request

USER = {"role": "user", "content": "Why?"}
TRACE_PARENT = "00-0ef1d6b784c34b8a705bae5974e51954-a1b2c3d4e5f60718-01"


def decode(workflow: str | None = None, **body: Any) -> tuple[Call, ChatRequest]:
    return chat_completions.decode(request({"messages": HISTORY, **body}, workflow=workflow), find)


def decode_messages(*given: Any) -> tuple[Message, ...]:
    return chat_completions.decode(request({"messages": given}), find)[0].messages


def decode_options(**body: Any) -> Any:
    return decode(**body)[0].options


def decode_error(body: Any, workflow: str | None = None) -> dict[str, Any]:
    """Return the status, type, code and param of the error that answers a rejected request."""
    with pytest.raises(PalaverError) as raised:
        chat_completions.decode(request(body, workflow=workflow), find)
    answer = chat_completions.encode_error(raised.value, None, status=error_status(raised.value, "b"))
    document = json(answer)
    error = document["error"]
    assert document["detail"] == error["message"]
    return {"status": answer.status, "type": error["type"], "code": error["code"], "param": error["param"]}


def invalid_request(code: str, param: str | None) -> dict[str, Any]:
    return {"status": 400, "type": "invalid_request", "code": code, "param": param}


# The call


def test_minimal_request_calls_the_default_workflow() -> None:
    assert decode() == (Call(workflow="tutor", messages=(Message.user("Why?"),)), ChatRequest(model="tutor"))


def test_request_with_all_fields_is_parsed() -> None:
    body = {
        "model": "tutor",
        "messages": HISTORY,
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": {"name": "add", "parameters": {}}}],
        "custom_inputs": {"subject": "maths", "thread_id": "t-1"},
        "parameters": {"tone": "dry"},
        "context": {"conversation_id": "t-2", "user_id": "ada"},
        "metadata": {"team": "blue"},
        "user": "u-1",
        "store": True,
        "unheard_of": [1],
    }

    call, parsed = chat_completions.decode(request(body, traceparent=TRACE_PARENT), find)

    assert call == Call(
        workflow="tutor",
        messages=(Message.user("Why?"),),
        inputs={"subject": "maths", "thread_id": "t-1"},
        parameters={"tone": "dry"},
        session="t-1",
        user="ada",
        client_tools=frozenset({"add"}),
        options={"tools": [{"type": "function", "name": "add", "parameters": {}}]},
        tags={"team": "blue"},
        trace_parent=TRACE_PARENT,
    )
    assert parsed == ChatRequest(model="tutor", stream=True, include_usage=True, client_tools=frozenset({"add"}))


def test_model_selects_the_workflow_only_on_the_root_route() -> None:
    by_model, echoed = decode(model="headline")
    by_path, free = decode(workflow="tutor", model="gpt-9")
    by_default, named = decode(model=None)

    assert (by_model.workflow, echoed.model) == ("headline", "headline")
    assert (by_path.workflow, free.model) == ("tutor", "gpt-9")
    assert (by_default.workflow, named.model) == ("tutor", "tutor")
    assert decode_error({"model": "gpt-9", "messages": HISTORY}) == {
        "status": 404,
        "type": "not_found",
        "code": "model_not_found",
        "param": None,
    }


def test_non_chat_workflow_gets_inputs_but_no_messages() -> None:
    call, _ = decode(workflow="headline", messages="whatever", custom_inputs={"text": "Hi"})

    assert call == Call(workflow="headline", inputs={"text": "Hi"})


# Messages


def test_chat_completions_messages_are_parsed() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{ "a":1}'}}
    image = {"type": "image_url", "image_url": {"url": "https://example.org/x.png", "detail": "low"}}
    history = [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
        {"role": "user", "content": [{"type": "text", "text": "This?"}, image], "name": "ada"},
        {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
        {"role": "assistant", "refusal": "No."},
        {"role": "assistant", "content": "Yes.", "palaver": {"data": [{"name": "chart", "value": 1}]}},
        {"role": "user", "content": ""},
    ]

    assert decode_messages(*history) == (
        Message.system("Be brief."),
        Message(role="developer", parts=(Text(text="Be kind."),)),
        Message(
            role="user",
            parts=(Text(text="This?"), File(media_type="image/*", url="https://example.org/x.png", detail="low")),
            name="ada",
        ),
        Message.assistant(Reasoning(text="Hm."), ToolCall(call_id="c1", name="add", arguments='{ "a":1}')),
        Message.tool("c1", "2"),
        Message.assistant(Refusal(text="No.")),
        Message.assistant("Yes.", Data(name="chart", value=1)),
        Message.user(),
    )


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": ""},
        {"type": "input_text", "text": "x"},
        {"type": "image_url", "image_url": "https://x"},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
        {"type": "file", "file": {"file_data": "AA==", "filename": "x.pdf"}},
        {"type": "file", "file": {"file_id": "f1"}},
        {"type": "refusal", "refusal": "No."},
    ],
)
def test_content_part_is_accepted(part: Any) -> None:
    assert len(decode_messages({"role": "user", "content": [part]})) == 1


def test_message_keys_of_other_protocols_are_ignored() -> None:
    call = {"id": "c1", "function": {"name": "add"}}
    stray = {**USER, "parts": [{"type": "text", "text": "Else?"}], "text": "?", "tool_calls": [call], "refusal": "No."}

    assert decode_messages(stray) == (Message.user("Why?"),)


def test_legacy_function_result_answers_the_last_open_call_of_that_name() -> None:
    function = {"name": "add", "arguments": "{}"}
    calls = [{"id": call_id, "function": {"name": name}} for call_id, name in (("c1", "add"), ("c2", "sub"))]

    parsed = decode_messages(
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "assistant", "content": None, "function_call": function},
        {"role": "function", "name": "add", "content": "2"},
        {"role": "function", "name": "add", "content": "1"},
    )

    assert [(message.role, [result.call_id for result in message.tool_results]) for message in parsed[2:]] == [
        ("tool", ["call_1"]),
        ("tool", ["c1"]),
    ]
    assert parsed[1] == Message.assistant(ToolCall(call_id="call_1", name="add", arguments="{}"))


def test_call_id_can_be_reused_after_its_result() -> None:
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "function": {"name": "add"}}]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "1"}

    assert len(decode_messages(call, result, call, result)) == 4


def assistant(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "x", **fields}


@pytest.mark.parametrize(
    ("given", "code", "param"),
    [
        pytest.param({}, "invalid_type", "messages", id="none"),
        pytest.param({"messages": None}, "invalid_type", "messages", id="null"),
        pytest.param({"messages": []}, "invalid_type", "messages", id="empty"),
        pytest.param({"messages": "Hi"}, "invalid_type", "messages", id="text"),
        pytest.param({"messages": [USER, "Hi"]}, "invalid_type", "messages[1]", id="no object"),
        pytest.param({"messages": [{"content": "x"}]}, "invalid_type", "messages[0].role", id="no role"),
        pytest.param({"messages": [{"role": 1}]}, "invalid_type", "messages[0].role", id="a number as role"),
        pytest.param({"messages": [{"role": "bot"}]}, "invalid_value", "messages[0].role", id="an unknown role"),
        pytest.param({"messages": [{"role": "user"}]}, "invalid_type", "messages[0].content", id="no content"),
        pytest.param(
            {"messages": [{"role": "system", "content": None}]},
            "invalid_type",
            "messages[0].content",
            id="null content",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": {}}]}, "invalid_type", "messages[0].content", id="object content"
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": ["x"]}]}, "invalid_type", "messages[0].content[0]", id="bare text"
        ),
        pytest.param(
            {"messages": [USER, USER, {"role": "user", "content": [{"type": "video"}]}]},
            "invalid_value",
            "messages[2].content[0]",
            id="an unknown part",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]},
            "invalid_value",
            "messages[0].content[0]",
            id="a part that says nothing",
        ),
        pytest.param(
            {"messages": [assistant(tool_calls="x")]},
            "invalid_type",
            "messages[0].tool_calls",
            id="calls that are none",
        ),
        pytest.param(
            {"messages": [assistant(tool_calls=[{"function": {"name": "add"}}])]},
            "invalid_type",
            "messages[0].tool_calls[0]",
            id="a call without id",
        ),
        pytest.param(
            {"messages": [assistant(tool_calls=[{"type": "custom", "id": "c", "custom": {}}])]},
            "invalid_value",
            "messages[0].tool_calls[0].type",
            id="a custom call",
        ),
        pytest.param(
            {"messages": [assistant(tool_calls=[{"id": "c", "function": {"name": "add", "arguments": {}}}])]},
            "invalid_type",
            "messages[0].tool_calls[0].function.arguments",
            id="arguments as a value",
        ),
        pytest.param(
            {"messages": [assistant(function_call={})]},
            "invalid_type",
            "messages[0].function_call.name",
            id="a legacy call without name",
        ),
        pytest.param(
            {"messages": [assistant(function_call={"name": "add", "arguments": 1})]},
            "invalid_type",
            "messages[0].function_call.arguments",
            id="legacy arguments as a value",
        ),
        pytest.param(
            {"messages": [{"role": "tool", "content": "x"}]},
            "invalid_type",
            "messages[0].tool_call_id",
            id="a result of nothing",
        ),
        pytest.param(
            {"messages": [{"role": "tool", "content": "x", "tool_call_id": "c"}]},
            "unknown_call",
            "messages[0].tool_call_id",
            id="a result of an unknown call",
        ),
        pytest.param(
            {"messages": [{"role": "function", "content": "x"}]},
            "invalid_type",
            "messages[0].name",
            id="a legacy result without name",
        ),
        pytest.param(
            {"messages": [{"role": "function", "content": "x", "name": "add"}]},
            "unknown_call",
            "messages[0]",
            id="a legacy result of nothing",
        ),
    ],
)
def test_invalid_messages_are_rejected_with_code_and_param(given: Any, code: str, param: str) -> None:
    assert decode_error(given) == invalid_request(code, param)


def test_second_result_of_a_call_is_rejected() -> None:
    call = {"id": "c1", "function": {"name": "add"}}
    result = {"role": "tool", "tool_call_id": "c1", "content": "1"}

    assert decode_error({"messages": [assistant(tool_calls=[call]), result, result]}) == invalid_request(
        "unknown_call", "messages[2].tool_call_id"
    )


# Options


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"temperature": 0.5, "top_p": 1, "seed": 7}, {"temperature": 0.5, "top_p": 1, "seed": 7}),
        ({"presence_penalty": -2, "frequency_penalty": 2.0}, {"presence_penalty": -2, "frequency_penalty": 2.0}),
        ({"stop": "x"}, {"stop": ["x"]}),
        ({"stop": ["x", "y"]}, {"stop": ["x", "y"]}),
        ({"logprobs": False, "top_logprobs": 0, "stop": [], "stream_options": {"include_obfuscation": False}}, {}),
        ({"logit_bias": {"50256": -100}}, {"logit_bias": {"50256": -100}}),
        ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
        ({"service_tier": "flex", "prompt_cache_key": "k"}, {"service_tier": "flex", "prompt_cache_key": "k"}),
        ({"max_tokens": 5}, {"max_output_tokens": 5}),
        ({"max_tokens": 5, "max_completion_tokens": 6}, {"max_output_tokens": 6}),
        ({"reasoning_effort": "low"}, {"reasoning": {"effort": "low"}}),
        ({"verbosity": "low"}, {"text": {"verbosity": "low"}}),
        ({"response_format": {"type": "json_object"}}, {"text": {"format": {"type": "json_object"}}}),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}},
            {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}}}},
        ),
        ({"tool_choice": "required"}, {"tool_choice": "required"}),
        (
            {"tool_choice": {"type": "function", "function": {"name": "add"}}},
            {"tool_choice": {"type": "function", "name": "add"}},
        ),
        ({"function_call": "none"}, {"tool_choice": "none"}),
        ({"function_call": {"name": "add"}}, {"tool_choice": {"type": "function", "name": "add"}}),
        ({"function_call": "none", "tool_choice": "auto"}, {"tool_choice": "auto"}),
        ({"functions": [{"name": "add"}]}, {"tools": [{"type": "function", "name": "add"}]}),
        ({"tools": [{"type": "web_search"}]}, {"tools": [{"type": "web_search"}]}),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, {"tools": [{"type": "custom", "name": "x"}]}),
        ({"n": 1, "modalities": ["text"], "store": True, "temperature": None}, {}),
        ({"tools": []}, {}),
    ],
    ids=str,
)
def test_options_are_translated_to_the_names_of_responses(fields: Any, expected: Any) -> None:
    assert decode_options(**fields) == expected


def test_tools_and_legacy_functions_are_client_tools() -> None:
    tools = [{"type": "function", "function": {"name": "add"}}, {"type": "custom", "custom": {"name": "sub"}}]
    call, parsed = decode(tools=tools, functions=[{"name": "mul"}])

    assert call.client_tools == parsed.client_tools == frozenset({"add", "sub", "mul"})


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"stream": "true"}, "invalid_type", "stream"),
        ({"stream": 1}, "invalid_type", "stream"),
        ({"stream_options": []}, "invalid_type", "stream_options"),
        ({"stream_options": {"include_usage": "yes"}}, "invalid_type", "stream_options.include_usage"),
        ({"model": 7}, "invalid_type", "model"),
        ({"model": "x" * 257}, "string_too_long", "model"),
        ({"n": 2}, "unsupported_value", "n"),
        ({"n": 0}, "invalid_value", "n"),
        ({"n": "1"}, "invalid_type", "n"),
        ({"modalities": ["text", "audio"]}, "unsupported_value", "modalities"),
        ({"audio": {"voice": "x"}}, "unsupported_value", "audio"),
        ({"temperature": 2.1}, "invalid_value", "temperature"),
        ({"temperature": "0"}, "invalid_type", "temperature"),
        ({"top_p": -1}, "invalid_value", "top_p"),
        ({"max_tokens": 0}, "invalid_value", "max_tokens"),
        ({"max_completion_tokens": 1.5}, "invalid_type", "max_completion_tokens"),
        ({"top_logprobs": 21}, "invalid_value", "top_logprobs"),
        ({"logprobs": 1}, "invalid_type", "logprobs"),
        ({"stop": [1]}, "invalid_type", "stop"),
        ({"stop": ""}, "invalid_value", "stop"),
        ({"stop": list("abcde")}, "invalid_value", "stop"),
        ({"stop": "x" * 257}, "invalid_value", "stop"),
        ({"stream_options": {"include_obfuscation": True}}, "unsupported_value", "stream_options.include_obfuscation"),
        ({"store": 1}, "invalid_type", "store"),
        ({"stop": 1}, "invalid_type", "stop"),
        ({"logit_bias": []}, "invalid_type", "logit_bias"),
        ({"tools": {}}, "invalid_type", "tools"),
        ({"tools": ["x"]}, "invalid_type", "tools[0]"),
        ({"tools": [{"type": "function"}] * 129}, "invalid_value", "tools"),
        ({"functions": [{}]}, "invalid_type", "functions[0]"),
        ({"tool_choice": "any"}, "invalid_value", "tool_choice"),
        ({"tool_choice": {}}, "invalid_value", "tool_choice"),
        ({"tool_choice": 1}, "invalid_type", "tool_choice"),
        ({"function_call": "required"}, "invalid_value", "function_call"),
        ({"function_call": 1}, "invalid_type", "function_call"),
        ({"parallel_tool_calls": 0}, "invalid_type", "parallel_tool_calls"),
        ({"response_format": "json"}, "invalid_type", "response_format"),
        ({"response_format": {}}, "invalid_type", "response_format.type"),
        ({"response_format": {"type": "xml"}}, "invalid_value", "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "invalid_type", "response_format.json_schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x" * 65}}},
            "string_too_long",
            "response_format.json_schema.name",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": 1}}}},
            "invalid_value",
            "response_format.json_schema.schema",
        ),
        ({"reasoning_effort": 1}, "invalid_type", "reasoning_effort"),
        ({"custom_inputs": []}, "invalid_type", "custom_inputs"),
        ({"parameters": 1}, "invalid_type", "parameters"),
        ({"metadata": {"a": 1}}, "invalid_type", "metadata.a"),
    ],
    ids=str,
)
def test_invalid_field_is_rejected_with_code_and_param(fields: Any, code: str, param: str) -> None:
    assert decode_error({"messages": HISTORY, **fields}) == invalid_request(code, param)


@pytest.mark.parametrize(
    ("body", "code", "param"), [(b"{", "invalid_json", None), ([], "invalid_type", None), ("x", "invalid_type", None)]
)
def test_body_that_is_not_a_json_object_is_rejected(body: Any, code: str, param: str | None) -> None:
    assert decode_error(body) == invalid_request(code, param)


@pytest.mark.parametrize(
    ("pointer", "param"),
    [
        ("/inputs/subject", "custom_inputs.subject"),
        ("/inputs", "custom_inputs"),
        ("/parameters/tone", "parameters.tone"),
        ("/messages/3", "messages[3]"),
    ],
)
def test_workflow_errors_name_the_field_of_the_request(pointer: str, param: str) -> None:
    error = FaultyCall([MissingInput("Not so.", pointer=pointer), InvalidMessages("Nor so.", pointer="/messages")])

    answer = chat_completions.encode_error(error, ChatRequest(), status=400)

    document = {"message": "Not so.", "type": "invalid_request", "code": "missing_input", "param": param}
    assert (answer.status, json(answer)) == (400, {"error": document, "detail": "Not so."})


def test_invalid_json_is_rejected_before_the_workflow_is_looked_up() -> None:
    with pytest.raises(InvalidJson):
        chat_completions.decode(request(b"{", workflow="nobody"), find)
    with pytest.raises(WorkflowNotFound):
        chat_completions.decode(request({}, workflow="nobody"), find)


ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["user", "assistant", "tool", "function", "text", "c1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "role content type text name tool_calls tool_call_id function_call function id arguments".split()
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
FIELDS = st.dictionaries(
    st.sampled_from(
        "messages model stream stream_options n tools functions tool_choice function_call response_format stop"
        " logprobs".split()
    ),
    ANY_JSON,
)


@given(FIELDS | ANY_JSON, st.lists(ANY_JSON, max_size=3))
def test_any_body_is_accepted_or_rejected_with_400(body: Any, history: list[Any]) -> None:
    for sent in (body, {**(body if isinstance(body, dict) else {}), "messages": history}):
        assert _outcome(sent) in ("taken", 400)


def _outcome(body: Any) -> object:
    try:
        call, _ = chat_completions.decode(request(body, workflow="tutor"), find)
    except PalaverError as error:
        return error_status(error, "b")
    return "taken" if call.messages else "empty"
