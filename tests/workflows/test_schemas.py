"""JSON Schemas of a function's inputs and output."""

import datetime as dt
import decimal
import enum
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Optional, TypedDict

import msgspec
import pydantic
import pytest

from palaver.core.messages import Message
from palaver.workflows.context import Context
from palaver.workflows.schemas import defaults_of, schemas_of
from palaver.workflows.signature import Parameter, read_signature
from tests.workflows import postponed_annotations

DRAFT = "https://json-schema.org/draft/2020-12/schema"
MESSAGES = {"type": "array", "items": {"type": "object"}, "x-ag-type-ref": "messages"}


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    S = 1
    L = 2


@dataclass
class Point:
    """A place."""

    x: int
    y: int = 0


class Typed(TypedDict, total=False):
    x: int


class Struct(msgspec.Struct):
    x: Annotated[int, msgspec.Meta(ge=0, description="Across.")] = 1


class Base(pydantic.BaseModel):
    x: int = pydantic.Field(1, ge=0, description="Across.")


class Nested(msgspec.Struct):
    inner: Struct


class Tree(msgspec.Struct):
    children: "list[Tree]" = []


class Opaque: ...


class Cat(msgspec.Struct, tag=True):
    name: str


class Dog(msgspec.Struct, tag=True):
    name: str


def function_schemas(function: Any, *, is_chat: bool = False) -> Any:
    return schemas_of(read_signature(function, is_chat=is_chat, name="w"), is_chat=is_chat)


def function_with_parameter(annotation: Any, *default: Any) -> Any:
    """A function with one parameter, x."""

    def f(x): ...

    f.__annotations__ = {"x": annotation}
    f.__defaults__ = default
    return f


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


# One annotation


ANNOTATIONS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "str": (str, {"type": "string"}, {}),
    "int": (int, {"type": "integer"}, {}),
    "float": (float, {"type": "number"}, {}),
    "bool": (bool, {"type": "boolean"}, {}),
    "None": (None, {"type": "null"}, {}),
    "Any": (Any, {}, {}),
    "object": (object, {}, {}),
    "list": (list, {"type": "array"}, {}),
    "list[int]": (list[int], {"type": "array", "items": {"type": "integer"}}, {}),
    "dict[str, int]": (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, {}),
    "int | None": (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, {}),
    "Optional": (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}, {}),  # noqa: UP045
    "Literal": (Literal["a", "b"], {"enum": ["a", "b"]}, {}),
    "date": (dt.date, {"type": "string", "format": "date"}, {}),
    "Decimal": (decimal.Decimal, {"type": "string", "format": "decimal"}, {}),
    "Enum": (Colour, ref("Colour"), {"Colour": {"title": "Colour", "enum": ["blue", "red"]}}),
    "IntEnum": (Size, ref("Size"), {"Size": {"title": "Size", "enum": [1, 2]}}),
    "a dataclass": (
        Point,
        ref("Point"),
        {
            "Point": {
                "title": "Point",
                "description": "A place.",
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
                "required": ["x"],
            }
        },
    ),
    "a TypedDict": (
        Typed,
        ref("Typed"),
        {"Typed": {"title": "Typed", "type": "object", "properties": {"x": {"type": "integer"}}, "required": []}},
    ),
    "a struct": (
        Struct,
        ref("Struct"),
        {
            "Struct": {
                "title": "Struct",
                "type": "object",
                "properties": {"x": {"type": "integer", "minimum": 0, "description": "Across.", "default": 1}},
                "required": [],
            }
        },
    ),
    "a pydantic model": (
        Base,
        {
            "title": "Base",
            "type": "object",
            "properties": {
                "x": {"type": "integer", "minimum": 0, "description": "Across.", "default": 1, "title": "X"}
            },
        },
        {},
    ),
    "a list of pydantic models": (
        list[Base],
        {"type": "array", "items": ref("Base")},
        {
            "Base": {
                "title": "Base",
                "type": "object",
                "properties": {
                    "x": {"type": "integer", "minimum": 0, "description": "Across.", "default": 1, "title": "X"}
                },
            }
        },
    ),
    "a recursive struct": (
        Tree,
        ref("Tree"),
        {
            "Tree": {
                "title": "Tree",
                "type": "object",
                "properties": {"children": {"type": "array", "items": ref("Tree"), "default": []}},
                "required": [],
            }
        },
    ),
    "Annotated with a pydantic Field": (
        Annotated[int, pydantic.Field(gt=1, description="Many.")],
        {"type": "integer", "exclusiveMinimum": 1, "description": "Many."},
        {},
    ),
    "Annotated with a msgspec Meta": (
        Annotated[int, msgspec.Meta(gt=1, description="Many.")],
        {"type": "integer", "exclusiveMinimum": 1, "description": "Many."},
        {},
    ),
    "Annotated with a text": (Annotated[int, "Many."], {"type": "integer", "description": "Many."}, {}),
    "a class that nobody can read": (Opaque, {}, {}),
    "a name that nobody knows": ("Unknown", {}, {}),
}


