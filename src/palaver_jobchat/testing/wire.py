"""A step as Anthropic's Messages API would send it: events of a stream, one whole message, or an error."""

from collections.abc import Iterator
from typing import Any

import msgspec

from palaver_jobchat.testing.steps import Block, Step, Tokens, Trouble, pieces

_encode = msgspec.json.Encoder().encode


def frame(name: str, **data: Any) -> bytes:
    """One event, as bytes in a stream."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), _encode({"type": name, **data}))


def frames(step: Step, *, number: int, model: str) -> Iterator[tuple[float, bytes]]:
    """The events of an answer, each with the seconds to wait before it. One that breaks leaves its last block open."""
    yield (
        0,
        frame(
            "message_start",
            message=_message(number, model, usage=_usage(step.usage, output=min(1, step.usage.output_tokens))),
        ),
    )
    yield 0, frame("ping")
    last = len(step.said) - 1
    for index, block in enumerate(step.said):
        yield 0, frame("content_block_start", index=index, content_block=_opened(block, number, index))
        for delta in _deltas(block, step.chunks):
            yield step.delay, frame("content_block_delta", index=index, delta=delta)
        if index < last or not step.breaks:
            yield 0, frame("content_block_stop", index=index)
    if step.then_error is not None:
        yield 0, frame("error", **error_body(step.then_error, number))
    if not step.breaks:
        delta = {"stop_reason": step.ending, "stop_sequence": None, "stop_details": None}
        yield 0, frame("message_delta", delta=delta, usage=_usage(step.usage))
        yield 0, frame("message_stop")


def whole(step: Step, *, number: int, model: str) -> dict[str, Any]:
    """The same answer in one piece."""
    content = [_closed(block, number, index) for index, block in enumerate(step.said)]
    return _message(number, model, content=content, stop_reason=step.ending, usage=_usage(step.usage))


def error_body(trouble: Trouble, number: int) -> dict[str, Any]:
    """An error, as the body of an answer or the data of an event."""
    error = {"type": trouble.kind, "message": trouble.message}
    return {"type": "error", "error": error, "request_id": request_id(number)}


def request_id(number: int) -> str:
    """Of the request with this number."""
    return f"req_{number}"


def _message(number: int, model: str, **fields: Any) -> dict[str, Any]:
    message: dict[str, Any] = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
    }
    return {**message, "stop_reason": None, "stop_sequence": None, **fields}


def _usage(tokens: Tokens, *, output: int | None = None) -> dict[str, int]:
    usage = msgspec.structs.asdict(tokens)
    return usage if output is None else {**usage, "output_tokens": output}


def _opened(block: Block, number: int, index: int) -> dict[str, Any]:
    """The block as it begins, with nothing in it."""
    match block:
        case Block(text=str()):
            return {"type": "text", "text": ""}
        case Block(thinking=str()):
            return {"type": "thinking", "thinking": "", "signature": ""}
        case _:
            call = block.called
            assert call is not None
            return {"type": "tool_use", "id": call.id or f"toolu_{number}_{index}", "name": call.name, "input": {}}


def _deltas(block: Block, chunks: int) -> Iterator[dict[str, Any]]:
    match block:
        case Block(text=str(text)):
            yield from ({"type": "text_delta", "text": piece} for piece in pieces(text, chunks))
        case Block(thinking=str(text)):
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in pieces(text, chunks))
            yield {"type": "signature_delta", "signature": "c2lnbmVk"}
        case _:
            call = block.called
            assert call is not None
            yield {"type": "input_json_delta", "partial_json": ""}
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in pieces(call.json, chunks))


def _closed(block: Block, number: int, index: int) -> dict[str, Any]:
    """The block with all that is in it."""
    opened = _opened(block, number, index)
    match block:
        case Block(text=str(text)):
            return {**opened, "text": text}
        case Block(thinking=str(text)):
            return {**opened, "thinking": text, "signature": "c2lnbmVk"}
        case _:
            return {**opened, "input": {} if block.tool is None else block.tool.input}
