"""LangChain messages as data: `{"type": "human", "content": "…"}`, inside `data`, or as `lc` serialises them.

Read as data only: nothing is imported, nothing is revived as an object. Written as LangChain's own
`convert_to_messages` takes them.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from palaver.core.dialects.langchain_content import read as read_content
from palaver.core.dialects.langchain_content import write as write_content
from palaver.core.dialects.pieces import Object, argument_text, given, listed, mapping, result_text, string
from palaver.core.dialects.roles import role_of
from palaver.core.messages import Message, Role
from palaver.core.parts import Part, Reasoning, Refusal, Text, ToolCall, ToolResult

LOSSES: Sequence[str] = (
    "metadata of messages; an assistant's message of which nothing is left",
    "neighbouring texts become one, and refusals become text; empty ones vanish",
    "reasoning, data and annotations",
    "calls come last, those whose arguments are no object after the others; a second one of the same id in one message",
    "calls of anybody but the assistant",
    "a call's arguments keep their value, not their text, where they are an object; none become `{}`",
    "a call without an id or a name gets one",
    "a tool result that is not text becomes its JSON text; its message, if it has no name, gets the tool's",
    "results inside a message that is not a tool's become tool messages, and split it; what else a tool message holds",
    "all but one of a file's places, its detail",
)

_TYPES: dict[Role, str] = {
    "system": "system",
    "developer": "system",
    "user": "human",
    "assistant": "ai",
    "tool": "tool",
}


def read(elements: Sequence[Any]) -> list[Message]:
    """One message per element; one that only removes others is none."""
    open_functions: dict[str, str] = {}
    found = (_message(element, index, open_functions) for index, element in enumerate(elements))
    return [message for message in found if message is not None]


def write(messages: Sequence[Message]) -> list[Any]:
    """Dicts in the flat form; a tool's message bears the name of its call."""
    names: dict[str, str] = {}
    return [written for message in messages for written in _written(message, names)]


# Reading


def _message(element: Object, index: int, open_functions: dict[str, str]) -> Message | None:
    kind, fields = _opened(element)
    if kind == "remove":
        return None
    extra = mapping(fields.get("additional_kwargs"))
    role, name = role_of(kind)
    if kind == "chat":
        role, name = role_of(string(fields.get("role")) or "assistant")
    if role == "system" and extra.get("__openai_role__") == "developer":
        role = "developer"
    own_name, own_id = string(fields.get("name")), string(fields.get("id"))
    name = name if own_name is None else own_name
    if role == "tool":
        call_id = string(fields.get("tool_call_id"))
        result = _result(fields, open_functions.get(name or "", "") if call_id is None else call_id)
        return Message(role=role, parts=(result,), id=own_id, name=name)
    calls = _calls(fields, extra, index)
    open_functions |= {call.name: call.call_id for call in calls.values()}
    return Message(role=role, parts=tuple(_parts(fields, extra, calls)), id=own_id, name=name)


def _opened(element: Object) -> tuple[str, Object]:
    """What kind of message, and its fields: those of `kwargs`, of `data`, or its own."""
    kwargs, data, path = mapping(element.get("kwargs")), mapping(element.get("data")), element.get("id")
    if isinstance(path, list) and path and "content" in kwargs:
        kind, fields = string(listed(path)[-1]), kwargs
    else:
        kind, fields = string(element.get("type")), data if "content" in data else element
    return (kind or "").removesuffix("Chunk").removesuffix("Message").lower(), fields


def _parts(fields: Object, extra: Object, calls: dict[str, ToolCall]) -> Iterable[Part]:
    said = read_content(fields.get("content"), calls)
    reasoning = string(extra.get("reasoning_content")) or _summary(extra.get("reasoning"))
    if reasoning and not any(isinstance(part, Reasoning) for part in said):
        yield Reasoning(text=reasoning)
    yield from said
    refusal = string(extra.get("refusal"))
    if refusal and not any(isinstance(part, Refusal) for part in said):
        yield Refusal(text=refusal)
    placed = {part.call_id for part in said if isinstance(part, ToolCall)}
    yield from (call for call in calls.values() if call.call_id not in placed)


def _summary(reasoning: Any) -> str:
    texts = (string(mapping(piece).get("text")) for piece in listed(mapping(reasoning).get("summary")))
    return "\n\n".join(text for text in texts if text)


