"""What a protocol is: five functions between the wire and the waist, and two more where we call such services too."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from palaver.core import json
from palaver.core.descriptions import Description
from palaver.core.events import Event, RunStarted
from palaver.core.runs import Call
from palaver.errors import PalaverError

Headers = tuple[tuple[str, str], ...]
WorkflowLookup = Callable[[str | None], Description]
"""What is served under a name, or by default; raises WorkflowNotFound."""
EventEncoder = Callable[[Event], bytes]
"""One event in, its frames out; remembers what it must of the stream so far."""

_TRACE_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def valid_traceparent(trace_parent: str | None) -> str | None:
    """A header `traceparent`, if W3C would accept it."""
    return trace_parent if trace_parent is not None and _TRACE_PARENT.fullmatch(trace_parent) else None


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it arrived. Its media type and size have been checked, nothing else."""

    method: str = "POST"
    route: str = ""
    """Its place in our table of routes (`v1/responses`), for adapters that answer at several."""
    workflow: str | None = None
    """The name in the path; None at the root."""
    parameters: Mapping[str, str] = {}
    """What else the path names."""
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    """Names in lower case."""
    body: bytes = b""
    bounds: json.JsonLimits = json.DEFAULT_LIMITS
    fresh: str = ""
    """A name that nobody has yet, for adapters that must name something; empty for the others."""

    @property
    def trace_parent(self) -> str | None:
        """The caller's trace, if it names one that W3C would accept."""
        return valid_traceparent(self.headers.get("traceparent"))


class HttpResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A whole response, or the head of a streamed one."""

    status: int
    headers: Headers = ()
    body: bytes = b""
    keep_alive: bytes = b""
    """What may be sent between frames when nothing happens; empty where the protocol has no such thing."""


def run_headers(started: RunStarted) -> Headers:
    """The headers that name a run and, once it has begun, its place in its trace, for whoever goes on from there."""
    named = ("x-palaver-run-id", started.run_id)
    if not started.trace_id:
        return (named,)
    parent = ("traceparent", f"00-{started.trace_id}-{started.span_id}-01")
    return (named, ("x-palaver-trace-id", started.trace_id), *((parent,) if started.span_id else ()))


class Adapter(Protocol):
    """Translates one wire protocol. Starts nothing, stores nothing, keeps nothing between calls.

    A Reading is the protocol's own frozen note of how to answer. `status` is what the server's one table says of an
    error, or of how a run ended: protocols do not know it.
    """

    def decode(self, request: HttpRequest, find: WorkflowLookup) -> tuple[Call, Any]:
        """The call, and how to answer it; a RequestError where the request cannot be taken."""
        ...

    def response_head(self, started: RunStarted, reading: Any) -> HttpResponse | None:
        """The head of a streamed answer; None where this call wants a whole one."""
        ...

    def stream_encoder(self, reading: Any) -> EventEncoder:
        """The encoder of one stream."""
        ...

    def encode_response(self, events: Sequence[Event], reading: Any, *, status: int) -> HttpResponse:
        """The answer that is not streamed: the fold of the same events."""
        ...

    def encode_error(self, error: PalaverError, reading: Any | None, *, status: int) -> HttpResponse:
        """The answer when no run was started; without a reading, when the request could not even be read."""
        ...


class BackgroundAdapter(Protocol):
    """What a protocol has besides in which calls may ask for the background."""

    def with_queued_at(self, reading: Any, at: datetime) -> Any:
        """How to answer a call that was kept at that time, to begin later."""
        ...

    def encode_queued(self, started: RunStarted, reading: Any) -> HttpResponse:
        """The whole answer, before the run begins."""
        ...

    def queued_stream(self, started: RunStarted, reading: Any) -> tuple[bytes, EventEncoder]:
        """What a stream says before the run begins, and the encoder of the rest."""
        ...


def text_or_json(value: Any) -> str:
    """A text as it is, any other value as compact JSON."""
    return value if isinstance(value, str) else json.encode(value).decode()
