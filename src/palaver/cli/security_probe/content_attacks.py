"""Attacks by content: names, paths, headers, bodies, histories and URLs; data that pages and errors reveal."""

import re
from functools import partial
from typing import Any

from palaver.cli.security_probe.access_attacks import WRONG_KEY
from palaver.cli.security_probe.attack import (
    CALL_BODY,
    CALL_PATH,
    INVALID_HOST,
    JSON_HEADER,
    Attack,
    AttackOutcome,
    Attempt,
    Headers,
    ProbedServer,
    RawReply,
    call_body,
    is_refused,
    not_applicable,
    run_attempts,
    send_raw,
    status_in,
)
from palaver.core import json

_ASSET_PATH = re.compile(rb"[\"'](?:[^\"']*/)?(assets/[\w.-]+\.(?:js|css))[\"']")
_LEAKED_TEXTS = ["Traceback (most recent", 'File "', "site-packages", "sqlalchemy", "sqlite3.", "psycopg", "SELECT "]


async def _page_headers(server: ProbedServer) -> AttackOutcome:
    reply = await server.send("GET", "/")
    missing = _missing_headers(reply)
    if missing:
        return AttackOutcome("broken", "GET /", f"{reply.summary}, missing or weak: {', '.join(missing)}")
    return AttackOutcome("held", "GET /", f"{reply.summary}, all present")


def _missing_headers(reply: RawReply) -> list[str]:
    """Return the security headers and policies that the page lacks."""
    policy = {
        tokens[0]: tokens[1:]
        for part in reply.headers.get("content-security-policy", "").split(";")
        if (tokens := part.split())
    }
    scripts = policy.get("script-src", policy.get("default-src", ["*"]))
    checks = {
        "default-src": policy.get("default-src", ["*"])[0] in ("'none'", "'self'"),
        "script-src": not {"'unsafe-inline'", "'unsafe-eval'", "*"} & set(scripts),
        "frame-ancestors": policy.get("frame-ancestors") == ["'none'"],
        "base-uri": policy.get("base-uri") == ["'none'"],
        "X-Content-Type-Options": _has_header(reply, "x-content-type-options", "nosniff"),
        "Referrer-Policy": _has_header(reply, "referrer-policy", "no-referrer"),
        "Cross-Origin-Opener-Policy": _has_header(reply, "cross-origin-opener-policy", "same-origin"),
    }
    return [name for name, is_good in checks.items() if not is_good]


def _has_header(reply: RawReply, name: str, value: str) -> bool:
    return reply.headers.get(name, "").lower() == value


async def _assets(server: ProbedServer) -> AttackOutcome:
    page = await server.send("GET", "/")
    names = sorted({match.decode() for match in _ASSET_PATH.findall(page.body)})[:3]
    if not names:
        return not_applicable("the web interface loads no asset files")
    attempts = [server.without_key.attempt("GET", f"/{name}") for name in names]
    return await run_attempts(
        attempts, lambda reply: reply.status == 200 and _has_header(reply, "x-content-type-options", "nosniff")
    )


async def _errors(server: ProbedServer) -> AttackOutcome:
    attempts = [
        Attempt("GET an unknown path", partial(server.send, "GET", f"/{INVALID_HOST}/none")),
        server.attempt("PUT", CALL_PATH, JSON_HEADER, body=CALL_BODY),
        _call_attempt(server, b"{", "with invalid JSON"),
        _call_attempt(server, b"[]", "with a list"),
        _call_attempt(server, b'{"model": {}, "messages": 7}', "with wrong types"),
        Attempt("GET /api/runs with an invalid cursor", partial(server.send, "GET", "/api/runs?after=%27%3B--")),
        Attempt("GET /api/traces with an invalid limit", partial(server.send, "GET", "/api/traces?limit=-1")),
    ]
    return await run_attempts(
        attempts, lambda reply: 400 <= reply.status < 500 and not any(map(reply.contains, _LEAKED_TEXTS))
    )


def _call_attempt(server: ProbedServer, body: bytes, note: str) -> Attempt:
    return server.attempt("POST", CALL_PATH, JSON_HEADER, body=body, note=note)


async def _echoed_key(server: ProbedServer) -> AttackOutcome:
    """Send a wrong key, which may safely end up in a log, and search the replies for it."""
    header, login = ("Authorization", f"Bearer {WRONG_KEY}"), json.encode({"key": WRONG_KEY})
    attempt = partial(server.without_key.attempt, note="with an invalid key")
    attempts = [
        attempt(method, path, header, JSON_HEADER, body=body)
        for method, path, body in (
            ("GET", "/api/workflows", b""),
            ("GET", f"/{INVALID_HOST}", b""),
            ("POST", CALL_PATH, CALL_BODY),
            ("POST", CALL_PATH, b"{"),
            ("TRACE", "/health", b""),
            ("GET", "/openapi.json", b""),
        )
    ]
    attempts.append(attempt("PUT", "/api/session", JSON_HEADER, body=login))
    return await run_attempts(attempts, lambda reply: not reply.contains(WRONG_KEY))


