"""Encode and decode server-sent events (WHATWG HTML, section 9.2)."""

from palaver.errors import UpstreamFailed

KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"
"""The end marker of OpenAI-shaped streams and of the AI SDK."""
MAX_RECORD_BYTES = 1024 * 1024
"""Maximum size of one record that is read from another server."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def data_event(data: bytes) -> bytes:
    return b"data: %b\n\n" % data


class LineDecoder:
    """Splits a byte stream into lines, in chunks of any size."""

    def __init__(self, *, max_bytes: int = MAX_RECORD_BYTES) -> None:
        self._remainder = bytearray()
        self._max_bytes = max_bytes

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that are complete now, without their ends (LF or CRLF)."""
        *lines, remainder = data.split(b"\n")
        if lines:
            lines[0] = bytes(self._remainder) + lines[0]
            self._remainder.clear()
        self._remainder += remainder
        if len(self._remainder) > self._max_bytes or any(len(line) > self._max_bytes for line in lines):
            raise record_too_long(self._max_bytes)
        return [line.removesuffix(b"\r") for line in lines]

    def end(self) -> list[bytes]:
        """Return the text after the last line end."""
        remainder = bytes(self._remainder)
        self._remainder.clear()
        return [remainder] if remainder else []


class EventStreamDecoder:
    """Decodes an event stream to the data of its events. Comments and other fields are ignored."""

    def __init__(self, *, max_bytes: int = MAX_RECORD_BYTES) -> None:
        self._lines = LineDecoder(max_bytes=max_bytes)
        self._max_bytes = max_bytes
        self._data: list[bytes] = []
        self._size = 0
        self._has_started = False
        self._after_return = False

    def feed(self, data: bytes) -> list[bytes]:
        """Return the data of every event that is complete now."""
        if self._after_return and data.startswith(b"\n"):
            data = data[1:]  # The second byte of a CRLF that was split between two chunks.
        elif not data:
            return []
        self._after_return = data.endswith(b"\r")
        lines = self._lines.feed(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        return [event for line in lines if (event := self._add_line(line)) is not None]

    def end(self) -> list[bytes]:
        """Return a last event without its closing empty line. A browser would drop it; some servers omit the line."""
        lines = [*self._lines.end(), b""]
        return [event for line in lines if (event := self._add_line(line)) is not None]

    def _add_line(self, line: bytes) -> bytes | None:
        if not self._has_started:
            self._has_started, line = True, line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            event = b"\n".join(self._data) if self._data else None
            self._data, self._size = [], 0
            return event
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._size += len(line)
            if self._size > self._max_bytes:
                raise record_too_long(self._max_bytes)
        return None


def record_too_long(max_bytes: int) -> UpstreamFailed:
    return UpstreamFailed(f"The remote service sent a record larger than {max_bytes:,} bytes.")
