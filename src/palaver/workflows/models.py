"""Config models: a dataclass, a TypedDict, a msgspec struct or a pydantic model whose fields are parameters."""

import dataclasses
import inspect
import typing
from collections.abc import Mapping
from typing import Any, ClassVar, cast, get_origin

import msgspec

NOTHING: Any = inspect.Parameter.empty
"""No default, as inspect says it."""


def is_model(annotation: Any) -> bool:
    """Is it a class of named fields?"""
    if not isinstance(annotation, type):
        return False
    return (
        issubclass(annotation, msgspec.Struct)
        or dataclasses.is_dataclass(annotation)
        or hasattr(annotation, "model_fields")
        or typing.is_typeddict(annotation)
    )


def model_fields(model: type, default: Any = NOTHING) -> dict[str, tuple[Any, Any]]:
    """Annotation and default of each field; the defaults of `config=Model(…)` go before the model's own."""
    own = _defaults(model)
    fields: dict[str, tuple[Any, Any]] = {}
    for name, annotation in typing.get_type_hints(model, include_extras=True).items():
        if name.startswith("_") or get_origin(annotation) is ClassVar or name == "model_config":
            continue
        if default is NOTHING or default is None:
            fields[name] = annotation, own.get(name, NOTHING)
        else:
            of_mapping = isinstance(default, Mapping)
            given = cast("Mapping[str, Any]", default).get(name, NOTHING) if of_mapping else getattr(default, name, NOTHING)
            fields[name] = annotation, given
    return fields


def _defaults(model: Any) -> dict[str, Any]:
    if issubclass(model, msgspec.Struct):
        return {
            f.name: f.default if f.default is not msgspec.NODEFAULT else cast("Any", f.default_factory)()
            for f in msgspec.structs.fields(model)
            if not f.required
        }
    if dataclasses.is_dataclass(model):
        return {
            f.name: f.default if f.default is not dataclasses.MISSING else cast("Any", f.default_factory)()
            for f in dataclasses.fields(model)
            if f.default is not dataclasses.MISSING or f.default_factory is not dataclasses.MISSING
        }
    found: Mapping[str, Any] = getattr(model, "model_fields", {})
    return {n: f.get_default(call_default_factory=True) for n, f in found.items() if not f.is_required()}
