"""LangChain messages as data: `{"type": "human", "content": "…"}`, inside `data`, or as `lc` serialises them.

Read as data only: nothing is imported, nothing is revived as an object. Written as LangChain's own
`convert_to_messages` takes them.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from palaver.core.dialects.langchain_content import read as read_content
from palaver.core.dialects.langchain_content import write as write_content
from palaver.core.dialects.pieces import Object, argument_text, given, kept, listed, mapping, result_text, string
from palaver.core.dialects.roles import ROLES, role_of
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

_NAMES = ("Human", "AI", "System", "Tool", "Function")
_KINDS: Mapping[str, str] = {
    written: name.lower() for name in _NAMES for written in (name.lower(), f"{name}Message", f"{name}MessageChunk")
}
"""What kind of message it is, by its type or by the name of its class."""
_TYPES: dict[Role, str] = {
    "system": "system",
    "developer": "system",
    "user": "human",
    "assistant": "ai",
    "tool": "tool",
}


def read(elements: Sequence[Any], start: int = 0) -> list[Message]:
    """One message per element; one that only removes others is none."""
    functions: dict[str, str] = {}
    found = [_message(element, index, functions) for index, element in enumerate(elements, start)]
    return [message for message in found if message is not None]


def write(messages: Sequence[Message]) -> list[Any]:
    """Dicts in the flat form; a tool's message bears the name of its call."""
    names: dict[str, str] = {}
    return [written for message in messages for written in _written(message, names)]


# Reading


def _message(element: Object, index: int, functions: dict[str, str]) -> Message | None:
    """`functions` are the ids of calls by the names of what they called: a legacy answer has only the name."""
    kind, fields = _opened(element)
    role, name = ROLES.get(kind), None
    if role is None:
        if kind == "remove":
            return None
        role, name = role_of((string(fields.get("role")) or "assistant") if kind == "chat" else kind)
    extra = mapping(fields.get("additional_kwargs"))
    if role == "system" and extra.get("__openai_role__") == "developer":
        role = "developer"
    own_name, own_id = fields.get("name"), fields.get("id")
    name = own_name if isinstance(own_name, str) else name
    own_id = own_id if isinstance(own_id, str) else None
    if role == "tool":
        call_id = fields.get("tool_call_id")
        call_id = call_id if isinstance(call_id, str) else functions.get(name or "", "")
        return Message("tool", (_result(fields, call_id),), own_id, name)
    calls = _calls(fields, extra, index)
    for call in calls.values():
        functions[call.name] = call.call_id
    return Message(role, tuple(_parts(fields, extra, calls)), own_id, name)


def _opened(element: Object) -> tuple[str, Object]:
    """What kind of message, and its fields: those of `kwargs`, of `data`, or its own."""
    fields, kind, path = element, element.get("type"), element.get("id")
    kwargs, data = mapping(element.get("kwargs")), mapping(element.get("data"))
    if path and isinstance(path, list) and "content" in kwargs:
        fields, kind = kwargs, listed(path)[-1]
    elif "content" in data:
        fields = data
    if not isinstance(kind, str):
        return "", fields
    return _KINDS.get(kind) or kind.removesuffix("Chunk").removesuffix("Message").lower(), fields


def _parts(fields: Object, extra: Object, calls: dict[str, ToolCall]) -> list[Part]:
    parts = read_content(fields.get("content"), calls)
    if calls:
        placed = {part.call_id for part in parts if type(part) is ToolCall}
        after: list[Part] = [call for call in calls.values() if call.call_id not in placed]
    else:
        after = []
    if extra:
        reasoning = string(extra.get("reasoning_content")) or _summary(extra.get("reasoning"))
        refusal = string(extra.get("refusal"))
        if refusal and not any(type(part) is Refusal for part in parts):
            after.insert(0, Refusal(refusal))
        if reasoning and not any(type(part) is Reasoning for part in parts):
            parts.insert(0, Reasoning(reasoning))
    return parts + after


def _summary(reasoning: Any) -> str:
    if reasoning is None:
        return ""
    texts = [string(mapping(piece).get("text")) for piece in listed(mapping(reasoning).get("summary"))]
    return "\n\n".join([text for text in texts if text])


def _calls(fields: Object, extra: Object, index: int) -> dict[str, ToolCall]:
    """By id. LangChain parses arguments, and mends them; their exact text stands elsewhere, if anywhere."""
    listing = listed(fields.get("tool_calls")) + listed(fields.get("invalid_tool_calls"))
    listing = listing or listed(extra.get("tool_calls")) or listed(extra.get("function_call"))
    calls: dict[str, ToolCall] = {}
    exact = _exact(fields, extra) if listing else {}
    for number, item in enumerate(listing):
        call = mapping(item)
        function = mapping(call.get("function")) or call
        call_id = string(call.get("id")) or f"call_{index}_{number}"
        arguments = exact.get(call_id, function.get("args", function.get("arguments")))
        name = string(function.get("name")) or "unknown"
        calls.setdefault(call_id, ToolCall(call_id, name, argument_text(arguments)))
    return calls


def _exact(fields: Object, extra: Object) -> dict[str, str]:
    """The arguments of calls by their ids, in the text that the model wrote."""
    exact: dict[str, str] = {}
    for item in listed(fields.get("tool_call_chunks")):
        piece = mapping(item)
        call_id, arguments = piece.get("id"), piece.get("args")
        if isinstance(call_id, str) and isinstance(arguments, str):
            exact[call_id] = arguments
    for item in listed(extra.get("tool_calls")):
        call = mapping(item)
        call_id, arguments = call.get("id"), mapping(call.get("function")).get("arguments")
        if isinstance(call_id, str) and isinstance(arguments, str):
            exact[call_id] = arguments
    return exact


def _result(fields: Object, call_id: str) -> ToolResult:
    output, failed = fields.get("content"), fields.get("status") == "error"
    if type(output) is not str:
        parts = read_content(output, {})
        texts = [part.text for part in parts if type(part) is Text]
        output = "".join(texts) if len(texts) == len(parts) else kept(output)
    return ToolResult(call_id, output, failed)


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
