"""Shared code of the controllers: request bodies, timestamps, ids, ETags, idempotency and errors.

A handler reads its body with `read_body`, queries the database and returns `object_response(…)`. A POST that creates
something goes through `run_idempotent`. Errors are `{"error": {"code", "message", "path"?, "details"?, "errors"?}}`.
"""

import asyncio
import hashlib
import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, Operation, RequestBody, Schema
from litestar.params import QueryParameter
from msgspec import UNSET
from sqlalchemy import Connection

from palaver.core import json
from palaver.core.ids import sortable_id
from palaver.core.json import decode_struct
from palaver.errors import (
    FaultyCall,
    InvalidValue,
    MethodNotAllowed,
    PalaverError,
    RequestError,
    StaleBase,
    UnsupportedMediaType,
)
from palaver.protocols.base import HttpResponse
from palaver.server import security
from palaver.server.error_responses import api_error_status, error_headers
from palaver.server.idempotency import HEADER, REPLAYED_HEADER, create_claim, validate_key
from palaver.server.request import ClientDisconnected, Exchange
from palaver.server.settings import Settings
from palaver.storage import idempotency
from palaver.storage.database import Database
from palaver.storage.idempotency import IdempotentRequest, StoredResponse

if TYPE_CHECKING:
    from palaver.server.auth import Caller


T = TypeVar("T")
StructT = TypeVar("StructT", bound=msgspec.Struct)
ApiRequest = Request[Any, Any, Any]

_INLINE_DECODE_BYTES = 64 * 1024  # Larger bodies are decoded in a thread.
CALLER = "palaver.caller"
"""Scope key under which the dispatcher stores the caller."""

NDJSON = "application/x-ndjson"
_NO_NUL = r"^[^\x00]*$"
Limit = Annotated[int, QueryParameter(ge=1, le=200, description="Maximum number of items.")]
After = Annotated[str | None, QueryParameter(description="Cursor: the value of `next` on the previous page.")]
Search = Annotated[
    str | None,
    QueryParameter(pattern=_NO_NUL, max_length=200, description="Text to search for, without wildcards."),
]
Filter = Annotated[str | None, QueryParameter(pattern=_NO_NUL, max_length=200)]
FreeText = Annotated[str, msgspec.Meta(pattern=_NO_NUL, max_length=4_000)]
"""Text written by a user. PostgreSQL cannot store NUL."""
Timestamp = Annotated[str, msgspec.Meta(description="RFC 3339 timestamp in UTC, with microseconds.")]


def caller_of(request: ApiRequest) -> "Caller":
    """Return the caller that the dispatcher authenticated. Its project is never taken from the request."""
    return cast("Any", request.scope)[CALLER]


# Times and ids


def parse_timestamp(text: str | None, pointer: str) -> datetime | None:
    """Parse an RFC 3339 query parameter; without a zone it is taken as UTC."""
    if text is None:
        return None
    try:
        parsed = msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        raise InvalidValue(
            "Invalid timestamp. Expected RFC 3339, e.g. 2026-11-15T07:20:00Z.", pointer=pointer
        ) from None
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed


def utc_now() -> datetime:
    return datetime.now(UTC)


