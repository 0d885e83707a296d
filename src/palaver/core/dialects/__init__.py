"""Message dialects: the message formats of other libraries, read into ours and written back.

A module for each, all with the same names: `read(elements, start) -> list[Message]`, `write(messages) -> list`, and
`LOSSES`, what does not survive a round trip. `start` is the index of the first element in the whole list: elements
without an id are named by their index. Which dialect a value is in, recognition.py decides.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from palaver.core import json
from palaver.core.dialects import anthropic, chat_completions, gemini, gen_ai, langchain, palaver, responses, ui_message
from palaver.core.dialects.detection import Dialect, Segment, explain_rejection, split_by_dialect
from palaver.core.messages import Message
from palaver.errors import InvalidMessages


class _Dialect(Protocol):
    """What a file in this folder offers."""

    LOSSES: Sequence[str]

    def read(self, elements: Sequence[Any], start: int = 0) -> list[Message]: ...

    def write(self, messages: Sequence[Message]) -> list[Any]: ...


DIALECT_MODULES: dict[Dialect, _Dialect] = {
    "anthropic": anthropic,
    "chat-completions": chat_completions,
    "gemini": gemini,
    "gen-ai": gen_ai,
    "langchain": langchain,
    "palaver": palaver,
    "responses": responses,
    "ui-message": ui_message,
}


def read(value: Any, *, pointer: str = "/messages") -> list[Message]:
    """The messages of a list (or of one message) in any dialect that we read; InvalidMessages says what is not."""
    if value == []:
        return []
    found = detect(value)
    if found is None:
        index, why = explain_rejection(value)
        where = f"{pointer}/{index}" if index is not None else pointer
        subject = f"Message {index}" if index is not None else "The history"
        raise InvalidMessages(f"{subject} {why}.", pointer=where)
    try:
        return read_segments(found)
    except json.NotJson as error:
        raise InvalidMessages(f"The history holds {error}.", pointer=pointer) from None


def detect(value: object) -> list[Segment] | None:
    """A list of messages, or one message, by dialect; None where it is no messages."""
    return split_by_dialect(value)


def read_segments(found: Sequence[Segment]) -> list[Message]:
    """The messages of what was recognised; NotJson where it holds what is none."""
    if len(found) == 1:
        return DIALECT_MODULES[found[0].dialect].read(found[0].elements)
    messages: list[Message] = []
    for stretch in found:
        messages += DIALECT_MODULES[stretch.dialect].read(stretch.elements, stretch.start)
    return messages


def write(messages: Sequence[Message], dialect: Dialect) -> list[Any]:
    """The messages in that dialect."""
    return DIALECT_MODULES[dialect].write(messages)
