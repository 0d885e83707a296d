"""Call another server's Responses API, OpenAI's or MLflow's: build the request, decode the reply.

Servers differ in everything but the text. MLflow's send pieces of items that were never added; some change an item's
id, reuse one id for several items, or repeat at the end what they sent before. The item of a piece is found by its id,
else by its index, else by its type, and nothing is emitted twice.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from palaver.core import dialects, json
from palaver.core.dialects import responses as dialect
from palaver.core.events import (
    Event,
    FinishReason,
    PartAdded,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunCancelled,
    RunFailed,
    RunFinished,
    TerminalEvent,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolReturned,
    ToolStarted,
)
from palaver.core.json import Object, argument_text, as_list, dict_or_empty, optional_int, optional_str
from palaver.core.messages import (
    APPROVAL_REQUEST,
    Annotation,
    Data,
    File,
    Message,
    Part,
    Reasoning,
    Refusal,
    Text,
    Usage,
)
from palaver.core.runs import Call
from palaver.errors import UpstreamFailed
from palaver.protocols import client_base, sse
from palaver.protocols.base import HttpRequest
from palaver.protocols.client_base import ReplyDecoder, token_count

ItemKind = Literal["message", "reasoning", "function_call"]
"""The items that arrive in pieces."""


class TextBuffer:
    """A text while it grows."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pieces: list[str] = []
        self.annotations: list[Any] = []
        """Annotations as they were received."""
        self.is_open = True


class RemoteItem:
    """One item of the reply. A message may have several texts, by index; the others have one."""

    def __init__(self, kind: ItemKind, name: str, interrupted_text: str = "") -> None:
        self.kind: ItemKind = kind
        self.name = name
        self.interrupted_text = interrupted_text  # Its text before another item interrupted it.
        self.message: str | None = None  # Our message id, once it has one.
        self.is_ended = self.is_done = False
        self.texts: dict[int, TextBuffer] = {}
        self.named_parts = 0
        self.refusal_indexes: set[int] = set()
        self.call_id = ""  # Our call id, set once the name is known.
        self.remote_call_id: str | None = None  # The call id of the remote.
        self.source = ""  # Of reasoning: `summary` or `content`, whichever came first.
        self.index = 0  # Of reasoning: the index of the current part.

    def text(self, index: int = 0) -> str:
        return "".join(self.texts[index].pieces) if index in self.texts else ""

    def remaining(self, complete: str, index: int = 0) -> str:
        """Return what a complete text adds to the pieces; empty if it contradicts them."""
        text = self.text(index)
        for prefix in (self.interrupted_text + text, text):
            if complete.startswith(prefix):
                return complete[len(prefix) :]
        return ""


class RemoteItems:
    """The items of one response, found by id, else by index, else by type."""

    def __init__(self) -> None:
        self.count = 0
        self.open: list[RemoteItem] = []
        self.current_content: Literal["nothing", "reasoning", "more"] = "nothing"
        """The content of the current message."""
        self._by_id: dict[str, RemoteItem] = {}
        self._by_index: dict[int, RemoteItem] = {}  # By output index.
        self._names: set[str] = set()

    def get(self, remote_id: str) -> RemoteItem | None:
        """Return the newest item of that id."""
        return self._by_id.get(remote_id)

    def add_alias(self, remote_id: str, item: RemoteItem) -> None:
        """Register an alias: some servers use another id for an item's deltas."""
        self._by_id.setdefault(remote_id, item)

    def find_or_create(self, kind: ItemKind, frame: Object, remote_id: str = "") -> RemoteItem:
        """Find the item of a frame; create a new one if it does not exist or has ended."""
        remote_id, output_index = (
            remote_id or optional_str(frame.get("item_id")) or "",
            optional_int(frame.get("output_index")),
        )
        item = self._by_id.get(remote_id)
        if (item is None or item.kind != kind) and output_index is not None:
            item = self._by_index.get(output_index)
        if item is None and not remote_id and output_index is None:
            item = next((candidate for candidate in reversed(self.open) if candidate.kind == kind), None)
        if item is None or item.kind != kind:
            item = self._new(kind, remote_id)
        elif item.is_ended:
            item = self._new(kind, remote_id or item.name, "" if item.is_done else item.interrupted_text + item.text())
        self._by_id[remote_id or item.name] = item
        if output_index is not None:
            self._by_index[output_index] = item
        return item

    def _new(self, kind: ItemKind, remote_id: str, interrupted_text: str = "") -> RemoteItem:
        self.count += 1
        item = RemoteItem(kind, self.unused_name(remote_id or f"{kind} {self.count}"), interrupted_text)
        self.open.append(item)
        return item

    def unused_name(self, name: str) -> str:
        """Return the name, or the next free one derived from it."""
        candidate, number = name, 1
        while candidate in self._names:
            number += 1
            candidate = f"{name}.{number}"
        self._names.add(candidate)
        return candidate

    def part_name(self, item: RemoteItem) -> str:
        """Return a name for the next part of an item: the first has the item's own."""
        item.named_parts += 1
        return item.name if item.named_parts == 1 else self.unused_name(item.name)

    def message_of(self, item: RemoteItem) -> str:
        """Return the message id of an item; empty if it belongs to the current message.

        Text starts a message unless only reasoning precedes it; reasoning starts one after anything else.
        """
        if item.message is None:
            item.message = ""
            if item.kind == "message" and self.current_content != "reasoning":
                item.message = item.name
            elif item.kind == "reasoning" and self.current_content == "more":
                item.message = f"msg_{item.name}"
            self.current_content = "reasoning" if item.kind == "reasoning" else "more"
        return item.message


