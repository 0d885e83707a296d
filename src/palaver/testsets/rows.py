"""Rows: a case of a test set, what it is called, and what tells whether its content changed (contract: test sets, A1).

The id is given once and stays, whatever becomes of the content; the hash is the content's. Two equal rows are two rows.
In tables both are 16 bytes; `row_…` is how people and programs see an id.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from palaver.core import ids

RowData = dict[str, Any]
"""What a row holds: any JSON, by column. Kept exactly as it came."""

_PREFIX = "row_"
_ROW_ID = re.compile(r"row_[0-7][0-9a-hjkmnp-tv-z]{25}")  # 26 digits have room for 130 bits: the first is small.
_TO_PYTHONS_DIGITS = str.maketrans("0123456789abcdefghjkmnpqrstvwxyz", "0123456789abcdefghijklmnopqrstuv")
_RANDOM_BITS = 80
_sorted = msgspec.json.Encoder(order="sorted").encode
_encode = msgspec.json.Encoder().encode
_SURROGATE = re.compile("[\ud800-\udfff]")


class Row(msgspec.Struct, frozen=True):
    """One case: `meta` is what another system kept beside its data (Agenta's ids, flags and tags)."""

    id: str
    data: dict[str, Any]
    meta: dict[str, Any] | None = None


def new_row_id(milliseconds: int, randomness: int) -> str:
    """An id that was never given before."""
    return _PREFIX + ids.sortable_id(milliseconds, randomness)


def new_packed_id(milliseconds: int, randomness: int) -> bytes:
    """The same as 16 bytes, without the way over text: an import gives a million of them."""
    return ((milliseconds & (1 << 48) - 1) << _RANDOM_BITS | randomness & (1 << _RANDOM_BITS) - 1).to_bytes(16)


def pack_row_id(text: str) -> bytes:
    """The 16 bytes of an id; ValueError for what is none."""
    if _ROW_ID.fullmatch(text) is None:
        raise ValueError(f"{text[:80]!r} is no id of a row")
    return int(text[len(_PREFIX) :].translate(_TO_PYTHONS_DIGITS), 32).to_bytes(16)


def format_row_id(packed: bytes) -> str:
    """The id that these 16 bytes are."""
    if len(packed) != 16:
        raise ValueError(f"an id of a row has 16 bytes, not {len(packed)}")
    number = int.from_bytes(packed)
    return _PREFIX + ids.sortable_id(number >> _RANDOM_BITS, number)


def canonical_json(data: Any) -> bytes:
    """The one text of equal JSON values: keys sorted at every level, no spaces, UTF-8."""
    try:
        return _sorted(data)
    except UnicodeEncodeError:
        return _encode_with_surrogates(data)


def row_hash(data: Mapping[str, Any]) -> bytes:
    """16 bytes that tell one content from another."""
    return hashlib.blake2b(canonical_json(data), digest_size=16).digest()


# A lone surrogate came from Python: no JSON that we read has one, and UTF-8 has none. It is written as its escape.


def _encode_with_surrogates(value: Any) -> bytes:
    if isinstance(value, str):
        return b'"' + _SURROGATE.sub(_escape, _escape_text(value)).encode() + b'"'
    if isinstance(value, dict):
        pairs = sorted(
            (_encode_with_surrogates(key), _encode_with_surrogates(item))
            for key, item in cast("dict[str, Any]", value).items()
        )
        return b"{" + b",".join(key + b":" + item for key, item in pairs) + b"}"
    if isinstance(value, list | tuple):
        return b"[" + b",".join(_encode_with_surrogates(item) for item in cast("list[Any]", value)) + b"]"
    return _sorted(value)


def _escape_text(text: str) -> str:
    pieces = _SURROGATE.split(text)
    quoted = [_encode(piece).decode()[1:-1] for piece in pieces]
    marks = _SURROGATE.findall(text)
    return "".join(quote + mark for quote, mark in zip(quoted, [*marks, ""], strict=True))


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
