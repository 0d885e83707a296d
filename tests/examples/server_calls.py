"""Calls over several protocols, and their complete results without generated ids."""

from typing import Any

import httpx
import msgspec


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def invoke(http: httpx.AsyncClient, name: str, text: str, headers: dict[str, str] | None = None) -> Any:
    """Return the reply over /invoke: one or several Chat Completions messages."""
    answer = await http.post(f"/{name}/invoke", json={"messages": [user(text)]}, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def create_response(
    http: httpx.AsyncClient, name: str, input_items: Any, **more: Any
) -> tuple[str, list[tuple[Any, ...]]]:
    """Return the id and the items of a response."""
    answer = await http.post(f"/{name}/v1/responses", json={"input": input_items, **more})
    assert answer.status_code == 200, answer.text
    response = answer.json()
    assert response["status"] == "completed"
    return response["id"], [_item(item) for item in response["output"]]


async def complete_chat(
    http: httpx.AsyncClient, name: str, text: str, headers: dict[str, str] | None = None
) -> tuple[str, str]:
    """Return the content and finish reason over Chat Completions."""
    body = {"model": name, "messages": [user(text)]}
    answer = await http.post("/v1/chat/completions", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    [choice] = answer.json()["choices"]
    return choice["message"]["content"], choice["finish_reason"]


async def stream_chat(http: httpx.AsyncClient, name: str, *messages: Any) -> list[dict[str, Any]]:
    """Return the parts of the UI message stream."""
    body = {"id": "chat_1", "messages": messages}
    answer = await http.post(f"/{name}/api/chat", json=body, headers={"x-palaver-ui-version": "6"})
    assert answer.status_code == 200, answer.text
    *frames, end = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    assert end == "[DONE]"
    return [msgspec.json.decode(frame) for frame in frames]


def _item(item: dict[str, Any]) -> tuple[Any, ...]:
    match item:
        case {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}:
            return "message", text
        case {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}:
            return "call", call_id, name, arguments
        case {"type": "function_call_output", "call_id": call_id, "output": output}:
            return "output", call_id, output
        case {"type": "mcp_call", "name": name, "arguments": arguments, "status": "incomplete"}:
            return "unfinished call", name, arguments
        case {"type": "mcp_call", "name": name, "arguments": arguments, "output": output, "error": None}:
            return "call", name, arguments, output
        case {"type": "mcp_call", "name": name, "arguments": arguments, "error": {"content": text}}:
            return "failed call", name, arguments, text
        case {"type": "mcp_approval_request", "id": approval_id, "name": name, "arguments": arguments}:
            return "approval", approval_id, name, arguments
        case {"type": "palaver:data", "name": name, "value": value}:
            return "data", name, value
        case _:
            return "other", item
