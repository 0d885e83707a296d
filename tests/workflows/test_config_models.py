"""Config models of four kinds: their fields, and instantiation."""

import dataclasses
from typing import Annotated, Any, ClassVar, NotRequired, Required, TypedDict

import msgspec
import pydantic
import pytest

from palaver.workflows.config_models import NO_DEFAULT, ConfigField, ConfigModel, is_config_model


@dataclasses.dataclass
class Data:
    need: int
    heat: float = 0.2
    stop: list[str] = dataclasses.field(default_factory=lambda: ["."])
    made: int = dataclasses.field(default=0, init=False)
    kind: ClassVar[str] = "data"


class Struct(msgspec.Struct, kw_only=True):
    need: int
    heat: float = 0.2
    stop: list[str] = msgspec.field(default_factory=lambda: ["."])


class Base(pydantic.BaseModel):
    need: int
    heat: float = 0.2
    stop: list[str] = pydantic.Field(default_factory=lambda: ["."])


class Typed(TypedDict):
    need: int
    heat: NotRequired[float]
    stop: NotRequired[list[str]]


class Loose(TypedDict, total=False):
    need: Required[int]
    heat: float


class Camel(msgspec.Struct, rename="camel"):
    top_heat: float = 0.2


class Alias(pydantic.BaseModel):
    top_heat: float = pydantic.Field(0.2, alias="topHeat")
    low_heat: float = pydantic.Field(0.1, validation_alias=pydantic.AliasChoices("lowHeat", "low"))
    path_heat: float = pydantic.Field(0.0, validation_alias=pydantic.AliasPath("heats", 0))
    other: float = pydantic.Field(default_factory=lambda data: data["top_heat"])


@pydantic.dataclasses.dataclass
class Checked:
    heat: float = pydantic.Field(default=0.2, ge=0)


CONFIG_TYPES = [Data, Struct, Base, Typed]


def field_rows(model: ConfigModel) -> list[tuple[str, str, str, bool, Any]]:
    return [(field.name, field.attribute, field.keyword, field.required, field.default) for field in model.fields]


@pytest.mark.parametrize("kind", [*CONFIG_TYPES, Loose, Camel, Alias, Checked])
def test_a_class_with_named_fields_is_a_config_model(kind: Any) -> None:
    assert is_config_model(kind)


@pytest.mark.parametrize("kind", [int, dict, "Data", list[int], Data(need=1), Any, None])
def test_anything_else_is_not_a_config_model(kind: Any) -> None:
    assert not is_config_model(kind)


@pytest.mark.parametrize("kind", [Data, Struct, Base])
def test_a_model_has_fields_with_defaults(kind: Any) -> None:
    assert field_rows(ConfigModel(kind)) == [
        ("need", "need", "need", True, NO_DEFAULT),
        ("heat", "heat", "heat", False, 0.2),
        ("stop", "stop", "stop", False, ["."]),
    ]


@pytest.mark.parametrize("kind", [Data, Struct, Base])
def test_the_default_in_the_signature_overrides_the_defaults_of_the_model(kind: Any) -> None:
    model = ConfigModel(kind, kind(need=7, heat=0.9))

    assert field_rows(model) == [
        ("need", "need", "need", False, 7),
        ("heat", "heat", "heat", False, 0.9),
        ("stop", "stop", "stop", False, ["."]),
    ]
    assert model.build({"stop": []}) == kind(need=7, heat=0.9, stop=[])


@pytest.mark.parametrize("kind", CONFIG_TYPES)
def test_a_model_is_built_from_the_given_values(kind: Any) -> None:
    assert ConfigModel(kind).build({"need": 1, "heat": 0.5}) == kind(need=1, heat=0.5)


def test_a_typed_dict_has_required_and_optional_keys() -> None:
    assert [(field.name, field.annotation, field.required) for field in ConfigModel(Typed).fields] == [
        ("need", int, True),
        ("heat", float, False),
        ("stop", list[str], False),
    ]
    assert [(field.name, field.annotation, field.required) for field in ConfigModel(Loose).fields] == [
        ("need", int, True),
        ("heat", float, False),
    ]


def test_the_default_of_a_typed_dict_is_a_dict() -> None:
    model = ConfigModel(Typed, {"need": 7})

    assert field_rows(model) == [
        ("need", "need", "need", False, 7),
        ("heat", "heat", "heat", False, NO_DEFAULT),
        ("stop", "stop", "stop", False, NO_DEFAULT),
    ]
    assert model.build({"heat": 0.5}) == {"need": 7, "heat": 0.5}


def test_a_default_of_none_leaves_the_defaults_of_the_model() -> None:
    assert field_rows(ConfigModel(Data, None)) == field_rows(ConfigModel(Data))


def test_fields_are_set_by_their_alias() -> None:
    camel, alias = ConfigModel(Camel), ConfigModel(Alias)

    assert field_rows(camel) == [("topHeat", "top_heat", "top_heat", False, 0.2)]
    assert camel.build({"topHeat": 0.5}) == Camel(top_heat=0.5)
    assert field_rows(alias) == [
        ("topHeat", "top_heat", "topHeat", False, 0.2),
        ("lowHeat", "low_heat", "lowHeat", False, 0.1),
        ("path_heat", "path_heat", "path_heat", False, 0.0),
        ("other", "other", "other", False, NO_DEFAULT),
    ]
    read = Alias.model_validate
    assert alias.build({"topHeat": 0.5}) == read({"topHeat": 0.5})
    assert ConfigModel(Alias, read({"topHeat": 0.7})).build({"lowHeat": 0.4}) == read({"topHeat": 0.7, "lowHeat": 0.4})


def test_a_pydantic_field_retains_its_constraints() -> None:
    (field,) = ConfigModel(Checked).fields

    adapter = pydantic.TypeAdapter(field.annotation)
    assert adapter.json_schema() == {"type": "number", "minimum": 0}


def test_a_field_has_no_default_unless_one_is_given() -> None:
    field = ConfigField(name="a", attribute="a", keyword="a", annotation=Annotated[int, "n"], required=True)

    assert field.default is NO_DEFAULT
