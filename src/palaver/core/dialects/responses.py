"""Responses: items such as `{"type": "message", …}` and `{"type": "function_call", …}`, OpenAI's newer dialect.

Calls, results, reasoning and data are items beside the messages; reading puts those of one assistant's turn together.
A bare `{role, content}` is a message too. Our own items, which others ignore or show raw: `palaver:data`,
`palaver:file`. An item that we do not know is kept in a data part `responses:<type>`, and written back as it was.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from palaver.core.dialects import chat_completions
from palaver.core.dialects import responses_content as content
from palaver.core.dialects.pieces import Object, argument_text, content_of, given, listed, mapping, result_text, string
from palaver.core.dialects.responses_content import RAW, is_itself
from palaver.core.dialects.roles import role_of
from palaver.core.messages import Message, Role
from palaver.core.parts import (
    APPROVAL_REQUEST,
    APPROVAL_RESPONSE,
    Data,
    File,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from palaver.core.recognition import actor

LOSSES: Sequence[str] = (
    "names and metadata of messages; the id of a message that says nothing itself",
    "an assistant's messages are cut anew: text starts one unless only reasoning precedes it, and so does reasoning",
    "empty texts, empty reasoning, and an assistant's message of which nothing is left",
    "annotations of anybody but the assistant; of a url its file, of a file its url and end, of a span both",
    'what is unknown of an annotation becomes `""`, 0 or the length of the text, and a `""` in it unknown',
    "a user's, system's or developer's reasoning, refusal, calls and data (an approval stays)",
    "a tool result that is neither text nor a list of content parts becomes its JSON text",
    "results inside a message that is not a tool's become tool messages, and split it; what else a tool message holds",
    "a user's file: its media type where its content is elsewhere (an image stays one), all but one of its places",
    "the filename of a user's image or sound, the detail of anything but an image",
    "an approval becomes the user's message; of a request for one all but id, name and arguments",
)

_CHAT_COMPLETIONS = ("tool_calls", "function_call", "tool_call_id", "reasoning_content", "refusal", "palaver")
"""What only a message in the dialect chat-completions has, whatever its `type` says."""


def read(elements: Sequence[Any]) -> list[Message]:
    """The messages that the items make up."""
    return [message for message, _ in read_indexed(elements)]


def read_indexed(elements: Sequence[Any]) -> list[tuple[Message, int]]:
    """Each message with the index of the item at which it begins."""
    turns = _Turns()
    for index, item in enumerate(elements):
        _take(item, index, turns)
    turns.close()
    return turns.messages


def write(messages: Sequence[Message]) -> list[Any]:
    """Items as a client sends them in `input`."""
    return [item for message in messages for item in _written(message)]


# Reading


class _Turns:
    """Puts consecutive items of the assistant's into one message."""

    def __init__(self) -> None:
        self.messages: list[tuple[Message, int]] = []
        self.calls: set[str] = set()
        self._parts: list[Part] = []
        self._message: Message | None = None
        self._began: int | None = None
        self._spoke = False
        """There is more than reasoning."""

    def alone(self, message: Message, index: int) -> None:
        """Somebody else's message."""
        self.close()
        self.messages.append((message, index))

    def say(self, message: Message, index: int) -> None:
        """The assistant's own message item: it stands first, only reasoning may come before."""
        if self._spoke:
            self.close()
        self._message = message
        self._add(message.parts, index)

    def think(self, part: Reasoning, index: int) -> None:
        """Reasoning precedes what it is about."""
        if self._spoke:
            self.close()
        self._add((part,), index, spoke=False)

    def add(self, part: Part, index: int) -> None:
        """Anything else joins what is open."""
        self._add((part,), index)

    def _add(self, parts: Iterable[Part], index: int, *, spoke: bool = True) -> None:
        if self._began is None:
            self._began = index
        self._spoke = spoke
        self._parts += parts

    def close(self) -> None:
        if self._began is not None:
            said = self._message
            whole = Message(
                role="assistant",
                parts=tuple(self._parts),
                id=said.id if said else None,
                name=said.name if said else None,
            )
            self.messages.append((whole, self._began))
        self._parts, self._message, self._began, self._spoke = [], None, None, False


def _take(item: Any, index: int, turns: _Turns) -> None:
    fields = mapping(item)
    kind, who = string(fields.get("type")) or "", actor(fields)
    if who is not None and (kind in ("", "message") or "content" in fields):
        message = _message(fields, who)
        take = turns.say if message.role == "assistant" else turns.alone
        take(message, index)
        return
    match kind:
        case "function_call":
            call = _call(fields, index)
            turns.calls.add(call.call_id)
            turns.add(call, index)
        case "function_call_output":
            failed = fields.get("palaver:is_error") is True
            call_id = string(fields.get("call_id")) or ""
            turns.alone(Message.tool(call_id, fields.get("output"), is_error=failed), index)
        case "reasoning":
            reasoning = _reasoning(fields)
            if reasoning.text or reasoning.encrypted:
                turns.think(reasoning, index)
        case "mcp_approval_response":
            turns.alone(Message.user(_approval(fields)), index)
        case _:
            turns.add(_item(item, kind, turns.calls), index)


