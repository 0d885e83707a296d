"""Parameters of an evaluator: what its function takes beside the case, as a Struct and as a JSON Schema."""

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
"""A name, a type, and a default where there is one."""


class TargetParameters(msgspec.Struct, frozen=True, kw_only=True):
    """What all built-in evaluators take."""

    target: Annotated[str, Meta(description="What is looked at: text, all_text, or a path such as value.a.b.")] = "text"
    stringify: Annotated[bool, Meta(description="Take a value that is no text as its JSON.")] = False
    expected_from: Annotated[
        str | None, Meta(description="The column, or a path in the row, that holds what is expected.")
    ] = None
    case_sensitive: Annotated[bool, Meta(description="Do a and A differ?")] = True


class CommonParameters(msgspec.Struct, frozen=True, kw_only=True):
    """What every evaluator takes. An author's may have scores, and so a threshold, on a scale of its own."""

    threshold: Annotated[float | None, Meta(description="From which score on it has passed.")] = None
    name: Annotated[
        Annotated[str, Meta(min_length=1, max_length=200)] | None, Meta(description="How its scores are called.")
    ] = None


class ThresholdParameter(msgspec.Struct, frozen=True, kw_only=True):
    """The threshold of what scores from 0 to 1."""

    threshold: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None, Meta(description="From which score on it has passed.")
    ] = None


_UNKNOWN = re.compile(r"Object contains unknown field `(.*?)`")


def struct_fields(struct: type[msgspec.Struct]) -> list[ParameterField]:
    """The fields of a Struct all of which have defaults."""
    return [(field.name, field.type, field.default) for field in msgspec.structs.fields(struct)]


def parameter_field(parameter: inspect.Parameter, annotation: Any) -> ParameterField:
    """One parameter of a function as a field."""
    kind = Any if isinstance(annotation, str) else annotation  # What cannot be evaluated says nothing.
    return (parameter.name, kind) if parameter.default is parameter.empty else (parameter.name, kind, parameter.default)


def make_parameters_struct(key: str, fields: Iterable[ParameterField]) -> type[msgspec.Struct]:
    """A frozen Struct of these; what it does not know it refuses."""
    try:
        made = msgspec.defstruct(
            f"{re.sub('[^A-Za-z0-9]', '', key.title())}Parameters",
            [_copy_default(field) for field in fields],
            frozen=True,
            kw_only=True,
            forbid_unknown_fields=True,
            rename=lambda name: name.removesuffix("_"),  # `pass` and `from` are words of Python's.
        )
        parameters_schema(made)  # What has no schema cannot be read from JSON either.
    except (TypeError, ValueError, NotImplementedError) as error:
        raise DeclarationError(f"The parameters of the evaluator {key} cannot be read: {error}") from None
    return made


def parameters_schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Its JSON Schema, an object at the top."""
    (top,), definitions = msgspec.json.schema_components((struct,), ref_template="#/$defs/{name}")
    own: dict[str, Any] = definitions.pop(cast("str", top["$ref"]).rpartition("/")[2])
    for field in msgspec.structs.fields(struct):
        if field.default_factory is not msgspec.NODEFAULT:
            own["properties"][field.encode_name]["default"] = msgspec.to_builtins(field.default_factory())
    document = {key: value for key, value in own.items() if key not in ("title", "required")}
    document |= {"required": own["required"]} if own.get("required") else {}
    return document | ({"$defs": definitions} if definitions else {})


def read_parameters(struct: type[msgspec.Struct], given: Mapping[str, Any]) -> Any:
    """What was given as that Struct; InvalidValue points at what does not fit."""
    try:
        return msgspec.convert(dict(given), struct)
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
    said = validation_error(f"{why} - at `$.parameters{place or '`'}")
    return InvalidValue(said.message, pointer=said.pointer)


def _copy_default(field: ParameterField) -> Any:
    """A list as a default must not be shared between calls."""
    if len(field) == 3 and isinstance(field[2], list | dict | set):
        made: Callable[[], Any] = partial(copy.deepcopy, cast("Any", field[2]))
        return field[0], field[1], msgspec.field(default_factory=made)
    return field
