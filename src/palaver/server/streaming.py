"""Send a run in the protocol of a request, to the client that started it.

`RunStream` is fed inside the run's own task: while the client reads slowly, sending waits, and so does the workflow.
The status line waits for the first frame, so that a run that fails before it gets an error status.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from palaver.core.events import Event, RunFailed
from palaver.engine.engine import Engine
from palaver.engine.run import Run
from palaver.protocols.base import Adapter, EventEncoder, HttpResponse
from palaver.server import keep_alive
from palaver.server.auth import CREDENTIAL_ENDED, Authenticator
from palaver.server.error_responses import StatusColumn, final_status
from palaver.server.request import Exchange
from palaver.workflows.workflow import Workflow

if TYPE_CHECKING:
    from palaver.server.auth import Caller
    from palaver.server.conversation_history import ResolvedCall


FIRST_FRAME_TIMEOUT_S = 10
"""After this long without a frame, send the status line anyway."""


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
        "_on_detached",
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
        on_detached: Callable[[Run], None],
    ) -> None:
        self.run: Run  # Set by open().
        self._exchange = exchange
        self._adapter = adapter
        self.protocol_request = protocol_request
        self._column: StatusColumn = column
        # Whether to cancel the run on disconnect, unless the workflow says otherwise.
        self.cancels_on_disconnect = cancels_on_disconnect
        self._on_detached = on_detached  # Called with a run that continues without its client.
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
        run.start(producer)  # In its own task: in this one, every event would pass through the whole stack of awaits.
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
            self._on_detached(run)

    def send_events(self, events: Sequence[Event]) -> Awaitable[None] | None:
        """Send events. The hot path: once the stream is open, bytes go to the socket without an await."""
        if not self._is_open:
            return self._send_first(events)
        encode = self._encode
        body = encode(events[0]) if len(events) == 1 else b"".join(map(encode, events))
        if not body.isascii():
            body = escape_line_separators(body)
        self._send_count += 1  # _send_body(), inlined.
        is_finished = self.run.is_finished
        if not body and not is_finished:
            return None
        if not is_finished and self._writer is not None and self._writer.write_chunk(body):
            return None
        return self._send({"type": "http.response.body", "body": body, "more_body": not is_finished})

    def _send_body(self, body: bytes) -> Awaitable[None]:
        self._send_count += 1
        return self._send({"type": "http.response.body", "body": body, "more_body": not self.run.is_finished})

    def _send_first(self, events: Sequence[Event]) -> Awaitable[None] | None:
        if self._is_disconnected:
            return None
        run = self.run
        if self._head is None:
            return self._respond_complete(run) if run.is_finished else None
        body = b"".join(map(self._encode, events))
        if run.is_finished and isinstance(events[-1], RunFailed):
            return self._respond_complete(run)
        return self._start_and_send(self._head, body) if body else None

    async def _start_and_send(self, head: HttpResponse, body: bytes) -> None:
        await self._start(head)
        await self._send_body(escape_line_separators(body))

    async def _start(self, head: HttpResponse) -> None:
        self._is_open = True
        self._keep_alive = head.keep_alive
        self._head = self.protocol_request = None  # Free memory: thousands of streams may be open for hours.
        self._send_count += 1
        await self._exchange.start_response(head.status, head.headers)

    def _respond_complete(self, run: Run) -> Awaitable[None] | None:
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
        """Open a silent stream, send a keep-alive, or abort a connection that reads nothing. Called once a second."""
        if self._send_count != self._sends_at_tick:
            self._sends_at_tick, self._idle_ticks = self._send_count, 0
            return
        self._idle_ticks += 1
        if self._writer is not None and self._writer.unread_bytes:
            if self._idle_ticks >= stall:
                self._writer.abort()  # Counts as a disconnect.
        elif self._idle_ticks >= (keep_alive.KEEP_ALIVE_INTERVAL_S if self._is_open else FIRST_FRAME_TIMEOUT_S):
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
        ticks = 0
        while self.streams:
            await asyncio.sleep(self._interval)
            for stream in list(self.streams):
                if stream.run.is_over:  # The code of the workflow may still run.
                    self.streams.discard(stream)
                else:
                    stream.tick(self._stall / self._interval)
            ticks += 1
            if self._authenticator is not None and ticks % 2 == 0:
                await self._reject_revoked(self._authenticator)

    async def _reject_revoked(self, authenticator: Authenticator) -> None:
        """Cancel streams of callers whose credential was revoked or has expired."""
        revoked = await authenticator.find_revoked(
            {stream.caller for stream in self.streams if stream.caller.key is not None}
        )
        for stream in list(self.streams) if revoked else ():
            if stream.caller in revoked:
                stream.run.cancel(CREDENTIAL_ENDED)