async def _still_healthy(server: ProbedServer) -> AttackOutcome:
    return await run_attempts([server.without_key.attempt("GET", "/health")], status_in(200))


DISCLOSURE_ATTACKS = (
    Attack("page-headers", "S7.1", "sends strict security headers with the web interface", _page_headers),
    Attack("file-headers", "S7.1", "disables content sniffing for the web interface's files", _assets),
    Attack("error-details", "S8.2", "reveals no stack traces, paths or SQL in errors", _errors, "access"),
    Attack("echoed-key", "S8.1", "never echoes a key", _echoed_key),
    Attack("still-healthy", "S4.3", "is still healthy after all checks", _still_healthy),
)

_CODE_NAMES = ["os:system", "builtins:eval", "../x", "__class__", "palaver.testing:echo"]
_PARENT_PATHS = ["..%2f", "../", "%2e%2e/", "..%5c", "....//", "..%252f", "%c0%ae%c0%ae/"]
_INJECTED_HEADER = "x-palaver-doctor"


async def _code_names(server: ProbedServer) -> AttackOutcome:
    attempts = [_call_attempt(server, call_body(name), f"for model {name}") for name in _CODE_NAMES]
    attempts += [
        server.attempt("POST", f"/{name}/invoke", JSON_HEADER, body=b'{"inputs":{}}')
        for name in ("os:system", "builtins:eval", "__class__")
    ]
    return await run_attempts(attempts, status_in(400, 404, 422))


async def _file_paths(server: ProbedServer) -> AttackOutcome:
    names = [f"{parent * 8}etc/passwd" for parent in _PARENT_PATHS]
    names += ["/etc/passwd", "%2fetc%2fpasswd", "..%2f__init__.py", "index.html%00.js", "C:%5cWindows%5cwin.ini"]
    attempts = [server.attempt("GET", f"/assets/{name}") for name in names]
    outcome = await run_attempts(attempts, lambda reply: is_refused(reply) and b"root:" not in reply.body)
    if outcome.verdict == "broken":  # The content of such a file must not end up in a log.
        return outcome._replace(reply=f"{outcome.reply.partition(':')[0]}, body not shown")
    return outcome


async def _header_lines(server: ProbedServer) -> AttackOutcome:
    target = server.target
    head = f"GET {target.prefix}/health HTTP/1.1\r\nHost: {target.authority}\r\nConnection: close\r\n"
    escaped_paths = [
        f"/health%0d%0a{_INJECTED_HEADER}:%201",
        f"/health?a=%0d%0a{_INJECTED_HEADER}:%201",
        f"/%0d%0a{_INJECTED_HEADER}:%201",
    ]
    attempts = [server.attempt("GET", path) for path in escaped_paths]
    outcome = await run_attempts(attempts, lambda reply: bool(reply.summary) and _INJECTED_HEADER not in reply.headers)
    if outcome.verdict == "broken":
        return outcome
    values = {"CR": "a\rb", "LF": "a\nb: c", "NUL": "a\0b"}
    requests = {
        f"GET /health with {key} in a header": f"{head}x-doctor: {text}\r\n\r\n" for key, text in values.items()
    }
    requests["GET /health with a folded header"] = f"{head}x-doctor: a\r\n b\r\n\r\n"
    requests["GET /health with a space before the colon"] = f"{head}x-doctor : a\r\n\r\n"
    raw_attempts = [Attempt(name, partial(send_raw, target, text.encode("latin-1"))) for name, text in requests.items()]
    return await run_attempts(raw_attempts, is_refused)


INJECTION_ATTACKS = (
    Attack("code-injection", "S3.1", "never imports or calls code that a request names", _code_names, "access"),
    Attack("path-traversal", "S3.2", "serves no files outside the web interface's assets", _file_paths),
    Attack("header-injection", "S1.7", "prevents header injection", _header_lines),
)

_KIB = 1024
_ODD_BODIES = {
    "a truncated document": b'{"model": ',
    "NaN": b'{"model": NaN}',
    "an infinite number": b'{"model": 1e999999}',
    "invalid UTF-8": b'{"model": "\xff\xfe"}',
    "a lone surrogate": b'{"model": "\\ud800"}',
    "a control character in a key": b'{"mod\\u0000el": "x"}',
    "two documents": b"{}{}",
    "50,000 nested lists": b"[" * 50_000,
    "500 nested objects": b'{"a":' * 500 + b"1" + b"}" * 500,
}


async def _odd_json(server: ProbedServer) -> AttackOutcome:
    attempts = [
        server.attempt("POST", path, JSON_HEADER, body=body, note=f"with {name}")
        for path in (CALL_PATH, "/api/extract")
        for name, body in _ODD_BODIES.items()
    ]
    return await run_attempts(attempts, status_in(400, 413, 422))


