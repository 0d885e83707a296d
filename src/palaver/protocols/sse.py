"""Server-sent events, written and read (WHATWG HTML, section 9.2)."""

from palaver.errors import UpstreamFailed

KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"
"""What OpenAI-shaped streams and the AI SDK end with."""
MAX_RECORD_BYTES = 1024 * 1024
"""Bytes in one record that we read."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def data_event(data: bytes) -> bytes:
    """One event whose data is one line, as compact JSON is."""
    return b"data: %b\n\n" % data


class LineDecoder:
    """Bytes in, whole lines out, however they were cut on the way."""

    def __init__(self, *, longest: int = MAX_RECORD_BYTES) -> None:
        self._rest = bytearray()
        self._longest = longest

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are complete now, without their ends (LF or CRLF)."""
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = bytes(self._rest) + lines[0]
            self._rest.clear()
        self._rest += rest
        if len(self._rest) > self._longest or any(len(line) > self._longest for line in lines):
            raise record_too_long(self._longest)
        return [line.removesuffix(b"\r") for line in lines]

    def end(self) -> list[bytes]:
        """What stands after the last line end."""
        rest = bytes(self._rest)
        self._rest.clear()
        return [rest] if rest else []


class EventStreamDecoder:
    """Bytes of an event stream in, the data of its events out; comments and other fields are passed over."""

    def __init__(self, *, longest: int = MAX_RECORD_BYTES) -> None:
        self._lines = LineDecoder(longest=longest)
        self._longest = longest
        self._data: list[bytes] = []
        self._size = 0
        self._began = False
        self._after_return = False

    def feed(self, data: bytes) -> list[bytes]:
        """The data of every event that is complete now."""
        if self._after_return and data.startswith(b"\n"):
            data = data[1:]  # The second half of a line end that was cut in two.
        elif not data:
            return []
        self._after_return = data.endswith(b"\r")
        lines = self._lines.feed(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        return [event for line in lines if (event := self._take(line)) is not None]

    def end(self) -> list[bytes]:
        """An event that nobody closed. A browser would drop it; what a sloppy server said last is not lost here."""
        lines = [*self._lines.end(), b""]
        return [event for line in lines if (event := self._take(line)) is not None]

    def _take(self, line: bytes) -> bytes | None:
        if not self._began:
            self._began, line = True, line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            event = b"\n".join(self._data) if self._data else None
            self._data, self._size = [], 0
            return event
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._size += len(line)
            if self._size > self._longest:
                raise record_too_long(self._longest)
        return None


def record_too_long(longest: int) -> UpstreamFailed:
    """The error of a record that does not end."""
    return UpstreamFailed(f"The remote sent a record longer than {longest} bytes.")
