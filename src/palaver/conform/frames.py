"""Parse a recorded event stream into frames with everything the checkers need. Never raises."""

from collections.abc import Iterator
from typing import Any, cast

import msgspec
from msgspec import Struct

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Larger frames are not decoded."""
MAX_DEPTH = 400
DONE = b"[DONE]"
NOT_AN_OBJECT = "JSON, but not an object"

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Frame(Struct, frozen=True, kw_only=True):
    """A server-sent event with data."""

    index: int
    """From 0."""
    line: int
    """Its first line, from 1."""
    data: bytes
    event: str | None = None
    extra: tuple[str, ...] = ()
    """Names of other fields; `comment` for a comment."""
    closed: bool = True
    """Whether an empty line ends it."""
    value: dict[str, Any] | None = None
    fault: str | None = None
    """Why it has no object."""

    @property
    def is_done(self) -> bool:
        return self.data == DONE

    @property
    def text(self) -> str:
        return self.data[:8192].decode("utf-8", "replace")


def parse_frames(stream: bytes) -> list[Frame]:
    return list(_frames(stream))


def end_frame(frames: list[Frame]) -> Frame:
    """Return an empty frame after the last one, to report what is missing."""
    last = frames[-1].line if frames else 1
    return Frame(index=len(frames), line=last, data=b"")


def _frames(stream: bytes) -> Iterator[Frame]:
    lines = stream.removeprefix(_BYTE_ORDER_MARK).splitlines()
    index, event = 0, _Event()
    for number, line in enumerate(lines, 1):
        if line:
            event.add_line(line, number)
        else:
            if event.data:
                yield event.frame(index, closed=True)
                index += 1
            event = _Event()
    if event.data:
        yield event.frame(index, closed=False)


class _Event:
    """The lines of one event."""

    def __init__(self) -> None:
        self.data: list[bytes] = []
        self._line = 0
        self._event: str | None = None
        self._extra: list[str] = []

    def add_line(self, line: bytes, number: int) -> None:
        self._line = self._line or number
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self.data.append(value)
            case b"event":
                self._event = value.decode("utf-8", "replace")
            case b"":
                self._extra.append("comment")
            case _:
                self._extra.append(name[:40].decode("utf-8", "replace"))

    def frame(self, index: int, *, closed: bool) -> Frame:
        data = b"\n".join(self.data)
        value, fault = (None, None) if data == DONE else decode_object(data)
        return Frame(
            index=index,
            line=self._line,
            data=data,
            event=self._event,
            extra=tuple(self._extra),
            closed=closed,
            value=value,
            fault=fault,
        )


def decode_object(data: bytes) -> tuple[dict[str, Any] | None, str | None]:
    """Return the JSON object, or a fault."""
    if len(data) > MAX_FRAME_BYTES:
        return None, f"larger than {MAX_FRAME_BYTES:,} bytes"
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return None, f"cannot be decoded: {error}"
    if _is_too_deep(value, data):
        return None, f"nested deeper than {MAX_DEPTH} levels"
    return (cast("dict[str, Any]", value), None) if isinstance(value, dict) else (None, NOT_AN_OBJECT)


def frame_value(frame: Frame) -> Any:
    """Return the JSON value of any type, or None."""
    return msgspec.json.decode(frame.data) if frame.fault == NOT_AN_OBJECT else frame.value


def _is_too_deep(value: Any, data: bytes) -> bool:
    """Whether it is nested too deeply to compare or encode."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        children: list[Any] = []
        for item in level:
            children += cast("dict[str, Any]", item).values() if isinstance(item, dict) else cast("list[Any]", item)
        level = [item for item in children if isinstance(item, dict | list)]
    return bool(level)
