"""Who really asks, and under which address, where a proxy that we trust says so: `X-Forwarded-For`, `-Proto`, `-Host`.

Anybody can send these headers. They are believed of the proxies that are listed, and of nobody else.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from palaver.errors import SettingsError
from palaver.server.exchange import Scope

SENT_HOST = "palaver.host"
"""Where the scope has the Host as it was sent, if a proxy named another: what we answer to is that of our own door."""

_HOST = re.compile(rb"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_WITH_PORT = re.compile(r"\[([^\]]+)\](?::[0-9]+)?|([0-9.]+):[0-9]+")
_FOR, _PROTO, _NAMED = b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host"
_Address = IPv4Address | IPv6Address


class Proxies:
    """The proxies that are trusted: single addresses, or networks. Of an empty list nobody is."""

    def __init__(self, listed: Iterable[str]) -> None:
        self._networks = [_network(one) for one in listed]

    def seen(self, scope: Scope) -> Scope:
        """The request as the proxy saw it; as it is, if it comes from anybody else."""
        client: Sequence[str] | None = scope.get("client") if self._networks else None
        if client is None or not self._trusts(_address(client[0])):
            return scope
        said: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            said.setdefault(name, []).extend(value.split(b","))
        seen = {**scope, "client": (self._client(said, client[0]), 0)}
        if (scheme := _last(said, _PROTO).lower()) in (b"http", b"https"):
            secure, plain = ("wss", "ws") if scope["type"] == "websocket" else ("https", "http")
            seen["scheme"] = secure if scheme == b"https" else plain
        if _HOST.fullmatch(host := _last(said, _NAMED)) and len(sent := said.get(b"host", [])) == 1:
            seen["headers"] = [pair if pair[0] != b"host" else (b"host", host) for pair in scope["headers"]]
            seen[SENT_HOST] = sent[0]
        return seen

    def _client(self, said: Mapping[bytes, list[bytes]], peer: str) -> str:
        """The last address that is no proxy's: what stands before it anybody may have written."""
        found = peer
        for text in reversed(said.get(_FOR, [])):
            address = _address(text.decode("latin-1").strip())
            if address is None:
                return found
            found = str(address)
            if not self._trusts(address):
                return found
        return found

    def _trusts(self, address: _Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise SettingsError(f"Setting trusted_proxies: {text!r} is no address and no network, as 10.0.0.0/8.") from None


def _address(text: str) -> _Address | None:
    """The address, also of one with a port; one of IPv4 that is written as one of IPv6 is the same."""
    if found := _WITH_PORT.fullmatch(text):
        text = found[1] or found[2]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _last(said: Mapping[bytes, list[bytes]], name: bytes) -> bytes:
    return said.get(name, [b""])[-1].strip()