class ItemDecoder:
    """Decodes frames about items to events."""

    def __init__(self) -> None:
        self._items = RemoteItems()
        self._complete_ids: set[str] = set()  # Ids of items that were received complete.
        self._calls: dict[str, str] = {}  # Remote call id to our unique call id.
        self._answered: set[str] = set()

    def feed(self, frame: Object) -> Iterator[Event]:
        index, delta = optional_int(frame.get("content_index")) or 0, optional_str(frame.get("delta")) or ""
        match frame.get("type"):
            case "response.output_text.delta":
                yield from self._add_text(self._items.find_or_create("message", frame), index, delta)
            case "response.output_text.done":
                item = self._items.find_or_create("message", frame)
                yield from self._add_text(item, index, item.remaining(optional_str(frame.get("text")) or "", index))
            case "response.output_text.annotation.added":
                if text := self._items.find_or_create("message", frame).texts.get(index):
                    text.annotations.append(frame.get("annotation"))
            case "response.refusal.done":
                yield from self._add_refusal(
                    self._items.find_or_create("message", frame), index, optional_str(frame.get("refusal")) or ""
                )
            case "response.reasoning_summary_text.delta":
                index = optional_int(frame.get("summary_index")) or 0
                yield from self._add_reasoning(self._items.find_or_create("reasoning", frame), "summary", index, delta)
            case "response.reasoning_text.delta":
                yield from self._add_reasoning(self._items.find_or_create("reasoning", frame), "content", index, delta)
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                yield from self._add_arguments(self._items.find_or_create("function_call", frame), delta)
            case "response.mcp_call_arguments.done":
                item = self._items.find_or_create("function_call", frame)
                yield from self._add_arguments(item, item.remaining(dialect.mcp_arguments(frame)))
                yield from self._close(item)
            case "response.output_item.added":
                yield from self._item_added(dict_or_empty(frame.get("item")), frame)
            case "response.output_item.done":
                yield from self._item_done(dict_or_empty(frame.get("item")), frame)
            case "palaver:data" | "palaver:file":
                yield from self.part({**frame, "id": frame.get("item_id")}, transient=frame.get("transient") is True)
            case _:
                pass

    def decode_output(self, output: Sequence[Any]) -> Iterator[Event]:
        """Return what the complete output adds to the frames."""
        count = self._items.count
        for index, fields in enumerate(map(dict_or_empty, output)):
            known = self._items.get(optional_str(fields.get("id")) or "")
            # An unknown id belongs to an item that was sent under another one, unless there are more items than before.
            if index >= count if known is None else not known.is_ended:
                yield from self._item_done(fields, {})

    def part(self, fields: Object, *, transient: bool = False) -> Iterator[Event]:
        """Decode an item that is a part: data, a file, an approval request, or an unknown item."""
        remote_id = optional_str(fields.get("id")) or ""
        if remote_id in self._complete_ids:
            return
        if remote_id:
            self._complete_ids.add(remote_id)
        for part in (
            part for message in dialect.read([fields]) if message.role == "assistant" for part in message.parts
        ):
            if isinstance(part, Data) and part.name == APPROVAL_REQUEST:
                yield from self._close_texts()
                call = {"call_id": self._calls[remote_id]} if remote_id in self._calls else {}
                yield PartAdded(part=Data(name=part.name, value={**part.value, **call}))
            else:
                name = self._items.unused_name(remote_id) if remote_id else ""
                yield from self._add_part(part, name, "", transient=transient)

    # Items

    def _close(self, item: RemoteItem, *, is_done: bool = True) -> Iterator[Event]:
        for index, text in item.texts.items():
            if text.is_open:
                yield from self._end_text(item, index)
        item.is_ended, item.is_done = True, is_done
        self._items.open = [other for other in self._items.open if other is not item]

    def _close_texts(self) -> Iterator[Event]:
        """End all open texts. A call, its result or an approval separates the texts around it."""
        for item in [other for other in self._items.open if other.kind != "function_call" and other.texts]:
            yield from self._close(item, is_done=False)

    def _end_text(self, item: RemoteItem, index: int, annotations: tuple[Annotation, ...] = ()) -> Iterator[Event]:
        text = item.texts[index]
        text.is_open = False
        match item.kind:
            case "message":
                yield TextEnded(item=text.name, annotations=annotations or _parse_annotations(text.annotations))
            case "reasoning":
                yield ReasoningEnded(item=text.name)
            case "function_call":
                yield ToolEnded(item=text.name)

    def _item_added(self, fields: Object, frame: Object) -> Iterator[Event]:
        remote_id = optional_str(fields.get("id")) or ""
        match fields.get("type"):
            case "message" | "reasoning" as kind:
                self._items.find_or_create(kind, frame, remote_id)
            case "function_call" | "custom_tool_call" | "mcp_call":
                item = self._items.find_or_create("function_call", frame, remote_id)
                if name := optional_str(fields.get("name")):
                    yield from self._start_call(item, name, fields)
            case _:
                pass  # It is decoded when it is done.

    def _item_done(self, fields: Object, frame: Object) -> Iterator[Event]:
        match fields.get("type"):
            case "message":
                yield from self._message_done(fields, frame)
            case "reasoning":
                yield from self._reasoning_done(fields, frame)
            case "function_call":
                yield from self._call_done(fields, argument_text(fields.get("arguments")), frame)
            case "custom_tool_call":
                yield from self._call_done(fields, argument_text(fields.get("input")), frame)
            case "mcp_call":
                yield from self._call_done(fields, dialect.mcp_arguments(fields), frame)
                if (result := dialect.read_mcp_result(fields)) is not None:
                    call_id = _remote_call_id(fields)
                    output: Object = {"output": result.output, "palaver:is_error": result.is_error}
                    yield from self._add_result({"call_id": call_id, **output})
            case "function_call_output" | "custom_tool_call_output":
                self._items.count += 1
                yield from self._add_result(fields)
            case _:
                self._items.count += 1
                yield from self.part(fields)

    # Text

    def _add_text(self, item: RemoteItem, index: int, delta: str) -> Iterator[Event]:
        if not delta:
            return
        text = item.texts.get(index)
        if text is None or not text.is_open:
            for earlier in [position for position, other in item.texts.items() if other.is_open]:
                yield from self._end_text(item, earlier)
            text = item.texts[index] = TextBuffer(self._items.part_name(item))
            yield TextStarted(item=text.name, message=self._items.message_of(item))
        text.pieces.append(delta)
        yield TextDelta(item=text.name, delta=delta)

    def _add_refusal(self, item: RemoteItem, index: int, text: str) -> Iterator[Event]:
        if text and index not in item.refusal_indexes:
            item.refusal_indexes.add(index)
            yield from self._add_part(Refusal(text=text), self._items.part_name(item), self._items.message_of(item))

    def _message_done(self, fields: Object, frame: Object) -> Iterator[Event]:
        if fields.get("role", "assistant") != "assistant":
            return  # Only the client writes user messages.
        pieces = [dialect.read_content([piece]) for piece in as_list(fields.get("content"))]
        remote_id = optional_str(fields.get("id")) or ""
        complete_text = "".join(part.text for parts in pieces for part in parts if isinstance(part, Text))
        if self._is_repeated("message", remote_id, complete_text):
            return
        messages = [item for item in self._items.open if item.kind == "message"]
        same = next((item for item in messages if complete_text and item.text() == complete_text), None)
        if same is not None:
            self._items.add_alias(remote_id, same)
        item = self._items.find_or_create("message", frame, remote_id)
        for index, parts in enumerate(pieces):
            for part in parts:
                match part:
                    case Text(text=text, annotations=annotations):
                        yield from self._add_text(item, index, item.remaining(text, index))
                        if index in item.texts and item.texts[index].is_open:
                            yield from self._end_text(item, index, annotations)
                    case Refusal(text=text):
                        yield from self._add_refusal(item, index, text)
                    case _:
                        yield from self._add_part(part, self._items.part_name(item), self._items.message_of(item))
        yield from self._close(item)

    def _is_repeated(self, kind: ItemKind, remote_id: str, complete_text: str) -> bool:
        """Whether the item has ended with this text, so that it is repeated or its end comes late."""
        item = self._items.get(remote_id)
        if item is None or item.kind != kind or not item.is_ended:
            return False
        text = "".join(item.text(index) for index in item.texts)
        if complete_text not in (text, item.interrupted_text + text):
            return False
        item.is_done = True
        return True

    def _add_part(self, part: Part, name: str, message: str, *, transient: bool = False) -> Iterator[Event]:
        if isinstance(part, File | Refusal | Data):
            yield PartAdded(item=name, message=message, part=part, transient=transient)

    # Reasoning

    def _add_reasoning(self, item: RemoteItem, source: str, index: int, delta: str) -> Iterator[Event]:
        item.source = item.source or source
        if item.source != source or not delta:
            return
        if not item.texts:
            item.texts[0] = TextBuffer(item.name)
            yield ReasoningStarted(item=item.name, message=self._items.message_of(item))
        elif index != item.index:
            delta = f"\n\n{delta}"
        item.index = index
        item.texts[0].pieces.append(delta)
        yield ReasoningDelta(item=item.name, delta=delta)

    def _reasoning_done(self, fields: Object, frame: Object) -> Iterator[Event]:
        parts = [part for message in dialect.read([fields]) for part in message.parts if isinstance(part, Reasoning)]
        remote_id = optional_str(fields.get("id")) or ""
        reasoning = parts[0] if parts else Reasoning(text="")
        if self._is_repeated("reasoning", remote_id, reasoning.text):
            return
        item = self._items.find_or_create("reasoning", frame, remote_id)
        yield from self._add_reasoning(item, item.source or "summary", item.index, item.remaining(reasoning.text))
        if reasoning.encrypted:  # Encrypted reasoning without text is still reasoning.
            if not item.texts:
                item.texts[0] = TextBuffer(item.name)
                yield ReasoningStarted(item=item.name, message=self._items.message_of(item))
            item.texts[0].is_open = False
            yield ReasoningEnded(item=item.name, encrypted=reasoning.encrypted)
        yield from self._close(item)

    # Calls

    def _start_call(self, item: RemoteItem, name: str, fields: Object) -> Iterator[Event]:
        """Start a call now that its name is known, and emit the arguments received so far."""
        if item.call_id:
            return
        item.remote_call_id = _remote_call_id(fields)
        remote_id = item.remote_call_id or optional_str(fields.get("id")) or item.name
        number, item.call_id = 1, remote_id
        while item.call_id in self._calls.values():
            number += 1
            item.call_id = f"{remote_id}.{number}"
        self._calls[remote_id] = item.call_id
        yield from self._close_texts()
        yield ToolStarted(item=item.name, message=self._items.message_of(item), call_id=item.call_id, name=name)
        yield from (ToolDelta(item=item.name, delta=piece) for text in item.texts.values() for piece in text.pieces)

    def _add_arguments(self, item: RemoteItem, delta: str) -> Iterator[Event]:
        if delta:
            item.texts.setdefault(0, TextBuffer(item.name)).pieces.append(delta)
            if item.call_id:
                yield ToolDelta(item=item.name, delta=delta)

    def _call_done(self, fields: Object, arguments: str, frame: Object) -> Iterator[Event]:
        remote_id = optional_str(fields.get("id")) or optional_str(fields.get("call_id")) or ""
        known = self._items.get(remote_id)
        remote_call_id = _remote_call_id(fields)
        is_same_call = known is not None and known.remote_call_id in (remote_call_id, None)
        if known and self._is_repeated("function_call", remote_id, arguments) and is_same_call:
            return
        item = self._items.find_or_create("function_call", frame, remote_id)
        name = optional_str(fields.get("name"))
        yield from self._start_call(item, "unknown" if name is None else name, fields)
        yield from self._add_arguments(item, item.remaining(arguments))
        item.texts.setdefault(0, TextBuffer(item.name))
        yield from self._close(item)

    def _add_result(self, fields: Object) -> Iterator[Event]:
        remote_id = optional_str(fields.get("call_id")) or ""
        call_id = self._calls.get(remote_id, remote_id)
        if call_id in self._answered:
            return
        self._answered.add(call_id)
        yield from self._close_texts()
        self._items.current_content = "nothing"
        failed = fields.get("palaver:is_error") is True
        yield ToolReturned(call_id=call_id, output=fields.get("output"), is_error=failed)


