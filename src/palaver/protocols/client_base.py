"""Code shared by the protocol clients: request headers, reply bodies, errors. Replies are untrusted data."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from palaver.core import json
from palaver.core.runs import Call
from palaver.errors import UpstreamFailed

_MAX_ERROR_BYTES = 64 * 1024
_RETRYABLE_STATUSES = frozenset({408, 425, 429, 502, 503, 504})
"""HTTP statuses of temporary failures."""
RETRYABLE: Mapping[str, Any] = {"retryable": True}
"""Error details of a temporary failure: the caller may retry."""


def request_headers(call: Call, *, accept: str) -> Mapping[str, str]:
    """Return the request headers. Of what the caller sent, only the session and the trace are forwarded."""
    headers = {"content-type": "application/json", "accept": accept}
    if call.session:
        headers["baggage"] = f"ag.session.id={quote(call.session, safe=':')}"
    if call.trace_parent:
        headers["traceparent"] = call.trace_parent
    return headers


def retry_details(status: int, retry_after: str) -> Mapping[str, Any]:
    if status not in _RETRYABLE_STATUSES:
        return {}
    seconds = retry_after.strip()
    is_number = seconds.isascii() and seconds.isdecimal() and len(seconds) < 7
    return {**RETRYABLE, "retry_after": int(seconds)} if is_number else RETRYABLE


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def decode_body(content_type: str, body: bytes) -> Any:
    """Decode a complete body. An empty one is None; text is returned as text if declared so or undeclared."""
    text, media = body.decode("utf-8", "replace"), media_type(content_type)
    if not text.strip():
        return None
    if media == "text/plain":
        return text
    value = json.parse_or_text(text)
    if value is text and media:
        raise UpstreamFailed("The remote's answer is not JSON.")
    return value


def error_message(body: bytes) -> str | None:
    """Return the message of an error document, in any of the common shapes."""
    match json.parse_or_text(body[:_MAX_ERROR_BYTES].decode("utf-8", "replace")):
        case {"status": {"message": str(message)}} | {"error": {"message": str(message)}} | {"error": str(message)}:
            return message
        case {"detail": str(message)} | {"detail": {"message": str(message)}} | {"detail": [{"msg": str(message)}, *_]}:
            return message
        case {"message": str(message)}:
            return message
        case _:
            return None
