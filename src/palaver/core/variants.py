"""Variants, named sets of parameters: references, differences and files."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core import json
from palaver.core.json import decode_struct
from palaver.errors import InvalidParameter, InvalidValue, TooLarge

DEFAULT_VARIANT = "default"
"""The variant defined by the code itself."""
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$(?!\n)"
"""Pattern of variant names; `$` alone would allow a trailing newline."""
MAX_PARAMETERS_BYTES = 256 * 1024
"""JSON size of a variant's parameters."""

_REFERENCE = re.compile(
    r"(?:(?P<workflow>[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})@)?"
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9_.-]{0,63})"
    r"(?::(?P<version>[1-9][0-9]{0,8}))?"
)


class VariantReference(msgspec.Struct, frozen=True):
    """`short` is the newest version, `short:3` version 3, `tutor@short:3` names the workflow too."""

    name: str
    version: int | None = None
    workflow: str | None = None

    def __str__(self) -> str:
        workflow = f"{self.workflow}@" if self.workflow is not None else ""
        return f"{workflow}{self.name}{f':{self.version}' if self.version is not None else ''}"


def parse_reference(text: str, *, pointer: str | None = None) -> VariantReference:
    """Parse a reference. Raises InvalidParameter."""
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise InvalidParameter(
            f"Invalid variant reference {text[:160]!r}: use name, name:3 or workflow@name:3.", pointer=pointer
        )
    version = match["version"]
    return VariantReference(match["name"], int(version) if version else None, match["workflow"])


# Differences


class Change(msgspec.Struct, frozen=True):
    """A difference at one path. `from` or `to` is omitted if that side has no value."""

    path: str
    before: Any | UnsetType = msgspec.field(default=UNSET, name="from")
    after: Any | UnsetType = msgspec.field(default=UNSET, name="to")


def diff_json(before: Any, after: Any, path: str = "") -> list[Change]:
    """Compare two JSON values; lists are compared by index."""
    match before, after:
        case dict(), dict():
            sides = cast("dict[str, Any]", before), cast("dict[str, Any]", after)
            return _diff_objects(path, sides[0], sides[1])
        case list(), list():
            old, new = cast("list[Any]", before), cast("list[Any]", after)
            return _diff_objects(path, _by_index(old), _by_index(new))
        case _:
            return [] if is_same_json(before, after) else [Change(path, before, after)]


def _diff_objects(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    changes: list[Change] = []
    for key in (*before, *(key for key in after if key not in before)):
        below = f"{path}/{json.escape_pointer(key)}"
        old, new = before.get(key, UNSET), after.get(key, UNSET)
        changes += [Change(below, old, new)] if UNSET in (old, new) else diff_json(old, new, below)
    return changes


def _by_index(items: list[Any]) -> dict[str, Any]:
    return {str(index): item for index, item in enumerate(items)}


def is_same_json(left: Any, right: Any) -> bool:
    """Whether two values are the same JSON in any key order. Unlike in Python, `1`, `1.0` and `true` differ."""
    return _encode_sorted(left) == _encode_sorted(right)


def _encode_sorted(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


# Files


class VariantFile(msgspec.Struct, frozen=True, kw_only=True):
    """A variant with its parameters, as kept in a file next to the code."""

    description: Annotated[str, msgspec.Meta(pattern=r"^[^\x00]*$", max_length=4_000)] = ""
    name: Annotated[str, msgspec.Meta(pattern=NAME_PATTERN)]
    palaver: Literal["variant/1"]
    parameters: dict[str, Any]
    workflow: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$(?!\n)")]


def decode_variant_file(raw: bytes, bounds: json.JsonLimits = json.DEFAULT_LIMITS) -> VariantFile:
    """Decode a variant file. Raises a RequestError."""
    file = decode_struct(json.decode(raw, bounds), VariantFile)
    if file.name == DEFAULT_VARIANT:
        raise InvalidValue(
            f"The name {DEFAULT_VARIANT!r} is reserved for the variant defined in code.", pointer="/name"
        )
    check_parameters_size(file.parameters)
    return file


def check_parameters_size(parameters: Mapping[str, Any]) -> None:
    if len(json.encode(parameters)) > MAX_PARAMETERS_BYTES:
        raise TooLarge(f"The parameters exceed the limit of {MAX_PARAMETERS_BYTES:,} bytes.", pointer="/parameters")


def encode_variant_file(file: VariantFile) -> bytes:
    """Encode a variant file: sorted keys, two spaces, a final newline. Deterministic."""
    return msgspec.json.format(_encode_sorted(file), indent=2) + b"\n"


def encode_variant_line(file: VariantFile) -> bytes:
    return _encode_sorted(file) + b"\n"
