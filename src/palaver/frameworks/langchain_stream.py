"""LangChain's messages and chunks, as the events that they amount to. A sync machine: one message or chunk at a time.

It knows each message by its id and finds the call that a result answers. Of a message that was streamed, and then comes
whole, it says only what is new. A chunk's `.tool_calls` are never read: LangChain mends half JSON there. What a message
is, its `type` tells, so LangChain itself is not needed here.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from palaver.core.events import FinishReason, RunFinished, ToolEnded, ToolReturned
from palaver.core.grammar import OutputValue
from palaver.core.messages import Data, File, Message, Refusal
from palaver.frameworks.langchain_content import (
    Called,
    CallMark,
    Piece,
    ReasoningPiece,
    TextPiece,
    calls,
    finish_of,
    pieces,
    plain,
    text_of,
    usage_of,
)
from palaver.frameworks.langchain_voice import Ledger, Made, Voice

Repeats = Literal["keep", "complete"]
"""What a whole message is, of an id that came whole before: another one, or the same."""

_MADE_BY_LANGCHAIN = ("lc_run-", "run-")
_NO_MORE = Message.assistant()
"""Says nothing; it only ends the message before it, for what comes next and names no message."""


class Stream:
    """What LangChain's messages of one run amount to."""

    def __init__(
        self,
        *,
        repeats: Repeats = "keep",
        asked: Collection[str] = (),
        thread: Mapping[str, Called] | None = None,
    ) -> None:
        self.warnings: list[str] = []
        self._repeats = repeats
        self._asked = asked  # Calls in the messages of the run's own call that wait for their results.
        self._thread = thread or {}  # Calls that are known from elsewhere only.
        self._ledger = Ledger()
        self._voices: dict[str, Voice] = {}
        self._speaking: dict[str, Voice] = {}  # By branch, the message that a chunk without an id belongs to.
        self._results: set[str] = set()
        self._finish: FinishReason = "stop"

    @property
    def unanswered(self) -> list[Made]:
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
        waiting = calls(message)
        for piece in pieces(message):
            if isinstance(piece, CallMark):
                marked = [call for call in waiting if call.call_id == piece.call_id and call.understood]
                for call in marked[:1]:
                    waiting.remove(call)
                    voice.call(call)
            else:
                _say(voice, piece)
        voice.close()
        for call in waiting:
            voice.call(call)
        self._account(voice, message)
        self._ledger.say(_NO_MORE)

    def _twin(self, message: Any) -> Voice | None:
        """The message under the name that LangChain gave it while it streamed.

        A model of OpenAI's names its message in one chunk only: the others come under LangChain's name for the run, the
        whole message under the model's. What they say tells that they are the same.
        """
        known = self._voices.get(message.id or "")
        if known is not None and (known.said or known.calls):
            return None
        whole, asked = text_of(message), {call.call_id for call in calls(message)}
        for voice in self._voices.values():
            if voice.streamed and not voice.is_whole and voice.id.startswith(_MADE_BY_LANGCHAIN):
                made = {made.asked for made in voice.calls.values()}
                if (voice.said or made) and whole == "".join(voice.said) and made <= asked:
                    self._voices[message.id or voice.id] = voice
                    return voice
        return None

    def _complete(self, voice: Voice, message: Any) -> None:
        """Of a message that was said before, what is new."""
        voice.is_whole = True
        if self._speaking.get(voice.branch) is voice:
            del self._speaking[voice.branch]
        whole, said = text_of(message), "".join(voice.said)
        if whole.startswith(said):
            voice.text(TextPiece(text=whole[len(said) :]))
        elif whole:
            self._warn("the whole text of a message differs from what was streamed of it; what was said stays")
        voice.close()
        came = frozenset(voice.kinds)
        for piece in pieces(message):
            if isinstance(piece, Refusal | File | Data) and type(piece) not in came:
                voice.part(piece)
        known = [made.asked for made in voice.calls.values()]
        for call in calls(message):
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
        for piece in pieces(chunk):
            if isinstance(piece, Refusal):
                voice.refusal_piece(piece.text)
            else:
                _say(voice, piece)
        for piece in getattr(chunk, "tool_call_chunks", None) or ():
            voice.call_piece(piece)
        self._account(voice, chunk)
        if getattr(chunk, "chunk_position", None) == "last":
            voice.close()
            del self._speaking[branch]

    def _begin(self, own_id: str, branch: str) -> Voice:
        """A message that was not there before.

        Others may be in the midst of theirs: texts go on, and so do arguments that are half said. But a call whose
        arguments are whole has ended, and a message without an id could not be found again.
        """
        for other in self._open_voices():
            if other.branch == branch and (other.has_called or not other.id):
                other.close()
        voice = self._speaking[branch] = Voice(own_id, branch, self._ledger)
        if own_id:
            self._voices[own_id] = voice
        else:
            self._ledger.say(_NO_MORE)
        self._finish = "stop"
        return voice

    def _open_voices(self) -> Sequence[Voice]:
        return [*self._voices.values(), *(voice for voice in self._speaking.values() if not voice.id)]

    def _account(self, voice: Voice, message: Any) -> None:
        """What it cost, and how it ended. Chunks each say their own share; a whole message counts if none did."""
        usage = usage_of(message)
        is_share = not message.type.islower() and bool(getattr(message, "usage_metadata", None))
        if usage is not None and (is_share or not voice.counted):
            self._ledger.say(usage)
            voice.counted = True
        self._finish = finish_of(message) or self._finish

    def _warn(self, warning: str) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)

    # Results

    def _result(self, message: Any, made: Made | None, branch: str) -> None:
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
        output = plain(message.content)
        self._ledger.say(ToolReturned(message=message.id or "", call_id=call_id, output=output, is_error=is_error))

    def _result_by_name(self, message: Any, branch: str) -> None:
        made = next((made for made in reversed(self.unanswered) if made.name == message.name), None)
        if made is None:
            self._warn(f"dropped the result of a function {message.name!r} that nobody called")
        else:
            self._result(message, made, branch)

    def _announce(self, call: Called) -> None:
        """A call of an earlier run, said again because its result comes only now."""
        made = self._ledger.new_call()
        made.asked, made.name, made.answered = call.call_id, call.name, True
        self._ledger.say(_NO_MORE)
        self._ledger.start_call(made, "")
        self._ledger.say(ToolEnded(item=made.handle, arguments=call.arguments))


def _say(voice: Voice, piece: Piece) -> None:
    match piece:
        case TextPiece():
            voice.text(piece)
        case ReasoningPiece():
            voice.reasoning(piece)
        case Refusal() | File() | Data():
            voice.part(piece)
        case CallMark():
            pass  # A chunk's calls stand beside its content.
