"""Section 4: bodies that are no JSON, that two readers would read differently, or that would be too much.

Too much is only announced, or is a few kilobytes: enough to see that there is a limit.
"""

from functools import partial

from palaver.cli.attacking.attacks import BODY, CALL, JSON, Attack, Outcome, Server, Try, judged, status_in
from palaver.cli.attacking.wire import Headers

_KIB = 1024
_ODD = {
    "half a document": b'{"model": ',
    "NaN": b'{"model": NaN}',
    "a number without end": b'{"model": 1e999999}',
    "bytes that are no UTF-8": b'{"model": "\xff\xfe"}',
    "half a surrogate": b'{"model": "\\ud800"}',
    "a control character in a key": b'{"mod\\u0000el": "x"}',
    "two documents": b"{}{}",
    "lists 50,000 deep": b"[" * 50_000,
    "objects 500 deep": b'{"a":' * 500 + b"1" + b"}" * 500,
}


async def _odd_json(server: Server) -> Outcome:
    tries = [
        Try(f"POST {path} with {name}", partial(server.ask, "POST", path, JSON, body=body))
        for path in (CALL, "/api/extract")
        for name, body in _ODD.items()
    ]
    return await judged(tries, status_in(400, 413, 422))


async def _two_lengths(server: Server) -> Outcome:
    sent: dict[str, Headers] = {
        "Content-Length and Transfer-Encoding": [("Content-Length", "4"), ("Transfer-Encoding", "chunked")],
        "two Content-Lengths": [("Content-Length", "4"), ("Content-Length", "5")],
        "a Content-Length of +4": [("Content-Length", "+4")],
        "a Transfer-Encoding nobody knows": [("Transfer-Encoding", "xchunked")],
    }
    tries = [
        Try(f"POST {CALL} with {name}", partial(server.ask, "POST", CALL, JSON, *headers, body=b"0\r\n\r\n"))
        for name, headers in sent.items()
    ]
    return await judged(tries, lambda reply: reply.is_refused and reply.status not in (404, 405))


async def _large_body(server: Server) -> Outcome:
    """The size is only announced: of the body itself nothing is sent."""
    tries = [
        Try(
            f"POST {path} that announces {size:,} bytes",
            partial(server.ask, "POST", path, JSON, ("Content-Length", str(size))),
        )
        for path in (CALL, "/api/extract")
        for size in (10**12, 10**18)
    ]
    return await judged(tries, status_in(400, 413))


async def _large_head(server: Server) -> Outcome:
    many = [(f"x-{number}", "1") for number in range(200)]
    tries = [
        Try("GET /health?aaa… of 32 KiB", partial(server.ask, "GET", f"/health?{'a' * 32 * _KIB}")),
        Try("GET /health with a header of 64 KiB", partial(server.ask, "GET", "/health", ("x-long", "a" * 64 * _KIB))),
        Try("GET /health with 200 headers", partial(server.ask, "GET", "/health", *many)),
    ]
    return await judged(tries, lambda reply: reply.is_refused)


async def _methods(server: Server) -> Outcome:
    """A TRACE that is answered says back what was sent, credentials too."""
    tries = [
        Try(f"{method} {path}", partial(server.ask_as_stranger, method, path, JSON, body=BODY))
        for method in ("TRACE", "PALAVER", "PROPFIND", "get")
        for path in ("/health", CALL)
    ]
    return await judged(tries, lambda reply: reply.is_refused)


ATTACKS = (
    Attack("odd-json", "S4.1", "what is no plain JSON is refused, however deep", _odd_json, "a caller"),
    Attack("two-lengths", "S4.2", "a body has one end for every reader", _two_lengths),
    Attack("large-body", "S4.3", "a body over the limit is refused before it comes", _large_body, "a caller"),
    Attack("large-head", "S4.3", "long URLs and large or many headers are refused", _large_head),
    Attack("odd-methods", "S1.4", "methods that nobody serves do nothing, TRACE among them", _methods),
)
