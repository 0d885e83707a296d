"""Names that mean something in a file, and how a column that happens to have such a name is written.

Agenta keeps a row's id, flags and tags beside its data, under names of their own: they are read into the row's `meta`.
A column of data with such a name is written as the JSON literal of it, `"__id__"` with its quotes, and so is a literal
of one: what is read is what was written, whatever the columns are called.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

ID = "__id__"
META = frozenset((ID, "__dedup_id__", "__flags__", "__tags__", "__meta__"))
EMPTY = "__empty__"
"""The one column of a file whose set has none."""
RESERVED = META | {EMPTY}

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(str).decode


def json_literal(text: str) -> str:
    """As a JSON string."""
    return _encode(text).decode()


def parse_json_literal(text: str) -> str | None:
    """The string of a JSON literal, which must be the whole text; None for anything else."""
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return None
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeError):
        return None


def escape_name(name: str) -> str:
    """A column's name as it stands in a file."""
    return json_literal(name) if _is_reserved(name) else name


def unescape_name(name: str) -> str:
    """A column's name, from what stands in a file."""
    inner = parse_json_literal(name)
    return inner if inner is not None and _is_reserved(inner) and json_literal(inner) == name else name


def split_meta(fields: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """What an object of a file holds: its data, and what is kept beside it."""
    meta = {name: value for name, value in fields.items() if name in META}
    return {unescape_name(name): value for name, value in fields.items() if name not in META}, meta or None


def merge_meta(data: Mapping[str, Any], meta: Mapping[str, Any]) -> dict[str, Any]:
    """The other way round."""
    return {**meta, **{escape_name(name): value for name, value in data.items()}}


def _is_reserved(name: str) -> bool:
    while name not in RESERVED:
        inner = parse_json_literal(name)
        if inner is None or json_literal(inner) != name:
            return False
        name = inner
    return True
