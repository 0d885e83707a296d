"""Convert LangChain's messages and chunks to events, one at a time.

Messages are identified by id, and results are matched to calls. If a complete message follows its chunks, only new
content is emitted. A chunk's `.tool_calls` are never read: LangChain repairs partial JSON there. Text and reasoning
before and after a call are separate items. LangChain itself is not imported.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from palaver.core import json
from palaver.core.events import (
    FinishReason,
    PartAdded,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunFinished,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolReturned,
    ToolStarted,
)
from palaver.core.grammar import OutputValue
from palaver.core.messages import Annotation, Data, File, Message, Refusal
from palaver.frameworks.langchain.messages import (
    CallMarker,
    ContentPiece,
    MessageCall,
    ReasoningPiece,
    TextPiece,
    content_pieces,
    finish_reason,
    message_calls,
    message_text,
    message_usage,
    shift_annotation,
    to_json_value,
)


class StreamedCall:
    def __init__(self, handle: str) -> None:
        self.handle = handle
        self.model_id = ""
        self.call_id = ""
        """The id in this run; empty if the grammar has to create one."""
        self.name = ""
        self.pieces: list[str] = []
        self.started = self.answered = False

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


class RunEvents:
    """State shared by the messages of a run: events, used names, calls."""

    def __init__(self) -> None:
        self.calls: list[StreamedCall] = []
        self._out: list[OutputValue] = []
        self._names: set[str] = set()
        self._call_ids: set[str] = {""}

    def emit(self, value: OutputValue) -> None:
        self._out.append(value)

    def take_events(self) -> list[OutputValue]:
        events, self._out = self._out, []
        return events

    def reserve_name(self, base: str) -> str:
        """Return an unused name for a message or an item: `base`, or the next free of `….2`, `….3`."""
        name = _unused_name(base, self._names)
        self._names.add(name)
        return name

    def new_call(self) -> StreamedCall:
        call = StreamedCall(f"lc-{len(self.calls)}")
        self.calls.append(call)
        return call

    def start_call(self, call: StreamedCall, message: str) -> None:
        """Emit the start of a call. A call id that was used before in this run is replaced."""
        call.started = True
        call.name = call.name or "unknown"
        call.call_id = _unused_name(call.model_id, self._call_ids) if call.model_id else ""
        self._call_ids.add(call.call_id)
        self.emit(ToolStarted(item=call.handle, message=message, call_id=call.call_id, name=call.name))
        if call.arguments:
            self.emit(ToolDelta(item=call.handle, delta=call.arguments))

    def find_unanswered(self, model_id: str) -> StreamedCall | None:
        """Return the newest call of that id without a result."""
        return next((call for call in reversed(self.calls) if call.model_id == model_id and not call.answered), None)


class StreamedMessage:
    def __init__(self, message_id: str, branch: str, events: RunEvents) -> None:
        self.id = message_id
        self.name = events.reserve_name(message_id) if message_id else ""
        """The id in this run; empty if the grammar has to create one."""
        self.branch = branch
        self.is_streamed = False
        self.is_complete = False
        """Whether the complete message followed the chunks."""
        self.texts: list[str] = []
        self.calls: dict[object, StreamedCall] = {}
        """By the key of their chunks."""
        self.part_types: set[type] = set()
        self.has_usage = False
        self._events = events
        self._has_text = False
        self._open_kind: Literal["text", "reasoning"] | None = None
        self._item = ""
        self._length = 0
        self._block_offset = 0
        self._block_id: str | None = None
        self._block_index: int | str | None = None
        self._paragraph: int | None = None
        self._annotations: list[Annotation] = []
        self._encrypted: list[str] = []
        self._refusal: list[str] = []
        self._call: StreamedCall | None = None

    @property
    def has_complete_call(self) -> bool:
        return self._call is not None and json.is_json(self._call.arguments)

    def add_text(self, piece: TextPiece) -> None:
        """Add text. Another block id starts another text."""
        is_new_block = bool(piece.block_id and self._block_id and piece.block_id != self._block_id)
        if piece.text and (self._open_kind != "text" or is_new_block):
            self._start_item("text")
            self._events.emit(TextStarted(item=self._item, message=self.name))
        if self._open_kind != "text":
            return  # An annotation without text.
        if piece.index is None or piece.index != self._block_index:
            self._block_offset, self._block_index = self._length, piece.index
        self._block_id = piece.block_id or self._block_id
        self._annotations += [shift_annotation(note, self._block_offset) for note in piece.annotations]
        if piece.text:
            self._length += len(piece.text)
            self.texts.append(piece.text)
            self._events.emit(TextDelta(item=self._item, delta=piece.text))

    def add_reasoning(self, piece: ReasoningPiece) -> None:
        """Add reasoning. A piece without text is a signature, or encrypted."""
        text = piece.text
        if text and self._open_kind != "reasoning":
            self._start_item("reasoning")
            self._events.emit(ReasoningStarted(item=self._item, message=self.name))
        elif text and piece.paragraph != self._paragraph:
            text = f"\n\n{text}"
        if self._open_kind != "reasoning":
            return
        if piece.encrypted:
            self._encrypted.append(piece.encrypted)
        if text:
            self._paragraph = piece.paragraph
            self._events.emit(ReasoningDelta(item=self._item, delta=text))

    def add_part(self, part: Refusal | File | Data) -> None:
        self.close()
        self._emit_part(part)

    def add_refusal_piece(self, piece: str) -> None:
        """Add a piece of a refusal, which is emitted when it is complete."""
        self._refusal.append(piece)

    def add_call(self, call: MessageCall) -> None:
        streamed_call = self._new_call(call.call_id or object())
        streamed_call.model_id, streamed_call.name, streamed_call.pieces = call.call_id, call.name, [call.arguments]
        self.close()

    def add_call_piece(self, piece: Mapping[str, Any]) -> None:
        """Add a piece of a call, matched by its index, else by its id, else to the last one."""
        model_id, index, arguments = piece.get("id") or "", piece.get("index"), piece.get("args") or ""
        key: object = ("index", index) if index is not None else model_id
        call = self.calls.get(key) if key else self._call
        if call is None or (model_id and call.model_id and model_id != call.model_id):
            call = self._new_call(key or object())
        call.model_id = call.model_id or model_id
        call.name = call.name or piece.get("name") or ""
        if arguments:
            call.pieces.append(arguments)
        if call.started and arguments:
            self._events.emit(ToolDelta(item=call.handle, delta=arguments))
        elif not call.started and call.name and (call.model_id or call.pieces):
            self._events.start_call(call, self.name)

    def is_current_call(self, call: StreamedCall) -> bool:
        return self._call is call

    def close(self) -> None:
        if self._open_kind == "text":
            self._events.emit(TextEnded(item=self._item, annotations=tuple(self._annotations)))
        elif self._open_kind == "reasoning":
            self._events.emit(ReasoningEnded(item=self._item, encrypted="".join(self._encrypted) or None))
        self._open_kind, self._annotations, self._encrypted = None, [], []
        call, self._call = self._call, None
        if call is not None:
            if not call.started:
                self._events.start_call(call, self.name)
            self._events.emit(ToolEnded(item=call.handle))
        refusal, self._refusal = "".join(self._refusal), []
        if refusal:
            self._emit_part(Refusal(text=refusal))

    def _start_item(self, kind: Literal["text", "reasoning"]) -> None:
        self.close()
        self._open_kind = kind
        self._item = self._new_item(kind) if self.id else ""
        self._length = self._block_offset = 0
        self._block_id = self._block_index = self._paragraph = None

    def _new_item(self, kind: Literal["text", "reasoning"]) -> str:
        if kind == "reasoning":
            return self._events.reserve_name(f"rs_{self.id}")
        first, self._has_text = not self._has_text, True
        return self.name if first else self._events.reserve_name(self.id)

    def _new_call(self, key: object) -> StreamedCall:
        self.close()
        self._call = call = self._events.new_call()
        if key in self.calls:  # The key now belongs to the newest call.
            self.calls[object()] = self.calls.pop(key)
        self.calls[key] = call
        return call

    def _emit_part(self, part: Refusal | File | Data) -> None:
        self.part_types.add(type(part))
        self._events.emit(PartAdded(message=self.name, part=part))


def _unused_name(base: str, used: set[str]) -> str:
    number, name = 1, base
    while name in used:
        number += 1
        name = f"{base}.{number}"
    return name


RepeatPolicy = Literal["keep", "complete"]
"""How to treat a complete message with a known id: keep it as another one, or let it complete the known one."""

_LANGCHAIN_ID_PREFIXES = ("lc_run-", "run-")
_MESSAGE_END = Message.assistant()
"""Emits nothing, but ends the current message."""


class MessageStream:
    """Converts the LangChain messages of one run to events."""

    def __init__(
        self,
        *,
        repeats: RepeatPolicy = "keep",
        pending: Collection[str] = (),
        thread: Mapping[str, MessageCall] | None = None,
    ) -> None:
        self.warnings: list[str] = []
        self._repeats = repeats
        self._pending = pending  # Calls of the history without a result.
        self._thread_calls = thread or {}  # Calls in the graph's stored thread, by id.
        self._events = RunEvents()
        self._messages: dict[str, StreamedMessage] = {}
        self._current: dict[str, StreamedMessage] = {}  # By branch, the message of chunks without an id.
        self._result_ids: set[str] = set()
        self._finish: FinishReason = "stop"

    @property
    def unanswered(self) -> list[StreamedCall]:
        return [call for call in self._events.calls if not call.answered]

    @property
    def answered(self) -> frozenset[str]:
        return frozenset(call.model_id for call in self._events.calls if call.answered)

    def feed(self, message: Any, *, branch: str = "") -> list[OutputValue]:
        """Convert one message or chunk. Messages of different branches may be interleaved."""
        match message.type:
            case "ai":
                self._feed_complete(message, branch)
            case "AIMessageChunk":
                self._feed_chunk(message, branch)
            case "chat" if message.role == "assistant":
                self._feed_complete(message, branch)
            case "ChatMessageChunk" if message.role == "assistant":
                self._feed_chunk(message, branch)
            case "tool" | "ToolMessageChunk":
                self._feed_result(message, self._events.find_unanswered(message.tool_call_id), branch)
            case "function" | "FunctionMessageChunk":
                self._feed_result_by_name(message, branch)
            case _:
                pass  # User messages are not output.
        return self._events.take_events()

    def end(self) -> list[OutputValue]:
        """Return the held back events and the finish reason."""
        for streamed in self._all_messages():
            streamed.close()
        if self._finish != "stop":
            self._events.emit(RunFinished(finish=self._finish))
        return self._events.take_events()

    # Messages

    def _feed_complete(self, message: Any, branch: str) -> None:
        existing = self._find_streamed(message) or self._messages.get(message.id or "")
        if existing is not None and (existing.is_streamed or self._repeats == "complete"):
            self._complete(existing, message)
            return
        streamed = self._start_message(message.id or "", branch)
        del self._current[branch]
        pending_calls = message_calls(message)
        for piece in content_pieces(message):
            if isinstance(piece, CallMarker):
                matches = [call for call in pending_calls if call.call_id == piece.call_id and call.parsed]
                for call in matches[:1]:
                    pending_calls.remove(call)
                    streamed.add_call(call)
            else:
                _add_piece(streamed, piece)
        streamed.close()
        for call in pending_calls:
            streamed.add_call(call)
        self._add_usage(streamed, message)
        self._events.emit(_MESSAGE_END)

    def _find_streamed(self, message: Any) -> StreamedMessage | None:
        """Find the message under the id that LangChain used while it was streamed.

        OpenAI's models name a message in one chunk only: the other chunks have LangChain's run id, the complete message
        has the model's. They are matched by content.
        """
        existing = self._messages.get(message.id or "")
        if existing is not None and (existing.texts or existing.calls):
            return None
        text, call_ids = message_text(message), {call.call_id for call in message_calls(message)}
        for streamed in self._messages.values():
            if streamed.is_streamed and not streamed.is_complete and streamed.id.startswith(_LANGCHAIN_ID_PREFIXES):
                streamed_ids = {call.model_id for call in streamed.calls.values()}
                if (streamed.texts or streamed_ids) and text == "".join(streamed.texts) and streamed_ids <= call_ids:
                    self._messages[message.id or streamed.id] = streamed
                    return streamed
        return None

    def _complete(self, streamed: StreamedMessage, message: Any) -> None:
        streamed.is_complete = True
        if self._current.get(streamed.branch) is streamed:
            del self._current[streamed.branch]
        text, streamed_text = message_text(message), "".join(streamed.texts)
        if text.startswith(streamed_text):
            streamed.add_text(TextPiece(text=text[len(streamed_text) :]))
        elif text:
            self._warn("the final text of a message differs from its streamed text, which was kept")
        streamed.close()
        streamed_types = frozenset(streamed.part_types)
        for piece in content_pieces(message):
            if isinstance(piece, Refusal | File | Data) and type(piece) not in streamed_types:
                streamed.add_part(piece)
        known_ids = [streamed_call.model_id for streamed_call in streamed.calls.values()]
        for call in message_calls(message):
            if call.call_id in known_ids:
                known_ids.remove(call.call_id)
            else:
                streamed.add_call(call)
        self._add_usage(streamed, message)

    def _feed_chunk(self, chunk: Any, branch: str) -> None:
        streamed = self._messages.get(chunk.id) if chunk.id else self._current.get(branch)
        if streamed is None:
            streamed = self._start_message(chunk.id or "", branch)
        self._current[branch] = streamed
        streamed.is_streamed = True
        for piece in content_pieces(chunk):
            if isinstance(piece, Refusal):
                streamed.add_refusal_piece(piece.text)
            else:
                _add_piece(streamed, piece)
        for piece in getattr(chunk, "tool_call_chunks", None) or ():
            streamed.add_call_piece(piece)
        self._add_usage(streamed, chunk)
        if getattr(chunk, "chunk_position", None) == "last":
            streamed.close()
            del self._current[branch]

    def _start_message(self, message_id: str, branch: str) -> StreamedMessage:
        """Start a new message.

        Texts and partial arguments of other messages stay open. A call with complete arguments has ended, and a message
        without an id cannot be found again.
        """
        for other in self._all_messages():
            if other.branch == branch and (other.has_complete_call or not other.id):
                other.close()
        streamed = self._current[branch] = StreamedMessage(message_id, branch, self._events)
        if message_id:
            self._messages[message_id] = streamed
        else:
            self._events.emit(_MESSAGE_END)
        self._finish = "stop"
        return streamed

    def _all_messages(self) -> Sequence[StreamedMessage]:
        return [*self._messages.values(), *(streamed for streamed in self._current.values() if not streamed.id)]

    def _add_usage(self, streamed: StreamedMessage, message: Any) -> None:
        """Emit usage and keep the finish reason. A complete message counts only if no chunk reported usage."""
        usage = message_usage(message)
        is_chunk_usage = not message.type.islower() and bool(getattr(message, "usage_metadata", None))
        if usage is not None and (is_chunk_usage or not streamed.has_usage):
            self._events.emit(usage)
            streamed.has_usage = True
        self._finish = finish_reason(message) or self._finish

    def _warn(self, warning: str) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)

    # Results

    def _feed_result(self, message: Any, call: StreamedCall | None, branch: str) -> None:
        if message.id and self._repeats == "complete":
            if message.id in self._result_ids:
                return
            self._result_ids.add(message.id)
        self._current.pop(branch, None)
        call_id = message.tool_call_id if call is None else call.call_id
        if call is not None:
            call.answered = True
            for streamed in self._all_messages():
                if streamed.is_current_call(call):
                    streamed.close()
        elif call_id not in self._pending and call_id in self._thread_calls:
            self._repeat_call(self._thread_calls[call_id])
        is_error = getattr(message, "status", None) == "error"
        output = to_json_value(message.content)
        self._events.emit(ToolReturned(message=message.id or "", call_id=call_id, output=output, is_error=is_error))

    def _feed_result_by_name(self, message: Any, branch: str) -> None:
        call = next((call for call in reversed(self.unanswered) if call.name == message.name), None)
        if call is None:
            self._warn(f"dropped the result of function {message.name!r}, which was never called")
        else:
            self._feed_result(message, call, branch)

    def _repeat_call(self, call: MessageCall) -> None:
        """Emit a call of an earlier run again, because its result comes only now."""
        new_call = self._events.new_call()
        new_call.model_id, new_call.name, new_call.answered = call.call_id, call.name, True
        self._events.emit(_MESSAGE_END)
        self._events.start_call(new_call, "")
        self._events.emit(ToolEnded(item=new_call.handle, arguments=call.arguments))


def _add_piece(streamed: StreamedMessage, piece: ContentPiece) -> None:
    match piece:
        case TextPiece():
            streamed.add_text(piece)
        case ReasoningPiece():
            streamed.add_reasoning(piece)
        case Refusal() | File() | Data():
            streamed.add_part(piece)
        case CallMarker():
            pass  # A chunk's calls are not in its content.
