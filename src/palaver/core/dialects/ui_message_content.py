"""What UI messages are made of, part by part, for both ways of reading them."""

from typing import Any

import msgspec

from palaver.core.dialects.pieces import UNKNOWN_MEDIA, Object, argument_text, file_at, kept, mapping, string
from palaver.core.parts import (
    APPROVAL_RESPONSE,
    Annotation,
    Data,
    File,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)

RAW = "ui-message:"
"""Before the type of a part that we do not know, in the name of the data that it becomes."""

CALLS = ("tool_calls", "function_call", "additional_kwargs")
"""Where Chat Completions have calls, which may stand beside the parts of any message."""

_DENIED = "Denied."


class _Notes(msgspec.Struct, gc=False):
    annotations: tuple[Annotation, ...] = ()


def spoken(part: Object, kind: str) -> Part | None:
    """Text, a refusal or reasoning; None where no text is given."""
    text, told = string(part.get("text")), part.get("providerMetadata")
    if text is None and kind == "reasoning":
        text = string(part.get("reasoning"))  # That of version 4.
    if text is None:
        return None
    ours = mapping(mapping(told).get("palaver")) if told is not None else {}
    if kind == "reasoning":
        return Reasoning(text, string(ours.get("encrypted")))
    if ours.get("refusal") is True:
        return Refusal(text)
    return Text(text, _annotations(part)) if "annotations" in part else Text(text)


def _annotations(part: Object) -> tuple[Annotation, ...]:
    """Those of our own dialect."""
    try:
        return msgspec.convert({"annotations": part["annotations"]}, _Notes).annotations
    except (msgspec.ValidationError, UnicodeError):
        return ()


def file(part: Object) -> File | None:
    """One at a URL, or version 4's, which has its content in base64; None where it has neither."""
    url, filename = string(part.get("url")), string(part.get("filename"))
    told = string(part.get("mediaType")) or string(part.get("mimeType"))
    if url is not None:
        found = file_at(url, UNKNOWN_MEDIA, filename=filename)
        return File(told, found.url, found.data, None, filename) if told else found
    content = string(part.get("data"))
    return None if content is None else File(told or UNKNOWN_MEDIA, None, content, None, filename)


def data(part: Object, kind: str) -> Part:
    """The application's own, under its name; a stored file of ours."""
    value = part.get("data")
    if kind == "data-file":
        stored = mapping(value)
        media_type, file_id = string(stored.get("media_type")), string(stored.get("file_id"))
        if media_type is not None and file_id is not None:
            return File(media_type, None, None, file_id, string(stored.get("filename")))
    return Data(kind.removeprefix("data-"), kept(value))


def source(part: Object, kind: str) -> Annotation | None:
    """A note on the text that it follows; None where it says nothing."""
    title, url = string(part.get("title")), string(part.get("url"))
    if kind == "source-document":
        return Annotation("file", title or string(part.get("filename")))
    return None if url is None else Annotation("url", title, url)


def raw(part: Any, kind: str) -> Data:
    """What we do not know, as it is."""
    return Data(f"{RAW}{kind or 'part'}", kept(part))


def tool(part: Object, kind: str, otherwise: str) -> tuple[ToolCall, ToolResult | Data | None]:
    """The call, and by its state what came of it: a result, or the user's answer to the question for approval."""
    fields = part
    if kind == "tool-invocation":
        fields = mapping(part.get("toolInvocation")) or part  # Version 4 wraps it.
    call_id, named, given = string(fields.get("toolCallId")), string(fields.get("toolName")), fields.get("input")
    if given is None:
        given = fields.get("rawInput")
        given = fields.get("args") if given is None else given
    name = kind.removeprefix("tool-") if named is None else named
    call = ToolCall(call_id or otherwise, name, argument_text(given))
    return call, _outcome(fields, string(fields.get("state")), call.call_id)


def _outcome(fields: Object, state: str | None, call_id: str) -> ToolResult | Data | None:
    match state:
        case "output-available" | "result":
            return _result(fields, call_id)
        case None if "output" in fields or "result" in fields:
            return _result(fields, call_id)
        case "output-error":
            return ToolResult(call_id, kept(fields.get("errorText")), True)
        case "output-denied":
            return ToolResult(call_id, _DENIED, True)
        case "approval-responded":
            approval = mapping(fields.get("approval"))
            decided = {"approve": approval.get("approved"), "reason": approval.get("reason")}
            return Data(APPROVAL_RESPONSE, kept({"id": string(approval.get("id")) or call_id, **decided}))
        case _:
            return None  # Its input is still coming, or it waits for its output or for approval.


def _result(fields: Object, call_id: str) -> ToolResult:
    output = fields.get("output", fields.get("result"))
    if fields.get("type") == "tool-result":  # A model message's: it tells what kind of value it is.
        told = mapping(output)
        kind = string(told.get("type"))
        if kind is not None and "value" in told:
            return ToolResult(call_id, kept(told["value"]), kind.startswith("error-"))
    return ToolResult(call_id, kept(output))
