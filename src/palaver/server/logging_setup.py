"""Logging: one line per record, as text on a terminal, else as JSON.

The access log bypasses `logging`, which costs more than routing a request, unless an application added handlers to it:
its lines are formatted and written together, 20 times a second.
"""

import asyncio
import logging
import os
import sys
import time
from functools import lru_cache
from typing import Any, TextIO

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core import json, secret_mask
from palaver.outbound import printable, printable_json, printable_lines

access_logger = logging.getLogger("palaver.access")

_encode_lines = msgspec.json.Encoder().encode_lines

_FLUSH_DELAY_S = 0.05


AccessRecord = tuple[float, str, str, str, int, float, str | None]
"""End time, request id, method, path, status, duration in seconds, run id."""


def log_access(access: AccessRecord) -> None:
    handler = _sole_handler()
    if handler is not None:
        handler.add_access(access)
    else:
        line = _access_line(access)
        record = logging.LogRecord(access_logger.name, logging.INFO, __file__, 0, line.message, None, None)
        fields = ("request_id", "method", "path", "status", "milliseconds", "run_id")
        record.fields = {name: value for name in fields if (value := getattr(line, name)) is not UNSET}
        access_logger.handle(record)


def _sole_handler() -> "LogHandler | None":
    """Return our handler, if access records go nowhere else."""
    if access_logger.handlers or access_logger.filters or not access_logger.propagate:
        return None
    parent = access_logger.parent
    if parent is None or parent.propagate or len(parent.handlers) != 1:
        return None
    handler = parent.handlers[0]
    return handler if isinstance(handler, LogHandler) else None


class LogHandler(logging.StreamHandler[TextIO]):
    """Writes to standard error; lines of the access log together, with a delay."""

    def __init__(self, *, as_json: bool, worker: int | None = None) -> None:
        super().__init__(sys.stderr)
        self._as_json = as_json
        self._worker = worker
        self._pending: list[AccessRecord] = []
        self.setFormatter(JsonFormatter(worker) if as_json else TextFormatter(worker))

    def add_access(self, record: AccessRecord) -> None:
        """Add a line of the access log. On the event loop only."""
        if not self._pending:
            asyncio.get_running_loop().call_later(_FLUSH_DELAY_S, self.flush)
        self._pending.append(record)

    def emit(self, record: logging.LogRecord) -> None:
        self._write_pending()
        super().emit(record)

    def flush(self) -> None:
        self.acquire()
        try:
            self._write_pending()
        finally:
            self.release()
        super().flush()

    def _write_pending(self) -> None:
        pending, self._pending = self._pending, []
        if pending:
            lines = [_access_line(record, self._worker) for record in pending]
            self.stream.write(
                _format_json_lines(lines) if self._as_json else _format_text_lines(pending, lines, self._worker)
            )


class _AccessLine(msgspec.Struct):
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
    worker: int | UnsetType = UNSET


def _access_line(record: AccessRecord, worker: int | None = None) -> _AccessLine:
    at, request_id, method, path, status, seconds, run_id = record
    milliseconds = round(seconds * 1000, 1)
    if "plv_" in path:
        path = secret_mask.mask_secrets(path)  # A client may have put a key into the path.
    message = f"{method} {path}  {status}  {milliseconds} ms"
    run: str | UnsetType = UNSET if run_id is None else run_id
    worker_number: int | UnsetType = UNSET if worker is None else worker
    return _AccessLine(
        _format_time(at),
        "info",
        access_logger.name,
        message,
        request_id,
        method,
        path,
        status,
        milliseconds,
        run,
        worker_number,
    )


def _format_json_lines(lines: list[_AccessLine]) -> str:
    try:
        return printable_json(_encode_lines(lines).decode())
    except UnicodeEncodeError:  # A lone surrogate in a path.
        return "".join([f"{_encode_line(line)}\n" for line in lines])


def _format_text_lines(pending: list[AccessRecord], lines: list[_AccessLine], worker: int | None) -> str:
    prefix = _worker_prefix(worker)
    return "".join(
        [
            f"{_format_clock(int(record[0]))}  {prefix}{printable(line.message, 500)}\n"
            for record, line in zip(pending, lines, strict=True)
        ]
    )


class JsonFormatter(logging.Formatter):
    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._worker = worker

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": _format_time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _mask_secrets(record.getMessage()),
        }
        line |= getattr(record, "fields", {})
        if self._worker is not None:
            line["worker"] = self._worker
        if record.exc_info:
            line["traceback"] = _mask_secrets(self.formatException(record.exc_info))
        return _encode_line(line)


class TextFormatter(logging.Formatter):
    """A record as text, without terminal control characters."""

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._prefix = _worker_prefix(worker)

    def format(self, record: logging.LogRecord) -> str:
        line = (
            f"{_format_clock(int(record.created))}  {self._prefix}{printable(_mask_secrets(record.getMessage()), 500)}"
        )
        if record.exc_info:
            trace = printable_lines(_mask_secrets(self.formatException(record.exc_info)))
            line += "\n  " + trace.replace("\n", "\n  ")  # Indented: no line may look like a record.
        return line


def _worker_prefix(worker: int | None) -> str:
    return "" if worker is None else f"[{worker}] "


def _encode_line(line: Any) -> str:
    try:
        return printable_json(json.encode(line).decode())
    except UnicodeEncodeError:  # A lone surrogate in a path.
        return printable_json(json.encode(json.to_builtins(line)).decode())


def _mask_secrets(text: str) -> str:
    return secret_mask.mask_secrets(text, _environment_secrets())


def _environment_secrets() -> set[str]:
    """Return the values of variables that are named like secrets: libraries put them into exceptions."""
    suffixes = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
    return {value for name, value in os.environ.items() if name.upper().endswith(suffixes)}


def _format_time(seconds: float) -> str:
    whole_seconds = int(seconds)
    return f"{_format_date(whole_seconds)}.{int((seconds - whole_seconds) * 1000):03}Z"


@lru_cache(4)  # Shared by the lines of a second.
def _format_date(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


@lru_cache(4)
def _format_clock(seconds: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def configure_logging(*, verbose: bool = False, worker: int | None = None) -> None:
    """Log to standard error; lines of a worker contain its number."""
    root = logging.getLogger("palaver")
    root.handlers = [LogHandler(as_json=not sys.stderr.isatty(), worker=worker)]
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    root.propagate = False
