"""What the wire APIs of providers have in common."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from palaver.core.messages import Usage


class ProviderRequest(msgspec.Struct, frozen=True):
    """A body, and the path below the base URL."""

    path: str
    body: Mapping[str, Any]


class ProviderAnswer(msgspec.Struct, frozen=True):
    text: str
    usage: Usage | None = None


class UnreadableAnswer(Exception):
    """The answer lacks what the message says."""


def token_count(value: Any) -> int:
    """A number of tokens; 0 if it is not one."""
    return value if type(value) is int and value >= 0 else 0


def as_object(value: Any) -> Mapping[str, Any]:
    """The fields of an object; empty for other values."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def as_objects(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list."""
    return [as_object(item) for item in cast("list[Any]", value)] if isinstance(value, list) else []
