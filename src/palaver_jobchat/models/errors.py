"""What became of a request to a model that did not end well, in words for whoever asked.

Both SDKs tell of it with classes of the same names and the same attributes, and that is all that is looked at here.
What they say may repeat a key: it leaves this file with `***` in its place, and without the SDK's own error behind it,
which holds the request with all its headers.
"""

import email.utils
import math
import re
import time
from collections.abc import Mapping
from typing import Any, Final, Literal, cast

import msgspec

from palaver import Failure
from palaver_jobchat.models.base import ModelRequest

_STATUS_BY_TYPE: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}
"""What an error inside a stream would have been before it; any other is the provider's own trouble."""
_TOO_LONG = re.compile(
    r"(prompt|input|request)\b.*(too (long|large)|exceed)|exceed.*context|context (length|window)", re.IGNORECASE
)
_KEY_PATTERN = re.compile(r"\b(?:sk-|plv_)[A-Za-z0-9_-]{8,}")
_DEFAULT_RETRY_SECONDS = {"rate_limit": 60, "overloaded": 10}


class RequestInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What an error has to tell about its request."""

    model: str
    key: str
    key_source: Literal["request", "server"]
    """Whose key it was."""
    field_sizes: Mapping[str, int]
    """The size of each field of the caller's."""
    timeout: float
    """After how many silent seconds it was given up."""
    setting: str
    """Where the server's own key is set."""

    @classmethod
    def from_request(
        cls, request: ModelRequest, *, model: str, server_key: str, timeout: float, setting: str
    ) -> "RequestInfo":
        """Use the caller's key, or the server's if the request has none."""
        key = (request.key or "").strip()
        key_source: Literal["request", "server"] = "request" if key else "server"
        return cls(
            model=model,
            key=key or server_key,
            key_source=key_source,
            fields=request.field_sizes,
            timeout=timeout,
            setting=setting,
        )

    def __repr__(self) -> str:
        """Without the key."""
        return f"RequestInfo(model={self.model!r}, key_source={self.key_source!r})"


class ProviderError(msgspec.Struct, frozen=True, kw_only=True):
    """An SDK's error, read."""

    kind: Literal["status", "timeout", "connection"]
    status: int = 0
    """As the provider has it; of an error inside a stream, the one that its type stands for."""
    message: str = ""
    headers: Mapping[str, str] = {}


