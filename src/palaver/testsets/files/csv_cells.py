"""CSV cells: text to value and back, without loss (contract A3).

A string that would be read as another type, or that a spreadsheet would run as a formula, is written as a JSON string
literal.
"""

import re
from typing import Any

import msgspec

from palaver.core import json
from palaver.testsets.files import reserved_names

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_WORDS: dict[str, bool | None] = {"null": None, "true": True, "false": False}
_NUMBER = re.compile(r"-?[0-9][0-9.eE+-]*+")
_NON_TEXT_STARTS = frozenset('"tfn-0123456789{[')
"""First characters of cells that may be more than text. White space may precede the last two."""

_FORMULA_STARTS = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
"""First characters that make a spreadsheet evaluate a formula; the last four are the full-width forms."""
_PLAIN = re.compile(
    r'[^\s"tfn0-9{\[=+\-@\uff1d\uff0b\uff0d\uff20\x00-\x1f\x7f-\x9f\ufeff][^\x00-\x08\x0b-\x1f\x7f-\x9f]*+'
)
"""Texts that need no further check."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_QUOTED = re.compile(r'[,"\r\n]')
_QUOTED_NAME = re.compile(r'[,"\r\n;\t|]')


def parse_cell(text: str) -> Any:
    """The value of a non-empty cell."""
    first = text[0]
    if first not in _NON_TEXT_STARTS:
        if not first.isspace() or text.lstrip()[:1] not in ("{", "["):
            return text
        return json.parse_or_text(text)
    if first == '"':
        inner = reserved_names.parse_json_literal(text)
        return text if inner is None else inner
    if first in "{[":
        return json.parse_or_text(text)
    if text in _WORDS:
        return _WORDS[text]
    return _number(text) if _NUMBER.fullmatch(text) else text


def _number(text: str) -> Any:
    """A number only if we would write it the same way: leading and trailing zeros are data, and stay text."""
    try:
        value = _decode(text)
    except msgspec.MsgspecError:
        return text
    return value if _encode(value).decode() == text else text


def format_cell(value: Any) -> str:
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) or _is_safe(value) else reserved_names.json_literal(value)
    return json.encode(value).decode()


def format_name(name: str) -> str:
    """Format a header cell; a JSON literal if the bare name would mean something else."""
    if not name or name[0] in '"\ufeff' or name in reserved_names.RESERVED or _needs_guard(name):
        return reserved_names.json_literal(name)
    return name


def quote_cell(text: str) -> str:
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if _QUOTED.search(text) else text


def quote_name(text: str) -> str:
    """Quote a header cell, also for characters that could be taken for a delimiter."""
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if _QUOTED_NAME.search(text) else text


def _is_safe(text: str) -> bool:
    return text != "" and not _needs_guard(text) and parse_cell(text) == text and isinstance(parse_cell(text), str)


def _needs_guard(text: str) -> bool:
    return text[:1] in ("\t", "\r", "\n") or text.lstrip()[:1] in _FORMULA_STARTS or _CONTROL.search(text) is not None
