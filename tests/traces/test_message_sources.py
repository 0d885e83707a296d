"""Every known attribute of messages, inputs and outputs, alone on a span, is read."""

from typing import Any

import pytest

from palaver.traces.model import SpanEvent
from tests.traces.mapped_span import field_of, record, text


def message_json(role: str, *parts: Any) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "text": one} if isinstance(one, str) else one for one in parts]}


def call_part(arguments: str = '{"a":1}', call_id: str = "c") -> dict[str, Any]:
    return {"type": "tool-call", "call_id": call_id, "name": "f", "arguments": arguments}


def result_part(output: Any, call_id: str = "c") -> dict[str, Any]:
    return {"type": "tool-result", "call_id": call_id, "output": output}


HI, HELLO = [message_json("user", "hi")], [message_json("assistant", "hello")]
CHAT_HI, CHAT_HELLO = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}
GEN_HI = {"role": "user", "parts": [{"type": "text", "content": "hi"}]}
GEN_HELLO = {"role": "assistant", "parts": [{"type": "text", "content": "hello"}]}
GEN_CALL = {"type": "tool_call", "id": "c", "name": "f", "arguments": {"a": 1}}
OI_IN, OI_OUT = "llm.input_messages.0.message.", "llm.output_messages.0.message."
MESSAGES: list[tuple[dict[str, Any], str, Any]] = [
    ({"gen_ai.input.messages": text([GEN_HI])}, "messages_in", HI),
    ({"gen_ai.input.messages": [GEN_HI]}, "messages_in", HI),
    ({"gen_ai.input.messages": text([CHAT_HI])}, "messages_in", HI),
    ({"gen_ai.output.messages": text([GEN_HELLO])}, "messages_out", HELLO),
    (
        {"gen_ai.system_instructions": '[{"type": "text", "content": "Be brief."}]', "gen_ai.prompt": "hi"},
        "messages_in",
        [message_json("system", "Be brief."), *HI],
    ),
    ({"gen_ai.prompt": "hi"}, "messages_in", HI),
    ({"gen_ai.prompt": text([CHAT_HI])}, "messages_in", HI),
    ({"gen_ai.completion": "hello"}, "messages_out", HELLO),
    ({"pydantic_ai.all_messages": text([GEN_HI, GEN_HELLO])}, "messages_in", HI),
    ({"pydantic_ai.all_messages": text([GEN_HI, GEN_HELLO])}, "messages_out", HELLO),
    (
        {"pydantic_ai.all_messages": text([GEN_HI, GEN_HELLO] * 2), "pydantic_ai.new_message_index": 2},
        "messages_in",
        [*HI, *HELLO, *HI],
    ),
    ({"events": text([{"event.name": "gen_ai.user.message", **CHAT_HI}])}, "messages_in", HI),
    ({"events": text([{"event.name": "gen_ai.choice", "message": CHAT_HELLO}])}, "messages_out", HELLO),
    (
        {
            "all_messages_events": text(
                [
                    {"event.name": "gen_ai.user.message", **CHAT_HI},
                    {"event.name": "gen_ai.assistant.message", **CHAT_HELLO},
                ]
            )
        },
        "messages_out",
        HELLO,
    ),
    ({OI_IN + "role": "user", OI_IN + "content": "hi"}, "messages_in", HI),
    ({OI_OUT + "role": "assistant", OI_OUT + "content": "hello"}, "messages_out", HELLO),
    (
        {
            OI_IN + "role": "user",
            OI_IN + "contents.0.message_content.type": "text",
            OI_IN + "contents.0.message_content.text": "hi",
        },
        "messages_in",
        HI,
    ),
    (
        {
            OI_OUT + "tool_calls.0.tool_call.id": "c",
            OI_OUT + "tool_calls.0.tool_call.function.name": "f",
            OI_OUT + "tool_calls.0.tool_call.function.arguments": '{"a":1}',
        },
        "messages_out",
        [message_json("assistant", call_part())],
    ),
    (
        {OI_IN + "role": "tool", OI_IN + "content": "4", OI_IN + "tool_call_id": "c"},
        "messages_in",
        [message_json("tool", result_part("4"))],
    ),
    ({"llm.prompts.0.prompt.text": "hi"}, "messages_in", HI),
    ({"llm.choices.0.completion.text": "hello"}, "messages_out", HELLO),
    ({"input.value": text({"messages": [CHAT_HI]})}, "messages_in", HI),
    ({"output.value": text({"choices": [{"message": CHAT_HELLO}]})}, "messages_out", HELLO),
    ({"ai.prompt.messages": text([CHAT_HI])}, "messages_in", HI),
    ({"ai.prompt": text({"prompt": "hi"})}, "messages_in", HI),
    (
        {"ai.prompt": text({"system": "Be brief.", "messages": [CHAT_HI]})},
        "messages_in",
        [message_json("system", "Be brief."), *HI],
    ),
    ({"ai.response.text": "hello"}, "messages_out", HELLO),
    ({"ai.result.text": "hello"}, "messages_out", HELLO),
    ({"ai.response.reasoning": "hm"}, "messages_out", [message_json("assistant", {"type": "reasoning", "text": "hm"})]),
    *(
        (
            {f"ai.{prefix}.toolCalls": text([{"toolCallId": "c", "toolName": "f", argument_key: {"a": 1}}])},
            "messages_out",
            [message_json("assistant", call_part())],
        )
        for prefix, argument_key in (("response", "input"), ("result", "args"))
    ),
    ({"ag.data.inputs.prompt.0.role": "user", "ag.data.inputs.prompt.0.content": "hi"}, "messages_in", HI),
    ({"ag.data.outputs.completion.0.content": "hello"}, "messages_out", HELLO),
    ({"mlflow.spanInputs": text({"messages": [CHAT_HI]})}, "messages_in", HI),
    ({"mlflow.spanOutputs": text({"choices": [{"message": CHAT_HELLO}]})}, "messages_out", HELLO),
    ({"gen_ai.prompt.0.content": "hi"}, "messages_in", HI),
    ({"gen_ai.completion.0.content": "hello"}, "messages_out", HELLO),
    (
        {
            "gen_ai.completion.0.tool_calls.0.id": "c",
            "gen_ai.completion.0.tool_calls.0.name": "f",
            "gen_ai.completion.0.tool_calls.0.arguments": '{"a":1}',
        },
        "messages_out",
        [message_json("assistant", call_part())],
    ),
    (
        {"gen_ai.prompt.0.role": "tool", "gen_ai.prompt.0.content": "4", "gen_ai.prompt.0.tool_call_id": "c"},
        "messages_in",
        [message_json("tool", result_part("4"))],
    ),
    ({"gen_ai.prompt.0.content": '[{"type": "text", "text": "hi"}]'}, "messages_in", HI),
]


