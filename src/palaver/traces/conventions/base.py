"""What a convention may find in a span. A field that it does not know stays unset, and the next one is asked."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core.messages import Message
from palaver.traces.model import ConventionName as Name
from palaver.traces.model import Defined, RawSpan, SpanKind, Tool


class SpanFields(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that one convention gives. Numbers and texts are sound; whatever was not is a note."""

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
    """A convention is a plain module with these three."""

    NAME: Name
    ROOTS: frozenset[str]
    """The first words of all names it knows (`llm` of `llm.model_name`): a span without any of them it is not shown."""

    def read(self, raw: RawSpan) -> SpanFields:
        """What it knows of a span; an empty Found where nothing in it is of this convention. Pure."""
        ...
