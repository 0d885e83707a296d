"""Validate requests as Anthropic's Messages API does, as far as Job Chat's client could violate it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_MAX_CACHE_MARKS = 4
_FIELDS: Final = frozenset(
    """model max_tokens messages system tools tool_choice thinking stream stop_sequences temperature top_p top_k
    metadata cache_control container diagnostics inference_geo output_config service_tier speed""".split()
)
_BLOCKS: Final = {
    "user": {"text", "tool_result", "image", "document", "search_result"},
    "assistant": {"text", "tool_use", "thinking", "redacted_thinking"},
}


class MissingKey(Exception):
    """The request has no API key."""


def request_key(headers: Mapping[str, str]) -> str:
    """Return the key of a request, from either header."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "").strip()


def validate_request(headers: Mapping[str, str], body: object) -> str | None:
    """Return the first error of a request, or None. Raises MissingKey."""
    if not request_key(headers):
        raise MissingKey("x-api-key header is required")
    if not headers.get("anthropic-version"):
        return "anthropic-version: header is required"
    if not isinstance(body, dict):
        return "The request body must be an object"
    return next(_body_errors(cast("dict[str, Any]", body)), None)


def _body_errors(body: dict[str, Any]) -> Iterator[str]:
    yield from (f"{name}: Extra inputs are not permitted" for name in body if name not in _FIELDS)
    yield from (f"{name}: Field required" for name in ("model", "max_tokens", "messages") if body.get(name) is None)
    if not (isinstance(body["model"], str) and body["model"]):
        yield "model: Input should be a valid string"
    if not _is_count(body["max_tokens"]):
        yield "max_tokens: Input should be a valid integer, at least 1"
    if not isinstance(body.get("stream", False), bool):
        yield "stream: Input should be a valid boolean"
    yield from _system_errors(body.get("system", []))
    yield from _messages_errors(body["messages"])
    yield from _tool_errors(body.get("tools", []))
    yield from _tool_choice_errors(body)
    marks = sum(1 for _ in _cache_marks([body.get("system"), body["messages"], body.get("tools")]))
    if marks > _MAX_CACHE_MARKS:
        yield f"A maximum of {_MAX_CACHE_MARKS} blocks with cache_control may be provided. Found {marks}."


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _list_errors(value: object, where: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{where}: Input should be a valid list"
        return
    for index, item in enumerate(cast("list[object]", value)):
        if not isinstance(item, dict):
            yield f"{where}.{index}: Input should be an object"


def _system_errors(system: object) -> Iterator[str]:
    if isinstance(system, str):
        return
    yield from _list_errors(system, "system")
    for index, block in enumerate(cast("list[dict[str, Any]]", system)):
        if block.get("type") != "text":
            yield f"system.{index}.type: Input should be 'text'"
        yield from _text_errors(block, f"system.{index}")


def _text_errors(block: dict[str, Any], where: str) -> Iterator[str]:
    text = block.get("text")
    if not isinstance(text, str):
        yield f"{where}.text: Field required"
    elif not text:
        yield f"{where}: text content blocks must be non-empty"
    elif not text.strip():
        yield f"{where}: text content blocks must contain non-whitespace text"


def _messages_errors(messages: object) -> Iterator[str]:
    yield from _list_errors(messages, "messages")
    message_list = cast("list[dict[str, Any]]", messages)
    if not message_list:
        yield "messages: at least one message is required"
    for index, message in enumerate(message_list):
        yield from _message_errors(message, f"messages.{index}")
    if message_list[0]["role"] != "user":
        yield 'messages: first message must use the "user" role'
    yield from _tool_result_errors(message_list)


def _message_errors(message: dict[str, Any], where: str) -> Iterator[str]:
    role, content = message.get("role"), message.get("content")
    if role not in _BLOCKS:
        yield f"{where}.role: Input should be 'user' or 'assistant'"
    if isinstance(content, str):
        yield from _text_errors({"text": content}, where)
        return
    yield from _list_errors(content, f"{where}.content")
    if not content:
        yield f"{where}: all messages must have non-empty content"
    for number, block in enumerate(cast("list[dict[str, Any]]", content)):
        block_path = f"{where}.content.{number}"
        match block.get("type"):
            case kind if kind not in _BLOCKS[cast("str", role)]:
                yield f"{block_path}: Input tag {kind!r} found using 'type' does not match any of the expected tags"
            case "text":
                yield from _text_errors(block, block_path)
            case "tool_use":
                yield from _tool_use_errors(block, block_path)
            case "tool_result" if not isinstance(block.get("tool_use_id"), str):
                yield f"{block_path}.tool_use_id: Field required"
            case _:
                pass


def _tool_use_errors(block: dict[str, Any], where: str) -> Iterator[str]:
    for name in ("id", "name"):
        value = block.get(name)
        if not (isinstance(value, str) and _NAME.fullmatch(value)):
            yield f"{where}.{name}: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
    if not isinstance(block.get("input"), dict):
        yield f"{where}.input: Input should be an object"


def _tool_result_errors(message_list: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Check that each tool call has its result first in the next message, and that each result has its call."""
    open_ids: list[str] = []
    for index, message in enumerate(message_list):
        blocks: list[dict[str, Any]] = [] if isinstance(message["content"], str) else message["content"]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if missing := [call_id for call_id in open_ids if call_id not in results]:
            yield f"messages.{index}: `tool_use` ids were found without `tool_result` blocks: {', '.join(missing)}"
        if unexpected := [call_id for call_id in results if call_id not in open_ids]:
            yield f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: {', '.join(unexpected)}"
        if any(block["type"] != "tool_result" for block in blocks[: len(results)]):
            yield f"messages.{index}: `tool_result` blocks must come first"
        open_ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if len(set(open_ids)) < len(open_ids):
            yield f"messages.{index}: `tool_use` ids must be unique"
    if open_ids:
        yield f"messages: `tool_use` ids were found without `tool_result` blocks: {', '.join(open_ids)}"


def _tool_errors(tools: object) -> Iterator[str]:
    yield from _list_errors(tools, "tools")
    names: list[object] = []
    for index, tool in enumerate(cast("list[dict[str, Any]]", tools)):
        name, schema = tool.get("name"), tool.get("input_schema")
        if not (isinstance(name, str) and _NAME.fullmatch(name)):
            yield f"tools.{index}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        if name in names:
            yield "tools: Tool names must be unique."
        names.append(name)
        if not isinstance(schema, dict):
            yield f"tools.{index}.input_schema: Field required"
        elif cast("dict[str, Any]", schema).get("type") != "object":
            yield f"tools.{index}.input_schema.type: Input should be 'object'"


def _tool_choice_errors(body: dict[str, Any]) -> Iterator[str]:
    thinking = body.get("thinking")
    kind = cast("dict[str, Any]", thinking).get("type") if isinstance(thinking, dict) else None
    if thinking is not None and kind not in {"enabled", "disabled", "adaptive", "between_tools"}:
        yield "thinking.type: Input should be 'enabled', 'disabled', 'adaptive' or 'between_tools'"
    choice = body.get("tool_choice")
    if choice is None:
        return
    names = [tool.get("name") for tool in body.get("tools", [])]
    match choice:
        case {"type": "auto" | "none" | "any" | "tool"} if not names:
            yield "tool_choice: may only be specified while providing `tools`."
        case {"type": "tool", "name": name} if name not in names:
            yield f"tool_choice.name: Tool {name!r} not found in provided tools"
        case {"type": "any"} | {"type": "tool", "name": _} if kind in {"enabled", "adaptive"}:
            yield "Thinking may not be enabled when tool_choice forces tool use."
        case {"type": "auto" | "none" | "any"} | {"type": "tool", "name": _}:
            pass
        case _:
            yield "tool_choice: Input should be auto, any, none, or a tool with its name"


def _cache_marks(value: object) -> Iterator[None]:
    """Yield once per cache mark in blocks, but not inside tool inputs."""
    match value:
        case list():
            for item in cast("list[object]", value):
                yield from _cache_marks(item)
        case {"cache_control": dict()}:
            yield None
            yield from _cache_marks(cast("dict[str, object]", value).get("content"))
        case {"content": list()}:
            yield from _cache_marks(cast("dict[str, object]", value)["content"])
        case _:
            pass
