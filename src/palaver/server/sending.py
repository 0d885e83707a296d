"""The spans of our own runs, sent on to an OTLP endpoint: a collector, or another server like this one.

It happens in the background, and delays nobody: what waits is bounded, and where there is no room, spans are dropped
and counted. An endpoint that is away is tried again, and waits as long as it asks for. What anybody sends us is not
sent on: so nothing goes round in circles, even where the endpoint is this very server, which knows those spans already.
"""

import asyncio
import contextvars
import gzip
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from palaver.errors import PalaverError
from palaver.outbound import client, printable, read_limited
from palaver.server.otlp_endpoint import Endpoint

if TYPE_CHECKING:
    import httpx

    from palaver.traces.otlp import Form, Request
    from palaver.traces.record import Span

log = logging.getLogger("palaver.traces")

Sink = Callable[[Sequence["Span"]], None]

ROOM = 16 * 1024 * 1024
"""Bytes of spans that may wait, about."""
_TIMEOUT = 10.0
_ANSWER = 64 * 1024
"""Bytes of an answer that are read."""
_LOT = 100
"""Spans that are made ready at once: as many as a request holds."""
_BARE = 512
"""Bytes that a span takes up whatever is in it."""
_PASSING = frozenset({408, 429, 502, 503, 504})
"""Answers after which the same may be sent again; after all others not, as OTLP says."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How long is waited, in seconds."""

    gather: float = 1.0
    """For more spans, before some are sent."""
    first: float = 1.0
    """Before the second try; before each one after it, twice as long as before the last,"""
    longest: float = 30.0
    """but no longer than that."""
    patience: float = 300.0
    """For an endpoint that does not take a request, whatever it asks for; then it is dropped."""
    end: float = 5.0
    """For what is left when the server stops."""


PACE = Pace()


class _Trouble(NamedTuple):
    """Why a request was not taken, and whether it may be sent again; after how long, if they say."""

    why: str
    passes: bool
    after: float = 0.0