@pytest.mark.parametrize("case", ANNOTATIONS)
def test_an_annotation_becomes_the_schema_of_an_input(case: str) -> None:
    annotation, schema, defs = ANNOTATIONS[case]

    assert function_schemas(function_with_parameter(annotation)).inputs == {
        "$schema": DRAFT,
        "type": "object",
        "properties": {"x": schema},
        "additionalProperties": False,
        "required": ["x"],
        **({"$defs": defs} if defs else {}),
    }


# Defaults


DEFAULTS: dict[str, tuple[Any, Any, list[Any]]] = {
    "text": (str, "maths", ["maths"]),
    "null": (int | None, None, [None]),
    "an enum": (Colour, Colour.RED, ["red"]),
    "a date": (dt.date, dt.date(2026, 1, 2), ["2026-01-02"]),
    "a dataclass": (Point, Point(1), [{"x": 1, "y": 0}]),
    "a tuple": (tuple[int, ...], (1, 2), [[1, 2]]),
    "a pydantic model": (Base, Base(x=2), [{"x": 2}]),
    "without an annotation": (Any, {"a": 1}, [{"a": 1}]),
    "not JSON": (Any, object(), []),
    "not JSON inside": (Any, [print], []),
    "infinite": (float, float("inf"), []),
    "null where none fits": (int, None, []),
    "of another type": (int, "8", []),
}


@pytest.mark.parametrize("case", DEFAULTS)
def test_a_default_is_in_the_schema_if_a_caller_could_send_it(case: str) -> None:
    annotation, default, rendered = DEFAULTS[case]

    signature = read_signature(function_with_parameter(annotation, default), is_chat=False, name="w")
    inputs: Any = schemas_of(signature, is_chat=False).inputs

    assert list(defaults_of(signature.by_use("input")).items()) == [("x", value) for value in rendered]
    assert [inputs["properties"]["x"]["default"] for _ in rendered] == rendered
    assert "default" in inputs["properties"]["x"] or not rendered
    assert "required" not in inputs


# Whole functions


def test_the_inputs_of_a_chat_begin_with_its_messages() -> None:
    def tutor(subject: str = "maths", /, *, messages: list[Message], ctx: Context) -> None:
        """Explains.

        Args:
            subject: What about.
        """

    assert function_schemas(tutor, is_chat=True) == msgspec.convert(
        {
            "inputs": {
                "$schema": DRAFT,
                "type": "object",
                "properties": {
                    "messages": MESSAGES,
                    "subject": {"type": "string", "default": "maths", "description": "What about."},
                },
                "additionalProperties": False,
                "required": ["messages"],
            },
            "parameters": {"$schema": DRAFT, "type": "object", "properties": {}, "additionalProperties": False},
            "outputs": {
                "$schema": DRAFT,
                "x-ag-type-ref": "message",
                "anyOf": [
                    {"type": "object", "required": ["role"]},
                    {"type": "array", "items": {"type": "object", "required": ["role"]}, "x-ag-type-ref": "messages"},
                ],
            },
        },
        type(function_schemas(tutor, is_chat=True)),
    )


def test_the_history_input_is_named_messages_for_any_parameter_name() -> None:
    def tutor(talk: list[Message] | None = None) -> str: ...

    inputs = function_schemas(tutor, is_chat=True).inputs

    assert (inputs["properties"], inputs["required"]) == ({"messages": MESSAGES}, ["messages"])


def test_messages_of_a_workflow_that_is_not_a_chat_are_an_unmarked_input() -> None:
    def count(messages: list[dict[str, Any]]) -> int: ...

    inputs = function_schemas(count).inputs

    assert inputs["properties"] == {"messages": {"type": "array", "items": {"type": "object"}}}
    assert "x-ag" not in str(function_schemas(count))


