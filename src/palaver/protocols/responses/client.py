"""Which item a frame is about, what it is called here, and which message it belongs to.

What the items say is told in response_arrivals.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from palaver.core import dialects, json
from palaver.core.dialects import responses as content
from palaver.core.dialects import responses as dialect
from palaver.core.dialects.common import Object, argument_text, as_list, dict_or_empty, optional_int, optional_str
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
from palaver.protocols import sse, upstream
from palaver.protocols.base import HttpRequest

ItemKind = Literal["message", "reasoning", "function_call"]
"""The items that arrive in pieces."""


class TextBuffer:
    """One text while it grows."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pieces: list[str] = []
        self.notes: list[Any] = []
        """Annotations, as they came."""
        self.is_open = True


class RemoteItem:
    """One item of the remote's. A message may hold several texts, by index; the others say one thing only."""

    def __init__(self, kind: ItemKind, name: str, before: str = "") -> None:
        self.kind: ItemKind = kind
        self.name = name
        self.before = before  # What it said before something else cut it short.
        self.message: str | None = None  # Ours, when it has one.
        self.is_over = self.is_done = False
        self.texts: dict[int, TextBuffer] = {}
        self.named_parts = 0
        self.refused: set[int] = set()
        self.call_id = ""  # Ours, from the moment that its name is known,
        self.named: str | None = None  # and the remote's.
        self.source = ""  # Of reasoning: its summary or its content, whichever came first,
        self.index = 0  # and which part of it.

    def said(self, index: int = 0) -> str:
        """All of one text so far."""
        return "".join(self.texts[index].pieces) if index in self.texts else ""

    def rest(self, whole: str, index: int = 0) -> str:
        """What a whole text says beyond its pieces; nothing where it contradicts them, for what was said stays."""
        said = self.said(index)
        for known in (self.before + said, said):
            if whole.startswith(known):
                return whole[len(known) :]
        return ""


class RemoteItems:
    """The items of one response, found by the remote's id, else by their place, else by their kind."""

    def __init__(self) -> None:
        self.count = 0
        self.open: list[RemoteItem] = []
        self.holds: Literal["nothing", "reasoning", "more"] = "nothing"
        """What is in the message being spoken."""
        self._known: dict[str, RemoteItem] = {}  # By the remote's ids,
        self._places: dict[int, RemoteItem] = {}  # and by its indexes.
        self._names: set[str] = set()

    def known(self, given: str) -> RemoteItem | None:
        """The newest item of that id."""
        return self._known.get(given)

    def also_called(self, given: str, item: RemoteItem) -> None:
        """Some call an item otherwise than its pieces."""
        self._known.setdefault(given, item)

    def found(self, kind: ItemKind, frame: Object, given: str = "") -> RemoteItem:
        """The item that a frame is about; one that is over is begun anew."""
        given, place = given or optional_str(frame.get("item_id")) or "", optional_int(frame.get("output_index"))
        item = self._known.get(given)
        if (item is None or item.kind != kind) and place is not None:
            item = self._places.get(place)
        if item is None and not given and place is None:
            item = next((one for one in reversed(self.open) if one.kind == kind), None)
        if item is None or item.kind != kind:
            item = self._new(kind, given)
        elif item.is_over:
            item = self._new(kind, given or item.name, "" if item.is_done else item.before + item.said())
        self._known[given or item.name] = item
        if place is not None:
            self._places[place] = item
        return item

    def _new(self, kind: ItemKind, given: str, before: str = "") -> RemoteItem:
        self.count += 1
        item = RemoteItem(kind, self.fresh(given or f"{kind} {self.count}"), before)
        self.open.append(item)
        return item

    def fresh(self, name: str) -> str:
        """The name, or one made of it: no two items have the same."""
        free, number = name, 1
        while free in self._names:
            number += 1
            free = f"{name}.{number}"
        self._names.add(free)
        return free

    def named(self, item: RemoteItem) -> str:
        """A name for one of the things that an item holds: the first has the item's own."""
        item.named_parts += 1
        return item.name if item.named_parts == 1 else self.fresh(item.name)

    def placed(self, item: RemoteItem) -> str:
        """The message of an item: text begins one unless only reasoning stands before it, and so does reasoning.

        Calls join what is there. Data and files are not counted: they pass by.
        """
        if item.message is None:
            item.message = ""
            if item.kind == "message" and self.holds != "reasoning":
                item.message = item.name
            elif item.kind == "reasoning" and self.holds == "more":
                item.message = f"msg_{item.name}"
            self.holds = "reasoning" if item.kind == "reasoning" else "more"
        return item.message


