"""One text, or the names of one map: what detectors find in it, within their time."""

import hashlib
import re
import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import msgspec

from palaver.core import masking
from palaver.traces.redaction.detectors import DETECTORS, Detector, Put, Slow, Watch
from palaver.traces.redaction.rules import Action, Rule

MASK = "‹redacted›"
_SECONDS, _PIECE = 0.005, 64 * 1024
"""What a detector may take for so many characters; for texts of a fraction of that no clock is asked."""
_SHORT = 2_048
_SENSITIVE = re.compile(r"(?:\A|[._-])(authorization|cookie|api[_-]?key|password)\Z", re.IGNORECASE)
_SENSITIVE_WORDS = ("authorization", "cookie", "password")
_SENSITIVE_KEYS = ("api_key", "api-key", "apikey")
_TELLING = re.compile(r"[\d@:]")
"""One of these is in all that a detector finds, but for secrets."""
_HASHED = re.compile("‹[0-9a-f]{16}›")
_LONGEST_KEY = 64
_encode = msgspec.json.Encoder().encode

Finds = list[tuple[str, int]]
"""Who found, and how many."""


class Detectors:
    """Those of some rules, with the one for secrets, which no rule takes away."""

    def __init__(self, rules: Sequence[Rule], key: bytes, clock: Callable[[], float] = time.thread_time) -> None:
        actions: dict[str, Action] = {"secrets": "mask"}
        for rule in rules:
            for name in rule.detector:
                actions.setdefault(name, rule.action)
        if not key and any(rule.action == "hash" for rule in rules):
            raise ValueError("A rule that hashes needs the key of its project: without one, anybody could find out.")
        self.names = tuple(actions)
        self._key = hashlib.blake2b(key, digest_size=_LONGEST_KEY).digest()
        self._more = len(actions) > 1
        self._clock = clock
        self._all: list[tuple[str, Detector, Put]] = [
            (name, DETECTORS[name], self._put(action)) for name, action in actions.items()
        ]

    def _put(self, action: Action) -> Put:
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

    def cleaned(self, text: str) -> tuple[str, Finds]:
        """The text without what is found. One that takes too long, or fails, is masked whole."""
        if not masking.may_contain_secret(text) and not (self._more and _TELLING.search(text)):
            return text, []
        finds: Finds = []
        for name, detector, put in self._all:
            text, count = self._tried(text, detector, put)
            if count:
                finds.append((name, count))
        return text, finds

    def _tried(self, text: str, detector: Detector, put: Put) -> tuple[str, int]:
        for _ in range(2):  # Once more: the first time, somebody else's garbage may have been collected.
            seconds = inf if len(text) < _SHORT else _SECONDS * (1 + len(text) // _PIECE)
            watch = Watch(put, self._clock, inf if seconds == inf else self._clock() + seconds)
            try:
                found = detector(text, watch)
                if seconds != inf:
                    watch.check()
            except Slow:
                continue
            except Exception:  # A detector that fails must not let through what it was to find.
                break
            return found
        return MASK, 1


def is_stand_in(value: Any) -> bool:
    """Was this put in place of a value already? A record that comes back from an export must not change again."""
    return value == MASK or (isinstance(value, str) and _HASHED.fullmatch(value) is not None)


def sensitive(name: str) -> str | None:
    """The rule that removes the value of this name, whatever it is."""
    found = _SENSITIVE.search(name[-20:])
    return f"*.{found[1].lower().replace('-', '_')}" if found else None


def may_be_sensitive(text: str) -> bool:
    """Can a name of this kind stand in it?"""
    lower = text.lower()
    if "key" in lower and any(word in lower for word in _SENSITIVE_KEYS):
        return True
    return any(word in lower for word in _SENSITIVE_WORDS)
