"""Evaluate annotations, and turn them into JSON Schemas and validators for values from the wire.

msgspec handles plain annotations, dataclasses, TypedDicts and its own structs; pydantic handles annotations that use
pydantic. Nothing is coerced: `"8"` is not 8. Annotations that neither can handle accept any value.
"""

import inspect
import sys
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, cast, get_args, get_origin

import msgspec

from palaver.core import json


def hints_of(target: Any, *, extra_names: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the evaluated annotations of a function or class; one that cannot be evaluated stays text.

    `extra_names` resolves names that are only imported under TYPE_CHECKING.
    """
    hints: dict[str, Any] = {}
    for annotations, namespace in _raw_annotations(target):
        for name, annotation in annotations.items():
            hints[name] = _evaluate(annotation, {**(extra_names or {}), **namespace})
    return hints


def strip_none(annotation: Any) -> Any:
    """Return `X` for `X | None`; any other annotation unchanged."""
    if get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation
    members = [member for member in get_args(annotation) if member is not type(None)]
    return members[0] if len(members) == 1 else annotation


def strip_annotation(annotation: Any) -> Any:
    """Return the annotation without `Annotated` and `| None`."""
    inner = strip_none(annotation)
    if get_origin(inner) is Annotated:
        inner = get_args(inner)[0]
    return annotation if inner is annotation else strip_annotation(inner)


def members_of(annotation: Any) -> tuple[Any, ...]:
    """Return the element types of a collection annotation; both for `list[A | B]`."""
    annotation = strip_annotation(annotation)
    origin = get_origin(annotation)
    if not isinstance(origin, type) or not issubclass(origin, Iterable):
        return ()
    return tuple(kind for argument in get_args(annotation) for kind in _alternatives(strip_annotation(argument)))


def metadata_of(annotation: Any) -> Iterator[Any]:
    """Yield the metadata of `Annotated`, also inside `… | None`."""
    yield from getattr(annotation, "__metadata__", ())
    inner = strip_none(annotation)
    if inner is not annotation:
        yield from metadata_of(inner)


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) not in (typing.Union, types.UnionType):
        return (annotation,)
    return tuple(kind for member in get_args(annotation) for kind in _alternatives(strip_annotation(member)))


def _raw_annotations(target: Any) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield raw annotations and their namespace; for a class, those of its bases first."""
    if not isinstance(target, type):
        yield getattr(target, "__annotations__", {}), getattr(target, "__globals__", {})
        return
    for base in reversed(target.__mro__):
        yield inspect.get_annotations(base), vars(sys.modules[base.__module__])


def _evaluate(annotation: Any, namespace: dict[str, Any]) -> Any:
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, globalns=namespace, include_extras=True)["it"]
    except Exception:  # Evaluating an annotation may raise anything.
        return str(getattr(annotation, "__forward_arg__", annotation))


Defs = dict[str, Any]


class SchemaError(NamedTuple):
    """One error in a value, with a JSON pointer relative to it."""

    pointer: str
    reason: str


class SchemaErrors(Exception):
    """All errors in a value; binding.py converts them to CallFaults."""

    def __init__(self, errors: list[SchemaError]) -> None:
        super().__init__(errors)
        self.errors = errors


class ValueSchema(ABC):
    """Schema and validation of one annotation."""

    has_schema = True
    """False if the annotation has no schema."""

    @abstractmethod
    def schema(self) -> tuple[dict[str, Any], Defs]:
        """Return the schema, and the definitions for its references (`#/$defs/…`)."""

    @abstractmethod
    def read(self, value: Any) -> Any:
        """Convert a JSON value to the Python value. Raises SchemaErrors."""


class _AnySchema(ValueSchema):
    """No annotation, or one without a schema."""

    def __init__(self, *, has_schema: bool) -> None:
        self.has_schema = has_schema

    def schema(self) -> tuple[dict[str, Any], Defs]:
        return {}, {}

    def read(self, value: Any) -> Any:
        return value


