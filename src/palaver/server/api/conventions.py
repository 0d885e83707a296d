"""What all controllers have in common: request bodies, timestamps, ids, ETags, idempotency and errors.

A handler reads its body with `read_body`, queries the database and returns `object_response(…)`. A POST that creates
something goes through `run_idempotent`. Errors are `{"error": {"code", "message", "path"?, "details"?, "errors"?}}`.
"""

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, Operation, RequestBody, Schema
from litestar.params import QueryParameter
from sqlalchemy import Connection

from palaver.core import json
from palaver.core.ids import sortable_id
from palaver.core.json import decode_struct
from palaver.errors import FaultyCall, InvalidValue, MethodNotAllowed, PalaverError, RequestError, StaleBase
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
ApiRequest = Request[Any, Any, Any]
"""A request, as Litestar has it."""

_INLINE_DECODE_BYTES = 64 * 1024
"""Bytes of a body that is read at once."""
CALLER = "palaver.caller"
"""Where the dispatcher puts who is asking."""

_NO_NUL = r"^[^\x00]*$"
Limit = Annotated[int, QueryParameter(ge=1, le=200, description="How many rows at most.")]
After = Annotated[str | None, QueryParameter(description="The cursor of the page before: its `next`.")]
Search = Annotated[
    str | None,
    QueryParameter(pattern=_NO_NUL, max_length=200, description="A text to look for, taken literally."),
]
Filter = Annotated[str | None, QueryParameter(pattern=_NO_NUL, max_length=200)]
"""A name that rows must have."""
FreeText = Annotated[str, msgspec.Meta(pattern=_NO_NUL, max_length=4_000)]
"""A text that a person wrote. NUL is no letter, and not every database can hold it."""
Timestamp = Annotated[str, msgspec.Meta(description="RFC 3339, UTC, with microseconds.")]


def caller_of(request: ApiRequest) -> "Caller":
    """Who is asking, and in which project. The dispatcher knows; nothing of the request itself can say."""
    return cast("Any", request.scope)[CALLER]


# Times and ids


def parse_timestamp(text: str | None, pointer: str) -> datetime | None:
    """Parse an RFC 3339 time of a query; one without a zone is UTC."""
    if text is None:
        return None
    try:
        parsed = msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        raise InvalidValue("This is no time: give one like 2026-11-15T07:20:00Z.", pointer=pointer) from None
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed


def utc_now() -> datetime:
    return datetime.now(UTC)


