"""Scripts of the fake server and the scripted model: a JSON list with one step per request.

[{"text": "Hello", "chunks": 3, "delay": 0.01, "usage": {"input_tokens": 10, "output_tokens": 5}},
 {"blocks": [{"text": "I'll rename it."}, {"tool": {"name": "edit_job", "input": {"edits": []}}}]},
 {"error": {"status": 429, "type": "rate_limit_error", "message": "slow down", "headers": {"retry-after": "7"}}},
 {"text": "Half an ans", "then_error": {"type": "overloaded_error", "message": "Overloaded"}},
 {"text": "Half", "drop": true}, {"text": "Half", "hang": true}, {"text": "Cut", "stop": "max_tokens"}]
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, cast

import msgspec

from palaver import PalaverError

ERROR_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""Anthropic's error types by status."""


class _StrictStruct(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rejects unknown keys, so that a typo is an error."""


class Tool(_StrictStruct, frozen=True):
    name: str
    input: Any = {}
    id: str = ""
    """Empty: derived from the position."""


class RawTool(_StrictStruct, frozen=True):
    """A tool call with raw input text, valid JSON or not."""

    name: str
    json: str = ""
    id: str = ""


class ScriptBlock(_StrictStruct, frozen=True):
    """A content block. Exactly one field must be set."""

    text: str | None = None
    thinking: str | None = None
    tool: Tool | None = None
    raw_tool: RawTool | None = None

    def __post_init__(self) -> None:
        if sum(value is not None for value in (self.text, self.thinking, self.tool, self.raw_tool)) != 1:
            raise ValueError("A block must have exactly one of text, thinking, tool and raw_tool")

    @property
    def tool_call(self) -> RawTool | None:
        """The tool call of this block, with its input as JSON text."""
        if self.tool is None:
            return self.raw_tool
        return RawTool(self.tool.name, msgspec.json.encode(self.tool.input).decode(), self.tool.id)


class ScriptUsage(_StrictStruct, frozen=True):
    """Usage as Anthropic counts it: `input_tokens` excludes cached input."""

    input_tokens: int = 10
    output_tokens: int = 5
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0


class ScriptError(_StrictStruct, frozen=True):
    status: int = 500
    type: str = ""
    """Empty: the usual type of the status."""
    message: str = "Something went wrong."
    headers: dict[str, str] = {}
    retry: bool = False
    """Value of the `x-should-retry` header."""

    @property
    def error_type(self) -> str:
        return self.type or ERROR_TYPES.get(self.status, "api_error" if self.status >= 500 else "invalid_request_error")


class ScriptStep(_StrictStruct, frozen=True):
    """The response to one request. Without text and blocks, a drop or hang comes before the first byte."""

    text: str | None = None
    blocks: list[ScriptBlock] | None = None
    chunks: int = 1
    """Number of deltas per text and tool input."""
    delay: float = 0.0
    """Seconds before each delta."""
    usage: ScriptUsage = ScriptUsage()
    stop: str = ""
    error: ScriptError | None = None
    then_error: ScriptError | None = None
    """An error event after the content."""
    drop: bool | Literal["cleanly"] = False
    """Whether to close the connection after the content; "cleanly": end the body, but not the message."""
    hang: bool = False
    """Whether to send nothing more after the content and keep the connection open."""

    def __post_init__(self) -> None:
        if self.text is not None and self.blocks is not None:
            raise ValueError("A step can't have both text and blocks")
        if self.chunks < 1 or self.delay < 0:
            raise ValueError("chunks must be at least 1 and delay at least 0")

    @property
    def content(self) -> list[ScriptBlock]:
        if self.blocks is not None:
            return self.blocks
        return [] if self.text is None else [ScriptBlock(text=self.text)]

    @property
    def stop_reason(self) -> str:
        return self.stop or ("tool_use" if any(block.tool_call for block in self.content) else "end_turn")

    @property
    def is_incomplete(self) -> bool:
        """Whether the response does not end normally."""
        return self.then_error is not None or bool(self.drop) or self.hang


def read_step(value: object) -> ScriptStep:
    """Decode a step. Raises PalaverError."""
    try:
        return value if isinstance(value, ScriptStep) else msgspec.convert(value, ScriptStep)
    except msgspec.ValidationError as error:
        raise PalaverError(f"Invalid step in the model's script: {error}.") from error


def read_script(value: object) -> list[ScriptStep]:
    """Decode a script: a list of steps, or the path of a JSON file. Raises PalaverError."""
    if isinstance(value, Path):
        try:
            value = msgspec.json.decode(value.read_bytes())
        except (OSError, msgspec.DecodeError) as error:
            raise PalaverError(f"Cannot read the model's script: {error}.") from error
    if not isinstance(value, list):
        raise PalaverError("The model's script must be a list of steps.")
    return [read_step(step) for step in cast("list[object]", value)]


def split_text(text: str, count: int) -> Iterator[str]:
    """Yield the text in up to `count` non-empty parts of similar size."""
    count = min(count, len(text))
    for number in range(count):
        yield text[len(text) * number // count : len(text) * (number + 1) // count]
