"""Send a run in the protocol of a request: to the client that started it, or replayed to any other reader.

`RunStream` is fed inside the run's own task: while the client reads slowly, sending waits, and so does the workflow.
The status line waits for the first frame, so that a run that fails before it gets an error status. `replay_events`
sends the run's log and then follows it: a slow reader does not slow the run.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, MutableMapping, Sequence
from contextlib import aclosing, nullcontext
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from palaver.core.events import Event, ReasoningDelta, RunFailed, RunStarted, TextDelta, ToolDelta
from palaver.core.runs import OpenItems, rejection_events
from palaver.engine.engine import Engine
from palaver.engine.run import Run
from palaver.protocols.base import Adapter, EventEncoder, HttpResponse
from palaver.protocols.chat_completions import adapter as chat_completions
from palaver.protocols.responses import adapter as responses
from palaver.server.auth import CREDENTIAL_ENDED, Authenticator
from palaver.server.error_responses import StatusColumn, final_status
from palaver.server.request import Exchange
from palaver.workflows.workflow import Workflow

if TYPE_CHECKING:
    from palaver.server.auth import Caller
    from palaver.server.conversation_resolver import ResolvedCall


FIRST_FRAME_TIMEOUT_S = 10
"""After this long without a frame, send the status line anyway."""
KEEP_ALIVE_INTERVAL_S = 15
"""After this long without a frame, send a keep-alive."""


def _no_frames(_: Event) -> bytes:
    return b""


_LINE_SEPARATORS = ((b"\xc2\x85", rb"\u0085"), (b"\xe2\x80\xa8", rb"\u2028"), (b"\xe2\x80\xa9", rb"\u2029"))


def escape_line_separators(frames: bytes) -> bytes:
    """Escape characters that JSON allows in strings and some clients treat as line ends."""
    for raw, escaped in _LINE_SEPARATORS:
        frames = frames.replace(raw, escaped)
    return frames


_keep_alive_tasks: set[asyncio.Task[None]] = set()


class RunStream:
    """The response of a run."""

    __slots__ = (
        "_adapter",
        "_column",
        "_encode",
        "_exchange",
        "_head",
        "_idle_ticks",
        "_is_disconnected",
        "_is_open",
        "_keep_alive",
        "_on_abandoned",
        "_producer",
        "_send",
        "_send_count",
        "_sends_at_tick",
        "_writer",
        "cancels_on_disconnect",
        "protocol_request",
        "run",
    )

    def __init__(
        self,
        exchange: Exchange,
        adapter: Adapter,
        protocol_request: Any,
        *,
        column: StatusColumn,
        cancels_on_disconnect: bool,
        on_abandoned: Callable[[Run], None],
    ) -> None:
        self.run: Run  # Set by open().
        self._exchange = exchange
        self._adapter = adapter
        self.protocol_request = protocol_request
        self._column: StatusColumn = column
        self.cancels_on_disconnect = (
            cancels_on_disconnect  # Cancel the run on disconnect, unless the workflow says otherwise.
        )
        self._on_abandoned = on_abandoned  # Called with a run that continues without its client.
        self._encode: EventEncoder = _no_frames  # Until serve() knows that this is a stream.
        self._head: HttpResponse | None = None
        self._keep_alive = b""
        self._writer = exchange.writer
        self._send = exchange.send if self._writer is not None else self._send_safely
        self._is_open = False
        self._is_disconnected = False  # The client disconnected, or was too slow.
        self._send_count = self._sends_at_tick = self._idle_ticks = 0  # Counters for tick().

    @property
    def caller(self) -> "Caller":
        return self._exchange.caller

    def open(self, engine: Engine, workflow: Workflow, resolved: "ResolvedCall") -> None:
        """Register the run with the engine; serve() starts it."""
        run, self._producer = engine.open(
            workflow, resolved.call, consumer=self.send_events, origin=resolved.origin, run_id=resolved.run_id
        )
        self.run = run

    async def serve(self, monitor: "StreamMonitor") -> None:
        """Start the run and send it to its end, or until the client disconnects."""
        run, producer = self.run, self._producer
        del self._producer
        self._exchange.run_id = run.id
        self._head = self._adapter.response_head(run.started, self.protocol_request)
        if self._writer is not None:
            self._writer.watch(self._on_disconnect)
        if self._head is not None:
            self._encode = self._adapter.stream_encoder(self.protocol_request)
            monitor.add(self)
        elif self._writer is not None:
            await run.drive(producer)  # In this task: another would cost as much as a short response.
            self._writer.unwatch(self._on_disconnect)
            return
        run.start(producer)  # In its own task: every event passes through the whole stack of awaits.
        del producer
        if self._writer is None:
            await self._exchange.receive()  # Returns on disconnect, or when the response is complete.
            self._on_disconnect()
        await run.wait_ended()
        monitor.streams.discard(self)
        if self._writer is not None:
            self._writer.unwatch(self._on_disconnect)

    def _on_disconnect(self) -> None:
        self._is_disconnected, self._is_open = True, False
        run = self.run
        cancels = self.cancels_on_disconnect if run.on_disconnect is None else run.on_disconnect == "cancel"
        if run.is_finished:
            return
        run.note_disconnect()
        if cancels:
            run.cancel()
        else:
            self._on_abandoned(run)

    def send_events(self, events: Sequence[Event]) -> Awaitable[None] | None:
        """Send events. The hot path: once the stream is open, bytes go to the socket without an await."""
        if not self._is_open:
            return self._open_with(events)
        encode = self._encode
        body = encode(events[0]) if len(events) == 1 else b"".join(map(encode, events))
        if not body.isascii():
            body = escape_line_separators(body)
        self._send_count += 1  # As _send_body(), inlined.
        finished = self.run.is_finished
        if not body and not finished:
            return None
        if not finished and self._writer is not None and self._writer.write_chunk(body):
            return None
        return self._send({"type": "http.response.body", "body": body, "more_body": not finished})

    def _send_body(self, body: bytes) -> Awaitable[None]:
        self._send_count += 1
        return self._send({"type": "http.response.body", "body": body, "more_body": not self.run.is_finished})

    def _open_with(self, events: Sequence[Event]) -> Awaitable[None] | None:
        if self._is_disconnected:
            return None
        run = self.run
        if self._head is None:
            return self._respond_whole(run) if run.is_finished else None
        body = b"".join(map(self._encode, events))
        if run.is_finished and isinstance(events[-1], RunFailed):
            return self._respond_whole(run)
        return self._start_with(self._head, body) if body else None

    async def _start_with(self, head: HttpResponse, body: bytes) -> None:
        await self._start(head)
        await self._send_body(escape_line_separators(body))

    async def _start(self, head: HttpResponse) -> None:
        self._is_open = True
        self._keep_alive = head.keep_alive
        self._head = self.protocol_request = None  # Free memory: thousands of streams may be open for hours.
        self._send_count += 1
        await self._exchange.start_response(head.status, head.headers)

    def _respond_whole(self, run: Run) -> Awaitable[None] | None:
        self._send_count += 1
        status = final_status(run.log[-1], self._column)
        return self._exchange.respond_now(self._adapter.encode_response(run.log, self.protocol_request, status=status))

    async def _send_safely(self, message: MutableMapping[str, Any]) -> None:
        """Send under another ASGI server; some raise after a disconnect."""
        try:
            await self._exchange.send(message)
        except (OSError, RuntimeError):
            self._is_disconnected, self._is_open = True, False

    # Called by StreamMonitor

    def tick(self, stall: float) -> None:
        """Once a second: open a silent stream, send a keep-alive, abort a connection that reads nothing."""
        if self._send_count != self._sends_at_tick:
            self._sends_at_tick, self._idle_ticks = self._send_count, 0
            return
        self._idle_ticks += 1
        if self._writer is not None and self._writer.unread_bytes:
            if self._idle_ticks >= stall:
                self._writer.abort()  # Counts as a disconnect.
        elif self._idle_ticks >= (KEEP_ALIVE_INTERVAL_S if self._is_open else FIRST_FRAME_TIMEOUT_S):
            task = asyncio.create_task(self.send_keep_alive())
            _keep_alive_tasks.add(task)  # The loop holds tasks weakly.
            task.add_done_callback(_keep_alive_tasks.discard)

    async def send_keep_alive(self) -> None:
        """Send the status line or a keep-alive, unless the run has sent something or ended since tick()."""
        try:
            if self._is_open and self._keep_alive and not self.run.is_finished:
                await self._send_body(self._keep_alive)
            elif self._head is not None and not self._is_disconnected and not self.run.is_finished:
                await self._start(self._head)
        except (OSError, RuntimeError):
            pass  # The response was completed meanwhile.


class StreamMonitor:
    """Calls tick() of all open streams once a second, so that no stream needs its own timer."""

    def __init__(self, *, stall: float, authenticator: Authenticator | None = None, interval: float = 1.0) -> None:
        self._authenticator = authenticator
        self.streams: set[RunStream] = set()
        self._stall = stall
        self._interval = interval
        self._task: asyncio.Task[None] | None = None

    def add(self, stream: RunStream) -> None:
        self.streams.add(stream)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._tick_loop())

    async def _tick_loop(self) -> None:
        beats = 0
        while self.streams:
            await asyncio.sleep(self._interval)
            for stream in list(self.streams):
                if stream.run.is_over:  # Its code may still run.
                    self.streams.discard(stream)
                else:
                    stream.tick(self._stall / self._interval)
            beats += 1
            if self._authenticator is not None and beats % 2 == 0:
                await self._reject_revoked(self._authenticator)

    async def _reject_revoked(self, authenticator: Authenticator) -> None:
        """Cancel streams of callers whose credential was revoked or has expired."""
        revoked = await authenticator.find_revoked(
            {stream.caller for stream in self.streams if stream.caller.key is not None}
        )
        for stream in list(self.streams) if revoked else ():
            if stream.caller in revoked:
                stream.run.cancel(CREDENTIAL_ENDED)


_PADDING_STEP_BYTES = 64
"""Padded frames are a multiple of this."""
_PADDING_FIELD, _PADDING_END = b',"obfuscation":"', b'"}\n\n'
_PADDING_OVERHEAD_BYTES = len(_PADDING_FIELD) + 1  # With the closing quote.


def padded_adapters() -> dict[str, Adapter]:
    """Adapters that pad their deltas, by protocol: OpenAI's two have a field for it, `obfuscation`.

    An observer of encrypted packets then learns no words from their sizes.
    """
    return {"chat_completions": _padded_adapter(chat_completions), "responses": _padded_adapter(responses)}


def _padded_adapter(protocol: ModuleType) -> Adapter:
    padded = SimpleNamespace(**vars(protocol))

    def stream_encoder(request: Any) -> EventEncoder:
        return pad_deltas(protocol.stream_encoder(request))

    def queued_stream(started: RunStarted, request: Any) -> tuple[bytes, EventEncoder]:
        opening, encode = protocol.queued_stream(started, request)
        return opening, pad_deltas(encode)

    padded.stream_encoder, padded.queued_stream = stream_encoder, queued_stream
    return cast("Adapter", padded)


def pad_deltas(encoder: EventEncoder) -> EventEncoder:
    """Pad the frames of deltas; the same event always gives the same bytes."""

    def encode(event: Event) -> bytes:
        body = encoder(event)
        if isinstance(event, TextDelta | ReasoningDelta | ToolDelta) and body.endswith(b"}\n\n"):
            missing = -(len(body) + _PADDING_OVERHEAD_BYTES) % _PADDING_STEP_BYTES
            return b"".join((body[:-3], _PADDING_FIELD, b"0" * missing, _PADDING_END))
        return body

    return encode


_MAX_CHUNK_BYTES = 256 * 1024
_CREDENTIAL_GRACE_S = 2.0
"""How long a client whose credential ended may take to read the last frames."""


async def replay_events(
    exchange: Exchange,
    head: HttpResponse,
    encode: EventEncoder,
    batches: AsyncGenerator[Sequence[Event]],
    *,
    stall: float,
    opening: bytes = b"",
) -> None:
    """Send the frames of `batches` until the last, a disconnect, or `stall` seconds without progress.

    If the caller's credential becomes invalid, the stream ends with an error; the run continues.
    """
    loop = asyncio.get_running_loop()
    credential_ended: asyncio.Future[None] = loop.create_future()
    sender = loop.create_task(_send_events(exchange, head, opening, encode, batches, stall, credential_ended))
    disconnect = loop.create_task(_wait_disconnect(exchange))

    def end_credential() -> None:
        if not credential_ended.done():
            credential_ended.set_result(None)
        loop.call_later(_CREDENTIAL_GRACE_S, sender.cancel)

    watched = exchange.authenticator.watch(exchange.caller, end_credential) if exchange.authenticator else nullcontext()
    try:
        with watched:
            await asyncio.wait([sender, disconnect], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sender, disconnect):
            task.cancel()
        done, _ = await asyncio.wait([sender, disconnect])
    if sender in done and not sender.cancelled():
        sender.result()  # Raise its error.


async def _wait_disconnect(exchange: Exchange) -> None:
    """Wait for a disconnect; the end of an unread body comes first."""
    while (await exchange.receive())["type"] != "http.disconnect":
        pass


async def _send_events(
    exchange: Exchange,
    head: HttpResponse,
    opening: bytes,
    encode: EventEncoder,
    batches: AsyncGenerator[Sequence[Event]],
    stall: float,
    credential_ended: "asyncio.Future[None]",
) -> None:
    await exchange.start_response(head.status, head.headers)
    await exchange.send_chunk(opening, stall)
    open_items = OpenItems()
    async with aclosing(batches) as following:
        while batch := await _next_batch(following, exchange, head.keep_alive, stall, credential_ended):
            for body in _chunks(batch, encode, open_items):
                await exchange.send_chunk(body, stall)
                if credential_ended.done():
                    break
    last = b""
    if credential_ended.done() and not open_items.is_ended:
        last = escape_line_separators(b"".join(map(encode, rejection_events(open_items, CREDENTIAL_ENDED))))
    await exchange.send_chunk(last, stall, more=False)


async def _next_batch(
    batches: AsyncGenerator[Sequence[Event]],
    exchange: Exchange,
    keep_alive: bytes,
    stall: float,
    credential_ended: "asyncio.Future[None]",
) -> Sequence[Event]:
    """The next batch, empty at the end; send keep-alives while waiting for it."""
    read = asyncio.get_running_loop().create_task(_read_batch(batches))
    try:
        while not credential_ended.done():
            done, _ = await asyncio.wait(
                [read, credential_ended], timeout=KEEP_ALIVE_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED
            )
            if read.done():
                return read.result()
            if not done:
                await exchange.send_chunk(keep_alive, stall)
        return ()
    finally:
        read.cancel()
        await asyncio.wait([read])  # A running generator cannot be closed.


async def _read_batch(batches: AsyncGenerator[Sequence[Event]]) -> Sequence[Event]:
    return await anext(batches, None) or ()  # CPython 3.11 fails with an empty tuple as the default.


def _chunks(batch: Sequence[Event], encode: EventEncoder, open_items: OpenItems) -> Iterator[bytes]:
    """The frames of a batch, encoded lazily, so that `unended` has seen exactly the events that were sent."""
    chunk: list[bytes] = []
    size = 0
    for event in batch:
        open_items.feed(event)
        chunk.append(encode(event))
        size += len(chunk[-1])
        if size > _MAX_CHUNK_BYTES:
            yield escape_line_separators(b"".join(chunk))
            chunk, size = [], 0
    yield escape_line_separators(b"".join(chunk))
