"""Config models: a dataclass, a TypedDict, a msgspec struct or a pydantic model whose fields are parameters."""

import copy
import dataclasses
import inspect
import sys
import typing
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, NotRequired, Required, get_args, get_origin

import msgspec

from palaver.workflows.annotations import hints_of

NO_DEFAULT: Any = inspect.Parameter.empty
"""Marks a missing default, as in inspect."""


class ConfigField(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """Name used by callers."""
    attribute: str
    keyword: str
    """Name of the constructor's keyword argument."""
    annotation: Any
    required: bool
    default: Any = NO_DEFAULT


class ConfigModel:
    """A class of named fields, with the default instance from the signature, if any."""

    def __init__(self, kind: Any, default: Any = NO_DEFAULT) -> None:
        self._kind = kind
        self._default: Any = None if default is NO_DEFAULT else default
        self.fields = tuple(self._apply_default(field) for field in _fields(kind))

    def build(self, parameters: Mapping[str, Any]) -> Any:
        """Create an instance; missing values come from the default instance, else from the class."""
        values = {field.keyword: parameters[field.name] for field in self.fields if field.name in parameters}
        if self._default is not None:
            defaults = {field.keyword: field.default for field in self.fields if field.default is not NO_DEFAULT}
            values = defaults | values
        return self._kind(**values)

    def _apply_default(self, field: ConfigField) -> ConfigField:
        if self._default is None:
            return field
        if typing.is_typeddict(self._kind):
            value = self._default.get(field.attribute, NO_DEFAULT)
        else:
            value = getattr(self._default, field.attribute, NO_DEFAULT)
        return msgspec.structs.replace(field, default=value, required=False)


def is_config_model(annotation: Any) -> bool:
    """Whether it is a dataclass, TypedDict, msgspec struct or pydantic model."""
    return isinstance(annotation, type) and (
        hasattr(annotation, "__struct_fields__")
        or hasattr(annotation, "__dataclass_fields__")
        or hasattr(annotation, "__pydantic_fields__")
        or hasattr(annotation, "__required_keys__")
    )


def _fields(kind: Any) -> Iterable[ConfigField]:
    if hasattr(kind, "__pydantic_fields__"):
        return [_pydantic_field(name, info) for name, info in kind.__pydantic_fields__.items()]
    if issubclass(kind, msgspec.Struct):
        return [_struct_field(field) for field in msgspec.structs.fields(kind)]
    hints = hints_of(kind)
    if dataclasses.is_dataclass(kind):
        return [_dataclass_field(field, hints[field.name]) for field in dataclasses.fields(kind) if field.init]
    return [_typed_dict_field(name, hint, is_required=name in kind.__required_keys__) for name, hint in hints.items()]


def _typed_dict_field(name: str, annotation: Any, *, is_required: bool) -> ConfigField:
    origin = get_origin(annotation)
    if origin in (Required, NotRequired):  # With postponed annotations the class has not evaluated these.
        annotation, is_required = get_args(annotation)[0], origin is Required
    return ConfigField(name=name, attribute=name, keyword=name, annotation=annotation, required=is_required)


def _struct_field(field: msgspec.structs.FieldInfo) -> ConfigField:
    default = field.default
    if default is msgspec.NODEFAULT:
        default = NO_DEFAULT if field.required else field.default_factory()
    return ConfigField(
        name=field.encode_name,
        attribute=field.name,
        keyword=field.name,
        annotation=field.type,
        required=field.required,
        default=default,
    )


def _dataclass_field(field: "dataclasses.Field[Any]", annotation: Any) -> ConfigField:
    default = field.default
    if default is dataclasses.MISSING:
        factory = field.default_factory
        default = NO_DEFAULT if factory is dataclasses.MISSING else factory()
    name, required = field.name, default is NO_DEFAULT
    return ConfigField(
        name=name, attribute=name, keyword=name, annotation=annotation, required=required, default=default
    )


def _pydantic_field(attribute: str, info: Any) -> ConfigField:
    alias = info.validation_alias or info.alias
    name = alias if isinstance(alias, str) else next(iter(getattr(alias, "choices", ())), attribute)
    required: bool = info.is_required()
    try:
        default = NO_DEFAULT if required else info.get_default(call_default_factory=True)
    except ValueError:  # A factory that needs the other values.
        default = NO_DEFAULT
    # A single field keeps its constraints and description, but cannot have an alias or default.
    field_info = copy.copy(info)
    field_info.alias = field_info.validation_alias = field_info.serialization_alias = field_info.default_factory = None
    field_info.default = sys.modules["pydantic"].fields.PydanticUndefined
    return ConfigField(
        name=name,
        attribute=attribute,
        keyword=name,
        annotation=Annotated[info.annotation, field_info],
        required=required,
        default=default,
    )