def _message(item: Object, who: str) -> Message:
    if any(item.get(key) is not None for key in _CHAT_COMPLETIONS):
        return chat_completions.read([item])[0]
    role, name = role_of(who)
    said = content_of(item)
    parts = content.read(said)
    if role == "tool":  # It says not which call it answers.
        texts = [part.text for part in parts if isinstance(part, Text)]
        return Message.tool("", "".join(texts) if len(texts) == len(parts) else said)
    own_name = string(item.get("name"))
    return Message(role=role, parts=parts, id=string(item.get("id")), name=name if own_name is None else own_name)


def _call(item: Object, index: int) -> ToolCall:
    call_id = item.get("call_id")
    return ToolCall(
        call_id=call_id if isinstance(call_id, str) else string(item.get("id")) or f"call_{index}",
        name=string(item.get("name")) or "",
        arguments=argument_text(item.get("arguments")),
    )


def _reasoning(item: Object) -> Reasoning:
    told = [_thoughts(item.get("summary")), _thoughts(item.get("content"))]
    return Reasoning(text=told[0] or told[1], encrypted=string(item.get("encrypted_content")))


def _thoughts(pieces: Any) -> str:
    texts = (string(piece) or string(mapping(piece).get("text")) for piece in listed(pieces))
    return "\n\n".join(text for text in texts if text)


def _approval(item: Object) -> Data:
    value = {"id": item.get("approval_request_id"), "approve": item.get("approve"), "reason": item.get("reason")}
    return Data(name=APPROVAL_RESPONSE, value=value)


def _item(item: Any, kind: str, calls: set[str]) -> Part:
    """One of the items that a message holds as a part; one that we do not know is kept raw."""
    match item:
        case {"type": "mcp_approval_request", "id": str(request), "name": str(name)}:
            call_id = request if request in calls else None
            value = {"id": request, "call_id": call_id, "name": name, "arguments": argument_text(item.get("arguments"))}
            return Data(name=APPROVAL_REQUEST, value=value)
        case {"type": "palaver:data", "name": str(name)}:
            return Data(name=name, value=item.get("value"))
        case {"type": "palaver:file", "media_type": str(media_type)}:
            told = {key: string(item.get(key)) for key in ("url", "data", "file_id", "filename", "detail")}
            return File(media_type=media_type, **told)
        case _:
            return Data(name=f"{RAW}{kind or 'item'}", value=item)


# Writing


def _written(message: Message) -> Iterable[dict[str, Any]]:
    if message.role == "tool":
        yield from map(_result, message.tool_results)
        return
    speaks = message.role == "assistant"
    own_id, pieces, silent = message.id, list[dict[str, Any]](), not speaks
    for part in message.parts:
        piece = content.said(part) if speaks else content.asked(part)
        if piece is not None:
            pieces.append(piece)
            continue
        item = _beside(part, speaks=speaks)
        if item is not None:
            if pieces:
                yield _message_item(message.role, pieces, own_id)
                own_id, pieces = None, []  # Two items must not have one id.
            yield item
            silent = False
    if pieces or silent:
        yield _message_item(message.role, pieces, own_id)


def _message_item(role: Role, pieces: list[dict[str, Any]], own_id: str | None) -> dict[str, Any]:
    return {"type": "message", **given(id=own_id), "role": role, "content": pieces}


def _beside(part: Part, *, speaks: bool) -> dict[str, Any] | None:
    """An item of its own; only the assistant has others than results and approvals."""
    match part:
        case ToolResult():
            return _result(part)
        case Data(name="approval-response", value={"id": str(request), "approve": bool(approve)}):
            reason = string(mapping(part.value).get("reason"))
            item = {"type": "mcp_approval_response", "approval_request_id": request, "approve": approve}
            return {**item, **given(reason=reason)}
        case _ if not speaks:
            return None
        case ToolCall(call_id=call_id, name=name, arguments=arguments):
            return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
        case Reasoning(text=text, encrypted=encrypted) if text or encrypted:
            summary = [{"type": "summary_text", "text": text}] if text else []
            return {"type": "reasoning", "summary": summary, **given(encrypted_content=encrypted)}
        case File():
            places = given(media_type=part.media_type, url=part.url, data=part.data, file_id=part.file_id)
            return {"type": "palaver:file", **places, **given(filename=part.filename, detail=part.detail)}
        case Data():
            return _data(part)
        case _:
            return None


def _data(part: Data) -> dict[str, Any]:
    value = mapping(part.value)
    match value:
        case {"id": str(request), "name": str(name), "arguments": str(arguments)} if part.name == APPROVAL_REQUEST:
            item = {"type": "mcp_approval_request", "id": request, "name": name, "arguments": arguments}
            return {**item, "server_label": "palaver"}
        case _ if part.name.startswith(RAW):
            read_back = [found for message in read([part.value]) for found in message.parts]
            if string(value.get("type")) and len(read_back) == 1 and is_itself(part, read_back[0]):
                return part.value
        case _:
            pass
    return {"type": "palaver:data", "name": part.name, "value": part.value}


def _result(result: ToolResult) -> dict[str, Any]:
    output = result.output if _is_content(result.output) else result_text(result.output)
    item: dict[str, Any] = {"type": "function_call_output", "call_id": result.call_id, "output": output}
    return {**item, "palaver:is_error": True} if result.is_error else item


def _is_content(output: Any) -> bool:
    kinds = ("input_text", "input_image", "input_file")
    return isinstance(output, list) and output != [] and all(mapping(part).get("type") in kinds for part in output)  # pyright: ignore[reportUnknownVariableType]  # JSON
