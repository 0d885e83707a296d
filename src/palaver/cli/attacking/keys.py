"""Section 2: keys, logging in, and the cookie that it gives."""

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
    status_in,
)
from palaver.core import json

WRONG = f"plv_doctor00_{'wr0ng' * 8}"
"""Made like a key, and nobody's."""
_SESSION = "/api/session"
_LOOKED_AT = ["/api/workflows", "/api/keys", "/api/traces", "/v1/models", "/version", "/metrics", "/openapi.json"]
_CALLED = [CALL, "/v1/responses", f"/{NOWHERE}/invoke", "/v1/traces", "/services/none"]


async def _no_key(server: Server) -> Outcome:
    if not server.wants_key and not server.target.is_loopback:
        return Outcome("broken", f"GET {_SESSION} without a key", "200: whoever can reach it may do everything")
    if not server.wants_key:
        return Outcome("not applicable", "", "no key was ever given out there, and only this machine can reach it")
    tries = [Try(f"GET {path} without a key", partial(server.ask_as_stranger, "GET", path)) for path in _LOOKED_AT]
    tries += [
        Try(f"POST {path} without a key", partial(server.ask_as_stranger, "POST", path, JSON, body=BODY))
        for path in _CALLED
    ]
    return await judged(tries, status_in(401))


async def _wrong_key(server: Server) -> Outcome:
    shown = [
        ("Authorization", f"Bearer {WRONG}"),
        ("Authorization", f"ApiKey {WRONG}"),
        ("x-api-key", WRONG),
        ("api-key", WRONG),
        ("Authorization", "Bearer "),
        ("Authorization", "Bearer plv_"),
        ("Authorization", f"Bearer {'x' * 2000}"),
        ("Authorization", "Bearer clé"),
        ("Authorization", "Basic YTpi"),
        ("Cookie", f"palaver={'x' * 43}; __Host-palaver={'x' * 43}"),
    ]
    tries = [
        Try(f"GET {path} with {name}: {value[:20]}…", partial(server.ask_as_stranger, "GET", path, (name, value)))
        for name, value in shown
        for path in ("/api/workflows", "/v1/models")
    ]
    return await judged(tries, status_in(401))


async def _two_keys(server: Server) -> Outcome:
    both = partial(server.ask, "GET", "/api/workflows", ("x-api-key", WRONG))
    return await judged([Try("GET /api/workflows with a good key and a wrong one", both)], status_in(400, 401))


async def _wrong_login(server: Server) -> Outcome:
    body = json.encode({"key": WRONG})
    send = partial(server.ask_as_stranger, "POST", _SESSION, JSON, body=body)
    sent = f"POST {_SESSION} with a wrong key, once"
    return await judged(
        [Try(sent, send)], lambda reply: reply.status in (401, 429) and "set-cookie" not in reply.headers
    )


async def _cookie(server: Server) -> Outcome:
    """Log in, look at the cookie, and log out again."""
    sent = f"POST {_SESSION} with the key, then DELETE {_SESSION}"
    reply = await server.ask_as_stranger("POST", _SESSION, JSON, body=json.encode({"key": server.key}))
    told = reply.headers.get("set-cookie", "")
    pair, *rest = (part.strip() for part in told.split(";"))
    if not told:
        return Outcome("broken", sent, f"{reply.told}, and no cookie")
    flags = {flag.lower() for flag in rest}
    wanted = {"httponly", "samesite=strict"}
    if not server.target.is_loopback:
        wanted.add("secure")
    missing = sorted(wanted - flags)
    left = await server.ask_as_stranger("DELETE", _SESSION, ("Cookie", pair))
    after = await server.ask_as_stranger("GET", _SESSION, ("Cookie", pair))
    if missing:
        return Outcome("broken", sent, f"a cookie without {', '.join(missing)}")
    if after.status != 401:
        return Outcome("broken", sent, f"logging out: {left.told}; with the old cookie then: {after.told}")
    return Outcome("held", sent, f"a cookie with {', '.join(sorted(flags & wanted))}; after logging out 401")


ATTACKS = (
    Attack("no-key", "S2.1", "without a key nothing is told, read or run", _no_key),
    Attack("wrong-key", "S2.2", "a wrong key is no key, however it is sent", _wrong_key, "a keyed server"),
    Attack("two-keys", "S2.3", "two different credentials are none", _two_keys, "a key"),
    Attack("wrong-login", "S2.8", "a wrong key does not log in", _wrong_login),
    Attack("cookie", "S2.7", "no script and no other site gets the cookie; logging out ends it", _cookie, "a key"),
)
