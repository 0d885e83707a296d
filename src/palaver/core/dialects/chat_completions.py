"""Chat Completions: `{"role": "user", "content": "…"}`, the most common dialect.

Also read: `text`, `message` or `parts` in place of `content`, role aliases, OpenInference's wrappers, Haystack's parts
and those of OpenAI's threads. Extensions, which other clients ignore: `reasoning_content`, and `palaver` with data
parts and a result's `is_error`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from palaver.core.dialects.detection import content_of, read_role
from palaver.core.json import (
    Object,
    argument_text,
    as_list,
    dict_or_empty,
    ensure_json,
    optional_int,
    optional_str,
    result_text,
    without_none,
)
from palaver.core.messages import (
    ROLE_ALIASES,
    UNKNOWN_MEDIA_TYPE,
    Annotation,
    Data,
    File,
    Message,
    Part,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolResult,
    file_from_url,
    file_to_url,
    join_texts_or_json,
    split_results,
    unique_calls,
)

LOSSES: Sequence[str] = (
    "Messages lose their ids and metadata.",
    "Adjacent text parts are joined.",
    "All reasoning in a message is joined, and so are all refusals.",
    "Empty text, reasoning and refusals are dropped.",
    "Parts are reordered: reasoning first, then text and files, refusal, calls and data.",
    "Annotations are kept only on the first text, and only those of kind `url`.",
    "Reasoning loses its encrypted data.",
    "User, system and developer messages lose reasoning, refusals, calls and annotations.",
    "Of several calls with the same id in one message, only the first is kept.",
    "A tool result that is not text becomes JSON text.",
    "Tool results outside tool messages become separate tool messages.",
    "Tool messages lose all parts except tool results.",
    "A file whose content is not inline loses its media type, except that an image with a URL stays an image.",
    "A file with several locations (id, URL, content) keeps only one.",
    "Images without a file id and inline audio lose their filename.",
    "`detail` is kept only on images without a file id.",
)

_TEXT_TYPES = ("text", "input_text", "output_text")
_SPEAKER_ROLES: dict[str, Role] = {alias: role for alias, role in ROLE_ALIASES.items() if role != "tool"}
_ARGUMENT_KEYS = ("arguments", "args", "input")


def read(elements: Sequence[Any], start: int = 0) -> list[Message]:
    """Return one message per element; legacy function calls are named by index, their results matched by name."""
    open_functions: dict[str, str] = {}
    messages: list[Message] = []
    for index, element in enumerate(elements, start):
        role, content = element.get("role"), element.get("content")
        if len(element) == 2 and content and type(content) is type(role) is str and role in _SPEAKER_ROLES:
            messages.append(Message(_SPEAKER_ROLES[role], (Text(content),)))  # The most common element.
        else:
            messages += _read_messages(element, index, open_functions)
    return messages


def write(messages: Sequence[Message]) -> list[Any]:
    """Return dicts as the OpenAI SDKs send and expect them."""
    return [element for message in messages for element in _write_messages(message)]


def read_tool_calls(element: Object, index: int) -> list[ToolCall]:
    """Return the tool calls that an element of another dialect has in this dialect's fields."""
    has_calls = "tool_calls" in element or "function_call" in element or "additional_kwargs" in element
    return _read_calls(element, index, {}) if has_calls else []


# Reading


def _read_messages(element: Object, index: int, open_functions: dict[str, str]) -> list[Message]:
    role, role_name = read_role(element, answers_a_call="tool_call_id" in element)
    name = element.get("name")
    name = name if isinstance(name, str) else role_name
    content = content_of(element)
    results = [] if type(content) is str else _read_results(content)
    if role == "tool":
        call_id = element.get("tool_call_id")
        call_id = call_id if isinstance(call_id, str) else open_functions.get(name or "", "")
        results = results or [_read_result(element, content, call_id)]
        return [Message("tool", (result,), None, name) for result in results]
    parts: list[Part] = ([Text(content)] if content else []) if type(content) is str else _read_parts(content)
    if len(element) > 2 or "content" not in element:  # More than role and content.
        parts = _add_sibling_fields(element, parts)
        parts += unique_calls(_read_calls(element, index, open_functions))
        parts += _read_data(element)
    message_id = element.get("id")
    message = Message(role, tuple(parts), message_id if isinstance(message_id, str) else None, name)
    return [message, *(Message("tool", (result,)) for result in results)] if results else [message]


