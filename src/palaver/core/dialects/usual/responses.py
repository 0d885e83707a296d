"""The usual shapes of Responses: messages, reasoning, calls, results and more as the OpenAI SDKs write them, our data.

Recognised and read in one loop over the items: the shape of an item is what it says. Every item names its type but a
message, which need not if what it holds is found in this dialect only. Between them often stands plain text, written as
in Chat Completions: it is taken along, and stands alone as it does there.
"""

from typing import Any

from palaver.core.dialects.pieces import Object, file_at, integer, kept
from palaver.core.dialects.responses_content import RAW, attached
from palaver.core.dialects.roles import ROLES
from palaver.core.dialects.usual import Unusual, from_first
from palaver.core.messages import Message, Role
from palaver.core.parts import Annotation, Data, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

Said = Message | Part | tuple[Message]
"""A message, or a part of the assistant's turn; in brackets a message that nothing joins."""
SILENCE = Reasoning("")
"""What reasoning says of which there is nothing to read."""

_SPEAKERS: dict[Any, Role] = {written: role for written, role in ROLES.items() if role != "tool"}
_TOOLS = "web_search file_search code_interpreter image_generation computer local_shell shell apply_patch mcp".split()
_KEPT = frozenset(("mcp_list_tools", "item_reference", *(f"{tool}_call" for tool in _TOOLS)))
"""What the provider's own tools did: kept as it is, whatever its fields but those that would tell otherwise."""
_TELLING = ("role", "sender", "author", "lc")

_UNTYPED = frozenset("role content id status name".split())
_MESSAGE = _UNTYPED | {"type", "phase"}
_ITEM = frozenset("type id status".split())
_CALL = _ITEM | frozenset("call_id name arguments namespace caller created_by".split())
_CUSTOM_CALL = _ITEM | frozenset("call_id name input namespace caller".split())
_OUTPUT = _ITEM | {"call_id", "output", "palaver:is_error", "created_by"}
_CUSTOM_OUTPUT = _ITEM | {"call_id", "output"}
_REASONING = _ITEM | {"summary", "content", "encrypted_content"}
_DATA = _ITEM | {"name", "value"}
_IMAGE = frozenset("type image_url detail file_id".split())
_ATTACHED = frozenset("type file_data file_url file_id filename".split())
_CITED = frozenset("type url title start_index end_index".split())
_CITED_FILE = frozenset("type file_id filename index".split())


def shapes(elements: list[Any]) -> list[Any]:
    """Of each what it says, as far as all have a usual shape, then None; nothing where nothing is certain."""
    found: list[Any] = []
    objects: list[Object] = elements
    certain = False  # Reasoning and the like alone are no conversation.
    try:
        for element in objects:
            if type(element) is not dict:
                raise Unusual
            kind = element.get("type")
            if kind == "message":
                content: list[Object] = element["content"]
                own_id, size = None, len(element)
                if (
                    (size == 3 or (size == 5 and "status" in element and type(own_id := element.get("id")) is str))
                    and len(content) == 1
                    and type(content) is list
                ):
                    piece = content[0]
                    told = piece["type"]
                    if told == "input_text" or (told == "output_text" and not piece.get("annotations")):
                        text = piece["text"]
                        if text and type(text) is str and type(piece) is dict:
                            found.append(Message(_SPEAKERS[element["role"]], (Text(text),), own_id))
                            certain = True
                            continue  # Most are: there is nothing more to look at.
                found.append(_message(element))
                certain = True
            elif kind == "function_call":
                call_id, name, arguments = element["call_id"], element["name"], element["arguments"]
                if not (type(call_id) is type(name) is type(arguments) is str and _CALL.issuperset(element)):
                    raise Unusual
                found.append(ToolCall(call_id, name, arguments))
                certain = True
            elif kind == "function_call_output":
                call_id, output, failed = element["call_id"], element["output"], False
                if len(element) != 3:
                    failed = element.get("palaver:is_error") is True
                    _check(element, _OUTPUT)
                result = ToolResult(_text(call_id), output if type(output) is str else kept(output), failed)
                found.append(Message("tool", (result,)))
                certain = True
            elif kind == "reasoning":
                found.append(_reasoning(element))
            elif kind in _KEPT:
                found.append(_kept(element, kind))
            else:
                found.append(_untyped(element) if kind is None else _seldom(element, kind))
                certain = True
    except Exception:  # It is unusual, or holds what is no JSON and may raise anything.
        return from_first(elements, found) if certain else []
    return found if certain else []


