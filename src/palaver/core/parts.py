"""Parts: what a message is made of."""

from typing import Any, Literal

import msgspec

from palaver.core import jsons


class Annotation(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A note on a stretch of text: where it comes from, or what it refers to."""

    kind: Literal["url", "file", "span"]
    title: str | None = None
    url: str | None = None
    file_id: str | None = None
    start: int | None = None
    """Index of the first character that the note is about."""
    end: int | None = None
    """Index after the last one."""


class _Part(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type"):
    """What all parts share: their kind is the field `type` on the wire.

    Those of nothing but text are no business of the garbage collector's, which would look at them again and again.
    """


class Text(_Part, frozen=True, tag="text", gc=False):
    """Words meant for the reader."""

    text: str
    annotations: tuple[Annotation, ...] = ()


class Reasoning(_Part, frozen=True, tag="reasoning", gc=False):
    """A model's thinking: shown folded, never part of the text."""

    text: str
    encrypted: str | None = None
    """What the model's provider wants back untouched in the next turn."""


class File(_Part, frozen=True, tag="file", gc=False):
    """An image, a sound, a document: by `url`, as base64 `data`, or by the `file_id` of a stored file."""

    media_type: str
    url: str | None = None
    data: str | None = None
    file_id: str | None = None
    filename: str | None = None
    detail: str | None = None


class ToolCall(_Part, frozen=True, tag="tool-call", gc=False):
    """A tool that the workflow wants called."""

    call_id: str
    name: str
    arguments: str = ""
    """The JSON text exactly as it was produced; it may be invalid."""

    @property
    def parsed(self) -> Any:
        """The arguments as a value: `{}` for no text, the text itself if it is not JSON."""
        return jsons.parsed(self.arguments) if self.arguments.strip() else {}


class ToolResult(_Part, frozen=True, tag="tool-result"):
    """What a tool answered."""

    call_id: str
    output: Any = None
    is_error: bool = False


class Refusal(_Part, frozen=True, tag="refusal", gc=False):
    """The model declines."""

    text: str


class Data(_Part, frozen=True, tag="data"):
    """Application data: a code edit, a chart, anything that is JSON."""

    name: str
    value: Any = None


APPROVAL_REQUEST, APPROVAL_RESPONSE = "approval-request", "approval-response"
"""Names of the data parts in which a run asks for a person's approval of a call, and gets it."""

Part = Text | Reasoning | File | ToolCall | ToolResult | Refusal | Data