def format_timestamp(moment: datetime) -> str:
    """A time, as it is shown: always with its microseconds, so that texts sort as times do."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def new_id(prefix: str) -> str:
    """A new id, ordered by time: `new_id("var")` is `var_01k…`."""
    return f"{prefix}_{sortable_id(time.time_ns() // 1_000_000, secrets.randbits(80))}"


# Bodies


async def raw_body(request: ApiRequest, settings: Settings) -> bytes:
    """The body, within its limit; it must be declared as JSON."""
    exchange = exchange_of(request)
    security.check_json(exchange)
    return await exchange.body(settings)


def exchange_of(request: ApiRequest) -> Exchange:
    """The request as our own routes have it, to read a body that is no JSON."""
    asgi = cast("Any", request)  # Litestar's names for ASGI's types are its own.
    exchange = Exchange(asgi.scope, asgi.receive, asgi.send)
    exchange.caller, exchange.authenticator = caller_of(request), asgi.scope.get("palaver.callers")
    return exchange


async def read_body(request: ApiRequest, settings: Settings, kind: type[T]) -> tuple[bytes, T]:
    """The body, and what it says. A large one is read in a thread: others are waiting for the loop."""
    raw = await raw_body(request, settings)
    if len(raw) <= _INLINE_DECODE_BYTES:
        return raw, decode_body(raw, kind, settings)
    return raw, await asyncio.to_thread(decode_body, raw, kind, settings)


def decode_body(raw: bytes, kind: type[T], settings: Settings) -> T:
    """A body as one of our Structs, or the error that points at what does not fit. Unknown keys are ignored."""
    return decode_struct(json.decode(raw, settings.json_limits), kind)


# Answers and ETags


def compute_etag(body: bytes, mark: str = "") -> str:
    """The tag of an object as it is shown; in front the mark of what callers write of it, where that is not all."""
    return f'"{mark}{"-" * bool(mark)}{hashlib.blake2b(body, digest_size=12).hexdigest()}"'


def encode_object(shown: object, *, status: int = 200, location: str | None = None, mark: str = "") -> HttpResponse:
    """One object and its ETag; `location` is where one that was just made can be found."""
    body = json.encode(shown)
    headers = (("content-type", "application/json"), ("etag", compute_etag(body, mark)))
    return HttpResponse(status=status, headers=(*headers, ("location", location)) if location else headers, body=body)


def object_response(
    request: ApiRequest, shown: T, *, status: int = 200, location: str | None = None, mark: str = ""
) -> Response[T]:
    """The answer that shows one object; 304 to whom has it already."""
    whole = encode_object(shown, status=status, location=location, mark=mark)
    tag = dict(whole.headers)["etag"]
    if request.method == "GET" and _etag_matches(request.headers.get("if-none-match"), tag):
        return Response(cast("T", None), status_code=304, headers={"etag": tag})
    return cast("Response[T]", litestar_response(whole))


def litestar_response(whole: HttpResponse) -> Response[Any]:
    """An answer, as Litestar wants it."""
    headers = dict(whole.headers)
    kind = headers.pop("content-type", "application/json")
    return Response(whole.body or None, status_code=whole.status, headers=headers, media_type=kind)


def if_match_check(
    request: ApiRequest, shown: Callable[[T], object], mark: Callable[[T], str] = lambda _: ""
) -> Callable[[T], None]:
    """What checks `If-Match`: a function of the object as it is in the transaction that is to change it.

    Of an object whose tags have marks only the mark counts: what the server itself changed is in nobody's way.
    """
    wanted = request.headers.get("if-match")

    def check(value: T) -> None:
        if wanted is None:
            return
        own = mark(value)
        tag = compute_etag(json.encode(shown(value)), own)
        if not (_etag_matches(wanted, tag) or (own and f'"{own}-' in wanted)):
            raise StaleBase("It has changed since you read it.", by="etag", details={"etag": tag})

    return check


def _etag_matches(header: str | None, tag: str) -> bool:
    if header is None:
        return False
    # A proxy that compresses makes a tag weak; it is the same object.
    return any(one.strip() == "*" or one.strip().removeprefix("W/") == tag for one in header.split(","))


# OpenAPI


@dataclass
class _RawSchema(Schema):
    """A schema that is written already."""

    given: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_schema(self) -> dict[str, Any]:
        return self.given


def operation_with_body(
    kind: Any, media_type: str = "application/json", *, streams: Any = None, status: str = "200"
) -> type[Operation]:
    """For a route's `operation_class`: what OpenAPI says of a body that the route reads itself, and of its stream."""

    @dataclass
    class Taking(Operation):
        def __post_init__(self) -> None:
            if kind is not None:
                self.request_body = RequestBody(content={media_type: _media_type_schema(kind)}, required=True)
            if streams is not None:
                answers = dict(self.responses or {})
                before = answers.get(status)
                told = before if isinstance(before, OpenAPIResponse) else OpenAPIResponse(description="The stream.")
                content = {**(told.content or {}), "text/event-stream": _media_type_schema(streams)}
                self.responses = {**answers, status: replace(told, content=content)}

    return Taking


def operation_with_stream(kind: Any) -> type[Operation]:
    """The same for a route that only answers: `data` of each server-sent event is one of these."""
    return operation_with_body(None, streams=kind)


def _media_type_schema(kind: Any) -> OpenAPIMediaType:
    (schema,), definitions = msgspec.json.schema_components([kind])
    return OpenAPIMediaType(schema=_RawSchema(given=_inline_references(schema, definitions)))


def _inline_references(schema: Any, definitions: dict[str, Any]) -> Any:
    match schema:
        case {"$ref": str(name)}:
            return _inline_references(definitions[name.rpartition("/")[2]], definitions)
        case dict():
            # A discriminator's mapping would name definitions that are nowhere now; each branch's `enum` tells.
            entries = cast("dict[str, Any]", schema).items()
            return {key: _inline_references(value, definitions) for key, value in entries if key != "discriminator"}
        case list():
            return [_inline_references(item, definitions) for item in cast("list[Any]", schema)]
        case _:
            return schema


log = logging.getLogger("palaver.server")
_CODES = {400: "invalid_value", 404: "not_found", 405: "method_not_allowed", 415: "unsupported_media_type"}
"""What Litestar finds by itself, by its status."""


def handle_palaver_error(_: "Request[Any, Any, Any]", error: PalaverError) -> "Response[Any]":
    headers: dict[str, str] = {}
    if isinstance(error, MethodNotAllowed):
        headers["allow"] = ", ".join(error.allowed)
    headers |= dict(error_headers(error))
    return _error_response(api_error_status(error), error_document(error), headers)


