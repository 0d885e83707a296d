"""Attacks on access: hosts, origins, forwarded headers and paths; keys, logging in and its cookie."""

from functools import partial

from palaver.cli.security_probe.attack import (
    CALL_BODY,
    CALL_PATH,
    INVALID_HOST,
    JSON_HEADER,
    MISSING_REQUIREMENT,
    Attack,
    AttackOutcome,
    Attempt,
    ProbedServer,
    is_refused,
    not_applicable,
    run_attempts,
    send_raw,
    status_in,
)
from palaver.core import json

_FOREIGN_ORIGIN = f"https://{INVALID_HOST}"
_FOREIGN_HEADERS = [("Origin", _FOREIGN_ORIGIN), ("Origin", "null"), ("Sec-Fetch-Site", "cross-site")]
_FORM_TYPES = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
_FORM_HEADERS = {**{f"as {name}": [("Content-Type", name)] for name in _FORM_TYPES}, "without a content type": []}
_FORWARDED_HEADERS = [
    ("X-Forwarded-Host", INVALID_HOST),
    ("X-Forwarded-For", "203.0.113.9"),
    ("X-Forwarded-Proto", "https"),
    ("Forwarded", f"for=203.0.113.9;host={INVALID_HOST};proto=https"),
]
_UPGRADE_HEADERS = [
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
]


async def _foreign_host(server: ProbedServer) -> AttackOutcome:
    if not server.target.is_loopback:
        return not_applicable("public servers rely on their proxy to check the Host header")
    paths = ["/health", "/", "/api/workflows", "/v1/models", "/assets/none.js"]
    requests = [(path, INVALID_HOST) for path in paths]
    requests += [("/health", f"localhost.{INVALID_HOST}"), ("/health", "127.0.0.1:1")]
    attempts = [
        server.without_key.attempt("GET", path, host=host, note=f"with Host: {host}") for path, host in requests
    ]
    return await run_attempts(attempts, status_in(400, 403, 421))


async def _one_host(server: ProbedServer) -> AttackOutcome:
    attempts = [
        server.without_key.attempt("GET", "/health", host="", note="without a Host header"),
        server.without_key.attempt("GET", "/health", ("Host", server.target.authority), note="with two Host headers"),
    ]
    return await run_attempts(attempts, is_refused)


async def _foreign_page(server: ProbedServer) -> AttackOutcome:
    attempts = [
        server.attempt(method, path, JSON_HEADER, (name, value), body=body, note=f"with {name}: {value}")
        for method, path, body in (
            ("POST", CALL_PATH, CALL_BODY),
            ("POST", "/api/extract", b"{}"),
            ("DELETE", f"/api/views/{INVALID_HOST}", b""),
        )
        for name, value in _FOREIGN_HEADERS
    ]
    return await run_attempts(attempts, status_in(401, 403))


async def _foreign_socket(server: ProbedServer) -> AttackOutcome:
    # Other requests begin with "Connection: close"; an upgrade needs another value.
    def upgrade_request(path: str, header_line: str) -> bytes:
        target = server.target
        lines = [f"GET {target.prefix}{path} HTTP/1.1", f"Host: {target.authority}", "Connection: Upgrade", header_line]
        lines += [f"{name}: {value}" for name, value in (*_UPGRADE_HEADERS, *server.credential)]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    attempts = [
        Attempt(
            f"WebSocket at {path} with {name}: {value}",
            partial(send_raw, server.target, upgrade_request(path, f"{name}: {value}")),
        )
        for path in ("/api/socket", "/services/none")
        for name, value in _FOREIGN_HEADERS
    ]
    return await run_attempts(attempts, lambda reply: reply.status != 101 and is_refused(reply))


async def _forms(server: ProbedServer) -> AttackOutcome:
    attempts = [
        server.attempt("POST", path, *headers, body=CALL_BODY, note=note)
        for path in (CALL_PATH, "/v1/responses", "/api/extract")
        for note, headers in _FORM_HEADERS.items()
    ]
    return await run_attempts(attempts, status_in(415))


