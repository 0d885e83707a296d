"""Decoding untrusted JSON within limits, and encoding the values of authors."""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import json
from palaver.core.events import TextEnded
from palaver.core.messages import Annotation, Data, Message, Text
from palaver.errors import RequestError
from tests.core.strategies import Unwritable
from tests.core.strategies import jsons as values

MIB = 1024 * 1024


def nested(depth: int, inner: str = "") -> bytes:
    """`depth` lists nested inside each other."""
    return b"[" * depth + inner.encode() + b"]" * depth


ACCEPTED_BODIES: dict[str, tuple[bytes, Any]] = {
    "an object": (b'{"a": [1, 2.5, "x", true, null]}', {"a": [1, 2.5, "x", True, None]}),
    "a bare string": (b'"x"', "x"),
    "the last of repeated keys": (b'{"a": 1, "a": 2}', {"a": 2}),
    "an escaped pair of surrogates": (b'"\\ud83d\\ude00"', "😀"),
    "NUL and controls in a string": (b'["\\u0000\\u001f\x7f"]', ["\x00\x1f\x7f"]),
    "a large integer": (b"123456789012345678901234567890", 123456789012345678901234567890),
    "words in a key": (b'{"a key, \xc3\xa9 and \xe2\x80\xa6": 1}', {"a key, é and …": 1}),
    "an empty key": (b'{"": "\\n"}', {"": "\n"}),
}


@pytest.mark.parametrize(("body", "value"), ACCEPTED_BODIES.values(), ids=ACCEPTED_BODIES)
def test_valid_json_is_decoded(body: bytes, value: Any) -> None:
    assert json.decode(body) == value


def join_entries(count: int, format_entry: Callable[[int], str]) -> bytes:
    return ",".join(map(format_entry, range(count))).encode()


@pytest.mark.parametrize(
    "body",
    [
        nested(64),
        nested(64, "1"),
        b'{"a":' * 64 + b'"x"' + b"}" * 64,
        b"[" + b"[]," * 1000 + b"[]]",
        b"{" + join_entries(10_000, '"{}":1'.format) + b"}",
        b"[" + join_entries(100_000, "{}".format) + b"]",
        b'"' + b"a" * 4 * MIB + b'"',
    ],
    ids=["depth", "depth with a leaf", "depth of objects", "many lists side by side", "keys", "items", "string"],
)
def test_json_at_a_limit_is_decoded(body: bytes) -> None:
    assert json.decode(body) == msgspec.json.decode(body)


REJECTED_BODIES: dict[str, tuple[bytes, str, str]] = {
    "nothing": (b"", "invalid_json", "Invalid JSON: input data was truncated."),
    "malformed": (b'{"a": }', "invalid_json", "Invalid JSON: invalid character (byte 6)."),
    "two values": (b"1 2", "invalid_json", "Invalid JSON: trailing characters (byte 3)."),
    "NaN": (b"[NaN]", "invalid_json", "Invalid JSON: invalid character (byte 1)."),
    "Infinity": (b"-Infinity", "invalid_json", "Invalid JSON: invalid character (byte 1)."),
    "out of range": (b"[1e999]", "invalid_json", "Invalid JSON: number out of range - at `$[0]`."),
    "a high surrogate alone": (
        b'"\\ud800\\u0041"',
        "invalid_json",
        "Invalid JSON: invalid utf-16 surrogate pair (byte 13).",
    ),
    "a low surrogate alone": (
        b'"\\udc00"',
        "invalid_json",
        "Invalid JSON: invalid utf-16 surrogate pair (byte 7).",
    ),
    "not UTF-8": (b'{"a": "\xff"}', "invalid_json", "Invalid JSON: not encoded as UTF-8."),
    "a surrogate in UTF-8": (b'"\xed\xa0\x80"', "invalid_json", "Invalid JSON: not encoded as UTF-8."),
    "an endless list": (b"[" * 100_000, "too_deep", "The JSON is nested deeper than 64 levels."),
    "an endless object": (b'{"a":' * 100_000, "too_deep", "The JSON is nested deeper than 64 levels."),
    "one level too deep": (nested(65), "too_deep", "The JSON is nested deeper than 64 levels."),
    "an object too deep": (nested(64, '{"a":1}'), "too_deep", "The JSON is nested deeper than 64 levels."),
    "too many keys": (
        b'[{"a":{' + join_entries(10_001, '"{}":1'.format) + b"}}]",
        "invalid_value",
        "An object has more than 10,000 keys.",
    ),
    "too many items": (
        b'{"a":[' + join_entries(100_001, "{}".format) + b"]}",
        "invalid_value",
        "A list has more than 100,000 items.",
    ),
    "NUL in a key": (b'{"a\\u0000": 1}', "invalid_json", "A key contains a control character."),
    "a line break in a key": (b'[{"b": {"a\\n": 1}}]', "invalid_json", "A key contains a control character."),
    "DEL in a key": (b'{"a\x7f": 1}', "invalid_json", "A key contains a control character."),
    "a C1 control in a key": (b'{"a\xc2\x85": 1}', "invalid_json", "A key contains a control character."),
    "a long string": (b'["' + b"a" * 5 * MIB + b'"]', "too_large", "A string is longer than 4,194,304 bytes."),
    "a string of many bytes": (
        b'["' + "é".encode() * 3 * MIB + b'"]',
        "too_large",
        "A string is longer than 4,194,304 bytes.",
    ),
    "a long key": (b'{"' + b"a" * 5 * MIB + b'": 1}', "too_large", "A string is longer than 4,194,304 bytes."),
}


