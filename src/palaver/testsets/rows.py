"""Rows of a test set: ids, hashes and canonical JSON.

The id of a row never changes; the hash identifies its content, so two equal rows differ only by id. Both are stored as
16 bytes; `row_…` is the external form of an id.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from palaver.core import ids

RowData = dict[str, Any]
"""The data of a row: any JSON value by column, unchanged."""

_PREFIX = "row_"
_ROW_ID = re.compile(r"row_[0-7][0-9a-hjkmnp-tv-z]{25}")  # 26 digits have room for 130 bits, so the first one is small.
_CROCKFORD_TO_INT_DIGITS = str.maketrans("0123456789abcdefghjkmnpqrstvwxyz", "0123456789abcdefghijklmnopqrstuv")
_RANDOM_BITS = 80
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_encode = msgspec.json.Encoder().encode
_SURROGATE = re.compile("[\ud800-\udfff]")


def new_packed_id(milliseconds: int, randomness: int) -> bytes:
    """Return a packed id, without going through text: an import creates a million of them."""
    return ((milliseconds & (1 << 48) - 1) << _RANDOM_BITS | randomness & (1 << _RANDOM_BITS) - 1).to_bytes(16)


def pack_row_id(text: str) -> bytes:
    """Return the 16 bytes of an id. Raises ValueError if it is malformed."""
    if _ROW_ID.fullmatch(text) is None:
        raise ValueError(f"Invalid row id {text[:80]!r}")
    return int(text[len(_PREFIX) :].translate(_CROCKFORD_TO_INT_DIGITS), 32).to_bytes(16)


def format_row_id(packed: bytes) -> str:
    if len(packed) != 16:
        raise ValueError(f"A packed row id must have 16 bytes, not {len(packed)}")
    number = int.from_bytes(packed)
    return _PREFIX + ids.sortable_id(number >> _RANDOM_BITS, number)


def canonical_json(data: Any) -> bytes:
    """Return the same bytes for equal JSON values: sorted keys at every level, no spaces, UTF-8."""
    try:
        return _encode_sorted(data)
    except UnicodeEncodeError:
        return _encode_with_surrogates(data)


def row_hash(data: Mapping[str, Any]) -> bytes:
    return hashlib.blake2b(canonical_json(data), digest_size=16).digest()


# Lone surrogates can occur in values from Python, never in JSON that was decoded. UTF-8 cannot encode them, so they are
# escaped.


def _encode_with_surrogates(value: Any) -> bytes:
    if isinstance(value, str):
        return b'"' + _SURROGATE.sub(_escape_surrogate, _escape_around_surrogates(value)).encode() + b'"'
    if isinstance(value, dict):
        pairs = sorted(
            (_encode_with_surrogates(key), _encode_with_surrogates(item))
            for key, item in cast("dict[str, Any]", value).items()
        )
        return b"{" + b",".join(key + b":" + item for key, item in pairs) + b"}"
    if isinstance(value, list | tuple):
        return b"[" + b",".join(_encode_with_surrogates(item) for item in cast("list[Any]", value)) + b"]"
    return _encode_sorted(value)


def _escape_around_surrogates(text: str) -> str:
    pieces = _SURROGATE.split(text)
    escaped = [_encode(piece).decode()[1:-1] for piece in pieces]
    surrogates = _SURROGATE.findall(text)
    return "".join(piece + surrogate for piece, surrogate in zip(escaped, [*surrogates, ""], strict=True))


def _escape_surrogate(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