def test_keyword_arguments_allow_additional_inputs() -> None:
    def f(x: int, **more: Any) -> None: ...

    assert function_schemas(f).inputs["additionalProperties"] is True


def test_positional_and_keyword_only_arguments_are_inputs_like_any_other() -> None:
    def f(a: int, /, b: int, *rest: int, c: int, d: int = 1) -> None: ...

    inputs = function_schemas(f).inputs

    assert list(inputs["properties"]) == ["a", "b", "c", "d"]
    assert inputs["required"] == ["a", "b", "c"]


class Agent:
    def __call__(self, x: int) -> str: ...

    def method(self, x: int) -> str: ...


@pytest.mark.parametrize(
    "function",
    [Agent(), Agent().method, functools.partial(Agent().method), functools.partial(Agent(), x=1)],
    ids=["object", "method", "partial of a method", "partial of an object"],
)
def test_any_callable_has_schemas(function: Any) -> None:
    schemas = function_schemas(function)

    assert schemas.inputs["properties"]["x"]["type"] == "integer"
    assert schemas.outputs == {"$schema": DRAFT, "type": "string"}


def test_postponed_and_type_checking_only_annotations_are_supported() -> None:
    schemas = function_schemas(postponed_annotations.tutor, is_chat=True)

    assert schemas.inputs["properties"] == {
        "messages": MESSAGES,
        "price": {},
        "subject": {"type": "string", "default": "maths"},
    }
    assert schemas.parameters["properties"] == {"heat": {"type": "number", "description": "How wild.", "default": 0.2}}
    assert read_signature(postponed_annotations.tutor, is_chat=True, name="w").dialect == "palaver"
    assert function_schemas(postponed_annotations.configured).parameters == {
        "$schema": DRAFT,
        "type": "object",
        "properties": {"heat": {"type": "number"}, "words": {"type": "integer"}},
        "additionalProperties": False,
        "required": ["heat"],
    }
    assert function_schemas(postponed_annotations.configured).outputs["type"] == "array"


# Two definitions of one name


def test_different_definitions_with_the_same_name_are_renamed() -> None:
    def one() -> Any:
        class Item(msgspec.Struct):
            a: int

        return Item

    def two() -> Any:
        class Item(msgspec.Struct):
            b: "list[Item]"

        Item.__annotations__["b"] = list[Item]
        return Item

    first, second = one(), two()

    def f(x, y, z): ...

    f.__annotations__ = {"x": first, "y": second, "z": first}
    inputs = function_schemas(f).inputs

    assert inputs["properties"] == {"x": ref("Item"), "y": ref("Item_2"), "z": ref("Item")}
    assert inputs["$defs"] == {
        "Item": {"title": "Item", "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        "Item_2": {
            "title": "Item",
            "type": "object",
            "properties": {"b": {"type": "array", "items": ref("Item_2")}},
            "required": ["b"],
        },
    }


def test_the_mapping_of_a_discriminator_uses_renamed_definitions() -> None:
    class Other:
        Cat = msgspec.defstruct("Cat", [("lives", int)])

    def f(x, y): ...

    f.__annotations__ = {"x": Other.Cat, "y": Cat | Dog}
    schema = function_schemas(f).inputs["properties"]["y"]

    assert schema == {
        "anyOf": [ref("Cat_2"), ref("Dog_2")],
        "discriminator": {"propertyName": "type", "mapping": {"Cat": "#/$defs/Cat_2", "Dog": "#/$defs/Dog_2"}},
    }


# Parameters


@dataclass
class DataConfig:
    need: int
    heat: Annotated[float, msgspec.Meta(ge=0, description="How wild.")] = 0.2
    stop: list[str] = field(default_factory=list)
    place: Point = field(default_factory=lambda: Point(1))


class StructConfig(msgspec.Struct, kw_only=True):
    need: int
    heat: Annotated[float, msgspec.Meta(ge=0, description="How wild.")] = 0.2
    stop: list[str] = []
    place: Point = msgspec.field(default_factory=lambda: Point(1))


class BaseConfig(pydantic.BaseModel):
    need: int
    heat: float = pydantic.Field(0.2, ge=0, description="How wild.")
    stop: list[str] = pydantic.Field(default_factory=list)
    place: Point = pydantic.Field(default_factory=lambda: Point(1))


class TypedConfig(TypedDict):
    need: int
    heat: Annotated[float, msgspec.Meta(ge=0), "How wild."]
    stop: list[str]
    place: Point