@pytest.mark.parametrize(("attributes", "field", "messages"), MESSAGES, ids=repr)
def test_each_attribute_with_messages_is_read(attributes: dict[str, Any], field: str, messages: Any) -> None:
    assert field_of(attributes, field) == messages


PARTS: list[tuple[dict[str, Any], Any]] = [
    ({"type": "text", "content": "hi"}, {"type": "text", "text": "hi"}),
    ({"type": "reasoning", "content": "hm"}, {"type": "reasoning", "text": "hm"}),
    ({"type": "thinking", "content": "hm"}, {"type": "reasoning", "text": "hm"}),
    (GEN_CALL, call_part()),
    ({**GEN_CALL, "arguments": '{"a": 1}'}, call_part('{"a": 1}')),
    ({"type": "server_tool_call", "id": "c", "name": "f", "server_tool_call": {"a": 1}}, call_part()),
    ({"type": "uri", "uri": "https://x.example/a.png", "mime_type": "image/png"}, "url"),
    ({"type": "blob", "content": "aGk=", "mime_type": "text/plain"}, "data"),
    ({"type": "file", "file_id": "file-1"}, "file_id"),
]


@pytest.mark.parametrize(("part", "expected"), PARTS, ids=repr)
def test_each_gen_ai_part_type_is_read(part: dict[str, Any], expected: Any) -> None:
    attributes = {"gen_ai.output.messages": text([{"role": "assistant", "parts": [part]}])}
    (message,) = field_of(attributes, "messages_out")

    (actual,) = message["parts"]
    assert actual == expected if isinstance(expected, dict) else (actual["type"], expected in actual) == ("file", True)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "tool_call_response", "id": "c", "response": {"b": 2}},
        {"type": "tool_call_response", "id": "c", "result": {"b": 2}},
        {"type": "server_tool_call_response", "id": "c", "server_tool_call_response": {"b": 2}},
    ],
)
def test_each_gen_ai_tool_result_becomes_a_tool_message(part: dict[str, Any]) -> None:
    attributes = {"gen_ai.input.messages": text([{"role": "user", "parts": [part]}])}

    assert field_of(attributes, "messages_in") == [message_json("tool", result_part({"b": 2}))]


def test_an_unknown_gen_ai_part_becomes_a_data_part_named_after_its_type() -> None:
    attributes = {"gen_ai.input.messages": text([{"role": "user", "parts": [{"type": "smell", "of": "tea"}]}])}
    ((part,),) = [message["parts"] for message in field_of(attributes, "messages_in")]

    assert part["type"] == "data"
    assert part["name"].endswith("smell")


