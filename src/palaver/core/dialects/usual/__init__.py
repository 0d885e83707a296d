"""The usual shapes of each dialect's elements, by which a whole list is recognised and read in one go.

A shape admits only what recognition would take for that dialect, for certain, and only fields that its reader looks at
or may pass over. What it does not admit is no error: it is judged and read the long way. A dialect in whose lists plain
text stands as in Chat Completions may admit that too, if it reads it as if it stood alone.

Most are found by a loop, and the shape of an element is its message. Here is what serves those that are types, with
many fields: one call of msgspec's tells which of them a whole list has.
"""

import re
from typing import Annotated, Any

import msgspec

from palaver.core.recognition import Nobodys, is_nobodys

Id = Annotated[str, msgspec.Meta(min_length=1)]
"""One that is given; what has none is named by its place, the long way."""

_PLACE = re.compile(r"at `\$\.elements\[(\d+)\]")


class Unusual(Exception):
    """Said of an element in a loop that recognises: it is to be read the long way."""


class Shape(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """What is usual: nothing but the fields that it has."""


def listing(kind: Any) -> Any:
    """The type of a list of such elements, as `shaped` takes it.

    It is a struct with that list, as msgspec remembers what it knows of a struct, and asks a bare `list[…]` each time.
    """
    return msgspec.defstruct("Listing", [("elements", list[kind])], gc=False)


def shaped(elements: list[Any], kind: Any) -> list[Any]:
    """Of each element its shape, as far as all have one, then None; `kind` is a listing of them."""
    try:
        return _converted(elements, kind)
    except msgspec.ValidationError as error:
        place = _PLACE.findall(str(error))  # The last is msgspec's own; before it may stand what the elements say.
        first = int(place[-1]) if place else 0
        if is_nobodys(elements[first]):
            raise Nobodys from None  # No need to look at the others.
        some = all_shaped(elements[:first], kind)
    except Exception:  # What is no JSON may raise anything.
        some = []
    return some + [None] * (len(elements) - len(some))


def all_shaped(elements: list[Any], kind: Any) -> list[Any]:
    """The same where every element has one; nothing where one has none."""
    try:
        return _converted(elements, kind)
    except Exception:
        return []


def _converted(elements: list[Any], kind: Any) -> list[Any]:
    return msgspec.convert({"elements": elements}, kind).elements


def from_first(elements: list[Any], found: list[Any]) -> list[Any]:
    """The shapes of the first so many, and None for the others; Nobodys if the next one is no message at all."""
    if is_nobodys(elements[len(found)]):
        raise Nobodys
    return found + [None] * (len(elements) - len(found))