def format_timestamp(moment: datetime) -> str:
    """Format as RFC 3339 in UTC, always with microseconds so that strings sort as times do."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def new_id(prefix: str) -> str:
    """Return a new id that sorts by time: `new_id("var")` is `var_01k…`."""
    return f"{prefix}_{sortable_id(time.time_ns() // 1_000_000, secrets.randbits(80))}"


def make_view(kind: type[StructT], record: msgspec.Struct, **fields: Any) -> StructT:
    """Return a `kind` with `fields`, and with those of `record` for its other fields; times are formatted."""
    for name, value in msgspec.structs.asdict(record).items():
        if name in kind.__struct_fields__ and name not in fields:
            fields[name] = format_timestamp(value) if isinstance(value, datetime) else value
    return kind(**fields)


# Bodies


async def raw_body(request: ApiRequest, settings: Settings) -> bytes:
    """Return the body of a request whose content type must be JSON, up to the size limit."""
    exchange = exchange_of(request)
    security.check_json(exchange)
    return await exchange.body(settings)


def exchange_of(request: ApiRequest) -> Exchange:
    asgi = cast("Any", request)  # Litestar has its own ASGI types.
    exchange = Exchange(asgi.scope, asgi.receive, asgi.send)
    exchange.caller, exchange.response_ends = caller_of(request), asgi.scope.get("palaver.response_ends")
    return exchange


async def read_lines(request: ApiRequest, settings: Settings, noun: str) -> bytes:
    """Return the body of a request whose content type must be NDJSON, with one `noun` a line."""
    exchange = exchange_of(request)
    if exchange.headers.get("content-type", "").partition(";")[0].strip().lower() != NDJSON:
        raise UnsupportedMediaType(f"Send {NDJSON} with one {noun} per line.")
    return await exchange.body(settings)


async def read_body(request: ApiRequest, settings: Settings, kind: type[T]) -> tuple[bytes, T]:
    """Return the raw body and the decoded one. Large bodies are decoded in a thread."""
    raw = await raw_body(request, settings)
    if len(raw) <= _INLINE_DECODE_BYTES:
        return raw, decode_body(raw, kind, settings)
    return raw, await asyncio.to_thread(decode_body, raw, kind, settings)


def decode_body(raw: bytes, kind: type[T], settings: Settings) -> T:
    """Decode a JSON body; errors point at the invalid value. Unknown keys are ignored."""
    return decode_struct(json.decode(raw, settings.json_limits), kind)


def changed_fields(body: msgspec.Struct, cleared: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a PATCH that are set; null becomes the value in `cleared`."""
    fields = msgspec.structs.asdict(body).items()
    return {name: cleared[name] if value is None else value for name, value in fields if value is not UNSET}


# Responses and ETags


def compute_etag(body: bytes, prefix: str = "") -> str:
    return f'"{prefix}{"-" * bool(prefix)}{hashlib.blake2b(body, digest_size=12).hexdigest()}"'


def encode_object(
    value: object, *, status: int = 200, location: str | None = None, etag_prefix: str = ""
) -> HttpResponse:
    body = json.encode(value)
    headers = (("content-type", "application/json"), ("etag", compute_etag(body, etag_prefix)))
    return HttpResponse(status=status, headers=(*headers, ("location", location)) if location else headers, body=body)


def object_response(
    request: ApiRequest, value: T, *, status: int = 200, location: str | None = None, etag_prefix: str = ""
) -> Response[T]:
    """Return the object with its ETag, or 304 if `If-None-Match` of a GET matches."""
    response = encode_object(value, status=status, location=location, etag_prefix=etag_prefix)
    etag = dict(response.headers)["etag"]
    if request.method == "GET" and _etag_matches(request.headers.get("if-none-match"), etag):
        return Response(cast("T", None), status_code=304, headers={"etag": etag})
    return cast("Response[T]", litestar_response(response))


def litestar_response(response: HttpResponse) -> Response[Any]:
    headers = dict(response.headers)
    media_type = headers.pop("content-type", "application/json")
    return Response(response.body or None, status_code=response.status, headers=headers, media_type=media_type)


def if_match_check(
    request: ApiRequest, view: Callable[[T], object], etag_prefix: Callable[[T], str] = lambda _: ""
) -> Callable[[T], None]:
    """Return a check of `If-Match`, to be called with the stored object within the writing transaction.

    If ETags have a prefix, only the prefix must match: changes made by the server itself don't count.
    """
    if_match = request.headers.get("if-match")

    def check(value: T) -> None:
        if if_match is None:
            return
        prefix = etag_prefix(value)
        etag = compute_etag(json.encode(view(value)), prefix)
        if not (_etag_matches(if_match, etag) or (prefix and f'"{prefix}-' in if_match)):
            raise StaleBase("The object has changed since you read it.", by="etag", details={"etag": etag})

    return check


def _etag_matches(header: str | None, etag: str) -> bool:
    if header is None:
        return False
    # Compressing proxies turn ETags into weak ones.
    return any(item.strip() == "*" or item.strip().removeprefix("W/") == etag for item in header.split(","))


# OpenAPI


@dataclass
class _RawSchema(Schema):
    document: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_schema(self) -> dict[str, Any]:
        return self.document


