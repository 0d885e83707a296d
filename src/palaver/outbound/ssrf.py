"""Protection against server-side request forgery: connections for untrusted URLs (see docs/concepts/security.md).

A host name is resolved once, all of its addresses must be public, and the connection goes to one of the checked
addresses; the peer's address is checked again. So a second DNS answer has no effect. Host header and TLS name stay
those of the URL. A refusal does not reveal its reason.

The networks are IANA's registries of special addresses; Python's `is_global` differs between versions.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, cast

import httpcore
import httpx
import msgspec

from palaver.errors import UrlRefused

_NON_PUBLIC_IPV4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by a carrier's customers
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # formally public: the host of an Azure machine
        "169.254.0.0/16",  # link-local; clouds hand out credentials at 169.254.169.254
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
_UNICAST = IPv6Network("2000::/3")
_NON_PUBLIC_IPV6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
    )
)
# Networks that embed an IPv4 address, which must be public too.
_MAPPED = IPv6Network("::ffff:0:0/96")
_TRANSLATED = IPv6Network("64:ff9b::/96")  # NAT64
_TUNNELLED = IPv6Network("2002::/16")  # 6to4
_ISATAP = (0x00005EFE, 0x02005EFE)  # in the interface id, in any network


def is_public(address: str) -> bool:
    """Whether the text is a public IP address."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv4Address):
        return _is_public_ipv4(parsed)
    if parsed.scope_id is not None:
        return False  # Scoped to this machine.
    if not all(_is_public_ipv4(inner) for inner in _embedded_ipv4(parsed)):
        return False
    if parsed in _MAPPED or parsed in _TRANSLATED:
        return True
    return parsed in _UNICAST and not any(parsed in network for network in _NON_PUBLIC_IPV6)


def _is_public_ipv4(address: IPv4Address) -> bool:
    return not any(address in network for network in _NON_PUBLIC_IPV4)


def _embedded_ipv4(address: IPv6Address) -> Iterator[IPv4Address]:
    number = int(address)
    lowest = IPv4Address(number & 0xFFFFFFFF)
    if address in _MAPPED or address in _TRANSLATED or number >> 32 & 0xFFFFFFFF in _ISATAP:
        yield lowest
    if address in _TUNNELLED:
        yield IPv4Address(number >> 80 & 0xFFFFFFFF)


HostResolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns all addresses of a host and port."""

_DEFAULT_PORTS = {"http": 80, "https": 443}
_MAX_HOST_LENGTH = 254  # With a trailing dot.
_HOST_NAME = re.compile(r"([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.?")
# Resolvers read such a name as an address: 127.1, 0x7f.1, 2130706433.
_ENDS_IN_A_NUMBER = re.compile(r"(.*\.)?([0-9]+|0x[0-9a-f]*)\.?")


def url_refused() -> UrlRefused:
    """Create the error; one message for every reason, so that clients cannot map our network."""
    return UrlRefused("This URL is not allowed.")


class UrlPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator allows besides public hosts on the default ports."""

    allow_private: bool = False
    """Any host on any port."""
    ports: Collection[int] = ()

    def check(self, url: httpx.URL) -> None:
        """Raise UrlRefused if scheme, user info, host or port is not allowed."""
        port = _DEFAULT_PORTS.get(url.scheme)
        if port is None or url.userinfo or not _is_canonical_host(url.raw_host.decode("ascii", "replace")):
            raise url_refused()
        if not self.allow_private and url.port is not None and url.port != port and url.port not in self.ports:
            raise url_refused()

    def check_addresses(self, addresses: Sequence[str]) -> None:
        """Raise UrlRefused unless all addresses are public; also without any, so that names cannot be guessed."""
        if not self.allow_private and not (addresses and all(map(is_public, addresses))):
            raise url_refused()


def _is_canonical_host(host: str) -> bool:
    """Whether it is a host name, or an address in canonical notation."""
    try:
        ip_address(host)
    except ValueError:
        if len(host) > _MAX_HOST_LENGTH or not _HOST_NAME.fullmatch(host):
            return False
        return not _ENDS_IN_A_NUMBER.fullmatch(host)
    return "%" not in host  # A zone id is local to this machine.


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Resolve a host with the system's resolver."""
    results = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in results))


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects only to addresses that were checked."""

    def __init__(self, policy: UrlPolicy, *, resolve: HostResolver = resolve_host, backend: Any = None) -> None:
        self._policy = policy
        self._resolve = resolve
        self._backend: Any = backend or httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # httpcore's own signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first of the host's addresses that answers."""
        try:
            async with asyncio.timeout(timeout):
                return await self._connect(host, port, local_address, socket_options)
        except TimeoutError:
            raise httpcore.ConnectTimeout from None

    async def _connect(self, host: str, port: int, *options: Any) -> httpcore.AsyncNetworkStream:
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError):
            addresses = ()
        self._policy.check_addresses(addresses)
        for address in addresses:
            try:
                stream: httpcore.AsyncNetworkStream = await self._backend.connect_tcp(address, port, None, *options)
            except httpcore.ConnectError:
                continue
            await self._check_peer(stream, address)
            return stream
        raise httpcore.ConnectError("could not connect to any address of the host")

    async def _check_peer(self, stream: httpcore.AsyncNetworkStream, address: str) -> None:
        """Close the connection unless the peer is the checked address. Nothing has been sent yet."""
        peer = stream.get_extra_info("server_addr")
        try:
            self._policy.check_addresses([str(peer[0])] if peer else ())
            if not self._policy.allow_private and ip_address(peer[0]) != ip_address(address):
                raise url_refused()
        except UrlRefused:
            await stream.aclose()
            raise

    async def sleep(self, seconds: float) -> None:
        """Required by the interface; there are no retries."""
        await self._backend.sleep(seconds)


@cache
def ssl_context() -> ssl.SSLContext:
    """Return the TLS context; cached, as loading the certificates takes 20 ms."""
    return httpx.create_ssl_context(trust_env=False)


class GuardedTransport(httpx.AsyncBaseTransport):
    """An httpx transport that checks each URL and connects through GuardedBackend."""

    def __init__(self, policy: UrlPolicy, *, resolve: HostResolver = resolve_host, backend: Any = None) -> None:
        self._policy = policy
        backend = GuardedBackend(policy, resolve=resolve, backend=backend)
        self._pool = httpcore.AsyncConnectionPool(ssl_context=ssl_context(), network_backend=backend)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        self._policy.check(url)
        core_request = httpcore.Request(
            method=request.method,
            url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _convert_errors():
            response = await self._pool.handle_async_request(core_request)
        extensions = cast("dict[str, Any]", response.extensions)  # pyright: ignore[reportUnknownMemberType]
        return httpx.Response(
            response.status, headers=response.headers, stream=_Body(response.stream), extensions=extensions
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Body(httpx.AsyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _convert_errors():
            async for piece in self._stream:
                yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


@contextmanager
def _convert_errors() -> Generator[None]:
    """Convert httpcore errors to httpx errors, which have the same names."""
    try:
        yield
    except (
        httpcore.TimeoutException,
        httpcore.NetworkError,
        httpcore.ProtocolError,
        httpcore.UnsupportedProtocol,
    ) as e:
        raise getattr(httpx, type(e).__name__, httpx.TransportError)(str(e)) from e
