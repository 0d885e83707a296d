"""Messages and what they are made of: parts, files and token usage."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Self, TypeVar, get_args

import msgspec
from msgspec.structs import replace

from palaver.core import json


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
        return json.parse_or_text(self.arguments) if self.arguments.strip() else {}


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

_Number = TypeVar("_Number", int, float)


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens, and money where it is known. `input_tokens` counts all input, cached included."""

    input_tokens: int
    output_tokens: int
    cached_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None

    def __add__(self, other: "Usage") -> "Usage":
        """Both together; what neither knows stays unknown."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_input_tokens=_sum(self.cached_input_tokens, other.cached_input_tokens),
            cache_creation_input_tokens=_sum(self.cache_creation_input_tokens, other.cache_creation_input_tokens),
            reasoning_tokens=_sum(self.reasoning_tokens, other.reasoning_tokens),
            cost=_sum(self.cost, other.cost),
        )

    @property
    def total_tokens(self) -> int:
        """Input and output."""
        return self.input_tokens + self.output_tokens


def _sum(one: _Number | None, other: _Number | None) -> _Number | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other


Role = Literal["system", "developer", "user", "assistant", "tool"]
ROLES: frozenset[str] = frozenset(get_args(Role))


class _NoMetadata(dict[str, Any]):
    """The metadata of most messages: one empty dict for all of them, which therefore nobody may fill."""

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError("A message is frozen: make a new one, Message(…, metadata={…}).")

    __setitem__ = __ior__ = update = setdefault = _refuse  # pyright: ignore[reportAssignmentType]  # They only raise.
    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]  # OpenAPI asks it of every default.


NO_METADATA: dict[str, Any] = _NoMetadata()


class Message(msgspec.Struct, frozen=True, omit_defaults=True, eq=False, gc=False):
    """One turn of a conversation.

    Not watched for cycles, as what it holds is JSON, which has none: a long conversation would keep the garbage
    collector busier than its reader.
    """

    role: Role
    parts: tuple[Part, ...]
    id: str | None = None
    name: str | None = None
    metadata: dict[str, Any] = NO_METADATA

    def __eq__(self, other: object) -> bool:
        # Authors write lists of parts. Whether it is one must not matter; to make a tuple of each would cost a call
        # for every message of every conversation that is read.
        return (
            isinstance(other, Message)
            and self.role == other.role
            and tuple(self.parts) == tuple(other.parts)
            and (self.id, self.name, self.metadata) == (other.id, other.name, other.metadata)
        )

    def __hash__(self) -> int:
        return hash((self.role, tuple(self.parts), self.id, self.name))

    @property
    def text(self) -> str:
        """The text parts, joined without a separator."""
        return "".join([part.text for part in self.parts if type(part) is Text])

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls that this message makes, in order."""
        return [part for part in self.parts if type(part) is ToolCall]

    @property
    def tool_results(self) -> list[ToolResult]:
        """The results that this message brings, in order."""
        return [part for part in self.parts if type(part) is ToolResult]

    @classmethod
    def user(cls, *said: str | Part) -> Self:
        """`Message.user("What is this?", File(media_type="image/png", url="…"))`."""
        return cls(role="user", parts=_text_parts(said))

    @classmethod
    def assistant(cls, *said: str | Part) -> Self:
        """The workflow's own words. With nothing said it only separates two messages."""
        return cls(role="assistant", parts=_text_parts(said))

    @classmethod
    def system(cls, *said: str | Part) -> Self:
        """Instructions."""
        return cls(role="system", parts=_text_parts(said))

    @classmethod
    def tool(cls, call_id: str, output: Any, *, is_error: bool = False) -> Self:
        """What a tool answered to the call of that id."""
        return cls(role="tool", parts=(ToolResult(call_id=call_id, output=output, is_error=is_error),))


def _text_parts(said: Iterable[str | Part]) -> tuple[Part, ...]:
    return tuple(Text(text=piece) if isinstance(piece, str) else piece for piece in said)


def has_files(messages: Iterable[Message]) -> bool:
    """Is there any? Asked of every call, most of which have none: so it looks at nothing else."""
    for message in messages:
        for part in message.parts:
            if type(part) is File:
                return True
    return False


def is_stored_file(part: Part) -> bool:
    """Is it a file that is only named by the id of a stored one?"""
    return isinstance(part, File) and part.file_id is not None and part.data is None and part.url is None


def file_ids(messages: Iterable[Message]) -> list[str]:
    """The stored files that messages name."""
    parts = [part for message in messages for part in message.parts]
    return [part.file_id for part in parts if isinstance(part, File) and part.file_id is not None]


def replace_files(messages: Sequence[Message], change: Callable[[File], Part]) -> tuple[Message, ...]:
    """The messages with what `change` makes of each of their files; those without files are the same ones."""
    return tuple([_replace_message_files(message, change) if has_files([message]) else message for message in messages])


def missing_file_notice(file: File) -> Text:
    """What a workflow is given in place of a file that was deleted: whoever asked about it shall not get a guess."""
    name = f"{file.filename!r}, {file.media_type}" if file.filename else file.media_type
    return Text(f"[A file was here ({name}). It is not available any more.]")


def _replace_message_files(message: Message, change: Callable[[File], Part]) -> Message:
    return replace(message, parts=tuple([change(part) if isinstance(part, File) else part for part in message.parts]))
