"""Writers of turns in each dialect, with the fields that real clients send."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from benchmarks.payloads.turns import IMAGE, Turn
from palaver.core.dialects.detection import Dialect

Object = dict[str, Any]
Writer = Callable[[Sequence[Turn]], list[Object]]


def chat_completions(turns: Sequence[Turn]) -> list[Object]:
    messages: list[Object] = []
    for turn in turns:
        match turn:
            case Turn(call=call) if call is not None:
                function = {"name": call.name, "arguments": _json(call.arguments)}
                calls = [{"id": call.id, "type": "function", "function": function}]
                messages.append({"role": "assistant", "content": None, "tool_calls": calls})
                messages.append({"role": "tool", "tool_call_id": call.id, "content": _json(call.output)})
            case Turn(image=image) if image is not None:
                image_part = {"type": "image_url", "image_url": {"url": image}}
                messages.append({"role": turn.role, "content": [{"type": "text", "text": turn.text}, image_part]})
            case _:
                messages.append({"role": turn.role, "content": turn.text})
    return messages


def open_inference(turns: Sequence[Turn]) -> list[Object]:
    """Each message is under a key `message`, each call under `tool_call`."""
    messages: list[Object] = []
    for message in chat_completions(turns):
        calls = message.get("tool_calls")
        calls_field = {"tool_calls": [{"tool_call": call} for call in calls]} if calls else {}
        messages.append({"message": message | calls_field})
    return messages


def senders(turns: Sequence[Turn]) -> list[Object]:
    """Chat histories of widgets and custom applications."""
    names = {"system": "system", "user": "human", "assistant": "bot"}
    return [
        {"id": index, "sender": names[turn.role], "text": turn.text, "at": "2026-03-01T09:15:00Z"}
        for index, turn in enumerate(turns)
    ]


def anthropic(turns: Sequence[Turn]) -> list[Object]:
    messages: list[Object] = []
    for turn in _with_image(_without_system(turns)):
        blocks: list[Object] = []
        if turn.thought is not None:
            blocks.append({"type": "thinking", "thinking": turn.thought, "signature": "EqQBCkYIBxgCKkDh" * 4})
        if turn.image is not None:
            blocks.append({"type": "image", "source": {"type": "url", "url": turn.image}})
        if turn.call is not None:
            call = turn.call
            blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments})
            messages.append({"role": "assistant", "content": blocks})
            result_part = [{"type": "text", "text": _json(call.output)}]
            result = {"type": "tool_result", "tool_use_id": call.id, "content": result_part}
            messages.append({"role": "user", "content": [result]})
        elif blocks or turn.role == "assistant":
            messages.append({"role": turn.role, "content": [*blocks, {"type": "text", "text": turn.text}]})
        else:
            messages.append({"role": turn.role, "content": turn.text})
    return messages


def responses(turns: Sequence[Turn]) -> list[Object]:
    items: list[Object] = []
    for number, turn in enumerate(turns):
        if turn.thought is not None:
            summary = [{"type": "summary_text", "text": turn.thought}]
            items.append({"type": "reasoning", "id": f"rs_{number:016x}", "summary": summary})
        if turn.call is not None:
            call = turn.call
            call_fields = {"call_id": call.id, "name": call.name, "arguments": _json(call.arguments)}
            items.append({"type": "function_call", "id": f"fc_{number:016x}", **call_fields, "status": "completed"})
            items.append({"type": "function_call_output", "call_id": call.id, "output": _json(call.output)})
        elif turn.role == "assistant":
            content = [{"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}]
            item_fields = {"id": f"msg_{number:016x}", "type": "message", "status": "completed"}
            items.append({**item_fields, "role": "assistant", "content": content})
        else:
            content = [{"type": "input_text", "text": turn.text}]
            content += [{"type": "input_image", "image_url": turn.image, "detail": "auto"}] if turn.image else []
            items.append({"type": "message", "role": turn.role, "content": content})
    return items


def gemini(turns: Sequence[Turn]) -> list[Object]:
    contents: list[Object] = []
    for turn in _without_system(turns):
        parts: list[Object] = [{"text": turn.thought, "thought": True}] if turn.thought is not None else []
        if turn.call is not None:
            call = turn.call
            contents.append(
                {"role": "model", "parts": [*parts, {"functionCall": {"name": call.name, "args": call.arguments}}]}
            )
            answer = {"functionResponse": {"name": call.name, "response": call.output}}
            contents.append({"role": "user", "parts": [answer]})
            continue
        parts.append({"text": turn.text})
        if turn.image is not None:
            parts.append({"fileData": {"mimeType": "image/png", "fileUri": turn.image}})
        contents.append({"role": "model" if turn.role == "assistant" else turn.role, "parts": parts})
    return contents


def gen_ai(turns: Sequence[Turn]) -> list[Object]:
    """OpenTelemetry's messages."""
    messages: list[Object] = []
    for turn in turns:
        parts: list[Object] = [{"type": "reasoning", "content": turn.thought}] if turn.thought is not None else []
        if turn.call is not None:
            call = turn.call
            call_part = {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
            messages.append({"role": "assistant", "parts": [*parts, call_part], "finish_reason": "tool_call"})
            result_part = {"type": "tool_call_response", "id": call.id, "response": call.output}
            messages.append({"role": "tool", "parts": [result_part]})
            continue
        parts.append({"type": "text", "content": turn.text})
        if turn.image is not None:
            parts.append({"type": "uri", "modality": "image", "mime_type": "image/png", "uri": turn.image})
        finish_fields = {"finish_reason": "stop"} if turn.role == "assistant" else {}
        messages.append({"role": turn.role, "parts": parts, **finish_fields})
    return messages


def ui_message(turns: Sequence[Turn]) -> list[Object]:
    """The AI SDK's messages: one for a whole turn of the assistant."""
    messages: list[Object] = []
    for number, turn in enumerate(turns):
        parts: list[Object] = []
        if turn.thought is not None:
            parts.append({"type": "reasoning", "text": turn.thought, "state": "done"})
        if turn.call is not None:
            call = turn.call
            tool = {"type": f"tool-{call.name}", "toolCallId": call.id, "state": "output-available"}
            parts += [{"type": "step-start"}, {**tool, "input": call.arguments, "output": call.output}]
        elif turn.role == "assistant":
            parts += [{"type": "step-start"}, {"type": "text", "text": turn.text, "state": "done"}]
        else:
            parts.append({"type": "text", "text": turn.text})
        if turn.image is not None:
            parts.append({"type": "file", "mediaType": "image/png", "url": turn.image})
        messages.append({"id": f"aXb7{number:012x}", "role": turn.role, "parts": parts})
    return messages


def palaver(turns: Sequence[Turn]) -> list[Object]:
    messages: list[Object] = []
    for turn in _with_image(turns):
        parts: list[Object] = [{"type": "reasoning", "text": turn.thought}] if turn.thought is not None else []
        if turn.call is not None:
            call = turn.call
            call_fields = {"call_id": call.id, "name": call.name, "arguments": _json(call.arguments)}
            messages.append({"role": "assistant", "parts": [*parts, {"type": "tool-call", **call_fields}]})
            result_part = {"type": "tool-result", "call_id": call.id, "output": call.output}
            messages.append({"role": "tool", "parts": [result_part]})
            continue
        parts.append({"type": "text", "text": turn.text})
        if turn.image is not None:
            parts.append({"type": "file", "media_type": "image/png", "url": turn.image})
        messages.append({"role": turn.role, "parts": parts})
    return messages


def langchain(turns: Sequence[Turn]) -> list[Object]:
    """In the form of `model_dump`."""
    return [{"type": kind, **fields} for kind, fields in _langchain(turns)]


def langchain_data(turns: Sequence[Turn]) -> list[Object]:
    """In the form of `messages_to_dict`."""
    return [{"type": kind, "data": {**fields, "type": kind}} for kind, fields in _langchain(turns)]


def langchain_lc(turns: Sequence[Turn]) -> list[Object]:
    """In the form of `dumpd`, used in traces and checkpoints."""
    names = {"system": "System", "human": "Human", "ai": "AI", "tool": "Tool"}
    module_path = ["langchain", "schema", "messages"]
    return [
        {
            "lc": 1,
            "type": "constructor",
            "id": [*module_path, f"{names[kind]}Message"],
            "kwargs": {**fields, "type": kind},
        }
        for kind, fields in _langchain(turns)
    ]


def _langchain(turns: Sequence[Turn]) -> Iterator[tuple[str, Object]]:
    for number, turn in enumerate(turns):
        extras = {"additional_kwargs": {}, "response_metadata": {}, "name": None, "id": f"run--{number:024x}"}
        if turn.call is not None:
            call = turn.call
            calls = [{"name": call.name, "args": call.arguments, "id": call.id, "type": "tool_call"}]
            yield "ai", {"content": "", **extras, "tool_calls": calls, "invalid_tool_calls": []}
            yield "tool", {"content": _json(call.output), **extras, "tool_call_id": call.id, "status": "success"}
        elif turn.role == "assistant":
            yield "ai", {"content": turn.text, **extras, "tool_calls": [], "invalid_tool_calls": []}
        else:
            image_part = {"type": "image_url", "image_url": {"url": turn.image}}
            content = [{"type": "text", "text": turn.text}, image_part] if turn.image else turn.text
            yield ("human" if turn.role == "user" else "system"), {"content": content, **extras}


WRITERS: Mapping[Writer, Dialect] = {
    chat_completions: "chat-completions",
    open_inference: "chat-completions",
    senders: "chat-completions",
    anthropic: "anthropic",
    responses: "responses",
    gemini: "gemini",
    gen_ai: "gen-ai",
    ui_message: "ui-message",
    palaver: "palaver",
    langchain: "langchain",
    langchain_data: "langchain",
    langchain_lc: "langchain",
}
"""The dialect of each writer."""


def _with_image(turns: Sequence[Turn]) -> Sequence[Turn]:
    """Add an image to the first question: text alone would be ambiguous with Chat Completions or AI SDK messages."""
    first = next((index for index, turn in enumerate(turns) if turn.role == "user"), None)
    if first is None:
        return turns
    return [*turns[:first], turns[first]._replace(image=IMAGE), *turns[first + 1 :]]


def _without_system(turns: Sequence[Turn]) -> Sequence[Turn]:
    """For dialects with instructions outside of the messages."""
    return [turn for turn in turns if turn.role != "system"]


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
