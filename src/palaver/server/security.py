"""Checks before a request is routed: Host, Origin, media type, sizes, trusted proxies.

A page in the developer's browser can send requests to loopback, and can make its own host name resolve there. It must
not be able to read, run or change anything: hence the checks of Host and Origin, and bodies that no form can post.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import chain

from palaver.errors import (
    ForeignOrigin,
    InvalidValue,
    SettingsError,
    TooLarge,
    UnsupportedMediaType,
    WrongHost,
)
from palaver.server.request import Exchange, Scope
from palaver.server.settings import Settings

ORIGINAL_HOST = "palaver.host"
"""Scope key of the Host as sent, where a proxy forwarded another. Allowed hosts are checked against this one."""

_HOST = re.compile(rb"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_ADDRESS_WITH_PORT = re.compile(r"\[([^\]]+)\](?::[0-9]+)?|([0-9.]+):[0-9]+")
_FORWARDED_FOR, _FORWARDED_PROTO, _FORWARDED_HOST = b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host"
_Address = IPv4Address | IPv6Address


class TrustedProxies:
    """The proxies whose `X-Forwarded-For`, `-Proto` and `-Host` are trusted: any client can send these headers."""

    def __init__(self, addresses: Iterable[str]) -> None:
        self._networks = [_parse_network(address) for address in addresses]

    def resolve(self, scope: Scope) -> Scope:
        """Return the scope as a trusted proxy saw it; of any other client unchanged."""
        client: Sequence[str] | None = scope.get("client") if self._networks else None
        if client is None or not self._trusts(_parse_address(client[0])):
            return scope
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, []).extend(value.split(b","))
        resolved = {**scope, "client": (self._client_address(headers, client[0]), 0)}
        if (scheme := _last_value(headers, _FORWARDED_PROTO).lower()) in (b"http", b"https"):
            secure, insecure = ("wss", "ws") if scope["type"] == "websocket" else ("https", "http")
            resolved["scheme"] = secure if scheme == b"https" else insecure
        if (
            _HOST.fullmatch(host := _last_value(headers, _FORWARDED_HOST))
            and len(hosts := headers.get(b"host", [])) == 1
        ):
            resolved["headers"] = [pair if pair[0] != b"host" else (b"host", host) for pair in scope["headers"]]
            resolved[ORIGINAL_HOST] = hosts[0]
        return resolved

    def _client_address(self, headers: Mapping[bytes, list[bytes]], peer: str) -> str:
        """Return the last address that is not a trusted proxy: any client may have written those before it."""
        client = peer
        for text in reversed(headers.get(_FORWARDED_FOR, [])):
            address = _parse_address(text.decode("latin-1").strip())
            if address is None:
                return client
            client = str(address)
            if not self._trusts(address):
                return client
        return client

    def _trusts(self, address: _Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)


def _parse_network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise SettingsError(
            f"Invalid trusted_proxies value {text!r}: must be an IP address or a network, e.g. 10.0.0.0/8."
        ) from None


def _parse_address(text: str) -> _Address | None:
    """Parse an address with or without a port; an IPv4-mapped IPv6 address becomes IPv4."""
    if match := _ADDRESS_WITH_PORT.fullmatch(text):
        text = match[1] or match[2]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _last_value(headers: Mapping[bytes, list[bytes]], name: bytes) -> bytes:
    return headers.get(name, [b""])[-1].strip()


MAX_HEADER_BYTES = 8 * 1024
"""Maximum length of one header's value."""
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


def check_request(exchange: Exchange, settings: Settings) -> None:
    """Raise for a request that must not be routed."""
    _check_size(exchange, settings)
    raw_headers = exchange.headers.raw
    host = raw_headers.get(b"host")
    if host is None or (exchange.headers.has_repeats and _count_header(exchange, b"host") != 1):
        raise InvalidValue("A request must have exactly one Host header.")
    if settings.is_loopback:
        server = exchange.scope.get("server")
        host = exchange.scope.get(ORIGINAL_HOST) or host  # DNS rebinding: a page can send any other header.
        if not _is_allowed_host(host, server[1] if server else None, settings.allowed_hosts):
            name = host.decode("latin-1")[:80]
            raise WrongHost(f"The host {name!r} is not allowed. Use localhost, or add the host to allowed_hosts.")
    if exchange.method not in ("GET", "HEAD") and (b"origin" in raw_headers or b"sec-fetch-site" in raw_headers):
        check_origin(exchange, settings)


def _count_header(exchange: Exchange, header: bytes) -> int:
    return sum(name == header for name, _ in exchange.scope["headers"])


@lru_cache(256)
def _is_allowed_host(host: bytes, port: int | None, allowed: tuple[str, ...]) -> bool:
    name = host.decode("latin-1").lower()
    return name.removesuffix(f":{port}") in _LOOPBACK_NAMES or name in allowed


def check_origin(exchange: Exchange, settings: Settings) -> None:
    """Raise ForeignOrigin for a request from a page of another origin."""
    origin = exchange.headers.get("origin")
    if origin is None:
        if exchange.headers.get("sec-fetch-site") == "cross-site":
            raise ForeignOrigin("Cross-site requests are not allowed.")
        return
    our_origin = f"{exchange.scope.get('scheme', 'http')}://{exchange.headers.get('host', '')}"
    if origin.lower() != our_origin.lower() and origin not in settings.allowed_origins:
        raise ForeignOrigin(f"The origin {origin[:80]!r} is not allowed. Add it to allowed_origins to allow it.")


def check_json(exchange: Exchange) -> None:
    """Raise UnsupportedMediaType for a body that is not declared as JSON; an empty one needs no type."""
    content_type = exchange.headers.raw.get(b"content-type", b"")
    if content_type == b"application/json":
        return
    declared = content_type.decode("latin-1").partition(";")[0].strip().lower()
    if declared == "application/json" or (declared.startswith("application/") and declared.endswith("+json")):
        return
    length = exchange.headers.get("content-length")
    if declared or length not in (None, "0") or "transfer-encoding" in exchange.headers:
        problem = f"Unsupported media type {declared[:80]!r}" if declared else "Missing Content-Type header"
        raise UnsupportedMediaType(f"{problem}. Send application/json.")


def _check_size(exchange: Exchange, settings: Settings) -> None:
    url_bytes = len(exchange.scope.get("raw_path") or b"") + len(exchange.scope["query_string"])
    if url_bytes > settings.max_url:
        raise TooLarge(f"The URL exceeds the limit of {settings.max_url:,} bytes.", part="url")
    headers = exchange.scope["headers"]
    size = sum(map(len, chain.from_iterable(headers)))
    if len(headers) > 100 or size > settings.max_headers:
        raise TooLarge(
            f"The request exceeds the limit of 100 headers or {settings.max_headers:,} bytes of headers.",
            part="headers",
        )
    if size > MAX_HEADER_BYTES:
        for name, value in headers:
            if len(value) > MAX_HEADER_BYTES:
                message = f"The header {name.decode('latin-1')[:80]} exceeds the limit of {MAX_HEADER_BYTES:,} bytes."
                raise TooLarge(message, part="headers")
