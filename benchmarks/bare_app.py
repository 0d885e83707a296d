"""The bare ASGI application: sends Palaver's bytes, prepared before the first request.

It parses, validates, logs and stores nothing, so no Python application on the same server can be faster. It has the
same paths as Palaver with benchmarks.workflows, and prepares its frames with Palaver's encoder.
"""

import asyncio
import gc
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from benchmarks.workflows import TOKENS
from palaver.core.events import Event, RunFinished, RunStarted
from palaver.core.grammar import Grammar
from palaver.protocols import sse
from palaver.protocols.agenta import response
from palaver.protocols.responses import adapter as responses
from palaver.protocols.responses.request import ResponsesRequest

_RUN = RunStarted(
    run_id="run_01m7f9v7cxgf9qj54rvxz6dfgw", session="0" * 32, trace_id="0" * 32, span_id="0" * 16, at=datetime.now(UTC)
)
_REQUEST = ResponsesRequest(profile="invocations", stream=True, model="tokens", workflow="tokens")


def _event_batches(tokens: Sequence[str]) -> list[Sequence[Event]]:
    """Return the events of a run that streams these tokens, in batches."""
    grammar = Grammar(_RUN.run_id)
    end = RunFinished(at=_RUN.at)
    return [grammar.start(_RUN), *(grammar.text(token) for token in tokens), grammar.end(end)]


class PreparedStream:
    """The stream that Palaver sends for the workflow `tokens`, in the same chunks."""

    def __init__(self, frames: Callable[[Event], bytes]) -> None:
        chunks = [chunk for batch in _event_batches(TOKENS) if (chunk := b"".join(map(frames, batch)))]
        self.events = sum(chunk.count(b"\n\n") for chunk in chunks)
        """Number of server-sent events of one answer."""
        self.sends = [{"type": "http.response.body", "body": chunk, "more_body": True} for chunk in chunks]
        self.sends[-1]["more_body"] = False


RECORDS = PreparedStream(response.RecordEncoder(sse.data_event, is_chat=True).encode)
RESPONSES = PreparedStream(responses.stream_encoder(_REQUEST))
_ANSWER_BODY = responses.encode_response(
    [event for batch in _event_batches(["Hello there"]) for event in batch], _REQUEST, status=200
).body

_STREAM_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform")],
}
_HEALTH = b'{"status":"ok"}'


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer like Palaver with benchmarks.workflows."""
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
        return
    body = (await receive()).get("body", b"")
    match scope["path"]:
        case "/tokens/invoke":
            await _stream(send, RECORDS)
        case "/tokens/invocations":
            await _stream(send, RESPONSES)
        case "/say/invocations":
            await _answer(send, _ANSWER_BODY)
        case "/idle/invoke":
            await send(_STREAM_START)
            await send(RECORDS.sends[0])
            await receive()  # Until the client disconnects.
        case "/echo/invoke":
            await _answer(send, body)
        case _:
            await _answer(send, _HEALTH)


async def _stream(send: Any, prepared: PreparedStream) -> None:
    await send(_STREAM_START)
    for message in prepared.sends:
        await send(message)
        await asyncio.sleep(0)


async def _answer(send: Any, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _lifespan(receive: Any, send: Any) -> None:
    await receive()
    gc.collect()
    gc.freeze()  # As Palaver does, so that the loaded encoder doesn't slow the garbage collector down.
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})
