"""JSON: what a stranger sent, and what an author gave, as plain values that can be written down again."""

import re
from collections.abc import Collection, Iterator
from typing import Any, TypeVar, cast

import msgspec

from palaver.errors import InvalidJson, InvalidValue, TooDeep, TooLarge

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_T = TypeVar("_T")

DEEPEST = 64
MOST_KEYS = 10_000
MOST_ITEMS = 100_000
LONGEST_STRING = 4 * 1024 * 1024

_SCALARS = (str, int, float, bool, type(None))
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MAY_BE_CONTROL = re.compile(rb"[\\\x7f]|\xc2[\x80-\x9f]")  # In JSON's text: escaped, or as it is.
_WRITABLE = 256
"""How deep a value may be that we write. The encoder, which recurses, must never be what finds out."""


class Bounds(msgspec.Struct, frozen=True):
    """How much a JSON text from outside may hold."""

    depth: int = DEEPEST
    """Lists and objects inside each other."""
    keys: int = MOST_KEYS
    items: int = MOST_ITEMS
    string: int = LONGEST_STRING
    """Bytes of one string."""


BOUNDS = Bounds()


class NotJson(ValueError):
    """A value of the author's that cannot be written as JSON."""


def encode(value: Any) -> bytes:
    """Compact JSON of a value that is already plain."""
    return _encode(value)


def escaped(step: str) -> str:
    """One step of a JSON pointer."""
    return step.replace("~", "~0").replace("/", "~1")


def parsed(text: str) -> Any:
    """The value of a JSON text, or the text itself where it is not JSON, or nested deeper than we read."""
    value = opened(text)
    return text if value is text or _is_deeper(value, text.count("[") + text.count("{"), DEEPEST) else value


def opened(text: str) -> Any:
    """The value of a JSON text of any depth that the parser takes, or the text itself."""
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return text


def is_json(text: str) -> bool:
    """Is this a JSON text that we read?"""
    return parsed(text) is not text


def received(body: bytes, bounds: Bounds = BOUNDS) -> Any:
    """The value of a body that came from outside, or the RequestError that says what is wrong with it."""
    try:
        value = _decode(body)
    except RecursionError:
        raise _too_deep(bounds) from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidJson(f"The body is not valid JSON: {_reason(error)}.") from None
    # A body without many bytes, brackets or escapes cannot break a bound: most never pay for the walk.
    size = len(body)
    if (
        size > min(bounds.keys, bounds.items, bounds.string)
        or (size > 2 * bounds.depth and body.count(b"[") + body.count(b"{") > bounds.depth)
        or ((b"\\" in body or not body.isascii() or b"\x7f" in body) and _MAY_BE_CONTROL.search(body))
    ):
        for depth, level in enumerate(_levels(value)):
            for item in level:
                _check(item, depth, bounds)
    return value


def _too_deep(bounds: Bounds) -> TooDeep:
    return TooDeep(f"The JSON is nested deeper than {bounds.depth} levels.")


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeError):
        return "it is not UTF-8"
    text = str(error).removeprefix("JSON is malformed: ")
    return text[:1].lower() + text[1:]


def _levels(value: Any) -> Iterator[list[Any]]:
    """The value itself, then all that its lists and objects hold, and so on down; without recursion."""
    level: list[Any] = [value]
    while level:
        yield level
        below: list[Any] = []
        for item in level:
            if type(item) is list:
                below += cast("list[Any]", item)
            elif type(item) is dict:
                below += cast("dict[str, Any]", item).values()
        level = below


def _is_deeper(value: Any, brackets: int, deepest: int) -> bool:
    """Are more than so many lists and objects inside each other? Few brackets in its text tell without a look."""
    if brackets <= deepest:
        return False
    for depth, level in enumerate(_levels(value)):
        if depth == deepest:
            return any(type(item) is list or type(item) is dict for item in level)
    return False


def _check(item: Any, depth: int, bounds: Bounds) -> None:
    if depth >= bounds.depth and isinstance(item, list | dict):
        raise _too_deep(bounds)
    if type(item) is str:
        _check_strings((item,), bounds)
    elif type(item) is list:
        if len(cast("list[Any]", item)) > bounds.items:
            raise InvalidValue(f"A list has more than {bounds.items} items.")
    elif type(item) is dict:
        keys = cast("dict[str, Any]", item).keys()
        if len(keys) > bounds.keys:
            raise InvalidValue(f"An object has more than {bounds.keys} keys.")
        _check_strings(keys, bounds)
        if any(not key.isprintable() and _CONTROL.search(key) for key in keys):
            raise InvalidJson("A key holds a control character.")


def _check_strings(texts: Collection[str], bounds: Bounds) -> None:
    for text in texts:
        if len(text) * 4 > bounds.string and len(text.encode()) > bounds.string:
            raise TooLarge(f"A string is longer than {bounds.string} bytes.", part="string")


def plain(value: Any) -> Any:
    """A value of the author's as plain JSON: models and dates become what they look like on the wire.

    A container is copied, so that what the author changes after giving it does not change what was said.
    """
    try:
        try:
            text = _encode_anything(value)
        except UnicodeEncodeError:
            text = _encode(_mended(msgspec.to_builtins(value, str_keys=True, enc_hook=_written)))
        copy = _decode(text)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise NotJson(f"a {type(value).__name__} that is not JSON ({error})") from None
    if _is_deeper(copy, text.count(b"[") + text.count(b"{"), _WRITABLE):
        raise NotJson(f"a {type(value).__name__} that is nested deeper than {_WRITABLE} levels")
    return copy


def is_writable(value: Any) -> bool:
    """Can it be written as JSON, just as it is?"""
    if type(value) in _SCALARS:
        return type(value) is not str or value.isascii() or _is_whole(value)
    try:
        text = _encode(value)
    except Exception:  # Anybody's object may say anything of itself.
        return False
    if len(text) <= 2 * _WRITABLE:
        return True  # So short a text cannot be so deep.
    return not _is_deeper(value, text.count(b"[") + text.count(b"{"), _WRITABLE)


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_read(value: _T) -> _T:
    """One of our own values as its reader will have it: each field of its type, plain JSON inside, whole text."""
    try:
        return msgspec.convert(plain(value), type(value))
    except msgspec.ValidationError as error:
        raise NotJson(f"a {type(value).__name__} that does not fit its type ({error})") from None


def whole_text(text: str) -> str:
    """The text with every lone surrogate, which UTF-8 cannot hold, as U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _written(value: Any) -> Any:
    """What msgspec does not know by itself."""
    match value:
        case str():  # A subclass of it; so are the next two. NumPy's float64 is a float.
            return str.__str__(value)
        case int():
            return int.__int__(value)
        case float():
            return float.__float__(value)
        case _:
            # Pydantic's models say themselves what they are; we need not import pydantic to ask.
            model = type(cast("object", value))
            dump = getattr(model, "model_dump", None)
            if dump is None:
                raise TypeError(f"{model.__name__} has no JSON form")
            return dump(value, mode="json")


_encode_anything = msgspec.json.Encoder(enc_hook=_written).encode


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
