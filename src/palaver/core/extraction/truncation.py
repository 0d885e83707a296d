"""Cut texts, JSON values and messages to an excerpt that fits a table cell.

A cut never splits a grapheme cluster, such as a flag or a combining accent. Only the beginning of a text is inspected.
A JSON value of moderate size is encoded completely; of any other, which may be huge, deep, cyclic or not JSON, only the
beginning is written, without recursion.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Any, NamedTuple, assert_never, cast

import msgspec

from palaver.core import json
from palaver.core.json import replace_surrogates
from palaver.core.messages import Data, File, Message, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

_MAX_LEVELS, _MAX_VALUES, _MAX_CHARACTERS = 256, 100_000, 1024 * 1024
"""Limits of a value of moderate size."""
_MAX_PIECES = 5_000
"""Maximum number of values written of any other value."""
_MAX_JSON_TEXT_LENGTH = 4096
"""Maximum number of characters written of one text; the rest is counted."""
_SCALARS = frozenset((int, float, bool, type(None)))


class PartialText(NamedTuple):
    """The beginning of a value's JSON, or of a message's text."""

    text: str
    length: int
    """Length of the complete text in characters; for a large value a lower bound."""


def json_excerpt(value: object, characters: int) -> PartialText:
    """Return at least the first `characters` of the value's compact JSON."""
    if _is_moderate(value):
        try:
            text = json.encode(value).decode()
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
            pass  # Too deep, a lone surrogate, or a number with thousands of digits.
        else:
            return PartialText(text, len(text))
    pieces: list[str] = []
    length, collected = 0, 0
    for piece, omitted in _json_pieces(value, max(_MAX_JSON_TEXT_LENGTH, characters)):
        if collected < characters:
            pieces.append(piece)
            collected += len(piece)
        length += len(piece) + omitted
    return PartialText("".join(pieces), length)


def _is_moderate(value: object) -> bool:
    """Whether the value is plain JSON and small enough to be encoded completely; cheaper than trying."""
    level: list[Any] = [value]
    values, characters = _MAX_VALUES, _MAX_CHARACTERS
    for _ in range(_MAX_LEVELS):
        values -= len(level)
        if not level or values < 0 or characters < 0:
            break
        children: list[Any] = []
        for item in level:
            if type(item) is str:
                characters -= len(item)
            elif type(item) is list:
                children += cast("list[Any]", item)
            elif type(item) is dict:
                fields = cast("dict[Any, Any]", item)
                for key in fields:
                    if type(key) is not str:
                        return False
                    characters -= len(key)
                children += fields.values()
            elif item is not None and not isinstance(item, int | float):
                return False
        level = children
    return not level and characters >= 0


def _json_pieces(value: Any, max_chars: int) -> Iterator[tuple[str, int]]:
    """Yield the JSON in pieces, each with the number of characters that were left out."""
    stack: list[tuple[Iterator[Any], str]] = []  # The remaining items of each open container, and its closing bracket.
    separator = ""
    for _ in range(_MAX_PIECES):
        contents = _open_container(value)
        if contents is None:
            piece, omitted = _encode_leaf(value, max_chars)
            yield separator + piece, omitted
        else:
            stack.append(contents)
            yield separator + ("{" if contents[1] == "}" else "["), 0
        separator = "," if contents is None else ""
        while stack:
            items, close = stack[-1]
            try:
                value = next(items)
                break
            except StopIteration:
                stack.pop()
                yield close, 0
                separator = ","
        else:
            return
        if close == "}":
            key, value = value
            piece, omitted = _encode_leaf(key if isinstance(key, str) else _json_scalar(key).strip('"'), max_chars)
            yield f"{separator}{piece}:", omitted
            separator = ""


def _open_container(value: Any) -> tuple[Iterator[Any], str] | None:
    # Bypasses the methods of subclasses.
    if isinstance(value, dict):
        return iter(dict[Any, Any].items(cast("dict[Any, Any]", value))), "}"
    if isinstance(value, list):
        return list[Any].__iter__(cast("list[Any]", value)), "]"
    if isinstance(value, tuple):
        return tuple[Any, ...].__iter__(cast("tuple[Any, ...]", value)), "]"
    return None


