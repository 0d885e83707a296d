"""Attacks, their requirements and attempts. The first attempt that is not rejected makes an attack `broken`."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import Any, Literal, NamedTuple

import msgspec

from palaver.cli.output import error_reason
from palaver.core import json
from palaver.errors import UpstreamFailed
from palaver.outbound import check_url, printable
from palaver.outbound.ssrf import ssl_context

_TIMEOUT_S = 10.0
_MAX_REPLY_BYTES = 256 * 1024
_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)

Headers = Sequence[tuple[str, str]]


class Target(NamedTuple):
    scheme: str
    host: str
    port: int
    prefix: str
    """The path below which the server is, behind a proxy; may be empty."""

    @property
    def authority(self) -> str:
        """Value of the Host header."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == {"http": 80, "https": 443}[self.scheme] else f"{name}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False


class RawReply(NamedTuple):
    status: int
    """0 if the reply is not HTTP."""
    headers: Mapping[str, str]
    """Header values by lower-case name; values of repeated headers are joined by newlines."""
    body: bytes
    fault: str = ""

    @property
    def summary(self) -> str:
        return self.fault or str(self.status)

    @property
    def document(self) -> Any:
        """The body as JSON, or as text if it is none."""
        return json.parse_or_text(self.body.decode("utf-8", "replace"))

    def contains(self, text: str) -> bool:
        return text.encode() in self.body or any(text in f"{name}: {value}" for name, value in self.headers.items())


CONNECTION_CLOSED = "connection closed"


