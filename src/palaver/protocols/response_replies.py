"""Responses, asked of somebody else: the client half. One request for OpenAI's kind of server and for MLflow's.

OpenAI's refuses every field and every item that it does not know, MLflow's every item; so what is ours alone is sent
only where it was given, or where somebody may read it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from palaver.core import dialects, json
from palaver.core.dialects import responses as dialect
from palaver.core.dialects.common import Object, as_list, dict_or_empty, optional_str
from palaver.core.events import FinishReason, PartAdded, RunCancelled, RunFailed, RunFinished, TerminalEvent
from palaver.core.messages import Data, Message, Usage
from palaver.core.runs import Call
from palaver.errors import UpstreamFailed
from palaver.protocols import sse, upstream
from palaver.protocols.base import Request
from palaver.protocols.response_arrivals import Arrivals

JSON, SSE = "application/json", "text/event-stream"
LONGEST = 10 * sse.LONGEST
"""Bytes in one record: its last one repeats all that was said."""

_TOLD = frozenset(
    "temperature top_p presence_penalty frequency_penalty max_output_tokens max_tool_calls top_logprobs tools"
    " tool_choice parallel_tool_calls text reasoning truncation service_tier include".split()
)
"""The options that go on. The others have no name here, or are none of a stranger's business."""
_FINISHES: Mapping[str, FinishReason] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "max_tool_calls": "length",
    "content_filter": "content-filter",
    "interrupted": "interrupted",
}


def request(call: Call, *, is_chat: bool, stream: bool, model: str | None = None) -> Request:
    """A response, asked for. Who wants a model is OpenAI's kind, and would refuse the session."""
    inputs = dict(call.inputs)
    messages: list[Message] = list(call.messages) if is_chat else []
    if is_chat and "messages" in inputs:
        # A call that came while the service was away was not read as a chat's: its history is still an input.
        messages = dialects.read(inputs.pop("messages"))
    body: dict[str, Any] = {"input": [*_history(messages)], "stream": stream, "store": False}
    body |= {name: value for name, value in call.options.items() if name in _TOLD and value is not None}
    if model is not None:
        body["model"] = model
    elif call.session:
        body["context"] = {"conversation_id": call.session}
    if inputs:
        body["custom_inputs"] = inputs
    if call.parameters:
        body["parameters"] = call.parameters
    return Request(headers=upstream.headers(call, accept=SSE if stream else JSON), body=json.encode(body))


def _history(messages: list[Message]) -> Iterator[dict[str, Any]]:
    """The messages as items that everybody takes: none of our own kinds, and no ids, which must be the reader's."""
    for number, item in enumerate(dialect.write(messages)):
        match item:
            case {"type": "message", "content": list(), "role": role}:
                if said := _content(cast("list[Object]", item["content"])):
                    yield {"type": "message", "role": role, "content": said}
            case {"type": "reasoning", "encrypted_content": str()}:
                yield {**item, "id": f"rs_{number}"}  # It is asked for, and nobody compares it.
            case {"type": "reasoning" | "palaver:data" | "palaver:file"}:
                pass
            case _:
                yield {name: value for name, value in item.items() if not name.startswith("palaver:")}


def _content(pieces: list[Object]) -> str | list[Object]:
    """Text as a string, which everybody takes from anybody; a list only where there is more than text."""
    texts = [optional_str(piece.get("text")) or optional_str(piece.get("refusal")) for piece in pieces]
    if None not in texts:
        return "".join(text or "" for text in texts)
    return [{"detail": "auto", **piece} if piece.get("type") == "input_image" else piece for piece in pieces]


