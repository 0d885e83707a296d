"""Shapes: one annotation as a JSON Schema, and as a test of values that came over the wire.

msgspec reads plain annotations, dataclasses, TypedDicts and its own structs; pydantic reads what an author wrote with
pydantic, which is then there to be imported. Nothing is coerced: `"8"` is not 8. What neither can read takes any value.
"""

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple, cast, get_args, get_origin

import msgspec

from palaver.core import jsons

Defs = dict[str, Any]


class Misfit(NamedTuple):
    """One thing that is wrong with a value: a JSON pointer below it, and why."""

    pointer: str
    why: str


class Misfits(Exception):  # noqa: N818 - a list of findings for signature.py, which makes the error
    """All that is wrong with a value."""

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
            return msgspec.convert(value, self._annotation)
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
            details: list[dict[str, Any]] = error.errors(include_url=False, include_context=False, include_input=False)
            found = [Misfit("".join(f"/{escaped(str(step))}" for step in d["loc"]), d["msg"]) for d in details]
            raise Misfits(found) from None


def shape_of(annotation: Any) -> Shape:
    """The shape of an annotation (`inspect.Parameter.empty`, `Any` and `object` take anything)."""
    if annotation in (Any, object) or annotation is None:
        return _Anything(known=True)
    for attempt in (_Pydantic, _Msgspec) if _uses_pydantic(annotation) else (_Msgspec, _Pydantic):
        if attempt is _Pydantic and "pydantic" not in sys.modules:
            continue
        try:
            shape = attempt(annotation)
            shape.schema()
        except Exception:  # noqa: BLE001, S112 - libraries refuse annotations in many ways; the next one is asked
            continue
        return shape
    return _Anything(known=False)


def escaped(step: str) -> str:
    """One step of a JSON pointer."""
    return step.replace("~", "~0").replace("/", "~1")


def _uses_pydantic(annotation: Any) -> bool:
    """Does any part of it come from pydantic? msgspec would pass over a pydantic Field in Annotated."""
    return any(_of_pydantic(part) for part in _parts(annotation))


def _of_pydantic(part: Any) -> bool:
    kinds = cast("type", part).__mro__ if isinstance(part, type) else type(part).__mro__
    return any(kind.__module__.partition(".")[0] in ("pydantic", "annotated_types") for kind in kinds)


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    yield from getattr(annotation, "__metadata__", ())
    if get_origin(annotation) is not None:
        for inner in get_args(annotation):
            yield from _parts(inner)


_PLACE = re.compile(r"^(.*) - at `(?:key in )?\$(.*)`$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")


def _msgspec_misfit(message: str) -> Misfit:
    """msgspec names the place as a JSON path at the end of its message; ours is a pointer."""
    placed = _PLACE.match(message)
    if placed is None:
        return Misfit("", message)
    steps = [escaped(name or index) for name, index in _STEP.findall(placed[2])]
    return Misfit("".join(f"/{step}" for step in steps if step != "..."), placed[1])
