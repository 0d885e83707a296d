"""Texts of strangers, fit to be shown."""

import re

# C0, DEL and C1 steer terminals; bidi marks reorder what is read; line separators and lone surrogates break logs.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_LEFT_BY_JSON = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str, most: int = 200) -> str:
    """A stranger's text, fit to be shown: one line, at most so many of its characters, and nothing that steers."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), cut)


def printable_lines(text: str) -> str:
    """The same for a text of several lines, whole: its line breaks and tabs stay."""
    return "\n".join("\t".join(printable(cell, len(cell)) for cell in line.split("\t")) for line in text.split("\n"))


def printable_json(text: str) -> str:
    """JSON with nothing in it that a terminal would act on; it means the same."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _LEFT_BY_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
