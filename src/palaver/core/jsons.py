"""JSON: what a stranger sent, and what an author gave, as plain values that can be written down again."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from palaver.errors import InvalidJson, InvalidValue, RequestError, TooDeep, TooLarge

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

DEEPEST = 64
MOST_KEYS = 10_000
MOST_ITEMS = 100_000
LONGEST_STRING = 4 * 1024 * 1024


class Bounds(msgspec.Struct, frozen=True):
    """How much a JSON text from outside may hold."""

    depth: int = DEEPEST
    keys: int = MOST_KEYS
    items: int = MOST_ITEMS
    string: int = LONGEST_STRING


BOUNDS = Bounds()


def encode(value: Any) -> bytes:
    """Compact JSON of a value that is already plain."""
    return _encode(value)


def parsed(text: str) -> Any:
    """The value of a JSON text, or the text itself where it is not JSON."""
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return text


def received(body: bytes, bounds: Bounds = BOUNDS) -> Any:
    """The value of a body that came from outside, or the RequestError that says what is wrong with it."""
    try:
        value = _decode(body)
    except RecursionError:
        raise TooDeep(f"The JSON is nested deeper than {bounds.depth} levels.") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidJson(f"The body is not valid JSON: {_reason(error)}.") from None
    # A body without many brackets, bytes or escapes cannot break a bound: most never pay for the walk.
    if len(body) > bounds.keys or b"\\" in body or body.count(b"[") + body.count(b"{") > bounds.depth:
        _check(value, bounds)
    return value


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeError):
        return "it is not UTF-8"
    text = str(error).removeprefix("JSON is malformed: ")
    return text[:1].lower() + text[1:]


def _check(value: Any, bounds: Bounds) -> None:
    """Walk the value level by level, without recursion, and raise at the first bound that is broken."""
    level: list[Any] = [value]
    depth = 0
    while level:
        below: list[Any] = []
        for item in level:
            if type(item) is str:
                if len(item) > bounds.string:
                    raise TooLarge(f"A string is longer than {bounds.string} characters.", part="string")
            elif type(item) is list:
                items = cast("list[Any]", item)
                if len(items) > bounds.items:
                    raise InvalidValue(f"A list has more than {bounds.items} items.")
                below += items
            elif type(item) is dict:
                members = cast("dict[str, Any]", item)
                if fault := _bad_keys(members, bounds):
                    raise fault
                below += members.values()
        depth += 1
        if below and depth > bounds.depth:
            raise TooDeep(f"The JSON is nested deeper than {bounds.depth} levels.")
        level = below


def _bad_keys(members: Mapping[str, Any], bounds: Bounds) -> RequestError | None:
    if len(members) > bounds.keys:
        return InvalidValue(f"An object has more than {bounds.keys} keys.")
    if any(not key.isprintable() and min(key) < " " for key in members):
        return InvalidJson("A key holds a control character.")
    return None


class NotJson(ValueError):
    """A value of the author's that cannot be written as JSON."""


def plain(value: Any) -> Any:
    """A value of the author's as plain JSON: models and dates become what they look like on the wire.

    A container is copied, so that what the author changes after giving it does not change what was said.
    """
    try:
        return _decode(_encode_anything(value))
    except UnicodeEncodeError:
        return _decode(_encode(_mended(msgspec.to_builtins(value, str_keys=True, enc_hook=_dumped))))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise NotJson(f"a {type(value).__name__} that is not JSON ({error})") from None


def whole_text(text: str) -> str:
    """The text with every lone surrogate, which UTF-8 cannot hold, as U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _dumped(value: Any) -> Any:
    # Pydantic's models say themselves what they are; we need not import pydantic to ask.
    dump = getattr(type(value), "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(value).__name__} has no JSON form")
    return dump(value, mode="json")


_encode_anything = msgspec.json.Encoder(enc_hook=_dumped).encode


def _mended(value: Any) -> Any:
    match value:
        case str():
            return whole_text(value)
        case list() | tuple():
            return [_mended(item) for item in cast("list[Any]", value)]
        case dict():
            return {_mended(key): _mended(item) for key, item in cast("dict[Any, Any]", value).items()}
        case _:
            return value
