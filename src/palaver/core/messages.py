"""Messages, their roles and parts, files and token usage."""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, Literal, Self, TypeVar, get_args

import msgspec
from msgspec.structs import replace

from palaver.core import json


class Annotation(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A citation or reference for a span of text."""

    kind: Literal["url", "file", "span"]
    title: str | None = None
    url: str | None = None
    file_id: str | None = None
    start: int | None = None
    """Index of the first character of the span."""
    end: int | None = None
    """Index after the last character."""


class _Part(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type"):
    """Base of all parts. The tag is the field `type` in JSON. Parts that only hold text are not tracked by the GC."""


class Text(_Part, frozen=True, tag="text", gc=False):
    """Text for the user."""

    text: str
    """The text, usually Markdown."""
    annotations: tuple[Annotation, ...] = ()
    """Citations of spans of the text."""


class Reasoning(_Part, frozen=True, tag="reasoning", gc=False):
    """A model's reasoning: shown collapsed, never part of the text."""

    text: str
    """The reasoning or its summary."""
    encrypted: str | None = None
    """Opaque data that the provider expects back unchanged in the next turn."""


class File(_Part, frozen=True, tag="file", gc=False):
    """An image, audio or document, given by `url`, base64 `data`, or the `file_id` of a stored file."""

    media_type: str
    """Media type, such as `image/png`."""
    url: str | None = None
    """URL of the file. Palaver fetches it only when a workflow calls `Context.fetch`."""
    data: str | None = None
    """The content in base64."""
    file_id: str | None = None
    """Id of an uploaded file."""
    filename: str | None = None
    """Display name."""
    detail: str | None = None
    """Level of detail of an image for the model, such as `low` or `high`; depends on the model's API."""


class ToolCall(_Part, frozen=True, tag="tool-call", gc=False):
    """A tool call."""

    call_id: str
    """Id that the result refers to."""
    name: str
    """Name of the tool."""
    arguments: str = ""
    """The JSON text exactly as the model produced it; it may be invalid."""

    @property
    def parsed(self) -> Any:
        """The decoded arguments: `{}` if empty, the text itself if it is not JSON."""
        return json.parse_or_text(self.arguments) if self.arguments.strip() else {}


class ToolResult(_Part, frozen=True, tag="tool-result"):
    """The result of a tool call."""

    call_id: str
    """Id of the call that the result answers."""
    output: Any = None
    """Any JSON."""
    is_error: bool = False
    """Whether the tool failed; `output` then describes the error."""


class Refusal(_Part, frozen=True, tag="refusal", gc=False):
    """A refusal by the model."""

    text: str
    """The explanation; not part of the text of the message."""


class Data(_Part, frozen=True, tag="data"):
    """Application data: a code edit, a chart, anything that is JSON."""

    name: str
    """Kind of data, by which clients recognise it."""
    value: Any = None
    """Any JSON."""


APPROVAL_REQUEST, APPROVAL_RESPONSE = "approval-request", "approval-response"
"""Names of the data parts that request and grant a person's approval of a tool call."""

Part = Text | Reasoning | File | ToolCall | ToolResult | Refusal | Data

_Number = TypeVar("_Number", int, float)


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Token counts, and the cost if known. `input_tokens` counts all input, including cached tokens."""

    input_tokens: int
    """All input, including cached tokens."""
    output_tokens: int
    """All output, including reasoning."""
    cached_input_tokens: int | None = None
    """Input tokens that were read from the model's cache."""
    cache_creation_input_tokens: int | None = None
    """Input tokens that were written to the model's cache."""
    reasoning_tokens: int | None = None
    """Output tokens that were reasoning."""
    cost: float | None = None
    """Cost in US dollars."""

    def __add__(self, other: "Usage") -> "Usage":
        """Return the sum; fields that neither side knows stay None."""
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
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens


def _sum(left: _Number | None, right: _Number | None) -> _Number | None:
    if left is None or right is None:
        return right if left is None else left
    return left + right


Role = Literal["system", "developer", "user", "assistant", "tool"]
ROLES: frozenset[str] = frozenset(get_args(Role))


class _NoMetadata(dict[str, Any]):
    """A shared, read-only empty dict: the metadata of most messages."""

    def _raise_frozen(self, *_: Any, **__: Any) -> Any:
        raise TypeError("Messages are immutable. Create a new one: Message(…, metadata={…}).")

    __setitem__ = __ior__ = update = setdefault = _raise_frozen  # pyright: ignore[reportAssignmentType]  # They only raise.
    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]  # OpenAPI asks it of every default.


