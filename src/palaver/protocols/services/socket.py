"""What passes on a service's WebSocket: starts and cancels in, the events of a stream out (contract: job-chat, 1.5)."""

from typing import Any, Literal, NamedTuple

import msgspec

from palaver.core import json
from palaver.errors import InvalidJson, InvalidValue, PalaverError
from palaver.protocols.services.response import error_document

_TERMINAL_EVENTS = (b"complete", b"error")


class _Message(msgspec.Struct):
    event: str
    data: msgspec.Raw = msgspec.Raw(b"null")


class SocketMessage(NamedTuple):
    """What a client said."""

    event: Literal["start", "cancel"]
    payload: bytes = b"null"
    """Of a start: JSON, read by whoever answers it."""


_messages = msgspec.json.Decoder(_Message)


def parse_message(text: str) -> SocketMessage:
    """One message, or the RequestError that says what is wrong with it."""
    try:
        said = _messages.decode(text)
    except msgspec.ValidationError:
        raise InvalidValue('Send an object with an event: {"event": "start", "data": {…}}.') from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise InvalidJson("This message is not JSON.") from None
    match said.event:
        case "start":
            return SocketMessage("start", bytes(said.data))
        case "cancel":
            return SocketMessage("cancel")
        case _:
            raise InvalidValue("The events that are taken here are start and cancel.")


def with_api_key(payload: bytes, key: str) -> bytes:
    """The payload with the key of the socket's own address, unless it brings one itself."""
    value = json.decode_or_text(payload.decode())
    if not isinstance(value, dict):
        return payload
    fields: dict[str, Any] = {**value}
    has_own = bool(own.strip()) if isinstance(own := fields.get("api_key"), str) else own is not None
    return payload if has_own else json.encode({**fields, "api_key": key})


def complete_message(data: bytes) -> str:
    """The last message of a start: the document, or the error object."""
    return (b'{"event":"complete","data":%b}' % data).decode()


def error_message(error: PalaverError, *, status: int) -> str:
    """A message that could not be taken; what runs goes on."""
    data = json.encode(error_document(error, status=status))
    return (b'{"event":"error","data":%b}' % data).decode()


class SocketMessageEncoder:
    """Bytes of an event stream in, messages out."""

    def __init__(self) -> None:
        self._rest = b""
        self.ended = False
        """Was the last of them told?"""

    def feed(self, data: bytes) -> list[str]:
        """The messages that are complete now."""
        *frames, self._rest = (self._rest + data).split(b"\n\n")
        return [message for frame in frames if (message := self._message(frame)) is not None]

    def _message(self, frame: bytes) -> str | None:
        head, found, data = frame.partition(b"\ndata: ")
        if not found:
            return None  # Only that the stream is alive: a socket has pings for that.
        name = head.removeprefix(b"event: ")
        if name in _TERMINAL_EVENTS:
            self.ended = True
            return complete_message(data)
        if name == b"log":
            return (b'{"event":"log","data":%b}' % data).decode()
        return (b'{"event":"event","type":"%b","data":%b}' % (name, data)).decode()
