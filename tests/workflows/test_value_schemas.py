"""Parsing values by an annotation, with errors that point to the invalid value."""

import dataclasses
import datetime as dt
import decimal
import enum
import sys
import uuid
from typing import Annotated, Any, Literal, TypedDict

import annotated_types
import msgspec
import pydantic
import pytest

from palaver.core.json import escape_pointer
from palaver.workflows.annotations import SchemaError, SchemaErrors, schema_for


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x is left of the page")


class Struct(msgspec.Struct):
    x: int


class Base(pydantic.BaseModel):
    x: int
    when: dt.date | None = None


class Typed(TypedDict):
    x: int


@dataclasses.dataclass
class Marked:
    x: Annotated[int, pydantic.Field(gt=0)]
    again: "list[Marked] | None" = None


@pydantic.dataclasses.dataclass
class Checked:
    x: Annotated[int, pydantic.Field(gt=0)]


class Opaque: ...


class Tree(msgspec.Struct):
    children: "list[Tree]" = []


VALID_VALUES: list[tuple[Any, Any, Any]] = [
    (int, 8, 8),
    (float, 1, 1.0),
    (str | None, None, None),
    (list[int], [1], [1]),
    (tuple[int, str], [1, "a"], (1, "a")),
    (set[int], [1, 1], {1}),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (dict[int, str], {"1": "a"}, {1: "a"}),
    (Literal["a", 2], 2, 2),
    (Colour, "red", Colour.RED),
    (dt.date, "2026-01-02", dt.date(2026, 1, 2)),
    (decimal.Decimal, "1.5", decimal.Decimal("1.5")),
    (uuid.UUID, "12345678123456781234567812345678", uuid.UUID("12345678123456781234567812345678")),
    (bytes, "aGk=", b"hi"),
    (Point, {"x": 1}, Point(1)),
    (Struct, {"x": 1, "more": 2}, Struct(1)),
    (list[Struct], [{"x": 1}], [Struct(1)]),
    (Base, {"x": 1, "when": "2026-01-02"}, Base(x=1, when=dt.date(2026, 1, 2))),
    (list[Base], [{"x": 1}], [Base(x=1)]),
    (Base | None, None, None),
    (Typed, {"x": 1}, {"x": 1}),
    (Checked, {"x": 1}, Checked(x=1)),
    (Annotated[int, pydantic.Field(gt=1)], 2, 2),
    (Annotated[int, msgspec.Meta(gt=1)], 2, 2),
    (Annotated[str, "a note"], "a", "a"),
    (Tree, {"children": [{}]}, Tree([Tree()])),
    (Any, {"a": [object]}, {"a": [object]}),
    (object, 5, 5),
    ("Unknown", 5, 5),
    (Opaque, 5, 5),
    (list[Opaque], [5], [5]),
]


@pytest.mark.parametrize(("annotation", "value", "expected"), VALID_VALUES, ids=[str(case[0]) for case in VALID_VALUES])
def test_a_value_is_parsed_by_its_annotation(annotation: Any, value: Any, expected: Any) -> None:
    assert schema_for(annotation).read(value) == expected


INVALID_VALUES: list[tuple[Any, Any, list[SchemaError]]] = [
    (int, "8", [SchemaError("", "Expected `int`, got `str`")]),
    (int, True, [SchemaError("", "Expected `int`, got `bool`")]),
    (int, 1.5, [SchemaError("", "Expected `int`, got `float`")]),
    (int, None, [SchemaError("", "Expected `int`, got `null`")]),
    (str, 8, [SchemaError("", "Expected `str`, got `int`")]),
    (bool, 1, [SchemaError("", "Expected `bool`, got `int`")]),
    (Colour, "green", [SchemaError("", "Invalid enum value 'green'")]),
    (list[int], [1, "2"], [SchemaError("/1", "Expected `int`, got `str`")]),
    (list[Struct], [{"x": 1}, {}], [SchemaError("/1", "Object missing required field `x`")]),
    (list[list[Struct]], [[{"x": "1"}]], [SchemaError("/0/0/x", "Expected `int`, got `str`")]),
    (dict[str, list[int]], {"a": ["1"]}, [SchemaError("", "Expected `int`, got `str`")]),
    (dict[int, int], {"a": 1}, [SchemaError("", "Expected `int`, got `str`")]),
    (dict[str, dict[int, int]], {"a": {"1": "b"}}, [SchemaError("", "Expected `int`, got `str`")]),
    (Point, {"x": -1}, [SchemaError("", "x is left of the page")]),
    (Annotated[int, msgspec.Meta(gt=1)], 1, [SchemaError("", "Expected `int` >= 2")]),
    (Base, {}, [SchemaError("/x", "Field required")]),
    (
        Base,
        {"x": "1", "when": 5},
        [SchemaError("/x", "Input should be a valid integer"), SchemaError("/when", "Input should be a valid date")],
    ),
    (list[Base], [{"x": 1}, {"x": None}], [SchemaError("/1/x", "Input should be a valid integer")]),
    (
        Annotated[int | list[str], pydantic.Field()],
        [1],
        [SchemaError("", "Input should be a valid integer"), SchemaError("/0", "Input should be a valid string")],
    ),
    (Typed, {"x": None}, [SchemaError("/x", "Expected `int`, got `null`")]),
    (Marked, {"x": 0}, [SchemaError("/x", "Input should be greater than 0")]),
    (Checked, {"x": 0}, [SchemaError("/x", "Input should be greater than 0")]),
    (Annotated[int, annotated_types.Gt(1)], 1, [SchemaError("", "Input should be greater than 1")]),
    (
        Annotated[dict[str, int], pydantic.Field()],
        {"a/b": "x"},
        [SchemaError("/a~1b", "Input should be a valid integer")],
    ),
]


@pytest.mark.parametrize(
    ("annotation", "value", "expected_errors"), INVALID_VALUES, ids=[f"{case[0]} {case[1]}" for case in INVALID_VALUES]
)
def test_an_invalid_value_is_rejected_with_a_pointer(
    annotation: Any, value: Any, expected_errors: list[SchemaError]
) -> None:
    with pytest.raises(SchemaErrors) as refused:
        schema_for(annotation).read(value)

    assert refused.value.errors == expected_errors


@pytest.mark.parametrize(
    ("annotation", "known"),
    [(int, True), (Any, True), (object, True), (Base, True), ("Unknown", False), (Opaque, False)],
)
def test_has_schema_tells_whether_the_annotation_is_known(annotation: Any, known: bool) -> None:
    assert schema_for(annotation).has_schema is known


def test_without_pydantic_an_annotation_that_msgspec_cannot_read_takes_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "pydantic")

    value_schema = schema_for(Opaque)

    assert (value_schema.has_schema, value_schema.schema(), value_schema.read("x")) == (False, ({}, {}), "x")


@pytest.mark.parametrize(("step", "escaped"), [("a", "a"), ("a/b", "a~1b"), ("a~b", "a~0b"), ("~1", "~01")])
def test_a_step_of_a_pointer_is_escaped(step: str, escaped: str) -> None:
    assert escape_pointer(step) == escaped