NO_METADATA: dict[str, Any] = _NoMetadata()


class Message(msgspec.Struct, frozen=True, omit_defaults=True, eq=False, gc=False):
    """One message of a conversation: a role and parts. Messages are immutable."""

    # Opts out of garbage collection: it holds JSON, which has no cycles, and long conversations have many messages.
    role: Role
    """Role of the author."""
    parts: tuple[Part, ...]
    """The content: `Text`, `Reasoning`, `File`, `ToolCall`, `ToolResult`, `Refusal` and `Data`, in order."""
    id: str | None = None
    """Id of the message. Stored messages always have one."""
    name: str | None = None
    """Name of the author, such as one of several agents."""
    metadata: dict[str, Any] = NO_METADATA
    """Additional data about the message, as JSON."""

    def __eq__(self, other: object) -> bool:
        # Authors may pass a list of parts. Compare as tuples here rather than convert in every constructor call.
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
        """The tool calls among the parts."""
        return [part for part in self.parts if type(part) is ToolCall]

    @property
    def tool_results(self) -> list[ToolResult]:
        """The tool results among the parts."""
        return [part for part in self.parts if type(part) is ToolResult]

    @classmethod
    def user(cls, *content: str | Part) -> Self:
        """Create a user message: `Message.user("What is this?", File(media_type="image/png", url="…"))`."""
        return cls(role="user", parts=_text_parts(content))

    @classmethod
    def assistant(cls, *content: str | Part) -> Self:
        """Create an assistant message. Yield one without parts to begin a new message."""
        return cls(role="assistant", parts=_text_parts(content))

    @classmethod
    def system(cls, *content: str | Part) -> Self:
        """Create a system message."""
        return cls(role="system", parts=_text_parts(content))

    @classmethod
    def tool(cls, call_id: str, output: Any, *, is_error: bool = False) -> Self:
        """Create the message with a tool's result for the call `call_id`."""
        return cls(role="tool", parts=(ToolResult(call_id=call_id, output=output, is_error=is_error),))


def _text_parts(content: Iterable[str | Part]) -> tuple[Part, ...]:
    return tuple(Text(text=piece) if isinstance(piece, str) else piece for piece in content)


def has_files(messages: Iterable[Message]) -> bool:
    """Whether any message has a file. Runs for every call, so it stops at the first one."""
    for message in messages:
        for part in message.parts:
            if type(part) is File:
                return True
    return False


def is_stored_file(part: Part) -> bool:
    """Whether the part refers to a stored file by id, without its content."""
    return isinstance(part, File) and part.file_id is not None and part.data is None and part.url is None


def file_ids(messages: Iterable[Message]) -> list[str]:
    parts = [part for message in messages for part in message.parts]
    return [part.file_id for part in parts if isinstance(part, File) and part.file_id is not None]


def replace_files(messages: Sequence[Message], change: Callable[[File], Part]) -> tuple[Message, ...]:
    """Return the messages with each file replaced by `change(file)`; messages without files are not copied."""
    return tuple([_replace_message_files(message, change) if has_files([message]) else message for message in messages])


