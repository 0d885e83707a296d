"""The adapter interface (HttpRequest in, Call out; events in, HttpResponse out) and content negotiation."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from palaver.core import json
from palaver.core.descriptions import Description
from palaver.core.events import Event, RunStarted
from palaver.core.runs import Call
from palaver.errors import PalaverError, RequestError

Headers = tuple[tuple[str, str], ...]
ServerTools = Literal["mcp_call", "function_call", "omit"]
"""How a response shows the calls of tools that the workflow ran itself."""
WorkflowLookup = Callable[[str | None], Description]
"""Return the workflow of that name, or the default one for None. Raises WorkflowNotFound."""
EventEncoder = Callable[[Event], bytes]
"""Encode one event as bytes of the stream. Stateful: one encoder per stream."""

_TRACE_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def valid_traceparent(trace_parent: str | None) -> str | None:
    """Return the header value if it is valid by W3C Trace Context, else None."""
    return trace_parent if trace_parent is not None and _TRACE_PARENT.fullmatch(trace_parent) else None


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request with its media type and size checked, and nothing else."""

    method: str = "POST"
    route: str = ""
    """The route template, such as `v1/responses`, for adapters that serve several."""
    workflow: str | None = None
    """The workflow's name in the path; None at the root."""
    parameters: Mapping[str, str] = {}
    """Other path parameters."""
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    """Names are in lower case."""
    body: bytes = b""
    json_limits: json.JsonLimits = json.DEFAULT_LIMITS
    server_tools: ServerTools = "mcp_call"
    """The server's default; a request can choose another."""
    new_id: str = ""
    """An unused id, for adapters that have to create one; else empty."""

    @property
    def trace_parent(self) -> str | None:
        return valid_traceparent(self.headers.get("traceparent"))


class HttpResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A complete response, or the head of a streamed one."""

    status: int
    headers: Headers = ()
    body: bytes = b""
    keep_alive: bytes = b""
    """Bytes to send between frames while nothing happens; empty if the protocol has none."""


class RejectedRequest(RequestError):
    """A parsed request that is invalid, with the protocol's request that its response needs."""

    def __init__(self, error: RequestError, request: Any) -> None:
        super().__init__(error.message, pointer=error.pointer, details=error.details)
        self.code = error.code
        self.error = error
        self.request = request


def json_response(document: Any, *, status: int = 200, headers: Headers = ()) -> HttpResponse:
    all_headers = (("content-type", "application/json"), *headers)
    return HttpResponse(status=status, headers=all_headers, body=json.encode(document))


def run_headers(started: RunStarted) -> Headers:
    """Return the headers that name the run and, once it has a trace, its trace context."""
    run_header = ("x-palaver-run-id", started.run_id)
    if not started.trace_id:
        return (run_header,)
    parent = ("traceparent", f"00-{started.trace_id}-{started.span_id}-01")
    return (run_header, ("x-palaver-trace-id", started.trace_id), *((parent,) if started.span_id else ()))


class Adapter(Protocol):
    """Translates one wire protocol. Pure: starts nothing, stores nothing, keeps no state between calls.

    Each protocol has its own frozen request type (ResponsesRequest, ChatRequest, …), which holds what is needed to
    encode the response. `status` is the HTTP status from the server's table of errors.
    """

    def decode(self, request: HttpRequest, find: WorkflowLookup) -> tuple[Call, Any]:
        """Return the call and the protocol's request. Raises RequestError if the request is invalid."""
        ...

    def response_head(self, started: RunStarted, request: Any) -> HttpResponse | None:
        """Return the head of a streamed response, or None if the client asked for a complete one."""
        ...

    def stream_encoder(self, request: Any) -> EventEncoder: ...

    def encode_response(self, events: Sequence[Event], request: Any, *, status: int) -> HttpResponse: ...

    def encode_error(self, error: PalaverError, request: Any | None, *, status: int) -> HttpResponse:
        """Encode an error of a request that started no run; `request` is None if it could not be parsed."""
        ...


class BackgroundAdapter(Protocol):
    """Additional functions of protocols that support background runs."""

    def with_queued_at(self, request: Any, queued_at: datetime) -> Any: ...

    def encode_queued(self, started: RunStarted, request: Any) -> HttpResponse: ...

    def queued_stream(self, started: RunStarted, request: Any) -> tuple[bytes, EventEncoder]:
        """Return the frames to send before the run starts, and the encoder of the rest."""
        ...


def text_or_json(value: Any) -> str:
    """Return a string as it is, any other value as compact JSON."""
    return value if isinstance(value, str) else json.encode(value).decode()


_TYPE_NAME = r"[!#$%&'*+.^_`|~0-9a-z-]+"
_RANGE = re.compile(rf"(?P<kind>{_TYPE_NAME})/(?P<subtype>{_TYPE_NAME})")
_WEIGHT = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")
# A quoted value may contain commas and semicolons. One that is not closed extends to the end.
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*["\\]?')


class _Range(NamedTuple):
    kind: str
    subtype: str
    weight: float = 1.0

    def specificity(self, offer: str) -> int:
        """Return how specific the match is: 3 for the exact type, 2 for `type/*`, 1 for `*/*`, 0 for no match."""
        kind, _, subtype = offer.partition("/")
        match self.kind, self.subtype:
            case "*", "*":
                return 1
            case main, "*":
                return 2 if main == kind else 0
            case exact:
                return 3 if exact == (kind, subtype) else 0


@lru_cache(256)  # Clients repeat the same few headers.
def choose_media_type(header: str | None, offers: tuple[str, ...]) -> str | None:
    """Return the offer with the highest weight, the first of equals; None if the client accepts none of them."""
    ranges = _ranges(header or "") or [_Range("*", "*")]
    weights = [_weight(offer, ranges) for offer in offers]
    best = max(weights, default=0.0)
    return offers[weights.index(best)] if best > 0 else None


def _weight(offer: str, ranges: Sequence[_Range]) -> float:
    """Return the weight that the most specific matching range gives to an offer."""
    best = max(ranges, key=lambda media_range: media_range.specificity(offer))
    return best.weight if best.specificity(offer) else 0.0


def _ranges(header: str) -> list[_Range]:
    """Parse the ranges of the header, skipping malformed ones."""
    pieces = _QUOTED.sub("", header.lower()).split(",")
    return [media_range for piece in pieces if (media_range := _range(piece)) is not None]


def _range(piece: str) -> _Range | None:
    media, *parameters = (part.strip() for part in piece.split(";"))
    match = _RANGE.fullmatch(media)
    if match is None or (match["kind"] == "*" and match["subtype"] != "*"):
        return None
    for parameter in parameters:
        name, _, value = (side.strip() for side in parameter.partition("="))
        if name == "q":
            return _Range(match["kind"], match["subtype"], float(value)) if _WEIGHT.fullmatch(value) else None
    return _Range(match["kind"], match["subtype"])