@pytest.mark.parametrize(("body", "code", "message"), REJECTED_BODIES.values(), ids=REJECTED_BODIES)
def test_invalid_json_and_json_beyond_a_limit_are_rejected(body: bytes, code: str, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        json.decode(body)

    assert (caught.value.code, caught.value.message) == (code, message)


@pytest.mark.parametrize(
    ("limits", "body", "code"),
    [
        (json.JsonLimits(depth=2), b"[[[]]]", "too_deep"),
        (json.JsonLimits(keys=2), b'{"a":1,"b":1,"c":1}', "invalid_value"),
        (json.JsonLimits(items=2), b"[1,2,3]", "invalid_value"),
        (json.JsonLimits(string=2), b'"abc"', "too_large"),
    ],
)
def test_every_limit_can_be_set_and_applies_to_short_bodies(limits: json.JsonLimits, body: bytes, code: str) -> None:
    with pytest.raises(RequestError) as caught:
        json.decode(body, limits)

    assert caught.value.code == code


@given(st.binary(max_size=40))
def test_any_bytes_decode_to_a_value_or_raise_a_request_error(body: bytes) -> None:
    try:
        value = json.decode(body)
    except RequestError:
        return
    assert value == msgspec.json.decode(body)


@given(values)
def test_encoded_values_are_decoded_unchanged(value: Any) -> None:
    encoded = json.encode(value)

    assert json.parse_or_text(encoded.decode()) == value
    assert json.to_builtins(value) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1]}', {"a": [1]}),
        ("  12 ", 12),
        ("twelve", "twelve"),
        ("", ""),
        ("[1", "[1"),
        ("1e999", "1e999"),
        ("[" * 100_000, "[" * 100_000),
        ("[" * 65 + "]" * 65, "[" * 65 + "]" * 65),
        ("[[],[],[]]", [[], [], []]),
        ("[" + "[]," * 64 + "[]]", [[]] * 65),
        ('"\ud800"', '"\ud800"'),
    ],
    ids=[
        "JSON",
        "white space",
        "text",
        "empty",
        "cut off",
        "out of range",
        "endless",
        "too deep",
        "flat",
        "wide",
        "half",
    ],
)
def test_json_text_is_parsed_and_other_text_is_returned_unchanged(text: str, value: Any) -> None:
    assert json.parse_or_text(text) == value


# Values of workflow authors


class Colour(enum.Enum):
    RED = "red"


class TextSubclass(str):
    pass


class IntSubclass(int):
    pass


class FloatSubclass(float):
    pass


class Model(pydantic.BaseModel):
    name: str
    day: date


@dataclass
class Point:
    x: int


class Pair(msgspec.Struct):
    left: Any
    right: Any = None


PLAIN_VALUES: dict[str, tuple[Any, Any]] = {
    "JSON": ({"a": [1, 2.5, None, True, "é"]}, {"a": [1, 2.5, None, True, "é"]}),
    "a tuple": ((1, (2,)), [1, [2]]),
    "a set": ({1}, [1]),
    "numbers that are not finite": ([float("nan"), float("inf")], [None, None]),
    "keys that are numbers": ({1: "a", 2.5: "b"}, {"1": "a", "2.5": "b"}),
    "a moment": (datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC), "2025-01-02T03:04:05Z"),
    "a day": (date(2025, 1, 2), "2025-01-02"),
    "a decimal": (Decimal("1.10"), "1.10"),
    "a UUID": (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "bytes": (b"ab", "YWI="),
    "an enum": (Colour.RED, "red"),
    "a dataclass": ([Point(1)], [{"x": 1}]),
    "a struct": (Pair(left=(1,)), {"left": [1], "right": None}),
    "a part": (Text(text="a"), {"type": "text", "text": "a"}),
    "a pydantic model": ({"m": Model(name="a", day=date(2025, 1, 2))}, {"m": {"name": "a", "day": "2025-01-02"}}),
    "subclasses of text and numbers": ([TextSubclass("a"), IntSubclass(2), FloatSubclass(2.5)], ["a", 2, 2.5]),
    "half a character": (["a\ud800b", {"\udfff": ("\ud83d\ude00",)}], ["a\ufffdb", {"\ufffd": ["😀"]}]),
    "half a character in a model": (Pair(left="\ud800", right=Point(1)), {"left": "\ufffd", "right": {"x": 1}}),
    "256 levels": (msgspec.json.decode(nested(256)), msgspec.json.decode(nested(256))),
}


