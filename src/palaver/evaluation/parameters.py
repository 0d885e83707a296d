"""Parameters of an evaluator: what its function takes besides the case, as a Struct and as a JSON Schema."""

import copy
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta

from palaver.core import json
from palaver.core.json import validation_error
from palaver.errors import DeclarationError, InvalidValue

ParameterField = tuple[str, Any] | tuple[str, Any, Any]
"""Name, type, and default if there is one."""


class TargetParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of all evaluators that take a Target."""

    target: Annotated[str, Meta(description="What is looked at: text, all_text, or a path such as value.a.b.")] = "text"
    stringify: Annotated[bool, Meta(description="Take a value that is no text as its JSON.")] = False
    expected_from: Annotated[
        str | None, Meta(description="The column, or a path in the row, that holds what is expected.")
    ] = None
    case_sensitive: Annotated[bool, Meta(description="Do a and A differ?")] = True


class CommonParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of every evaluator. Scores of an author's evaluator, and so the threshold, may have any scale."""

    threshold: Annotated[float | None, Meta(description="From which score on it has passed.")] = None
    name: Annotated[
        Annotated[str, Meta(min_length=1, max_length=200)] | None, Meta(description="How its scores are called.")
    ] = None


class ThresholdParameter(msgspec.Struct, frozen=True, kw_only=True):
    """The threshold of scores from 0 to 1."""

    threshold: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None, Meta(description="From which score on it has passed.")
    ] = None


_UNKNOWN = re.compile(r"Object contains unknown field `(.*?)`")


def struct_fields(struct: type[msgspec.Struct]) -> list[ParameterField]:
    """The fields of a Struct whose fields all have defaults."""
    return [(field.name, field.type, field.default) for field in msgspec.structs.fields(struct)]


def parameter_field(parameter: inspect.Parameter, annotation: Any) -> ParameterField:
    kind = Any if isinstance(annotation, str) else annotation  # An annotation that cannot be evaluated.
    return (parameter.name, kind) if parameter.default is parameter.empty else (parameter.name, kind, parameter.default)


def make_parameters_struct(key: str, fields: Iterable[ParameterField]) -> type[msgspec.Struct]:
    """A frozen Struct that refuses unknown fields. Raises DeclarationError for types without a schema."""
    try:
        struct = msgspec.defstruct(
            f"{re.sub('[^A-Za-z0-9]', '', key.title())}Parameters",
            [_copy_default(field) for field in fields],
            frozen=True,
            kw_only=True,
            forbid_unknown_fields=True,
            rename=lambda name: name.removesuffix("_"),  # `pass` and `from` are Python keywords.
        )
        parameters_schema(struct)  # Types without a schema cannot be read from JSON.
    except (TypeError, ValueError, NotImplementedError) as error:
        raise DeclarationError(f"The parameters of the evaluator {key} cannot be read: {error}") from None
    return struct


def parameters_schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    (top,), definitions = msgspec.json.schema_components((struct,), ref_template="#/$defs/{name}")
    own: dict[str, Any] = definitions.pop(cast("str", top["$ref"]).rpartition("/")[2])
    for field in msgspec.structs.fields(struct):
        if field.default_factory is not msgspec.NODEFAULT:
            own["properties"][field.encode_name]["default"] = msgspec.to_builtins(field.default_factory())
    document = {key: value for key, value in own.items() if key not in ("title", "required")}
    document |= {"required": own["required"]} if own.get("required") else {}
    return document | ({"$defs": definitions} if definitions else {})


def read_parameters(struct: type[msgspec.Struct], parameters: Mapping[str, Any]) -> Any:
    """Read parameters. Raises InvalidValue with a pointer."""
    try:
        return msgspec.convert(dict(parameters), struct)
    except msgspec.ValidationError as error:
        raise _parameter_error(str(error), struct) from None


def _parameter_error(text: str, struct: type[msgspec.Struct]) -> InvalidValue:
    why, _, place = text.partition(" - at `$")
    if (unknown := _UNKNOWN.fullmatch(why)) and not place.removesuffix("`"):
        known = ", ".join(struct.__struct_encode_fields__)
        return InvalidValue(
            f"There is no parameter {unknown[1]!r}. Known: {known}.",
            pointer=f"/parameters/{json.escape_pointer(unknown[1])}",
        )
    described = validation_error(f"{why} - at `$.parameters{place or '`'}")
    return InvalidValue(described.message, pointer=described.pointer)


def _copy_default(field: ParameterField) -> Any:
    """Copy a mutable default for each call."""
    if len(field) == 3 and isinstance(field[2], list | dict | set):
        factory: Callable[[], Any] = partial(copy.deepcopy, cast("Any", field[2]))
        return field[0], field[1], msgspec.field(default_factory=factory)
    return field
