"""Detectors of secrets and personal data in texts, and the redactor that applies them within a time limit.

A detector takes a text and a `DetectorContext`, and returns the redacted text and the number of matches. Its time is
linear in the length of the text.
"""

import hashlib
import re
import time
from collections.abc import Callable, Sequence
from ipaddress import IPv6Address
from math import inf
from typing import Any, TypeAlias

import msgspec

from palaver.core import secret_mask
from palaver.traces.redaction.rules import Action, Rule

Replace: TypeAlias = Callable[[str], str]
Detector: TypeAlias = Callable[[str, "DetectorContext"], tuple[str, int]]

_EMAIL_LOCAL_CHARS = frozenset("!#$%&'*+-/=?^_`{|}~.")
_MAX_EMAIL_LOCAL_CHARS = 64
# Patterns begin with a character class, which is fast to search, and look back from there.
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
_IPV4 = re.compile(r"\d(?<![\w.].)\d{0,2}(?:\.\d{1,3}){3}(?!\w|\.\d)")
_IPV6_COLONS = re.compile(r":[\dA-Fa-f]{0,4}:")
_IPV6 = re.compile(r"(?:[\dA-Fa-f:]{1,31}:\d{1,3}(?:\.\d{1,3}){3}|[\dA-Fa-f:]{2,39})(?![\w:])")
_NOT_DIGIT = re.compile(r"\D+")
_HEX = frozenset("0123456789abcdefABCDEF")
_TICKS_PER_CHECK = 64


class DetectorTimeout(Exception):
    """A detector exceeded its time limit."""


class DetectorContext:
    """The replacement function and deadline of a detector."""

    def __init__(self, replace: Replace, clock: Callable[[], float], deadline: float) -> None:
        self.replace = replace
        self._clock = clock
        self._deadline = deadline
        self._ticks = 0

    def tick(self) -> None:
        """Count a candidate, and check the deadline now and then."""
        self._ticks += 1
        if self._ticks % _TICKS_PER_CHECK == 0:
            self.check()

    def check(self) -> None:
        """Raise DetectorTimeout if the deadline has passed."""
        if self._clock() > self._deadline:
            raise DetectorTimeout


def replace_secrets(text: str, context: DetectorContext) -> tuple[str, int]:
    """Mask keys, tokens and passwords in the formats that `core.secret_mask` knows. The rule's action is ignored."""
    context.tick()
    masked = secret_mask.mask_secrets(text)
    return (
        (text, 0) if masked == text else (masked, max(1, masked.count(secret_mask.MASK) - text.count(secret_mask.MASK)))
    )


def replace_emails(text: str, context: DetectorContext) -> tuple[str, int]:
    """Replace email addresses, searching from their @ in both directions."""
    pieces: list[str] = []
    copied_to = position = 0
    while (position := text.find("@", position)) >= 0:
        context.tick()
        start = position
        while start > max(copied_to, position - _MAX_EMAIL_LOCAL_CHARS) and (
            text[start - 1].isalnum() or text[start - 1] in _EMAIL_LOCAL_CHARS
        ):
            start -= 1
        host = _HOST.match(text, position + 1) if start < position else None
        position += 1
        if host:
            pieces += text[copied_to:start], context.replace(text[start : host.end()])
            copied_to = position = host.end()
    pieces.append(text[copied_to:])
    return "".join(pieces), len(pieces) // 2


def replace_phone_numbers(text: str, context: DetectorContext) -> tuple[str, int]:
    """Replace phone numbers with a country code, a leading zero, or in North American groups."""
    return _replace_matches(text, _PHONE, _phone_length, context)


def replace_card_numbers(text: str, context: DetectorContext) -> tuple[str, int]:
    """Replace payment card numbers with a valid check digit."""
    return _replace_matches(text, _CARD, lambda match: len(match) if _is_card(match) else 0, context)


def replace_ibans(text: str, context: DetectorContext) -> tuple[str, int]:
    """Replace IBANs with valid check digits."""
    return _replace_matches(text, _IBAN, _iban_length, context)


def replace_ip_addresses(text: str, context: DetectorContext) -> tuple[str, int]:
    """Replace IPv4 and IPv6 addresses."""
    text, ipv6_count = _replace_ipv6(text, context)
    text, ipv4_count = _replace_matches(text, _IPV4, lambda match: len(match) if _is_ipv4(match) else 0, context)
    return text, ipv4_count + ipv6_count


def _replace_ipv6(text: str, context: DetectorContext) -> tuple[str, int]:
    """Replace IPv6 addresses, searching from two colons close to each other, which are rare in most texts."""
    pieces: list[str] = []
    copied_to = position = 0
    while colons := _IPV6_COLONS.search(text, position):
        context.tick()
        start = colons.start()
        while start > max(copied_to, colons.start() - 4) and text[start - 1] in _HEX:
            start -= 1
        match = _IPV6.match(text, start)
        position = colons.start() + 1
        if match and not (start and (text[start - 1].isalnum() or text[start - 1] in "_:")) and _is_ipv6(match[0]):
            pieces += text[copied_to:start], context.replace(match[0])
            copied_to = position = match.end()
    pieces.append(text[copied_to:])
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
    text: str, pattern: re.Pattern[str], length: Callable[[str], int], context: DetectorContext
) -> tuple[str, int]:
    """Replace matches of `pattern`. `length` returns how many characters to replace, or 0 for a false match."""
    pieces: list[str] = []
    copied_to = position = 0
    while match := pattern.search(text, position):
        context.tick()
        size = length(match[0])
        position = match.start() + max(1, size)
        if size:
            pieces += text[copied_to : match.start()], context.replace(text[match.start() : position])
            copied_to = position
    pieces.append(text[copied_to:])
    return "".join(pieces), len(pieces) // 2