class Sender:
    """Sends spans on. Everything but the work in a thread happens on one loop."""

    def __init__(
        self,
        endpoint: Endpoint | None,
        *,
        redact: Callable[["Span"], "Span"],
        room: int = ROOM,
        pace: Pace = PACE,
    ) -> None:
        self.endpoint = endpoint
        self._redact = redact
        self._room = room
        self._pace = pace
        self._waiting: deque[Span] = deque()
        self._held = 0
        self._enough = asyncio.Event()
        self._working: asyncio.Task[None] | None = None
        self._http: httpx.AsyncClient | None = None
        self._is_ailing = False
        self._is_closing = False
        self.sent = 0
        """Spans that the endpoint has taken."""
        self.dropped = 0
        """Spans that it was not given, or refused."""

    def put(self, spans: Sequence["Span"]) -> None:
        """Send these on, later; or drop what there is no room for."""
        if self.endpoint is None:
            return
        for span in spans:
            size = _size(span)
            if self._is_closing or (self._held and self._held + size > self._room):
                self._drop(1, "spans come faster than it takes them")
                continue
            self._held += size
            self._waiting.append(span)
        if len(self._waiting) >= _LOT:
            self._enough.set()
        if self._waiting and self._working is None:
            # In nobody's context: what instruments HTTP must not take this for a part of somebody's run.
            context = contextvars.Context()
            self._working = asyncio.get_running_loop().create_task(self._work(self.endpoint), context=context)

    async def close(self) -> None:
        """Send what is left, as long as that takes not too long."""
        self._is_closing = True
        self._enough.set()
        if self._working is not None:
            _, late = await asyncio.wait([self._working], timeout=self._pace.end)
            for task in late:
                task.cancel()
                await asyncio.wait([task])
        if self._waiting:
            self._drop(len(self._waiting), "the server has stopped")
            self._waiting.clear()
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    # Work

    async def _work(self, to: Endpoint) -> None:
        try:
            while self._waiting:
                if not self._is_closing and len(self._waiting) < _LOT:
                    self._enough.clear()
                    timer = asyncio.get_running_loop().call_later(self._pace.gather, self._enough.set)
                    await self._enough.wait()
                    timer.cancel()
                await self._send_some(to)
        finally:
            self._working = None

    async def _send_some(self, to: Endpoint) -> None:
        some = [self._waiting.popleft() for _ in range(min(_LOT, len(self._waiting)))]
        size, left = sum(map(_size, some)), len(some)
        try:
            requests = await asyncio.to_thread(_made, some, self._redact, to.form)
            lost = len(some) - sum(request.spans for request in requests)
            if lost:
                self._drop(lost, "they could not be written")
            left -= lost
            for request in requests:
                await self._deliver(request, to)
                left -= request.spans
        except asyncio.CancelledError:
            self._drop(left, "the server has stopped")
            raise
        except Exception:  # A mistake of ours: what comes after these is still good.
            log.exception("Spans could not be sent on")
            self._drop(left, "something broke")
        finally:
            self._held -= size

    async def _deliver(self, request: "Request", to: Endpoint) -> None:
        """Send a request until it is taken, or is not to be."""
        pause, until = self._pace.first, time.monotonic() + self._pace.patience
        while True:
            trouble = await self._sent(request, to)
            if trouble is None:
                return
            if not trouble.passes:
                self._drop(request.spans, trouble.why)
                return
            self._say(trouble.why)
            wait = max(trouble.after, pause * random.uniform(0.5, 1.0))  # noqa: S311 -- no secret
            if time.monotonic() + wait > until:
                self._drop(request.spans, trouble.why)
                return
            await asyncio.sleep(wait)
            pause = min(2 * pause, self._pace.longest)

    async def _sent(self, request: "Request", to: Endpoint) -> _Trouble | None:
        """Send it once."""
        import httpx

        from palaver.traces.otlp import MEDIA_TYPES, refused_spans

        http = self._http = self._http or client(headers=to.headers, timeout=_TIMEOUT)
        headers = {"content-type": MEDIA_TYPES[to.form], "content-encoding": "gzip"}
        body = b""
        try:
            async with http.stream("POST", to.url, content=request.body, headers=headers) as response:
                with suppress(PalaverError):  # What it says is too long, or packed: it has answered all the same.
                    body = await read_limited(response, _ANSWER)
        except httpx.HTTPError as error:
            return _Trouble(f"it cannot be reached ({type(error).__name__})", passes=True)
        status = response.status_code
        if 200 <= status < 300:
            self._taken(request, refused_spans(body, to.form))
            return None
        after = _seconds(response.headers.get("retry-after", ""))
        return _Trouble(f"it answered {status}", passes=status in _PASSING, after=after)

    def _taken(self, request: "Request", refused: int) -> None:
        refused = min(refused, request.spans)
        self.sent += request.spans - refused
        if refused:
            self._drop(refused, "it refused some of them")
        elif self._is_ailing:
            self._is_ailing = False
            log.info("The OTLP endpoint takes spans again.")

    def _drop(self, count: int, why: str) -> None:
        self.dropped += count
        self._say(why)

    def _say(self, why: str) -> None:
        """Once, until it is well again: a log is not for counting."""
        if not self._is_ailing:
            self._is_ailing = True
            log.warning("Spans are not, or not all, sent on to the OTLP endpoint: %s.", printable(why))


def both(keep: Sink, sender: Sender) -> Sink:
    """What keeps spans, and also sends them on, if to anybody."""
    if sender.endpoint is None:
        return keep
    put = sender.put

    def sink(spans: Sequence["Span"]) -> None:
        keep(spans)
        put(spans)

    return sink


def _made(spans: Sequence["Span"], redact: Callable[["Span"], "Span"], form: "Form") -> "list[Request]":
    """In a thread: requests, packed. What cannot be redacted or written is left out."""
    from palaver.traces.otlp import Request, requests

    clean: list[Span] = []
    for span in spans:
        try:
            clean.append(redact(span))
        except Exception:  # A mistake of ours: the others are still good.
            log.exception("A span could not be sent on")
    return [Request(gzip.compress(body, 1), count) for body, count in requests(clean, form)]


def _seconds(retry_after: str) -> float:
    """How long a server asks to be left alone: seconds, or until when."""
    if retry_after.isdecimal():
        return float(retry_after[:9])
    try:
        return (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError):
        return 0.0


def _size(span: "Span") -> int:
    """About how many bytes a span takes up. Asked on the loop, so it looks at lengths only."""
    return _BARE + sum(len(value) for value in span.attributes.values() if isinstance(value, str))