@pytest.mark.parametrize(("value", "plain"), PLAIN_VALUES.values(), ids=PLAIN_VALUES)
def test_an_authors_value_becomes_plain_json(value: Any, plain: Any) -> None:
    assert json.to_builtins(value) == plain
    assert msgspec.json.decode(json.encode(json.to_builtins(value))) == plain


def cyclic_list() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


NOT_JSON: dict[str, tuple[Any, str]] = {
    "an object": (
        Unwritable(),
        "a value of type Unwritable that is not JSON-serializable (unsupported type Unwritable)",
    ),
    "an object inside": (
        {"a": [Unwritable()]},
        "a value of type dict that is not JSON-serializable (unsupported type Unwritable)",
    ),
    "an object beside half a character": (
        ["\ud800", Unwritable()],
        "a value of type list that is not JSON-serializable (unsupported type Unwritable)",
    ),
    "a class": (Unwritable, "a value of type type that is not JSON-serializable (unsupported type type)"),
    "keys that are not text": (
        {(1, 2): 3},
        "a value of type dict that is not JSON-serializable (unsupported type tuple)",
    ),
    "itself inside itself": (
        cyclic_list(),
        (
            "a value of type list that is not JSON-serializable "
            "(maximum recursion depth exceeded while serializing an object)"
        ),
    ),
    "257 levels": (msgspec.json.decode(nested(257)), "a value of type list that is nested deeper than 256 levels"),
}


@pytest.mark.parametrize(("value", "why"), NOT_JSON.values(), ids=NOT_JSON)
def test_a_value_without_a_json_form_raises_with_the_reason(value: Any, why: str) -> None:
    with pytest.raises(json.NotJson) as caught:
        json.to_builtins(value)

    assert str(caught.value) == why


def test_a_plain_value_is_a_copy() -> None:
    value = {"list": [1]}

    plain = json.to_builtins(value)
    value["list"].append(2)

    assert plain == {"list": [1]}


def test_round_trip_returns_a_struct_as_a_reader_decodes_it() -> None:
    note = Annotation(kind="url", url="https://host/\ud800")

    assert json.round_trip(TextEnded(item="x", annotations=[note])) == TextEnded(  # type: ignore[arg-type]
        item="x", annotations=(Annotation(kind="url", url="https://host/\ufffd"),)
    )
    assert json.round_trip(Data(name="n", value={1})) == Data(name="n", value=[1])


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (
            Message(role="robot", parts=()),  # type: ignore[arg-type]
            "a value of type Message with an invalid field (Invalid enum value 'robot' - at `$.role`)",
        ),
        (
            Text(text=5),  # type: ignore[arg-type]
            "a value of type Text with an invalid field (Expected `str`, got `int` - at `$.text`)",
        ),
        (
            Data(name="n", value=Unwritable()),
            "a value of type Data that is not JSON-serializable (unsupported type Unwritable)",
        ),
    ],
)
def test_round_trip_of_an_invalid_struct_raises_with_the_reason(value: Any, why: str) -> None:
    with pytest.raises(json.NotJson) as caught:
        json.round_trip(value)

    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("é😀", "é😀"),
        ("\ud800", "\ufffd"),
        ("a\ud800b\udc00c", "a\ufffdb\ufffdc"),
        ("\ud83d\ude00", "😀"),
        ("\ufeff\udc00", "\ufeff\ufffd"),
    ],
)
def test_lone_surrogates_are_replaced_and_pairs_are_joined(text: str, expected: str) -> None:
    assert json.replace_surrogates(text) == expected


@given(st.text(st.characters(exclude_categories=[])))
def test_text_with_replaced_surrogates_can_be_encoded_and_is_stable(text: str) -> None:
    cleaned = json.replace_surrogates(text)

    assert cleaned.encode().decode() == cleaned
    assert json.replace_surrogates(cleaned) == cleaned
