"""Previews of values for table cells, less than 4 KiB each.

    1  a conversation                            chat: one line, and a block of messages for tall rows
    2  a text, or an object with a text key      text: one line, and a block of ten lines
    3  an object with one key                    rule 2 on its value, once
    4  anything else                             JSON: one line, and a block of ten lines

A JSON text counts as its content. Previews are stored with their row, so lists never load payloads; `full` is for a
single opened value. Nothing here raises, and of a long text only the beginning is read.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, assert_never, cast

import msgspec

from palaver.core import json
from palaver.core.dialects.detection import Dialect
from palaver.core.extraction import truncation
from palaver.core.extraction.locations import WIDE, Prefer, search_order
from palaver.core.extraction.search import Conversation, read_conversation
from palaver.core.extraction.truncation import PartialText, cut_text, json_excerpt, one_line
from palaver.core.json import Object, dict_get, plain_copy
from palaver.core.messages import Message, Role


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The space available in a cell."""

    lines: int = 10
    """Lines of the block. A message takes one for its role and at least one for its text."""
    characters: int = 500
    """Characters of a text or JSON in the block."""
    message_lines: int = 4
    message_characters: int = 320
    line_characters: int = 240
    """Characters of the single line."""
    calls: int = 3
    """Tool calls shown per message."""
    call_characters: int = 80


CELL = Budget()


class _PreviewBase(msgspec.Struct, frozen=True, tag_field="renderer"):
    """Base of all previews; the tag is the field `renderer` in JSON."""

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
    """Number of characters left out."""
    calls: tuple[str, ...]
    attachments: int
    """Number of files and data parts."""


class ChatPreview(_PreviewBase, frozen=True, tag="chat"):
    """A conversation."""

    text: str
    """One line: the last message of the preferred side."""
    role: Role | None
    """The role of that message; None in a conversation without messages."""
    count: int
    path: str
    dialect: Dialect
    messages: tuple[MessagePreview, ...]
    more: int
    """Number of messages not shown."""


class TextPreview(_PreviewBase, frozen=True, tag="text"):
    """Plain text."""

    text: str
    """One line."""
    body: str
    cut: int
    """Number of characters left out of `body`."""


class JsonPreview(_PreviewBase, frozen=True, tag="json"):
    """Anything else, as compact JSON."""

    text: str
    body: str
    cut: int
    """Number of characters left out of `body`; for a very large value a lower bound."""


class EmptyPreview(_PreviewBase, frozen=True, tag="empty"):
    """Null or an empty string."""

    text: str = ""


Preview = ChatPreview | TextPreview | JsonPreview | EmptyPreview


class WholeChat(_PreviewBase, frozen=True, tag="chat"):
    """A page of a conversation."""

    messages: tuple[Message, ...]
    count: int
    path: str
    dialect: Dialect
    next: int | None
    """The index of the message that the next page begins with."""


class WholeText(_PreviewBase, frozen=True, tag="text"):
    """All of a text."""

    text: str


class WholeJson(_PreviewBase, frozen=True, tag="json"):
    """All of any other value."""

    value: Any


class WholeEmpty(_PreviewBase, frozen=True, tag="empty"):
    """Nothing."""


Whole = WholeChat | WholeText | WholeJson | WholeEmpty

MAX_PREVIEW_BYTES = 4096
"""Upper bound of a preview's JSON size."""
MESSAGES_PER_PAGE = 200

_SPEAKERS: dict[Prefer | None, Sequence[Role]] = {
    "input": ("user",),
    "output": ("assistant",),
    None: ("user", "assistant"),
}


class _JsonContent(NamedTuple):
    value: Any


_Content = Conversation | str | _JsonContent | None


def preview(value: object, prefer: Prefer | None = None, budget: Budget = CELL) -> Preview:
    """Make the preview of a value; `prefer` is the side of the table column. Never raises."""
    search_order(WIDE, prefer)
    try:
        return _preview_value(value, prefer, budget)
    except Exception:  # Foreign objects may raise anything.
        return _preview_value(plain_copy(value), prefer, budget)


def preview_messages(messages: Sequence[Message], prefer: Prefer | None = None, budget: Budget = CELL) -> Preview:
    """Make the preview of messages, as if found under `messages` in Palaver's dialect."""
    return _shrink_to_fit(Conversation(tuple(messages), "palaver", "/messages"), prefer, budget)


def _preview_value(value: object, prefer: Prefer | None, budget: Budget) -> Preview:
    return _shrink_to_fit(_content_of(value, prefer), prefer, budget)


def _shrink_to_fit(content: _Content, prefer: Prefer | None, budget: Budget) -> Preview:
    preview = _preview_content(content, prefer, budget)
    while len(json.encode(preview)) >= MAX_PREVIEW_BYTES and (smaller := _halve_budget(budget)) != budget:
        budget, preview = smaller, _preview_content(content, prefer, smaller)
    return preview


def full(value: object, prefer: Prefer | None = None, *, first: int = 0) -> Whole:
    """Return the whole value of a cell; of a conversation, the page that starts at message `first`."""
    content = _content_of(value, prefer)
    match content:
        case None:
            return WholeEmpty()
        case str():
            return WholeText(content)
        case _JsonContent(value=other):
            return WholeJson(other)
        case Conversation(messages=messages):
            end = max(first, 0) + MESSAGES_PER_PAGE
            page = messages[end - MESSAGES_PER_PAGE : end]
            return WholeChat(page, len(messages), content.path, content.dialect, end if end < len(messages) else None)
        case _:
            assert_never(content)


