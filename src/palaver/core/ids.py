"""Ids: short, ordered by time where they are ours, of bounded length where they are a stranger's."""

import hashlib

LONGEST = 64
"""The most characters that an id may have, ours or anybody's."""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base32, lower case: no i, l, o, u to misread.

_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]  # Ten bits at a time: one is made per request.


def sortable(milliseconds: int, randomness: int) -> str:
    """26 characters that sort by time: 48 bits of milliseconds, then 80 bits of randomness."""
    number = (milliseconds & (1 << 48) - 1) << 80 | randomness & (1 << 80) - 1
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


def moment(text: str) -> int | None:
    """The milliseconds that the 26 characters at its end begin with; None where there are none."""
    total = 0
    for character in text[-26:-16]:
        digit = _ALPHABET.find(character)
        if digit < 0:
            return None
        total = total << 5 | digit
    return total if len(text) >= 26 else None


def bounded(text: str) -> str:
    """The id itself, or 40 characters of it and 12 of its hash: the same one wherever that id occurs."""
    if len(text) <= LONGEST:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:40]}-{digest[:12]}"
