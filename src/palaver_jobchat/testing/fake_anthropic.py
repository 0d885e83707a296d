"""A local HTTP server with Anthropic's Messages API that plays a script.

    with FakeAnthropic([{"text": "Hello"}]) as fake:
        client = AsyncAnthropic(api_key="sk-ant-any", base_url=fake.url)

It runs in its own thread and event loop, so that a busy or blocked test does not slow it down. It is only for trusted
clients: bodies are read completely, without limits.
"""

import asyncio
import atexit
import itertools
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Self, cast

import httptools
import msgspec
from uvicorn.loops.auto import auto_loop_factory

from palaver import PalaverError
from palaver_jobchat.testing.request_validation import MissingKey, request_key, validate_request
from palaver_jobchat.testing.script import (
    ScriptBlock,
    ScriptError,
    ScriptStep,
    read_script,
    read_step,
    split_text,
)


class HttpExchange:
    """A request, and the methods to respond to it."""

    def __init__(self, connection: "Connection", method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        self.method, self.path, self.headers, self.body = method, path, headers, body
        self.is_disconnected = False
        """Whether the client disconnected before the response was complete."""
        self._connection = connection

    def send_json(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        content = msgspec.json.encode(body)
        head = {"content-type": "application/json", "content-length": str(len(content)), **(headers or {})}
        self._connection.write(_head(status, head) + content)

    def start_stream(self, headers: Mapping[str, str]) -> None:
        head = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache", **headers}
        self._connection.write(_head(200, {**head, "transfer-encoding": "chunked"}))

    def write(self, content: bytes) -> None:
        self._connection.write(b"%x\r\n%b\r\n" % (len(content), content))

    def end(self) -> None:
        self._connection.write(b"0\r\n\r\n")

    def drop(self) -> None:
        """Close the connection without completing the response."""
        self._connection.close()


class Connection(asyncio.Protocol):
    """An HTTP/1.1 connection that handles one request after another."""

    def __init__(self, handler: Callable[[HttpExchange], Awaitable[None]], open_connections: "set[Connection]") -> None:
        self._handler = handler
        self._open = open_connections
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._url, self._body = b"", b""
        self._headers: dict[str, str] = {}
        self._exchange: HttpExchange | None = None
        self._task: asyncio.Future[None] | None = None
        self._connection_lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transport has no common base class.
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the handler."""
        del exc
        self._open.discard(self)
        self._connection_lost.set()
        if self._exchange is not None and self._transport is not None:
            self._exchange.is_disconnected = True
        self._transport = None
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.close()

    def on_message_begin(self) -> None:
        self._url, self._body, self._headers = b"", b"", {}

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._headers.get("expect", "").lower() == "100-continue":
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        method, path = self._parser.get_method().decode(), self._url.partition(b"?")[0].decode("latin-1")
        self._exchange = HttpExchange(self, method, path, self._headers, self._body)
        self._task = asyncio.ensure_future(self._handle(self._exchange))

    async def _handle(self, exchange: HttpExchange) -> None:
        await self._handler(exchange)
        self._exchange = None

    def write(self, content: bytes) -> None:
        if self._transport is not None:
            self._transport.write(content)

    def close(self) -> None:
        """Close the connection. The client does not count as disconnected."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    async def aclose(self) -> None:
        self.close()
        await self._connection_lost.wait()


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    phrase = HTTPStatus(status).phrase if status in HTTPStatus.__members__.values() else "Unknown"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def sse_frame(name: str, **data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode({"type": name, **data}))


def stream_frames(step: ScriptStep, *, number: int, model: str) -> Iterator[tuple[float, bytes]]:
    """Yield the frames of a response, each with the seconds to wait before it. An incomplete one stays open."""
    usage = msgspec.structs.asdict(step.usage)
    first_usage = {**usage, "output_tokens": min(1, step.usage.output_tokens)}
    yield 0, sse_frame("message_start", message=_message_body(number, model, usage=first_usage))
    yield 0, sse_frame("ping")
    last = len(step.content) - 1
    for index, block in enumerate(step.content):
        yield 0, sse_frame("content_block_start", index=index, content_block=_empty_block(block, number, index))
        for delta in _deltas(block, step.chunks):
            yield step.delay, sse_frame("content_block_delta", index=index, delta=delta)
        if index < last or not step.is_incomplete:
            yield 0, sse_frame("content_block_stop", index=index)
    if step.then_error is not None:
        yield 0, sse_frame("error", **error_body(step.then_error, number))
    if not step.is_incomplete:
        delta = {"stop_reason": step.stop_reason, "stop_sequence": None, "stop_details": None}
        yield 0, sse_frame("message_delta", delta=delta, usage=usage)
        yield 0, sse_frame("message_stop")


def complete_message(step: ScriptStep, *, number: int, model: str) -> dict[str, Any]:
    """Return the response of a request that does not stream."""
    content = [_complete_block(block, number, index) for index, block in enumerate(step.content)]
    usage = msgspec.structs.asdict(step.usage)
    return _message_body(number, model, content=content, stop_reason=step.stop_reason, usage=usage)


def error_body(error: ScriptError, number: int) -> dict[str, Any]:
    """Return an error as a response body or event data."""
    fields = {"type": error.error_type, "message": error.message}
    return {"type": "error", "error": fields, "request_id": request_id(number)}


def request_id(number: int) -> str:
    return f"req_{number}"


def _message_body(number: int, model: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        **fields,
    }


def _empty_block(block: ScriptBlock, number: int, index: int) -> dict[str, Any]:
    """Return a block as `content_block_start` has it."""
    match block:
        case ScriptBlock(text=str()):
            return {"type": "text", "text": ""}
        case ScriptBlock(thinking=str()):
            return {"type": "thinking", "thinking": "", "signature": ""}
        case _:
            call = block.tool_call
            assert call is not None
            return {"type": "tool_use", "id": call.id or f"toolu_{number}_{index}", "name": call.name, "input": {}}


def _deltas(block: ScriptBlock, chunks: int) -> Iterator[dict[str, Any]]:
    match block:
        case ScriptBlock(text=str(text)):
            yield from ({"type": "text_delta", "text": piece} for piece in split_text(text, chunks))
        case ScriptBlock(thinking=str(text)):
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in split_text(text, chunks))
            yield {"type": "signature_delta", "signature": "c2lnbmVk"}
        case _:
            call = block.tool_call
            assert call is not None
            yield {"type": "input_json_delta", "partial_json": ""}
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in split_text(call.json, chunks))