def _message(element: Object) -> Message:
    content, role = element["content"], _SPEAKERS[element["role"]]
    own_id, name = _maybe(element.get("id")), _maybe(element.get("name"))
    _check(element, _MESSAGE)
    if type(content) is str:
        return Message(role, (Text(content),) if content else (), own_id, name)
    return Message(role, tuple([_own(piece) or _shared(piece) for piece in _listed(content)]), own_id, name)


def _untyped(element: Object) -> Said:
    content, role = element["content"], _SPEAKERS[element["role"]]
    own_id = name = None
    if len(element) != 2:
        own_id, name = _maybe(element.get("id")), _maybe(element.get("name"))
        _check(element, _UNTYPED)
    if type(content) is str:
        message = Message(role, (Text(content),) if content else (), own_id, name)
        return (message,) if role == "assistant" else message
    parts = [_own(piece) for piece in _listed(content)]
    if not parts or None in parts:
        raise Unusual
    return Message(role, tuple([part for part in parts if part is not None]), own_id, name)


def _reasoning(element: Object) -> Reasoning:
    _check(element, _REASONING)
    content, encrypted = element.get("content"), _maybe(element.get("encrypted_content"))
    text = _thoughts(element["summary"]) or ("" if content is None else _thoughts(content))
    return Reasoning(text, encrypted) if text or encrypted else SILENCE


def _thoughts(pieces: Any) -> str:
    return "\n\n".join([text for piece in _listed(pieces) if (text := _text(_object(piece)["text"]))])


def _kept(element: Object, kind: str) -> Data:
    _text(element["id"])
    for key in _TELLING:
        if element.get(key) is not None:
            raise Unusual
    return Data(f"{RAW}{kind}", kept(element))


def _seldom(element: Object, kind: Any) -> Said:
    if kind == "custom_tool_call":
        _check(element, _CUSTOM_CALL)
        return ToolCall(_text(element["call_id"]), _text(element["name"]), _text(element["input"]))
    if kind == "custom_tool_call_output":
        _check(element, _CUSTOM_OUTPUT)
        return Message("tool", (ToolResult(_text(element["call_id"]), kept(element["output"])),))
    if kind == "palaver:data":
        _check(element, _DATA)
        return Data(_text(element["name"]), kept(element.get("value")))
    raise Unusual


# What a message holds


def _own(piece: Object) -> Part | None:
    """What is found in this dialect only; None for anything else."""
    kind = piece["type"]
    if type(piece) is not dict:
        raise Unusual
    if kind == "input_text" or kind == "output_text":  # noqa: PLR1714 - a tuple costs more
        text, notes = _text(piece["text"]), piece.get("annotations")
        if not text:
            raise Unusual  # It is left out.
        return Text(text, tuple([_noted(note) for note in _listed(notes)])) if notes else Text(text)
    if kind == "input_image":
        _check(piece, _IMAGE)
        return file_at(_text(piece["image_url"]), "image/*", detail=_maybe(piece.get("detail")) or None)
    if kind == "input_file":
        _check(piece, _ATTACHED)
        return attached(*[_maybe(piece.get(place)) for place in ("file_data", "file_url", "file_id", "filename")])
    return None


def _shared(piece: Object) -> Part:
    """What others have as well."""
    kind = piece["type"]
    if kind == "text" and len(piece) == 2 and (text := _text(piece["text"])):
        return Text(text)
    if kind == "refusal" and len(piece) == 2:
        return Refusal(_text(piece["refusal"]))
    raise Unusual


def _noted(note: Object) -> Annotation:
    kind = _object(note)["type"]
    if kind == "url_citation":
        _check(note, _CITED)
        start, end = integer(note.get("start_index")), integer(note.get("end_index"))
        return Annotation("url", _maybe(note.get("title")) or None, _text(note["url"]), None, start, end)
    if kind != "file_citation":
        raise Unusual
    _check(note, _CITED_FILE)
    title, file_id = _maybe(note.get("filename")), _text(note["file_id"])
    return Annotation("file", title or None, None, file_id or None, integer(note.get("index")))


# What is usual


def _check(fields: Object, usual: frozenset[str]) -> None:
    if not usual.issuperset(fields):
        raise Unusual


def _text(value: Any) -> str:
    if type(value) is not str:
        raise Unusual
    return value


def _maybe(value: Any) -> str | None:
    if value is not None and type(value) is not str:
        raise Unusual
    return value


def _object(value: Object) -> Object:
    if type(value) is not dict:
        raise Unusual
    return value


def _listed(value: list[Any]) -> list[Any]:
    if type(value) is not list:
        raise Unusual
    return value