def _remote_call_id(fields: Object) -> str | None:
    return dialect.mcp_call_id(fields) if fields.get("type") == "mcp_call" else optional_str(fields.get("call_id"))


def _parse_annotations(annotations: list[Any]) -> tuple[Annotation, ...]:
    return tuple(
        note
        for part in dialect.read_content([{"text": "…", "annotations": annotations}])
        if isinstance(part, Text)
        for note in part.annotations
    )


MAX_RESPONSE_RECORD_BYTES = 10 * sse.MAX_RECORD_BYTES
"""The last record repeats the whole output."""

_FORWARDED_OPTIONS = frozenset(
    "temperature top_p presence_penalty frequency_penalty max_output_tokens max_tool_calls top_logprobs tools"
    " tool_choice parallel_tool_calls text reasoning truncation service_tier include".split()
)
"""The options that are forwarded. The others have no equivalent or are private."""
_FINISH_REASONS: Mapping[str, FinishReason] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "max_tool_calls": "length",
    "content_filter": "content-filter",
    "interrupted": "interrupted",
}


def build_responses_request(call: Call, *, is_chat: bool, stream: bool, model: str | None = None) -> HttpRequest:
    """Build a request. A server that needs `model` is OpenAI's kind, and would reject the session."""
    inputs = dict(call.inputs)
    messages: list[Message] = list(call.messages) if is_chat else []
    if is_chat and "messages" in inputs:
        # If the service was down, the call was not parsed as a chat's: its history is still an input.
        messages = dialects.read(inputs.pop("messages"))
    body: dict[str, Any] = {"input": [*_history(messages)], "stream": stream, "store": False}
    body |= {name: value for name, value in call.options.items() if name in _FORWARDED_OPTIONS and value is not None}
    if model is not None:
        body["model"] = model
    elif call.session:
        body["context"] = {"conversation_id": call.session}
    return client_base.json_request(call, body, inputs, stream=stream)