def _calls(fields: Object, extra: Object, index: int) -> dict[str, ToolCall]:
    """By id. LangChain parses arguments, and mends them; their exact text stands elsewhere, if anywhere."""
    exact = dict(_exact(fields, extra))
    calls: dict[str, ToolCall] = {}
    listing = [*listed(fields.get("tool_calls")), *listed(fields.get("invalid_tool_calls"))]
    listing = listing or listed(extra.get("tool_calls")) or listed(extra.get("function_call"))
    for number, item in enumerate(listing):
        call = mapping(item)
        function = mapping(call.get("function")) or call
        call_id = string(call.get("id")) or f"call_{index}_{number}"
        arguments = exact.get(call_id, function.get("args", function.get("arguments")))
        name = string(function.get("name")) or "unknown"
        calls.setdefault(call_id, ToolCall(call_id=call_id, name=name, arguments=argument_text(arguments)))
    return calls


def _exact(fields: Object, extra: Object) -> Iterable[tuple[str, str]]:
    for item in listed(fields.get("tool_call_chunks")):
        match item:
            case {"id": str(call_id), "args": str(arguments)}:
                yield call_id, arguments
            case _:
                pass
    for item in listed(extra.get("tool_calls")):
        match item:
            case {"id": str(call_id), "function": {"arguments": str(arguments)}}:
                yield call_id, arguments
            case _:
                pass


def _result(fields: Object, call_id: str) -> ToolResult:
    output = fields.get("content")
    parts = read_content(output, {})
    texts = [part.text for part in parts if isinstance(part, Text)]
    output = "".join(texts) if len(texts) == len(parts) else output
    return ToolResult(call_id=call_id, output=output, is_error=fields.get("status") == "error")


# Writing


def _written(message: Message, names: dict[str, str]) -> Iterable[dict[str, Any]]:
    names |= {call.call_id: call.name for call in message.tool_calls}
    pieces = (_written_result(result, names, message.name) for result in message.tool_results)
    # Of several pieces only one has the id: graphs take two messages of one id for one.
    for number, piece in enumerate(pieces if message.role == "tool" else _written_pieces(message, names)):
        yield piece | given(id=message.id if number == 0 else None)


def _written_pieces(message: Message, names: dict[str, str]) -> Iterable[dict[str, Any]]:
    if not message.parts and message.role != "assistant":
        yield _written_message(message, ())
    for are_results, parts in groupby(message.parts, lambda part: isinstance(part, ToolResult)):
        if are_results:
            yield from (_written_result(part, names, None) for part in parts if isinstance(part, ToolResult))
            continue
        written = _written_message(message, tuple(parts))
        if message.role != "assistant" or written["content"] or "tool_calls" in written:
            yield written


def _written_result(result: ToolResult, names: dict[str, str], own_name: str | None) -> dict[str, Any]:
    name = names.get(result.call_id) if own_name is None else own_name
    answers = {"tool_call_id": result.call_id, "status": "error" if result.is_error else "success"}
    return {**_head("tool", result_text(result.output)), **answers, **given(name=name)}


def _written_message(message: Message, parts: Sequence[Part]) -> dict[str, Any]:
    written = _head(_TYPES[message.role], write_content(parts)) | given(name=message.name)
    if message.role == "developer":
        written["additional_kwargs"] = {"__openai_role__": "developer"}
    calls = [(part, part.parsed) for part in parts if isinstance(part, ToolCall) and message.role == "assistant"]
    if calls:
        written["tool_calls"] = [
            {"name": call.name, "args": args, "id": call.call_id, "type": "tool_call"}
            for call, args in calls
            if isinstance(args, dict)
        ]
    if invalid := [call for call, args in calls if not isinstance(args, dict)]:
        written["invalid_tool_calls"] = [
            {"name": call.name, "args": call.arguments, "id": call.call_id, "error": None, "type": "invalid_tool_call"}
            for call in invalid
        ]
    return written


def _head(kind: str, content: Any) -> dict[str, Any]:
    # A list of nothing but system messages is told from rows of a log by these two.
    return {"type": kind, "content": content, "additional_kwargs": {}, "response_metadata": {}}
