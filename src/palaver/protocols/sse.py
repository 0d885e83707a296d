"""Server-sent events, written and read (WHATWG HTML, section 9.2)."""

from palaver.errors import UpstreamFailed

KEEP_ALIVE = b": keep-alive\n\n"


def frame(data: bytes, *, event: str | None = None) -> bytes:
    """One event whose data is one line, as compact JSON is."""
    return b"data: %b\n\n" % data if event is None else b"event: %b\ndata: %b\n\n" % (event.encode(), data)


class Lines:
    """Bytes in, whole lines out, however they were cut on the way."""

    def __init__(self, *, longest: int = 1024 * 1024) -> None:
        self._rest = b""
        self._longest = longest

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are complete now, without their ends (LF or CRLF)."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > self._longest or any(len(line) > self._longest for line in lines):
            raise UpstreamFailed(f"The remote sent a record longer than {self._longest} bytes.")
        return [line.removesuffix(b"\r") for line in lines]

    def end(self) -> list[bytes]:
        """What stands after the last line end."""
        rest, self._rest = self._rest, b""
        return [rest] if rest else []


class Reader:
    """Bytes of an event stream in, the data of whole events out; comments and other fields are passed over."""

    def __init__(self, *, longest: int = 1024 * 1024) -> None:
        self._lines = Lines(longest=longest)
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """The data of every event that is complete now."""
        found: list[bytes] = []
        for line in self._lines.feed(data):
            if not line:
                if self._data:
                    found.append(b"\n".join(self._data))
                    self._data = []
            elif line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
        return found

    def end(self) -> list[bytes]:
        """An event that was not closed by an empty line is no event: the standard says so."""
        return []
