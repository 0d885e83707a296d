"""Message dialects: the shapes in which others write messages, read into ours and written back.

One file each, all of one shape: `read(elements) -> list[Message]`, `write(messages) -> list`, and `LOSSES`, what does
not survive the way there and back. Which dialect a value is in, recognition.py decides. What several share is in roles
and pieces; the content of two large ones has a file of its own.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Protocol, cast

from palaver.core import jsons
from palaver.core.dialects import anthropic, chat_completions, gemini, gen_ai, langchain, palaver, responses, ui_message
from palaver.core.messages import Message
from palaver.core.recognition import Dialect, dialect_of, element_dialect, unwrapped, why_not
from palaver.errors import InvalidMessages


class _Dialect(Protocol):
    """What a file in this folder offers."""

    LOSSES: Sequence[str]

    def read(self, elements: Sequence[Any]) -> list[Message]: ...

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


def read(value: Any, *, pointer: str = "/messages") -> list[Message]:
    """The messages of a list (or of one message) in any dialect that we read; InvalidMessages says what is not."""
    elements = _elements(value)
    if elements and dialect_of(value) is None:
        index, why = why_not(value)
        where = f"{pointer}/{index}" if index is not None else pointer
        subject = f"Message {index}" if index is not None else "The history"
        raise InvalidMessages(f"{subject} {why}.", pointer=where)
    messages: list[Message] = []
    for dialect, group in groupby(map(unwrapped, elements), element_dialect):
        assert dialect is not None  # Every element was judged above.
        try:
            messages += READABLE[dialect].read(list(group))
        except jsons.NotJson as error:
            raise InvalidMessages(f"The history holds {error}.", pointer=pointer) from None
    return messages


def _elements(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def write(messages: Sequence[Message], dialect: Dialect) -> list[Any]:
    """The messages in that dialect."""
    return READABLE[dialect].write(messages)
