"""Annotations, as far as they can be evaluated, and the notes that `Annotated` hangs on them."""

import inspect
import sys
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin


def hints_of(target: Any, *, also: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The annotations of a function or class, each by itself: one that cannot be evaluated stays text and says nothing.

    Names that the author's module does not know at run time (imported for type checkers only) are looked up in `also`.
    """
    hints: dict[str, Any] = {}
    for raw, space in _annotated(target):
        for name, annotation in raw.items():
            hints[name] = _evaluated(annotation, {**(also or {}), **space})
    return hints


def sans_none(annotation: Any) -> Any:
    """`X` for `X | None`; any other annotation as it is."""
    if get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation
    others = [member for member in get_args(annotation) if member is not type(None)]
    return others[0] if len(others) == 1 else annotation


def bare(annotation: Any) -> Any:
    """The annotation without `Annotated` and `| None` around it."""
    inner = sans_none(annotation)
    if get_origin(inner) is Annotated:
        inner = get_args(inner)[0]
    return annotation if inner is annotation else bare(inner)


def members_of(annotation: Any) -> tuple[Any, ...]:
    """What a list or another collection holds by its annotation; of `list[A | B]` both."""
    annotation = bare(annotation)
    origin = get_origin(annotation)
    if not isinstance(origin, type) or not issubclass(origin, Iterable):
        return ()
    return tuple(kind for held in get_args(annotation) for kind in _alternatives(bare(held)))


def notes_of(annotation: Any) -> Iterator[Any]:
    """What `Annotated` adds to it, also as one half of `… | None`."""
    yield from getattr(annotation, "__metadata__", ())
    inner = sans_none(annotation)
    if inner is not annotation:
        yield from notes_of(inner)


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) not in (typing.Union, types.UnionType):
        return (annotation,)
    return tuple(kind for member in get_args(annotation) for kind in _alternatives(bare(member)))


def _annotated(target: Any) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Annotations as written, and where their names are looked up; of a class, its bases' first."""
    if not isinstance(target, type):
        yield getattr(target, "__annotations__", {}), getattr(target, "__globals__", {})
        return
    for base in reversed(target.__mro__):
        yield inspect.get_annotations(base), vars(sys.modules[base.__module__])


def _evaluated(annotation: Any, space: dict[str, Any]) -> Any:
    shim = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(shim, globalns=space, include_extras=True)["it"]
    except Exception:  # Evaluating a stranger's annotation may raise anything.
        return str(getattr(annotation, "__forward_arg__", annotation))