def function_with_config(kind: Any, *default: Any) -> Any:
    def f(config): ...

    f.__annotations__ = {"config": kind}
    f.__defaults__ = default
    return f


@pytest.mark.parametrize("kind", [DataConfig, StructConfig, BaseConfig])
def test_the_fields_of_a_config_model_are_the_parameters(kind: Any) -> None:
    parameters: Any = function_schemas(function_with_config(kind)).parameters

    properties = parameters["properties"]
    place_schema = properties.pop("place")
    assert properties == {
        "need": {"type": "integer"},
        "heat": {"type": "number", "minimum": 0, "description": "How wild.", "default": 0.2},
        "stop": {"type": "array", "items": {"type": "string"}, "default": []},
    }
    assert place_schema["default"] == {"x": 1, "y": 0}
    assert parameters["required"] == ["need"]
    assert function_schemas(function_with_config(kind)).inputs["properties"] == {}


def test_the_keys_of_a_typed_dict_are_the_parameters() -> None:
    parameters: Any = function_schemas(function_with_config(TypedConfig)).parameters

    assert parameters["properties"] == {
        "need": {"type": "integer"},
        "heat": {"type": "number", "minimum": 0, "description": "How wild."},
        "stop": {"type": "array", "items": {"type": "string"}},
        "place": ref("Point"),
    }
    assert parameters["required"] == ["need", "heat", "stop", "place"]


@pytest.mark.parametrize("kind", [DataConfig, StructConfig, BaseConfig])
def test_a_default_config_sets_the_defaults_and_requires_no_parameters(kind: Any) -> None:
    signature = read_signature(function_with_config(kind, kind(need=3, heat=0.9)), is_chat=False, name="w")

    assert "required" not in schemas_of(signature, is_chat=False).parameters
    assert defaults_of(signature.settings.values()) == {"need": 3, "heat": 0.9, "stop": [], "place": {"x": 1, "y": 0}}


def test_an_optional_config_requires_no_parameters() -> None:
    parameters = function_schemas(function_with_config(DataConfig | None, None)).parameters

    assert "required" not in parameters
    assert list(parameters["properties"]) == ["need", "heat", "stop", "place"]


def test_marked_arguments_and_config_fields_are_parameters() -> None:
    def f(config: Struct, heat: Annotated[float, Parameter(description="How wild.")], text: str) -> None: ...

    schemas = function_schemas(f)

    assert schemas.parameters["properties"] == {
        "heat": {"type": "number", "description": "How wild."},
        "x": {"type": "integer", "minimum": 0, "description": "Across.", "default": 1},
    }
    assert schemas.parameters["required"] == ["heat"]
    assert list(schemas.inputs["properties"]) == ["text"]


# Outputs


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (None, {"type": "null"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Iterator[int], {"type": "integer"}),
        (Iterable[int], {"type": "integer"}),
        (Generator[int, None, str], {"type": "integer"}),
        (AsyncIterator[int], {"type": "integer"}),
        (AsyncGenerator[int, None], {"type": "integer"}),
        (Typed, ref("Typed")),
    ],
    ids=str,
)
def test_the_output_schema_is_that_of_returned_or_yielded_values(annotation: Any, schema: dict[str, Any]) -> None:
    def f() -> annotation: ...  # type: ignore[valid-type]

    outputs = dict(function_schemas(f).outputs)
    outputs.pop("$defs", None)

    assert outputs == {"$schema": DRAFT, **schema}


@pytest.mark.parametrize("annotation", [Any, Opaque, "Unknown", Iterator], ids=str)
def test_an_unknown_return_type_allows_any_output(annotation: Any) -> None:
    def f() -> annotation: ...  # type: ignore[valid-type]

    def unannotated(): ...

    assert function_schemas(f).outputs == function_schemas(unannotated).outputs == {}


def test_a_reference_is_always_local() -> None:
    def f(x: Nested, y: list[Base], config: Tree) -> Nested: ...

    def refs(value: Any) -> Iterator[str]:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if key == "$ref":
                yield inner
            elif isinstance(inner, dict | list):
                yield from refs(inner)

    schemas = function_schemas(f)
    for document in (schemas.inputs, schemas.parameters, schemas.outputs):
        references = set(refs(document))
        assert references
        assert {name.removeprefix("#/$defs/") for name in references} <= set(document["$defs"])
