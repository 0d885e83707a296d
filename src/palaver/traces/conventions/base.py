"""The interface of a convention, and the fields that it may find in a span."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core.messages import Message
from palaver.traces.model import ConventionName as Name
from palaver.traces.model import Defined, RawSpan, SpanKind, Tool


class SpanFields(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that one convention found. UNSET fields are left to the next; invalid values become notes."""

    kind: SpanKind | UnsetType = UNSET
    messages_in: tuple[Message, ...] | UnsetType = UNSET
    messages_out: tuple[Message, ...] | UnsetType = UNSET
    inputs: Any = UNSET
    outputs: Any = UNSET
    parameters: Mapping[str, Any] | UnsetType = UNSET
    tools: tuple[Defined, ...] | UnsetType = UNSET
    tool: Tool | UnsetType = UNSET
    input_tokens: int | UnsetType = UNSET
    output_tokens: int | UnsetType = UNSET
    cached_input_tokens: int | UnsetType = UNSET
    cache_creation_input_tokens: int | UnsetType = UNSET
    reasoning_tokens: int | UnsetType = UNSET
    cost: float | UnsetType = UNSET
    model: str | UnsetType = UNSET
    provider: str | UnsetType = UNSET
    finish: str | UnsetType = UNSET
    session: str | UnsetType = UNSET
    user: str | UnsetType = UNSET
    workflow: str | UnsetType = UNSET
    notes: tuple[str, ...] = ()


class Convention(Protocol):
    """A convention is a module with these names."""

    NAME: Name
    ROOTS: frozenset[str]
    """First words of all names that it reads (`llm` of `llm.model_name`). It is not asked for spans without any."""

    def read(self, raw: RawSpan) -> SpanFields:
        """Read a span; returns empty fields if none of its attributes is there. Pure."""
        ...
