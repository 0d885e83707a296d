"""What all routes of the REST API have in common: bodies, pages, times, ids, ETags, and who is asking.

A route reads its body with `read_body`, asks the database, and gives `answer(…)` of what is shown. A POST
that makes something goes through `idempotency.once`. How errors look is for problems.py.
"""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import msgspec
from litestar import Request, Response
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, Operation, RequestBody, Schema
from litestar.params import QueryParameter

from palaver.core import json
from palaver.core.ids import sortable_id
from palaver.core.json import decode_struct
from palaver.errors import InvalidValue, StaleBase
from palaver.protocols.base import HttpResponse
from palaver.server import security
from palaver.server.request import Exchange
from palaver.server.settings import Settings
from palaver.storage.pagination import Page, Window

if TYPE_CHECKING:
    from palaver.server.auth import Caller

__all__ = [
    "After",
    "Asked",
    "Filter",
    "Limit",
    "Page",
    "Search",
    "Time",
    "Window",
    "Words",
    "answer",
    "caller_of",
    "etag_of",
    "exchange_of",
    "new_id",
    "parse_timestamp",
    "raw_body",
    "read_as",
    "read_body",
    "response",
    "shown_as",
    "takes",
    "told_time",
    "unless_stale",
    "utc_now",
]

T = TypeVar("T")
Asked = Request[Any, Any, Any]
"""A request, as Litestar has it."""

_SMALL = 64 * 1024
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
Words = Annotated[str, msgspec.Meta(pattern=_NO_NUL, max_length=4_000)]
"""A text that a person wrote. NUL is no letter, and not every database can hold it."""
Time = Annotated[str, msgspec.Meta(description="RFC 3339, UTC, with microseconds.")]


def caller_of(request: Asked) -> "Caller":
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
    """Now."""
    return datetime.now(UTC)


def told_time(moment: datetime) -> str:
    """A time, as it is shown: always with its microseconds, so that texts sort as times do."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def new_id(prefix: str) -> str:
    """A new id, ordered by time: `new_id("var")` is `var_01k…`."""
    return f"{prefix}_{sortable_id(time.time_ns() // 1_000_000, secrets.randbits(80))}"


# Bodies


async def raw_body(request: Asked, settings: Settings) -> bytes:
    """The body, within its limit; it must be declared as JSON."""
    exchange = exchange_of(request)
    security.check_json(exchange)
    return await exchange.body(settings)


def exchange_of(request: Asked) -> Exchange:
    """The request as our own routes have it, to read a body that is no JSON."""
    asgi = cast("Any", request)  # Litestar's names for ASGI's types are its own.
    exchange = Exchange(asgi.scope, asgi.receive, asgi.send)
    exchange.caller, exchange.authenticator = caller_of(request), asgi.scope.get("palaver.callers")
    return exchange


async def read_body(request: Asked, settings: Settings, kind: type[T]) -> tuple[bytes, T]:
    """The body, and what it says. A large one is read in a thread: others are waiting for the loop."""
    raw = await raw_body(request, settings)
    if len(raw) <= _SMALL:
        return raw, read_as(raw, kind, settings)
    return raw, await asyncio.to_thread(read_as, raw, kind, settings)


def read_as(raw: bytes, kind: type[T], settings: Settings) -> T:
    """A body as one of our Structs, or the error that points at what does not fit. Unknown keys are ignored."""
    return decode_struct(json.decode(raw, settings.json_limits), kind)


# Answers and ETags


def etag_of(body: bytes, mark: str = "") -> str:
    """The tag of an object as it is shown; in front the mark of what callers write of it, where that is not all."""
    return f'"{mark}{"-" * bool(mark)}{hashlib.blake2b(body, digest_size=12).hexdigest()}"'


def shown_as(shown: object, *, status: int = 200, location: str | None = None, mark: str = "") -> HttpResponse:
    """One object and its ETag; `location` is where one that was just made can be found."""
    body = json.encode(shown)
    headers = (("content-type", "application/json"), ("etag", etag_of(body, mark)))
    return HttpResponse(status=status, headers=(*headers, ("location", location)) if location else headers, body=body)


def answer(request: Asked, shown: T, *, status: int = 200, location: str | None = None, mark: str = "") -> Response[T]:
    """The answer that shows one object; 304 to whom has it already."""
    whole = shown_as(shown, status=status, location=location, mark=mark)
    tag = dict(whole.headers)["etag"]
    if request.method == "GET" and _names(request.headers.get("if-none-match"), tag):
        return Response(cast("T", None), status_code=304, headers={"etag": tag})
    return cast("Response[T]", response(whole))


def response(whole: HttpResponse) -> Response[Any]:
    """An answer, as Litestar wants it."""
    headers = dict(whole.headers)
    kind = headers.pop("content-type", "application/json")
    return Response(whole.body or None, status_code=whole.status, headers=headers, media_type=kind)


def unless_stale(
    request: Asked, shown: Callable[[T], object], mark: Callable[[T], str] = lambda _: ""
) -> Callable[[T], None]:
    """What checks `If-Match`: a function of the object as it is in the transaction that is to change it.

    Of an object whose tags have marks only the mark counts: what the server itself changed is in nobody's way.
    """
    wanted = request.headers.get("if-match")

    def check(value: T) -> None:
        if wanted is None:
            return
        own = mark(value)
        tag = etag_of(json.encode(shown(value)), own)
        if not (_names(wanted, tag) or (own and f'"{own}-' in wanted)):
            raise StaleBase("It has changed since you read it.", by="etag", details={"etag": tag})

    return check


def _names(header: str | None, tag: str) -> bool:
    if header is None:
        return False
    # A proxy that compresses makes a tag weak; it is the same object.
    return any(one.strip() == "*" or one.strip().removeprefix("W/") == tag for one in header.split(","))


# OpenAPI


@dataclass
class _Given(Schema):
    """A schema that is written already."""

    given: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_schema(self) -> dict[str, Any]:
        return self.given


def takes(
    kind: Any, media_type: str = "application/json", *, streams: Any = None, status: str = "200"
) -> type[Operation]:
    """For a route's `operation_class`: what OpenAPI says of a body that the route reads itself, and of its stream."""

    @dataclass
    class Taking(Operation):
        def __post_init__(self) -> None:
            if kind is not None:
                self.request_body = RequestBody(content={media_type: _media(kind)}, required=True)
            if streams is not None:
                answers = dict(self.responses or {})
                before = answers.get(status)
                told = before if isinstance(before, OpenAPIResponse) else OpenAPIResponse(description="The stream.")
                content = {**(told.content or {}), "text/event-stream": _media(streams)}
                self.responses = {**answers, status: replace(told, content=content)}

    return Taking


def streams(kind: Any) -> type[Operation]:
    """The same for a route that only answers: `data` of each server-sent event is one of these."""
    return takes(None, streams=kind)


def _media(kind: Any) -> OpenAPIMediaType:
    (schema,), definitions = msgspec.json.schema_components([kind])
    return OpenAPIMediaType(schema=_Given(given=_inlined(schema, definitions)))


def _inlined(schema: Any, definitions: dict[str, Any]) -> Any:
    match schema:
        case {"$ref": str(name)}:
            return _inlined(definitions[name.rpartition("/")[2]], definitions)
        case dict():
            # A discriminator's mapping would name definitions that are nowhere now; each branch's `enum` tells.
            entries = cast("dict[str, Any]", schema).items()
            return {key: _inlined(value, definitions) for key, value in entries if key != "discriminator"}
        case list():
            return [_inlined(item, definitions) for item in cast("list[Any]", schema)]
        case _:
            return schema
