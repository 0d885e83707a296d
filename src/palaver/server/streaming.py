"""Stream a run to the client that started it."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from palaver.core.events import Event, ReasoningDelta, RunFailed, RunStarted, TextDelta, ToolDelta
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
    from palaver.server.conversations import ResolvedCall


FIRST_FRAME_TIMEOUT_S = 10
"""Seconds of silence after which a stream is opened without a first frame."""
KEEP_ALIVE_INTERVAL_S = 15
"""Seconds of silence after which a stream says that it is alive."""


def _no_frames(_: Event) -> bytes:
    return b""


_LINE_SEPARATORS = ((b"\xc2\x85", rb"\u0085"), (b"\xe2\x80\xa8", rb"\u2028"), (b"\xe2\x80\xa9", rb"\u2029"))


def escape_line_separators(frames: bytes) -> bytes:
    """The frames, with those characters escaped that JSON allows and that some clients take for the end of a line."""
    for raw, escaped in _LINE_SEPARATORS:
        frames = frames.replace(raw, escaped)
    return frames


_keep_alive_tasks: set[asyncio.Task[None]] = set()


class RunStream:
    """One answer on its way."""

    __slots__ = (
        "_adapter",
        "_column",
        "_exchange",
        "_frames",
        "_head",
        "_keep_alive",
        "_leave",
        "_left",
        "_open",
        "_producer",
        "_quiet",
        "_seen",
        "_send",
        "_sent",
        "_wire",
        "cancels",
        "reading",
        "run",
    )

    def __init__(
        self,
        exchange: Exchange,
        adapter: Adapter,
        reading: Any,
        *,
        column: StatusColumn,
        cancels: bool,
        leave: Callable[[Run], None],
    ) -> None:
        self.run: Run  # Set by _opened(), before anything can happen.
        self._exchange = exchange
        self._adapter = adapter
        self.reading = reading
        self._column: StatusColumn = column
        self.cancels = cancels  # Does the run end when the client leaves, where the author says nothing?
        self._leave = leave  # Who is told of a run that goes on without its client.
        self._frames: EventEncoder = _no_frames  # Until it is known that this is a stream.
        self._head: HttpResponse | None = None
        self._keep_alive = b""
        self._wire = exchange.wire
        self._send = exchange.send if self._wire is not None else self._careful
        self._open = False
        self._left = False  # The client is gone, or so slow that we left it.
        self._sent = self._seen = self._quiet = 0  # For the pulse: how long has nothing been sent?

    @property
    def caller(self) -> "Caller":
        """Who asked."""
        return self._exchange.caller

    def open(self, engine: Engine, workflow: Workflow, asked: "ResolvedCall") -> None:
        """Open the run: it is known and has a name, and begins when it is told."""
        run, self._producer = engine.open(
            workflow, asked.call, attend=self.attend, origin=asked.origin, run_id=asked.run_id
        )
        self.run = run

    async def tell(self, pulse: "StreamMonitor") -> None:
        """Let the run begin and answer it to its end, or until the client leaves; then the run ends too, or goes on."""
        run, producer = self.run, self._producer
        del self._producer
        self._exchange.run_id = run.id
        self._head = self._adapter.response_head(run.started, self.reading)
        if self._wire is not None:
            self._wire.watch(self._gone)
        if self._head is not None:
            self._frames = self._adapter.stream_encoder(self.reading)
            pulse.add(self)
        elif self._wire is not None:
            await run.drive(producer)  # Here and now: a task of its own would cost as much as a short answer.
            self._wire.unwatch(self._gone)
            return
        run.start(producer)  # In a task of its own: every event passes through all that stands above it.
        del producer
        if self._wire is None:
            await self._exchange.receive()  # Returns when the client has left, or when the answer is complete.
            self._gone()
        await run.wait_ended()
        pulse.streams.discard(self)
        if self._wire is not None:
            self._wire.unwatch(self._gone)

    def _gone(self) -> None:
        """The client has left."""
        self._left, self._open = True, False
        run = self.run
        cancels = self.cancels if run.on_disconnect is None else run.on_disconnect == "cancel"
        if run.finished:
            return
        run.note_disconnect()
        if cancels:
            run.cancel()
        else:
            self._leave(run)

    def attend(self, events: Sequence[Event]) -> Awaitable[None] | None:
        """Send what happened. The hot path: once the stream is open, it goes to the socket and nothing is awaited."""
        if not self._open:
            return self._begin(events)
        frames = self._frames
        body = frames(events[0]) if len(events) == 1 else b"".join(map(frames, events))
        if not body.isascii():
            body = escape_line_separators(body)
        self._sent += 1  # As in _put, in line.
        finished = self.run.finished
        if not body and not finished:
            return None
        if not finished and self._wire is not None and self._wire.piece(body):
            return None
        return self._send({"type": "http.response.body", "body": body, "more_body": not finished})

    def _put(self, body: bytes) -> Awaitable[None]:
        self._sent += 1
        return self._send({"type": "http.response.body", "body": body, "more_body": not self.run.finished})

    def _begin(self, events: Sequence[Event]) -> Awaitable[None] | None:
        if self._left:
            return None
        run = self.run
        if self._head is None:
            return self._whole(run) if run.finished else None
        body = b"".join(map(self._frames, events))
        if run.finished and isinstance(events[-1], RunFailed):
            return self._whole(run)
        return self._start_with(self._head, body) if body else None

    async def _start_with(self, head: HttpResponse, body: bytes) -> None:
        await self._start(head)
        await self._put(escape_line_separators(body))

    async def _start(self, head: HttpResponse) -> None:
        self._open = True
        self._keep_alive = head.keep_alive
        self._head = self.reading = None  # A stream may be open for hours, and there may be thousands.
        self._sent += 1
        await self._exchange.open(head.status, head.headers)

    def _whole(self, run: Run) -> Awaitable[None] | None:
        self._sent += 1
        status = final_status(run.log[-1], self._column)
        return self._exchange.answer_now(self._adapter.encode_response(run.log, self.reading, status=status))

    async def _careful(self, message: MutableMapping[str, Any]) -> None:
        """Send under a foreign server: some raise when the client is gone, and then the run's own rules apply."""
        try:
            await self._exchange.send(message)
        except (OSError, RuntimeError):
            self._left, self._open = True, False

    # Once a second, by the pulse

    def tick(self, stall: float) -> None:
        """Open a silent stream, keep a quiet one alive, leave a reader that takes nothing."""
        if self._sent != self._seen:
            self._seen, self._quiet = self._sent, 0
            return
        self._quiet += 1
        if self._wire is not None and self._wire.unread:
            if self._quiet >= stall:
                self._wire.abort()  # It takes nothing: the connection ends, and the run by its own rules.
        elif self._quiet >= (KEEP_ALIVE_INTERVAL_S if self._open else FIRST_FRAME_TIMEOUT_S):
            task = asyncio.create_task(self.break_silence())
            _keep_alive_tasks.add(task)  # The loop itself holds tasks weakly.
            task.add_done_callback(_keep_alive_tasks.discard)

    async def break_silence(self) -> None:
        """Open the stream, or say that it is alive, unless the run has spoken or ended since the pulse decided to."""
        try:
            if self._open and self._keep_alive and not self.run.finished:
                await self._put(self._keep_alive)
            elif self._head is not None and not self._left and not self.run.finished:
                await self._start(self._head)
        except (OSError, RuntimeError):
            pass  # The answer was completed while this waited for the socket: there is no silence to break.


