"""Chat Completions: `{"role": "user", "content": "…"}`, the dialect that everybody speaks a little.

Also read: `text`, `message` or `parts` in place of `content`, other names for roles, OpenInference's wrappers. Our own
additions, which others ignore: `reasoning_content`, and `palaver` with data parts and a result's `is_error`.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

from palaver.core.dialects.pieces import UNKNOWN_MEDIA, address, argument_text, content_of, file_at, result_text
from palaver.core.dialects.roles import role_of
from palaver.core.messages import Message
from palaver.core.parts import Annotation, Data, File, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from palaver.core.recognition import actor

LOSSES: Sequence[str] = (
    "ids and metadata of messages",
    "neighbouring texts become one, and so do reasoning and refusals wherever they stand; empty ones vanish",
    "reasoning comes first, then text and files, refusal, calls, data",
    "annotations other than url, and those of all but the first text; encrypted reasoning",
    "a user's, system's or developer's reasoning, refusal, calls and annotations",
    "a second call of the same id in one message",
    "a tool result that is not text becomes its JSON text",
    "results inside a message that is not a tool's become tool messages, and split it; what else a tool message holds",
    "a file's media type where its content is elsewhere (an image stays one), and all but one of its places",
    "the filename of an image or a sound, the detail of anything but an image",
)

_Object = Mapping[str, Any]


def read(elements: Sequence[Any]) -> list[Message]:
    """One message per element; a legacy function call gets an id from its place, and its answer finds it by name."""
    open_functions: dict[str, str] = {}
    return [_message(element, index, open_functions) for index, element in enumerate(elements)]


def write(messages: Sequence[Message]) -> list[Any]:
    """Dicts as the OpenAI SDKs send and expect them."""
    return [written for message in messages for written in _written(message)]


# Reading


def _message(element: _Object, index: int, open_functions: dict[str, str]) -> Message:
    role, name = role_of(actor(element) or "", answers_a_call="tool_call_id" in element)
    own_name = element.get("name")
    name = own_name if isinstance(own_name, str) else name
    if role == "tool":
        call_id = element.get("tool_call_id")
        if not isinstance(call_id, str):
            call_id = open_functions.get(name or "", "")
        return Message(role="tool", parts=(_result(element, call_id),), name=name)
    parts: list[Part] = []
    reasoning = element.get("reasoning_content")
    if isinstance(reasoning, str) and reasoning:
        parts.append(Reasoning(text=reasoning))
    parts += _annotated(_said(element), element.get("annotations"))
    refusal = element.get("refusal")
    if isinstance(refusal, str) and refusal:
        parts.append(Refusal(text=refusal))
    parts += _calls(element, index, open_functions)
    parts += _data(element)
    own_id = element.get("id")
    return Message(role=role, parts=tuple(parts), id=own_id if isinstance(own_id, str) else None, name=name)


def _said(element: _Object) -> list[Part]:
    content = content_of(element)
    listed = cast("list[Any]", content) if isinstance(content, list) else [] if content is None else [content]
    return [part for item in listed if (part := _part(item)) is not None]


def _part(item: Any) -> Part | None:
    if isinstance(item, str):
        return Text(text=item) if item else None
    match item:
        case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            return Text(text=text) if text else None
        case {"type": "image_url", "image_url": {"url": str(url)} as image}:
            detail = cast("_Object", image).get("detail")
            return file_at(url, "image/*", detail=detail if isinstance(detail, str) else None)
        case {"type": "image_url", "image_url": str(url)}:
            return file_at(url, "image/*")
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(form)}}:
            return File(media_type=f"audio/{form}", data=data)
        case {"type": "file", "file": {} as file}:
            return _attached(cast("_Object", file))
        case {"type": "refusal", "refusal": str(text)}:
            return Refusal(text=text)
        case {"type": "reasoning", "text": str(text)}:
            return Reasoning(text=text)
        case {"text": str(text), **rest} if "type" not in rest:
            return Text(text=text) if text else None
        case _:
            kind = cast("_Object", item).get("type") if isinstance(item, dict) else None
            return Data(name=f"chat-completions:{kind if isinstance(kind, str) else 'part'}", value=item)


def _attached(file: _Object) -> File:
    data, file_id, filename = file.get("file_data"), file.get("file_id"), file.get("filename")
    name = filename if isinstance(filename, str) else None
    if isinstance(data, str):
        if data.startswith(("data:", "https:", "http:")):
            return file_at(data, UNKNOWN_MEDIA, filename=name)
        return File(media_type=UNKNOWN_MEDIA, data=data, filename=name)
    return File(media_type=UNKNOWN_MEDIA, file_id=file_id if isinstance(file_id, str) else None, filename=name)


def _calls(element: _Object, index: int, open_functions: dict[str, str]) -> Iterable[ToolCall]:
    seen: set[str] = set()
    listed, extra = element.get("tool_calls"), element.get("additional_kwargs")
    if not listed and isinstance(extra, dict):
        listed = cast("_Object", extra).get("tool_calls")
    for number, item in enumerate(cast("list[Any]", listed) if isinstance(listed, list) else []):
        call = _call(item, f"call_{index}_{number}")
        if call is not None and call.call_id not in seen:
            seen.add(call.call_id)
            yield call
    function = element.get("function_call")
    if isinstance(function, dict):
        call = _call({"function": function}, f"call_{index}")
        if call is not None:
            open_functions[call.name] = call.call_id
            yield call


def _call(item: Any, otherwise: str) -> ToolCall | None:
    """`function.{name, arguments}`, `{name, args}`, and OpenInference's `{"tool_call": {…}}` around either."""
    if not isinstance(item, dict):
        return None
    call = cast("_Object", item)
    inner = call.get("tool_call")
    if isinstance(inner, dict):
        call = cast("_Object", inner)
    inner = call.get("function")
    function = cast("_Object", inner) if isinstance(inner, dict) else call
    name, call_id = function.get("name"), call.get("id")
    return ToolCall(
        call_id=call_id if isinstance(call_id, str) and call_id else otherwise,
        name=name if isinstance(name, str) else "",
        arguments=argument_text(function.get("arguments", function.get("args"))),
    )


