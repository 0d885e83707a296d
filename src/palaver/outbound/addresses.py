"""Addresses: which of them are public, so that a stranger may make us connect to them (security.md S6.2).

The lists are IANA's registries of special addresses, written down: what Python's `is_global` says of some of them
differs between its versions.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_NOT_PUBLIC = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by a carrier's customers
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # public by its number alone: the host that an Azure machine runs on
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
_NOT_PUBLIC_6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
    )
)
# Forms that are public or not as the IPv4 address in them is.
_MAPPED = IPv6Network("::ffff:0:0/96")
_TRANSLATED = IPv6Network("64:ff9b::/96")  # NAT64: how the IPv4 world is reached from networks that have no IPv4
_TUNNELLED = IPv6Network("2002::/16")  # 6to4
_ISATAP = (0x00005EFE, 0x02005EFE)  # in the middle of an interface's id, whatever the network


def is_public(address: str) -> bool:
    """Is this the address of a host that everybody can reach? What is no address is not."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv4Address):
        return _is_public_4(parsed)
    if parsed.scope_id is not None:
        return False  # It means something on this machine alone.
    if not all(_is_public_4(inner) for inner in _carried(parsed)):
        return False
    if parsed in _MAPPED or parsed in _TRANSLATED:
        return True
    return parsed in _UNICAST and not any(parsed in network for network in _NOT_PUBLIC_6)


def _is_public_4(address: IPv4Address) -> bool:
    return not any(address in network for network in _NOT_PUBLIC)


def _carried(address: IPv6Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses inside."""
    number = int(address)
    lowest = IPv4Address(number & 0xFFFFFFFF)
    if address in _MAPPED or address in _TRANSLATED or number >> 32 & 0xFFFFFFFF in _ISATAP:
        yield lowest
    if address in _TUNNELLED:
        yield IPv4Address(number >> 80 & 0xFFFFFFFF)