def _add_sibling_fields(element: Object, parts: list[Part]) -> list[Part]:
    """Add the fields next to the content: reasoning before it, annotations, a refusal after it."""
    reasoning, refusal = element.get("reasoning_content"), element.get("refusal")
    notes = element.get("annotations")
    if notes:
        parts = _annotate_first_text(parts, notes)
    if reasoning and isinstance(reasoning, str):
        parts.insert(0, Reasoning(reasoning))
    if refusal and isinstance(refusal, str):
        parts.append(Refusal(refusal))
    return parts


def _read_parts(content: Any) -> list[Part]:
    parts: list[Part] = []
    for item in as_list(content):
        if type(item) is str:
            if item:
                parts.append(Text(item))
        elif (part := _read_part(item)) is not None and not isinstance(part, ToolResult):
            parts.append(part)
    return parts


def _read_results(content: Any) -> list[ToolResult]:
    """Return the results among the parts, as in the AI SDK's model messages."""
    if not isinstance(content, list):
        return []
    results: list[ToolResult] = []
    for item in cast("list[Any]", content):
        fields = dict_or_empty(item)
        if fields.get("type") == "tool-result":
            results.append(_read_sdk_result(fields))
        elif isinstance(part := _read_haystack_part(fields), ToolResult):
            results.append(part)
    return results


def _read_sdk_result(item: Object) -> ToolResult:
    """Read a typed output; before version 5 of the AI SDK it was under `result`."""
    output: Any = item.get("output", item.get("result"))
    typed_output, is_error = dict_or_empty(output), item.get("isError") is True
    kind = typed_output.get("type")
    if isinstance(kind, str) and "value" in typed_output:
        output, is_error = typed_output["value"], kind.startswith("error-")
    return ToolResult(optional_str(item.get("toolCallId")) or "", ensure_json(output), is_error)


def _read_part(item: Any) -> Part | None:
    fields = dict_or_empty(item)
    kind = fields.get("type")
    text = fields.get("text")
    if isinstance(text, str) and ("type" not in fields or kind in _TEXT_TYPES):
        return Text(text) if text else None
    match kind:
        case "image_url":
            image = fields.get("image_url")
            image_fields = {"url": image} if isinstance(image, str) else dict_or_empty(image)
            url, detail = image_fields.get("url"), image_fields.get("detail")
            if isinstance(url, str):
                return file_from_url(url, "image/*", detail=optional_str(detail))
        case "input_audio":
            audio = dict_or_empty(fields.get("input_audio"))
            data, audio_format = audio.get("data"), audio.get("format")
            if isinstance(data, str) and isinstance(audio_format, str):
                return File(media_type=f"audio/{audio_format}", data=data)
        case "file":
            if isinstance(fields.get("file"), dict):
                return _read_attachment(fields["file"])
            if (file := _read_sdk_file(fields, fields.get("data"), UNKNOWN_MEDIA_TYPE)) is not None:
                return file
        case "image":
            if (file := _read_sdk_file(fields, fields.get("image"), "image/*")) is not None:
                return file
        case "tool-call":
            if isinstance(name := fields.get("toolName"), str):
                arguments = fields.get("input", fields.get("args"))
                return ToolCall(optional_str(fields.get("toolCallId")) or "", name, argument_text(arguments))
        case "tool-result":
            return _read_sdk_result(fields)
        case "refusal":
            if isinstance(refusal := fields.get("refusal"), str):
                return Refusal(refusal)
        case "reasoning":
            if isinstance(text, str):
                return Reasoning(text)
        case _:
            pass
    part = _read_thread_part(fields) if "type" in fields else _read_haystack_part(fields)
    return part or Data(f"chat-completions:{optional_str(kind) or 'part'}", ensure_json(item))


def _read_thread_part(part: Object) -> Part | None:
    """Read a part of a message in one of OpenAI's threads."""
    match part:
        case {"type": "text", "text": {"value": str(text), **more}}:
            notes = [_read_file_citation(dict_or_empty(item)) for item in as_list(more.get("annotations"))]
            return Text(text, tuple([note for note in notes if note is not None]))
        case {"type": "image_file", "image_file": {"file_id": str(file_id)}}:
            return File("image/*", file_id=file_id)
        case _:
            return None


