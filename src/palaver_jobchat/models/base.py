"""The request to a model, the events of its response, and the Model protocol."""

from collections.abc import AsyncGenerator
from typing import Any, Literal, Protocol

import msgspec

from palaver import Usage
from palaver_jobchat.prompt import Prompt

StopReason = Literal["stop", "length", "tool-calls", "content-filter"]


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    prompt: Prompt
    key: str | None = None
    """The caller's key; None means the server's."""
    must_edit: bool = False
    """Whether the model must call the tool, as in a correction."""
    field_sizes: dict[str, int] = {}
    """Characters per field of the caller's payload, for the error that the prompt is too long."""
    script: list[Any] | None = None
    """The script of a scripted model. Other models ignore it."""

    def __repr__(self) -> str:
        """Without the key and the user's content."""
        return f"ModelRequest(must_edit={self.must_edit})"


class TextDelta(msgspec.Struct, frozen=True):
    text: str


class ToolCallStarted(msgspec.Struct, frozen=True):
    """The model has started to write a tool call."""

    id: str
    name: str


class ToolCallFinished(msgspec.Struct, frozen=True):
    id: str
    name: str
    input: object
    """The decoded JSON, or None if it is invalid. Truncated JSON is not repaired."""


class UsageReport(msgspec.Struct, frozen=True):
    """The usage of this request so far. Replaces the previous report."""

    usage: Usage


class ResponseFinished(msgspec.Struct, frozen=True):
    """The last event of a successful response."""

    reason: StopReason
    raw: str = ""
    """The provider's own stop reason."""


ModelEvent = TextDelta | ToolCallStarted | ToolCallFinished | UsageReport | ResponseFinished


class Model(Protocol):
    """One provider with one model."""

    @property
    def name(self) -> str:
        """The provider's name of the model."""
        ...

    @property
    def is_configured(self) -> bool:
        """Whether the server has a key, so that callers need none."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Yield the response's events. Raises Failure (errors.py). Closing the generator ends the connection."""
        ...

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        ...


class ToolCallBuilder:
    """Assembles a tool call from its deltas. Truncated input is not repaired: it must not look complete."""

    def __init__(self, call_id: str, name: str) -> None:
        self.started = ToolCallStarted(call_id, name)
        self._input: list[str] = []

    def add(self, piece: str) -> None:
        self._input.append(piece)

    @property
    def finished(self) -> ToolCallFinished:
        """The call. No input text at all means an empty object."""
        try:
            value = msgspec.json.decode("".join(self._input) or "{}")
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            value = None
        return ToolCallFinished(self.started.id, self.started.name, value)