def parse_target(url: str) -> Target:
    import httpx

    check_url(url)
    parts = httpx.URL(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return Target(parts.scheme, parts.host, port, parts.path.rstrip("/"))


async def require_reachable(target: Target) -> None:
    """Raise UpstreamFailed if no connection can be opened."""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            _, writer = await _connect(target)
            writer.close()
    except (OSError, TimeoutError) as error:
        is_timeout = isinstance(error, TimeoutError)
        reason = f"no response within {_TIMEOUT_S:g} s" if is_timeout else printable(error_reason(error))
        raise UpstreamFailed(f"Cannot reach {target.scheme}://{target.authority}: {reason}.") from None


async def send_request(
    target: Target, method: str, path: str, headers: Headers = (), body: bytes = b"", *, host: str | None = None
) -> RawReply:
    """Send one request. `host` replaces the Host header; "" omits it.

    A body gets a Content-Length, unless the headers have a length or encoding.
    """
    host_header = target.authority if host is None else host
    lines = [
        f"{method} {target.prefix}{path} HTTP/1.1",
        *([f"Host: {host_header}"] if host_header else []),
        "Connection: close",
    ]
    lines += [f"{name}: {value}" for name, value in headers]
    if body and not {name.lower() for name, _ in headers} & {"content-length", "transfer-encoding"}:
        lines.append(f"Content-Length: {len(body)}")
    return await send_raw(target, "\r\n".join([*lines, "", ""]).encode("latin-1") + body)


async def send_raw(target: Target, raw: bytes) -> RawReply:
    received = bytearray()
    fault = ""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            reader, writer = await _connect(target)
            try:
                writer.write(raw)
                with suppress(ConnectionError):  # The server may reply and close before it has read all.
                    await writer.drain()
                while len(received) < _MAX_REPLY_BYTES and not _is_complete(received):
                    chunk = await reader.read(65_536)
                    if not chunk:
                        break
                    received += chunk
            finally:
                writer.close()
    except TimeoutError:
        fault = f"no complete response within {_TIMEOUT_S:g} s"
    except OSError:
        fault = CONNECTION_CLOSED
    return _parse_reply(bytes(received), fault)


async def _connect(target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(
        target.host, target.port, ssl=ssl_context() if target.scheme == "https" else None
    )


def _is_complete(received: bytearray) -> bool:
    head, separator, body = received.partition(b"\r\n\r\n")
    if not separator:
        return False
    length = _CONTENT_LENGTH.search(head)
    if b"\r\ntransfer-encoding: chunked" in head.lower():
        return body.endswith(b"0\r\n\r\n")
    return head.startswith((b"HTTP/1.1 101", b"HTTP/1.0 101")) or (length is not None and len(body) >= int(length[1]))


def _parse_reply(received: bytes, fault: str) -> RawReply:
    head, _, body = received.partition(b"\r\n\r\n")
    status_line, *lines = head.decode("latin-1").split("\r\n")
    match = re.match(r"HTTP/1\.[01] (\d{3})", status_line)
    if match is None:
        return RawReply(0, {}, b"", fault or CONNECTION_CLOSED)
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name = name.strip().lower()
        headers[name] = f"{headers[name]}\n{value.strip()}" if name in headers else value.strip()
    return RawReply(int(match[1]), headers, body, fault)


Verdict = Literal["held", "broken", "not applicable"]
Requirement = Literal["nothing", "access", "key authentication", "a key"]
"""No requirement; a caller with access; a server that requires keys; a key."""

INVALID_HOST = "palaver-doctor.invalid"
"""A reserved name (RFC 2606)."""
JSON_HEADER = ("Content-Type", "application/json")
CALL_PATH = "/v1/chat/completions"


def call_body(model: str) -> bytes:
    return json.encode({"model": model, "messages": [{"role": "user", "content": "Hi"}]})


CALL_BODY = call_body(INVALID_HOST)
"""A call to a workflow that does not exist."""


class Attempt(NamedTuple):
    request: str
    """A short description of the request."""
    send: Callable[[], Awaitable[RawReply]]


class ProbedServer(NamedTuple):
    target: Target
    key: str | None = None
    wants_key: bool = False
    scopes: frozenset[str] = frozenset()
    """The scopes of `key`."""
    version: str | None = None
    """The version of Palaver; None if the server does not report one."""

    @property
    def has_access(self) -> bool:
        """Whether `key` may invoke and read. Otherwise a rejection proves nothing."""
        return "admin" in self.scopes or {"invoke", "read"} <= self.scopes

    @property
    def credential(self) -> Headers:
        return [("Authorization", f"Bearer {self.key}")] if self.key is not None else []

    @property
    def without_key(self) -> "ProbedServer":
        return self._replace(key=None)

    async def send(
        self, method: str, path: str, *headers: tuple[str, str], body: bytes = b"", host: str | None = None
    ) -> RawReply:
        return await send_request(self.target, method, path, [*self.credential, *headers], body, host=host)

    def attempt(
        self,
        method: str,
        path: str,
        *headers: tuple[str, str],
        note: str = "",
        body: bytes = b"",
        host: str | None = None,
    ) -> Attempt:
        """Prepare a request that is described by its method, its path and `note`."""
        send = partial(self.send, method, path, *headers, body=body, host=host)
        return Attempt(f"{method} {path} {note}".rstrip(), send)


class AttackOutcome(NamedTuple):
    verdict: Verdict
    request: str
    reply: str


class Attack(NamedTuple):
    name: str
    section: str
    """The security requirement that it checks, as in `tests/security`, for example `S1.2`."""
    expectation: str
    """What a secure server does."""
    run: Callable[[ProbedServer], Awaitable[AttackOutcome]]
    needs: Requirement = "nothing"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an attack. The field names are JSON keys of the report."""

    name: str
    says: str
    sent: str
    came: str
    verdict: Verdict


async def run_attempts(attempts: Iterable[Attempt], is_good: Callable[[RawReply], bool]) -> AttackOutcome:
    """Send the attempts in order, up to the first whose reply is not good."""
    first, count, replies = "", 0, dict[str, None]()
    for attempt in attempts:
        reply = await attempt.send()
        if not is_good(reply):
            return AttackOutcome("broken", attempt.request, _describe_reply(reply))
        first, count = first or attempt.request, count + 1
        replies[reply.summary] = None
    return AttackOutcome("held", f"{first} and {count - 1} more" if count > 1 else first, ", ".join(replies))


def _describe_reply(reply: RawReply) -> str:
    body = reply.body.decode("utf-8", "replace").strip()
    return f"{reply.summary}: {body}" if body else reply.summary


def status_in(*allowed_statuses: int) -> Callable[[RawReply], bool]:
    return lambda reply: reply.status in allowed_statuses


def is_refused(reply: RawReply) -> bool:
    """Whether the request was rejected, by a reply or by closing the connection."""
    return reply.fault == CONNECTION_CLOSED or 400 <= reply.status < 500 or reply.status == 501


def not_applicable(reason: str) -> AttackOutcome:
    return AttackOutcome("not applicable", "", reason)


MISSING_REQUIREMENT: Mapping[Requirement, str] = {
    "nothing": "",
    "access": "requires a key with the scopes invoke and read (--key-file or PALAVER_KEY)",
    "key authentication": "the server has no API keys and accepts local connections only",
    "a key": "requires a key (--key-file or PALAVER_KEY)",
}


def _mask_key(key: str | None, text: str) -> str:
    """Remove the key from a text, which may end up in a log."""
    return text.replace(key, "***") if key else text


async def run_attack(attack: Attack, server: ProbedServer) -> Finding:
    """Run an attack, if the server meets its requirement."""
    is_possible = {
        "nothing": True,
        "access": server.has_access,
        "key authentication": server.wants_key,
        "a key": server.key is not None,
    }[attack.needs]
    missing_requirement = attack.needs if server.wants_key else "key authentication"
    outcome = await attack.run(server) if is_possible else not_applicable(MISSING_REQUIREMENT[missing_requirement])
    return Finding(
        name=attack.name,
        says=attack.expectation,
        sent=printable(_mask_key(server.key, outcome.request), 160),
        # Masked before it is truncated, so that no part of a key is left.
        came=printable(_mask_key(server.key, outcome.reply), 160),
        verdict=outcome.verdict,
    )