def _history(messages: list[Message]) -> Iterator[dict[str, Any]]:
    """Encode the messages as items that all servers accept: no types of Palaver's, and no ids."""
    for number, item in enumerate(dialect.write(messages)):
        match item:
            case {"type": "message", "content": list(), "role": role}:
                if message := _content(cast("list[Object]", item["content"])):
                    yield {"type": "message", "role": role, "content": message}
            case {"type": "reasoning", "encrypted_content": str()}:
                yield {**item, "id": f"rs_{number}"}  # An id is required, but not checked.
            case {"type": "reasoning" | "palaver:data" | "palaver:file"}:
                pass
            case _:
                yield {name: value for name, value in item.items() if not name.startswith("palaver:")}


def _content(pieces: list[Object]) -> str | list[Object]:
    """Return text as a string, which all servers accept; a list only if there is more than text."""
    texts = [optional_str(piece.get("text")) or optional_str(piece.get("refusal")) for piece in pieces]
    if None not in texts:
        return "".join(text or "" for text in texts)
    return [{"detail": "auto", **piece} if piece.get("type") == "input_image" else piece for piece in pieces]


class ResponsesReplyDecoder(ReplyDecoder):
    """Decodes a reply to events. A stream that just stops has ended."""

    def __init__(self, content_type: str, *, max_bytes: int = MAX_RESPONSE_RECORD_BYTES) -> None:
        super().__init__(content_type, max_bytes=max_bytes)
        self._items = ItemDecoder()
        self._custom: Any = None
        self._error: RunFailed | None = None
        self._is_finished = False

    def _decode_body(self, body: Any) -> Iterable[object]:
        match body:
            case {"output": list()} as response:
                return self._finish(cast("Object", response), "completed")
            case {"error": error} if error is not None:
                return [RunFailed(code="upstream_failed", message=client_base.error_message(bytes(self._body)) or "")]
            case bare:
                return [bare]

    def _decode_record(self, record: bytes) -> Iterator[object]:
        if self._is_finished:
            return
        if record.strip() == b"[DONE]":
            yield from self._end_stream()
            return
        text = record.decode("utf-8", "replace")
        value = json.parse_or_text(text)
        if value is text:
            raise UpstreamFailed("The remote service sent a record that is not JSON.")
        if isinstance(value, dict):
            yield from self._decode_frame(cast("Object", value))
        else:
            yield value

    def _decode_frame(self, frame: Object) -> Iterator[object]:
        match frame:
            case {"type": "response.completed" | "response.incomplete" | "response.failed" as kind, "response": dict()}:
                yield from self._finish(dict_or_empty(frame["response"]), kind.removeprefix("response."))
            case {"type": "error"} | {"error": str() | dict()}:
                # The last frame of a failed run has more details.
                self._error = self._error or RunFailed(code="upstream_failed", message=_error_text(frame))
            case {"type": str()}:
                if self._error is None:
                    yield from self._items.feed(frame)
                    yield from self._custom_outputs(frame.get("custom_outputs"))
            case {"trace_id": str()}:
                pass
            case _:
                yield frame

    def _end_stream(self) -> Iterator[object]:
        if not self._is_finished:
            self._is_finished = True
            yield self._error or RunFinished()

    def _finish(self, response: Object, kind: str) -> Iterator[object]:
        yield from self._items.decode_output(as_list(response.get("output")))
        yield from self._custom_outputs(response.get("custom_outputs"))
        self._is_finished = True
        yield self._terminal(response, optional_str(response.get("status")) or kind)

    def _terminal(self, response: Object, status: str) -> TerminalEvent:
        usage = _usage(response.get("usage"))
        if status == "failed" or self._error is not None or response.get("error") is not None:
            message = _error_text(response) or (self._error.message if self._error else "")
            return RunFailed(code="upstream_failed", message=message, usage=usage)
        reason = optional_str(dict_or_empty(response.get("incomplete_details")).get("reason")) or ""
        if "cancelled" in (status, reason):
            return RunCancelled(usage=usage)
        return RunFinished(finish=_FINISH_REASONS.get(reason, "stop"), usage=usage)

    def _custom_outputs(self, custom: Any) -> Iterator[object]:
        """Decode `custom_outputs`. Our own servers put data and files there, each with its id."""
        if not custom or custom == self._custom:
            return
        self._custom = custom
        match custom:
            case {"data": [{"id": str(), "name": str()}, *_]} | {"files": [{"id": str(), "media_type": str()}, *_]}:
                for kind, name in (("palaver:data", "data"), ("palaver:file", "files")):
                    for fields in as_list(dict_or_empty(custom).get(name)):
                        yield from self._items.part({**dict_or_empty(fields), "type": kind})
            case _:
                yield PartAdded(part=Data(name="custom_outputs", value=custom))


def _error_text(frame: Object) -> str:
    """Return the message of an error that is flat, nested or a string."""
    error = frame.get("error")
    if isinstance(error, str):
        return error
    return optional_str(dict_or_empty(error).get("message")) or optional_str(frame.get("message")) or ""


def _usage(value: Any) -> Usage | None:
    counts = dict_or_empty(value)
    input_tokens, output_tokens = (
        token_count(counts.get("input_tokens")),
        token_count(counts.get("output_tokens")),
    )
    if input_tokens is None or output_tokens is None:
        return None
    input_details, output_details = (
        dict_or_empty(counts.get("input_tokens_details")),
        dict_or_empty(counts.get("output_tokens_details")),
    )
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        # Servers write 0 for unknown counts.
        cached_input_tokens=token_count(input_details.get("cached_tokens")) or None,
        cache_creation_input_tokens=token_count(input_details.get("cache_write_tokens")) or None,
        reasoning_tokens=token_count(output_details.get("reasoning_tokens")) or None,
    )