async def _cors(server: ProbedServer) -> AttackOutcome:
    preflight = [("Origin", _FOREIGN_ORIGIN), ("Access-Control-Request-Method", "POST")]
    preflight.append(("Access-Control-Request-Headers", "content-type,authorization"))
    attempts = [
        server.attempt(method, path, *headers, note=f"with Origin: {_FOREIGN_ORIGIN}")
        for method, path, headers in (
            ("OPTIONS", CALL_PATH, preflight),
            ("OPTIONS", "/api/workflows", preflight),
            ("GET", "/health", preflight[:1]),
            ("GET", "/v1/models", preflight[:1]),
        )
    ]
    return await run_attempts(
        attempts, lambda reply: not any(name.startswith("access-control-") for name in reply.headers)
    )


async def _forwarded(server: ProbedServer) -> AttackOutcome:
    attempts = [
        server.attempt("GET", path, *_FORWARDED_HEADERS, note=f"with X-Forwarded-Host: {INVALID_HOST}")
        for path in ("/", "/openapi.json", "/api/bootstrap", "/services")
    ]
    outcome_direct = await run_attempts(attempts, lambda reply: bool(reply.status) and not reply.contains(INVALID_HOST))
    if outcome_direct.verdict == "broken" or not server.target.is_loopback:
        return outcome_direct
    headers = [("X-Forwarded-Host", "localhost"), ("Forwarded", "host=localhost")]
    note = f"with Host: {INVALID_HOST} and X-Forwarded-Host: localhost"
    hidden = server.without_key.attempt("GET", "/health", *headers, host=INVALID_HOST, note=note)
    outcome = await run_attempts([hidden], status_in(400, 403, 421))
    return outcome if outcome.verdict == "broken" else outcome_direct


async def _paths(server: ProbedServer) -> AttackOutcome:
    paths = [path for name in ("health", "livez", "v1/models") for path in _spellings(name)]
    return await run_attempts([server.attempt("GET", path) for path in paths], is_refused)


def _spellings(name: str) -> list[str]:
    """Return other spellings of a path that some servers treat as the plain one."""
    prefixed = [f"{start}{name}" for start in ("//", "/./", "/x/../", "/%2e%2e/", "/%2f", "/%25", "\\")]
    return prefixed + [f"/{name}{end}" for end in (";a=b", ".", "%00", "%5c")]


ORIGIN_ATTACKS = (
    Attack("foreign-host", "S1.2", "rejects foreign Host headers (DNS rebinding)", _foreign_host),
    Attack("single-host-header", "S1.2", "requires exactly one Host header", _one_host),
    Attack("foreign-origin", "S1.3", "rejects state-changing requests from other origins", _foreign_page),
    Attack("foreign-websocket", "S1.3", "rejects WebSockets from other origins", _foreign_socket),
    Attack("form-posts", "S1.4", "rejects form content types", _forms, "access"),
    Attack("cors", "S1.5", "sends no CORS headers to other origins", _cors),
    Attack("forwarded-headers", "S1.6", "ignores forwarded headers from untrusted clients", _forwarded),
    Attack("path-spelling", "S1.7", "rejects alternative spellings of paths", _paths),
)

WRONG_KEY = f"plv_doctor00_{'wr0ng' * 8}"
"""A string in the form of a key that is not valid."""
_SESSION_PATH = "/api/session"
_GET_PATHS = ["/api/workflows", "/api/keys", "/api/traces", "/v1/models", "/version", "/metrics", "/openapi.json"]
_POST_PATHS = [CALL_PATH, "/v1/responses", f"/{INVALID_HOST}/invoke", "/v1/traces", "/services/none"]


