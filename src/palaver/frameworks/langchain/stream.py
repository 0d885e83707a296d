"""One LangChain message while it is spoken: its pieces, as events. What they belong to, langchain_stream.py decides.

Whatever a message says ends what it said before: text and reasoning never share an item with what stands on the other
side of a call. Names of items are made here, from the message's own id, and none is given twice in a run.
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
    """A call of this run."""

    def __init__(self, handle: str) -> None:
        self.handle = handle
        """What we call its item."""
        self.asked = ""
        """Its id as the model gave it."""
        self.call_id = ""
        """Its id in this run; empty where the grammar is to make one."""
        self.name = ""
        self.pieces: list[str] = []
        self.started = self.answered = False

    @property
    def arguments(self) -> str:
        """All of its arguments so far."""
        return "".join(self.pieces)


class RunEvents:
    """What all messages of a run share: the events that they said, the names that are taken, the calls."""

    def __init__(self) -> None:
        self.made: list[StreamedCall] = []
        """The calls of this run, in order."""
        self._out: list[OutputValue] = []
        self._names: set[str] = set()
        self._call_ids: set[str] = {""}

    def say(self, given: OutputValue) -> None:
        """One event more."""
        self._out.append(given)

    def handed_out(self) -> list[OutputValue]:
        """What was said since the last time."""
        said, self._out = self._out, []
        return said

    def name(self, wanted: str) -> str:
        """A name of its own for a message or an item: the one wanted, or the next free of `….2`, `….3`."""
        name = _unused_name(wanted, self._names)
        self._names.add(name)
        return name

    def new_call(self) -> StreamedCall:
        """A call, of which nothing is known yet."""
        made = StreamedCall(f"lc-{len(self.made)}")
        self.made.append(made)
        return made

    def start_call(self, made: StreamedCall, message: str) -> None:
        """Say that it is made. A call id that was used before in this run becomes another."""
        made.started = True
        made.name = made.name or "unknown"
        made.call_id = _unused_name(made.asked, self._call_ids) if made.asked else ""
        self._call_ids.add(made.call_id)
        self.say(ToolStarted(item=made.handle, message=message, call_id=made.call_id, name=made.name))
        if made.arguments:
            self.say(ToolDelta(item=made.handle, delta=made.arguments))

    def unanswered(self, asked: str) -> StreamedCall | None:
        """The newest call of that id that has no result yet."""
        return next((made for made in reversed(self.made) if made.asked == asked and not made.answered), None)


class StreamedMessage:
    """One message."""

    def __init__(self, own_id: str, branch: str, ledger: RunEvents) -> None:
        self.id = own_id
        self.name = ledger.name(own_id) if own_id else ""
        """What the message is called in this run; empty where it has no id, and the grammar names it."""
        self.branch = branch
        self.streamed = False
        self.is_whole = False
        """Did it come whole after its chunks?"""
        self.said: list[str] = []
        """All of its text."""
        self.calls: dict[object, StreamedCall] = {}
        """By what its pieces are joined by."""
        self.kinds: set[type] = set()
        """Kinds of parts that came."""
        self.counted = False
        """Did it say what it cost?"""
        self._ledger = ledger
        self._has_text = False
        self._open: Literal["text", "reasoning"] | None = None
        self._item = ""
        self._length = 0
        self._base = 0  # Where the block at hand began.
        self._block: str | None = None
        self._index: int | str | None = None
        self._paragraph: int | None = None
        self._notes: list[Annotation] = []
        self._encrypted: list[str] = []
        self._refusal: list[str] = []
        self._call: StreamedCall | None = None

    @property
    def has_called(self) -> bool:
        """Is a call at hand, of which all is said?"""
        return self._call is not None and json.is_json(self._call.arguments)

    def text(self, piece: TextPiece) -> None:
        """A piece of text; one of another block than the last, as far as their ids tell, is a text of its own."""
        parted = bool(piece.block and self._block and piece.block != self._block)
        if piece.text and (self._open != "text" or parted):
            self._begin("text")
            self._ledger.say(TextStarted(item=self._item, message=self.name))
        if self._open != "text":
            return  # A note on nothing.
        if piece.index is None or piece.index != self._index:
            self._base, self._index = self._length, piece.index
        self._block = piece.block or self._block
        self._notes += [shift_annotation(note, self._base) for note in piece.notes]
        if piece.text:
            self._length += len(piece.text)
            self.said.append(piece.text)
            self._ledger.say(TextDelta(item=self._item, delta=piece.text))

    def reasoning(self, piece: ReasoningPiece) -> None:
        """A piece of reasoning. One without text is a seal for what was said before, or nothing that can be read."""
        text = piece.text
        if text and self._open != "reasoning":
            self._begin("reasoning")
            self._ledger.say(ReasoningStarted(item=self._item, message=self.name))
        elif text and piece.paragraph != self._paragraph:
            text = f"\n\n{text}"
        if self._open != "reasoning":
            return
        if piece.encrypted:
            self._encrypted.append(piece.encrypted)
        if text:
            self._paragraph = piece.paragraph
            self._ledger.say(ReasoningDelta(item=self._item, delta=text))

    def part(self, part: Refusal | File | Data) -> None:
        """A part that comes whole."""
        self.close()
        self._add(part)

    def refusal_piece(self, piece: str) -> None:
        """A piece of a refusal, which is said when it is whole."""
        self._refusal.append(piece)

    def call(self, call: MessageCall) -> None:
        """A whole call."""
        made = self._new_call(call.call_id or object())
        made.asked, made.name, made.pieces = call.call_id, call.name, [call.arguments]
        self.close()

    def call_piece(self, piece: Mapping[str, Any]) -> None:
        """A piece of a call, joined by its index, else by its id, else to the last one."""
        asked, index, arguments = piece.get("id") or "", piece.get("index"), piece.get("args") or ""
        key: object = ("index", index) if index is not None else asked
        made = self.calls.get(key) if key else self._call
        if made is None or (asked and made.asked and asked != made.asked):
            made = self._new_call(key or object())
        made.asked = made.asked or asked
        made.name = made.name or piece.get("name") or ""
        if arguments:
            made.pieces.append(arguments)
        if made.started and arguments:
            self._ledger.say(ToolDelta(item=made.handle, delta=arguments))
        elif not made.started and made.name and (made.asked or made.pieces):
            self._ledger.start_call(made, self.name)

    def is_making(self, made: StreamedCall) -> bool:
        """Is this the call at hand?"""
        return self._call is made

    def close(self) -> None:
        """End whatever the message was saying."""
        if self._open == "text":
            self._ledger.say(TextEnded(item=self._item, annotations=tuple(self._notes)))
        elif self._open == "reasoning":
            self._ledger.say(ReasoningEnded(item=self._item, encrypted="".join(self._encrypted) or None))
        self._open, self._notes, self._encrypted = None, [], []
        made, self._call = self._call, None
        if made is not None:
            if not made.started:
                self._ledger.start_call(made, self.name)
            self._ledger.say(ToolEnded(item=made.handle))
        refusal, self._refusal = "".join(self._refusal), []
        if refusal:
            self._add(Refusal(text=refusal))

    def _begin(self, kind: Literal["text", "reasoning"]) -> None:
        self.close()
        self._open = kind
        self._item = self._new_item(kind) if self.id else ""
        self._length = self._base = 0
        self._block = self._index = self._paragraph = None

    def _new_item(self, kind: Literal["text", "reasoning"]) -> str:
        if kind == "reasoning":
            return self._ledger.name(f"rs_{self.id}")
        first, self._has_text = not self._has_text, True
        return self.name if first else self._ledger.name(self.id)

    def _new_call(self, key: object) -> StreamedCall:
        self.close()
        self._call = made = self._ledger.new_call()
        if key in self.calls:  # From now on it stands for the newest.
            self.calls[object()] = self.calls.pop(key)
        self.calls[key] = made
        return made

    def _add(self, part: Refusal | File | Data) -> None:
        self.kinds.add(type(part))
        self._ledger.say(PartAdded(message=self.name, part=part))


def _unused_name(wanted: str, taken: set[str]) -> str:
    number, name = 1, wanted
    while name in taken:
        number += 1
        name = f"{wanted}.{number}"
    return name


RepeatPolicy = Literal["keep", "complete"]
"""What a whole message is, of an id that came whole before: another one, or the same."""

_LANGCHAIN_ID_PREFIXES = ("lc_run-", "run-")
_MESSAGE_END = Message.assistant()
"""Says nothing; it only ends the message before it, for what comes next and names no message."""


class MessageStream:
    """What LangChain's messages of one run amount to."""

    def __init__(
        self,
        *,
        repeats: RepeatPolicy = "keep",
        asked: Collection[str] = (),
        thread: Mapping[str, MessageCall] | None = None,
    ) -> None:
        self.warnings: list[str] = []
        self._repeats = repeats
        self._asked = asked  # Calls in the messages of the run's own call that wait for their results.
        self._thread = thread or {}  # Calls that are known from elsewhere only.
        self._ledger = RunEvents()
        self._voices: dict[str, StreamedMessage] = {}
        self._speaking: dict[str, StreamedMessage] = {}  # By branch, the message that a chunk without an id belongs to.
        self._results: set[str] = set()
        self._finish: FinishReason = "stop"

    @property
    def unanswered(self) -> list[StreamedCall]:
        """The calls of this run that have no result."""
        return [made for made in self._ledger.made if not made.answered]

    @property
    def answered(self) -> frozenset[str]:
        """The ids of the calls that got their result in this run."""
        return frozenset(made.asked for made in self._ledger.made if made.answered)

    def feed(self, message: Any, *, branch: str = "") -> list[OutputValue]:
        """The events that one message or chunk amounts to. Messages of different branches are made at the same time."""
        match message.type:
            case "ai":
                self._whole(message, branch)
            case "AIMessageChunk":
                self._chunk(message, branch)
            case "chat" if message.role == "assistant":
                self._whole(message, branch)
            case "ChatMessageChunk" if message.role == "assistant":
                self._chunk(message, branch)
            case "tool" | "ToolMessageChunk":
                self._result(message, self._ledger.unanswered(message.tool_call_id), branch)
            case "function" | "FunctionMessageChunk":
                self._result_by_name(message, branch)
            case _:
                pass  # Nobody speaks for the user but the user.
        return self._ledger.handed_out()

    def end(self) -> list[OutputValue]:
        """What was held back, and how the last message ended."""
        for voice in self._open_voices():
            voice.close()
        if self._finish != "stop":
            self._ledger.say(RunFinished(finish=self._finish))
        return self._ledger.handed_out()

    # Messages

    def _whole(self, message: Any, branch: str) -> None:
        known = self._twin(message) or self._voices.get(message.id or "")
        if known is not None and (known.streamed or self._repeats == "complete"):
            self._complete(known, message)
            return
        voice = self._begin(message.id or "", branch)
        del self._speaking[branch]
        waiting = message_calls(message)
        for piece in content_pieces(message):
            if isinstance(piece, CallMarker):
                marked = [call for call in waiting if call.call_id == piece.call_id and call.understood]
                for call in marked[:1]:
                    waiting.remove(call)
                    voice.call(call)
            else:
                _add_piece(voice, piece)
        voice.close()
        for call in waiting:
            voice.call(call)
        self._account(voice, message)
        self._ledger.say(_MESSAGE_END)

    def _twin(self, message: Any) -> StreamedMessage | None:
        """The message under the name that LangChain gave it while it streamed.

        A model of OpenAI's names its message in one chunk only: the others come under LangChain's name for the run, the
        whole message under the model's. What they say tells that they are the same.
        """
        known = self._voices.get(message.id or "")
        if known is not None and (known.said or known.calls):
            return None
        whole, asked = message_text(message), {call.call_id for call in message_calls(message)}
        for voice in self._voices.values():
            if voice.streamed and not voice.is_whole and voice.id.startswith(_LANGCHAIN_ID_PREFIXES):
                made = {made.asked for made in voice.calls.values()}
                if (voice.said or made) and whole == "".join(voice.said) and made <= asked:
                    self._voices[message.id or voice.id] = voice
                    return voice
        return None

    def _complete(self, voice: StreamedMessage, message: Any) -> None:
        """Of a message that was said before, what is new."""
        voice.is_whole = True
        if self._speaking.get(voice.branch) is voice:
            del self._speaking[voice.branch]
        whole, said = message_text(message), "".join(voice.said)
        if whole.startswith(said):
            voice.text(TextPiece(text=whole[len(said) :]))
        elif whole:
            self._warn("the whole text of a message differs from what was streamed of it; what was said stays")
        voice.close()
        came = frozenset(voice.kinds)
        for piece in content_pieces(message):
            if isinstance(piece, Refusal | File | Data) and type(piece) not in came:
                voice.part(piece)
        known = [made.asked for made in voice.calls.values()]
        for call in message_calls(message):
            if call.call_id in known:
                known.remove(call.call_id)
            else:
                voice.call(call)
        self._account(voice, message)

    def _chunk(self, chunk: Any, branch: str) -> None:
        voice = self._voices.get(chunk.id) if chunk.id else self._speaking.get(branch)
        if voice is None:
            voice = self._begin(chunk.id or "", branch)
        self._speaking[branch] = voice
        voice.streamed = True
        for piece in content_pieces(chunk):
            if isinstance(piece, Refusal):
                voice.refusal_piece(piece.text)
            else:
                _add_piece(voice, piece)
        for piece in getattr(chunk, "tool_call_chunks", None) or ():
            voice.call_piece(piece)
        self._account(voice, chunk)
        if getattr(chunk, "chunk_position", None) == "last":
            voice.close()
            del self._speaking[branch]

    def _begin(self, own_id: str, branch: str) -> StreamedMessage:
        """A message that was not there before.

        Others may be in the midst of theirs: texts go on, and so do arguments that are half said. But a call whose
        arguments are whole has ended, and a message without an id could not be found again.
        """
        for other in self._open_voices():
            if other.branch == branch and (other.has_called or not other.id):
                other.close()
        voice = self._speaking[branch] = StreamedMessage(own_id, branch, self._ledger)
        if own_id:
            self._voices[own_id] = voice
        else:
            self._ledger.say(_MESSAGE_END)
        self._finish = "stop"
        return voice

    def _open_voices(self) -> Sequence[StreamedMessage]:
        return [*self._voices.values(), *(voice for voice in self._speaking.values() if not voice.id)]

    def _account(self, voice: StreamedMessage, message: Any) -> None:
        """What it cost, and how it ended. Chunks each say their own share; a whole message counts if none did."""
        usage = message_usage(message)
        is_share = not message.type.islower() and bool(getattr(message, "usage_metadata", None))
        if usage is not None and (is_share or not voice.counted):
            self._ledger.say(usage)
            voice.counted = True
        self._finish = finish_reason(message) or self._finish

    def _warn(self, warning: str) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)

    # Results

    def _result(self, message: Any, made: StreamedCall | None, branch: str) -> None:
        if message.id and self._repeats == "complete":
            if message.id in self._results:
                return
            self._results.add(message.id)
        self._speaking.pop(branch, None)
        call_id = message.tool_call_id if made is None else made.call_id
        if made is not None:
            made.answered = True
            for voice in self._open_voices():
                if voice.is_making(made):
                    voice.close()
        elif call_id not in self._asked and call_id in self._thread:
            self._announce(self._thread[call_id])
        is_error = getattr(message, "status", None) == "error"
        output = to_json_value(message.content)
        self._ledger.say(ToolReturned(message=message.id or "", call_id=call_id, output=output, is_error=is_error))

    def _result_by_name(self, message: Any, branch: str) -> None:
        made = next((made for made in reversed(self.unanswered) if made.name == message.name), None)
        if made is None:
            self._warn(f"dropped the result of a function {message.name!r} that nobody called")
        else:
            self._result(message, made, branch)

    def _announce(self, call: MessageCall) -> None:
        """A call of an earlier run, said again because its result comes only now."""
        made = self._ledger.new_call()
        made.asked, made.name, made.answered = call.call_id, call.name, True
        self._ledger.say(_MESSAGE_END)
        self._ledger.start_call(made, "")
        self._ledger.say(ToolEnded(item=made.handle, arguments=call.arguments))


def _add_piece(voice: StreamedMessage, piece: ContentPiece) -> None:
    match piece:
        case TextPiece():
            voice.text(piece)
        case ReasoningPiece():
            voice.reasoning(piece)
        case Refusal() | File() | Data():
            voice.part(piece)
        case CallMarker():
            pass  # A chunk's calls stand beside its content.