# Content


def _content_of(value: object, prefer: Prefer | None) -> _Content:
    conversation = read_conversation(value, prefer)
    if conversation is not None:
        return conversation
    value = _decode(value)
    if value is None:
        return None
    text = _find_text(value, prefer)
    if text is None and isinstance(value, dict) and len(values := dict[str, Any].values(cast("Object", value))) == 1:
        text = _find_text(_decode(next(iter(values))), prefer)
    return _JsonContent(value) if text is None else text or None


def _decode(value: object) -> object:
    """Decode a text that is a JSON object or list; return anything else unchanged."""
    if not isinstance(value, str):
        return value
    text = str.__str__(value)
    inner = text.strip()
    if (inner[:1], inner[-1:]) not in (("{", "}"), ("[", "]")):
        return text
    decoded = json.parse_or_text(inner)
    return text if isinstance(decoded, str) else decoded


def _find_text(value: object, prefer: Prefer | None) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        for candidate in _text_candidates(cast("Object", value), prefer):
            inner = _decode(candidate)
            if isinstance(inner, str):
                return inner
    return None


def _text_candidates(value: Object, prefer: Prefer | None) -> Iterator[object]:
    if prefer != "output":
        yield dict_get(value, "input")
    if prefer != "input":
        yield dict_get(value, "output")
        return_values = dict_get(value, "returnValues")
        if isinstance(return_values, dict):
            yield dict_get(cast("Object", return_values), "output")
        yield _generation_texts(dict_get(value, "generations"))


def _generation_texts(generations: object) -> str | None:
    """Return the texts of LangChain's `generations`, one or several per prompt."""
    texts: list[str] = []
    for batch in cast("list[object]", generations) if isinstance(generations, list) else ():
        for generation in cast("list[object]", batch) if isinstance(batch, list) else (batch,):
            text = dict_get(cast("Object", generation), "text") if isinstance(generation, dict) else None
            if isinstance(text, str):
                texts.append(text)
    return "\n".join(texts) if texts else None


# Rendering


def _preview_content(content: _Content, prefer: Prefer | None, budget: Budget) -> Preview:
    match content:
        case None:
            return EmptyPreview()
        case str():
            return TextPreview(*_line_and_block(PartialText(content, len(content)), budget))
        case _JsonContent(value=other):
            return JsonPreview(*_line_and_block(json_excerpt(other, 2 * budget.characters), budget))
        case Conversation():
            return _preview_chat(content, prefer, budget)
        case _:
            assert_never(content)


def _line_and_block(content: PartialText, budget: Budget) -> tuple[str, str, int]:
    """Return the single line, the block, and the number of characters left out of it."""
    body = cut_text(content.text, characters=budget.characters, lines=budget.lines, length=content.length)
    return one_line(content.text, budget.line_characters), body.text, body.left_out


def _preview_chat(conversation: Conversation, prefer: Prefer | None, budget: Budget) -> ChatPreview:
    messages = conversation.messages
    index = _last_index(messages, _SPEAKERS[prefer])
    previews = _last_user_message(messages, budget) if prefer == "input" else _first_messages(messages, budget)
    return ChatPreview(
        text=truncation.message_line(messages[index], budget.line_characters) if messages else "",
        role=messages[index].role if messages else None,
        count=len(messages),
        path=conversation.path,
        dialect=conversation.dialect,
        messages=previews,
        more=len(messages) - len(previews),
    )


def _last_index(messages: Sequence[Message], roles: Sequence[Role]) -> int:
    """Return the index of the last message with one of the roles, else of the last one."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role in roles:
            return index
    return len(messages) - 1


def _last_user_message(messages: Sequence[Message], budget: Budget) -> tuple[MessagePreview, ...]:
    index = _last_index(messages, ("user",))
    return (_preview_message(index, messages[index], budget)[0],) if messages else ()


def _first_messages(messages: Sequence[Message], budget: Budget) -> tuple[MessagePreview, ...]:
    """Return the first messages that fit the budget, at least one."""
    previews: list[MessagePreview] = []
    lines_left = budget.lines
    for index, message in enumerate(messages):
        preview, lines = _preview_message(index, message, budget)
        lines_left -= lines
        if previews and lines_left < 0:
            break
        previews.append(preview)
    return tuple(previews)


def _preview_message(index: int, message: Message, budget: Budget) -> tuple[MessagePreview, int]:
    excerpt = truncation.message_block(message, budget.message_characters)
    body = cut_text(
        excerpt.text, characters=budget.message_characters, lines=budget.message_lines, length=excerpt.length
    )
    calls = truncation.call_lines(message, max_calls=budget.calls, characters=budget.call_characters)
    preview = MessagePreview(
        index, message.role, body.text, body.left_out, calls, truncation.count_attachments(message)
    )
    return preview, 1 + max(1, body.lines)


def _halve_budget(budget: Budget) -> Budget:
    return Budget(
        lines=min(budget.lines, CELL.lines),
        characters=budget.characters // 2,
        message_lines=budget.message_lines,
        message_characters=budget.message_characters // 2,
        line_characters=min(budget.line_characters, CELL.line_characters),
        calls=min(budget.calls, CELL.calls),
        call_characters=budget.call_characters // 2,
    )
