"""Detectors of secrets and personal data in texts, and the redactor that applies them within a time limit."""

import hashlib
import re
import time
from collections.abc import Callable, Sequence
from ipaddress import IPv6Address
from math import inf
from typing import Any, TypeAlias

import msgspec

from palaver.core import masking
from palaver.traces.redaction.rules import Action, Rule

Replace: TypeAlias = Callable[[str], str]
Detector: TypeAlias = Callable[[str, "DetectorContext"], tuple[str, int]]

_EMAIL_LOCAL_CHARS = frozenset("!#$%&'*+-/=?^_`{|}~.")
_MAX_EMAIL_LOCAL_CHARS = 64
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
_TICKS_PER_CHECK = 64


class DetectorTimeout(Exception):
    """A text on which a detector spends more than it may."""


class DetectorContext:
    """What a detector is given beside the text: what to put for a find, and how long it may take."""

    def __init__(self, put: Replace, clock: Callable[[], float], deadline: float) -> None:
        self.put = put
        self._clock = clock
        self._deadline = deadline
        self._ticks = 0

    def tick(self) -> None:
        """Called for every candidate; the clock is looked at now and then."""
        self._ticks += 1
        if self._ticks % _TICKS_PER_CHECK == 0:
            self.check()

    def check(self) -> None:
        """Give up if it is late."""
        if self._clock() > self._deadline:
            raise DetectorTimeout


def replace_secrets(text: str, watch: DetectorContext) -> tuple[str, int]:
    """Keys, tokens and passwords, by the shapes that core knows. They are masked, whatever a rule says."""
    watch.tick()
    found = masking.mask_secrets(text)
    return (text, 0) if found == text else (found, max(1, found.count(masking.MASK) - text.count(masking.MASK)))


def replace_emails(text: str, watch: DetectorContext) -> tuple[str, int]:
    """Addresses of mail: looked for from their @, to both sides."""
    pieces: list[str] = []
    done = at = 0
    while (at := text.find("@", at)) >= 0:
        watch.tick()
        start = at
        while start > max(done, at - _MAX_EMAIL_LOCAL_CHARS) and (
            text[start - 1].isalnum() or text[start - 1] in _EMAIL_LOCAL_CHARS
        ):
            start -= 1
        host = _HOST.match(text, at + 1) if start < at else None
        at += 1
        if host:
            pieces += text[done:start], watch.put(text[start : host.end()])
            done = at = host.end()
    pieces.append(text[done:])
    return "".join(pieces), len(pieces) // 2


def replace_phone_numbers(text: str, watch: DetectorContext) -> tuple[str, int]:
    """Telephone numbers: with a country code, with a leading zero, or grouped as in North America."""
    return _replace_matches(text, _PHONE, _phone_length, watch)


def replace_card_numbers(text: str, watch: DetectorContext) -> tuple[str, int]:
    """Numbers of payment cards whose check digit is right."""
    return _replace_matches(text, _CARD, lambda found: len(found) if _is_card(found) else 0, watch)


def replace_ibans(text: str, watch: DetectorContext) -> tuple[str, int]:
    """Numbers of bank accounts whose check digits are right."""
    return _replace_matches(text, _IBAN, _iban_length, watch)


def replace_ip_addresses(text: str, watch: DetectorContext) -> tuple[str, int]:
    """Addresses of the Internet Protocol, of both versions."""
    text, sixes = _replace_ipv6(text, watch)
    text, fours = _replace_matches(text, _V4, lambda found: len(found) if _is_v4(found) else 0, watch)
    return text, fours + sixes


def _replace_ipv6(text: str, watch: DetectorContext) -> tuple[str, int]:
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
    "secrets": replace_secrets,
    "email": replace_emails,
    "phone": replace_phone_numbers,
    "card": replace_card_numbers,
    "iban": replace_ibans,
    "ip": replace_ip_addresses,
}


def _replace_matches(
    text: str, shape: re.Pattern[str], length: Callable[[str], int], watch: DetectorContext
) -> tuple[str, int]:
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


def _phone_length(found: str) -> int:
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


def _iban_length(found: str) -> int:
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