async def _two_lengths(server: ProbedServer) -> AttackOutcome:
    headers_by_name: dict[str, Headers] = {
        "Content-Length and Transfer-Encoding": [("Content-Length", "4"), ("Transfer-Encoding", "chunked")],
        "two Content-Length headers": [("Content-Length", "4"), ("Content-Length", "5")],
        "a Content-Length of +4": [("Content-Length", "+4")],
        "an unknown Transfer-Encoding": [("Transfer-Encoding", "xchunked")],
    }
    attempts = [
        server.attempt("POST", CALL_PATH, JSON_HEADER, *headers, body=b"0\r\n\r\n", note=f"with {name}")
        for name, headers in headers_by_name.items()
    ]
    return await run_attempts(attempts, lambda reply: is_refused(reply) and reply.status not in (404, 405))


async def _large_body(server: ProbedServer) -> AttackOutcome:
    """Announce a size without sending the body."""
    attempts = [
        server.attempt(
            "POST", path, JSON_HEADER, ("Content-Length", str(size)), note=f"with a Content-Length of {size:,}"
        )
        for path in (CALL_PATH, "/api/extract")
        for size in (10**12, 10**18)
    ]
    return await run_attempts(attempts, status_in(400, 413))


async def _large_head(server: ProbedServer) -> AttackOutcome:
    many_headers = [(f"x-{number}", "1") for number in range(200)]
    attempts = [
        Attempt("GET /health?aaa… (32 KiB)", partial(server.send, "GET", f"/health?{'a' * 32 * _KIB}")),
        server.attempt("GET", "/health", ("x-long", "a" * 64 * _KIB), note="with a 64 KiB header"),
        server.attempt("GET", "/health", *many_headers, note="with 200 headers"),
    ]
    return await run_attempts(attempts, is_refused)


async def _methods(server: ProbedServer) -> AttackOutcome:
    """Send unknown methods. A server that answers TRACE echoes the request, including credentials."""
    attempts = [
        server.without_key.attempt(method, path, JSON_HEADER, body=CALL_BODY)
        for method in ("TRACE", "PALAVER", "PROPFIND", "get")
        for path in ("/health", CALL_PATH)
    ]
    return await run_attempts(attempts, is_refused)


BODY_ATTACKS = (
    Attack("malformed-json", "S4.1", "rejects malformed and deeply nested JSON", _odd_json, "access"),
    Attack("request-smuggling", "S4.2", "rejects ambiguous body lengths", _two_lengths),
    Attack("large-body", "S4.3", "rejects oversized bodies before reading them", _large_body, "access"),
    Attack("large-headers", "S4.3", "rejects oversized URLs and headers", _large_head),
    Attack("unknown-methods", "S1.4", "rejects unknown methods, including TRACE", _methods),
)

_FILE_URLS = ["file:///etc/passwd", "ftp://127.0.0.1:1/x", "gopher://127.0.0.1:1/x", "javascript:alert(1)"]
_INTERNAL_URLS = [
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


async def _histories(server: ProbedServer) -> AttackOutcome:
    model = await _first_model(server)
    if model is None:
        return not_applicable("/v1/models lists no chat")

    def chat_body(*messages: Any) -> bytes:
        return json.encode({"model": model, "messages": messages})

    bodies = {
        f"a file at {url}": chat_body({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]})
        for url in _FILE_URLS
    }
    bodies["a tool result without a call"] = chat_body({"role": "tool", "tool_call_id": "call_none", "content": "4"})
    attempts = [_call_attempt(server, body, f"with {name}") for name, body in bodies.items()]
    return await run_attempts(attempts, status_in(400, 413, 422))


async def _first_model(server: ProbedServer) -> str | None:
    reply = await server.send("GET", "/v1/models")
    match reply.document:
        case {"data": [{"id": str(name)}, *_]}:
            return name
        case _:
            return None


async def _internal_urls(server: ProbedServer) -> AttackOutcome:
    def attempt(url: str) -> Attempt:
        body = json.encode({"url": url, "dry_run": True})
        send = partial(server.send, "POST", "/api/connections", JSON_HEADER, body=body)
        return Attempt(f"POST /api/connections (dry run) with {url}", send)

    attempts = list(map(attempt, _INTERNAL_URLS))
    first_reply = await attempts[0].send()
    if first_reply.status == 403:
        return not_applicable("connections need a key with the scope admin")
    return await run_attempts(attempts, _is_guarded)


def _is_guarded(reply: RawReply) -> bool:
    """Whether the URL guard rejected the request, rather than a connection having failed."""
    return reply.status == 422 and reply.contains('"url_refused"')


URL_ATTACKS = (
    Attack(
        "invalid-history", "S5.4", "rejects histories with file URLs or unmatched tool results", _histories, "access"
    ),
    Attack("internal-urls", "S6.2", "blocks URLs that lead to internal networks (SSRF)", _internal_urls, "access"),
)
