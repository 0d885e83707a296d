"""What every provider is asked, and the few things that it says while it answers."""

from collections.abc import AsyncGenerator
from typing import Any, Literal, Protocol

import msgspec

from palaver import Usage
from palaver_jobchat.prompt import Prompt

StopReason = Literal["stop", "length", "tool-calls", "content-filter"]


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a model."""

    prompt: Prompt
    key: str | None = None
    """The caller's own; none means the server's."""
    must_edit: bool = False
    """Whether the model has to call the tool: a correction is nothing else."""
    field_sizes: dict[str, int] = {}
    """The size of each field that was sent, for the error that says the prompt is too long."""
    script: list[Any] | None = None
    """What a scripted model plays; no other looks at it."""

    def __repr__(self) -> str:
        """Without the key, and without what it says: it is nobody's business but the model's."""
        return f"ModelRequest(must_edit={self.must_edit})"


class TextDelta(msgspec.Struct, frozen=True):
    """A piece of the answer's text."""

    text: str


class ToolCallStarted(msgspec.Struct, frozen=True):
    """The model begins to write a call of a tool."""

    id: str
    name: str


class ToolCallFinished(msgspec.Struct, frozen=True):
    """A call of a tool, whole."""

    id: str
    name: str
    input: object
    """The JSON that the model wrote; None where it is no JSON. One that was cut off is never completed."""


class UsageReport(msgspec.Struct, frozen=True):
    """What this request has cost so far. Takes the place of what was said before."""

    usage: Usage


class ResponseFinished(msgspec.Struct, frozen=True):
    """The end of an answer, and always the last: whoever fails raises instead."""

    reason: StopReason
    raw: str = ""
    """As the provider has it."""


ModelEvent = TextDelta | ToolCallStarted | ToolCallFinished | UsageReport | ResponseFinished


class Model(Protocol):
    """One provider with one model."""

    @property
    def name(self) -> str:
        """Of the model, as its provider calls it."""
        ...

    @property
    def is_configured(self) -> bool:
        """Whether the server has what it takes to ask it, so that no caller needs a key."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """The answer as it comes. Raises Failure (failures.py); closing it ends the connection."""
        ...

    async def aclose(self) -> None:
        """Close the connections of this event loop. They end with the process in any case."""
        ...


class ToolCallBuilder:
    """One call. What was cut off stays cut off: half a call must not look like a whole one."""

    def __init__(self, call_id: str, name: str) -> None:
        self.started = ToolCallStarted(call_id, name)
        self._written: list[str] = []

    def add(self, piece: str) -> None:
        """A piece of its input, as JSON text."""
        self._written.append(piece)

    @property
    def finished(self) -> ToolCallFinished:
        """The call with all that was written. Nothing at all is an input without fields."""
        try:
            value = msgspec.json.decode("".join(self._written) or "{}")
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            value = None
        return ToolCallFinished(self.started.id, self.started.name, value)
