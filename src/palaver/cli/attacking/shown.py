"""Sections 7 and 8: the headers of the page, and what answers give away."""

import re
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
from palaver.cli.attacking.keys import WRONG
from palaver.cli.attacking.wire import Reply
from palaver.core import json

_ASSET = re.compile(rb"[\"'](?:[^\"']*/)?(assets/[\w.-]+\.(?:js|css))[\"']")
_GIVEN_AWAY = ["Traceback (most recent", 'File "', "site-packages", "sqlalchemy", "sqlite3.", "psycopg", "SELECT "]


async def _page(server: Server) -> Outcome:
    reply = await server.ask("GET", "/")
    missing = _missing(reply)
    if missing:
        return Outcome("broken", "GET /", f"{reply.told}, without a good {', '.join(missing)}")
    return Outcome("held", "GET /", f"{reply.told}, with all of them")


def _missing(reply: Reply) -> list[str]:
    """What the page should say to browsers, and does not."""
    policy = {
        words[0]: words[1:]
        for part in reply.headers.get("content-security-policy", "").split(";")
        if (words := part.split())
    }
    scripts = policy.get("script-src", policy.get("default-src", ["*"]))
    good = {
        "default-src": policy.get("default-src", ["*"])[0] in ("'none'", "'self'"),
        "script-src": not {"'unsafe-inline'", "'unsafe-eval'", "*"} & set(scripts),
        "frame-ancestors": policy.get("frame-ancestors") == ["'none'"],
        "base-uri": policy.get("base-uri") == ["'none'"],
        "X-Content-Type-Options": _is(reply, "x-content-type-options", "nosniff"),
        "Referrer-Policy": _is(reply, "referrer-policy", "no-referrer"),
        "Cross-Origin-Opener-Policy": _is(reply, "cross-origin-opener-policy", "same-origin"),
    }
    return [name for name, is_good in good.items() if not is_good]


def _is(reply: Reply, name: str, value: str) -> bool:
    return reply.headers.get(name, "").lower() == value


async def _assets(server: Server) -> Outcome:
    page = await server.ask("GET", "/")
    names = sorted({found.decode() for found in _ASSET.findall(page.body)})[:3]
    if not names:
        return not_here("the page loads no files of its own")
    tries = [Try(f"GET /{name}", partial(server.ask_as_stranger, "GET", f"/{name}")) for name in names]
    return await judged(tries, lambda reply: reply.status == 200 and _is(reply, "x-content-type-options", "nosniff"))


async def _errors(server: Server) -> Outcome:
    tries = [
        Try("GET of what is not there", partial(server.ask, "GET", f"/{NOWHERE}/none")),
        Try(f"PUT {CALL}", partial(server.ask, "PUT", CALL, JSON, body=BODY)),
        Try(f"POST {CALL} of no JSON", partial(server.ask, "POST", CALL, JSON, body=b"{")),
        Try(f"POST {CALL} of a list", partial(server.ask, "POST", CALL, JSON, body=b"[]")),
        Try(
            f"POST {CALL} of wrong types", partial(server.ask, "POST", CALL, JSON, body=b'{"model": {}, "messages": 7}')
        ),
        Try("GET /api/runs with a cursor that is none", partial(server.ask, "GET", "/api/runs?after=%27%3B--")),
        Try("GET /api/traces with a filter that is none", partial(server.ask, "GET", "/api/traces?limit=-1")),
    ]
    return await judged(tries, lambda reply: 400 <= reply.status < 500 and not any(map(reply.holds, _GIVEN_AWAY)))


async def _said_back(server: Server) -> Outcome:
    """With a key that is wrong: should it be written into somebody's log, nothing is lost."""
    shown, login = ("Authorization", f"Bearer {WRONG}"), json.encode({"key": WRONG})
    tries = [
        Try(f"{method} {path} with a wrong key", partial(server.ask_as_stranger, method, path, shown, JSON, body=body))
        for method, path, body in (
            ("GET", "/api/workflows", b""),
            ("GET", f"/{NOWHERE}", b""),
            ("POST", CALL, BODY),
            ("POST", CALL, b"{"),
            ("TRACE", "/health", b""),
            ("GET", "/openapi.json", b""),
        )
    ]
    tries.append(
        Try(
            "PUT /api/session with a wrong key",
            partial(server.ask_as_stranger, "PUT", "/api/session", JSON, body=login),
        )
    )
    return await judged(tries, lambda reply: not reply.holds(WRONG))


async def _still_well(server: Server) -> Outcome:
    return await judged([Try("GET /health", partial(server.ask_as_stranger, "GET", "/health"))], status_in(200))


ATTACKS = (
    Attack("page-headers", "S7.1", "the page runs its own scripts alone, in nobody's frame", _page),
    Attack("file-headers", "S7.1", "no browser guesses what a file of the page is", _assets),
    Attack("errors", "S8.2", "errors give no trace, path or SQL away", _errors, "a caller"),
    Attack("said-back", "S8.1", "no answer says a key back", _said_back),
    Attack("still-well", "S4.3", "after all of this it is well", _still_well),
)
