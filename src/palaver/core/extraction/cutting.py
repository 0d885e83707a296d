"""Cutting a text for a narrow place: at most so many lines and characters, and always between two characters.

What a reader sees as one character may be many: a flag is two letters, a family is people and joiners, an accent may
stand apart. A cut falls before all of it or after. Only the beginning of a text is looked at, however long it is.
"""

import re
import unicodedata
from typing import NamedTuple

from palaver.core.jsons import whole_text

_REACH = 4096
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
    reach = max(_REACH, 2 * characters)
    raw = text[: before(text, reach)]
    head = whole_text(raw)
    whole = (len(text) if length is None else length) - (len(raw) - len(head))
    end = _end(head, characters, lines)
    if end == whole:
        return Cut(head, 0)
    shown = head[:end].rstrip()
    if not shown and (word := _WORD.search(text, 0, _BLANK_REACH)) and word.start():
        head = whole_text(text[word.start() : before(text, word.start() + reach)])
        shown = head[: _end(head, characters, lines)].rstrip()
    return Cut(shown, whole - len(shown))


def one_line(text: str, characters: int) -> str:
    """The beginning of a text as one line: white space collapsed, control characters removed."""
    if _is_short(text, characters):
        return " ".join((text if text.isprintable() else _CONTROL.sub("", text)).split())
    word = _WORD.search(text, 0, _BLANK_REACH)
    start = word.start() if word else 0
    line = ""
    for reach in (2 * characters, max(_REACH, 2 * characters)):  # Mostly the first is enough.
        head = whole_text(text[start : before(text, start + reach)])
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