def _complete_block(block: ScriptBlock, number: int, index: int) -> dict[str, Any]:
    start = _empty_block(block, number, index)
    match block:
        case ScriptBlock(text=str(text)):
            return {**start, "text": text}
        case ScriptBlock(thinking=str(text)):
            return {**start, "thinking": text, "signature": "c2lnbmVk"}
        case _:
            return {**start, "input": {} if block.tool is None else block.tool.input}


_PATH = "/v1/messages"


class ReceivedRequest:
    def __init__(self, exchange: HttpExchange) -> None:
        self.headers = exchange.headers
        """Names in lower case."""
        self.body: Any = None
        """The decoded JSON; None if it is invalid."""
        self.is_answered = False
        self._exchange = exchange

    @property
    def key(self) -> str:
        return request_key(self.headers)

    @property
    def hung_up(self) -> bool:
        """Whether the client disconnected before the response was complete."""
        return self._exchange.is_disconnected


StepChooser = Callable[[ReceivedRequest], "ScriptStep | dict[str, Any]"]


class FakeAnthropic:
    """Plays one step per valid request, in order. `script` may also be a function that chooses the step."""

    def __init__(self, script: Sequence[Any] | StepChooser, *, port: int = 0) -> None:
        self.requests: list[ReceivedRequest] = []
        """All requests, including rejected ones."""
        self.connections = 0
        """Number of connections so far."""
        self._choose = script if callable(script) else _step_sequence(read_script(list(script)))
        self._port = port
        self._numbers = itertools.count(1)
        self._open: set[Connection] = set()
        self._started: Future[int] = Future()
        self._thread: threading.Thread | None = None
        self._stop: Callable[[], object] = lambda: None

    @property
    def url(self) -> str:
        """The base URL for an SDK."""
        return f"http://127.0.0.1:{self._started.result(10)}"

    @property
    def hung_up(self) -> int:
        """Number of requests whose client disconnected before the response was complete."""
        return sum(request.hung_up for request in self.requests)

    @property
    def open_connections(self) -> int:
        return len(self._open)

    def start(self) -> Self:
        """Listen until `stop` or the end of the process."""
        self._thread = threading.Thread(target=self._run, name="fake-anthropic", daemon=True)
        self._thread.start()
        self._started.result(10)
        atexit.register(self.stop)
        return self

    def stop(self) -> None:
        """Close all connections and the port. Idempotent."""
        atexit.unregister(self.stop)
        if self._thread is not None:
            with suppress(RuntimeError):  # The loop has already ended.
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
                self._started.set_exception(PalaverError(f"The fake model cannot listen on the port: {error}."))

    async def _serve(self) -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        self._stop = lambda: loop.call_soon_threadsafe(stopped.set)
        server = await loop.create_server(self._create_connection, "127.0.0.1", self._port, backlog=1024)
        self._started.set_result(server.sockets[0].getsockname()[1])
        await stopped.wait()
        server.close()
        for connection in list(self._open):
            await connection.aclose()
        await server.wait_closed()

    def _create_connection(self) -> Connection:
        self.connections += 1
        return Connection(self._answer, self._open)

    async def _answer(self, exchange: HttpExchange) -> None:
        number = next(self._numbers)
        error, request = self._receive(exchange)
        if error is not None:
            _send_error(exchange, number, error)
        else:
            await _play(self._next_step(request), exchange, number, request.body)
            request.is_answered = True

    def _receive(self, exchange: HttpExchange) -> tuple[ScriptError | None, ReceivedRequest]:
        """Record a request; return it with its validation error."""
        request = ReceivedRequest(exchange)
        if exchange.path != _PATH or exchange.method != "POST":
            message = f"Not found: {exchange.method} {exchange.path}. This server only supports POST {_PATH}."
            return ScriptError(status=405 if exchange.path == _PATH else 404, message=message), request
        self.requests.append(request)
        try:
            request.body = msgspec.json.decode(exchange.body)
            problem = validate_request(request.headers, request.body)
        except msgspec.DecodeError as error:
            problem = f"The request body is not valid JSON: {error}"
        except MissingKey as error:
            return ScriptError(status=401, message=str(error)), request
        return None if problem is None else ScriptError(status=400, message=problem), request

    def _next_step(self, request: ReceivedRequest) -> ScriptStep:
        """Return the step for a request. An exception becomes a server error."""
        try:
            return read_step(self._choose(request))
        except Exception as error:
            message = "The script has no more steps." if isinstance(error, StopIteration) else repr(error)
            return ScriptStep(error=ScriptError(status=500, message=message))


