"""Logs: one record, one line. For people on a terminal, as JSON everywhere else.

The access log has a way of its own. Handing every request to `logging` costs more than routing it, so while nobody has
put handlers of their own there, its lines are made by hand and written together, a few times a second.
"""

import asyncio
import logging
import sys
import time
from functools import lru_cache
from typing import Any, NamedTuple, TextIO

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core import jsons
from palaver.outbound import printable

access = logging.getLogger("palaver.access")

_encode_lines = msgspec.json.Encoder().encode_lines

_SOON = 0.05
"""Seconds until the lines of the access log are written."""


class Noted(NamedTuple):
    """One request, as the access log has it."""

    at: float
    request_id: str
    method: str
    path: str
    status: int
    seconds: float
    run_id: str | None

    @property
    def sentence(self) -> str:
        """For people."""
        return f"{self.method} {self.path}  {self.status}  {self.seconds * 1000:.1f} ms"

    @property
    def fields(self) -> dict[str, Any]:
        """For programs."""
        told = {
            "request_id": self.request_id,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "milliseconds": round(self.seconds * 1000, 1),
        }
        return told if self.run_id is None else told | {"run_id": self.run_id}


Seen = tuple[float, str, str, str, int, float, str | None]
"""The fields of a Noted, which is made of them when the line is written."""


def note_access(seen: Seen) -> None:
    """One request in the log."""
    handler = _only_handler()
    if handler is not None:
        handler.note(seen)
    else:
        noted = Noted(*seen)
        record = logging.LogRecord(access.name, logging.INFO, __file__, 0, noted.sentence, None, None)
        record.fields = noted.fields
        access.handle(record)


def _only_handler() -> "Lines | None":
    """Ours, if access records would go nowhere else."""
    if access.handlers or access.filters or not access.propagate:
        return None
    parent = access.parent
    if parent is None or parent.propagate or len(parent.handlers) != 1:
        return None
    handler = parent.handlers[0]
    return handler if isinstance(handler, Lines) else None


class Lines(logging.StreamHandler[TextIO]):
    """Writes lines to standard error; those of the access log a moment later, all at once."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__(sys.stderr)
        self._as_json = as_json
        self._waiting: list[Seen] = []
        self.setFormatter(JsonLines() if as_json else Plain())

    def note(self, seen: Seen) -> None:
        """One line of the access log. On the loop only."""
        if not self._waiting:
            asyncio.get_running_loop().call_later(_SOON, self.flush)
        self._waiting.append(seen)

    def emit(self, record: logging.LogRecord) -> None:
        """Any other record, after what happened before it."""
        self._write()
        super().emit(record)

    def flush(self) -> None:
        """Write what waits."""
        self.acquire()
        try:
            self._write()
        finally:
            self.release()
        super().flush()

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            noted = [Noted(*seen) for seen in waiting]
            self.stream.write(_as_json(noted) if self._as_json else _as_text(noted))


class _Line(msgspec.Struct):
    """A line of the access log, as JSON."""

    at: str
    level: str
    logger: str
    message: str
    request_id: str
    method: str
    path: str
    status: int
    milliseconds: float
    run_id: str | UnsetType


def _as_json(waiting: list[Noted]) -> str:
    lines = [
        _Line(
            _at(noted.at),
            "info",
            access.name,
            noted.sentence,
            noted.request_id,
            noted.method,
            noted.path,
            noted.status,
            round(noted.seconds * 1000, 1),
            UNSET if noted.run_id is None else noted.run_id,
        )
        for noted in waiting
    ]
    try:
        return _encode_lines(lines).decode()
    except UnicodeEncodeError:  # Half a character, in a path as it was sent.
        return "".join([f"{_encoded(line)}\n" for line in lines])


def _as_text(waiting: list[Noted]) -> str:
    return "".join([f"{_clock(int(noted.at))}  {printable(noted.sentence, 500)}\n" for noted in waiting])


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger, message, the fields of an access record, and a traceback where there is one."""
        line: dict[str, Any] = {
            "at": _at(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return _encoded(line)


class Plain(logging.Formatter):
    """A record for a person: short, and with nothing in it that could move the cursor."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback where there is one."""
        line = f"{_clock(int(record.created))}  {printable(record.getMessage(), 500)}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _encoded(line: Any) -> str:
    try:
        return jsons.encode(line).decode()
    except UnicodeEncodeError:  # Half a character, in a path as it was sent.
        return jsons.encode(jsons.plain(line)).decode()


def _at(seconds: float) -> str:
    whole = int(seconds)
    return f"{_date(whole)}.{int((seconds - whole) * 1000):03}Z"


@lru_cache(4)  # Most lines of a second share it.
def _date(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


@lru_cache(4)
def _clock(seconds: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def set_up(*, verbose: bool = False) -> None:
    """Send our log to the terminal or, as JSON, to wherever standard error goes."""
    root = logging.getLogger("palaver")
    root.handlers = [Lines(as_json=not sys.stderr.isatty())]
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    root.propagate = False
