"""The guard: connections for URLs that a stranger may influence (security.md §6).

A name is looked up once, every address that it has must be public, and the connection goes to one of the addresses
that were looked at; who then stands at its other end is looked at again. So a second answer of the DNS cannot matter.
Host header and TLS name stay those of the URL. Whoever is refused learns nothing but that.
"""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any, cast

import httpcore
import httpx
import msgspec

from palaver.errors import UrlRefused
from palaver.outbound.addresses import is_public
from palaver.outbound.clients import trust

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""All the addresses of a host."""

_DEFAULT_PORTS = {"http": 80, "https": 443}
_LONGEST_NAME = 254  # With a dot at its end.
_NAME = re.compile(r"([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.?")
# Resolvers read such a name as an address: 127.1, 0x7f.1, 2130706433.
_ENDS_IN_A_NUMBER = re.compile(r"(.*\.)?([0-9]+|0x[0-9a-f]*)\.?")


def refused() -> UrlRefused:
    """One message for every reason: a stranger shall not map our network by asking."""
    return UrlRefused("This URL may not be fetched from here.")


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator allows beyond public hosts on the default ports."""

    allow_private: bool = False
    """Any host, on any port: private services seldom stand on 80 and 443."""
    ports: Collection[int] = ()

    def check(self, url: httpx.URL) -> None:
        """Refuse a URL for what can be seen of it."""
        port = _DEFAULT_PORTS.get(url.scheme)
        if port is None or url.userinfo or not _is_plain(url.raw_host.decode("ascii", "replace")):
            raise refused()
        if not self.allow_private and url.port is not None and url.port != port and url.port not in self.ports:
            raise refused()

    def check_addresses(self, addresses: Sequence[str]) -> None:
        """Refuse a host for any of its addresses, and one without any: who guesses names shall not see a difference."""
        if not self.allow_private and not (addresses and all(map(is_public, addresses))):
            raise refused()


def _is_plain(host: str) -> bool:
    """Is it a name, or an address in the one notation that everybody reads alike?"""
    try:
        ip_address(host)
    except ValueError:
        if len(host) > _LONGEST_NAME or not _NAME.fullmatch(host):
            return False
        return not _ENDS_IN_A_NUMBER.fullmatch(host)
    return "%" not in host  # A zone is this machine's own.


async def resolved(host: str, port: int) -> Sequence[str]:
    """What the system's resolver says."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Backend(httpcore.AsyncNetworkBackend):
    """Makes connections to addresses that were looked at, and to no name."""

    def __init__(self, rules: Rules, *, resolve: Resolve = resolved, below: Any = None) -> None:
        self._rules = rules
        self._resolve = resolve
        self._below: Any = below or httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # httpcore's own signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A connection to one of the host's addresses, the first that answers."""
        try:
            async with asyncio.timeout(timeout):
                return await self._connected(host, port, local_address, socket_options)
        except TimeoutError:
            raise httpcore.ConnectTimeout from None

    async def _connected(self, host: str, port: int, *options: Any) -> httpcore.AsyncNetworkStream:
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError):
            addresses = ()
        self._rules.check_addresses(addresses)
        for address in addresses:
            try:
                stream: httpcore.AsyncNetworkStream = await self._below.connect_tcp(address, port, None, *options)
            except httpcore.ConnectError:
                continue
            await self._check_peer(stream, address)
            return stream
        raise httpcore.ConnectError("no address of the host answers")

    async def _check_peer(self, stream: httpcore.AsyncNetworkStream, address: str) -> None:
        """Is it the host that we meant to reach? Nothing has been said to it yet."""
        peer = stream.get_extra_info("server_addr")
        try:
            self._rules.check_addresses([str(peer[0])] if peer else ())
            if not self._rules.allow_private and ip_address(peer[0]) != ip_address(address):
                raise refused()
        except UrlRefused:
            await stream.aclose()
            raise

    async def sleep(self, seconds: float) -> None:
        """Between attempts, of which there is one."""
        await self._below.sleep(seconds)


class Transport(httpx.AsyncBaseTransport):
    """What carries a client's requests: each URL is checked, each connection is one of the Backend's."""

    def __init__(self, rules: Rules, *, resolve: Resolve = resolved, below: Any = None) -> None:
        self._rules = rules
        backend = Backend(rules, resolve=resolve, below=below)
        self._pool = httpcore.AsyncConnectionPool(ssl_context=trust(), network_backend=backend)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One request, to where its URL says and nowhere else."""
        url = request.url
        self._rules.check(url)
        asked = httpcore.Request(
            method=request.method,
            url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _told_by_httpx():
            answer = await self._pool.handle_async_request(asked)
        extensions = cast("dict[str, Any]", answer.extensions)  # pyright: ignore[reportUnknownMemberType]
        return httpx.Response(answer.status, headers=answer.headers, stream=_Body(answer.stream), extensions=extensions)

    async def aclose(self) -> None:
        """Close what is open."""
        await self._pool.aclose()


class _Body(httpx.AsyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _told_by_httpx():
            async for piece in self._stream:
                yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


@contextmanager
def _told_by_httpx() -> Generator[None]:
    """Errors of the one library as those of the other, which has the same names for them."""
    try:
        yield
    except (
        httpcore.TimeoutException,
        httpcore.NetworkError,
        httpcore.ProtocolError,
        httpcore.UnsupportedProtocol,
    ) as e:
        raise getattr(httpx, type(e).__name__, httpx.TransportError)(str(e)) from e