def _read_file_citation(note: Object) -> Annotation | None:
    source = dict_or_empty(note.get("file_citation")) or dict_or_empty(note.get("file_path"))
    start, end = optional_int(note.get("start_index")), optional_int(note.get("end_index"))
    file_id = optional_str(source.get("file_id"))
    return None if file_id is None else Annotation("file", file_id=file_id, start=start, end=end)


def _read_haystack_part(part: Object) -> Part | None:
    """Read a part of Haystack's messages: one key, its kind."""
    match part:
        case {"tool_call": {"tool_name": str(name), **call}}:
            return ToolCall(optional_str(call.get("id")) or "", name, argument_text(call.get("arguments")))
        case {"tool_call_result": {"origin": {"tool_name": str(), **origin}, **result}}:
            call_id, output = optional_str(origin.get("id")) or "", result.get("result")
            return ToolResult(call_id, ensure_json(output), result.get("error") is True)
        case {"reasoning": {"reasoning_text": str(text)}}:
            return Reasoning(text)
        case {"image": {"base64_image": str(data), **image}}:
            return File(optional_str(image.get("mime_type")) or "image/*", data=data)
        case {"file": {"base64_data": str(data), **file}}:
            media_type = optional_str(file.get("mime_type")) or UNKNOWN_MEDIA_TYPE
            return File(media_type, data=data, filename=optional_str(file.get("filename")))
        case _:
            return None


def _read_sdk_file(part: Object, source: Any, default_type: str) -> File | None:
    """Read a file of the AI SDK's model messages: a URL, or base64."""
    if not isinstance(source, str):
        return None
    media_type = optional_str(part.get("mediaType")) or optional_str(part.get("mimeType"))
    filename = optional_str(part.get("filename"))
    if source.startswith(("data:", "https:", "http:")):
        return file_from_url(source, default_type, media_type=media_type, filename=filename)
    return File(media_type=media_type or default_type, data=source, filename=filename)


def _read_attachment(file: Object) -> File:
    data, file_id, filename = file.get("file_data"), file.get("file_id"), file.get("filename")
    name = filename if isinstance(filename, str) else None
    if isinstance(data, str):
        if data.startswith(("data:", "https:", "http:")):
            return file_from_url(data, UNKNOWN_MEDIA_TYPE, filename=name)
        return File(media_type=UNKNOWN_MEDIA_TYPE, data=data, filename=name)
    return File(media_type=UNKNOWN_MEDIA_TYPE, file_id=file_id if isinstance(file_id, str) else None, filename=name)


def _read_calls(element: Object, index: int, open_functions: dict[str, str]) -> list[ToolCall]:
    items, extra, function = element.get("tool_calls"), element.get("additional_kwargs"), element.get("function_call")
    if not items and isinstance(extra, dict):
        items = cast("Object", extra).get("tool_calls")
    calls: list[ToolCall] = []
    if isinstance(items, list):
        listing = enumerate(cast("list[Any]", items))
        calls += [_read_call(cast("Object", item), index, number) for number, item in listing if isinstance(item, dict)]
    if isinstance(function, dict):
        call = _read_call({"function": function}, index)
        open_functions[call.name] = call.call_id
        calls.append(call)
    return calls


def _read_call(item: Object, index: int, number: int | None = None) -> ToolCall:
    """Read `function.{name, arguments}` or `{name, args}`, also inside OpenInference's `{"tool_call": {…}}`."""
    inner = item.get("tool_call")
    call = cast("Object", inner) if isinstance(inner, dict) else item
    inner = call.get("function") or call.get("custom")
    function = cast("Object", inner) if isinstance(inner, dict) else call
    name, call_id = function.get("name"), call.get("id")
    if not call_id or not isinstance(call_id, str):
        call_id = f"call_{index}" if number is None else f"call_{index}_{number}"
    arguments = next((function[key] for key in _ARGUMENT_KEYS if key in function), None)
    return ToolCall(call_id, name if isinstance(name, str) else "", argument_text(arguments))


def _read_result(element: Object, content: Any, call_id: str) -> ToolResult:
    extension = element.get("palaver")
    is_error = extension is not None and dict_or_empty(extension).get("is_error") is True
    return ToolResult(call_id, content if type(content) is str else _read_output(content), is_error)


