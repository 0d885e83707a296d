"""Messages on a tab's socket: requests in, response chunks and change notices out.

Each request has a number that the page chooses. It has the credentials of the socket, and cannot send its own.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated
from urllib.parse import unquote

import msgspec

from palaver.errors import InvalidJson, InvalidValue, MisplacedField, PalaverError
from palaver.server.request import Scope
from palaver.server.routing import strip_prefix
from palaver.server.security import ORIGINAL_HOST
from palaver.storage.notifications import Change

RequestNumber = Annotated[int, msgspec.Meta(ge=0, le=(1 << 53) - 1)]
"""At most JavaScript's largest safe integer."""

_METHOD = re.compile(r"[A-Z]{1,16}")
_PATH = re.compile(r"/[\x21\x22\x24-\x7e]*")  # No space, no fragment.
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_EXCLUDED_PATHS = ("/api/session", "/api/files", "/assets")
"""Not served on a socket: they set cookies or send binary data."""

CREDENTIAL_HEADERS = frozenset({b"authorization", b"cookie", b"x-api-key", b"api-key"})
_SOCKET_HEADERS = CREDENTIAL_HEADERS | {b"host", b"origin", b"user-agent", b"accept-language"}
"""Headers that a request takes from the handshake."""
_HOP_BY_HOP_HEADERS = "connection content-length expect forwarded keep-alive te trailer transfer-encoding upgrade via"
_IGNORED_HEADERS = _SOCKET_HEADERS | frozenset(_HOP_BY_HOP_HEADERS.encode().split())
_IGNORED_PREFIXES = (b"sec-", b"proxy-", b"x-forwarded-")
_OMITTED_RESPONSE_HEADERS = {b"set-cookie", b"connection", b"transfer-encoding", b"keep-alive"}
"""Response headers without a meaning on a socket."""


class SocketRequest(msgspec.Struct, frozen=True):
    """A request; or, with `abort`, the cancellation of an earlier one."""

    id: RequestNumber
    method: str = "GET"
    path: str = ""
    headers: Mapping[str, str] = {}
    body: str | None = None
    abort: bool = False


class _NumberOnly(msgspec.Struct):
    id: RequestNumber


class _ResponseData(msgspec.Struct):
    """The most frequent message: a Struct is encoded faster than a dictionary."""

    id: int
    data: str


class MalformedRequest(Exception):
    """A message that is not a valid request; `id` is its number, if it has one."""

    def __init__(self, error: PalaverError, number: int | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.id = number


_request_decoder = msgspec.json.Decoder(SocketRequest)
_number_decoder = msgspec.json.Decoder(_NumberOnly)
_encode = msgspec.json.Encoder().encode


# Requests


def decode_request(text: str) -> SocketRequest:
    """Decode a request. Raises MalformedRequest."""
    try:
        return _request_decoder.decode(text)
    except msgspec.ValidationError as error:
        try:
            number = _number_decoder.decode(text).id
        except (msgspec.DecodeError, RecursionError):
            number = None
        raise MalformedRequest(InvalidValue(f"Malformed request message: {error}."), number) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise MalformedRequest(InvalidJson("The message is not valid JSON.")) from None


def http_scope(request: SocketRequest, body: bytes | None, socket_scope: Scope, *, root_path: str = "") -> Scope:
    """Return the ASGI scope of a request. Raises for an invalid request, or a path that sockets don't serve."""
    if not _METHOD.fullmatch(request.method):
        raise InvalidValue(f"Invalid method {request.method[:20]!r}: must be in upper case.", pointer="/method")
    if not _PATH.fullmatch(request.path):
        message = f"Invalid path {request.path[:80]!r}: must start with '/' and be percent-encoded."
        raise InvalidValue(message, pointer="/path")
    raw_path, _, query = request.path.partition("?")
    path = unquote(raw_path)
    local_path = strip_prefix(root_path, path)
    if any(local_path == excluded or local_path.startswith(f"{excluded}/") for excluded in _EXCLUDED_PATHS):
        raise MisplacedField("This path is not available on the socket. Send a separate HTTP request.", pointer="/path")
    headers = [pair for pair in socket_scope["headers"] if pair[0] in _SOCKET_HEADERS]
    headers += _request_headers(request.headers)
    if body is not None:
        headers.append((b"content-length", b"%d" % len(body)))
    original_host = {ORIGINAL_HOST: socket_scope[ORIGINAL_HOST]} if ORIGINAL_HOST in socket_scope else {}
    return {
        **original_host,
        "type": "http",
        "asgi": socket_scope["asgi"],
        "http_version": "1.1",
        "method": request.method,
        "scheme": http_scheme(socket_scope),
        "path": path,
        "raw_path": raw_path.encode(),
        "query_string": query.encode(),
        "root_path": socket_scope.get("root_path", ""),
        "headers": headers,
        "server": socket_scope.get("server"),
        "client": socket_scope.get("client"),
    }


def http_scheme(socket_scope: Scope) -> str:
    return "https" if socket_scope.get("scheme") in ("wss", "https") else "http"


def _request_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Encode the headers of a request, without those that it may not set: as in `fetch`, they are ignored."""
    accepted: dict[bytes, bytes] = {}
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise InvalidValue(f"Invalid header name or value: {name[:40]!r}.", pointer="/headers")
        lower_name = name.lower().encode()
        if lower_name not in _IGNORED_HEADERS and not lower_name.startswith(_IGNORED_PREFIXES):
            accepted[lower_name] = value.strip().encode("latin-1")
    return list(accepted.items())


# Responses and notices


def encode_start(number: int, status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    joined: dict[str, str] = {}
    for raw_name, value in headers:
        name, text = raw_name.lower().decode("latin-1"), value.decode("latin-1")
        if raw_name.lower() not in _OMITTED_RESPONSE_HEADERS:
            joined[name] = f"{joined[name]}, {text}" if name in joined else text
    return _encode({"id": number, "status": status, "headers": joined})


def encode_data(number: int, text: str) -> bytes:
    return _encode(_ResponseData(number, text))


def encode_end(number: int) -> bytes:
    return _encode({"id": number, "end": True})


def encode_error(number: int | None, code: str, message: str) -> bytes:
    """Encode the end of a request that failed or was cut off."""
    return _encode({"id": number, "error": {"code": code, "message": message}})


def encode_change(change: Change) -> bytes:
    message = {"changed": change.kind, "ref": change.ref}
    return _encode(message if change.run is None else {**message, "run": change.run})