class ItemDecoder:
    """Frames about items in, events out."""

    def __init__(self) -> None:
        self._items = RemoteItems()
        self._whole: set[str] = set()  # The ids of those that came whole.
        self._calls: dict[str, str] = {}  # What the remote calls a call -> its id here, which no other call has.
        self._answered: set[str] = set()

    def feed(self, frame: Object) -> Iterator[Event]:
        """What one frame tells. Most tell nothing: of a thing that matters its item tells when it is done."""
        index, delta = optional_int(frame.get("content_index")) or 0, optional_str(frame.get("delta")) or ""
        match frame.get("type"):
            case "response.output_text.delta":
                yield from self._say(self._items.found("message", frame), index, delta)
            case "response.output_text.done":
                item = self._items.found("message", frame)
                yield from self._say(item, index, item.rest(optional_str(frame.get("text")) or "", index))
            case "response.output_text.annotation.added":
                if text := self._items.found("message", frame).texts.get(index):
                    text.notes.append(frame.get("annotation"))
            case "response.refusal.done":
                yield from self._refuse(
                    self._items.found("message", frame), index, optional_str(frame.get("refusal")) or ""
                )
            case "response.reasoning_summary_text.delta":
                at = optional_int(frame.get("summary_index")) or 0
                yield from self._think(self._items.found("reasoning", frame), "summary", at, delta)
            case "response.reasoning_text.delta":
                yield from self._think(self._items.found("reasoning", frame), "content", index, delta)
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                yield from self._argue(self._items.found("function_call", frame), delta)
            case "response.output_item.added":
                yield from self._added(dict_or_empty(frame.get("item")), frame)
            case "response.output_item.done":
                yield from self._done(dict_or_empty(frame.get("item")), frame)
            case "palaver:data" | "palaver:file":
                yield from self.part({**frame, "id": frame.get("item_id")}, transient=frame.get("transient") is True)
            case _:
                pass

    def late(self, output: Sequence[Any]) -> Iterator[Event]:
        """What the whole output says beyond its frames: all of it where there were none."""
        count = self._items.count
        for index, fields in enumerate(map(dict_or_empty, output)):
            known = self._items.known(optional_str(fields.get("id")) or "")
            # An id that nobody has heard of belongs to an item that came under another, unless no more came.
            if index >= count if known is None else not known.is_over:
                yield from self._done(fields, {})

    def part(self, fields: Object, *, transient: bool = False) -> Iterator[Event]:
        """An item that is a part: one of ours, an approval, or one that is kept as it is."""
        given = optional_str(fields.get("id")) or ""
        if given in self._whole:
            return
        if given:
            self._whole.add(given)
        for part in (part for said in dialect.read([fields]) if said.role == "assistant" for part in said.parts):
            if isinstance(part, Data) and part.name == APPROVAL_REQUEST:
                yield from self._close_texts()
                call = {"call_id": self._calls[given]} if given in self._calls else {}
                yield PartAdded(part=Data(name=part.name, value={**part.value, **call}))
            else:
                yield from self._add(part, self._items.fresh(given) if given else "", "", transient=transient)

    # Items

    def _close(self, item: RemoteItem, *, is_done: bool = True) -> Iterator[Event]:
        """End an item, and what it has open."""
        for index, text in item.texts.items():
            if text.is_open:
                yield from self._end(item, index)
        item.is_over, item.is_done = True, is_done
        self._items.open = [one for one in self._items.open if one is not item]

    def _close_texts(self) -> Iterator[Event]:
        """A call, its result or an approval ends what is being said: what comes after it is another text."""
        for item in [one for one in self._items.open if one.kind != "function_call" and one.texts]:
            yield from self._close(item, is_done=False)

    def _end(self, item: RemoteItem, index: int, notes: tuple[Annotation, ...] = ()) -> Iterator[Event]:
        text = item.texts[index]
        text.is_open = False
        match item.kind:
            case "message":
                yield TextEnded(item=text.name, annotations=notes or _parse_annotations(text.notes))
            case "reasoning":
                yield ReasoningEnded(item=text.name)
            case "function_call":
                yield ToolEnded(item=text.name)

    def _added(self, fields: Object, frame: Object) -> Iterator[Event]:
        given = optional_str(fields.get("id")) or ""
        match fields.get("type"):
            case "message" | "reasoning" as kind:
                self._items.found(kind, frame, given)
            case "function_call" | "custom_tool_call":
                item = self._items.found("function_call", frame, given)
                if name := optional_str(fields.get("name")):
                    yield from self._call(item, name, fields)
            case _:
                pass  # It comes whole, when it is done.

    def _done(self, fields: Object, frame: Object) -> Iterator[Event]:
        match fields.get("type"):
            case "message":
                yield from self._message_done(fields, frame)
            case "reasoning":
                yield from self._reasoning_done(fields, frame)
            case "function_call":
                yield from self._call_done(fields, argument_text(fields.get("arguments")), frame)
            case "custom_tool_call":
                yield from self._call_done(fields, argument_text(fields.get("input")), frame)
            case "function_call_output" | "custom_tool_call_output":
                self._items.count += 1
                yield from self._result(fields)
            case _:
                self._items.count += 1
                yield from self.part(fields)

    # Text

    def _say(self, item: RemoteItem, index: int, delta: str) -> Iterator[Event]:
        if not delta:
            return
        text = item.texts.get(index)
        if text is None or not text.is_open:
            for earlier in [one for one, other in item.texts.items() if other.is_open]:
                yield from self._end(item, earlier)
            text = item.texts[index] = TextBuffer(self._items.named(item))
            yield TextStarted(item=text.name, message=self._items.placed(item))
        text.pieces.append(delta)
        yield TextDelta(item=text.name, delta=delta)

    def _refuse(self, item: RemoteItem, index: int, text: str) -> Iterator[Event]:
        if text and index not in item.refused:
            item.refused.add(index)
            yield from self._add(Refusal(text=text), self._items.named(item), self._items.placed(item))

    def _message_done(self, fields: Object, frame: Object) -> Iterator[Event]:
        if fields.get("role", "assistant") != "assistant":
            return  # Nobody speaks for the user but the user.
        pieces = [content.read_content([piece]) for piece in as_list(fields.get("content"))]
        given = optional_str(fields.get("id")) or ""
        whole = "".join(part.text for parts in pieces for part in parts if isinstance(part, Text))
        if self._was_said("message", given, whole):
            return
        same = next((one for one in self._items.open if one.kind == "message" and whole and one.said() == whole), None)
        if same is not None:
            self._items.also_called(given, same)
        item = self._items.found("message", frame, given)
        for index, parts in enumerate(pieces):
            for part in parts:
                match part:
                    case Text(text=text, annotations=notes):
                        yield from self._say(item, index, item.rest(text, index))
                        if index in item.texts and item.texts[index].is_open:
                            yield from self._end(item, index, notes)
                    case Refusal(text=text):
                        yield from self._refuse(item, index, text)
                    case _:
                        yield from self._add(part, self._items.named(item), self._items.placed(item))
        yield from self._close(item)

    def _was_said(self, kind: ItemKind, given: str, whole: str) -> bool:
        """Is it over, and was this what it said? Then it is told again, or its end comes late."""
        item = self._items.known(given)
        if item is None or item.kind != kind or not item.is_over:
            return False
        said = "".join(item.said(index) for index in item.texts)
        if whole not in (said, item.before + said):
            return False
        item.is_done = True
        return True

    def _add(self, part: Part, name: str, message: str, *, transient: bool = False) -> Iterator[Event]:
        if isinstance(part, File | Refusal | Data):
            yield PartAdded(item=name, message=message, part=part, transient=transient)

    # Reasoning

    def _think(self, item: RemoteItem, source: str, index: int, delta: str) -> Iterator[Event]:
        item.source = item.source or source
        if item.source != source or not delta:
            return
        if not item.texts:
            item.texts[0] = TextBuffer(item.name)
            yield ReasoningStarted(item=item.name, message=self._items.placed(item))
        elif index != item.index:
            delta = f"\n\n{delta}"
        item.index = index
        item.texts[0].pieces.append(delta)
        yield ReasoningDelta(item=item.name, delta=delta)

    def _reasoning_done(self, fields: Object, frame: Object) -> Iterator[Event]:
        parts = [part for said in dialect.read([fields]) for part in said.parts if isinstance(part, Reasoning)]
        given = optional_str(fields.get("id")) or ""
        whole = parts[0] if parts else Reasoning(text="")
        if self._was_said("reasoning", given, whole.text):
            return
        item = self._items.found("reasoning", frame, given)
        yield from self._think(item, item.source or "summary", item.index, item.rest(whole.text))
        if whole.encrypted:  # Reasoning that nobody may read is still reasoning.
            if not item.texts:
                item.texts[0] = TextBuffer(item.name)
                yield ReasoningStarted(item=item.name, message=self._items.placed(item))
            item.texts[0].is_open = False
            yield ReasoningEnded(item=item.name, encrypted=whole.encrypted)
        yield from self._close(item)

    # Calls

    def _call(self, item: RemoteItem, name: str, fields: Object) -> Iterator[Event]:
        """Begin a call, now that its name is known, and tell what came of its arguments meanwhile."""
        if item.call_id:
            return
        item.named = optional_str(fields.get("call_id"))
        given = item.named or optional_str(fields.get("id")) or item.name
        number, item.call_id = 1, given
        while item.call_id in self._calls.values():
            number += 1
            item.call_id = f"{given}.{number}"
        self._calls[given] = item.call_id
        yield from self._close_texts()
        yield ToolStarted(item=item.name, message=self._items.placed(item), call_id=item.call_id, name=name)
        yield from (ToolDelta(item=item.name, delta=piece) for text in item.texts.values() for piece in text.pieces)

    def _argue(self, item: RemoteItem, delta: str) -> Iterator[Event]:
        if delta:
            item.texts.setdefault(0, TextBuffer(item.name)).pieces.append(delta)
            if item.call_id:
                yield ToolDelta(item=item.name, delta=delta)

    def _call_done(self, fields: Object, arguments: str, frame: Object) -> Iterator[Event]:
        given = optional_str(fields.get("id")) or optional_str(fields.get("call_id")) or ""
        known = self._items.known(given)
        named = optional_str(fields.get("call_id"))
        if known and self._was_said("function_call", given, arguments) and known.named in (named, None):
            return
        item = self._items.found("function_call", frame, given)
        name = optional_str(fields.get("name"))
        yield from self._call(item, "unknown" if name is None else name, fields)
        yield from self._argue(item, item.rest(arguments))
        item.texts.setdefault(0, TextBuffer(item.name))
        yield from self._close(item)

    def _result(self, fields: Object) -> Iterator[Event]:
        given = optional_str(fields.get("call_id")) or ""
        call_id = self._calls.get(given, given)
        if call_id in self._answered:
            return
        self._answered.add(call_id)
        yield from self._close_texts()
        self._items.holds = "nothing"
        failed = fields.get("palaver:is_error") is True
        yield ToolReturned(call_id=call_id, output=fields.get("output"), is_error=failed)


