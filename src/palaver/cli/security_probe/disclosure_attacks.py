"""Sections 7 and 8: headers of the page, and what replies disclose."""

import re
from functools import partial

from palaver.cli.security_probe.access_attacks import WRONG_KEY
from palaver.cli.security_probe.attack import (
    CALL_BODY,
    CALL_PATH,
    INVALID_HOST,
    JSON_HEADER,
    Attack,
    AttackOutcome,
    Attempt,
    ProbedServer,
    not_applicable,
    run_attempts,
    status_in,
)
from palaver.cli.security_probe.raw_http import RawReply
from palaver.core import json

_ASSET_PATH = re.compile(rb"[\"'](?:[^\"']*/)?(assets/[\w.-]+\.(?:js|css))[\"']")
_LEAKED_TEXTS = ["Traceback (most recent", 'File "', "site-packages", "sqlalchemy", "sqlite3.", "psycopg", "SELECT "]


async def _page_headers(server: ProbedServer) -> AttackOutcome:
    reply = await server.send("GET", "/")
    missing = _missing_headers(reply)
    if missing:
        return AttackOutcome("broken", "GET /", f"{reply.summary}, without a good {', '.join(missing)}")
    return AttackOutcome("held", "GET /", f"{reply.summary}, with all of them")


def _missing_headers(reply: RawReply) -> list[str]:
    """Return the security headers that the page lacks."""
    policy = {
        words[0]: words[1:]
        for part in reply.headers.get("content-security-policy", "").split(";")
        if (words := part.split())
    }
    scripts = policy.get("script-src", policy.get("default-src", ["*"]))
    results = {
        "default-src": policy.get("default-src", ["*"])[0] in ("'none'", "'self'"),
        "script-src": not {"'unsafe-inline'", "'unsafe-eval'", "*"} & set(scripts),
        "frame-ancestors": policy.get("frame-ancestors") == ["'none'"],
        "base-uri": policy.get("base-uri") == ["'none'"],
        "X-Content-Type-Options": _has_header(reply, "x-content-type-options", "nosniff"),
        "Referrer-Policy": _has_header(reply, "referrer-policy", "no-referrer"),
        "Cross-Origin-Opener-Policy": _has_header(reply, "cross-origin-opener-policy", "same-origin"),
    }
    return [name for name, is_good in results.items() if not is_good]


def _has_header(reply: RawReply, name: str, value: str) -> bool:
    return reply.headers.get(name, "").lower() == value


async def _assets(server: ProbedServer) -> AttackOutcome:
    page = await server.send("GET", "/")
    names = sorted({match.decode() for match in _ASSET_PATH.findall(page.body)})[:3]
    if not names:
        return not_applicable("the page loads no files of its own")
    tries = [Attempt(f"GET /{name}", partial(server.send_without_key, "GET", f"/{name}")) for name in names]
    return await run_attempts(
        tries, lambda reply: reply.status == 200 and _has_header(reply, "x-content-type-options", "nosniff")
    )


async def _errors(server: ProbedServer) -> AttackOutcome:
    attempts = [
        Attempt("GET of what is not there", partial(server.send, "GET", f"/{INVALID_HOST}/none")),
        Attempt(f"PUT {CALL_PATH}", partial(server.send, "PUT", CALL_PATH, JSON_HEADER, body=CALL_BODY)),
        Attempt(f"POST {CALL_PATH} of no JSON", partial(server.send, "POST", CALL_PATH, JSON_HEADER, body=b"{")),
        Attempt(f"POST {CALL_PATH} of a list", partial(server.send, "POST", CALL_PATH, JSON_HEADER, body=b"[]")),
        Attempt(
            f"POST {CALL_PATH} of wrong types",
            partial(server.send, "POST", CALL_PATH, JSON_HEADER, body=b'{"model": {}, "messages": 7}'),
        ),
        Attempt("GET /api/runs with a cursor that is none", partial(server.send, "GET", "/api/runs?after=%27%3B--")),
        Attempt("GET /api/traces with a filter that is none", partial(server.send, "GET", "/api/traces?limit=-1")),
    ]
    return await run_attempts(
        attempts, lambda reply: 400 <= reply.status < 500 and not any(map(reply.holds, _LEAKED_TEXTS))
    )


async def _echoed_key(server: ProbedServer) -> AttackOutcome:
    """Uses a wrong key, so that nothing is lost if it ends up in a log."""
    header, login = ("Authorization", f"Bearer {WRONG_KEY}"), json.encode({"key": WRONG_KEY})
    attempts = [
        Attempt(
            f"{method} {path} with a wrong key",
            partial(server.send_without_key, method, path, header, JSON_HEADER, body=body),
        )
        for method, path, body in (
            ("GET", "/api/workflows", b""),
            ("GET", f"/{INVALID_HOST}", b""),
            ("POST", CALL_PATH, CALL_BODY),
            ("POST", CALL_PATH, b"{"),
            ("TRACE", "/health", b""),
            ("GET", "/openapi.json", b""),
        )
    ]
    attempts.append(
        Attempt(
            "PUT /api/session with a wrong key",
            partial(server.send_without_key, "PUT", "/api/session", JSON_HEADER, body=login),
        )
    )
    return await run_attempts(attempts, lambda reply: not reply.holds(WRONG_KEY))


async def _still_healthy(server: ProbedServer) -> AttackOutcome:
    return await run_attempts(
        [Attempt("GET /health", partial(server.send_without_key, "GET", "/health"))], status_in(200)
    )


DISCLOSURE_ATTACKS = (
    Attack("page-headers", "S7.1", "the page runs its own scripts alone, in nobody's frame", _page_headers),
    Attack("file-headers", "S7.1", "no browser guesses what a file of the page is", _assets),
    Attack("errors", "S8.2", "errors give no trace, path or SQL away", _errors, "a caller"),
    Attack("said-back", "S8.1", "no answer says a key back", _echoed_key),
    Attack("still-well", "S4.3", "after all of this it is well", _still_healthy),
)
