"""The error object of services: a number, a word in capitals, a sentence, and details (contract: job-chat, 1.3)."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from palaver.core.events import RunCancelled, RunFailed
from palaver.errors import FaultyCall, InvalidBody, PalaverError, RequestError, WorkflowNotFound

INTERNAL = "INTERNAL_ERROR"
CANCELLED = {"code": 499, "type": "CANCELLED", "message": "The run was cancelled."}
"""What is said of a run that somebody stopped. The number is that of a client which closed its request."""

_NO_WORDS = "It failed, and nobody said why."
_INSIDE = ("workflow_failed", "internal")
_NO_LETTER = re.compile(r"[^A-Za-z0-9]+")
_NUMBER = re.compile(r"0|[1-9][0-9]*")
_BY_STATUS = {400: "BAD_REQUEST", 404: "NOT_FOUND"}


class Misfit(NamedTuple):
    """One thing that is wrong with a payload."""

    field: str
    why: str
    """How the sentence goes on that begins with the field."""


def refused(misfits: Iterable[Misfit]) -> InvalidBody:
    """Everything that is wrong with a payload, the first of it in words."""
    listed = list(misfits)
    errors = [{"field": field, "message": why} for field, why in listed]
    return InvalidBody(" ".join(listed[0]), details={"errors": errors})


def of_error(error: PalaverError, *, status: int) -> dict[str, Any]:
    """The object of a request that started no run."""
    word = _BY_STATUS.get(status) if isinstance(error, RequestError) else None
    message = error.message
    if isinstance(error, WorkflowNotFound) and error.name is not None:
        message = f"There is no service named {error.name[:80]!r}."
    return _document(status, word or _word(error.code), message, _details(error))


def of_end(end: RunFailed | RunCancelled, *, status: int) -> dict[str, Any]:
    """The object of a run that did not end well."""
    if isinstance(end, RunCancelled):
        return CANCELLED
    return _document(status, _word(end.code), end.message, end.details)


def _document(status: int, word: str, message: str, details: Mapping[str, Any]) -> dict[str, Any]:
    document: dict[str, Any] = {"code": status, "type": word, "message": message or _NO_WORDS}
    return {**document, "details": dict(details)} if details else document


def _word(code: str) -> str:
    """A code as services write it: `no_such_city` is NO_SUCH_CITY."""
    word = _NO_LETTER.sub("_", code).strip("_").upper()
    return INTERNAL if code in _INSIDE or not word else word


def _details(error: PalaverError) -> Mapping[str, Any]:
    if isinstance(error, FaultyCall):
        return {"errors": [{"field": field(fault.pointer or ""), "message": fault.message} for fault in error.faults]}
    if isinstance(error, RequestError) and error.pointer:
        return {"errors": [{"field": field(error.pointer), "message": error.message}], **error.details}
    return error.details


def field(pointer: str) -> str:
    """A JSON pointer as people write it: `/inputs/context/rows/2` is context.rows[2]."""
    name = ""
    for step in pointer.removeprefix("/inputs").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        name += f"[{step}]" if name and _NUMBER.fullmatch(step) else f".{step}" if name else step
    return name