MASK = "‹redacted›"
_DETECTOR_TIMEOUT_S, _CHARS_PER_TIMEOUT = 0.005, 64 * 1024
"""What a detector may take for so many characters; for texts of a fraction of that no clock is asked."""
_UNTIMED_CHARS = 2_048
_SENSITIVE_NAME = re.compile(r"(?:\A|[._-])(authorization|cookie|api[_-]?key|password)\Z", re.IGNORECASE)
_SENSITIVE_WORDS = ("authorization", "cookie", "password")
_SENSITIVE_KEYS = ("api_key", "api-key", "apikey")
_CANDIDATE = re.compile(r"[\d@:]")
"""One of these is in all that a detector finds, but for secrets."""
_HASH_PLACEHOLDER = re.compile("‹[0-9a-f]{16}›")
_MAX_KEY_BYTES = 64
_encode = msgspec.json.Encoder().encode

Findings = list[tuple[str, int]]
"""Who found, and how many."""


class TextRedactor:
    """Those of some rules, with the one for secrets, which no rule takes away."""

    def __init__(self, rules: Sequence[Rule], key: bytes, clock: Callable[[], float] = time.thread_time) -> None:
        actions: dict[str, Action] = {"secrets": "mask"}
        for rule in rules:
            for name in rule.detector:
                actions.setdefault(name, rule.action)
        if not key and any(rule.action == "hash" for rule in rules):
            raise ValueError("A rule that hashes needs the key of its project: without one, anybody could find out.")
        self.names = tuple(actions)
        self._key = hashlib.blake2b(key, digest_size=_MAX_KEY_BYTES).digest()
        self._more = len(actions) > 1
        self._clock = clock
        self._all: list[tuple[str, Detector, Replace]] = [
            (name, DETECTORS[name], self._put(action)) for name, action in actions.items()
        ]

    def _put(self, action: Action) -> Replace:
        match action:
            case "mask":
                return lambda _: MASK
            case "hash":
                return self.hashed
            case "drop":
                return lambda _: ""

    def hashed(self, value: Any) -> str:
        """A stand-in for a value: the same for the same, and of no use to who has not the key."""
        data = value.encode(errors="surrogatepass") if isinstance(value, str) else _encode(value)
        return f"‹{hashlib.blake2b(data, digest_size=8, key=self._key).hexdigest()}›"

    def cleaned(self, text: str) -> tuple[str, Findings]:
        """The text without what is found. One that takes too long, or fails, is masked whole."""
        if not masking.may_contain_secret(text) and not (self._more and _CANDIDATE.search(text)):
            return text, []
        finds: Findings = []
        for name, detector, put in self._all:
            text, count = self._tried(text, detector, put)
            if count:
                finds.append((name, count))
        return text, finds

    def _tried(self, text: str, detector: Detector, put: Replace) -> tuple[str, int]:
        for _ in range(2):  # Once more: the first time, somebody else's garbage may have been collected.
            seconds = inf if len(text) < _UNTIMED_CHARS else _DETECTOR_TIMEOUT_S * (1 + len(text) // _CHARS_PER_TIMEOUT)
            watch = DetectorContext(put, self._clock, inf if seconds == inf else self._clock() + seconds)
            try:
                found = detector(text, watch)
                if seconds != inf:
                    watch.check()
            except DetectorTimeout:
                continue
            except Exception:  # A detector that fails must not let through what it was to find.
                break
            return found
        return MASK, 1


def is_placeholder(value: Any) -> bool:
    """Was this put in place of a value already? A record that comes back from an export must not change again."""
    return value == MASK or (isinstance(value, str) and _HASH_PLACEHOLDER.fullmatch(value) is not None)


def sensitive_name_rule(name: str) -> str | None:
    """The rule that removes the value of this name, whatever it is."""
    found = _SENSITIVE_NAME.search(name[-20:])
    return f"*.{found[1].lower().replace('-', '_')}" if found else None


def may_hold_sensitive_name(text: str) -> bool:
    """Can a name of this kind stand in it?"""
    lower = text.lower()
    if "key" in lower and any(word in lower for word in _SENSITIVE_KEYS):
        return True
    return any(word in lower for word in _SENSITIVE_WORDS)