class _MsgspecSchema(ValueSchema):
    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation

    def schema(self) -> tuple[dict[str, Any], Defs]:
        (schema,), defs = msgspec.json.schema_components([self._annotation], ref_template="#/$defs/{name}")
        return dict(schema), dict(defs)

    def read(self, value: Any) -> Any:
        try:
            return msgspec.convert(value, self._annotation, str_keys=True)
        except msgspec.ValidationError as error:
            reason, pointer = json.split_location(str(error))
            raise SchemaErrors([SchemaError(pointer, reason)]) from None


class _PydanticSchema(ValueSchema):
    def __init__(self, annotation: Any) -> None:
        self._adapter = sys.modules["pydantic"].TypeAdapter(annotation)

    def schema(self) -> tuple[dict[str, Any], Defs]:
        schema: dict[str, Any] = self._adapter.json_schema(ref_template="#/$defs/{model}")
        return schema, schema.pop("$defs", {})

    def read(self, value: Any) -> Any:
        try:
            # From JSON text: strict Python input would reject dates and enums as text.
            return self._adapter.validate_json(json.encode(value), strict=True)
        except sys.modules["pydantic"].ValidationError as error:
            raise SchemaErrors(pydantic_errors(error, value)) from None


def schema_for(annotation: Any) -> ValueSchema:
    """Return the schema of an annotation; `Any`, `object` and unsupported annotations accept anything."""
    if annotation is Any or annotation is object:
        return _AnySchema(has_schema=True)
    if isinstance(annotation, str):
        return _AnySchema(has_schema=False)  # It could not be evaluated.
    schema_classes = (_PydanticSchema, _MsgspecSchema)
    for schema_class in schema_classes if _uses_pydantic(annotation, set()) else reversed(schema_classes):
        if schema_class is _PydanticSchema and "pydantic" not in sys.modules:
            continue
        try:
            value_schema = schema_class(annotation)
            value_schema.schema()
        except Exception:  # noqa: S112 - libraries reject annotations in many ways; try the next one
            continue
        return value_schema
    return _AnySchema(has_schema=False)


# Detection of pydantic


def _uses_pydantic(annotation: Any, seen: set[int]) -> bool:
    """Whether any part of it is from pydantic; msgspec would ignore a pydantic Field in Annotated."""
    if id(annotation) in seen:
        return False
    seen.add(id(annotation))
    return _is_from_pydantic(annotation) or any(_uses_pydantic(part, seen) for part in _parts(annotation))


def _is_from_pydantic(part: Any) -> bool:
    kind: type = part if isinstance(part, type) else type(part)
    if hasattr(kind, "__get_pydantic_core_schema__") or hasattr(kind, "__pydantic_validator__"):
        return True
    return any(base.__module__.partition(".")[0] in ("pydantic", "annotated_types") for base in kind.__mro__)


def _parts(annotation: Any) -> Iterator[Any]:
    yield from getattr(annotation, "__metadata__", ())
    if get_origin(annotation) is not None:
        yield from get_args(annotation)
    elif hasattr(annotation, "__dataclass_fields__") or hasattr(annotation, "__required_keys__"):
        yield from hints_of(annotation).values()


# Errors


def pydantic_errors(error: Any, value: Any) -> list[SchemaError]:
    details: list[dict[str, Any]] = error.errors(include_url=False, include_context=False, include_input=False)
    return [SchemaError(_pointer(value, detail["loc"], detail["type"]), detail["msg"]) for detail in details]


def _pointer(value: Any, steps: Sequence[str | int], kind: str) -> str:
    """Return the JSON pointer into the value, without the union members that pydantic adds to the location."""
    pointer = ""
    for position, step in enumerate(steps, start=1):
        if isinstance(value, dict | list) and _has(value, step):  # pyright: ignore[reportUnknownArgumentType]  # JSON
            value = cast("Any", value)[step]
        elif kind != "missing" or position < len(steps):
            continue
        pointer += f"/{json.escape_pointer(str(step))}"
    return pointer


def _has(value: dict[str, Any] | list[Any], step: str | int) -> bool:
    return step in value if isinstance(value, dict) else isinstance(step, int) and 0 <= step < len(value)
