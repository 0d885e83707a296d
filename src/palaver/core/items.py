"""Items between their start and their end: what opens, grows and closes in a stream. The rules are grammar.py's."""

from typing import ClassVar, assert_never

from palaver.core.events import (
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
from palaver.core.parts import Annotation


class _Item:
    """What all kinds share."""

    def __init__(self, item: str, message: str) -> None:
        self.id = item
        self.message = message
        self.pieces: list[str] = []
        self.started = False
        """Its start is held back until its first piece: an item that says nothing never was."""


class TextItem(_Item):
    """Words meant for the reader."""

    word: ClassVar = "text"
    prefix: ClassVar = "msg"
    delta: ClassVar = TextDelta
    annotations: tuple[Annotation, ...] = ()


class ReasoningItem(_Item):
    """A model's thinking."""

    word: ClassVar = "reasoning"
    prefix: ClassVar = "rs"
    delta: ClassVar = ReasoningDelta
    encrypted: str | None = None


class ToolItem(_Item):
    """A tool call; its pieces are those of its arguments."""

    word: ClassVar = "tool"
    prefix: ClassVar = "fc"
    delta: ClassVar = ToolDelta
    call_id: str = ""
    name: str = ""


Item = TextItem | ReasoningItem | ToolItem


def started(item: Item, seq: int) -> TextStarted | ReasoningStarted | ToolStarted:
    """The event that opens an item."""
    match item:
        case TextItem():
            return TextStarted(seq, item.id, item.message)
        case ReasoningItem():
            return ReasoningStarted(seq, item.id, item.message)
        case ToolItem():
            return ToolStarted(seq, item.id, item.message, item.call_id, item.name)
        case _:
            assert_never(item)


def ended(item: Item, whole: str, seq: int) -> TextEnded | ReasoningEnded | ToolEnded:
    """The event that closes an item, with all that it said."""
    match item:
        case TextItem():
            return TextEnded(seq, item.id, whole, item.annotations)
        case ReasoningItem():
            return ReasoningEnded(seq, item.id, whole, item.encrypted)
        case ToolItem():
            return ToolEnded(seq, item.id, whole)
        case _:
            assert_never(item)


def is_sound(given: TextDelta | ReasoningDelta | ToolDelta) -> bool:
    """Is there nothing in a delta to mend or to refuse? Its text is mended when it is added."""
    return type(given.delta) is str and type(given.item) is str and given.item.isascii()
