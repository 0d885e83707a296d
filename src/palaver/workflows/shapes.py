"""Shapes: one annotation as a JSON Schema, and as a test of values that came over the wire.

msgspec reads plain annotations, dataclasses, TypedDicts and its own structs; pydantic reads what an author wrote with
pydantic, which is then there to be imported. Nothing is coerced: `"8"` is not 8. What neither can read takes any value.
"""

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast, get_args, get_origin

import msgspec

from palaver.core import jsons
from palaver.workflows.annotations import hints_of

Defs = dict[str, Any]


class Misfit(NamedTuple):
    """One thing that is wrong with a value: a JSON pointer below it, and why."""

    pointer: str
    why: str


class Misfits(Exception):
    """All that is wrong with a value; binding.py makes errors of it."""

    def __init__(self, found: list[Misfit]) -> None:
        super().__init__(found)
        self.found = found


class Shape(ABC):
    """How values of one annotation look."""

    known = True
    """False where the annotation says nothing that a schema could."""

    @abstractmethod
    def schema(self) -> tuple[dict[str, Any], Defs]:
        """The schema, and the definitions that its references (`#/$defs/…`) need."""

    @abstractmethod
    def read(self, value: Any) -> Any:
        """The Python value for a JSON value, or Misfits."""


class _Anything(Shape):
    """No annotation, or one that nobody can read."""

    def __init__(self, *, known: bool) -> None:
        self.known = known

    def schema(self) -> tuple[dict[str, Any], Defs]:
        return {}, {}

    def read(self, value: Any) -> Any:
        return value


class _Msgspec(Shape):
    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation

    def schema(self) -> tuple[dict[str, Any], Defs]:
        (schema,), defs = msgspec.json.schema_components([self._annotation], ref_template="#/$defs/{name}")
        return dict(schema), dict(defs)

    def read(self, value: Any) -> Any:
        try:
            return msgspec.convert(value, self._annotation, str_keys=True)
        except msgspec.ValidationError as error:
            raise Misfits([_msgspec_misfit(str(error))]) from None


class _Pydantic(Shape):
    def __init__(self, annotation: Any) -> None:
        self._adapter = sys.modules["pydantic"].TypeAdapter(annotation)

    def schema(self) -> tuple[dict[str, Any], Defs]:
        schema: dict[str, Any] = self._adapter.json_schema(ref_template="#/$defs/{model}")
        return schema, schema.pop("$defs", {})

    def read(self, value: Any) -> Any:
        try:
            # From JSON text, because strict Python input would refuse the texts that dates and enums are on the wire.
            return self._adapter.validate_json(jsons.encode(value), strict=True)
        except sys.modules["pydantic"].ValidationError as error:
            raise Misfits(pydantic_misfits(error, value)) from None


def shape_of(annotation: Any) -> Shape:
    """The shape of an annotation; `Any` and `object` take anything, and so does one that nobody can read."""
    if annotation is Any or annotation is object:
        return _Anything(known=True)
    if isinstance(annotation, str):
        return _Anything(known=False)  # It could not be evaluated.
    for attempt in (_Pydantic, _Msgspec) if _uses_pydantic(annotation, set()) else (_Msgspec, _Pydantic):
        if attempt is _Pydantic and "pydantic" not in sys.modules:
            continue
        try:
            shape = attempt(annotation)
            shape.schema()
        except Exception:  # noqa: S112 - libraries refuse annotations in many ways; the next one is asked
            continue
        return shape
    return _Anything(known=False)


# Whose annotation is it?


def _uses_pydantic(annotation: Any, seen: set[int]) -> bool:
    """Does any part of it come from pydantic? msgspec would pass over a pydantic Field in Annotated."""
    if id(annotation) in seen:
        return False
    seen.add(id(annotation))
    return _of_pydantic(annotation) or any(_uses_pydantic(part, seen) for part in _parts(annotation))


def _of_pydantic(part: Any) -> bool:
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


# What is wrong, and where


def pydantic_misfits(error: Any, value: Any) -> list[Misfit]:
    """What a ValidationError of pydantic's lists about that value."""
    details: list[dict[str, Any]] = error.errors(include_url=False, include_context=False, include_input=False)
    return [Misfit(_pointer(value, detail["loc"], detail["type"]), detail["msg"]) for detail in details]


def _pointer(value: Any, steps: Sequence[str | int], kind: str) -> str:
    """The steps that lead into the value; pydantic also names members of unions and such, which nobody sent."""
    pointer = ""
    for place, step in enumerate(steps, start=1):
        if isinstance(value, dict | list) and _has(value, step):  # pyright: ignore[reportUnknownArgumentType]  # JSON
            value = cast("Any", value)[step]
        elif kind != "missing" or place < len(steps):
            continue
        pointer += f"/{jsons.escaped(str(step))}"
    return pointer


def _has(value: dict[str, Any] | list[Any], step: str | int) -> bool:
    return step in value if isinstance(value, dict) else isinstance(step, int) and 0 <= step < len(value)


_PLACE = re.compile(r"^(.*) - at `(?:key` in `)?\$(.*)`$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def _msgspec_misfit(message: str) -> Misfit:
    """The place stands as a JSON path at the end of msgspec's message; ours is a pointer."""
    placed = _PLACE.match(message)
    if placed is None:
        return Misfit("", message)
    path, _, _ = placed[2].partition("[...]")  # Some value of a mapping: it does not say which.
    return Misfit("".join(f"/{jsons.escaped(name or index)}" for name, index in _STEP.findall(path)), placed[1])