async def _no_key(server: ProbedServer) -> AttackOutcome:
    if not server.wants_key and not server.target.is_loopback:
        return AttackOutcome("broken", f"GET {_SESSION_PATH} without a key", "200: every client has full access")
    if not server.wants_key:
        return not_applicable(MISSING_REQUIREMENT["key authentication"])
    attempt = partial(server.without_key.attempt, note="without a key")
    attempts = [attempt("GET", path) for path in _GET_PATHS]
    attempts += [attempt("POST", path, JSON_HEADER, body=CALL_BODY) for path in _POST_PATHS]
    return await run_attempts(attempts, status_in(401))


async def _wrong_key(server: ProbedServer) -> AttackOutcome:
    headers = [
        ("Authorization", f"Bearer {WRONG_KEY}"),
        ("Authorization", f"ApiKey {WRONG_KEY}"),
        ("x-api-key", WRONG_KEY),
        ("api-key", WRONG_KEY),
        ("Authorization", "Bearer "),
        ("Authorization", "Bearer plv_"),
        ("Authorization", f"Bearer {'x' * 2000}"),
        ("Authorization", "Bearer clé"),
        ("Authorization", "Basic YTpi"),
        ("Cookie", f"palaver={'x' * 43}; __Host-palaver={'x' * 43}"),
    ]
    attempts = [
        server.without_key.attempt("GET", path, (name, value), note=f"with {name}: {value[:20]}…")
        for name, value in headers
        for path in ("/api/workflows", "/v1/models")
    ]
    return await run_attempts(attempts, status_in(401))


async def _two_keys(server: ProbedServer) -> AttackOutcome:
    note = "with a valid and an invalid key"
    attempt = server.attempt("GET", "/api/workflows", ("x-api-key", WRONG_KEY), note=note)
    return await run_attempts([attempt], status_in(400, 401))


async def _wrong_login(server: ProbedServer) -> AttackOutcome:
    body, note = json.encode({"key": WRONG_KEY}), "with an invalid key, once"
    attempt = server.without_key.attempt("POST", _SESSION_PATH, JSON_HEADER, body=body, note=note)
    return await run_attempts([attempt], lambda reply: reply.status in (401, 429) and "set-cookie" not in reply.headers)


async def _cookie(server: ProbedServer) -> AttackOutcome:
    """Log in, check the cookie, and log out again."""
    request = f"POST {_SESSION_PATH} with the key, then DELETE {_SESSION_PATH}"
    visitor = server.without_key
    reply = await visitor.send("POST", _SESSION_PATH, JSON_HEADER, body=json.encode({"key": server.key}))
    cookie = reply.headers.get("set-cookie", "")
    pair, *attributes = (part.strip() for part in cookie.split(";"))
    if not cookie:
        return AttackOutcome("broken", request, f"{reply.summary}, no cookie")
    flags = {flag.lower() for flag in attributes}
    required = {"httponly", "samesite=strict"}
    if not server.target.is_loopback:
        required.add("secure")
    missing = sorted(required - flags)
    logout = await visitor.send("DELETE", _SESSION_PATH, ("Cookie", pair))
    reply_after = await visitor.send("GET", _SESSION_PATH, ("Cookie", pair))
    if missing:
        return AttackOutcome("broken", request, f"a cookie without {', '.join(missing)}")
    if reply_after.status != 401:
        return AttackOutcome(
            "broken", request, f"logout: {logout.summary}; old cookie afterwards: {reply_after.summary}"
        )
    return AttackOutcome("held", request, f"a cookie with {', '.join(sorted(flags & required))}; 401 after logout")


CREDENTIAL_ATTACKS = (
    Attack("no-key", "S2.1", "rejects all requests without a key", _no_key),
    Attack("wrong-key", "S2.2", "rejects invalid credentials in any form", _wrong_key, "key authentication"),
    Attack("conflicting-keys", "S2.3", "rejects conflicting credentials", _two_keys, "a key"),
    Attack("wrong-login", "S2.8", "rejects logins with an invalid key", _wrong_login),
    Attack("session-cookie", "S2.7", "protects the session cookie and revokes it on logout", _cookie, "a key"),
)
