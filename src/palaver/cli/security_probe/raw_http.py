"""Send one request on its own connection, byte for byte: standard clients could not send half of these."""

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
    scheme: str
    host: str
    port: int
    prefix: str
    """Path prefix, if a proxy adds one."""

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
    """By lower-case name; repeated headers are joined by newlines."""
    body: bytes
    fault: str = ""

    @property
    def summary(self) -> str:
        return self.fault or str(self.status)

    @property
    def is_refused(self) -> bool:
        """Whether the request was rejected, by a reply or by closing the connection."""
        return self.fault == CLOSED or 400 <= self.status < 500 or self.status == 501

    def holds(self, text: str) -> bool:
        """Whether headers or body contain a text."""
        return text.encode() in self.body or any(text in f"{name}: {value}" for name, value in self.headers.items())


CLOSED = "it hung up"


def parse_target(url: str) -> Target:
    import httpx

    check_url(url)
    parts = httpx.URL(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return Target(parts.scheme, parts.host, port, parts.path.rstrip("/"))


async def require_reachable(target: Target) -> None:
    """Raises UpstreamFailed."""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            _, writer = await _connect(target)
            writer.close()
    except (OSError, TimeoutError) as error:
        reason = printable(str(error)) or f"no answer within {_TIMEOUT_S:g} s"
        raise UpstreamFailed(f"{target.scheme}://{target.authority} cannot be reached: {reason}.") from None


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
    """Send bytes and read the reply."""
    received = bytearray()
    fault = ""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            reader, writer = await _connect(target)
            try:
                writer.write(raw)
                with suppress(ConnectionError):  # It may reply and close before it has read all.
                    await writer.drain()
                while len(received) < _MAX_REPLY_BYTES and not _is_complete(received):
                    chunk = await reader.read(65_536)
                    if not chunk:
                        break
                    received += chunk
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
    match = re.match(r"HTTP/1\.[01] (\d{3})", first)
    if match is None:
        return RawReply(0, {}, b"", fault or CLOSED)
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name = name.strip().lower()
        headers[name] = f"{headers[name]}\n{value.strip()}" if name in headers else value.strip()
    return RawReply(int(match[1]), headers, body, fault)
