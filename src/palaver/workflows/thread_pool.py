"""OS threads for sync workflows, so that they never block the event loop.

A cancelled run ends at once; its sync code may not notice, and keeps its slot until it returns. When no slot is free,
runs wait. Threads are daemons: code that never returns does not keep the process alive.
"""

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

_BUFFER_SIZE = 16  # Maximum number of values that sync code may be ahead of its consumer.


class ThreadPool:
    """A bounded number of threads for sync workflows."""

    def __init__(self, max_threads: int = 32) -> None:
        self.max_threads = max_threads
        self.busy = 0
        self._slots = asyncio.Semaphore(max_threads)

    async def start(self, body: Callable[[], None]) -> None:
        """Run `body` in a new thread as soon as a slot is free, with the caller's context variables."""
        await self._slots.acquire()
        self.busy += 1
        loop = asyncio.get_running_loop()
        run = contextvars.copy_context().run

        def work() -> None:
            try:
                run(body)
            finally:
                with suppress(RuntimeError):  # The loop is closed, so no run waits for a slot.
                    loop.call_soon_threadsafe(self._release_slot)

        try:
            threading.Thread(target=work, name="palaver-workflow", daemon=True).start()
        except RuntimeError:
            self._release_slot()  # The system is out of threads.
            raise

    def _release_slot(self) -> None:
        self.busy -= 1
        self._slots.release()


class ThreadBridge:
    """Passes values from a thread to the event loop, in order, with backpressure."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._values: deque[object] = deque()
        self._room = threading.Semaphore(_BUFFER_SIZE)
        self._wakeup = asyncio.Event()
        self._reader_waits = False
        self._ended = False
        self._error: BaseException | None = None
        self._closed = False

    def put(self, value: object) -> None:
        """In the thread: pass one value. Blocks while the buffer is full; raises CancelledError after `close`."""
        if not self._closed:
            self._room.acquire()
        if self._closed:
            # Not an Exception, so that `except Exception` does not catch it.
            raise asyncio.CancelledError("the run has ended")
        self._values.append(value)
        self._wake_reader()

    def end(self, error: BaseException | None = None) -> None:
        """In the thread: end the stream."""
        self._error = error
        self._ended = True
        self._wake_reader()

    def close(self) -> None:
        """On the loop: stop reading; a thread blocked in `put` is released with an error."""
        self._closed = True
        self._values.clear()
        self._room.release(_BUFFER_SIZE)

    async def values(self) -> AsyncGenerator[object, None]:
        """On the loop: yield the values as they arrive. Raises what the thread raised."""
        while True:
            while self._values:
                value = self._values.popleft()
                self._room.release()
                yield value
            if self._ended and not self._values:
                if self._error is not None:
                    raise self._error
                return
            self._wakeup.clear()
            self._reader_waits = True
            if not self._values and not self._ended:  # Checked again: the thread may have added one meanwhile.
                await self._wakeup.wait()
            self._reader_waits = False

    def _wake_reader(self) -> None:
        if self._reader_waits:
            try:
                self._loop.call_soon_threadsafe(self._wakeup.set)
            except RuntimeError:
                self._closed = True  # The loop is gone.


def is_running_loop(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the current code runs on this loop."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
