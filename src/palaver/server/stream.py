"""A run, answered to whoever started it: streamed or whole, in whatever protocol it was asked.

The stream attends to the run inside the run's own task: when the client reads slowly, sending waits, and so does the
workflow. The status line waits for the first frame, so that a run which fails before it is answered with a real status.
"""

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any

from palaver.core.calls import Call
from palaver.core.events import Event, RunFailed
from palaver.engine.engine import Engine
from palaver.engine.run import Run
from palaver.protocols.base import Adapter, Answer
from palaver.server.exchange import Exchange
from palaver.server.status import Column, status_of_end
from palaver.workflows.workflow import Workflow

PATIENCE = 10
"""Seconds of silence after which a stream is opened without a first frame."""
QUIET = 15
"""Seconds of silence after which a stream says that it is alive."""


_sending: set[asyncio.Task[None]] = set()
TRANSPORT = "palaver.transport"
"""Where our own connections put their transport in the scope."""


class Stream:
    """One answer on its way."""

    __slots__ = (
        "_adapter",
        "_column",
        "_exchange",
        "_frames",
        "_head",
        "_left",
        "_open",
        "_quiet",
        "_reading",
        "_seen",
        "_send",
        "_sending",
        "_sent",
        "run",
    )

    def __init__(self, exchange: Exchange, adapter: Adapter, reading: Any, column: Column) -> None:
        self.run: Run | None = None
        self._exchange = exchange
        self._adapter = adapter
        self._reading = reading
        self._column: Column = column
        self._frames = adapter.frames(reading)
        self._head: Answer | None = None
        self._send = exchange.send
        self._open = False
        self._left = False  # The client is gone, or so slow that we left it.
        self._sending = False
        self._sent = self._seen = self._quiet = 0  # For the pulse: how long has nothing been sent?

    async def answer(self, engine: Engine, workflow: Workflow, call: Call, *, cancels: bool) -> None:
        """Start the run and answer it to its end, or until the client leaves (`cancels`: then the run ends too)."""
        run = self.run = engine.start(workflow, call, attend=self.attend)
        self._exchange.run_id = run.id
        self._head = self._adapter.head(run.started, self._reading)
        await self._exchange.receive()  # Returns when the client has left, or when the answer is complete.
        self._left = True
        if not run.finished and (run.on_disconnect == "cancel" or (run.on_disconnect is None and cancels)):
            run.cancel()
        await run.ended()

    async def attend(self, events: Sequence[Event]) -> None:
        """Send what happened. Never raises: when sending fails, the client is gone and the run's own rules apply."""
        run = self.run
        if self._left or run is None:
            return
        if self._open:
            frames = self._frames
            body = frames(events[0]) if len(events) == 1 else b"".join(map(frames, events))
            self._sending = True  # As in _guarded, in line: this is the hot path.
            try:
                await self._send({"type": "http.response.body", "body": body, "more_body": not run.finished})
            except (OSError, RuntimeError):
                self._left = True
            finally:
                self._sending = False
                self._sent += 1
        else:
            await self._begin(events)

    async def _begin(self, events: Sequence[Event]) -> None:
        run = self.run
        assert run is not None
        if self._head is None:
            if run.finished:
                await self._whole(run)
            return
        body = b"".join(map(self._frames, events))
        if run.finished and isinstance(events[-1], RunFailed) and not self._open:
            await self._whole(run)
        elif body:
            await self._start()
            await self._put(body)

    async def _start(self) -> None:
        assert self._head is not None
        self._open = True
        await self._guarded(self._exchange.open(self._head.status, self._head.headers))

    async def _whole(self, run: Run) -> None:
        self._open = True
        status = status_of_end(run.log[-1], self._column)
        await self._guarded(self._exchange.answer(self._adapter.whole(run.log, self._reading, status=status)))

    async def _put(self, body: bytes) -> None:
        run = self.run
        assert run is not None
        await self._guarded(self._send({"type": "http.response.body", "body": body, "more_body": not run.finished}))

    async def _guarded(self, sending: Awaitable[None]) -> None:
        self._sending = True
        try:
            await sending
        except (OSError, RuntimeError):
            self._left = True  # Some servers raise when the client is gone.
        finally:
            self._sending = False
            self._sent += 1

    # Once a second, by the pulse

    def tick(self, stall: float) -> None:
        """Open a silent stream, keep a quiet one alive, leave a reader that takes nothing."""
        if self._sent != self._seen:
            self._seen, self._quiet = self._sent, 0
            return
        self._quiet += 1
        if self._sending:
            if self._quiet >= stall:
                self._leave()
        elif self._head is not None and not self._left:
            if not self._open and self._quiet >= PATIENCE:
                self._spawn(self._start())
            elif self._open and self._quiet >= QUIET and self._head.keep_alive:
                self._spawn(self._put(self._head.keep_alive))

    def _spawn(self, sending: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(sending)
        _sending.add(task)  # The loop itself holds tasks weakly.
        task.add_done_callback(_sending.discard)

    def _leave(self) -> None:
        """Close the connection of a reader that takes nothing; under a foreign server that is the server's to do."""
        self._left = True
        transport = self._exchange.scope.get("extensions", {}).get(TRANSPORT)
        if transport is not None:
            transport.abort()
