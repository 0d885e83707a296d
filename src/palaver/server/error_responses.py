"""The only table from error codes to HTTP statuses (docs/reference/errors.md), and headers of error responses."""

from typing import Any, Literal, NamedTuple

from palaver.core import json
from palaver.core.events import Event, RunFailed
from palaver.errors import Failure, PalaverError, RateLimited, RequestError, StaleBase, TooLarge, Unauthorized
from palaver.protocols.agenta.request import JSON
from palaver.protocols.base import HttpResponse

StatusColumn = Literal["a", "b"]
"""\"a\" is for /api, /inspect, /invoke, /run and /test, \"b\" for all other protocols, whose SDKs expect 400."""


class _Status(NamedTuple):
    a: int
    b: int


def _same_status(status: int) -> _Status:
    return _Status(status, status)


STATUSES: dict[str, _Status] = {
    "invalid_json": _same_status(400),
    "too_deep": _same_status(400),
    "invalid_body": _same_status(400),
    "invalid_type": _same_status(400),
    "invalid_value": _same_status(400),
    "missing_input": _Status(422, 400),
    "unknown_input": _Status(422, 400),
    "invalid_input": _Status(422, 400),
    "invalid_messages": _Status(422, 400),
    "unknown_parameter": _Status(422, 400),
    "invalid_parameter": _Status(422, 400),
    "conflicting_fields": _same_status(400),
    "misplaced_field": _same_status(400),
    "unsupported_flag": _same_status(400),
    "invalid_session_id": _same_status(400),
    "unknown_call": _same_status(400),
    "history_conflict": _same_status(400),
    "unauthorized": _same_status(401),
    "missing_scope": _same_status(403),
    "foreign_origin": _same_status(403),
    "not_found": _same_status(404),
    "workflow_not_found": _same_status(404),
    "run_not_found": _same_status(404),
    "response_not_found": _same_status(404),
    "conversation_not_found": _same_status(404),
    "item_not_found": _same_status(404),
    "thread_not_found": _same_status(404),
    "approval_not_found": _same_status(404),
    "method_not_allowed": _same_status(405),
    "not_acceptable": _same_status(406),
    "request_timeout": _same_status(408),
    "conversation_locked": _same_status(409),
    "still_running": _Status(409, 400),
    "not_cancellable": _Status(409, 400),
    "not_open": _Status(409, 400),
    "too_large": _same_status(413),
    "unsupported_media_type": _same_status(415),
    "wrong_host": _same_status(421),
    "url_refused": _same_status(422),
    "not_discovered": _same_status(422),
    "discovery_refused": _same_status(422),
    "name_taken": _same_status(409),
    "stale_base": _same_status(409),
    "idempotency_mismatch": _same_status(409),
    "rate_limited": _same_status(429),
    "not_implemented": _same_status(501),
    "workflow_failed": _same_status(500),
    "bad_stream": _same_status(500),
    "format_mismatch": _same_status(500),
    "too_many_events": _same_status(500),
    "upstream_failed": _same_status(502),
    "upstream_timeout": _same_status(504),
    "overloaded": _same_status(503),
    "shutting_down": _same_status(503),
    "query_timeout": _same_status(503),
    "timeout": _same_status(504),
    "disk_full": _same_status(507),
}
RETRYABLE_CODES = frozenset({"conversation_locked", "overloaded", "query_timeout", "rate_limited", "shutting_down"})
"""Codes whose response has a Retry-After header."""

_TOO_LARGE_STATUSES = {"body": 413, "string": 413, "url": 414, "headers": 431}


def error_status(error: PalaverError, column: StatusColumn = "a") -> int:
    """Return the status of an error before a run started."""
    if isinstance(error, TooLarge):
        return _TOO_LARGE_STATUSES.get(error.part, 413)
    if isinstance(error, StaleBase) and error.by == "etag":
        return 412
    if isinstance(error, Failure) and error.status is not None:
        return error.status
    return _code_status(error.code, column)


def api_error_status(error: PalaverError) -> int:
    """Return the status of an error under /api, where an invalid value in the body is 422, and one in the query 400."""
    pointer = error.pointer if isinstance(error, RequestError) else None
    if error.code == "invalid_value" and pointer is not None and not pointer.startswith("?"):
        return 422
    return error_status(error)


def final_status(last: Event, column: StatusColumn = "a") -> int:
    """Return the status of a run that ended with this event; 200 for a cancelled one."""
    if not isinstance(last, RunFailed):
        return 200
    if last.status is not None:
        return last.status
    if last.code == "too_large":
        return 500  # The workflow's output, not the caller's body.
    return _code_status(last.code, column)


def _code_status(code: str, column: StatusColumn) -> int:
    status = STATUSES.get(code)
    return 500 if status is None else status.a if column == "a" else status.b


def error_headers(error: PalaverError) -> tuple[tuple[str, str], ...]:
    """Return `WWW-Authenticate` or `Retry-After`, where they apply."""
    if isinstance(error, Unauthorized):
        return (("www-authenticate", "Bearer"),)
    if isinstance(error, RateLimited):
        return (("retry-after", str(error.retry_after)),)
    return (("retry-after", "1"),) if error.code in RETRYABLE_CODES else ()


def add_headers(response: HttpResponse, *extra_headers: tuple[str, str]) -> HttpResponse:
    headers = (*response.headers, *extra_headers)
    return HttpResponse(status=response.status, headers=headers, body=response.body, keep_alive=response.keep_alive)


def with_error_headers(response: HttpResponse, error: PalaverError) -> HttpResponse:
    headers = error_headers(error)
    return add_headers(response, *headers) if headers else response


def json_response(status: int, document: Any) -> HttpResponse:
    return HttpResponse(status=status, headers=(("content-type", JSON),), body=json.encode(document))
