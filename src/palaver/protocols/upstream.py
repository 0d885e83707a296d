"""What calling somebody else has in common, whatever they speak: the headers that go out, and what bodies mean.

Whatever comes back is a stranger's: it is kept as it is here, and made fit to be shown by whoever shows it.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from palaver.core import json
from palaver.core.runs import Call
from palaver.errors import UpstreamFailed

_MAX_ERROR_BYTES = 64 * 1024
_RETRYABLE_STATUSES = frozenset({408, 425, 429, 502, 503, 504})
"""Statuses of what may go by."""
RETRYABLE: Mapping[str, Any] = {"retryable": True}
"""Said of a failure that may be another time's success: who can wait may try again."""


def request_headers(call: Call, *, accept: str) -> Mapping[str, str]:
    """What is sent along: of all that the caller sent to us, only the session and the trace go on."""
    named = {"content-type": "application/json", "accept": accept}
    if call.session:
        named["baggage"] = f"ag.session.id={quote(call.session, safe=':')}"
    if call.trace_parent:
        named["traceparent"] = call.trace_parent
    return named


def retry_details(status: int, retry_after: str) -> Mapping[str, Any]:
    """What is said of a failure by its status, and by the seconds that its header asks to wait for."""
    if status not in _RETRYABLE_STATUSES:
        return {}
    seconds = retry_after.strip()
    is_number = seconds.isascii() and seconds.isdecimal() and len(seconds) < 7
    return {**RETRYABLE, "retry_after": int(seconds)} if is_number else RETRYABLE


def media_type(content_type: str) -> str:
    """The type alone, without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def decode_body(content_type: str, body: bytes) -> Any:
    """The value of a whole body; an empty one is null, and text is text where it says so or says nothing."""
    text, media = body.decode("utf-8", "replace"), media_type(content_type)
    if not text.strip():
        return None
    if media == "text/plain":
        return text
    read = json.parse_or_text(text)
    if read is text and media:
        raise UpstreamFailed("The remote's answer is not JSON.")
    return read


def error_message(body: bytes) -> str | None:
    """The line in which an error document says what is wrong, in any of the usual shapes."""
    match json.parse_or_text(body[:_MAX_ERROR_BYTES].decode("utf-8", "replace")):
        case {"status": {"message": str(line)}} | {"error": {"message": str(line)}} | {"error": str(line)}:
            return line
        case {"detail": str(line)} | {"detail": {"message": str(line)}} | {"detail": [{"msg": str(line)}, *_]}:
            return line
        case {"message": str(line)}:
            return line
        case _:
            return None