def _parse_annotations(notes: list[Any]) -> tuple[Annotation, ...]:
    """Annotations that came one by one."""
    return tuple(
        note
        for part in content.read_content([{"text": "…", "annotations": notes}])
        if isinstance(part, Text)
        for note in part.annotations
    )


JSON, SSE = "application/json", "text/event-stream"
MAX_RESPONSE_RECORD_BYTES = 10 * sse.MAX_RECORD_BYTES
"""Bytes in one record: its last one repeats all that was said."""

_FORWARDED_OPTIONS = frozenset(
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


def build_responses_request(call: Call, *, is_chat: bool, stream: bool, model: str | None = None) -> HttpRequest:
    """A response, asked for. Who wants a model is OpenAI's kind, and would refuse the session."""
    inputs = dict(call.inputs)
    messages: list[Message] = list(call.messages) if is_chat else []
    if is_chat and "messages" in inputs:
        # A call that came while the service was away was not read as a chat's: its history is still an input.
        messages = dialects.read(inputs.pop("messages"))
    body: dict[str, Any] = {"input": [*_history(messages)], "stream": stream, "store": False}
    body |= {name: value for name, value in call.options.items() if name in _FORWARDED_OPTIONS and value is not None}
    if model is not None:
        body["model"] = model
    elif call.session:
        body["context"] = {"conversation_id": call.session}
    if inputs:
        body["custom_inputs"] = inputs
    if call.parameters:
        body["parameters"] = call.parameters
    return HttpRequest(headers=upstream.request_headers(call, accept=SSE if stream else JSON), body=json.encode(body))


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


class ResponsesReplyDecoder:
    """Reads the answer: bytes in, events out, by its content type. A stream that just stops has ended."""

    def __init__(self, content_type: str, *, longest: int = MAX_RESPONSE_RECORD_BYTES) -> None:
        self.streamed = upstream.media_type(content_type) == SSE
        self._content_type = content_type
        self._records = sse.EventStreamDecoder(longest=longest)
        self._body = bytearray()
        self._arrivals = ItemDecoder()
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
        match upstream.decode_body(self._content_type, bytes(self._body)):
            case {"output": list()} as response:
                return list(self._ended(cast("Object", response), "completed"))
            case {"error": error} if error is not None:
                return [RunFailed(code="upstream_failed", message=upstream.error_message(bytes(self._body)) or "")]
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
                self._error = self._error or RunFailed(code="upstream_failed", message=_error_text(frame))
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
            message = _error_text(response) or (self._error.message if self._error else "")
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


def _error_text(frame: Object) -> str:
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