class Replies:
    """Reads the answer: bytes in, events out, by its content type. A stream that just stops has ended."""

    def __init__(self, content_type: str, *, longest: int = LONGEST) -> None:
        self.streamed = upstream.media_type(content_type) == SSE
        self._content_type = content_type
        self._records = sse.Reader(longest=longest)
        self._body = bytearray()
        self._arrivals = Arrivals()
        self._custom: Any = None
        self._error: RunFailed | None = None
        self._over = False

    def feed(self, data: bytes) -> list[object]:
        """What can be told by now."""
        if not self.streamed:
            self._body += data
            return []
        return [told for record in self._records.feed(data) for told in self._read(record)]

    def end(self) -> list[object]:
        """What was left to tell at the end of the body."""
        if self.streamed:
            return [*(told for record in self._records.end() for told in self._read(record)), *self._stopped()]
        match upstream.value(self._content_type, bytes(self._body)):
            case {"output": list()} as response:
                return list(self._ended(cast("Object", response), "completed"))
            case {"error": error} if error is not None:
                return [RunFailed(code="upstream_failed", message=upstream.words(bytes(self._body)) or "")]
            case bare:
                return [bare]

    def _read(self, record: bytes) -> Iterator[object]:
        if self._over:
            return
        if record.strip() == b"[DONE]":
            yield from self._stopped()
            return
        text = record.decode("utf-8", "replace")
        value = json.parse_or_text(text)
        if value is text:
            raise UpstreamFailed("The remote sent a record that is not JSON.")
        if isinstance(value, dict):
            yield from self._frame(cast("Object", value))
        else:
            yield value

    def _frame(self, frame: Object) -> Iterator[object]:
        match frame:
            case {"type": "response.completed" | "response.incomplete" | "response.failed" as kind, "response": dict()}:
                yield from self._ended(dict_or_empty(frame["response"]), kind.removeprefix("response."))
            case {"type": "error"} | {"error": str() | dict()}:
                # A failed run of ours, or of OpenAI's, says more in its last frame.
                self._error = self._error or RunFailed(code="upstream_failed", message=_words(frame))
            case {"type": str()}:
                if self._error is None:
                    yield from self._arrivals.feed(frame)
                    yield from self._customs(frame.get("custom_outputs"))
            case {"trace_id": str()}:
                pass
            case _:
                yield frame

    def _stopped(self) -> Iterator[object]:
        """The end of a stream that named none."""
        if not self._over:
            self._over = True
            yield self._error or RunFinished()

    def _ended(self, response: Object, kind: str) -> Iterator[object]:
        yield from self._arrivals.late(as_list(response.get("output")))
        yield from self._customs(response.get("custom_outputs"))
        self._over = True
        yield self._terminal(response, optional_str(response.get("status")) or kind)

    def _terminal(self, response: Object, status: str) -> TerminalEvent:
        usage = _usage(response.get("usage"))
        if status == "failed" or self._error is not None or response.get("error") is not None:
            message = _words(response) or (self._error.message if self._error else "")
            return RunFailed(code="upstream_failed", message=message, usage=usage)
        reason = optional_str(dict_or_empty(response.get("incomplete_details")).get("reason")) or ""
        if "cancelled" in (status, reason):
            return RunCancelled(usage=usage)
        return RunFinished(finish=_FINISHES.get(reason, "stop"), usage=usage)

    def _customs(self, custom: Any) -> Iterator[object]:
        """What MLflow's agents say beside their items; ours put data and files there, each with its id."""
        if not custom or custom == self._custom:
            return
        self._custom = custom
        match custom:
            case {"data": [{"id": str(), "name": str()}, *_]} | {"files": [{"id": str(), "media_type": str()}, *_]}:
                for kind, name in (("palaver:data", "data"), ("palaver:file", "files")):
                    for fields in as_list(dict_or_empty(custom).get(name)):
                        yield from self._arrivals.part({**dict_or_empty(fields), "type": kind})
            case _:
                yield PartAdded(part=Data(name="custom_outputs", value=custom))


def _words(frame: Object) -> str:
    """What an error says, be it flat, nested or a mere text."""
    error = frame.get("error")
    if isinstance(error, str):
        return error
    return optional_str(dict_or_empty(error).get("message")) or optional_str(frame.get("message")) or ""


def _usage(value: Any) -> Usage | None:
    told = dict_or_empty(value)
    given, made = _count(told.get("input_tokens")), _count(told.get("output_tokens"))
    if given is None or made is None:
        return None
    input_details, output_details = (
        dict_or_empty(told.get("input_tokens_details")),
        dict_or_empty(told.get("output_tokens_details")),
    )
    return Usage(
        input_tokens=given,
        output_tokens=made,
        # Servers write 0 for what they do not count.
        cached_input_tokens=_count(input_details.get("cached_tokens")) or None,
        cache_creation_input_tokens=_count(input_details.get("cache_write_tokens")) or None,
        reasoning_tokens=_count(output_details.get("reasoning_tokens")) or None,
    )


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None
