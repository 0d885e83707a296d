"""Cut texts, JSON values and messages to an excerpt that fits a table cell."""

import re
import unicodedata
from collections.abc import Iterator
from typing import Any, NamedTuple, assert_never, cast

import msgspec

from palaver.core import json
from palaver.core.json import replace_surrogates
from palaver.core.messages import Data, File, Message, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

_LEVELS, _VALUES, _CHARACTERS = 256, 100_000, 1024 * 1024
"""What a value of moderate size may hold."""
_PIECES = 5_000
"""Values of any other one that are looked at."""
_MAX_JSON_TEXT = 4096
"""Characters of one text in it that are written; the rest is counted."""
_SCALARS = frozenset((int, float, bool, type(None)))


class Written(NamedTuple):
    """How a value's JSON begins."""

    text: str
    """As many characters as were asked for, or more; all of it where that is less."""
    length: int
    """Of the whole, in characters. Of a value that is not of moderate size: characters far into a long text count as
    one each, escaped or not, and what stands behind its first thousands of values is not counted."""


def written(value: object, characters: int) -> Written:
    """At least the first `characters` of the value's compact JSON, if it has so many."""
    if _is_moderate(value):
        try:
            text = json.encode(value).decode()
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
            pass  # Too deep, half a character, a number of thousands of digits.
        else:
            return Written(text, len(text))
    pieces: list[str] = []
    length, shown = 0, 0
    for piece, more in _pieces(value, max(_MAX_JSON_TEXT, characters)):
        if shown < characters:
            pieces.append(piece)
            shown += len(piece)
        length += len(piece) + more
    return Written("".join(pieces), length)


def _is_moderate(value: object) -> bool:
    """Is it plain, and small enough to be encoded whole? Cheaper than doing so."""
    level: list[Any] = [value]
    values, characters = _VALUES, _CHARACTERS
    for _ in range(_LEVELS):
        values -= len(level)
        if not level or values < 0 or characters < 0:
            break
        below: list[Any] = []
        for item in level:
            if type(item) is str:
                characters -= len(item)
            elif type(item) is list:
                below += cast("list[Any]", item)
            elif type(item) is dict:
                known = cast("dict[Any, Any]", item)
                for key in known:
                    if type(key) is not str:
                        return False
                    characters -= len(key)
                below += known.values()
            elif item is not None and not isinstance(item, int | float):
                return False
        level = below
    return not level and characters >= 0


def _pieces(value: Any, reach: int) -> Iterator[tuple[str, int]]:
    """The JSON in order, each piece with how many characters of it were left unwritten."""
    opened: list[tuple[Iterator[Any], str]] = []  # What each open list or object still holds, and how it closes.
    before = ""
    for _ in range(_PIECES):
        inside = _inside(value)
        if inside is None:
            piece, more = _leaf(value, reach)
            yield before + piece, more
        else:
            opened.append(inside)
            yield before + ("{" if inside[1] == "}" else "["), 0
        before = "," if inside is None else ""
        while opened:
            held, close = opened[-1]
            try:
                value = next(held)
                break
            except StopIteration:
                opened.pop()
                yield close, 0
                before = ","
        else:
            return
        if close == "}":
            key, value = value
            piece, more = _leaf(key if isinstance(key, str) else _json(key).strip('"'), reach)
            yield f"{before}{piece}:", more
            before = ""


def _inside(value: Any) -> tuple[Iterator[Any], str] | None:
    # Not by the value's own methods: it may be anybody's subclass.
    if isinstance(value, dict):
        return iter(dict[Any, Any].items(cast("dict[Any, Any]", value))), "}"
    if isinstance(value, list):
        return list[Any].__iter__(cast("list[Any]", value)), "]"
    if isinstance(value, tuple):
        return tuple[Any, ...].__iter__(cast("tuple[Any, ...]", value)), "]"
    return None


