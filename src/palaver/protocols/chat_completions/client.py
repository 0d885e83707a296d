"""Call another server's Chat Completions API: build the request, decode the reply.

Servers differ in everything but the text. Pieces of tool calls may name their call by index, by id or not at all, and
repeat or omit earlier fields; reasoning has two names; usage comes in its own chunk or in every one.
"""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from palaver.core import json
from palaver.core.dialects import chat_completions as dialect
from palaver.core.events import (
    FinishReason,
    PartAdded,
    ReasoningDelta,
    RunFailed,
    RunFinished,
    TextDelta,
    TextEnded,
    ToolDelta,
    ToolEnded,
    ToolStarted,
)
from palaver.core.json import argument_text, dict_or_empty
from palaver.core.messages import Annotation, Refusal, Usage
from palaver.core.runs import Call
from palaver.errors import UpstreamFailed
from palaver.protocols import client_base, sse
from palaver.protocols.base import HttpRequest
from palaver.protocols.chat_completions.request import encode_options
from palaver.protocols.client_base import ReplyDecoder, token_count

_FINISH_REASONS: Mapping[str, FinishReason] = {
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "content_filter": "content-filter",
}
_Object = Mapping[str, Any]


class ChatReplyDecoder(ReplyDecoder):
    """Decodes a reply to events. The last event is always a terminal one; a stream that just stops has ended."""

    def __init__(self, content_type: str, *, max_bytes: int = sse.MAX_RECORD_BYTES) -> None:
        super().__init__(content_type, max_bytes=max_bytes)
        self._completion = _Completion()
        self._is_finished = False

    def _decode_record(self, record: bytes) -> list[object]:
        if self._is_finished or not record.strip():
            return []
        if record.strip() == b"[DONE]":
            return self._end_stream()
        match json.parse_or_text(record.decode("utf-8", "replace")):
            case {"error": {} | str()} | {"object": "error"} as document:
                return self._fail(cast("_Object", document))
            case {} as chunk:
                return self._completion.chunk(cast("_Object", chunk), "delta")
            case _:
                raise UpstreamFailed("The remote service sent a stream record that is not a JSON object.")

    def _decode_body(self, body: Any) -> list[object]:
        match body:
            case {"error": {} | str()} | {"object": "error"} as document:
                return self._fail(cast("_Object", document))
            case {"choices": [{"message": {}}, *_]}:
                return [*self._completion.chunk(cast("_Object", body), "message"), *self._end_stream()]
            case _:
                raise UpstreamFailed("The response from the remote service is not a chat completion.")

    def _fail(self, document: _Object) -> list[object]:
        self._is_finished = True
        error = document.get("error")
        message = error if isinstance(error, str) else _string(dict_or_empty(error or document).get("message"))
        return [RunFailed(code="upstream_failed", message=message, usage=self._completion.usage)]

    def _end_stream(self) -> list[object]:
        if self._is_finished:
            return []
        self._is_finished = True
        return self._completion.end()


class _Completion:
    def __init__(self) -> None:
        self.usage: Usage | None = None
        self._finish: FinishReason = "stop"
        self._calls = _Calls()
        self._refusal: list[str] = []
        self._in_text = False
        self._text_start = self._length = 0  # Offsets in the content: of the current text item, and of the end.

    def chunk(self, chunk: _Object, key: str) -> list[object]:
        """Return the events of one chunk; `key` is `delta` or `message`."""
        self.usage = _usage(chunk.get("usage")) or self.usage
        events: list[object] = []
        for choice in _objects(chunk.get("choices")):
            if choice.get("index") in (0, None):  # We never request more than one.
                events += self._delta_events(dict_or_empty(choice.get(key)))
                if isinstance(reason := choice.get("finish_reason"), str):
                    self._finish = _FINISH_REASONS.get(reason, "stop")
        return events

    def end(self) -> list[object]:
        """Return the events that were held back, and the terminal event."""
        events = self._calls.end()
        if self._refusal:
            events.append(PartAdded(part=Refusal(text="".join(self._refusal))))
        return [*events, RunFinished(finish=self._finish, usage=self.usage)]

    def _delta_events(self, delta: _Object) -> Iterable[object]:
        if reasoning := _string(delta.get("reasoning_content")) or _string(delta.get("reasoning")):
            self._in_text = False
            yield ReasoningDelta(delta=reasoning)
        if text := _content(delta.get("content")):
            if not self._in_text:
                self._in_text, self._text_start = True, self._length
            self._length += len(text)
            yield TextDelta(delta=text)
        if (annotations := self._annotations(delta.get("annotations"))) and self._in_text:
            self._in_text = False
            yield TextEnded(annotations=annotations)
        if refusal := _string(delta.get("refusal")):
            self._refusal.append(refusal)
        for position, piece in enumerate(_call_pieces(delta)):
            self._in_text = False
            yield from self._calls.add(piece, position)

    def _annotations(self, value: Any) -> tuple[Annotation, ...]:
        """Parse annotations. The remote's indexes are relative to the whole content, ours to the text item."""
        annotations: list[Annotation] = []
        for item in _objects(value):
            match item.get("url_citation"):
                case {"url": str(url)} as citation:
                    title, start, end = citation.get("title"), citation.get("start_index"), citation.get("end_index")
                    annotations.append(
                        Annotation(
                            kind="url",
                            url=url,
                            title=title if isinstance(title, str) and title else None,
                            start=max(start - self._text_start, 0) if type(start) is int else None,
                            end=max(end - self._text_start, 0) if type(end) is int else None,
                        )
                    )
                case _:
                    pass
        return tuple(annotations)