def operation_with_body(
    kind: Any, media_type: str = "application/json", *, events: Any = None, status: str = "200"
) -> type[Operation]:
    """Return an `operation_class` that documents a body read by the handler itself, and its stream of `events`."""

    @dataclass
    class OperationWithBody(Operation):
        def __post_init__(self) -> None:
            if kind is not None:
                self.request_body = RequestBody(content={media_type: _media_type_schema(kind)}, required=True)
            if events is not None:
                responses = dict(self.responses or {})
                response = responses.get(status)
                if not isinstance(response, OpenAPIResponse):
                    response = OpenAPIResponse(description="The event stream.")
                content = {**(response.content or {}), "text/event-stream": _media_type_schema(events)}
                self.responses = {**responses, status: replace(response, content=content)}

    return OperationWithBody


def operation_with_stream(kind: Any) -> type[Operation]:
    """Like `operation_with_body`, for a route without a body; `kind` is the `data` of each server-sent event."""
    return operation_with_body(None, events=kind)


def _media_type_schema(kind: Any) -> OpenAPIMediaType:
    (schema,), definitions = msgspec.json.schema_components([kind])
    return OpenAPIMediaType(schema=_RawSchema(document=_inline_references(schema, definitions)))


def _inline_references(schema: Any, definitions: dict[str, Any]) -> Any:
    match schema:
        case {"$ref": str(name)}:
            return _inline_references(definitions[name.rpartition("/")[2]], definitions)
        case dict():
            # A discriminator's mapping would refer to the removed definitions; the `enum` of each branch suffices.
            entries = cast("dict[str, Any]", schema).items()
            return {key: _inline_references(value, definitions) for key, value in entries if key != "discriminator"}
        case list():
            return [_inline_references(item, definitions) for item in cast("list[Any]", schema)]
        case _:
            return schema


log = logging.getLogger("palaver.server")
_HTTP_ERROR_CODES = {400: "invalid_value", 404: "not_found", 405: "method_not_allowed", 415: "unsupported_media_type"}


def handle_palaver_error(_: "Request[Any, Any, Any]", error: PalaverError) -> "Response[Any]":
    headers: dict[str, str] = {}
    if isinstance(error, MethodNotAllowed):
        headers["allow"] = ", ".join(error.allowed)
    headers |= dict(error_headers(error))
    return _error_response(api_error_status(error), error_document(error), headers)


def error_document(error: PalaverError) -> dict[str, Any]:
    """Return the `error` object of a response; all faults of a FaultyCall are listed in `errors`."""
    document = _error_fields(error) | ({"details": error.details} if error.details else {})
    if isinstance(error, FaultyCall):
        document["errors"] = [_error_fields(fault) for fault in error.faults]
    return document


def line_error(line_number: int, error: PalaverError) -> dict[str, Any]:
    """Return the `error` object of one line of an NDJSON body."""
    return {"line": line_number, **error_document(error)}


def _error_fields(error: PalaverError) -> dict[str, Any]:
    pointer = error.pointer if isinstance(error, RequestError) else None
    return {"code": error.code, "message": error.message} | ({"path": pointer} if pointer else {})


def _handle_http_exception(request: "Request[Any, Any, Any]", error: HTTPException) -> "Response[Any]":
    return _error_response(error.status_code, http_error(request, error), dict(error.headers or {}))


def http_error(request: "Request[Any, Any, Any]", error: HTTPException) -> dict[str, Any]:
    """Return the `error` object of Litestar's own errors: unknown path or method, invalid query parameter."""
    document: dict[str, Any] = {"code": _HTTP_ERROR_CODES.get(error.status_code, "internal"), "message": error.detail}
    match error.status_code, error.extra:
        case 404, _:
            document["message"] = f"Not found: {request.url.path[:80]}"
        case 400, [{"key": str(name), "message": str(reason), "source": "query"}, *_]:
            query_name = _query_name(request, name)
            message = _query_error_text(query_name, reason.replace("`", ""))
            document |= {"message": message, "path": f"?{query_name}"}
        case _:
            pass
    return document


_CONSTRAINT = re.compile(r"Expected \w+( of length)? (>=|<=|>|<) ([\w.-]+)")
_TYPE_MISMATCH = re.compile(r"Expected ([\w |]+), got \w+")
_BOUND_NAMES = {">=": "at least", "<=": "at most", ">": "greater than", "<": "less than"}
_TYPE_NAMES = {"int": "an integer", "float": "a number", "bool": "true or false"}


