"""Values around messages, as stored by applications, tracers and providers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from benchmarks.payloads import writers
from benchmarks.payloads.writers import Object, Writer

Envelope = Callable[[list[Object]], Any]
"""Puts messages into a value."""

_USAGE = {"prompt_tokens": 412, "completion_tokens": 58, "total_tokens": 470}
_SPAN = {"trace_id": "31d6cfe04b9011ec800142010a8000b0", "span_id": "31d6cfe04b9011ec", "span_type": "chat"}


def bare(messages: list[Object]) -> Any:
    return messages


def request(messages: list[Object]) -> Any:
    return {"model": "small-4", "temperature": 0.2, "stream": True, "messages": messages}


def inputs_prompt(messages: list[Object]) -> Any:
    return {"inputs": {"prompt": messages, "country": "Norway"}, "outputs": "See the timetable.", "score": 0.5}


def case(messages: list[Object]) -> Any:
    """A row of a test set."""
    return {"id": 17, "inputs": {"messages": messages}, "expected": "By ferry.", "tags": ["travel", "boats"]}


def agenta(messages: list[Object]) -> Any:
    data = {"inputs": {"messages": messages, "context": "travel"}, "outputs": "By ferry.", "parameters": {"top_p": 1}}
    return {**_SPAN, "data": data, "status": {"code": "OK"}}


def agenta_span(messages: list[Object]) -> Any:
    data = {"inputs": {"prompt": messages}, "outputs": {"text": "By ferry."}}
    return {**_SPAN, "attributes": {"ag": {"type": {"node": "task"}, "data": data, "metrics": {"tokens": _USAGE}}}}


def state(messages: list[Object]) -> Any:
    """A checkpoint of a graph."""
    return {"values": {"messages": messages, "route": "travel"}, "next": [], "metadata": {"step": 4, "source": "loop"}}


def history(messages: list[Object]) -> Any:
    return {"user_id": "u_1842", "history": messages, "question": "And how do I get back?"}


def exchange(messages: list[Object]) -> Any:
    """A call as logged by a proxy."""
    response = {"status": 200, "body": {"id": "cmpl-7", "usage": _USAGE}}
    return {"at": 1772356500, "request": {"model": "small-4", "messages": messages}, "response": response}


def log_body(messages: list[Object]) -> Any:
    return {"timestamp": "2026-03-01T09:15:00Z", "severity": "INFO", "body": {"messages": messages}, "resource": {}}


def batch(messages: list[Object]) -> Any:
    return {"messages": [messages], "invocation_params": {"model": "small-4", "stop": None}}


def choices(messages: list[Object]) -> Any:
    entries = [{"index": i, "message": message, "finish_reason": "stop"} for i, message in enumerate(messages)]
    return {"id": "chatcmpl-7", "object": "chat.completion", "model": "small-4", "choices": entries, "usage": _USAGE}


def deltas(messages: list[Object]) -> Any:
    entries = [{"index": i, "delta": message, "finish_reason": None} for i, message in enumerate(messages)]
    return {"id": "chatcmpl-7", "object": "chat.completion.chunk", "model": "small-4", "choices": entries}


def candidates(messages: list[Object]) -> Any:
    entries = [{"content": message, "finishReason": "STOP", "index": index} for index, message in enumerate(messages)]
    return {"candidates": entries, "usageMetadata": {"totalTokenCount": 470}, "modelVersion": "small-4"}


def generations(messages: list[Object]) -> Any:
    entries = [
        {"text": "", "generation_info": None, "type": "ChatGeneration", "message": message} for message in messages
    ]
    return {"generations": [entries], "llm_output": {"token_usage": _USAGE}, "run": None}


def contents(messages: list[Object]) -> Any:
    instruction = {"parts": [{"text": "You know every ferry."}]}
    return {"systemInstruction": instruction, "contents": messages, "generationConfig": {"temperature": 0.2}}


def response_input(items: list[Object]) -> Any:
    return {"model": "small-4", "instructions": "You know every ferry.", "input": items, "store": False, "tools": []}


def response_output(items: list[Object]) -> Any:
    usage = {"input_tokens": 412, "output_tokens": 58, "total_tokens": 470}
    return {"id": "resp_7", "object": "response", "status": "completed", "output": items, "usage": usage, "error": None}


def anthropic_answer(messages: list[Object]) -> Any:
    usage = {"input_tokens": 412, "output_tokens": 58}
    return {"id": "msg_7", "type": "message", **messages[0], "stop_reason": "end_turn", "usage": usage}


def ui_request(messages: list[Object]) -> Any:
    return {"id": "chat-7", "trigger": "submit-message", "messageId": None, "messages": messages}


def run_record(messages: list[Object]) -> Any:
    return {"id": "run_7", "workflow": "ferry", "status": "finished", "inputs": {}, "messages": messages}


def span_messages(messages: list[Object]) -> Any:
    """Attributes that hold values, as OpenTelemetry's logs may."""
    about = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "small-4", "gen_ai.usage.input_tokens": 412}
    return {**_SPAN, "attributes": {**about, "gen_ai.input.messages": messages}}