def _result(element: _Object, call_id: str) -> ToolResult:
    output = content_of(element)
    if isinstance(output, list):
        parts = _said(element)
        if all(isinstance(part, Text) for part in parts):
            output = "".join(part.text for part in parts if isinstance(part, Text))
    ours = element.get("palaver")
    failed = isinstance(ours, dict) and cast("_Object", ours).get("is_error") is True
    return ToolResult(call_id=call_id, output=output, is_error=failed)


def _data(element: _Object) -> Iterable[Data]:
    match element.get("palaver"):
        case {"data": [*items]}:
            for item in items:
                match item:
                    case {"name": str(name)}:
                        yield Data(name=name, value=cast("_Object", item).get("value"))
                    case _:
                        pass
        case _:
            pass


def _annotated(parts: list[Part], annotations: Any) -> list[Part]:
    """The parts, with the notes on the first text among them."""
    listed = cast("list[Any]", annotations) if isinstance(annotations, list) else []
    notes = tuple(note for item in listed if (note := _noted(item)) is not None)
    for index, part in enumerate(parts):
        if notes and isinstance(part, Text):
            return [*parts[:index], Text(text=part.text, annotations=notes), *parts[index + 1 :]]
    return parts


def _noted(item: Any) -> Annotation | None:
    match item:
        case {"url_citation": {"url": str(url)} as citation}:
            told = cast("_Object", citation)
            title, start, end = told.get("title"), told.get("start_index"), told.get("end_index")
            return Annotation(
                kind="url",
                url=url,
                title=title if isinstance(title, str) else None,
                start=start if isinstance(start, int) else None,
                end=end if isinstance(end, int) else None,
            )
        case _:
            return None


# Writing


def _written(message: Message) -> Iterable[dict[str, Any]]:
    if message.role == "tool":
        yield from (_written_result(result, message.name) for result in message.tool_results)
        return
    if not message.parts:
        yield _written_message(message, ())
    for are_results, parts in groupby(message.parts, lambda part: isinstance(part, ToolResult)):
        if are_results:
            yield from (_written_result(part) for part in parts if isinstance(part, ToolResult))
        else:
            yield _written_message(message, tuple(parts))


def _written_result(result: ToolResult, name: str | None = None) -> dict[str, Any]:
    written: dict[str, Any] = {"role": "tool", "tool_call_id": result.call_id, "content": result_text(result.output)}
    if name is not None:
        written["name"] = name
    if result.is_error:
        written["palaver"] = {"is_error": True}
    return written


def _written_message(message: Message, parts: Sequence[Part]) -> dict[str, Any]:
    texts = [part for part in parts if isinstance(part, Text) and part.text]
    refusal = "".join(part.text for part in parts if isinstance(part, Refusal))
    calls = [part for part in parts if isinstance(part, ToolCall)]
    data = [{"name": part.name, "value": part.value} for part in parts if isinstance(part, Data)]
    written: dict[str, Any] = {"role": message.role, "content": _content(parts)}
    if message.name is not None:
        written["name"] = message.name
    if message.role == "assistant":
        if written["content"] == "" and (calls or refusal):
            written["content"] = None
        reasoning = "".join(part.text for part in parts if isinstance(part, Reasoning))
        if reasoning:
            written["reasoning_content"] = reasoning
        if refusal:
            written["refusal"] = refusal
        if notes := [_note(note) for note in (texts[0].annotations if texts else ()) if note.kind == "url"]:
            written["annotations"] = notes
        if calls:
            written["tool_calls"] = [
                {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in calls
            ]
    if data:
        written["palaver"] = {"data": data}
    return written


def _content(parts: Sequence[Part]) -> str | list[dict[str, Any]]:
    """One string, or a list of parts as soon as there is a file."""
    content: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, File):
            content.append(_written_file(part))
        elif isinstance(part, Text) and part.text:
            if content and content[-1]["type"] == "text":
                content[-1] = {"type": "text", "text": content[-1]["text"] + part.text}
            else:
                content.append({"type": "text", "text": part.text})
    if not content:
        return ""
    if len(content) == 1 and content[0]["type"] == "text":
        return content[0]["text"]
    return content


def _written_file(file: File) -> dict[str, Any]:
    kind, _, form = file.media_type.partition("/")
    if kind == "audio" and file.data:
        return {"type": "input_audio", "input_audio": {"data": file.data, "format": form}}
    if kind == "image" and file.file_id is None:
        image = {"url": address(file), "detail": file.detail}
        return {"type": "image_url", "image_url": {key: value for key, value in image.items() if value is not None}}
    attached: dict[str, Any] = {}
    if file.file_id is not None:
        attached["file_id"] = file.file_id
    else:
        attached["file_data"] = address(file)
    if file.filename is not None:
        attached["filename"] = file.filename
    return {"type": "file", "file": attached}


def _note(note: Annotation) -> dict[str, Any]:
    fields = {"url": note.url, "title": note.title, "start_index": note.start, "end_index": note.end}
    return {"type": "url_citation", "url_citation": {key: value for key, value in fields.items() if value is not None}}
