"""The bare application: the same bytes as Palaver's, ready before the first request, with nothing in between.

Nothing is parsed, checked, logged or kept, so no Python application on the same server can be faster. It has the paths
that Palaver has for benchmarks.workflows, and makes its frames with Palaver's own encoder, so that they stay the same.
"""

import asyncio
import gc
from typing import Any

from benchmarks.workflows import TOKENS
from palaver.core.events import RunFinished, RunStarted
from palaver.core.grammar import Grammar
from palaver.protocols import records, sse


def _pieces() -> list[bytes]:
    """What Palaver sends for the workflow `tokens`, in as many pieces."""
    run_id = "run_01m7f9v7cxgf9qj54rvxz6dfgw"
    grammar = Grammar(run_id)
    frames = records.Writer(sse.frame, is_chat=True).frames
    batches = [
        grammar.start(RunStarted(run_id=run_id, session="0" * 32, trace_id="0" * 32, span_id="0" * 16)),
        *(grammar.text(token) for token in TOKENS),
        grammar.end(RunFinished()),
    ]
    return [piece for batch in batches if (piece := b"".join(map(frames, batch)))]


PIECES = _pieces()
EVENTS = sum(piece.count(b"\n\n") for piece in PIECES)
"""How many server-sent events one whole answer has, ours and Palaver's."""

_SENDS = [{"type": "http.response.body", "body": piece, "more_body": True} for piece in PIECES]
_SENDS[-1]["more_body"] = False
_FIRST = _SENDS[0]
_STREAM = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform")],
}
_HEALTH = b'{"status":"ok"}'


async def app(scope: Any, receive: Any, send: Any) -> None:
    """ASGI."""
    if scope["type"] == "lifespan":
        await _live(receive, send)
        return
    body = (await receive()).get("body", b"")
    match scope["path"]:
        case "/tokens/invoke":
            await send(_STREAM)
            for message in _SENDS:
                await send(message)
                await asyncio.sleep(0)
        case "/idle/invoke":
            await send(_STREAM)
            await send(_FIRST)
            await receive()  # Until the client leaves.
        case "/echo/invoke":
            await _answer(send, body)
        case _:
            await _answer(send, _HEALTH)


async def _answer(send: Any, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _live(receive: Any, send: Any) -> None:
    await receive()
    gc.collect()
    gc.freeze()  # As Palaver does: the encoder that was loaded to make the frames must not slow the collector down.
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})
