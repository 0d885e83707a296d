"""A server in process with workflows that wait until a test releases them, and helpers for threads and runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import httpx
import msgspec

from palaver import Message, Parameter, chat, workflow
from palaver.server.app import Server, app
from palaver.testing import in_process_transport
from palaver.workflows.workflow import Workflow

gates: dict[str, asyncio.Event] = {}
"""The events that `slow` waits for, by the text of the last message."""


@chat
async def echo(messages: list[Message], style: Annotated[str, Parameter()] = "plain") -> AsyncIterator[str]:
    """Returns all messages with their roles."""
    transcript = " | ".join(f"{message.role}: {message.text}" for message in messages)
    yield transcript if style == "plain" else f"{style}({transcript})"


async def _slow(messages: list[Message]) -> AsyncIterator[str]:
    last = messages[-1].text
    yield "begin "
    await gates.setdefault(last, asyncio.Event()).wait()
    yield f"end of {last}"


slow = chat(_slow, name="slow")
queue = chat(_slow, name="queue", turns="queue")
interrupt = chat(_slow, name="interrupt", turns="interrupt")
finish = chat(_slow, name="finish", on_disconnect="finish")
cancel = chat(_slow, name="cancel", on_disconnect="cancel")


@chat
async def broken(messages: list[Message]) -> AsyncIterator[str]:
    """Says something, and fails."""
    yield "half"
    raise RuntimeError(messages[-1].text)


@workflow
def shout(text: str) -> str:
    """No chat."""
    return text.upper()


ALL_WORKFLOWS = (echo, slow, queue, interrupt, finish, cancel, broken, shout)


@asynccontextmanager
async def thread_server(*workflows: Workflow, **settings: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Server]]:
    """A server of these workflows (by default all of the above), and a client."""
    gates.clear()
    server = app(*(workflows or ALL_WORKFLOWS), **settings)
    async with httpx.AsyncClient(transport=in_process_transport(server), base_url="http://localhost") as http:
        try:
            yield http, server
        finally:
            await server.engine.drain(0)
            await server.close()


def release(text: str) -> None:
    gates.setdefault(text, asyncio.Event()).set()


async def new_thread(http: httpx.AsyncClient, name: str = "echo", *texts: str, **more: Any) -> str:
    """Create a thread with alternating user and assistant messages; return its id."""
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
    answer = await http.post("/api/threads", json={"workflow": name, "messages": messages, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def take_turn(http: httpx.AsyncClient, thread: str, *texts: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text} for text in texts]
    body = {"messages": messages, **more} if messages else more
    answer = await http.post(f"/api/threads/{thread}/turns", json=body)
    assert answer.status_code == 202, answer.text
    return answer.json()


async def wait_for_run(http: httpx.AsyncClient, run: str) -> dict[str, Any]:
    """The run, once it has ended."""
    async with asyncio.timeout(60):
        while (run_view := (await http.get(f"/api/runs/{run}")).json())["ended_at"] is None:  # noqa: ASYNC110 - over HTTP
            await asyncio.sleep(0.01)
    return run_view


async def branch(http: httpx.AsyncClient, thread: str, **query: Any) -> list[tuple[str, str]]:
    """The roles and texts of the messages on a branch."""
    answer = await http.get(f"/api/threads/{thread}/messages", params=query)
    assert answer.status_code == 200, answer.text
    return [(node["role"], "".join(part.get("text", "") for part in node["parts"])) for node in answer.json()["data"]]


async def nodes(http: httpx.AsyncClient, thread: str) -> list[dict[str, Any]]:
    return (await http.get(f"/api/threads/{thread}/messages")).json()["data"]


async def wait_for_start(http: httpx.AsyncClient, thread: str) -> str:
    """Wait for a run in the thread that has emitted output; return its id."""
    async with asyncio.timeout(60):
        while True:
            run = (await http.get(f"/api/threads/{thread}")).json()["run"]
            if run is not None and (await http.get(f"/api/runs/{run}")).json().get("seq", 0) > 1:
                return run
            await asyncio.sleep(0.01)


def events(body: str) -> list[tuple[int, dict[str, Any]]]:
    """The events of a stream, each with its id."""
    frames = [frame for frame in body.split("\n\n") if frame and not frame.startswith(":")]
    pairs = [frame.split("\n") for frame in frames]
    return [
        (int(first.removeprefix("id: ")), msgspec.json.decode(data.removeprefix("data: "))) for first, data in pairs
    ]


def problem(answer: httpx.Response) -> tuple[int, str, str | None]:
    error = answer.json()["error"]
    return answer.status_code, error["code"], error.get("path")
