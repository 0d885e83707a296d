"""Logs: one record, one line. For people on a terminal, as JSON everywhere else."""

import logging
import sys
import time
from collections.abc import Mapping
from typing import Any

from palaver.core import jsons
from palaver.outbound import printable

access = logging.getLogger("palaver.access")


def note_access(message: str, said: tuple[object, ...], fields: Mapping[str, object]) -> None:
    """One request in the log; made by hand, because looking for the caller's line would take half the time."""
    record = logging.LogRecord(access.name, logging.INFO, __file__, 0, message, said, None)
    record.fields = fields
    access.handle(record)


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger, message, the fields of an access record, and a traceback where there is one."""
        line: dict[str, Any] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": jsons.whole_text(record.getMessage()),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["traceback"] = jsons.whole_text(self.formatException(record.exc_info))
        return jsons.encode(line).decode()


class Plain(logging.Formatter):
    """A record for a person: short, and with nothing in it that could move the cursor."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback where there is one."""
        line = f"{time.strftime('%H:%M:%S')}  {printable(record.getMessage(), 500)}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def set_up(*, verbose: bool = False) -> None:
    """Send our log to the terminal or, as JSON, to wherever standard error goes."""
    handler = logging.StreamHandler()
    handler.setFormatter(Plain() if sys.stderr.isatty() else JsonLines())
    root = logging.getLogger("palaver")
    root.handlers = [handler]
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    root.propagate = False
