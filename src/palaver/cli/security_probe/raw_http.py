"""One request on a connection of its own, byte for byte: a client that keeps the rules could not send half of these."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import NamedTuple

from palaver.errors import UpstreamFailed
from palaver.outbound import check_url, printable
from palaver.outbound.http import ssl_context

_TIMEOUT_S = 10.0
_MAX_REPLY_BYTES = 256 * 1024
_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)

Headers = Sequence[tuple[str, str]]


class Target(NamedTuple):
    """The server that is asked."""

    scheme: str
    host: str
    port: int
    prefix: str
    """What stands before every path, where a proxy adds something."""

    @property
    def authority(self) -> str:
        """As the Host header says it."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == {"http": 80, "https": 443}[self.scheme] else f"{name}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Is it on this machine, by its name alone?"""
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False


class RawReply(NamedTuple):
    """What came back."""

    status: int
    """0: nothing that is HTTP."""
    headers: Mapping[str, str]
    """By names in lower case; of several, all, with line breaks between."""
    body: bytes
    fault: str = ""

    @property
    def told(self) -> str:
        """In a few words."""
        return self.fault or str(self.status)

    @property
    def is_refused(self) -> bool:
        """Was it turned away, by an answer or by hanging up?"""
        return self.fault == CLOSED or 400 <= self.status < 500 or self.status == 501

    def holds(self, text: str) -> bool:
        """Does it say that anywhere?"""
        return text.encode() in self.body or any(text in f"{name}: {value}" for name, value in self.headers.items())


CLOSED = "it hung up"


def parse_target(url: str) -> Target:
    """The server that a URL means."""
    import httpx

    check_url(url)
    parts = httpx.URL(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return Target(parts.scheme, parts.host, port, parts.path.rstrip("/"))


async def require_reachable(target: Target) -> None:
    """Raise if nobody listens there."""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            _, writer = await _connect(target)
            writer.close()
    except (OSError, TimeoutError) as error:
        why = printable(str(error)) or f"no answer within {_TIMEOUT_S:g} s"
        raise UpstreamFailed(f"{target.scheme}://{target.authority} cannot be reached: {why}.") from None


async def send_request(
    target: Target, method: str, path: str, headers: Headers = (), body: bytes = b"", *, host: str | None = None
) -> RawReply:
    """One request, and its answer. `host`: what the Host header says instead; empty: there is none.

    Every request that has a body says how long it is, unless it says so itself.
    """
    own = target.authority if host is None else host
    lines = [f"{method} {target.prefix}{path} HTTP/1.1", *([f"Host: {own}"] if own else []), "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body and not {name.lower() for name, _ in headers} & {"content-length", "transfer-encoding"}:
        lines.append(f"Content-Length: {len(body)}")
    return await send_raw(target, "\r\n".join([*lines, "", ""]).encode("latin-1") + body)


async def send_raw(target: Target, raw: bytes) -> RawReply:
    """Those bytes, and what is answered."""
    received = bytearray()
    fault = ""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            reader, writer = await _connect(target)
            try:
                writer.write(raw)
                with suppress(ConnectionError):  # It may answer and hang up before it has read all.
                    await writer.drain()
                while len(received) < _MAX_REPLY_BYTES and not _is_complete(received):
                    piece = await reader.read(65_536)
                    if not piece:
                        break
                    received += piece
            finally:
                writer.close()
    except TimeoutError:
        fault = f"no whole answer within {_TIMEOUT_S:g} s"
    except OSError:
        fault = CLOSED
    return _parse_reply(bytes(received), fault)


async def _connect(target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(
        target.host, target.port, ssl=ssl_context() if target.scheme == "https" else None
    )


def _is_complete(received: bytearray) -> bool:
    head, end, body = received.partition(b"\r\n\r\n")
    if not end:
        return False
    length = _CONTENT_LENGTH.search(head)
    if b"\r\ntransfer-encoding: chunked" in head.lower():
        return body.endswith(b"0\r\n\r\n")
    return head.startswith((b"HTTP/1.1 101", b"HTTP/1.0 101")) or (length is not None and len(body) >= int(length[1]))


def _parse_reply(received: bytes, fault: str) -> RawReply:
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    found = re.match(r"HTTP/1\.[01] (\d{3})", first)
    if found is None:
        return RawReply(0, {}, b"", fault or CLOSED)
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name = name.strip().lower()
        headers[name] = f"{headers[name]}\n{value.strip()}" if name in headers else value.strip()
    return RawReply(int(found[1]), headers, body, fault)
