"""Detectors: what is found in a text by its look. Each costs time in proportion to the text, whatever stands in it.

A detector is given a text and what to put in place of a find; it gives the text without, and how many there were.
"""

import re
from collections.abc import Callable
from ipaddress import IPv6Address
from typing import Literal, TypeAlias

from palaver.core import masking

Name = Literal["secrets", "email", "phone", "card", "iban", "ip"]
Put: TypeAlias = Callable[[str], str]
Detector: TypeAlias = Callable[[str, "Watch"], tuple[str, int]]

_LOCAL = frozenset("!#$%&'*+-/=?^_`{|}~.")
_LONGEST_LOCAL = 64
# Patterns begin with a class of characters, which is found fast, and look back from there.
_HOST = re.compile(r"(?:[^\W_][\w-]{0,62}\.){1,8}[^\W\d_]{2,63}")
_PHONE = re.compile(r"[+(\d](?<![\w.+/:-].)[\d ().\-/]{6,23}(?<=\d)(?!\w)")
_NATIONAL = re.compile(r"\(?0\d|\(\d{2}|\d{3}[ .-]\d{3}[ .-]\d{4}\Z")
_DATE = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}(?!\d)")
_CARD = re.compile(
    r"\d(?<!\d\d)(?:\d{12,18}|\d{3}([ -])\d{4}\1\d{4}\1\d{1,7}|\d{3}([ -])\d{6}\2\d{4,5})(?!\d)",
)
_IBAN = re.compile(
    r"[A-Z](?<![A-Za-z0-9].)[A-Z]\d\d(?:[A-Z0-9]{11,30}|(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,4})?)(?![A-Za-z0-9])"
)
_V4 = re.compile(r"\d(?<![\w.].)\d{0,2}(?:\.\d{1,3}){3}(?!\w|\.\d)")
_V6_INSIDE = re.compile(r":[\dA-Fa-f]{0,4}:")
_V6 = re.compile(r"(?:[\dA-Fa-f:]{1,31}:\d{1,3}(?:\.\d{1,3}){3}|[\dA-Fa-f:]{2,39})(?![\w:])")
_NOT_DIGIT = re.compile(r"\D+")
_HEX = frozenset("0123456789abcdefABCDEF")
_OFTEN = 64


class Slow(Exception):
    """A text on which a detector spends more than it may."""


class Watch:
    """What a detector is given beside the text: what to put for a find, and how long it may take."""

    def __init__(self, put: Put, clock: Callable[[], float], deadline: float) -> None:
        self.put = put
        self._clock = clock
        self._deadline = deadline
        self._ticks = 0

    def tick(self) -> None:
        """Called for every candidate; the clock is looked at now and then."""
        self._ticks += 1
        if self._ticks % _OFTEN == 0:
            self.check()

    def check(self) -> None:
        """Give up if it is late."""
        if self._clock() > self._deadline:
            raise Slow


def secret(text: str, watch: Watch) -> tuple[str, int]:
    """Keys, tokens and passwords, by the shapes that core knows. They are masked, whatever a rule says."""
    watch.tick()
    found = masking.mask_secrets(text)
    return (text, 0) if found == text else (found, max(1, found.count(masking.MASK) - text.count(masking.MASK)))


def email(text: str, watch: Watch) -> tuple[str, int]:
    """Addresses of mail: looked for from their @, to both sides."""
    pieces: list[str] = []
    done = at = 0
    while (at := text.find("@", at)) >= 0:
        watch.tick()
        start = at
        while start > max(done, at - _LONGEST_LOCAL) and (text[start - 1].isalnum() or text[start - 1] in _LOCAL):
            start -= 1
        host = _HOST.match(text, at + 1) if start < at else None
        at += 1
        if host:
            pieces += text[done:start], watch.put(text[start : host.end()])
            done = at = host.end()
    pieces.append(text[done:])
    return "".join(pieces), len(pieces) // 2


def phone(text: str, watch: Watch) -> tuple[str, int]:
    """Telephone numbers: with a country code, with a leading zero, or grouped as in North America."""
    return _replaced(text, _PHONE, _phone, watch)


def card(text: str, watch: Watch) -> tuple[str, int]:
    """Numbers of payment cards whose check digit is right."""
    return _replaced(text, _CARD, lambda found: len(found) if _is_card(found) else 0, watch)


def iban(text: str, watch: Watch) -> tuple[str, int]:
    """Numbers of bank accounts whose check digits are right."""
    return _replaced(text, _IBAN, _iban, watch)


def ip(text: str, watch: Watch) -> tuple[str, int]:
    """Addresses of the Internet Protocol, of both versions."""
    text, sixes = _v6(text, watch)
    text, fours = _replaced(text, _V4, lambda found: len(found) if _is_v4(found) else 0, watch)
    return text, fours + sixes


def _v6(text: str, watch: Watch) -> tuple[str, int]:
    """Looked for from their second colon: in a text that has many, few are so near to each other."""
    pieces: list[str] = []
    done = at = 0
    while inside := _V6_INSIDE.search(text, at):
        watch.tick()
        start = inside.start()
        while start > max(done, inside.start() - 4) and text[start - 1] in _HEX:
            start -= 1
        found = _V6.match(text, start)
        at = inside.start() + 1
        if found and not (start and (text[start - 1].isalnum() or text[start - 1] in "_:")) and _is_v6(found[0]):
            pieces += text[done:start], watch.put(found[0])
            done = at = found.end()
    pieces.append(text[done:])
    return "".join(pieces), len(pieces) // 2


DETECTORS: dict[str, Detector] = {
    "secrets": secret,
    "email": email,
    "phone": phone,
    "card": card,
    "iban": iban,
    "ip": ip,
}


def _replaced(text: str, shape: re.Pattern[str], length: Callable[[str], int], watch: Watch) -> tuple[str, int]:
    """The text without what has this shape, as far as it is real: so many characters of it, or none."""
    pieces: list[str] = []
    done = at = 0
    while found := shape.search(text, at):
        watch.tick()
        size = length(found[0])
        at = found.start() + max(1, size)
        if size:
            pieces += text[done : found.start()], watch.put(text[found.start() : at])
            done = at
    pieces.append(text[done:])
    return "".join(pieces), len(pieces) // 2


def _phone(found: str) -> int:
    """How much of it is one: another number may follow."""
    end = len(found)
    while end > 0:
        digits = len(_NOT_DIGIT.sub("", found[:end]))
        if found.startswith("+"):
            good = 8 <= digits <= 15
        else:
            good = 9 <= digits <= 14 and _NATIONAL.match(found[:end]) and not _DATE.match(found)
        if good:
            return end
        end = found.rfind(" ", 0, end)
    return 0


def _is_card(found: str) -> bool:
    digits = [int(character) for character in found if character.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    if not 13 <= len(digits) <= 19 or not 2 <= digits[0] <= 6:  # Times in milli- and nanoseconds begin with 1.
        return False
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _iban(found: str) -> int:
    """How much of it is one: the words after it may look as if they were of it."""
    end = len(found)
    while end > 0:
        plain = found[:end].replace(" ", "")
        if 15 <= len(plain) <= 34 and int("".join([str(int(one, 36)) for one in plain[4:] + plain[:4]])) % 97 == 1:
            return end
        end = found.rfind(" ", 0, end)
    return 0


def _is_v4(found: str) -> bool:
    return all(int(part) <= 255 for part in found.split("."))


def _is_v6(found: str) -> bool:
    try:
        return int(IPv6Address(found)) != 0  # Two colons alone are more often a name's: std::vector.
    except ValueError:
        return False