class StreamMonitor:
    """Beats while there are streams."""

    def __init__(self, *, stall: float, callers: Authenticator | None = None, interval: float = 1.0) -> None:
        self._callers = callers
        self.streams: set[RunStream] = set()
        self._stall = stall
        self._interval = interval
        self._task: asyncio.Task[None] | None = None

    def add(self, stream: RunStream) -> None:
        """Look after this one too."""
        self.streams.add(stream)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._beat())

    async def _beat(self) -> None:
        beats = 0
        while self.streams:
            await asyncio.sleep(self._interval)
            for stream in list(self.streams):
                if stream.run.is_over:  # Its code may go on for ever; the answer does not.
                    self.streams.discard(stream)
                else:
                    stream.tick(self._stall / self._interval)
            beats += 1
            if self._callers is not None and beats % 2 == 0:
                await self._turn_away(self._callers)

    async def _turn_away(self, callers: Authenticator) -> None:
        """End the streams of those whose credential is no longer good."""
        gone = await callers.gone({stream.caller for stream in self.streams if stream.caller.key is not None})
        for stream in list(self.streams) if gone else ():
            if stream.caller in gone:
                stream.run.cancel(CREDENTIAL_ENDED)


_PADDING_STEP_BYTES = 64
"""Every padded piece has a multiple of so many bytes."""
_PADDING_FIELD, _PADDING_END = b',"obfuscation":"', b'"}\n\n'
_PADDING_OVERHEAD_BYTES = len(_PADDING_FIELD) + 1  # Its closing quote; the bracket and the line ends are there already.


def padded_adapters() -> dict[str, Adapter]:
    """The protocols that can be padded, by name, padded."""
    return {"chat_completions": _padded_adapter(chat_completions), "responses": _padded_adapter(responses)}


def _padded_adapter(protocol: ModuleType) -> Adapter:
    """The protocol with other encoders of its streams, and otherwise as it is."""
    own = SimpleNamespace(**vars(protocol))

    def stream_encoder(reading: Any) -> EventEncoder:
        return pad_deltas(protocol.stream_encoder(reading))

    def queued_stream(started: RunStarted, reading: Any) -> tuple[bytes, EventEncoder]:
        opening, rest = protocol.queued_stream(started, reading)
        return opening, pad_deltas(rest)

    own.stream_encoder, own.queued_stream = stream_encoder, queued_stream
    return cast("Adapter", own)


def pad_deltas(frames: EventEncoder) -> EventEncoder:
    """The same frames, those of deltas filled up."""

    def tell(event: Event) -> bytes:
        body = frames(event)
        if isinstance(event, TextDelta | ReasoningDelta | ToolDelta) and body.endswith(b"}\n\n"):
            missing = -(len(body) + _PADDING_OVERHEAD_BYTES) % _PADDING_STEP_BYTES
            return b"".join((body[:-3], _PADDING_FIELD, b"0" * missing, _PADDING_END))
        return body

    return tell
