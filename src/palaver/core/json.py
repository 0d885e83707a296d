"""Decode untrusted JSON within limits, convert values to JSON, and read values of unknown type.

Import as `from palaver.core import json`. The type checks accept subclasses of dict, list and str, but bypass the
methods of such subclasses.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeGuard, TypeVar, cast

import msgspec

from palaver.errors import InvalidBody, InvalidJson, InvalidType, InvalidValue, RequestError, TooDeep, TooLarge

_decode_json = msgspec.json.Decoder().decode
encode = msgspec.json.Encoder().encode
_T = TypeVar("_T")

MAX_DEPTH = 64
MAX_KEYS = 10_000
MAX_ITEMS = 100_000
MAX_STRING_BYTES = 4 * 1024 * 1024

_SCALARS = (str, int, float, bool, type(None))
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MAY_BE_CONTROL = re.compile(rb"[\\\x7f]|\xc2[\x80-\x9f]")  # In encoded JSON: escaped or literal.
_MAX_ENCODED_DEPTH = 256
"""Maximum depth of an encoded value: the encoder recurses."""


class JsonLimits(msgspec.Struct, frozen=True):
    """Limits on a JSON text from outside."""

    depth: int = MAX_DEPTH
    """Nesting of lists and objects."""
    keys: int = MAX_KEYS
    items: int = MAX_ITEMS
    string: int = MAX_STRING_BYTES
    """Bytes per string."""


DEFAULT_LIMITS = JsonLimits()


class NotJson(ValueError):
    """A value that cannot be encoded as JSON."""


def escape_pointer(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")


def parse_or_text(text: str) -> Any:
    """Decode a JSON text; return the text itself if it is not JSON or nested deeper than MAX_DEPTH."""
    value = decode_or_text(text)
    return text if value is text or _is_deeper(value, text.count("[") + text.count("{"), MAX_DEPTH) else value


def decode_or_text(text: str) -> Any:
    """Decode a JSON text of any depth that the parser accepts; return the text itself if it is not JSON."""
    try:
        return _decode_json(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return text


def is_json(text: str) -> bool:
    """Whether `text` is JSON that `parse_or_text` decodes."""
    return parse_or_text(text) is not text


def decode(body: bytes, limits: JsonLimits = DEFAULT_LIMITS) -> Any:
    """Decode untrusted JSON. Raises a RequestError if it is invalid or exceeds the limits."""
    try:
        value = _decode_json(body)
    except RecursionError:
        raise _too_deep_error(limits) from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidJson(f"Invalid JSON: {_decode_error_text(error)}.") from None
    # A body without many bytes, brackets or escapes cannot exceed a limit, so most skip the walk.
    size = len(body)
    if (
        size > min(limits.keys, limits.items, limits.string)
        or (size > 2 * limits.depth and body.count(b"[") + body.count(b"{") > limits.depth)
        or ((b"\\" in body or not body.isascii() or b"\x7f" in body) and _MAY_BE_CONTROL.search(body))
    ):
        for depth, level in enumerate(_levels(value)):
            for item in level:
                _check_limits(item, depth, limits)
    return value


def _too_deep_error(limits: JsonLimits) -> TooDeep:
    return TooDeep(f"The JSON is nested deeper than {limits.depth} levels.")


def _decode_error_text(error: Exception) -> str:
    if isinstance(error, UnicodeError):
        return "not encoded as UTF-8"
    text = str(error).removeprefix("JSON is malformed: ")
    return text[:1].lower() + text[1:]


def _levels(value: Any) -> Iterator[list[Any]]:
    """Yield the values breadth-first, level by level."""
    level: list[Any] = [value]
    while level:
        yield level
        children: list[Any] = []
        for item in level:
            if type(item) is list:
                children += cast("list[Any]", item)
            elif type(item) is dict:
                children += cast("dict[str, Any]", item).values()
        level = children


def _is_deeper(value: Any, brackets: int, max_depth: int) -> bool:
    """Whether the nesting exceeds `max_depth`; a text with few `brackets` needs no walk."""
    if brackets <= max_depth:
        return False
    for depth, level in enumerate(_levels(value)):
        if depth == max_depth:
            return any(type(item) is list or type(item) is dict for item in level)
    return False


def _check_limits(item: Any, depth: int, limits: JsonLimits) -> None:
    if depth >= limits.depth and isinstance(item, list | dict):
        raise _too_deep_error(limits)
    if type(item) is str:
        _check_strings((item,), limits)
    elif type(item) is list:
        if len(cast("list[Any]", item)) > limits.items:
            raise InvalidValue(f"A list has more than {limits.items:,} items.")
    elif type(item) is dict:
        keys = cast("dict[str, Any]", item).keys()
        if len(keys) > limits.keys:
            raise InvalidValue(f"An object has more than {limits.keys:,} keys.")
        _check_strings(keys, limits)
        if any(not key.isprintable() and _CONTROL.search(key) for key in keys):
            raise InvalidJson("A key contains a control character.")


def _check_strings(texts: Collection[str], limits: JsonLimits) -> None:
    for text in texts:
        if len(text) * 4 > limits.string and len(text.encode()) > limits.string:
            raise TooLarge(f"A string is longer than {limits.string:,} bytes.", part="string")


def to_builtins(value: Any) -> Any:
    """Convert a value from workflow code, including models and dates, to plain JSON values. Raises NotJson.

    Containers are copied, so later changes by the workflow have no effect.
    """
    try:
        try:
            text = _encode_anything(value)
        except UnicodeEncodeError:
            text = encode(_replace_all_surrogates(msgspec.to_builtins(value, str_keys=True, enc_hook=_encode_hook)))
        copy = _decode_json(text)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise NotJson(f"a value of type {type(value).__name__} that is not JSON-serializable ({error})") from None
    if _is_deeper(copy, text.count(b"[") + text.count(b"{"), _MAX_ENCODED_DEPTH):
        raise NotJson(f"a value of type {type(value).__name__} that is nested deeper than {_MAX_ENCODED_DEPTH} levels")
    return copy


def is_encodable(value: Any) -> bool:
    """Whether the value can be encoded as JSON unchanged."""
    if type(value) in _SCALARS:
        return type(value) is not str or value.isascii() or _is_utf8(value)
    try:
        text = encode(value)
    except Exception:  # Foreign objects may raise anything.
        return False
    if len(text) <= 2 * _MAX_ENCODED_DEPTH:
        return True  # Too short to be nested too deeply.
    return not _is_deeper(value, text.count(b"[") + text.count(b"{"), _MAX_ENCODED_DEPTH)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def round_trip(value: _T) -> _T:
    """Encode and decode a Struct. Raises NotJson if a field does not match its type."""
    try:
        return msgspec.convert(to_builtins(value), type(value))
    except msgspec.ValidationError as error:
        raise NotJson(f"a value of type {type(value).__name__} with an invalid field ({error})") from None


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by U+FFFD."""
    if text.isascii() or _is_utf8(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _encode_hook(value: Any) -> Any:
    match value:
        case str():  # Subclasses, here and below. NumPy's float64 is a float.
            return str.__str__(value)
        case int():
            return int.__int__(value)
        case float():
            return float.__float__(value)
        case _:
            # Pydantic models convert themselves, without an import of pydantic.
            model = type(cast("object", value))
            dump = getattr(model, "model_dump", None)
            if dump is None:
                raise TypeError(f"unsupported type {model.__name__}")
            return dump(value, mode="json")


_encode_anything = msgspec.json.Encoder(enc_hook=_encode_hook).encode


def _replace_all_surrogates(value: Any) -> Any:
    match value:
        case str():
            return replace_surrogates(value)
        case list() | tuple():
            return [_replace_all_surrogates(item) for item in cast("list[Any]", value)]
        case dict():
            return {
                _replace_all_surrogates(key): _replace_all_surrogates(item)
                for key, item in cast("dict[Any, Any]", value).items()
            }
        case _:
            return value


Object = dict[str, Any]
dict_get = Object.get
"""`dict_get(object, key)`, bypassing methods of subclasses."""

_copy_list, _dict_items = list[Any].copy, Object.items


def is_object(value: object) -> TypeGuard[Object]:
    """Whether the value is a dict or a subclass, by its real type: `__class__` of a mock is ignored."""
    return type(value) is dict or issubclass(type(value), dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    return type(value) is list or issubclass(type(value), list)


def is_text(value: object) -> TypeGuard[str]:
    return type(value) is str or issubclass(type(value), str)


def list_items(value: list[Any]) -> list[Any]:
    """Return the list, or a plain copy of a subclass."""
    return value if type(value) is list else _copy_list(value)


def as_dict(value: object) -> Object | None:
    """Return the value as a plain dict, or None if it is not one."""
    if type(value) is dict:
        return value  # pyright: ignore[reportUnknownVariableType]  # JSON
    return dict(_dict_items(value)) if is_object(value) else None


def as_str(value: object) -> str | None:
    """Return the value as a plain `str`, or None if it is not one."""
    return value if type(value) is str else str.__str__(value) if is_text(value) else None


def plain_copy(value: object) -> Any:
    """Copy dict, list and str subclasses to plain ones, at any depth and with cycles, when their methods misbehave."""
    copies: dict[int, Any] = {}
    root: list[Any] = [None]
    pending: list[tuple[object, Any, Any]] = [(value, root, 0)]
    while pending:
        item, holder, key = pending.pop()
        copy = copies.get(id(item))
        if copy is None:
            copy, contents = _copy(item)
            copies[id(item)] = copy
            pending += [(inner, copy, inner_key) for inner_key, inner in contents]
        holder[key] = copy
    return root[0]


def _copy(item: object) -> tuple[Any, Iterable[tuple[Any, object]]]:
    """Return an empty copy and the values to fill in."""
    if is_object(item):
        return {}, [(name, inner) for key, inner in _dict_items(item) if (name := as_str(key)) is not None]
    if is_list(item):
        values = list_items(item)
        return [None] * len(values), enumerate(values)
    if is_text(item):
        return as_str(item), ()
    try:
        is_lookalike = isinstance(item, dict | list | str)
    except Exception:
        is_lookalike = True
    return (None if is_lookalike else item), ()


_MISSING_FIELD = re.compile(r"Object missing required field `(.*)`")
_TYPE_MISMATCH = re.compile(r"Expected `(.*)`, got `(.*)`")
_BOUND = re.compile(r"Expected `(?:int|float|int \| float)` (<=|>=|<|>) (.*)")
_LENGTH = re.compile(r"Expected `(str|array|object)`(?: \| `null`)? of length (<=|>=) (\d+)")
_PATTERN = re.compile(r"Expected `str`(?: \| `null`)? matching regex (.*)")
_INVALID_VALUE = re.compile(r"Invalid (?:enum )?value (.*)")
_PATH_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_JSON_TYPE_NAMES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "a boolean",
    "array": "a list",
    "object": "an object",
}
_BOUND_NAMES = {"<=": "at most", ">=": "at least", "<": "less than", ">": "greater than"}
_LENGTH_UNITS = {"str": "character", "array": "item", "object": "key"}


def decode_struct(value: Any, kind: type[_T]) -> _T:
    """Convert a JSON object to a Struct; unknown keys are ignored. Raises a RequestError with a pointer."""
    if not isinstance(value, dict):
        raise InvalidBody("The body must be a JSON object.")
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise validation_error(str(error)) from None


def validation_error(text: str) -> RequestError:
    """Convert the text of a msgspec.ValidationError to a RequestError with a JSON pointer."""
    why, pointer = split_location(text)
    if missing := _MISSING_FIELD.fullmatch(why):
        pointer = f"{pointer}/{escape_pointer(missing[1])}"
        return InvalidBody(f"Missing required field {pointer}.", pointer=pointer)
    error = InvalidType if _TYPE_MISMATCH.fullmatch(why) else InvalidValue
    return error(violation_text(pointer or "The body", why), pointer=pointer or None)


def split_location(text: str) -> tuple[str, str]:
    """Split the text of a msgspec.ValidationError into the reason and a JSON pointer, empty for the whole value."""
    why, separator, location = text.rpartition(" - at `")
    if not separator:
        return text, ""
    # msgspec does not name the keys of a mapping (`[...]`): the pointer then ends at the mapping.
    steps = _PATH_STEP.findall(location.partition("[...]")[0].removesuffix("`"))
    return why, "".join(f"/{escape_pointer(name or number)}" for name, number in steps)


def violation_text(field: str, why: str) -> str:
    """Describe an invalid field in a sentence, given msgspec's reason or any other."""
    if mismatch := _TYPE_MISMATCH.fullmatch(why):
        expected, actual = (
            re.sub(r"\w+", lambda word: _JSON_TYPE_NAMES.get(word[0], word[0]), kind) for kind in mismatch.groups()
        )
        return f"{field} must be {expected.replace(' | ', ' or ')}, not {actual}."
    if bound := _BOUND.fullmatch(why):
        return f"{field} must be {_BOUND_NAMES[bound[1]]} {bound[2].removesuffix('.0')}."
    if length := _LENGTH.fullmatch(why):
        kind, comparison, limit = length[1], length[2], int(length[3])
        if (comparison, limit) == (">=", 1):
            return f"{field} must not be empty."
        return f"{field} must have {_BOUND_NAMES[comparison]} {limit:,} {_LENGTH_UNITS[kind]}{'s' * (limit != 1)}."
    if pattern := _PATTERN.fullmatch(why):
        return f"{field} must match the pattern {pattern[1]}."
    if invalid := _INVALID_VALUE.fullmatch(why):
        return f"{field} has an invalid value: {invalid[1]}."
    return f"{field} is invalid: {why.replace('`', '').removesuffix('.')}."


_OBJECT, _LIST = (dict,), (list,)


def json_text(value: Any) -> str:
    """Encode a value as compact JSON text. Raises NotJson."""
    try:
        return encode(value).decode()
    except Exception:  # A model, a date or a lone surrogate may still be convertible.
        return encode(to_builtins(value)).decode()


def argument_text(value: Any) -> str:
    """Return a call's arguments as text: JSON of a value, empty for None."""
    if type(value) in _OBJECT:
        return json_text(value)
    if type(value) is str or value is None:
        return value or ""
    return str.__str__(value) if is_text(value) else json_text(value)


def ensure_json(value: Any) -> Any:
    """Return the value unchanged if it can be encoded, else converted. Raises NotJson."""
    if type(value) is str or value is None or is_encodable(value):
        return value
    return to_builtins(value)


def result_text(value: Any) -> str:
    return value if isinstance(value, str) else json_text(value)


def optional_str(value: Any) -> str | None:
    return value if value is None or type(value) is str else as_str(value)


def optional_int(value: Any) -> int | None:
    return value if type(value) is int else None


def dict_or_empty(value: Any) -> Object:
    return value if type(value) in _OBJECT else {} if value is None else as_dict(value) or {}


def as_list(value: Any) -> list[Any]:
    """Return a list unchanged, None as an empty list, any other value in a list."""
    if type(value) in _LIST:
        return value
    if value is None:
        return []
    return list_items(value) if is_list(value) else [value]


def without_none(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


JsonKind = Literal["null", "boolean", "number", "string", "array", "object"]


def json_kind(value: Any) -> JsonKind:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case _:
            return "object"


def json_equal(left: Any, right: Any, *, tolerance: float = 0) -> bool:
    """Whether two values are equal: 1 equals 1.0, true is not 1. Numbers may differ by `tolerance`."""
    kind = json_kind(left)
    if kind != json_kind(right):
        return False
    match kind:
        case "number":
            return _numbers_equal(left, right, tolerance)
        case "array":
            lefts, rights = cast("Sequence[Any]", left), cast("Sequence[Any]", right)
            return len(lefts) == len(rights) and all(
                json_equal(a, b, tolerance=tolerance) for a, b in zip(lefts, rights, strict=True)
            )
        case "object":
            left_fields, right_fields = cast("Mapping[str, Any]", left), cast("Mapping[str, Any]", right)
            return left_fields.keys() == right_fields.keys() and all(
                json_equal(left_fields[key], right_fields[key], tolerance=tolerance) for key in left_fields
            )
        case _:
            return left == right


def _numbers_equal(left: float, right: float, tolerance: float) -> bool:
    if left == right:
        return True
    try:
        return tolerance > 0 and abs(left - right) <= tolerance
    except OverflowError:  # An integer that no float can hold.
        return False