def _encode_leaf(value: object, max_chars: int) -> tuple[str, int]:
    if not isinstance(value, str):
        return _json_scalar(value), 0
    text = str.__str__(value)
    if len(text) > max_chars:
        return _json_scalar(json.replace_surrogates(text[:max_chars]))[:-1], len(text) - max_chars + 1
    return _json_scalar(json.replace_surrogates(text)), 0


def _json_scalar(value: object) -> str:
    try:
        return json.encode(value if type(value) in _SCALARS or type(value) is str else json.to_builtins(value)).decode()
    except Exception:  # Foreign objects may raise anything.
        return json.encode(f"<{json.replace_surrogates(type(value).__name__[:80])}>").decode()


_LOOKAHEAD = 4096
"""Characters inspected at the beginning of a text."""
_BLANK_REACH = 65_536
"""Characters inspected to find the first word of a text that starts with white space."""

_NON_SPACE = re.compile(r"\S")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")  # All except white space.
_JOINER, _NON_JOINER = "\u200d", "\u200c"


class Excerpt(NamedTuple):
    text: str
    left_out: int
    """Number of characters cut, stripped white space included."""

    @property
    def lines(self) -> int:
        return self.text.count("\n") + (self.text[-1:] not in ("", "\n"))


def cut_text(text: str, *, characters: int, lines: int, length: int | None = None) -> Excerpt:
    """Return the beginning of a text; white space before the cut is stripped.

    `length` is the complete length if `text` is only the beginning. An excerpt of only white space starts at the first
    word instead.
    """
    if _is_short(text, characters) and length in (None, len(text)) and text.count("\n") < lines:
        return Excerpt(text, 0)  # A shortcut for most texts.
    reach = max(_LOOKAHEAD, 2 * characters)
    raw = text[: grapheme_boundary(text, reach)]
    head = replace_surrogates(raw)
    total = (len(text) if length is None else length) - (len(raw) - len(head))
    end = _cut_index(head, characters, lines)
    if end == total:
        return Excerpt(head, 0)
    excerpt = head[:end].rstrip()
    if not excerpt and (match := _NON_SPACE.search(text, 0, _BLANK_REACH)) and match.start():
        head = replace_surrogates(text[match.start() : grapheme_boundary(text, match.start() + reach)])
        excerpt = head[: _cut_index(head, characters, lines)].rstrip()
    return Excerpt(excerpt, total - len(excerpt))


def one_line(text: str, characters: int) -> str:
    """Return the beginning of a text as one line: white space collapsed, control characters removed."""
    if _is_short(text, characters):
        return " ".join((text if text.isprintable() else _CONTROL.sub("", text)).split())
    match = _NON_SPACE.search(text, 0, _BLANK_REACH)
    start = match.start() if match else 0
    line = ""
    for reach in (2 * characters, max(_LOOKAHEAD, 2 * characters)):  # The first is usually enough.
        head = replace_surrogates(text[start : grapheme_boundary(text, start + reach)])
        line = " ".join(_CONTROL.sub("", head).split())
        if len(line) > characters:
            return line[: grapheme_boundary(line, characters)].rstrip()
        if len(text) - start <= reach:
            break
    return line


def _is_short(text: str, characters: int) -> bool:
    """Whether the text fits and is ASCII, so that any cut is valid."""
    return len(text) <= characters and text.isascii()


def grapheme_boundary(text: str, index: int) -> int:
    """Return the last index up to `index` that is not inside a grapheme cluster."""
    if index >= len(text):
        return len(text)
    while index > 0 and _is_inside_grapheme(text, index):
        index -= 1
    return index


def _cut_index(text: str, characters: int, lines: int) -> int:
    end = -1
    for _ in range(lines):
        end = text.find("\n", end + 1, characters)
        if end < 0 or end + 1 == len(text):
            return grapheme_boundary(text, characters)
    return max(end, 0)