class _Call:
    """A tool call that is held back until its name is known."""

    def __init__(self, item: str) -> None:
        self.item = item
        self.id = ""
        self.name = ""
        self.started = False
        self.pending_arguments: list[str] = []


class _Calls:
    """Joins the pieces of tool calls. All calls stay open to the end, because pieces may alternate."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}

    def add(self, piece: _Object, position: int) -> Iterable[object]:
        """Return the events of one piece; `position` is its index in the chunk."""
        function = dict_or_empty(piece.get("function"))
        call_id, name = _string(piece.get("id")), _string(function.get("name"))
        index, arguments = piece.get("index"), argument_text(function.get("arguments"))
        if not (call_id or name or arguments):
            return
        call = self._find_or_create(index if type(index) is int else None, call_id, name, position)
        if not call.id and all(other.id != call_id for other in self._calls):  # Some servers give all the same id.
            call.id = call_id
        call.name = call.name or name
        if arguments:
            call.pending_arguments.append(arguments)
        if call.name:
            yield from _call_events(call)

    def end(self) -> list[object]:
        events: list[object] = []
        for call in self._calls:
            call.name = call.name or "unknown"
            events += [*_call_events(call), ToolEnded(item=call.item)]
        return events

    def _find_or_create(self, index: int | None, call_id: str, name: str, position: int) -> _Call:
        """Find the call of a piece by index, else by id, else the last one. A new id is a new call."""
        if index is not None:
            call = self._by_index.get(index)
            # Some servers give every call the index 0.
            if call is None or (call_id and call.id and call_id != call.id):
                call = self._by_index[index] = self._new()
            return call
        if call_id:
            return next((call for call in self._calls if call.id == call_id), None) or self._new()
        return self._calls[-1] if self._calls and not name and not position else self._new()

    def _new(self) -> _Call:
        call = _Call(f"call {len(self._calls)}")
        self._calls.append(call)
        return call


def _call_events(call: _Call) -> Iterable[object]:
    """Return the events of a call that were not emitted yet."""
    if not call.started:
        call.started = True
        yield ToolStarted(item=call.item, call_id=call.id, name=call.name)
    yield from (ToolDelta(item=call.item, delta=piece) for piece in call.pending_arguments)
    call.pending_arguments = []


def _call_pieces(delta: _Object) -> Iterable[_Object]:
    yield from _objects(delta.get("tool_calls"))
    function = delta.get("function_call")
    if isinstance(function, dict):  # The deprecated form: one call, named only in its first piece.
        yield {"index": 0, "function": function}


def _content(value: Any) -> str:
    """Return text, or the text of a list of parts."""
    if isinstance(value, list):
        return "".join(_string(part.get("text")) for part in _objects(cast("list[Any]", value)))
    return _string(value)


def _usage(value: Any) -> Usage | None:
    match value:
        case {"prompt_tokens": int(), "completion_tokens": int()}:
            counts = cast("_Object", value)
            prompt = dict_or_empty(counts.get("prompt_tokens_details"))
            completion = dict_or_empty(counts.get("completion_tokens_details"))
            return Usage(
                input_tokens=token_count(counts["prompt_tokens"]) or 0,
                output_tokens=token_count(counts["completion_tokens"]) or 0,
                # Many servers write 0 for unknown counts.
                cached_input_tokens=token_count(prompt.get("cached_tokens")) or None,
                reasoning_tokens=token_count(completion.get("reasoning_tokens")) or None,
            )
        case _:
            return None


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _objects(value: Any) -> list[_Object]:
    return [item for item in cast("list[Any]", value) if isinstance(item, dict)] if isinstance(value, list) else []


def build_chat_request(call: Call, *, is_chat: bool, stream: bool, model: str | None = None) -> HttpRequest:
    """Build a request with only those fields that every server accepts, unless the call has others."""
    inputs = dict(call.inputs)
    # If the service was down, the call was not parsed as a chat's: its history is still an input.
    history = inputs.pop("messages", None) or _history(call)
    body: dict[str, Any] = {} if model is None else {"model": model}
    body |= {"messages": history, **encode_options(call.options)}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return client_base.json_request(call, body, inputs, stream=stream)


def _history(call: Call) -> list[dict[str, Any]]:
    """Encode the messages without Palaver's extensions: some servers reject unknown keys."""
    extensions = ("palaver", "reasoning_content", "annotations")
    history: list[dict[str, Any]] = []
    for message in dialect.write(call.messages):
        fields = {name: value for name, value in message.items() if name not in extensions}
        if fields["role"] != "assistant" or fields["content"] != "":  # Null if there are calls or a refusal instead.
            history.append(fields)
    return history
