"""Messages of a service's WebSocket: start and cancel in, the events of a stream out."""

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
    event: Literal["start", "cancel"]
    payload: bytes = b"null"
    """The JSON payload of a start."""


_decoder = msgspec.json.Decoder(_Message)


def parse_message(text: str) -> SocketMessage:
    """Parse one message. Raises RequestError."""
    try:
        message = _decoder.decode(text)
    except msgspec.ValidationError:
        raise InvalidValue('Expected an object with an event: {"event": "start", "data": {…}}.') from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise InvalidJson("The message is not valid JSON.") from None
    match message.event:
        case "start":
            return SocketMessage("start", bytes(message.data))
        case "cancel":
            return SocketMessage("cancel")
        case _:
            raise InvalidValue(f"Unknown event {message.event[:40]!r}: must be 'start' or 'cancel'.")


def with_api_key(payload: bytes, key: str) -> bytes:
    """Add the key of the socket's URL to a payload without one."""
    value = json.decode_or_text(payload.decode())
    if not isinstance(value, dict):
        return payload
    fields: dict[str, Any] = {**value}
    has_key = bool(own_key.strip()) if isinstance(own_key := fields.get("api_key"), str) else own_key is not None
    return payload if has_key else json.encode({**fields, "api_key": key})


def complete_message(data: bytes) -> str:
    """The last message of a start: the document, or the error."""
    return (b'{"event":"complete","data":%b}' % data).decode()


def error_message(error: PalaverError, *, status: int) -> str:
    """The answer to an invalid message; a running start is not affected."""
    data = json.encode(error_document(error, status=status))
    return (b'{"event":"error","data":%b}' % data).decode()


class SocketMessageEncoder:
    """Converts the bytes of an event stream to messages."""

    def __init__(self) -> None:
        self._remainder = b""
        self.has_ended = False
        """Whether the last message was sent."""

    def feed(self, data: bytes) -> list[str]:
        """Return the messages that are complete now."""
        *frames, self._remainder = (self._remainder + data).split(b"\n\n")
        return [encoded for frame in frames if (encoded := self._message(frame)) is not None]

    def _message(self, frame: bytes) -> str | None:
        head, separator, data = frame.partition(b"\ndata: ")
        if not separator:
            return None  # A keep-alive comment: a WebSocket has pings.
        name = head.removeprefix(b"event: ")
        if name in _TERMINAL_EVENTS:
            self.has_ended = True
            return complete_message(data)
        if name == b"log":
            return (b'{"event":"log","data":%b}' % data).decode()
        return (b'{"event":"event","type":"%b","data":%b}' % (name, data)).decode()