def _is_inside_grapheme(text: str, index: int) -> bool:
    """Whether the characters around the index form one grapheme cluster (a short form of Unicode Annex 29)."""
    left, right = text[index - 1], text[index]
    if left == _JOINER and (right >= "\u203c" or right in "©®"):
        return True  # An emoji joined with ZWJ.
    if right < "\u0300":
        return left == "\r" and right == "\n"
    if _is_regional(right) and _is_regional(left):
        start = index
        while start > 0 and _is_regional(text[start - 1]):
            start -= 1
        return (index - start) % 2 == 1  # Flags are pairs of regional indicators.
    return _is_extension(right) or ("\ud800" <= left <= "\udbff" and "\udc00" <= right <= "\udfff")


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _is_extension(character: str) -> bool:
    """Whether the character modifies the previous one: an accent, variation, skin tone, tag or vowel."""
    return (
        character in (_JOINER, _NON_JOINER)
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or "\U000e0020" <= character <= "\U000e007f"
        or "\u1160" <= character <= "\u11ff"
        or character in "\u0e33\u0eb3\uff9e\uff9f"
        or unicodedata.category(character)[0] == "M"
    )


_MAX_MESSAGE_TEXT = 65_536
"""Characters of a message that are collected; the rest is counted."""
_MAX_CALL_TEXT = 4096
"""Characters of a call's name or arguments that are inspected."""
_MAX_LABEL_LENGTH = 80
_ATTACHMENTS = (File, Data)


def message_line(message: Message, characters: int) -> str:
    """Return the text of a message on one line, with `[image]`, `[file name]` and `[data name]`; else its calls."""
    text = one_line(_message_text(message, " ", characters, labels=True).text, characters)
    return text or one_line(", ".join(call_lines(message, max_calls=characters, characters=characters)), characters)


def message_block(message: Message, characters: int) -> PartialText:
    """Return the beginning of a message's text; of a tool message, the tool's output."""
    return _message_text(message, "\n", characters, labels=False)


def call_lines(message: Message, *, max_calls: int, characters: int) -> tuple[str, ...]:
    """Return the first calls of a message, each like `weather({"city":"Oslo"})`."""
    if not (calls := message.tool_calls):
        return ()
    texts = [f"{call.name[:_MAX_CALL_TEXT]}({call.arguments[:_MAX_CALL_TEXT]})" for call in calls[:max_calls]]
    return tuple([one_line(text, characters) for text in texts])


def count_attachments(message: Message) -> int:
    return len([part for part in message.parts if isinstance(part, _ATTACHMENTS)])


def _message_text(message: Message, separator: str, characters: int, *, labels: bool) -> PartialText:
    """Return the text of all parts. Adjacent texts are joined; other parts are separated by `separator`."""
    reach = max(_MAX_MESSAGE_TEXT, 2 * characters)
    if len(message.parts) == 1 and type(text_part := message.parts[0]) is Text:  # As most are.
        return PartialText(text_part.text[:reach], len(text_part.text))
    pieces: list[str] = []
    length, collected, after_text = 0, 0, False
    for part in message.parts:
        excerpt = _part_text(part, reach, labels=labels)
        if not excerpt.length:
            continue
        is_text = type(part) is Text
        prefix = separator if length and not (is_text and after_text) else ""
        after_text = is_text
        length += len(prefix) + excerpt.length
        if collected < reach:
            pieces += (prefix, excerpt.text[:reach])
            collected += len(prefix) + len(excerpt.text)
    return PartialText("".join(pieces), length)


def _part_text(part: Part, reach: int, *, labels: bool) -> PartialText:
    match part:
        case Text(text=text) | Refusal(text=text):
            pass
        case ToolResult(output=output):
            if not isinstance(output, str):
                return json_excerpt(output, reach)
            text = output
        case File() | Data():
            text = _label(part) if labels else ""
        case Reasoning() | ToolCall():
            text = ""
        case _:
            assert_never(part)
    return PartialText(text, len(text))


def _label(part: File | Data) -> str:
    if isinstance(part, Data):
        return f"[data {one_line(part.name, _MAX_LABEL_LENGTH)}]"
    if part.media_type.startswith("image/"):
        return "[image]"
    return f"[file {one_line(part.filename, _MAX_LABEL_LENGTH)}]" if part.filename else "[file]"