def serve(script: Sequence[Any] | StepChooser, *, port: int = 0, ready: Callable[[str], object]) -> None:
    """Serve until the process is interrupted. `ready` is called with the URL."""
    with FakeAnthropic(script, port=port) as fake, suppress(KeyboardInterrupt):
        ready(fake.url)
        threading.Event().wait()


def _step_sequence(steps: list[ScriptStep]) -> StepChooser:
    remaining: Iterator[ScriptStep] = iter(steps)
    return lambda _: next(remaining)


async def _play(step: ScriptStep, exchange: HttpExchange, number: int, body: dict[str, Any]) -> None:
    error = step.error if body.get("stream") is True else step.error or step.then_error
    if error is not None:
        _send_error(exchange, number, error)
        return
    has_response = bool(step.content) or not step.is_incomplete or step.then_error is not None
    if has_response and body.get("stream") is True:
        await _stream(step, exchange, number, body["model"])
    if step.hang:
        await asyncio.Event().wait()
    elif step.drop and not (step.drop == "cleanly" and has_response):
        exchange.drop()
    elif body.get("stream") is True:
        exchange.end()
    else:
        exchange.send_json(
            200, complete_message(step, number=number, model=body["model"]), {"request-id": request_id(number)}
        )


async def _stream(step: ScriptStep, exchange: HttpExchange, number: int, model: str) -> None:
    exchange.start_stream({"request-id": request_id(number)})
    frames: list[bytes] = []
    for delay, event in stream_frames(step, number=number, model=model):
        if delay:
            exchange.write(b"".join(frames))
            frames.clear()
            await asyncio.sleep(delay)
        frames.append(event)
    exchange.write(b"".join(frames))
    await asyncio.sleep(0)  # Lets a connection that is dropped next send its data.


def _send_error(exchange: HttpExchange, number: int, error: ScriptError) -> None:
    headers = {"x-should-retry": "true" if error.retry else "false", **error.headers}
    exchange.send_json(error.status, error_body(error, number), {"request-id": request_id(number), **headers})
