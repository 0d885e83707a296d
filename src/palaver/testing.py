"""Helpers for tests of applications: a scripted chat, an echo workflow, and an in-process client.

async with client(tutor) as http:
    answer = await http.post("/tutor/invoke", json={"messages": [{"role": "user", "content": "Hi"}]})
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from palaver.core import json
from palaver.core.events import ReasoningDelta, ToolDelta, ToolEnded, ToolStarted
from palaver.core.messages import Data, Message, ToolResult, Usage
from palaver.errors import Failure
from palaver.server.app import app
from palaver.workflows.context import Context
from palaver.workflows.decorators import chat, workflow
from palaver.workflows.workflow import Workflow

if TYPE_CHECKING:
    import httpx


@asynccontextmanager
async def client(
    *workflows: Workflow, default: str | None = None, **settings: Any
) -> AsyncGenerator["httpx.AsyncClient"]:
    """Yield an HTTP client of these workflows that calls the application in process; responses are streamed.

    The client is an `httpx.AsyncClient`. At the end, the application is closed like a server, which stops active runs.

    Args:
        *workflows: The workflows to serve.
        default: Name of the workflow that is also served at the root path. If there is only one, it is the default.
        **settings: Settings and evaluators, as for `app`.

    Raises:
        PalaverError: The application cannot be created, as for `app`.

    Example:
        import asyncio

        from palaver import Message, chat
        from palaver.testing import client


        @chat
        def parrot(messages: list[Message]):
            return messages[-1].text


        async def test_parrot():
            async with client(parrot) as http:
                body = {"messages": [{"role": "user", "content": "Hi"}]}
                response = await http.post("/parrot/invoke", json=body)
                assert response.json() == {"role": "assistant", "content": "Hi"}


        asyncio.run(test_parrot())
    """
    import httpx

    application = app(*workflows, default=default, **settings)
    try:
        async with httpx.AsyncClient(transport=in_process_transport(application), base_url="http://localhost") as http:
            yield http
    finally:
        await application.engine.drain(0)
        await application.close()


def in_process_transport(application: Any) -> "httpx.AsyncBaseTransport":
    """Return a transport that streams responses; httpx.ASGITransport waits for the whole response."""
    import httpx

    class StreamingTransport(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            exchange = _InProcessRequest(request, await request.aread())
            task = asyncio.create_task(application(exchange.scope(), exchange.receive, exchange.send))
            task.add_done_callback(exchange.on_task_done)
            status, headers = await exchange.head
            return httpx.Response(status, headers=headers, stream=_Body(exchange))

    class _Body(httpx.AsyncByteStream):
        def __init__(self, exchange: "_InProcessRequest") -> None:
            self._exchange = exchange

        async def __aiter__(self) -> AsyncIterator[bytes]:
            while (chunk := await self._exchange.chunks.get()) is not None:
                yield chunk

        async def aclose(self) -> None:
            self._exchange.disconnected.set()

    return StreamingTransport()


class _InProcessRequest:
    """The `receive` and `send` of a request. One chunk is buffered: then the sender waits, as on a socket."""

    def __init__(self, request: "httpx.Request", body: bytes) -> None:
        self.head: asyncio.Future[tuple[int, list[tuple[bytes, bytes]]]] = asyncio.get_running_loop().create_future()
        self.chunks: asyncio.Queue[bytes | None] = asyncio.Queue(1)
        self.disconnected = asyncio.Event()
        self._request = request
        self._body: bytes | None = body

    def scope(self) -> MutableMapping[str, Any]:
        url = self._request.url
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": self._request.method,
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
        await self.disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            if not self.head.done():  # The client may have disconnected.
                self.head.set_result((message["status"], message["headers"]))
            return
        if self.disconnected.is_set():
            return
        if message.get("body"):
            await self.chunks.put(message["body"])
        if not message.get("more_body", False):
            self.disconnected.set()
            await self.chunks.put(None)

    def on_task_done(self, task: asyncio.Task[None]) -> None:
        """Fail the response if the application returned without starting one."""
        if task.cancelled():
            return
        error = task.exception()
        if not self.head.done():
            self.head.set_exception(error or RuntimeError("the application did not send a response"))


__all__ = ["client", "echo", "scripted"]

Step = Mapping[str, Any]


@chat(description="Plays a script step by step; without one, repeats the last message.")
async def scripted(
    messages: list[Message], ctx: Context, script: list[dict[str, Any]] | None = None
) -> AsyncGenerator[object, None]:
    """Play a script step by step, without a model: a workflow to test clients with.

    A step is an object with one key: `text`, `reasoning`, `message` or `yield` with the value to output;
    `tool_call` with `id`, `name` and `arguments`; `tool_result` with `id`, `output` and `error`; `data` with `name` and
    `value`; `usage` with `input_tokens` and `output_tokens`; `break` to begin a new message; `sleep` and `block`
    (which blocks a thread) with seconds; `finish` with the finish reason; `fail` with `code`, `message` and `status`;
    `raise` with the text of an unexpected error; `repeat` with `times` and `steps`.

    Args:
        script: The steps. By default, the JSON list in the last user message, or its text, word by word.

    Example:
        import asyncio

        from palaver.testing import client, scripted

        SCRIPT = [
            {"text": "Let me look. "},
            {"tool_call": {"id": "c1", "name": "weather", "arguments": {"city": "Oslo"}}},
            {"tool_result": {"id": "c1", "output": {"sky": "clear"}}},
            {"text": "It is clear."},
        ]


        async def test_script():
            async with client(scripted) as http:
                response = await http.post("/scripted/invoke", json={"messages": [], "inputs": {"script": SCRIPT}})
                assert [message["role"] for message in response.json()] == ["assistant", "tool", "assistant"]


        asyncio.run(test_script())
    """
    async for value in _play(script if script is not None else _parse_script(messages), ctx):
        yield value


@workflow(description="Returns its inputs unchanged.")
async def echo(**inputs: Any) -> dict[str, Any]:
    """Return the inputs unchanged: a workflow that is not a chat.

    Args:
        **inputs: Any JSON.

    Example:
        import asyncio

        from palaver.testing import client, echo


        async def test_echo():
            async with client(echo) as http:
                response = await http.post("/echo/invoke", json={"inputs": {"text": "Hi"}})
                assert response.json() == {"text": "Hi"}


        asyncio.run(test_echo())
    """
    return inputs


def _parse_script(messages: Sequence[Message]) -> Sequence[Step]:
    """Return the script in the last user message: a JSON list, else its words as text steps."""
    text = next((message.text for message in reversed(messages) if message.role == "user"), "")
    steps = json.parse_or_text(text)
    return steps if isinstance(steps, list) else [{"text": word} for word in re.findall(r"\s*\S+\s*", text)]  # pyright: ignore[reportUnknownVariableType]


async def _play(steps: Sequence[Step], ctx: Context) -> AsyncGenerator[object, None]:
    for step in steps:
        match step:
            case {"text": str(text)}:
                yield text
            case {"reasoning": str(text)}:
                yield ReasoningDelta(delta=text)
            case {"tool_call": {"name": str(name)} as call}:
                for event in _tool_call_events(name, call):
                    yield event
            case {"sleep": int() | float() as seconds}:
                await asyncio.sleep(seconds)
            case {"block": int() | float() as seconds}:
                yield _block_thread(seconds)
            case {"raise": str(text)}:
                raise RuntimeError(text)
            case {"finish": str(reason)}:
                ctx.finish(reason)  # pyright: ignore[reportArgumentType]  # finish() checks the word itself
            case {"repeat": {"times": int(times), "steps": list()}}:
                for _ in range(times):
                    async for value in _play(step["repeat"]["steps"], ctx):
                        yield value
            case _:
                yield _step_value(step)


def _step_value(step: Step) -> object:
    """Convert a script step into the value that the workflow yields."""
    match step:
        case {"message": message}:
            return message
        case {"tool_result": {"id": str(call_id), **rest}}:
            return ToolResult(call_id=call_id, output=rest.get("output"), is_error=rest.get("error") is True)
        case {"data": {"name": str(name), **rest}}:
            return Data(name=name, value=rest.get("value"))
        case {"usage": {"input_tokens": int(input_tokens), "output_tokens": int(output_tokens)}}:
            return Usage(input_tokens=input_tokens, output_tokens=output_tokens)
        case {"yield": value}:
            return value
        case {"break": True}:
            return Message.assistant()
        case {"fail": {"code": str(code), "message": str(message), **rest}}:
            status = rest.get("status")
            raise Failure(code, message, status=status if isinstance(status, int) else None)
        case _:
            raise Failure("unknown_step", f"Unknown step: {str(step)[:80]}", status=422)


def _tool_call_events(name: str, call: Step) -> Sequence[object]:
    """Return the events of a tool call, its arguments in two deltas."""
    value = call.get("arguments", {})
    arguments = value if isinstance(value, str) else json.encode(value).decode()
    half = len(arguments) // 2
    started = ToolStarted(call_id=str(call.get("id", "")), name=name)
    return [started, ToolDelta(delta=arguments[:half]), ToolDelta(delta=arguments[half:]), ToolEnded()]


def _block_thread(seconds: float) -> Generator[object, None, None]:
    """Block a thread: sync iterators run in the thread pool, not on the event loop."""
    time.sleep(seconds)
    yield from ()
