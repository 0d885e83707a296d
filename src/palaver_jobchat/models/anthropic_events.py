"""The events of Anthropic's stream, read straight from its bytes, and what they amount to.

The SDK would make an object tree of every piece of text, at a third of all that a piece costs; and its accumulated
message would complete the input of a call that was cut off, so that it looked whole.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from palaver import Usage
from palaver_jobchat.models.base import Happening, Reason, Said, Spent, Stopped
from palaver_jobchat.models.calls import Writing

REASONS: Final[dict[str, Reason]] = {
    "tool_use": "tool-calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content-filter",
}
"""Why a message ends; any other reason is that it is said."""


class Details(msgspec.Struct, frozen=True):
    """What output tokens were spent on."""

    thinking_tokens: int | None = None


class Tokens(msgspec.Struct, frozen=True, omit_defaults=True):
    """A usage, cumulative; a later one may leave out what has not changed."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: Details | None = None


class Message(msgspec.Struct, frozen=True):
    """A message as it begins."""

    usage: Tokens = Tokens()


class Block(msgspec.Struct, frozen=True):
    """A block as it begins."""

    type: str = ""
    id: str = ""
    name: str = ""


class Delta(msgspec.Struct, frozen=True):
    """A piece of a block, or the end of a message."""

    type: str = ""
    text: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class ErrorObject(msgspec.Struct, frozen=True):
    """What went wrong."""

    type: str = ""
    message: str = ""


class Event(msgspec.Struct, frozen=True):
    """Any event: the fields of all of them that concern us. New kinds come without warning, and are no error."""

    type: str = ""
    message: Message = Message()
    content_block: Block = Block()
    delta: Delta = Delta()
    usage: Tokens = Tokens()
    error: ErrorObject = ErrorObject()


_decode = msgspec.json.Decoder(Event).decode


class Lines:
    """Takes a stream of server-sent events apart."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> Iterator[Event]:
        """The events that are whole. Each has its data in one line, with its own name in it. Raises ValueError."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield _decode(line[5:])


class Reading:
    """Makes happenings out of events. What the model thinks is its own, and not among them."""

    def __init__(self) -> None:
        self.is_whole = False
        self._tokens = Tokens()
        self._reason = ""
        self._call: Writing | None = None

    def feed(self, event: Event) -> list[Happening]:
        """What an event amounts to."""
        match event.type:
            case "content_block_delta":
                return self._delta(event.delta)
            case "message_start":
                return [self._spent(event.message.usage)]
            case "message_delta":
                self._reason = event.delta.stop_reason or self._reason
                return [self._spent(event.usage)]
            case "content_block_start" if event.content_block.type == "tool_use":
                self._call = Writing(event.content_block.id, event.content_block.name)
                return [self._call.began]
            case "content_block_stop" if self._call is not None:
                call, self._call = self._call, None
                return [call.ended]
            case "message_stop":
                self.is_whole = True
                return [Stopped(REASONS.get(self._reason, "stop"), self._reason)]
            case _:
                return []

    def _delta(self, delta: Delta) -> list[Happening]:
        if delta.type == "text_delta" and delta.text:
            return [Said(delta.text)]
        if delta.type == "input_json_delta" and self._call is not None:
            self._call.add(delta.partial_json)
        return []

    def _spent(self, tokens: Tokens) -> Spent:
        news = {name: value for name, value in msgspec.structs.asdict(tokens).items() if value is not None}
        self._tokens = msgspec.structs.replace(self._tokens, **news)
        return Spent(usage(self._tokens))


def usage(tokens: Tokens) -> Usage:
    """The same in our own count, where input is all input."""
    read, made = tokens.cache_read_input_tokens or 0, tokens.cache_creation_input_tokens or 0
    return Usage(
        input_tokens=(tokens.input_tokens or 0) + read + made,
        output_tokens=tokens.output_tokens or 0,
        cached_input_tokens=read,
        cache_creation_input_tokens=made,
        reasoning_tokens=None if tokens.output_tokens_details is None else tokens.output_tokens_details.thinking_tokens,
    )
