"""A model's provider of our own: a real HTTP server that speaks Anthropic's Messages API and plays a script.

    with FakeAnthropic([{"text": "Hello"}]) as fake:
        client = AsyncAnthropic(api_key="sk-ant-any", base_url=fake.url)

It runs in a thread with an event loop of its own, so that neither a busy test nor a blocked one slows it down.
"""

import asyncio
import atexit
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Self

import msgspec
from uvicorn.loops.auto import auto_loop_factory

from palaver import PalaverError
from palaver_jobchat.testing.checking import NoKey, fault, key_of
from palaver_jobchat.testing.connections import Connection, Exchange
from palaver_jobchat.testing.steps import Step, Trouble, read_script, read_step
from palaver_jobchat.testing.wire import error_body, frames, request_id, whole

_PATH = "/v1/messages"


class Received:
    """A request as it came."""

    def __init__(self, exchange: Exchange) -> None:
        self.headers = exchange.headers
        """Names in lower case; the key is among them."""
        self.body: Any = None
        """As JSON; none where it was none."""
        self.is_answered = False
        self._exchange = exchange

    @property
    def key(self) -> str:
        """The key that it carried."""
        return key_of(self.headers)

    @property
    def hung_up(self) -> bool:
        """Whether the client left before the answer was whole."""
        return self._exchange.is_left


Choose = Callable[[Received], "Step | dict[str, Any]"]


class FakeAnthropic:
    """Plays one step for each good request, in order. `script` may also be a function that chooses the step."""

    def __init__(self, script: Sequence[Any] | Choose, *, port: int = 0) -> None:
        self.requests: list[Received] = []
        """All of them, also those that were refused."""
        self.connections = 0
        """How many clients have connected; one that sends several requests counts once."""
        self._choose = script if callable(script) else _in_order(read_script(list(script)))
        self._port = port
        self._numbers = itertools.count(1)
        self._open: set[Connection] = set()
        self._started: Future[int] = Future()
        self._thread: threading.Thread | None = None
        self._stop: Callable[[], object] = lambda: None

    @property
    def url(self) -> str:
        """Where it listens: the base URL for an SDK."""
        return f"http://127.0.0.1:{self._started.result(10)}"

    @property
    def hung_up(self) -> int:
        """How many clients left before their answer was whole."""
        return sum(request.hung_up for request in self.requests)

    @property
    def open_connections(self) -> int:
        """How many are connected now."""
        return len(self._open)

    def start(self) -> Self:
        """Listen, until `stop` or the end of the process."""
        self._thread = threading.Thread(target=self._run, name="fake-anthropic", daemon=True)
        self._thread.start()
        self._started.result(10)
        atexit.register(self.stop)
        return self

    def stop(self) -> None:
        """Leave all clients, and the port. Stopping twice is not an error."""
        atexit.unregister(self.stop)
        if self._thread is not None:
            with suppress(RuntimeError):  # Its loop has ended already.
                self._stop()
            self._thread.join(10)
            self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
            try:
                runner.run(self._serve())
            except OSError as error:
                self._started.set_exception(PalaverError(f"The fake model cannot listen: {error}."))

    async def _serve(self) -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        self._stop = lambda: loop.call_soon_threadsafe(stopped.set)
        server = await loop.create_server(self._connected, "127.0.0.1", self._port, backlog=1024)
        self._started.set_result(server.sockets[0].getsockname()[1])
        await stopped.wait()
        server.close()
        for connection in list(self._open):
            await connection.closed()
        await server.wait_closed()

    def _connected(self) -> Connection:
        self.connections += 1
        return Connection(self._answer, self._open)

    async def _answer(self, exchange: Exchange) -> None:
        """Answer a request, or say what is wrong with it."""
        number = next(self._numbers)
        trouble, request = self._received(exchange)
        if trouble is not None:
            _refuse(exchange, number, trouble)
        else:
            await _play(self._chosen(request), exchange, number, request.body)
            request.is_answered = True

    def _received(self, exchange: Exchange) -> tuple[Trouble | None, Received]:
        """The request, and what is wrong with it."""
        request = Received(exchange)
        if exchange.path != _PATH or exchange.method != "POST":
            is_there = exchange.path == _PATH
            message = f"{exchange.method} {exchange.path} is not what this server answers: POST {_PATH}."
            return Trouble(status=405 if is_there else 404, message=message), request
        self.requests.append(request)
        try:
            request.body = msgspec.json.decode(exchange.body)
            wrong = fault(request.headers, request.body)
        except msgspec.DecodeError as error:
            wrong = f"The request body is not valid JSON: {error}"
        except NoKey as error:
            return Trouble(status=401, message=str(error)), request
        return None if wrong is None else Trouble(status=400, message=wrong), request

    def _chosen(self, request: Received) -> Step:
        """The step for a request; whatever goes wrong here is told as a server's error."""
        try:
            return read_step(self._choose(request))
        except Exception as error:
            message = "The script has no more steps." if isinstance(error, StopIteration) else repr(error)
            return Step(error=Trouble(status=500, message=message))


def serve(script: Sequence[Any] | Choose, *, port: int = 0, ready: Callable[[str], object]) -> None:
    """Play a script until the process is interrupted; `ready` is called with the address."""
    with FakeAnthropic(script, port=port) as fake, suppress(KeyboardInterrupt):
        ready(fake.url)
        threading.Event().wait()


def _in_order(steps: list[Step]) -> Choose:
    rest: Iterator[Step] = iter(steps)
    return lambda _: next(rest)


async def _play(step: Step, exchange: Exchange, number: int, body: dict[str, Any]) -> None:
    trouble = step.error if body.get("stream") is True else step.error or step.then_error
    if trouble is not None:
        _refuse(exchange, number, trouble)
        return
    has_begun = bool(step.said) or not step.breaks or step.then_error is not None
    if has_begun and body.get("stream") is True:
        await _stream(step, exchange, number, body["model"])
    if step.hang:
        await asyncio.Event().wait()
    elif step.drop and not (step.drop == "cleanly" and has_begun):
        exchange.drop()
    elif body.get("stream") is True:
        exchange.end()
    else:
        exchange.whole(200, whole(step, number=number, model=body["model"]), {"request-id": request_id(number)})


async def _stream(step: Step, exchange: Exchange, number: int, model: str) -> None:
    exchange.begin({"request-id": request_id(number)})
    waiting: list[bytes] = []
    for delay, event in frames(step, number=number, model=model):
        if delay:
            exchange.write(b"".join(waiting))
            waiting.clear()
            await asyncio.sleep(delay)
        waiting.append(event)
    exchange.write(b"".join(waiting))
    await asyncio.sleep(0)  # A connection that is dropped next has sent what was said.


def _refuse(exchange: Exchange, number: int, trouble: Trouble) -> None:
    headers = {"x-should-retry": "true" if trouble.retry else "false", **trouble.headers}
    exchange.whole(trouble.status, error_body(trouble, number), {"request-id": request_id(number), **headers})