def _leaf(value: object, reach: int) -> tuple[str, int]:
    if not isinstance(value, str):
        return _json(value), 0
    text = str.__str__(value)
    if len(text) > reach:
        return _json(json.replace_surrogates(text[:reach]))[:-1], len(text) - reach + 1
    return _json(json.replace_surrogates(text)), 0


def _json(value: object) -> str:
    try:
        return json.encode(value if type(value) in _SCALARS or type(value) is str else json.to_builtins(value)).decode()
    except Exception:  # Somebody's object may raise anything.
        return json.encode(f"<{json.replace_surrogates(type(value).__name__[:80])}>").decode()


_LOOKAHEAD = 4096
"""Characters in which the beginning of a text is looked for."""
_BLANK_REACH = 65_536
"""The same, for the first word of a text that begins with nothing but space."""

_WORD = re.compile(r"\S")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")  # All but those that are white space.
_JOINER, _NON_JOINER = "\u200d", "\u200c"


class Cut(NamedTuple):
    """What is shown of a text."""

    text: str
    left_out: int
    """How much shorter it is than the whole, space that was taken off its end included; 0 where nothing was cut."""

    @property
    def lines(self) -> int:
        """How many lines are shown."""
        return self.text.count("\n") + (self.text[-1:] not in ("", "\n"))


def cut(text: str, *, characters: int, lines: int, length: int | None = None) -> Cut:
    """The beginning of a text. One that fits stays as it is; of one that is cut, the space before the cut goes too.

    `length` says how long the whole is, where `text` is only its beginning. A cut that would leave nothing but space
    begins at the first word instead.
    """
    if _is_short(text, characters) and length in (None, len(text)) and text.count("\n") < lines:
        return Cut(text, 0)  # As below, for what most texts are.
    reach = max(_LOOKAHEAD, 2 * characters)
    raw = text[: before(text, reach)]
    head = replace_surrogates(raw)
    whole = (len(text) if length is None else length) - (len(raw) - len(head))
    end = _end(head, characters, lines)
    if end == whole:
        return Cut(head, 0)
    shown = head[:end].rstrip()
    if not shown and (word := _WORD.search(text, 0, _BLANK_REACH)) and word.start():
        head = replace_surrogates(text[word.start() : before(text, word.start() + reach)])
        shown = head[: _end(head, characters, lines)].rstrip()
    return Cut(shown, whole - len(shown))


def one_line(text: str, characters: int) -> str:
    """The beginning of a text as one line: white space collapsed, control characters removed."""
    if _is_short(text, characters):
        return " ".join((text if text.isprintable() else _CONTROL.sub("", text)).split())
    word = _WORD.search(text, 0, _BLANK_REACH)
    start = word.start() if word else 0
    line = ""
    for reach in (2 * characters, max(_LOOKAHEAD, 2 * characters)):  # Mostly the first is enough.
        head = replace_surrogates(text[start : before(text, start + reach)])
        line = " ".join(_CONTROL.sub("", head).split())
        if len(line) > characters:
            return line[: before(line, characters)].rstrip()
        if len(text) - start <= reach:
            break
    return line


def _is_short(text: str, characters: int) -> bool:
    """Does it fit, and is each of its characters one to a reader?"""
    return len(text) <= characters and text.isascii()


def before(text: str, at: int) -> int:
    """The last place in a text, not after `at`, that is not inside of what a reader sees as one character."""
    if at >= len(text):
        return len(text)
    while at > 0 and _belong_together(text, at):
        at -= 1
    return at


def _end(text: str, characters: int, lines: int) -> int:
    """Where so many characters and lines end. A line's end that ends the text opens no further line."""
    end = -1
    for _ in range(lines):
        end = text.find("\n", end + 1, characters)
        if end < 0 or end + 1 == len(text):
            return before(text, characters)
    return max(end, 0)


