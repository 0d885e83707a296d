"""API keys: format, hashing, scopes and expiry.

A key is `plv_<id of 8 characters>_<secret of 40 characters>`. Only the id and a hash of the secret are stored.
Randomness and the current time are passed in.
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
"""Call workflows; read stored data; everything, including managing keys."""
ALL_SCOPES: Final[frozenset[Scope]] = frozenset(SCOPES)
MAX_KEY_NAME_LENGTH: Final = 100

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # As in core.ids: no ambiguous characters.
_ID_LENGTH, _SECRET_LENGTH = 8, 40
_KEY = re.compile(rf"plv_([{_ALPHABET}]{{{_ID_LENGTH}}})_([{_ALPHABET}]{{{_SECRET_LENGTH}}})")
_PUBLIC_ID = re.compile(rf"key_([{_ALPHABET}]{{{_ID_LENGTH}}})")
_PROJECT = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_DURATION = re.compile(r"([0-9]{1,5})([dh])")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NO_HASH = bytes(32)


class ApiKey(NamedTuple):
    """The two parts of a key in clear text."""

    id: str
    secret: str

    def __str__(self) -> str:
        return f"plv_{self.id}_{self.secret}"

    def __repr__(self) -> str:
        return f"ApiKey({self.id!r}, '***')"  # It may appear in a traceback.


def generate_key(random_bits: Callable[[int], int]) -> ApiKey:
    """Create a key from 240 random bits."""
    return ApiKey(_to_base32(random_bits(_ID_LENGTH * 5), _ID_LENGTH), generate_token(random_bits))


def generate_token(random_bits: Callable[[int], int]) -> str:
    """Create 40 unguessable characters."""
    return _to_base32(random_bits(_SECRET_LENGTH * 5), _SECRET_LENGTH)


def _to_base32(number: int, length: int) -> str:
    return "".join([_ALPHABET[number >> 5 * position & 31] for position in range(length)])


def parse_key(text: str) -> ApiKey | None:
    """Parse a key; None if the text is not exactly one."""
    match = _KEY.fullmatch(text)
    return ApiKey(match[1], match[2]) if match else None


def is_token(text: str) -> bool:
    """Whether the text has the form of a token; others need no lookup."""
    return len(text) == _SECRET_LENGTH and not text.strip(_ALPHABET)


def hash_secret(secret: str) -> bytes:
    """Return the hash that is stored. The secret has 200 random bits, so neither salt nor a slow hash is needed."""
    return hashlib.sha256(secret.encode()).digest()


def verify_secret(secret: str, stored: bytes | None) -> bool:
    """Whether the secret matches the stored hash, in constant time, also for an unknown key (None)."""
    matches = hmac.compare_digest(hash_secret(secret), stored or _NO_HASH)
    return matches and stored is not None


def format_key_id(key: str) -> str:
    """Return the public id of a key: `key_` and its eight characters."""
    return f"key_{key}"


def parse_key_id(text: str) -> str | None:
    """Return the eight characters of a public id; None if it is malformed."""
    match = _PUBLIC_ID.fullmatch(text)
    return match[1] if match else None


# Scopes


def parse_scopes(names: Iterable[str], *, pointer: str | None = None) -> frozenset[Scope]:
    """Parse scope names; `admin` includes all others."""
    scopes = frozenset(names)
    if not scopes:
        raise InvalidValue(f"An API key needs at least one scope: {', '.join(SCOPES)}.", pointer=pointer)
    for name in sorted(scopes):
        if name not in ALL_SCOPES:
            raise InvalidValue(f"Unknown scope {name[:40]!r}. Available: {', '.join(SCOPES)}.", pointer=pointer)
    return ALL_SCOPES if "admin" in scopes else cast("frozenset[Scope]", scopes)


def minimal_scopes(scopes: Collection[Scope]) -> list[Scope]:
    """Return the shortest list of scopes that implies the same."""
    return ["admin"] if "admin" in scopes else [scope for scope in SCOPES if scope in scopes]


def check_project(name: str, *, pointer: str | None = None) -> str:
    """Return the project name. Raises InvalidValue if it is not allowed."""
    if not _PROJECT.fullmatch(name):
        raise InvalidValue(
            f"Invalid project name {name[:40]!r}: use at most 32 characters (a-z, 0-9 and '-'), not starting with '-'.",
            pointer=pointer,
        )
    return name


def check_key_name(name: str, *, pointer: str | None = None) -> str:
    """Return the key name. Raises InvalidValue unless it is a printable line."""
    if not name.strip() or len(name) > MAX_KEY_NAME_LENGTH or not name.isprintable():
        raise InvalidValue(
            f"The name of an API key must be 1 to {MAX_KEY_NAME_LENGTH} printable characters.", pointer=pointer
        )
    return name


# Expiry


def parse_expiry(text: str, *, now: datetime) -> datetime:
    """Parse `90d`, `12h` or `2026-12-31` (the end of that day in UTC)."""
    try:
        moment = _parse_time(text.strip(), now)
    except (OverflowError, ValueError):  # No such day.
        moment = None
    if moment is None:
        raise InvalidValue(f"Invalid expiry {text[:40]!r}: use 90d, 12h or 2026-12-31.")
    if moment <= now:
        raise InvalidValue(f"Invalid expiry {text[:40]!r}: must be in the future.")
    return moment


def _parse_time(text: str, now: datetime) -> datetime | None:
    if duration := _DURATION.fullmatch(text):
        number = int(duration[1])
        return now + (timedelta(days=number) if duration[2] == "d" else timedelta(hours=number))
    if _DATE.fullmatch(text):
        return datetime.combine(datetime.fromisoformat(text), time(), UTC) + timedelta(days=1)
    return None
