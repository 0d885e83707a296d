"""Fake model providers and webhooks on loopback, and evaluator contexts that use them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from palaver.discovery.registry import Registry
from palaver.errors import WorkflowNotFound
from palaver.evaluation.case import Case
from palaver.evaluation.evaluators import built_in
from palaver.evaluation.network_context import NetworkConfig, NetworkContext
from palaver.evaluation.providers.config import Provider
from palaver.evaluation.score import ScoreRecord

KEY = "sk-live-Zm9vYmFyMTIzNDU2Nzg5MA"
ENV = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, "PALAVER_WEBHOOK_SECRET": "whsec-1234567890"}


class ReceivedRequest(msgspec.Struct, frozen=True):
    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return msgspec.json.decode(self.raw)


class Reply(msgspec.Struct, frozen=True):
    """A response. Without a status the connection is closed."""

    body: Any = None
    status: int | None = 200
    headers: Mapping[str, str] = {}


Answer = Callable[[ReceivedRequest], Reply]


class Service:
    """A server on loopback that records its requests."""

    def __init__(self, answer: Answer) -> None:
        self.requests: list[ReceivedRequest] = []
        self.url = ""
        self._answer = answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        self.requests.append(ReceivedRequest(method, path, headers, raw))
        reply = self._answer(self.requests[-1])
        if reply.status is not None:
            body = reply.body if isinstance(reply.body, bytes) else msgspec.json.encode(reply.body)
            lines = [f"HTTP/1.1 {reply.status} .", f"content-length: {len(body)}", "connection: close"]
            lines += [f"{name}: {value}" for name, value in reply.headers.items()]
            writer.write("\r\n".join([*lines, "", ""]).encode() + body)
            await writer.drain()
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def service(answer: Answer | Sequence[Reply]) -> AsyncIterator[Service]:
    """Run a server that answers with `answer`, or with the replies of a list in order."""
    if not callable(answer):
        replies = iter(answer)
        running = Service(lambda _: next(replies))
    else:
        running = Service(answer)
    server = await asyncio.start_server(running.serve, "127.0.0.1", 0)
    running.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield running


def completion(content: Any, **message: Any) -> Reply:
    """A Chat Completion with this content; values other than text are encoded as JSON."""
    text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
    return Reply(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-4o-mini-2024-07-18",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text, "refusal": None, **message},
                    "finish_reason": "stop",
                }
            ],
            "usage": {
                "prompt_tokens": 100,
                "completion_tokens": 10,
                "total_tokens": 110,
                "prompt_tokens_details": {"cached_tokens": 40},
                "completion_tokens_details": {"reasoning_tokens": 0},
            },
        }
    )


def embeddings(vectors: Mapping[str, Sequence[float]]) -> Answer:
    """Answers of an embeddings API for these texts."""

    def answer(request: ReceivedRequest) -> Reply:
        data = [
            {"object": "embedding", "index": index, "embedding": vectors[text]}
            for index, text in enumerate(request.body["input"])
        ]
        usage = {"prompt_tokens": 3 * len(data), "total_tokens": 3 * len(data)}
        return Reply({"object": "list", "data": data[::-1], "model": request.body["model"], "usage": usage})

    return answer


def error_reply(status: int, message: str = "No.", **headers: str) -> Reply:
    """An error in OpenAI's format."""
    return Reply({"error": {"message": message, "type": "error", "code": None}}, status, headers)


def openai(url: str, **more: Any) -> dict[str, Provider]:
    values: dict[str, Any] = {"kind": "openai", "base_url": f"{url}/v1", "key": "env:OPENAI_API_KEY"}
    return {"openai": Provider(**values | more)}


def make_context(
    providers: Mapping[str, Provider] | None = None,
    *,
    registry: Registry | None = None,
    engine: Any = None,
    **more: Any,
) -> NetworkContext:
    """A context with these providers; and with these workflows if an engine is given."""

    def not_found(name: str) -> Any:
        raise WorkflowNotFound(name, known=())

    network = NetworkConfig(**{"providers": providers or {}, "env": ENV, "models_dir": Path("/nowhere"), **more})
    return NetworkContext(
        (), network, find_workflow=not_found if registry is None else registry.workflow, engine=engine
    )


async def score_in_context(key: str, case: Case, context: NetworkContext, **parameters: Any) -> ScoreRecord:
    (record,) = await built_in()[key].bind(parameters, context).score(case)
    return record