def _belong_together(text: str, at: int) -> bool:
    """Do the characters before and after this place look like one? As Unicode's Annex 29 has it, in short."""
    left, right = text[at - 1], text[at]
    if left == _JOINER and (right >= "\u203c" or right in "©®"):
        return True  # A family, a profession, a flag of more than two.
    if right < "\u0300":
        return left == "\r" and right == "\n"
    if _is_regional(right) and _is_regional(left):
        start = at
        while start > 0 and _is_regional(text[start - 1]):
            start -= 1
        return (at - start) % 2 == 1  # Flags are pairs, counted from the first.
    return _continues(right) or ("\ud800" <= left <= "\udbff" and "\udc00" <= right <= "\udfff")


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _continues(character: str) -> bool:
    """Is it a mark on what stands before it: an accent, a variation, a skin tone, a tag, a vowel?"""
    return (
        character in (_JOINER, _NON_JOINER)
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or "\U000e0020" <= character <= "\U000e007f"
        or "\u1160" <= character <= "\u11ff"
        or character in "\u0e33\u0eb3\uff9e\uff9f"
        or unicodedata.category(character)[0] == "M"
    )


_MAX_MESSAGE_TEXT = 65_536
"""Characters of a message that are gathered; the rest is counted."""
_SHORT = 4096
"""Characters of a name, or of arguments, in which a line is looked for."""
_LABEL = 80
_ATTACHED = (File, Data)


def line(message: Message, characters: int) -> str:
    """Its words, with `[image]`, `[file name]` and `[data name]` in their places; without any, its calls."""
    said = one_line(_said(message, " ", characters, labels=True).text, characters)
    return said or one_line(", ".join(calls(message, most=characters, characters=characters)), characters)


def block(message: Message, characters: int) -> Written:
    """The beginning of its words as they stand: of a tool's message what the tool answered."""
    return _said(message, "\n", characters, labels=False)


def calls(message: Message, *, most: int, characters: int) -> tuple[str, ...]:
    """Its first calls, each like `weather({"city":"Oslo"})`."""
    made = message.tool_calls
    return tuple([one_line(_call(call), characters) for call in made[:most]]) if made else ()


def attachments(message: Message) -> int:
    """How many files and data it brings, which are no words."""
    return len([part for part in message.parts if isinstance(part, _ATTACHED)])


def _said(message: Message, gap: str, characters: int, *, labels: bool) -> Written:
    """The words of all parts. Texts that follow each other are one; what is not text stands apart."""
    reach = max(_MAX_MESSAGE_TEXT, 2 * characters)
    if len(message.parts) == 1 and type(only := message.parts[0]) is Text:  # As most are.
        return Written(only.text[:reach], len(only.text))
    pieces: list[str] = []
    length, gathered, after_text = 0, 0, False
    for part in message.parts:
        said = _words(part, reach, labels=labels)
        if not said.length:
            continue
        is_text = type(part) is Text
        apart = gap if length and not (is_text and after_text) else ""
        after_text = is_text
        length += len(apart) + said.length
        if gathered < reach:
            pieces += (apart, said.text[:reach])
            gathered += len(apart) + len(said.text)
    return Written("".join(pieces), length)


def _words(part: Part, reach: int, *, labels: bool) -> Written:
    match part:
        case Text(text=text) | Refusal(text=text):
            pass
        case ToolResult(output=output):
            if not isinstance(output, str):
                return written(output, reach)
            text = output
        case File() | Data():
            text = _label(part) if labels else ""
        case Reasoning() | ToolCall():
            text = ""
        case _:
            assert_never(part)
    return Written(text, len(text))


def _label(part: File | Data) -> str:
    if isinstance(part, Data):
        return f"[data {one_line(part.name, _LABEL)}]"
    if part.media_type.startswith("image/"):
        return "[image]"
    return f"[file {one_line(part.filename, _LABEL)}]" if part.filename else "[file]"


def _call(call: ToolCall) -> str:
    return f"{call.name[:_SHORT]}({call.arguments[:_SHORT]})"
