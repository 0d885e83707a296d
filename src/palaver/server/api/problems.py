"""Errors as the REST API tells them: `{"error": {"code", "message", "path"?, "details"?, "errors"?}}`."""

import logging
from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException

from palaver.core import json
from palaver.errors import FaultyCall, MethodNotAllowed, PalaverError, RequestError
from palaver.server.error_responses import api_error_status, error_headers
from palaver.server.request import ClientDisconnected

log = logging.getLogger("palaver.server")
_CODES = {400: "invalid_value", 404: "not_found", 405: "method_not_allowed", 415: "unsupported_media_type"}
"""What Litestar finds by itself, by its status."""


def refused(_: "Request[Any, Any, Any]", error: PalaverError) -> "Response[Any]":
    """An error of ours."""
    headers: dict[str, str] = {}
    if isinstance(error, MethodNotAllowed):
        headers["allow"] = ", ".join(error.allowed)
    headers |= dict(error_headers(error))
    return _problem(api_error_status(error), told(error), headers)


def told(error: PalaverError) -> dict[str, Any]:
    """The error, as the body has it; several faults of one body are listed after the first."""
    document = _line(error) | ({"details": error.details} if error.details else {})
    if isinstance(error, FaultyCall):
        document["errors"] = [_line(fault) for fault in error.faults]
    return document


def _line(error: PalaverError) -> dict[str, Any]:
    pointer = error.pointer if isinstance(error, RequestError) else None
    return {"code": error.code, "message": error.message} | ({"path": pointer} if pointer else {})


def _failed(request: "Request[Any, Any, Any]", error: HTTPException) -> "Response[Any]":
    """An error of Litestar's: no such path or method, or a query that does not fit the handler's types."""
    document: dict[str, Any] = {"code": _CODES.get(error.status_code, "internal"), "message": error.detail}
    match error.status_code, error.extra:
        case 404, _:
            document["message"] = f"There is nothing at {request.url.path[:80]}."
        case 400, [{"key": str(name), "message": str(why), "source": "query"}, *_]:
            asked = _as_asked(request, name)
            document |= {"message": f"{asked} does not fit: {why.replace('`', '')}.", "path": f"?{asked}"}
        case _:
            pass
    return _problem(error.status_code, document, dict(error.headers or {}))


def _as_asked(request: "Request[Any, Any, Any]", name: str) -> str:
    """What the query calls it: Litestar tells the name of the handler's own parameter."""
    given = request.route_handler.parsed_fn_signature.parameters.get(name)
    alias = getattr(given.kwarg_definition, "name", None) if given is not None else None
    return alias or name


def _left(_: "Request[Any, Any, Any]", __: ClientDisconnected) -> "Response[Any]":
    return Response(None, status_code=499)  # For the log: nobody is there to read it.


def _problem(status: int, error: dict[str, Any], headers: dict[str, str]) -> "Response[Any]":
    return Response(json.encode({"error": error}), status_code=status, headers=headers, media_type="application/json")


def _broken(request: "Request[Any, Any, Any]", error: Exception) -> "Response[Any]":
    """A mistake of ours: for the log; the caller learns what to quote."""
    log.error("%s %s failed", request.method, request.url.path[:200], exc_info=error)
    return _problem(500, {"code": "internal", "message": "Something broke: the log says what."}, {})


HANDLERS: dict[int | type[Exception], Any] = {
    PalaverError: refused,
    HTTPException: _failed,
    ClientDisconnected: _left,
    Exception: _broken,
}
"""For Litestar's `exception_handlers`."""
