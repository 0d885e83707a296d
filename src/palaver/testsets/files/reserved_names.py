"""Column names with a special meaning in files, and how data columns with such a name are escaped.

Agenta keeps ids, flags and tags of a row under reserved names: they become the row's `meta`. A data column with a
reserved name is written as its JSON literal, `"__id__"` with the quotes, and so is a name that is such a literal.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

ID = "__id__"
META = frozenset((ID, "__dedup_id__", "__flags__", "__tags__", "__meta__"))
EMPTY = "__empty__"
"""The single column of a file whose set has no columns."""
RESERVED = META | {EMPTY}

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(str).decode


def json_literal(text: str) -> str:
    return _encode(text).decode()


def parse_json_literal(text: str) -> str | None:
    """The string of a JSON literal that is the whole text; None otherwise."""
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return None
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeError):
        return None


def escape_name(name: str) -> str:
    return json_literal(name) if _is_reserved(name) else name


def unescape_name(name: str) -> str:
    inner = parse_json_literal(name)
    return inner if inner is not None and _is_reserved(inner) and json_literal(inner) == name else name


def split_meta(fields: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Split an object of a file into data and metadata."""
    meta = {name: value for name, value in fields.items() if name in META}
    return {unescape_name(name): value for name, value in fields.items() if name not in META}, meta or None


def merge_meta(data: Mapping[str, Any], meta: Mapping[str, Any]) -> dict[str, Any]:
    """The reverse of `split_meta`."""
    return {**meta, **{escape_name(name): value for name, value in data.items()}}


def _is_reserved(name: str) -> bool:
    while name not in RESERVED:
        inner = parse_json_literal(name)
        if inner is None or json_literal(inner) != name:
            return False
        name = inner
    return True
