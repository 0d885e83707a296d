"""Texts of strangers, fit to be shown."""

import re

# C0, DEL and C1 steer terminals; bidi marks reorder what is read; line separators and lone surrogates break logs.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str, most: int = 200) -> str:
    """A stranger's text, fit to be shown: one line, at most so many of its characters, and nothing that steers."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), cut)
