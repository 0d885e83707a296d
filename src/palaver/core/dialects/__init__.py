"""Message dialects: the shapes in which others write messages, read into ours and written back.

One file each, all of one shape: `shapes(elements) -> list`, `read(elements, start, shapes) -> list[Message]`,
`write(messages) -> list`, and `LOSSES`, what does not survive the way there and back. `start` is the place of the first
element in the whole: what has no id is named by its place. Which dialect a value is in, recognition.py decides. What
several share is in roles and pieces; the content of two large ones has a file of its own.

Nearly all elements have one of a few usual shapes. usual/ knows them: there a whole list is recognised and read in one
go, by a loop that looks only at what such elements have, or by types that msgspec compares in C. Any other element is
judged and read the long way, field by field. Both ways give the same messages: the first is there to be fast.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from palaver.core import jsons
from palaver.core.dialects import anthropic, chat_completions, gemini, gen_ai, langchain, palaver, responses, ui_message
from palaver.core.elements import Dialect
from palaver.core.messages import Message
from palaver.core.recognition import Shapes, Stretch, stretches, why_not
from palaver.errors import InvalidMessages


class _Dialect(Protocol):
    """What a file in this folder offers."""

    LOSSES: Sequence[str]

    def shapes(self, elements: list[Any]) -> list[Any]: ...

    def read(self, elements: Sequence[Any], start: int = 0, shapes: Sequence[Any] = ()) -> list[Message]: ...

    def write(self, messages: Sequence[Message]) -> list[Any]: ...


READABLE: dict[Dialect, _Dialect] = {
    "anthropic": anthropic,
    "chat-completions": chat_completions,
    "gemini": gemini,
    "gen-ai": gen_ai,
    "langchain": langchain,
    "palaver": palaver,
    "responses": responses,
    "ui-message": ui_message,
}

_SHAPES: Shapes = {dialect: module.shapes for dialect, module in READABLE.items()}


def read(value: Any, *, pointer: str = "/messages") -> list[Message]:
    """The messages of a list (or of one message) in any dialect that we read; InvalidMessages says what is not."""
    if value == []:
        return []
    found = recognised(value)
    if found is None:
        index, why = why_not(value)
        where = f"{pointer}/{index}" if index is not None else pointer
        subject = f"Message {index}" if index is not None else "The history"
        raise InvalidMessages(f"{subject} {why}.", pointer=where)
    try:
        return read_stretches(found)
    except jsons.NotJson as error:
        raise InvalidMessages(f"The history holds {error}.", pointer=pointer) from None


def recognised(value: object) -> list[Stretch] | None:
    """A list of messages, or one message, by dialect, with their usual shapes; None where it is no messages."""
    return stretches(value, _SHAPES)


def read_stretches(found: Sequence[Stretch]) -> list[Message]:
    """The messages of what was recognised; NotJson where it holds what is none."""
    if len(found) == 1:
        return READABLE[found[0].dialect].read(found[0].elements, 0, found[0].shapes)
    messages: list[Message] = []
    for stretch in found:
        messages += READABLE[stretch.dialect].read(stretch.elements, stretch.start, stretch.shapes)
    return messages


def write(messages: Sequence[Message], dialect: Dialect) -> list[Any]:
    """The messages in that dialect."""
    return READABLE[dialect].write(messages)