def llm_messages(messages: list[Object]) -> Any:
    return {**_SPAN, "attributes": {"llm.model_name": "small-4", "llm.input_messages": messages}}


# Attributes of spans are texts, numbers and flags; anything else is a JSON text.


def input_value(messages: list[Object]) -> Any:
    text = _json_text({"messages": messages, "model": "small-4"})
    return {**_SPAN, "attributes": {"input.value": text, "input.mime_type": "application/json"}}


def mlflow_inputs(messages: list[Object]) -> Any:
    return {"mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanInputs": _json_text({"request": {"input": messages}})}


def traceloop_input(messages: list[Object]) -> Any:
    return {"traceloop.span.kind": "workflow", "traceloop.entity.input": _json_text({"inputs": {"messages": messages}})}


def gen_ai_text(messages: list[Object]) -> Any:
    return {**_SPAN, "attributes": {"gen_ai.request.model": "small-4", "gen_ai.input.messages": _json_text(messages)}}


def ai_prompt_text(messages: list[Object]) -> Any:
    return {"operation.name": "ai.streamText", "ai.model.id": "small-4", "ai.prompt.messages": _json_text(messages)}


_ANY = (bare, request, inputs_prompt, case, agenta, agenta_span, history, exchange, log_body)
CONVERSATION_ENVELOPES: Mapping[Writer, Sequence[Envelope]] = {
    writers.chat_completions: (*_ANY, *_ANY, state, batch),
    writers.open_inference: (llm_messages,),
    writers.senders: (bare, history),
    writers.anthropic: (*_ANY, run_record),
    writers.responses: (bare, response_input, response_input, exchange, case, agenta_span),
    writers.gemini: (bare, contents, contents, contents, history, case),
    writers.gen_ai: (bare, span_messages, span_messages, log_body),
    writers.ui_message: (bare, ui_request, ui_request, history, case),
    writers.palaver: (bare, request, case, run_record, inputs_prompt, agenta_span),
    writers.langchain: (bare, state, state, case, inputs_prompt, agenta),
    writers.langchain_data: (bare, history),
    writers.langchain_lc: (batch, batch, state, case),
}
"""Envelopes of whole conversations; duplicates are twice as common."""

ANSWER_ENVELOPES: Mapping[Writer, Sequence[Envelope]] = {
    writers.chat_completions: (choices, choices, choices, deltas),
    writers.anthropic: (anthropic_answer,),
    writers.responses: (response_output,),
    writers.gemini: (candidates,),
    writers.langchain_lc: (generations,),
}
"""Envelopes of a single turn of the assistant."""

TEXT_ENVELOPES: Mapping[Writer, Sequence[Envelope]] = {
    writers.chat_completions: (input_value, mlflow_inputs, traceloop_input, ai_prompt_text),
    writers.anthropic: (input_value, traceloop_input),
    writers.responses: (mlflow_inputs,),
    writers.gen_ai: (gen_ai_text, gen_ai_text),
    writers.langchain_lc: (input_value, traceloop_input),
}
"""Envelopes that hold the messages as a JSON text."""


def _json_text(value: object) -> str:
    return msgspec.json.encode(value).decode()