def error_document(error: PalaverError) -> dict[str, Any]:
    """The error, as the body has it; several faults of one body are listed after the first."""
    document = _error_fields(error) | ({"details": error.details} if error.details else {})
    if isinstance(error, FaultyCall):
        document["errors"] = [_error_fields(fault) for fault in error.faults]
    return document


def _error_fields(error: PalaverError) -> dict[str, Any]:
    pointer = error.pointer if isinstance(error, RequestError) else None
    return {"code": error.code, "message": error.message} | ({"path": pointer} if pointer else {})


def _handle_http_exception(request: "Request[Any, Any, Any]", error: HTTPException) -> "Response[Any]":
    """An error of Litestar's: no such path or method, or a query that does not fit the handler's types."""
    document: dict[str, Any] = {"code": _CODES.get(error.status_code, "internal"), "message": error.detail}
    match error.status_code, error.extra:
        case 404, _:
            document["message"] = f"There is nothing at {request.url.path[:80]}."
        case 400, [{"key": str(name), "message": str(why), "source": "query"}, *_]:
            asked = _query_name(request, name)
            document |= {"message": f"{asked} does not fit: {why.replace('`', '')}.", "path": f"?{asked}"}
        case _:
            pass
    return _error_response(error.status_code, document, dict(error.headers or {}))


def _query_name(request: "Request[Any, Any, Any]", name: str) -> str:
    """What the query calls it: Litestar tells the name of the handler's own parameter."""
    given = request.route_handler.parsed_fn_signature.parameters.get(name)
    alias = getattr(given.kwarg_definition, "name", None) if given is not None else None
    return alias or name


def _handle_disconnect(_: "Request[Any, Any, Any]", __: ClientDisconnected) -> "Response[Any]":
    return Response(None, status_code=499)  # For the log: nobody is there to read it.


def _error_response(status: int, error: dict[str, Any], headers: dict[str, str]) -> "Response[Any]":
    return Response(json.encode({"error": error}), status_code=status, headers=headers, media_type="application/json")


def _handle_bug(request: "Request[Any, Any, Any]", error: Exception) -> "Response[Any]":
    """A mistake of ours: for the log; the caller learns what to quote."""
    log.error("%s %s failed", request.method, request.url.path[:200], exc_info=error)
    return _error_response(500, {"code": "internal", "message": "Something broke: the log says what."}, {})


EXCEPTION_HANDLERS: dict[int | type[Exception], Any] = {
    PalaverError: handle_palaver_error,
    HTTPException: _handle_http_exception,
    ClientDisconnected: _handle_disconnect,
    Exception: _handle_bug,
}
"""For Litestar's `exception_handlers`."""


async def run_idempotent(
    request: ApiRequest,
    database: Database,
    raw: bytes,
    work: Callable[[Connection], HttpResponse],
    *,
    now: Callable[[], datetime] = utc_now,
) -> Response[Any]:
    """Do what a POST with that body asks for, in one transaction, and answer it; a second time only the latter."""
    wanted = idempotent_request(request, raw, now())
    if wanted is None:
        return litestar_response(await database.write(work))
    kept, again = await database.write(idempotency.run_once, wanted, lambda db: _stored_response(work(db)))
    return _replayed_response(kept, again=again)


async def find_replay(
    request: ApiRequest, database: Database, raw: bytes, *, now: Callable[[], datetime] = utc_now
) -> Response[Any] | None:
    """What the same was answered before: for who has to do much before they come to `once`."""
    wanted = idempotent_request(request, raw, now())
    kept = None if wanted is None else await database.read(idempotency.find_response, wanted)
    return None if kept is None else _replayed_response(kept, again=True)


def _replayed_response(kept: StoredResponse, *, again: bool) -> Response[Any]:
    told = litestar_response(HttpResponse(status=kept.status or 200, headers=tuple(kept.headers), body=kept.body))
    if again:
        name, value = REPLAYED_HEADER
        told.headers[name] = value
    return told


def idempotent_request(request: ApiRequest, raw: bytes, now: datetime) -> IdempotentRequest | None:
    """What is to be done once, if the request says so."""
    key = request.headers.get(HEADER)
    if key is None:
        return None
    validate_key(key)
    query = request.scope["query_string"]
    digest = hashlib.sha256(len(query).to_bytes(8) + query + raw).digest()
    return create_claim(caller_of(request), key, f"{request.method} {request.scope['path']}", digest, now)


def _stored_response(answer: HttpResponse) -> StoredResponse:
    return StoredResponse(status=answer.status, headers=answer.headers, body=answer.body)
