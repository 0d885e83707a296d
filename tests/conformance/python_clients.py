"""Official Python clients and the result they build from a run: openai, LangChain's ChatOpenAI, MLflow's types.

Every function takes the server's address, a workflow, the user message and whether to disconnect at the first text, and
fills in the same record as the Node programs of drivers/ (their lines.mjs describes it).
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_openai import ChatOpenAI
from mlflow.types.responses import ResponsesAgentRequest, ResponsesAgentResponse, ResponsesAgentStreamEvent
from openai.types.chat import ChatCompletion
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFailedEvent,
    ResponseIncompleteEvent,
    ResponseOutputItem,
)
from pydantic import SecretStr

Record = dict[str, Any]
ClientCall = Callable[..., None]


class ClientDisconnected(Exception):
    """The client disconnected in the middle of a stream, as requested."""


def empty_record() -> Record:
    return {"text": [], "calls": [], "results": [], "reasoning": "", "usage": None, "finish": None, "error": None}


# --- services: no official client for Python; reads the same fields as Lightning


def services_whole(record: Record, *, url: str, workflow: str, prompt: str, **_: Any) -> None:
    answer = httpx.post(f"{url}/services/{workflow}", json={"content": prompt}, timeout=60)
    _read_service(answer.json(), record, is_error=answer.is_error)


def services_streamed(record: Record, *, url: str, workflow: str, prompt: str, cancel: bool = False) -> None:
    kinds: dict[int, str] = {}
    stops = {"end_turn": "stop", "max_tokens": "length", "tool_use": "tool-calls", "refusal": "content-filter"}
    name, stream_url = "", f"{url}/services/{workflow}/stream"
    with httpx.stream("POST", stream_url, json={"content": prompt}, timeout=60) as answer:
        if answer.is_error:
            answer.read()
            _read_service(answer.json(), record, is_error=True)
            return
        for line in answer.iter_lines():
            name = line.removeprefix("event: ") if line.startswith("event: ") else name
            if not line.startswith("data: "):
                continue
            data: Any = json.loads(line.removeprefix("data: "))
            match name, data:
                case "content_block_start", {"index": int(index), "content_block": block}:
                    kinds[index] = block["type"]
                    if block["type"] == "tool_use":
                        record["calls"].append({"id": block["id"], "name": block["name"], "arguments": ""})
                case "content_block_delta", {"delta": {"text": _}} if cancel:
                    raise ClientDisconnected
                case "content_block_delta", {"delta": {"thinking": str(text)}}:
                    record["reasoning"] += text
                case "content_block_delta", {"delta": {"partial_json": str(text)}}:
                    record["calls"][-1]["arguments"] += text
                case "tool_result", {"call_id": str(call_id), "output": output}:
                    record["results"].append({"id": call_id, "output": output})
                case "message_delta", {"delta": {"stop_reason": str(reason)}}:
                    record["finish"] = stops[reason]
                case (("complete" | "error"), document):
                    _read_service(document, record, is_error=name == "error")
                case _:
                    pass


def _read_service(document: Any, record: Record, *, is_error: bool) -> None:
    if is_error:
        record["error"] = {"code": document["type"], "message": document["message"]}
        return
    record["text"] = [document["response"]]
    record["usage"] = {"input": document["usage"]["input_tokens"], "output": document["usage"]["output_tokens"]}
    record["finish"] = record["finish"] or "stop"


# --- openai


def whole(record: Record, *, url: str, workflow: str, prompt: str, **_: Any) -> None:
    with _openai(url, workflow) as client:
        _read_response(client.responses.create(model=workflow, input=prompt), record)


def streamed(record: Record, *, url: str, workflow: str, prompt: str, cancel: bool = False) -> None:
    with _openai(url, workflow) as client, client.responses.create(model=workflow, input=prompt, stream=True) as stream:
        for event in stream:
            if event.type == "response.output_text.delta" and cancel:
                raise ClientDisconnected
            if event.type == "response.output_item.done":
                _read_item(event.item, record)
            if isinstance(event, ResponseCompletedEvent | ResponseIncompleteEvent | ResponseFailedEvent):
                _read_end(event.response, record)


def helper(record: Record, *, url: str, workflow: str, prompt: str, cancel: bool = False) -> None:
    with _openai(url, workflow) as client, client.responses.stream(model=workflow, input=prompt) as stream:
        for event in stream:
            if event.type == "response.output_text.delta" and cancel:
                raise ClientDisconnected
        _read_response(stream.get_final_response(), record)


def chat_whole(record: Record, *, url: str, workflow: str, prompt: str, **_: Any) -> None:
    with _openai(url, workflow) as client:
        answer = client.chat.completions.create(model=workflow, messages=[{"role": "user", "content": prompt}])
        _read_completion(answer, record)


def chat_streamed(record: Record, *, url: str, workflow: str, prompt: str, cancel: bool = False) -> None:
    with (
        _openai(url, workflow) as client,
        client.chat.completions.create(
            model=workflow,
            messages=[{"role": "user", "content": prompt}],
            stream=True,
            stream_options={"include_usage": True},
        ) as stream,
    ):
        text = ""
        for chunk in stream:
            if chunk.usage:
                record["usage"] = {"input": chunk.usage.prompt_tokens, "output": chunk.usage.completion_tokens}
            for choice in chunk.choices:
                if choice.delta.content:
                    text += choice.delta.content
                    record["text"] = [text]
                    if cancel:
                        raise ClientDisconnected
                record["reasoning"] += getattr(choice.delta, "reasoning_content", None) or ""
                for piece in choice.delta.tool_calls or []:
                    assert piece.function
                    if piece.id:
                        record["calls"].append({"id": piece.id, "name": piece.function.name, "arguments": ""})
                    record["calls"][piece.index]["arguments"] += piece.function.arguments or ""
                record["finish"] = choice.finish_reason or record["finish"]


def chat_helper(record: Record, *, url: str, workflow: str, prompt: str, cancel: bool = False) -> None:
    with (
        _openai(url, workflow) as client,
        client.chat.completions.stream(
            model=workflow, messages=[{"role": "user", "content": prompt}], stream_options={"include_usage": True}
        ) as stream,
    ):
        for event in stream:
            if event.type == "content.delta" and cancel:
                raise ClientDisconnected
        _read_completion(stream.get_final_completion(), record)


def twice(record: Record, *, url: str, workflow: str, prompt: str, then: str) -> None:
    """Ask, send the output back, and ask again."""
    with _openai(url, workflow) as client:
        sent: list[Any] = [{"role": "user", "content": prompt}]
        sent += client.responses.create(model=workflow, input=sent).output
        sent += [{"role": "user", "content": then}]
        _read_response(client.responses.create(model=workflow, input=sent), record)


@contextmanager
def _openai(url: str, workflow: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/{workflow}/v1", api_key="none", max_retries=0) as client:
        yield client


def _read_response(response: Response, record: Record) -> None:
    for item in response.output:
        _read_item(item, record)
    _read_end(response, record)


def _read_item(item: ResponseOutputItem, record: Record) -> None:
    match item.type:
        case "message":
            record["text"].append("".join(part.text for part in item.content if part.type == "output_text"))
        case "function_call":
            record["calls"].append({"id": item.call_id, "name": item.name, "arguments": item.arguments})
        case "function_call_output":
            record["results"].append({"id": item.call_id, "output": item.output})
        case "mcp_call":
            record["calls"].append({"id": item.id, "name": item.name, "arguments": item.arguments})
            if item.output is not None:
                record["results"].append({"id": item.id, "output": item.output})
        case "reasoning":
            record["reasoning"] += "".join(part.text for part in item.summary)
        case other:
            raise AssertionError(f"an item that nobody sent: {other}")


def _read_end(response: Response, record: Record) -> None:
    if response.usage:
        record["usage"] = {"input": response.usage.input_tokens, "output": response.usage.output_tokens}
    details = response.incomplete_details
    record["finish"] = (details and details.reason) or response.status
    if response.error:
        record["error"] = {"code": response.error.code, "message": response.error.message}


def _read_completion(answer: ChatCompletion, record: Record) -> None:
    [choice] = answer.choices
    if choice.message.content:
        record["text"] = [choice.message.content]
    record["reasoning"] = getattr(choice.message, "reasoning_content", None) or ""
    for tool_call in choice.message.tool_calls or []:
        assert tool_call.type == "function"
        record["calls"].append(
            {"id": tool_call.id, "name": tool_call.function.name, "arguments": tool_call.function.arguments}
        )
    if answer.usage:
        record["usage"] = {"input": answer.usage.prompt_tokens, "output": answer.usage.completion_tokens}
    record["finish"] = choice.finish_reason


# --- LangChain


def langchain_responses(record: Record, *, url: str, workflow: str, prompt: str, **_: Any) -> None:
    _read_message(_langchain(url, workflow, use_responses_api=True).invoke(prompt), record)


def langchain_responses_streamed(record: Record, *, url: str, workflow: str, prompt: str, cancel: bool = False) -> None:
    _read_chunks(_langchain(url, workflow, use_responses_api=True).stream(prompt), record, cancel=cancel)


def langchain_chat(record: Record, *, url: str, workflow: str, prompt: str, **_: Any) -> None:
    _read_message(_langchain(url, workflow).invoke(prompt), record)


def langchain_chat_streamed(record: Record, *, url: str, workflow: str, prompt: str, cancel: bool = False) -> None:
    _read_chunks(_langchain(url, workflow, stream_usage=True).stream(prompt), record, cancel=cancel)


def langchain_responses_twice(record: Record, *, url: str, workflow: str, prompt: str, then: str) -> None:
    model = _langchain(url, workflow, use_responses_api=True)
    question = HumanMessage(prompt)
    _read_message(model.invoke([question, model.invoke([question]), HumanMessage(then)]), record)


def langchain_chat_twice(record: Record, *, url: str, workflow: str, prompt: str, then: str) -> None:
    model = _langchain(url, workflow)
    question = HumanMessage(prompt)
    _read_message(model.invoke([question, model.invoke([question]), HumanMessage(then)]), record)


def _langchain(url: str, workflow: str, **options: Any) -> ChatOpenAI:
    return ChatOpenAI(
        model=workflow, base_url=f"{url}/{workflow}/v1", api_key=SecretStr("none"), max_retries=0, **options
    )


def _read_chunks(chunks: Iterator[AIMessageChunk], record: Record, *, cancel: bool) -> None:
    message: AIMessageChunk | None = None
    try:
        for chunk in chunks:
            message = chunk if message is None else message + chunk
            if cancel and message.text:
                raise ClientDisconnected
    finally:
        chunks.close()  # pyright: ignore[reportAttributeAccessIssue]  # It is a generator.
        if message is not None:
            _read_message(message, record)


def _read_message(message: AIMessage, record: Record) -> None:
    for block in message.content_blocks:
        if block["type"] == "text" and block["text"]:
            record["text"].append(block["text"])
        if block["type"] == "reasoning":
            record["reasoning"] += block.get("reasoning", "")
        if block["type"] == "server_tool_call":
            record["calls"].append({"id": block["id"], "name": block["name"], "arguments": block["args"]})
        if block["type"] == "server_tool_result" and (output := block.get("output")) is not None:
            record["results"].append({"id": block["tool_call_id"], "output": output})
    for tool_call in message.tool_calls:
        record["calls"].append({"id": tool_call["id"], "name": tool_call["name"], "arguments": tool_call["args"]})
    for item in message.content if isinstance(message.content, list) else []:
        if isinstance(item, dict) and item.get("type") == "function_call_output":
            record["results"].append({"id": item["call_id"], "output": item["output"]})
    if message.usage_metadata:
        usage = message.usage_metadata
        record["usage"] = {"input": usage["input_tokens"], "output": usage["output_tokens"]}
    response_metadata = message.response_metadata
    details = response_metadata.get("incomplete_details") or {}
    record["finish"] = (
        details.get("reason") or response_metadata.get("status") or response_metadata.get("finish_reason")
    )


# --- MLflow: no client for a local agent server, so its types validate and merge the events


def mlflow_whole(record: Record, *, url: str, workflow: str, prompt: str, **_: Any) -> None:
    answer = httpx.post(f"{url}/{workflow}/invocations", json=_mlflow_request(prompt), timeout=30)
    if answer.is_error:
        record["error"] = answer.json()["error"]
        return
    _read_mlflow(ResponsesAgentResponse.model_validate(answer.json()).model_dump(), record)


def mlflow_streamed(record: Record, *, url: str, workflow: str, prompt: str, cancel: bool = False) -> None:
    body = {**_mlflow_request(prompt), "stream": True}
    address = f"{url}/{workflow}/invocations"
    with httpx.stream("POST", address, json=body, timeout=30) as answer:
        if answer.is_error:
            answer.read()
            record["error"] = answer.json()["error"]
            return
        items: list[dict[str, Any]] = []
        for line in answer.iter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            event = ResponsesAgentStreamEvent.model_validate(json.loads(line.removeprefix("data: "))).model_dump()
            if event["type"] == "response.output_text.delta" and cancel:
                raise ClientDisconnected
            if event["type"] == "response.output_item.done":
                items.append(event["item"])
            if event["type"] == "error":
                record["error"] = {"code": event["code"], "message": event["message"]}
            if event["type"] in ("response.completed", "response.incomplete", "response.failed"):
                _read_mlflow({**event["response"], "output": items}, record)


def _mlflow_request(prompt: str) -> dict[str, Any]:
    request = ResponsesAgentRequest.model_validate({"input": [{"role": "user", "content": prompt}]})
    return request.model_dump(exclude_none=True)


def _read_mlflow(response: dict[str, Any], record: Record) -> None:
    for item in response["output"]:
        match item["type"]:
            case "message":
                record["text"].append("".join(part["text"] for part in item["content"]))
            case "function_call":
                record["calls"].append({"id": item["call_id"], "name": item["name"], "arguments": item["arguments"]})
            case "function_call_output":
                record["results"].append({"id": item["call_id"], "output": item["output"]})
            case "reasoning":
                record["reasoning"] += "".join(part["text"] for part in item["summary"])
            case other:
                raise AssertionError(f"an item that nobody sent: {other}")
    if usage := response.get("usage"):
        record["usage"] = {"input": usage["input_tokens"], "output": usage["output_tokens"]}
    record["finish"] = (response.get("incomplete_details") or {}).get("reason") or response["status"]
