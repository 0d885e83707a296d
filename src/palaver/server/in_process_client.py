"""An HTTP client of the application in the same process, without a socket."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from palaver.server.app import app
from palaver.workflows.workflow import Workflow

if TYPE_CHECKING:
    import httpx


@asynccontextmanager
async def client(
    *workflows: Workflow, default: str | None = None, **settings: Any
) -> AsyncGenerator["httpx.AsyncClient"]:
    """An HTTP client of these workflows, in process: no socket, the same application, streams as they come.

    In the end the application is closed as a server would be: a run that still goes on is ended, and nothing is left.
    """
    import httpx

    application = app(*workflows, default=default, **settings)
    try:
        async with httpx.AsyncClient(transport=_transport(application), base_url="http://localhost") as http:
            yield http
    finally:
        await application.engine.drain(0)
        await application.close()


def _transport(application: Any) -> "httpx.AsyncBaseTransport":
    """A transport that streams; httpx.ASGITransport waits for the whole response."""
    import httpx

    class Streaming(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            exchange = _InProcessRequest(request.method, request, await request.aread())
            task = asyncio.create_task(application(exchange.scope(), exchange.receive, exchange.send))
            task.add_done_callback(exchange.over)
            status, headers = await exchange.head
            return httpx.Response(status, headers=headers, stream=_Body(exchange))

    class _Body(httpx.AsyncByteStream):
        def __init__(self, exchange: "_InProcessRequest") -> None:
            self._exchange = exchange

        async def __aiter__(self) -> AsyncIterator[bytes]:
            while (piece := await self._exchange.pieces.get()) is not None:
                yield piece

        async def aclose(self) -> None:
            self._exchange.left.set()

    return Streaming()


class _InProcessRequest:
    """The `receive` and `send` of a request. One chunk is buffered: then the sender waits, as on a socket."""

    def __init__(self, method: str, request: "httpx.Request", body: bytes) -> None:
        self.head: asyncio.Future[tuple[int, list[tuple[bytes, bytes]]]] = asyncio.get_running_loop().create_future()
        self.pieces: asyncio.Queue[bytes | None] = asyncio.Queue(1)
        self.left = asyncio.Event()
        self._method = method
        self._request = request
        self._body: bytes | None = body

    def scope(self) -> MutableMapping[str, Any]:
        url = self._request.url
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": self._method,
            "scheme": url.scheme,
            "path": url.path,
            "raw_path": url.raw_path.partition(b"?")[0],
            "query_string": url.query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in self._request.headers.raw],
            "server": (url.host, url.port or 80),
            "client": ("127.0.0.1", 0),
        }

    async def receive(self) -> MutableMapping[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            if not self.head.done():  # The client may have left.
                self.head.set_result((message["status"], message["headers"]))
            return
        if self.left.is_set():
            return
        if message.get("body"):
            await self.pieces.put(message["body"])
        if not message.get("more_body", False):
            self.left.set()
            await self.pieces.put(None)

    def over(self, task: asyncio.Task[None]) -> None:
        """The application returned: raise its error, or that it sent no response."""
        if task.cancelled():
            return
        error = task.exception()
        if not self.head.done():
            self.head.set_exception(error or RuntimeError("the application sent no answer"))
