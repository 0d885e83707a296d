"""Decoding untrusted JSON into Structs, with errors that point to the invalid value."""

from typing import Annotated, Any, Literal

import msgspec
import pytest

from palaver.core.json import decode_struct, validation_error
from palaver.errors import RequestError


class Inner(msgspec.Struct):
    size: int


class Outer(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(max_length=3)]
    inner: list[Inner] = []
    named: dict[str, Inner] = {}
    word: Literal["a", "b"] = "a"
    either: int | str | None = None


def test_valid_values_are_decoded_and_unknown_fields_ignored() -> None:
    assert decode_struct({"name": "x", "inner": [{"size": 1}], "more": 1}, Outer) == Outer(name="x", inner=[Inner(1)])


@pytest.mark.parametrize(
    ("value", "code", "pointer", "message"),
    [
        ([], "invalid_body", None, "The body must be a JSON object."),
        ({}, "invalid_body", "/name", "Missing required field /name."),
        ({"name": "x", "inner": [{}]}, "invalid_body", "/inner/0/size", "Missing required field /inner/0/size."),
        ({"name": 1}, "invalid_type", "/name", "/name must be a string, not an integer."),
        ({"name": "x", "inner": {}}, "invalid_type", "/inner", "/inner must be a list, not an object."),
        (
            {"name": "x", "inner": [{"size": 1}, {"size": True}]},
            "invalid_type",
            "/inner/1/size",
            "/inner/1/size must be an integer, not a boolean.",
        ),
        (
            {"name": "x", "either": 1.5},
            "invalid_type",
            "/either",
            "/either must be an integer or a string or null, not a number.",
        ),
        (
            {"name": "x", "named": {"k": {"size": "1"}}},
            "invalid_type",
            "/named",
            "/named must be an integer, not a string.",
        ),
        ({"name": "long"}, "invalid_value", "/name", "/name must have at most 3 characters."),
        ({"name": "x", "word": "c"}, "invalid_value", "/word", "/word has an invalid value: 'c'."),
    ],
)
def test_invalid_values_raise_an_error_with_a_pointer(value: Any, code: str, pointer: str | None, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        decode_struct(value, Outer)
    assert (caught.value.code, caught.value.pointer, caught.value.message) == (code, pointer, message)


def test_an_error_about_the_root_value_has_no_pointer() -> None:
    error = validation_error("Expected `object`, got `int`")

    assert (error.code, error.pointer, error.message) == (
        "invalid_type",
        None,
        "The body must be an object, not an integer.",
    )