def missing_file_notice(file: File) -> Text:
    """Return the text that stands in for a deleted file, so that a model does not guess its content."""
    name = f"{file.filename!r}, {file.media_type}" if file.filename else file.media_type
    return Text(f"[A file was attached here ({name}), but it is no longer available.]")


def _replace_message_files(message: Message, change: Callable[[File], Part]) -> Message:
    return replace(message, parts=tuple([change(part) if isinstance(part, File) else part for part in message.parts]))


UNKNOWN_MEDIA_TYPE = "application/octet-stream"


def file_from_url(
    url: str,
    default_type: str,
    *,
    media_type: str | None = None,
    filename: str | None = None,
    detail: str | None = None,
) -> File:
    """Create a file from its URL; a base64 `data:` URL becomes its content. `media_type` overrides that of the URL."""
    if url[:5] == "data:":
        head, comma, data = url.partition(",")
        if head.endswith(";base64") and comma:
            media_type = media_type or head.removeprefix("data:").removesuffix(";base64")
            return File(media_type or default_type, None, data, None, filename, detail)
    return File(media_type or default_type, url, None, None, filename, detail)


def file_to_url(file: File) -> str:
    """Return the file's URL, or its content as a `data:` URL."""
    return file.url if file.url is not None else f"data:{file.media_type};base64,{file.data or ''}"


def unique_calls(calls: Iterable[ToolCall]) -> Iterable[ToolCall]:
    """Return the calls without those whose id occurred before."""
    known: dict[str, ToolCall] = {}
    for call in calls:
        known.setdefault(call.call_id, call)
    return known.values()


def split_results(message: Message) -> list[Message]:
    """Split results off into tool messages; only the first message keeps the id."""
    if message.role == "tool" or not message.tool_results:
        return [message]
    messages: list[Message] = []
    message_id = message.id
    for are_results, parts in groupby(message.parts, lambda part: type(part) is ToolResult):
        if are_results:
            messages += [Message("tool", (part,)) for part in parts]
        else:
            messages.append(Message(message.role, tuple(parts), message_id, message.name))
            message_id = None
    return messages


def join_texts_or_json(parts: Sequence[Part], value: Any) -> Any:
    """Return a tool's output: the texts joined if `parts` are nothing else, or `value`. Raises NotJson."""
    texts = [part.text for part in parts if type(part) is Text]
    return "".join(texts) if len(texts) == len(parts) else json.ensure_json(value)


class _Annotations(msgspec.Struct, gc=False):  # A Struct: msgspec would inspect a bare tuple type on every call.
    annotations: tuple[Annotation, ...] = ()


def read_annotations(value: Any) -> tuple[Annotation, ...]:
    """Read annotations in Palaver's own format; malformed ones are dropped."""
    try:
        return msgspec.convert({"annotations": value}, _Annotations).annotations
    except (msgspec.ValidationError, UnicodeError):
        return ()


_ROLE_SYNONYMS: dict[str, Role] = {
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "chatbot": "assistant",
    "agent": "assistant",
    "function": "tool",
}

ROLE_ALIASES: dict[str, Role] = {**{role: role for role in get_args(Role)}, **_ROLE_SYNONYMS}
"""Known role names in lower case, with the role they stand for."""


def parse_role(role_name: str, *, answers_a_call: bool = False) -> tuple[Role, str | None]:
    """Return the role, and the name that an unknown role stands for: frameworks put a tool's or agent's name there."""
    role = ROLE_ALIASES.get(role_name) or ROLE_ALIASES.get(role_name.lower())
    if role is not None:
        return role, None
    return ("tool" if answers_a_call else "assistant"), role_name


def unanswered_calls(messages: Iterable[Message]) -> dict[str, ToolCall]:
    """Return the calls without a result, by id; some models reuse ids in every turn."""
    pending: dict[str, ToolCall] = {}
    for message in messages:
        pending |= {call.call_id: call for call in message.tool_calls}
        for result in message.tool_results:
            pending.pop(result.call_id, None)
    return pending