DOCUMENT = {"id": "1", "content": "x", "score": 0.5, "metadata": {"m": 1}}
VALUES: list[tuple[dict[str, Any], str, Any]] = [
    ({"palaver.inputs": '{"a": 1}'}, "inputs", {"a": 1}),
    ({"palaver.value": '{"b": 2}'}, "outputs", {"b": 2}),
    ({"gen_ai.retrieval.query.text": "q"}, "inputs", {"query": "q"}),
    ({"gen_ai.retrieval.documents": text([DOCUMENT])}, "outputs", {"documents": [DOCUMENT]}),
    ({"final_result": '{"b": 2}'}, "outputs", {"b": 2}),
    (
        {
            "retrieval.documents.0.document.id": "1",
            "retrieval.documents.0.document.content": "x",
            "retrieval.documents.0.document.score": 0.5,
            "retrieval.documents.0.document.metadata": '{"m": 1}',
        },
        "outputs",
        {"documents": [DOCUMENT]},
    ),
    ({"reranker.query": "q"}, "inputs", {"query": "q"}),
    (
        {"reranker.output_documents.0.document.content": "x"},
        "outputs",
        {"documents": [{"content": "x"}]},
    ),
    ({"input.value": "4", "input.mime_type": "application/json"}, "inputs", 4),
    ({"input.value": "4"}, "inputs", "4"),
    ({"ai.prompt": text({"prompt": "hi"})}, "inputs", {"prompt": "hi"}),
    ({"ai.response.object": '{"b": 2}'}, "outputs", {"b": 2}),
    ({"ai.value": '"x"'}, "inputs", "x"),
    ({"ai.values": ['"x"', '"y"']}, "inputs", ["x", "y"]),
    ({"ag.data.inputs": '@ag.type=json:{"a": 1}'}, "inputs", {"a": 1}),
    ({"ag.data.inputs": "@ag.type=none:"}, "inputs", None),
    ({"ag.data.inputs.a": 1}, "inputs", {"a": 1}),
    ({"ag.data.outputs": '{"__default__": "x"}'}, "outputs", "x"),
    ({"mlflow.spanInputs": '"x"'}, "inputs", "x"),
    ({"mlflow.spanOutputs": '{"b": 2}'}, "outputs", {"b": 2}),
    ({"traceloop.entity.input": '{"inputs": {"a": 1}, "tags": []}'}, "inputs", {"a": 1}),
    ({"traceloop.entity.input": '{"args": [], "kwargs": {"a": 1}}'}, "inputs", {"a": 1}),
    ({"traceloop.entity.output": '{"outputs": {"b": 2}}'}, "outputs", {"b": 2}),
]


@pytest.mark.parametrize(("attributes", "field", "value"), VALUES, ids=repr)
def test_each_attribute_with_inputs_or_outputs_is_read(attributes: dict[str, Any], field: str, value: Any) -> None:
    assert field_of(attributes, field) == value


EVENTS: list[tuple[str, dict[str, Any], str, Any]] = [
    ("gen_ai.system.message", {"content": "Be brief."}, "messages_in", [message_json("system", "Be brief.")]),
    ("gen_ai.user.message", {"content": "hi"}, "messages_in", HI),
    ("gen_ai.assistant.message", {"content": "hello"}, "messages_in", HELLO),
    ("gen_ai.tool.message", {"content": "4", "id": "c"}, "messages_in", [message_json("tool", result_part("4"))]),
    ("gen_ai.choice", {"message": "hello"}, "messages_out", HELLO),
    ("gen_ai.choice", {"message": text(CHAT_HELLO)}, "messages_out", HELLO),
    ("gen_ai.choice", {"gen_ai.event.content": text({"message": CHAT_HELLO})}, "messages_out", HELLO),
    ("gen_ai.choice", {"message": "hello", "finish_reason": "end_turn"}, "finish", "stop"),
    ("gen_ai.user.message", {"gen_ai.event.content": '{"content": "hi"}'}, "messages_in", HI),
    ("gen_ai.content.prompt", {"gen_ai.prompt": text([CHAT_HI])}, "messages_in", HI),
    ("gen_ai.content.completion", {"gen_ai.completion": text([CHAT_HELLO])}, "messages_out", HELLO),
    (
        "gen_ai.client.inference.operation.details",
        {"gen_ai.input.messages": text([GEN_HI])},
        "messages_in",
        HI,
    ),
    ("gen_ai.client.inference.operation.details", {"gen_ai.request.model": "m"}, "model", "m"),
]


@pytest.mark.parametrize(("event", "body", "field", "value"), EVENTS, ids=repr)
def test_each_span_event_is_read(event: str, body: dict[str, Any], field: str, value: Any) -> None:
    assert record({}, SpanEvent(event, None, body))[field] == value
