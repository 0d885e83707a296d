"""Keys: what they look like, how they are told apart from guesses, what they may do, and until when.

A key is `plv_<8 characters that name it>_<40 that nobody else knows>`. Only the name and a hash of the rest are kept.
Chance and the time are given; where keys are kept, and who asks, is for others to know.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime, time, timedelta
from typing import Final, Literal, NamedTuple, cast

from palaver.errors import InvalidValue

Scope = Literal["invoke", "read", "admin"]

SCOPES: Final[tuple[Scope, ...]] = ("invoke", "read", "admin")
"""To call workflows; to look at what is kept; to do all that, and to give keys to others."""
ALL_SCOPES: Final[frozenset[Scope]] = frozenset(SCOPES)
MAX_KEY_NAME_LENGTH: Final = 100

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # As in our ids: nothing to misread when a key is read aloud.
_ID, _SECRET = 8, 40
_KEY = re.compile(rf"plv_([{_ALPHABET}]{{{_ID}}})_([{_ALPHABET}]{{{_SECRET}}})")
_WIRE_ID = re.compile(rf"key_([{_ALPHABET}]{{{_ID}}})")
_PROJECT = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_SPAN = re.compile(r"([0-9]{1,5})([dh])")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NO_HASH = bytes(32)


class ApiKey(NamedTuple):
    """The two halves of a key, as its owner has it."""

    id: str
    secret: str

    def __str__(self) -> str:
        return f"plv_{self.id}_{self.secret}"

    def __repr__(self) -> str:
        return f"Secret({self.id!r}, '***')"  # It may stand in a traceback.


def generate_key(random_bits: Callable[[int], int]) -> ApiKey:
    """A new key, out of 240 bits of chance."""
    return ApiKey(_to_base32(random_bits(_ID * 5), _ID), generate_token(random_bits))


def generate_token(random_bits: Callable[[int], int]) -> str:
    """40 characters that nobody can guess."""
    return _to_base32(random_bits(_SECRET * 5), _SECRET)


def _to_base32(number: int, length: int) -> str:
    return "".join([_ALPHABET[number >> 5 * place & 31] for place in range(length)])


def parse_key(text: str) -> ApiKey | None:
    """The key in a text that is one, and nothing else."""
    found = _KEY.fullmatch(text)
    return ApiKey(found[1], found[2]) if found else None


def is_token(text: str) -> bool:
    """Has it the form of a token? Anything else need not be looked up."""
    return len(text) == _SECRET and not text.strip(_ALPHABET)


def hash_secret(secret: str) -> bytes:
    """What is kept of a secret. It is 200 bits of chance: no salt or slow hash would make it harder to guess."""
    return hashlib.sha256(secret.encode()).digest()


def verify_secret(secret: str, kept: bytes | None) -> bool:
    """Is it the one whose hash was kept? A key that does not exist (None) costs the same time."""
    same = hmac.compare_digest(hash_secret(secret), kept or _NO_HASH)
    return same and kept is not None


def format_key_id(key: str) -> str:
    """How others are told of a key: `key_` and its eight characters."""
    return f"key_{key}"


def parse_key_id(text: str) -> str | None:
    """The eight characters; None for anything that names no key."""
    found = _WIRE_ID.fullmatch(text)
    return found[1] if found else None


# What it may do


def parse_scopes(words: Iterable[str], *, pointer: str | None = None) -> frozenset[Scope]:
    """The scopes that words name, with those they contain: an admin may do everything."""
    named = frozenset(words)
    if not named:
        raise InvalidValue(f"A key needs at least one scope: {', '.join(SCOPES)}.", pointer=pointer)
    for word in sorted(named):
        if word not in ALL_SCOPES:
            raise InvalidValue(f"There is no scope {word[:40]!r}: use {', '.join(SCOPES)}.", pointer=pointer)
    return ALL_SCOPES if "admin" in named else cast("frozenset[Scope]", named)


def minimal_scopes(scopes: Collection[Scope]) -> list[Scope]:
    """The fewest words that say the same."""
    return ["admin"] if "admin" in scopes else [scope for scope in SCOPES if scope in scopes]


def check_project(name: str, *, pointer: str | None = None) -> str:
    """The name, if a project can have it."""
    if not _PROJECT.fullmatch(name):
        raise InvalidValue(
            f"{name[:40]!r} cannot name a project: use a-z, 0-9 and '-', at most 32, and no '-' first.", pointer=pointer
        )
    return name


def check_key_name(name: str, *, pointer: str | None = None) -> str:
    """The name, if a key can have it: a line that a person can read."""
    if not name.strip() or len(name) > MAX_KEY_NAME_LENGTH or not name.isprintable():
        raise InvalidValue(f"A key's name is 1 to {MAX_KEY_NAME_LENGTH} printable characters.", pointer=pointer)
    return name


# Until when


def parse_expiry(text: str, *, now: datetime) -> datetime:
    """The moment that `90d`, `12h` or `2026-12-31` means; of a day, its end in UTC."""
    try:
        moment = _moment(text.strip(), now)
    except (OverflowError, ValueError):  # A day that no calendar has.
        moment = None
    if moment is None:
        raise InvalidValue(f"{text[:40]!r} is no time to expire: use 90d, 12h or 2026-12-31.")
    if moment <= now:
        raise InvalidValue(f"{text[:40]!r} has passed: a key must expire in the future.")
    return moment


def _moment(text: str, now: datetime) -> datetime | None:
    if span := _SPAN.fullmatch(text):
        number = int(span[1])
        return now + (timedelta(days=number) if span[2] == "d" else timedelta(hours=number))
    if _DATE.fullmatch(text):
        return datetime.combine(datetime.fromisoformat(text), time(), UTC) + timedelta(days=1)
    return None
