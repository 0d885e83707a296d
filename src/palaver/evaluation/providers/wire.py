"""What every wire protocol of providers has in common: a request to be sent, and how its numbers are read."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from palaver.core.messages import Usage


class ProviderRequest(msgspec.Struct, frozen=True):
    """A body, and where below the base URL it is posted."""

    path: str
    body: Mapping[str, Any]


class ProviderAnswer(msgspec.Struct, frozen=True):
    """What a model answered."""

    text: str
    usage: Usage | None = None


class UnreadableAnswer(Exception):
    """An answer that is none; the text says what it lacks."""


def token_count(value: Any) -> int:
    """A number of tokens; what is none is 0."""
    return value if type(value) is int and value >= 0 else 0


def as_object(value: Any) -> Mapping[str, Any]:
    """An object's fields; what is no object has none."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def as_objects(value: Any) -> list[Mapping[str, Any]]:
    """A list's objects."""
    return [as_object(item) for item in cast("list[Any]", value)] if isinstance(value, list) else []
