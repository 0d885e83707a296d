"""Code shared by the protocol clients: request headers, reply bodies, errors. Replies are untrusted data."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from palaver.core import json
from palaver.core.runs import Call
from palaver.errors import UpstreamFailed
from palaver.protocols import sse
from palaver.protocols.base import HttpRequest

JSON, SSE = "application/json", "text/event-stream"
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


def json_request(call: Call, body: Mapping[str, Any], inputs: Mapping[str, Any], *, stream: bool) -> HttpRequest:
    """Build a request with Palaver's extensions: the inputs and parameters of the call, if there are any."""
    extensions: dict[str, Any] = {"custom_inputs": inputs} if inputs else {}
    if call.parameters:
        extensions["parameters"] = call.parameters
    headers = request_headers(call, accept=SSE if stream else JSON)
    return HttpRequest(headers=headers, body=json.encode({**body, **extensions}))


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
        raise UpstreamFailed("The response from the remote service is not JSON.")
    return value


def token_count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


class ReplyDecoder:
    """Decodes a reply to events and values: a stream record by record, any other body at its end."""

    def __init__(self, content_type: str, *, max_bytes: int = sse.MAX_RECORD_BYTES) -> None:
        self.streamed = media_type(content_type) == SSE
        self._content_type = content_type
        self._records: sse.EventStreamDecoder | sse.LineDecoder = sse.EventStreamDecoder(max_bytes=max_bytes)
        self._body = bytearray()

    def feed(self, data: bytes) -> list[object]:
        """Return the events and values that are complete now."""
        if not self.streamed:
            self._body += data
            return []
        return [value for record in self._records.feed(data) for value in self._decode_record(record)]

    def end(self) -> list[object]:
        """Return the remaining events and values at the end of the body."""
        if not self.streamed:
            return [*self._decode_body(decode_body(self._content_type, bytes(self._body)))]
        values = [value for record in self._records.end() for value in self._decode_record(record)]
        return [*values, *self._end_stream()]

    def _decode_record(self, record: bytes) -> Iterable[object]:
        raise NotImplementedError

    def _end_stream(self) -> Iterable[object]:
        raise NotImplementedError

    def _decode_body(self, body: Any) -> Iterable[object]:
        raise NotImplementedError


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
