"""JSON from outside as one of our own Structs, or an error that points at what does not fit."""

import re
from typing import Any, TypeVar

import msgspec

from palaver.core import jsons
from palaver.errors import InvalidBody, InvalidType, InvalidValue, RequestError

T = TypeVar("T")

_MISSING = re.compile(r"Object missing required field `(.*)`")
_TYPE = re.compile(r"Expected `(.*)`, got `(.*)`")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_WORDS = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


def fitted(value: Any, kind: type[T]) -> T:
    """An object as a Struct; keys that it does not know are ignored."""
    if not isinstance(value, dict):
        raise InvalidBody("The body must be a JSON object.")
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise misfit(str(error)) from None


def misfit(text: str) -> RequestError:
    """What msgspec says of a value that does not fit, as an error of ours with a JSON pointer."""
    why, _, place = text.partition(" - at `")
    # msgspec does not name the keys of a mapping (`[...]`): the pointer then ends at the mapping.
    known = place.removesuffix("`").removeprefix("$").partition("[...]")[0]
    pointer = "".join(f"/{jsons.escaped(name or number)}" for name, number in _STEP.findall(known))
    if missing := _MISSING.fullmatch(why):
        pointer = f"{pointer}/{jsons.escaped(missing[1])}"
        return InvalidBody(f"{pointer} is missing.", pointer=pointer)
    named = pointer or "The body"
    if wrong := _TYPE.fullmatch(why):
        wanted, given = (re.sub(r"\w+", lambda word: _WORDS.get(word[0], word[0]), one) for one in wrong.groups())
        return InvalidType(f"{named} must be {wanted.replace(' | ', ' or ')}, not {given}.", pointer=pointer or None)
    return InvalidValue(f"{named} does not fit: {why.replace('`', '')}.", pointer=pointer or None)