def _query_error_text(name: str, reason: str) -> str:
    """Return the message for an invalid query parameter from msgspec's reason."""
    if bound := _CONSTRAINT.fullmatch(reason):
        value = f"{bound[3]} character{'s' * (bound[3] != '1')} long" if bound[1] else bound[3]
        return f"{name} must be {_BOUND_NAMES[bound[2]]} {value}."
    if mismatch := _TYPE_MISMATCH.fullmatch(reason):
        expected = mismatch[1].removesuffix(" | null")
        return f"{name} must be {_TYPE_NAMES.get(expected, expected)}."
    if reason.startswith("Invalid enum value "):
        return f"Invalid {name} {reason.removeprefix('Invalid enum value ')}."
    if "matching regex" in reason:
        return f"{name} contains invalid characters."
    return f"Invalid {name}: {reason}."


def _query_name(request: "Request[Any, Any, Any]", name: str) -> str:
    """Return the query parameter's name; Litestar reports the handler's argument."""
    argument = request.route_handler.parsed_fn_signature.parameters.get(name)
    alias = getattr(argument.kwarg_definition, "name", None) if argument is not None else None
    return alias or name


def _handle_disconnect(_: "Request[Any, Any, Any]", __: ClientDisconnected) -> "Response[Any]":
    return Response(None, status_code=499)  # Only seen in the access log.


def _error_response(status: int, error: dict[str, Any], headers: dict[str, str]) -> "Response[Any]":
    return Response(json.encode({"error": error}), status_code=status, headers=headers, media_type="application/json")


def _handle_unexpected_error(request: "Request[Any, Any, Any]", error: Exception) -> "Response[Any]":
    log.error("%s %s failed", request.method, request.url.path[:200], exc_info=error)
    return _error_response(
        500, {"code": "internal", "message": "Internal server error. See the server log for details."}, {}
    )


EXCEPTION_HANDLERS: dict[int | type[Exception], Any] = {
    PalaverError: handle_palaver_error,
    HTTPException: _handle_http_exception,
    ClientDisconnected: _handle_disconnect,
    Exception: _handle_unexpected_error,
}


async def run_idempotent(
    request: ApiRequest,
    database: Database,
    raw: bytes,
    work: Callable[[Connection], HttpResponse],
    *,
    now: Callable[[], datetime] = utc_now,
) -> Response[Any]:
    """Run `work` in a transaction; a request with a known Idempotency-Key replays the stored response."""
    claim = idempotent_request(request, raw, now())
    if claim is None:
        return litestar_response(await database.write(work))
    stored, is_replay = await database.write(idempotency.run_once, claim, lambda db: _stored_response(work(db)))
    return _idempotent_response(stored, is_replay=is_replay)


async def find_replay(
    request: ApiRequest, database: Database, raw: bytes, *, now: Callable[[], datetime] = utc_now
) -> Response[Any] | None:
    """Return the stored response of an earlier identical request, before expensive work for `run_idempotent`."""
    claim = idempotent_request(request, raw, now())
    stored = None if claim is None else await database.read(idempotency.find_response, claim)
    return None if stored is None else _idempotent_response(stored, is_replay=True)


def _idempotent_response(stored: StoredResponse, *, is_replay: bool) -> Response[Any]:
    http_response = HttpResponse(status=stored.status or 200, headers=tuple(stored.headers), body=stored.body)
    response = litestar_response(http_response)
    if is_replay:
        name, value = REPLAYED_HEADER
        response.headers[name] = value
    return response


def idempotent_request(request: ApiRequest, raw: bytes, now: datetime) -> IdempotentRequest | None:
    """Return the claim of a request with an Idempotency-Key, else None."""
    key = request.headers.get(HEADER)
    if key is None:
        return None
    validate_key(key)
    query = request.scope["query_string"]
    digest = hashlib.sha256(len(query).to_bytes(8) + query + raw).digest()
    return create_claim(caller_of(request), key, f"{request.method} {request.scope['path']}", digest, now)


def _stored_response(response: HttpResponse) -> StoredResponse:
    return StoredResponse(status=response.status, headers=response.headers, body=response.body)