def read_provider_error(error: Exception) -> ProviderError | None:
    """What an SDK, or the HTTP client beneath it, raised; None for what is no trouble of the provider's."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if {"APITimeoutError", "TimeoutException"} & kinds:
        # Not even a connection is another thing than silence on one.
        causes = kinds | {type(error.__cause__).__name__}
        return ProviderError(kind="connection" if "ConnectTimeout" in causes else "timeout")
    if {"APIConnectionError", "TransportError", "StreamError"} & kinds:
        return ProviderError(kind="connection")
    if "APIError" not in kinds:
        return None
    given = _error_object(getattr(error, "body", None))
    status = getattr(error, "status_code", None)
    message = given.get("message")
    within = stream_error(str(given.get("type")), message if isinstance(message, str) else "", given.get("code"))
    if not isinstance(status, int) or status < 400 or within.status == 529:
        status = within.status
    headers = cast("Mapping[str, str]", getattr(getattr(error, "response", None), "headers", within.headers))
    return ProviderError(kind="status", status=status, message=within.message, headers=headers)


def stream_error(kind: str, message: str, code: object = None) -> ProviderError:
    """An error inside a stream: its status is the one that its type stands for, or its code is."""
    number = code if isinstance(code, int) and 400 <= code <= 599 else 500
    return ProviderError(kind="status", status=_STATUS_BY_TYPE.get(kind, number), message=message)


def failure_from_exception(error: Exception, request: RequestInfo) -> Failure:
    """The failure that a run ends with. Raise it where the error is no longer at hand: not from it, nor beside it."""
    met = read_provider_error(error)
    if met is None and not isinstance(error, ValueError):  # One of these is a stream that is not what it should be.
        raise error
    return failure_from_error(met or ProviderError(kind="status", status=500), request)


def failure_from_error(error: ProviderError, request: RequestInfo) -> Failure:
    """The same, of an error that was read."""
    match error.kind:
        case "timeout":
            seconds = f"{request.timeout:g} seconds"
            return Failure("timeout", f"The model sent nothing for {seconds}. Try again later.", status=504)
        case "connection":
            return connection_lost()
        case "status":
            return _by_status(error, request)


def connection_lost() -> Failure:
    """There is no connection, or there is none any more."""
    message = "There was no connection to the model's provider, or it broke off. Try again."
    return Failure("connection_error", message, status=503)


def check_key(request: RequestInfo) -> None:
    """Refuse a request that has no key, or one that could stand in no header."""
    if not request.key:
        raise Failure("unauthorized", "No model key: send api_key or configure one.", status=401)
    if not (request.key.isascii() and request.key.isprintable()):
        raise _by_status(ProviderError(kind="status", status=401), request)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """For how many seconds the provider wants to be left alone, if it says so."""
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
    """The text without the key, and without anything that looks like one."""
    return _KEY_PATTERN.sub("***", text.replace(key, "***") if key else text)


def _by_status(trouble: ProviderError, sent: RequestInfo) -> Failure:
    said = mask_keys(trouble.message, sent.key).strip()
    match trouble.status:
        case 401:
            mend = "Check api_key." if sent.key_source == "request" else f"Check {sent.setting} on the server."
            message = f"The model's provider did not accept the key of the {sent.key_source}. {mend}"
            return Failure("auth_error", message, status=401, details={"key": sent.key_source})
        case 403:
            return Failure("forbidden", _with_detail("The model's provider does not allow this", said), status=403)
        case 404:
            message = f"The provider has no model {sent.model!r} for this key. Set another with PALAVER_JOBCHAT_MODEL."
            return Failure("not_found", message, status=404)
        case 413:
            return _too_long(sent)
        case 400 if _TOO_LONG.search(said):
            return _too_long(sent)
        case 400:
            return Failure("bad_request", _with_detail("The model's provider refused the request", said), status=400)
        case 422:
            message = _with_detail("The model's provider could not use the request", said)
            return Failure("invalid_request", message, status=422)
        case 429:
            return _retry_later(
                "rate_limit", "The model's provider takes no more requests for now", trouble, status=429
            )
        case 529:
            return _retry_later("overloaded", "The model's provider is overloaded", trouble, status=503)
        case _:
            return Failure(
                "provider_error", _with_detail("The model's provider failed", said) + " Try again.", status=502
            )


def _with_detail(start: str, said: str) -> str:
    """A sentence of ours with the provider's own after it."""
    return f"{start}: {said if said[-1] in '.!?' else said + '.'}" if said else f"{start}."


def _retry_later(code: str, start: str, trouble: ProviderError, *, status: int) -> Failure:
    told = retry_after(trouble.headers)
    seconds = _DEFAULT_RETRY_SECONDS[code] if told is None else math.ceil(told)
    message = f"{start}. Try again in {seconds} second{'' if seconds == 1 else 's'}."
    return Failure(code, message, status=status, details={"retry_after": seconds})


def _too_long(sent: RequestInfo) -> Failure:
    largest = max(sent.field_sizes, key=lambda name: sent.field_sizes[name], default="content")
    message = f"This is too long for the model. Shorten {largest}, the largest field, or leave it out."
    return Failure("prompt_too_long", message, status=413, details={"fields": dict(sent.field_sizes)})


def _error_object(body: object) -> dict[str, Any]:
    """The error object in a body; one SDK gives the whole body, the other only this."""
    if not isinstance(body, dict):
        return {}
    whole = cast("dict[str, Any]", body)
    inner = whole.get("error")
    return cast("dict[str, Any]", inner) if isinstance(inner, dict) else whole
