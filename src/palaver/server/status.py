"""The one table from error codes to HTTP statuses. Nothing else maps a code to a status; docs/errors.md shows it."""

from typing import Literal, NamedTuple

from palaver.core.events import Event, RunFailed
from palaver.errors import (
    Failure,
    PalaverError,
    RateLimited,
    RequestError,
    StaleBase,
    TooLarge,
    Unauthorized,
)
from palaver.protocols.base import Answer

Column = Literal["a", "b"]
"""Which protocols: "a" for /api, /inspect, /invoke, /run and /test, "b" for all others, whose SDKs expect 400."""


class _Status(NamedTuple):
    a: int
    b: int


def _both(status: int) -> _Status:
    return _Status(status, status)


STATUSES: dict[str, _Status] = {
    "invalid_json": _both(400),
    "too_deep": _both(400),
    "invalid_body": _both(400),
    "invalid_type": _both(400),
    "invalid_value": _both(400),
    "missing_input": _Status(422, 400),
    "unknown_input": _Status(422, 400),
    "invalid_input": _Status(422, 400),
    "invalid_messages": _Status(422, 400),
    "unknown_parameter": _Status(422, 400),
    "invalid_parameter": _Status(422, 400),
    "conflicting_fields": _both(400),
    "misplaced_field": _both(400),
    "unsupported_flag": _both(400),
    "invalid_session_id": _both(400),
    "unknown_call": _both(400),
    "history_conflict": _both(400),
    "unauthorized": _both(401),
    "missing_scope": _both(403),
    "foreign_origin": _both(403),
    "not_found": _both(404),
    "workflow_not_found": _both(404),
    "run_not_found": _both(404),
    "response_not_found": _both(404),
    "conversation_not_found": _both(404),
    "item_not_found": _both(404),
    "thread_not_found": _both(404),
    "approval_not_found": _both(404),
    "method_not_allowed": _both(405),
    "not_acceptable": _both(406),
    "request_timeout": _both(408),
    "conversation_locked": _both(409),
    "still_running": _Status(409, 400),
    "not_cancellable": _Status(409, 400),
    "not_open": _Status(409, 400),
    "too_large": _both(413),
    "unsupported_media_type": _both(415),
    "wrong_host": _both(421),
    "url_refused": _both(422),
    "not_discovered": _both(422),
    "discovery_refused": _both(422),
    "name_taken": _both(409),
    "stale_base": _both(409),
    "idempotency_mismatch": _both(409),
    "rate_limited": _both(429),
    "not_implemented": _both(501),
    "workflow_failed": _both(500),
    "bad_stream": _both(500),
    "too_many_events": _both(500),
    "upstream_failed": _both(502),
    "upstream_timeout": _both(504),
    "overloaded": _both(503),
    "shutting_down": _both(503),
    "query_timeout": _both(503),
    "timeout": _both(504),
    "disk_full": _both(507),
}
RETRY_AFTER = frozenset({"conversation_locked", "overloaded", "query_timeout", "rate_limited", "shutting_down"})
"""Codes whose answer tells when to try again."""

_LARGE = {"body": 413, "string": 413, "url": 414, "headers": 431}


def status_of(error: PalaverError, column: Column = "a") -> int:
    """The status of an error that kept a run from starting."""
    if isinstance(error, TooLarge):
        return _LARGE.get(error.part, 413)
    if isinstance(error, StaleBase) and error.by == "etag":
        return 412
    if isinstance(error, Failure) and error.status is not None:
        return error.status
    return _looked_up(error.code, column)


def status_in_api(error: PalaverError) -> int:
    """The same under /api, where a field of the body outside its list is 422, and one of the query 400."""
    pointer = error.pointer if isinstance(error, RequestError) else None
    if error.code == "invalid_value" and pointer is not None and not pointer.startswith("?"):
        return 422
    return status_of(error)


def status_of_end(last: Event, column: Column = "a") -> int:
    """The status of how a run ended: a cancelled one is answered with what was said."""
    if not isinstance(last, RunFailed):
        return 200
    if last.status is not None:
        return last.status
    if last.code == "too_large":
        return 500  # The workflow's output, not the caller's body.
    return _looked_up(last.code, column)


def _looked_up(code: str, column: Column) -> int:
    status = STATUSES.get(code)
    return 500 if status is None else status.a if column == "a" else status.b


def headers_of(error: PalaverError) -> tuple[tuple[str, str], ...]:
    """What the answer to an error tells in its headers: how to show who one is, and when to try again."""
    if isinstance(error, Unauthorized):
        return (("www-authenticate", "Bearer"),)
    if isinstance(error, RateLimited):
        return (("retry-after", str(error.retry_after)),)
    return (("retry-after", "1"),) if error.code in RETRY_AFTER else ()


def and_headers(answer: Answer, *more: tuple[str, str]) -> Answer:
    """The answer, with these headers too."""
    headers = (*answer.headers, *more)
    return Answer(status=answer.status, headers=headers, body=answer.body, keep_alive=answer.keep_alive)


def with_retry(answer: Answer, error: PalaverError) -> Answer:
    """The answer to an error, telling when to try again where that helps."""
    headers = headers_of(error)
    return and_headers(answer, *headers) if headers else answer
