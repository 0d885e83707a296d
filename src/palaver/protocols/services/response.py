"""Reply and error documents of services (contract: job-chat, 1.2 and 1.3)."""

import re
from collections.abc import Mapping
from typing import Any, cast

from msgspec import UNSET

from palaver.core.events import RunCancelled, RunFailed
from palaver.core.messages import Data, Refusal, Text, Usage
from palaver.core.runs import Reply
from palaver.errors import FaultyCall, PalaverError, RequestError, WorkflowNotFound
from palaver.protocols.services.request import ServiceRequest

INTERNAL = "INTERNAL_ERROR"
CANCELLED = {"code": 499, "type": "CANCELLED", "message": "The run was cancelled."}
"""The document of a cancelled run. 499 is the status of a client that closed its request."""

_NO_MESSAGE = "It failed, and nobody said why."
_INTERNAL_CODES = ("workflow_failed", "internal")
_NOT_ALPHANUMERIC = re.compile(r"[^A-Za-z0-9]+")
_NUMBER = re.compile(r"0|[1-9][0-9]*")
_BY_STATUS = {400: "BAD_REQUEST", 404: "NOT_FOUND"}


def error_document(error: PalaverError, *, status: int) -> dict[str, Any]:
    """The document of a request that started no run."""
    error_type = _BY_STATUS.get(status) if isinstance(error, RequestError) else None
    message = error.message
    if isinstance(error, WorkflowNotFound) and error.name is not None:
        message = f"There is no service named {error.name[:80]!r}."
    return _document(status, error_type or _error_type(error.code), message, _details(error))


def run_error_document(end: RunFailed | RunCancelled, *, status: int) -> dict[str, Any]:
    """The document of a run that failed or was cancelled."""
    if isinstance(end, RunCancelled):
        return CANCELLED
    return _document(status, _error_type(end.code), end.message, end.details)


def _document(status: int, error_type: str, message: str, details: Mapping[str, Any]) -> dict[str, Any]:
    document: dict[str, Any] = {"code": status, "type": error_type, "message": message or _NO_MESSAGE}
    return {**document, "details": dict(details)} if details else document


def _error_type(code: str) -> str:
    """Convert an error code: `no_such_city` is NO_SUCH_CITY."""
    error_type = _NOT_ALPHANUMERIC.sub("_", code).strip("_").upper()
    return INTERNAL if code in _INTERNAL_CODES or not error_type else error_type


def _details(error: PalaverError) -> Mapping[str, Any]:
    if isinstance(error, FaultyCall):
        return {
            "errors": [{"field": field_path(fault.pointer or ""), "message": fault.message} for fault in error.faults]
        }
    if isinstance(error, RequestError) and error.pointer:
        return {"errors": [{"field": field_path(error.pointer), "message": error.message}], **error.details}
    return error.details


def field_path(pointer: str) -> str:
    """Convert a JSON pointer: `/inputs/context/rows/2` is context.rows[2]."""
    name = ""
    for step in pointer.removeprefix("/inputs").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        name += f"[{step}]" if name and _NUMBER.fullmatch(step) else f".{step}" if name else step
    return name


REPLY, STATUS, CHANGES = "reply", "status", "changes"
"""Names of data parts with a meaning here, and of the event that a code edit becomes."""
_RUN_FIELDS = frozenset({"response", "history", "usage"})
"""Fields that a reply cannot override."""


def reply_document(reply: Reply, request: ServiceRequest) -> Any:
    """The document of a finished run, which is also the last event of its stream."""
    if not request.is_chat:
        return None if reply.value is UNSET else reply.value
    parts = [part for message in reply.messages if message.role == "assistant" for part in message.parts]
    response = "\n\n".join([part.text for part in parts if isinstance(part, Text | Refusal) and part.text]).strip()
    document: dict[str, Any] = {
        "response": response,
        "history": [*request.history, {"role": "assistant", "content": response}],
        "usage": usage_counts(reply.usage),
        "meta": {},
    }
    for part in parts:
        if isinstance(part, Data) and part.name == REPLY:
            _merge_reply(document, part.value)
    return document


def _merge_reply(document: dict[str, Any], reply: Any) -> None:
    if not isinstance(reply, dict):
        return
    for name, value in cast("Mapping[str, Any]", reply).items():
        if name == "meta":
            document["meta"] |= value if isinstance(value, dict) else {}
        elif name not in _RUN_FIELDS:
            document[name] = value


def usage_counts(usage: Usage | None) -> dict[str, int]:
    """Usage as Anthropic counts: input tokens from and to a cache are counted separately."""
    if usage is None:
        usage = Usage(input_tokens=0, output_tokens=0)
    cache_read, cache_created = usage.cached_input_tokens or 0, usage.cache_creation_input_tokens or 0
    return {
        "input_tokens": max(usage.input_tokens - cache_read - cache_created, 0),
        "output_tokens": usage.output_tokens,
        "cache_creation_input_tokens": cache_created,
        "cache_read_input_tokens": cache_read,
    }