def _phone_length(text: str) -> int:
    """Return how many characters belong to a phone number; another number may follow."""
    end = len(text)
    while end > 0:
        digits = len(_NOT_DIGIT.sub("", text[:end]))
        if text.startswith("+"):
            is_valid = 8 <= digits <= 15
        else:
            is_valid = 9 <= digits <= 14 and _NATIONAL.match(text[:end]) and not _DATE.match(text)
        if is_valid:
            return end
        end = text.rfind(" ", 0, end)
    return 0


def _is_card(text: str) -> bool:
    digits = [int(character) for character in text if character.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    if not 13 <= len(digits) <= 19 or not 2 <= digits[0] <= 6:  # Timestamps in milli- and nanoseconds begin with 1.
        return False
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _iban_length(text: str) -> int:
    """Return how many characters belong to an IBAN; following words may match the pattern too."""
    end = len(text)
    while end > 0:
        compact = text[:end].replace(" ", "")
        if (
            15 <= len(compact) <= 34
            and int("".join([str(int(character, 36)) for character in compact[4:] + compact[:4]])) % 97 == 1
        ):
            return end
        end = text.rfind(" ", 0, end)
    return 0


def _is_ipv4(text: str) -> bool:
    return all(int(part) <= 255 for part in text.split("."))


def _is_ipv6(text: str) -> bool:
    try:
        return int(IPv6Address(text)) != 0  # "::" is more often part of a name: std::vector.
    except ValueError:
        return False


MASK = "‹redacted›"
_DETECTOR_TIMEOUT_S, _CHARS_PER_TIMEOUT = 0.005, 64 * 1024
"""CPU seconds that a detector may take for each _CHARS_PER_TIMEOUT characters, unless the text is short."""
_UNTIMED_CHARS = 2_048
_SENSITIVE_NAME = re.compile(r"(?:\A|[._-])(authorization|cookie|api[_-]?key|password)\Z", re.IGNORECASE)
_SENSITIVE_WORDS = ("authorization", "cookie", "password")
_SENSITIVE_KEYS = ("api_key", "api-key", "apikey")
_CANDIDATE = re.compile(r"[\d@:]")
"""All matches but secrets contain one of these characters."""
_HASH_PLACEHOLDER = re.compile("‹[0-9a-f]{16}›")
_MAX_KEY_BYTES = 64
_encode = msgspec.json.Encoder().encode

Findings = list[tuple[str, int]]
"""Names of detectors, each with its number of matches."""


class TextRedactor:
    """Applies the detectors of its rules, and always the one for secrets."""

    def __init__(self, rules: Sequence[Rule], key: bytes, clock: Callable[[], float] = time.thread_time) -> None:
        actions: dict[str, Action] = {"secrets": "mask"}
        for rule in rules:
            for name in rule.detector:
                actions.setdefault(name, rule.action)
        if not key and any(rule.action == "hash" for rule in rules):
            raise ValueError(
                "Rules with the action 'hash' require the project's key: hashes without a key can be guessed."
            )
        self.names = tuple(actions)
        self._key = hashlib.blake2b(key, digest_size=_MAX_KEY_BYTES).digest()
        self._has_rules = len(actions) > 1
        self._clock = clock
        self._detectors: list[tuple[str, Detector, Replace]] = [
            (name, DETECTORS[name], self._replacement(action)) for name, action in actions.items()
        ]

    def _replacement(self, action: Action) -> Replace:
        match action:
            case "mask":
                return lambda _: MASK
            case "hash":
                return self.hash_value
            case "drop":
                return lambda _: ""

    def hash_value(self, value: Any) -> str:
        """Return a placeholder that is equal for equal values and useless without the key."""
        data = value.encode(errors="surrogatepass") if isinstance(value, str) else _encode(value)
        return f"‹{hashlib.blake2b(data, digest_size=8, key=self._key).hexdigest()}›"

    def redact(self, text: str) -> tuple[str, Findings]:
        """Redact a text. If a detector fails or exceeds its time, the whole text is masked."""
        if not secret_mask.may_contain_secret(text) and not (self._has_rules and _CANDIDATE.search(text)):
            return text, []
        findings: Findings = []
        for name, detector, replace in self._detectors:
            text, count = self._run_detector(text, detector, replace)
            if count:
                findings.append((name, count))
        return text, findings

    def _run_detector(self, text: str, detector: Detector, replace: Replace) -> tuple[str, int]:
        for _ in range(2):  # Retry once: a garbage collection may have used up the time.
            seconds = inf if len(text) < _UNTIMED_CHARS else _DETECTOR_TIMEOUT_S * (1 + len(text) // _CHARS_PER_TIMEOUT)
            context = DetectorContext(replace, self._clock, inf if seconds == inf else self._clock() + seconds)
            try:
                result = detector(text, context)
                if seconds != inf:
                    context.check()
            except DetectorTimeout:
                continue
            except Exception:  # A failing detector must not let its matches through.
                break
            return result
        return MASK, 1


def is_placeholder(value: Any) -> bool:
    """Whether a value is the placeholder of an earlier redaction, which must not be redacted again."""
    return value == MASK or (isinstance(value, str) and _HASH_PLACEHOLDER.fullmatch(value) is not None)


def sensitive_name_rule(name: str) -> str | None:
    """Return the built-in rule that removes values of this name, or None."""
    match = _SENSITIVE_NAME.search(name[-20:])
    return f"*.{match[1].lower().replace('-', '_')}" if match else None


def may_hold_sensitive_name(text: str) -> bool:
    lower = text.lower()
    if "key" in lower and any(word in lower for word in _SENSITIVE_KEYS):
        return True
    return any(word in lower for word in _SENSITIVE_WORDS)