def _read_output(content: Any) -> Any:
    """Read a tool's result; a list of only texts is joined."""
    if isinstance(content, list):
        return join_texts_or_json(_read_parts(cast("Any", content)), content)
    return ensure_json(content)


def _read_data(element: Object) -> Iterable[Data]:
    extension = element.get("palaver")
    items = dict_or_empty(extension).get("data") if extension is not None else None
    return [
        Data(item["name"], ensure_json(item.get("value")))
        for item in (cast("list[Any]", items) if isinstance(items, list) else [])
        if isinstance(dict_or_empty(item).get("name"), str)
    ]


def _annotate_first_text(parts: list[Part], annotations: Any) -> list[Part]:
    notes = tuple(note for item in as_list(annotations) if (note := _read_annotation(item)) is not None)
    for index, part in enumerate(parts):
        if notes and isinstance(part, Text):
            return [*parts[:index], Text(text=part.text, annotations=notes), *parts[index + 1 :]]
    return parts


def _read_annotation(item: Any) -> Annotation | None:
    match item:
        case {"url_citation": {"url": str(url)} as citation}:
            fields = cast("Object", citation)
            title, start, end = fields.get("title"), fields.get("start_index"), fields.get("end_index")
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


def _write_messages(message: Message) -> Iterable[dict[str, Any]]:
    for piece in split_results(message):
        if piece.role == "tool":
            yield from (_write_result(result, piece.name) for result in piece.tool_results)
        else:
            yield _write_message(piece)


def _write_result(result: ToolResult, name: str | None) -> dict[str, Any]:
    element: dict[str, Any] = {"role": "tool", "tool_call_id": result.call_id, "content": result_text(result.output)}
    if name is not None:
        element["name"] = name
    if result.is_error:
        element["palaver"] = {"is_error": True}
    return element


def _write_message(message: Message) -> dict[str, Any]:
    parts = message.parts
    texts = [part for part in parts if isinstance(part, Text) and part.text]
    refusal = "".join(part.text for part in parts if isinstance(part, Refusal))
    calls = [part for part in parts if isinstance(part, ToolCall)]
    data = [{"name": part.name, "value": part.value} for part in parts if isinstance(part, Data)]
    element: dict[str, Any] = {"role": message.role, "content": write_content(parts, _write_file)}
    if message.name is not None:
        element["name"] = message.name
    if message.role == "assistant":
        if element["content"] == "" and (calls or refusal):
            element["content"] = None
        reasoning = "".join(part.text for part in parts if isinstance(part, Reasoning))
        if reasoning:
            element["reasoning_content"] = reasoning
        if refusal:
            element["refusal"] = refusal
        if notes := [_write_annotation(note) for note in (texts[0].annotations if texts else ()) if note.kind == "url"]:
            element["annotations"] = notes
        if calls:
            element["tool_calls"] = [
                {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in calls
            ]
    if data:
        element["palaver"] = {"data": data}
    return element


def write_content(
    parts: Sequence[Part],
    write_file: Callable[[File], dict[str, Any]],
    text_types: tuple[type[Text | Refusal], ...] = (Text,),
) -> str | list[dict[str, Any]]:
    """Return texts and files; neighbouring texts are joined, and nothing but text is a string."""
    content: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, File):
            content.append(write_file(part))
        elif isinstance(part, text_types) and part.text:
            if content and content[-1]["type"] == "text":
                content[-1] = {"type": "text", "text": content[-1]["text"] + part.text}
            else:
                content.append({"type": "text", "text": part.text})
    if not content:
        return ""
    if len(content) == 1 and content[0]["type"] == "text":
        return content[0]["text"]
    return content


def _write_file(file: File) -> dict[str, Any]:
    kind, _, subtype = file.media_type.partition("/")
    if kind == "audio" and file.data:
        return {"type": "input_audio", "input_audio": {"data": file.data, "format": subtype}}
    if kind == "image" and file.file_id is None:
        return {"type": "image_url", "image_url": without_none(url=file_to_url(file), detail=file.detail)}
    source = {"file_data": file_to_url(file)} if file.file_id is None else {"file_id": file.file_id}
    return {"type": "file", "file": {**source, **without_none(filename=file.filename)}}


def _write_annotation(note: Annotation) -> dict[str, Any]:
    fields = without_none(url=note.url, title=note.title, start_index=note.start, end_index=note.end)
    return {"type": "url_citation", "url_citation": fields}
