"""Section 1: who can reach it, and what a page in somebody's browser can do."""

from functools import partial

from palaver.cli.attacking.attacks import (
    BODY,
    CALL,
    JSON,
    NOWHERE,
    Attack,
    Outcome,
    Server,
    Try,
    judged,
    not_here,
    status_in,
)
from palaver.cli.attacking.wire import Reply, ask, send

_PAGE = f"https://{NOWHERE}"
_FOREIGN = [("Origin", _PAGE), ("Origin", "null"), ("Sec-Fetch-Site", "cross-site")]
_FORMS = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
_FORWARDED = [
    ("X-Forwarded-Host", NOWHERE),
    ("X-Forwarded-For", "203.0.113.9"),
    ("X-Forwarded-Proto", "https"),
    ("Forwarded", f"for=203.0.113.9;host={NOWHERE};proto=https"),
]
_UPGRADE = [
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
]


async def _foreign_host(server: Server) -> Outcome:
    if not server.target.is_loopback:
        return not_here("the name of a server that others reach is for its proxy to check")
    paths = ["/health", "/", "/api/workflows", "/v1/models", "/assets/none.js"]
    asked = [(path, NOWHERE) for path in paths]
    asked += [("/health", f"localhost.{NOWHERE}"), ("/health", "127.0.0.1:1")]
    tries = [
        Try(f"GET {path} with Host: {host}", partial(server.ask_as_stranger, "GET", path, host=host))
        for path, host in asked
    ]
    return await judged(tries, status_in(400, 403, 421))


async def _hosts(server: Server) -> Outcome:
    own = server.target.authority
    two = partial(server.ask_as_stranger, "GET", "/health", ("Host", own))
    none = partial(server.ask_as_stranger, "GET", "/health", host="")
    return await judged([Try("GET /health without Host", none), Try("GET /health with two Hosts", two)], _is_refused)


def _is_refused(reply: Reply) -> bool:
    return reply.is_refused


async def _foreign_page(server: Server) -> Outcome:
    tries = [
        Try(f"{method} {path} with {name}: {value}", partial(server.ask, method, path, JSON, (name, value), body=body))
        for method, path, body in (
            ("POST", CALL, BODY),
            ("POST", "/api/extract", b"{}"),
            ("DELETE", f"/api/views/{NOWHERE}", b""),
        )
        for name, value in _FOREIGN
    ]
    return await judged(tries, status_in(401, 403))


async def _foreign_socket(server: Server) -> Outcome:
    # "Connection: close" comes first in every other request; an opening has to say something else there.
    def opening(path: str, line: str) -> bytes:
        target = server.target
        lines = [f"GET {target.prefix}{path} HTTP/1.1", f"Host: {target.authority}", "Connection: Upgrade", line]
        lines += [f"{name}: {value}" for name, value in (*_UPGRADE, *server.credential)]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    tries = [
        Try(
            f"a WebSocket at {path} with {name}: {value}",
            partial(send, server.target, opening(path, f"{name}: {value}")),
        )
        for path in ("/api/socket", "/services/none")
        for name, value in _FOREIGN
    ]
    return await judged(tries, lambda reply: reply.status != 101 and reply.is_refused)


async def _forms(server: Server) -> Outcome:
    tries = [
        Try(
            f"POST {path} as {kind or 'no type at all'}",
            partial(server.ask, "POST", path, *([("Content-Type", kind)] if kind else []), body=BODY),
        )
        for path in (CALL, "/v1/responses", "/api/extract")
        for kind in _FORMS
    ]
    return await judged(tries, status_in(415))


async def _cors(server: Server) -> Outcome:
    wish = [("Origin", _PAGE), ("Access-Control-Request-Method", "POST")]
    wish.append(("Access-Control-Request-Headers", "content-type,authorization"))
    tries = [
        Try(f"{method} {path} with Origin: {_PAGE}", partial(server.ask, method, path, *headers))
        for method, path, headers in (
            ("OPTIONS", CALL, wish),
            ("OPTIONS", "/api/workflows", wish),
            ("GET", "/health", wish[:1]),
            ("GET", "/v1/models", wish[:1]),
        )
    ]
    return await judged(tries, lambda reply: not any(name.startswith("access-control-") for name in reply.headers))


async def _forwarded(server: Server) -> Outcome:
    tries = [
        Try(f"GET {path} with X-Forwarded-Host: {NOWHERE}", partial(server.ask, "GET", path, *_FORWARDED))
        for path in ("/", "/openapi.json", "/api/bootstrap", "/services")
    ]
    told = await judged(tries, lambda reply: bool(reply.status) and not reply.holds(NOWHERE))
    if told.verdict == "broken" or not server.target.is_loopback:
        return told
    headers = [("X-Forwarded-Host", "localhost"), ("Forwarded", "host=localhost")]
    sent = f"GET /health with Host: {NOWHERE} and X-Forwarded-Host: localhost"
    hidden = partial(ask, server.target, "GET", "/health", headers, host=NOWHERE)
    outcome = await judged([Try(sent, hidden)], status_in(400, 403, 421))
    return outcome if outcome.verdict == "broken" else told


async def _paths(server: Server) -> Outcome:
    tries = [
        Try(f"GET {path}", partial(server.ask, "GET", path))
        for name in ("health", "livez", "v1/models")
        for path in _spellings(name)
    ]
    return await judged(tries, _is_refused)


def _spellings(name: str) -> list[str]:
    """Other ways to write a path, of which some reader somewhere takes each for the plain one."""
    before = [f"{start}{name}" for start in ("//", "/./", "/x/../", "/%2e%2e/", "/%2f", "/%25", "\\")]
    return before + [f"/{name}{end}" for end in (";a=b", ".", "%00", "%5c")]


ATTACKS = (
    Attack("foreign-host", "S1.2", "a page cannot make its own name lead here", _foreign_host),
    Attack("one-host", "S1.2", "a request has exactly one Host", _hosts),
    Attack("foreign-page", "S1.3", "pages of other origins change nothing", _foreign_page),
    Attack("foreign-socket", "S1.3", "pages of other origins open no WebSocket", _foreign_socket),
    Attack("form-posts", "S1.4", "what a form can post is not read", _forms, "a caller"),
    Attack("cors", "S1.5", "no other origin is let in by CORS", _cors),
    Attack("forwarded", "S1.6", "strangers cannot say where a request comes from", _forwarded),
    Attack("one-spelling", "S1.7", "a path has one spelling", _paths),
)
