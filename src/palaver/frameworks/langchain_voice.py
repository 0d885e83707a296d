"""One LangChain message while it is spoken: its pieces, as events. What they belong to, langchain_stream.py decides.

Whatever a message says ends what it said before: text and reasoning never share an item with what stands on the other
side of a call. Names of items are made here, from the message's own id, and none is given twice in a run.
"""

from collections.abc import Mapping
from typing import Any, Literal

from palaver.core import json
from palaver.core.events import (
    PartAdded,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolStarted,
)
from palaver.core.grammar import OutputValue
from palaver.core.messages import Annotation, Data, File, Refusal
from palaver.frameworks.langchain_content import Called, ReasoningPiece, TextPiece, shifted


class Made:
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


class Ledger:
    """What all messages of a run share: the events that they said, the names that are taken, the calls."""

    def __init__(self) -> None:
        self.made: list[Made] = []
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
        name = _free(wanted, self._names)
        self._names.add(name)
        return name

    def new_call(self) -> Made:
        """A call, of which nothing is known yet."""
        made = Made(f"lc-{len(self.made)}")
        self.made.append(made)
        return made

    def start_call(self, made: Made, message: str) -> None:
        """Say that it is made. A call id that was used before in this run becomes another."""
        made.started = True
        made.name = made.name or "unknown"
        made.call_id = _free(made.asked, self._call_ids) if made.asked else ""
        self._call_ids.add(made.call_id)
        self.say(ToolStarted(item=made.handle, message=message, call_id=made.call_id, name=made.name))
        if made.arguments:
            self.say(ToolDelta(item=made.handle, delta=made.arguments))

    def unanswered(self, asked: str) -> Made | None:
        """The newest call of that id that has no result yet."""
        return next((made for made in reversed(self.made) if made.asked == asked and not made.answered), None)


class Voice:
    """One message."""

    def __init__(self, own_id: str, branch: str, ledger: Ledger) -> None:
        self.id = own_id
        self.name = ledger.name(own_id) if own_id else ""
        """What the message is called in this run; empty where it has no id, and the grammar names it."""
        self.branch = branch
        self.streamed = False
        self.is_whole = False
        """Did it come whole after its chunks?"""
        self.said: list[str] = []
        """All of its text."""
        self.calls: dict[object, Made] = {}
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
        self._call: Made | None = None

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
        self._notes += [shifted(note, self._base) for note in piece.notes]
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

    def call(self, call: Called) -> None:
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

    def is_making(self, made: Made) -> bool:
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

    def _new_call(self, key: object) -> Made:
        self.close()
        self._call = made = self._ledger.new_call()
        if key in self.calls:  # From now on it stands for the newest.
            self.calls[object()] = self.calls.pop(key)
        self.calls[key] = made
        return made

    def _add(self, part: Refusal | File | Data) -> None:
        self.kinds.add(type(part))
        self._ledger.say(PartAdded(message=self.name, part=part))


def _free(wanted: str, taken: set[str]) -> str:
    number, name = 1, wanted
    while name in taken:
        number += 1
        name = f"{wanted}.{number}"
    return name
