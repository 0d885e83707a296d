"""What a cell shows, as values: a preview of a value, and the whole of it."""

from typing import Any, cast

import msgspec

from palaver.core.elements import Dialect
from palaver.core.messages import Message, Role


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """How much a cell has room for."""

    lines: int = 10
    """Of the block. A message takes one for its role, and those of its text, at least one."""
    characters: int = 500
    """Of a text or JSON in the block."""
    message_lines: int = 4
    message_characters: int = 320
    line_characters: int = 240
    """Of the one line."""
    calls: int = 3
    """Of one message."""
    call_characters: int = 80


CELL = Budget()


class _Shown(msgspec.Struct, frozen=True, tag_field="renderer"):
    """What all previews share: how they are drawn is the field `renderer` on the wire."""

    @property
    def renderer(self) -> str:
        """`chat`, `text`, `json` or `empty`."""
        return cast("str", self.__struct_config__.tag)


class MessagePreview(msgspec.Struct, frozen=True):
    """The beginning of one message."""

    index: int
    role: Role
    text: str
    cut: int
    """How many characters its text is shorter than what was said."""
    calls: tuple[str, ...]
    attachments: int
    """Files and data."""


class ChatPreview(_Shown, frozen=True, tag="chat"):
    """A conversation."""

    text: str
    """One line: what was said last, by the side that is asked for."""
    role: Role | None
    """Who said that; None in a conversation without messages."""
    count: int
    path: str
    dialect: Dialect
    messages: tuple[MessagePreview, ...]
    more: int
    """Messages that are not shown."""


class TextPreview(_Shown, frozen=True, tag="text"):
    """A text."""

    text: str
    """One line."""
    body: str
    cut: int
    """How many characters `body` is shorter than the text."""


class JsonPreview(_Shown, frozen=True, tag="json"):
    """Anything else, as compact JSON."""

    text: str
    body: str
    cut: int
    """How many characters `body` is shorter than the JSON; of a very large value, at least so many."""


class EmptyPreview(_Shown, frozen=True, tag="empty"):
    """Nothing: null, or a text without characters."""

    text: str = ""


Preview = ChatPreview | TextPreview | JsonPreview | EmptyPreview


class WholeChat(_Shown, frozen=True, tag="chat"):
    """A page of a conversation."""

    messages: tuple[Message, ...]
    count: int
    path: str
    dialect: Dialect
    next: int | None
    """The index of the message that the next page begins with."""


class WholeText(_Shown, frozen=True, tag="text"):
    """All of a text."""

    text: str


class WholeJson(_Shown, frozen=True, tag="json"):
    """All of any other value."""

    value: Any


class WholeEmpty(_Shown, frozen=True, tag="empty"):
    """Nothing."""


Whole = WholeChat | WholeText | WholeJson | WholeEmpty
