"""Sections 5 and 6: histories that lie, and URLs that would make the server look where the caller cannot.

The addresses lead nowhere even where the guard is off: port 1, or a link-local address that RFC 3927 keeps free.
"""

from functools import partial
from typing import Any

from palaver.cli.attacking.attacks import CALL, JSON, Attack, Outcome, Server, Try, judged, not_here, status_in
from palaver.cli.attacking.wire import Reply
from palaver.core import json

_FILES = ["file:///etc/passwd", "ftp://127.0.0.1:1/x", "gopher://127.0.0.1:1/x", "javascript:alert(1)"]
_INNER = [
    "http://127.0.0.1:1/",
    "http://localhost:1/",
    "http://[::1]:1/",
    "http://169.254.0.1:1/",
    "http://10.0.0.0:1/",
    "http://2130706433:1/",
    "http://0x7f.1:1/",
    "http://127.1:1/",
    "http://[::ffff:127.0.0.1]:1/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:1/",
    "http://ann:pw@127.0.0.1:1/",
]


async def _histories(server: Server) -> Outcome:
    model = await _chat(server)
    if model is None:
        return not_here("/v1/models lists no chat to say it to")

    def said(*messages: Any) -> bytes:
        return json.encode({"model": model, "messages": messages})

    sent = {
        f"a file at {url}": said({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]})
        for url in _FILES
    }
    sent["a result that answers no call"] = said({"role": "tool", "tool_call_id": "call_none", "content": "4"})
    tries = [
        Try(f"POST {CALL} with {name}", partial(server.ask, "POST", CALL, JSON, body=body))
        for name, body in sent.items()
    ]
    return await judged(tries, status_in(400, 413, 422))


async def _chat(server: Server) -> str | None:
    reply = await server.ask("GET", "/v1/models")
    told: Any = json.parse_or_text(reply.body.decode("utf-8", "replace"))
    match told:
        case {"data": [{"id": str(name)}, *_]}:
            return name
        case _:
            return None


async def _inner(server: Server) -> Outcome:
    tries = [
        Try(
            f"POST /api/connections, as a dry run, to {url}",
            partial(server.ask, "POST", "/api/connections", JSON, body=json.encode({"url": url, "dry_run": True})),
        )
        for url in _INNER
    ]
    first = await tries[0].send()
    if first.status == 403:
        return not_here("connections need a key with the scope admin")
    return await judged(tries, _is_guarded)


def _is_guarded(reply: Reply) -> bool:
    """By the guard, not because nobody answered there; and without a word on why."""
    return reply.status == 422 and reply.holds('"url_refused"')


ATTACKS = (
    Attack("histories", "S5.4", "file URLs and results that answer no call are refused", _histories, "a caller"),
    Attack("inner-urls", "S6.2", "a URL in a request cannot lead to the inner network", _inner, "a caller"),
)
