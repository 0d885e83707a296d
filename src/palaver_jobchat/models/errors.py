"""Convert provider errors into failures of the run.

Both SDKs use the same class and attribute names for errors, so that neither needs to be imported. Their messages may
repeat a key: keys are masked here, and a failure is raised without the SDK's error as its cause or context, because
that holds the request's headers.
"""

import email.utils
import math
import re
import time
from collections.abc import Mapping
from typing import Any, Final, Literal, cast

import msgspec

from palaver import Failure

_STATUS_BY_TYPE: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}
"""HTTP status of an error type inside a stream. Other types count as 500."""
_TOO_LONG = re.compile(
    r"(prompt|input|request)\b.*(too (long|large)|exceed)|exceed.*context|context (length|window)", re.IGNORECASE
)
_KEY_PATTERN = re.compile(r"\b(?:sk-|plv_)[A-Za-z0-9_-]{8,}")
_DEFAULT_RETRY_SECONDS = {"rate_limit": 60, "overloaded": 10}


class RequestInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What errors report about a request."""

    model: str
    key: str
    key_source: Literal["request", "server"]
    field_sizes: Mapping[str, int]
    """Characters per field of the caller's payload."""
    timeout: float
    """Seconds without a byte."""
    setting: str
    """Name of the setting that holds the server's key."""

    def __repr__(self) -> str:
        """Without the key."""
        return f"RequestInfo(model={self.model!r}, key_source={self.key_source!r})"


class ProviderError(msgspec.Struct, frozen=True, kw_only=True):
    """An error of an SDK, or of the HTTP client below it."""

    kind: Literal["status", "timeout", "connection"]
    status: int = 0
    """The HTTP status; for an error inside a stream, the status of its type."""
    message: str = ""
    headers: Mapping[str, str] = {}


def read_provider_error(error: Exception) -> ProviderError | None:
    """Return what an exception means, or None if it did not come from the provider."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if {"APITimeoutError", "TimeoutException"} & kinds:
        # A failed connection is reported differently from silence on an open one.
        causes = kinds | {type(error.__cause__).__name__}
        return ProviderError(kind="connection" if "ConnectTimeout" in causes else "timeout")
    if {"APIConnectionError", "TransportError", "StreamError"} & kinds:
        return ProviderError(kind="connection")
    if "APIError" not in kinds:
        return None
    body = _error_object(getattr(error, "body", None))
    status = getattr(error, "status_code", None)
    message = body.get("message")
    error_in_body = stream_error(str(body.get("type")), message if isinstance(message, str) else "", body.get("code"))
    if not isinstance(status, int) or status < 400 or error_in_body.status == 529:
        status = error_in_body.status
    headers = cast("Mapping[str, str]", getattr(getattr(error, "response", None), "headers", error_in_body.headers))
    return ProviderError(kind="status", status=status, message=error_in_body.message, headers=headers)


def stream_error(kind: str, message: str, code: object = None) -> ProviderError:
    """Return the error for an error object inside a stream, with the status of its type or its code."""
    number = code if isinstance(code, int) and 400 <= code <= 599 else 500
    return ProviderError(kind="status", status=_STATUS_BY_TYPE.get(kind, number), message=message)


def failure_from_exception(error: Exception, request: RequestInfo) -> Failure:
    """Return the failure for an exception. Raise it outside of the `except` block, so that it has no context."""
    provider_error = read_provider_error(error)
    if provider_error is None and not isinstance(error, ValueError):  # ValueError: an invalid stream.
        raise error
    return failure_from_error(provider_error or ProviderError(kind="status", status=500), request)


def failure_from_error(error: ProviderError, request: RequestInfo) -> Failure:
    match error.kind:
        case "timeout":
            seconds = f"{request.timeout:g} seconds"
            return Failure("timeout", f"The model sent nothing for {seconds}. Try again later.", status=504)
        case "connection":
            return connection_lost()
        case "status":
            return _failure_by_status(error, request)


def connection_lost() -> Failure:
    message = "Could not connect to the model's provider, or the connection was lost. Try again."
    return Failure("connection_error", message, status=503)


def check_key(request: RequestInfo) -> None:
    """Raise Failure if there is no key, or if it cannot be sent in a header."""
    if not request.key:
        raise Failure(
            "unauthorized", "No API key for the model. Send api_key, or configure a key on the server.", status=401
        )
    if not (request.key.isascii() and request.key.isprintable()):
        raise _failure_by_status(ProviderError(kind="status", status=401), request)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the provider asks to wait, if it does."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(seconds, 0.0)
    date = email.utils.parsedate_tz(headers.get("retry-after"))
    return None if date is None else max(email.utils.mktime_tz(date) - time.time(), 0.0)


def mask_keys(text: str, key: str) -> str:
    """Mask the key and everything that looks like one."""
    return _KEY_PATTERN.sub("***", text.replace(key, "***") if key else text)


def _failure_by_status(error: ProviderError, request: RequestInfo) -> Failure:
    detail = mask_keys(error.message, request.key).strip()
    match error.status:
        case 401:
            advice = "Check api_key." if request.key_source == "request" else f"Check {request.setting} on the server."
            message = f"The model's provider rejected the {request.key_source}'s key. {advice}"
            return Failure("auth_error", message, status=401, details={"key": request.key_source})
        case 403:
            return Failure("forbidden", _with_detail("The model's provider denied access", detail), status=403)
        case 404:
            start = f"Model {request.model!r} not found or not available with this key."
            return Failure("not_found", f"{start} Set PALAVER_JOBCHAT_MODEL to another model.", status=404)
        case 413:
            return _too_long(request)
        case 400 if _TOO_LONG.search(detail):
            return _too_long(request)
        case 400:
            return Failure("bad_request", _with_detail("The model's provider rejected the request", detail), status=400)
        case 422:
            message = _with_detail("The model's provider could not process the request", detail)
            return Failure("invalid_request", message, status=422)
        case 429:
            return _retry_later("rate_limit", "The model's provider is limiting requests", error, status=429)
        case 529:
            return _retry_later("overloaded", "The model's provider is overloaded", error, status=503)
        case _:
            return Failure(
                "provider_error", _with_detail("The model's provider failed", detail) + " Try again.", status=502
            )


def _with_detail(start: str, detail: str) -> str:
    return f"{start}: {detail if detail[-1] in '.!?' else detail + '.'}" if detail else f"{start}."


def _retry_later(code: str, start: str, error: ProviderError, *, status: int) -> Failure:
    requested = retry_after(error.headers)
    seconds = _DEFAULT_RETRY_SECONDS[code] if requested is None else math.ceil(requested)
    message = f"{start}. Try again in {seconds} second{'' if seconds == 1 else 's'}."
    return Failure(code, message, status=status, details={"retry_after": seconds})


def _too_long(request: RequestInfo) -> Failure:
    largest = max(request.field_sizes, key=lambda name: request.field_sizes[name], default="content")
    message = f"The prompt is too long for the model. Shorten {largest}, the largest field, or leave it out."
    return Failure("prompt_too_long", message, status=413, details={"fields": dict(request.field_sizes)})


def _error_object(body: object) -> dict[str, Any]:
    """Return the error object of a body: one SDK gives the whole body, the other only the error."""
    if not isinstance(body, dict):
        return {}
    content = cast("dict[str, Any]", body)
    error_in_body = content.get("error")
    return cast("dict[str, Any]", error_in_body) if isinstance(error_in_body, dict) else content
