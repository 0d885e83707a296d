"""Which IP addresses are public."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis.strategies import ip_addresses

from palaver.outbound.ssrf import is_public

PUBLIC = {
    "a host": "93.184.216.34",
    "before the private ones": "9.255.255.255",
    "after them": "11.0.0.0",
    "beside 172.16": "172.32.0.1",
    "beside CGNAT": "100.128.0.1",
    "an IPv6 host": "2606:2800:220:1::1946",
    "public, mapped": "::ffff:93.184.216.34",
    "public, by NAT64": "64:ff9b::5db8:d822",
    "public, by 6to4": "2002:5db8:d822::1",
    "public, by ISATAP": "2606:2800::5efe:5db8:d822",
}
NOT_PUBLIC = {
    "loopback": "127.0.0.1",
    "all of loopback": "127.255.255.254",
    "private 10": "10.0.0.1",
    "private 172": "172.31.255.255",
    "private 192": "192.168.1.1",
    "a cloud's metadata": "169.254.169.254",
    "Azure's host": "168.63.129.16",
    "CGNAT": "100.64.0.1",
    "Alibaba's metadata": "100.100.100.200",
    "Oracle's metadata": "192.0.0.192",
    "unspecified": "0.0.0.0",
    "this network": "0.1.2.3",
    "documentation": "192.0.2.1",
    "documentation 2": "198.51.100.1",
    "documentation 3": "203.0.113.1",
    "benchmarks": "198.19.0.1",
    "relays": "192.88.99.1",
    "multicast": "224.0.0.1",
    "reserved": "240.0.0.1",
    "broadcast": "255.255.255.255",
    "IPv6 loopback": "::1",
    "IPv6 unspecified": "::",
    "unique local": "fc00::1",
    "AWS's metadata": "fd00:ec2::254",
    "link-local": "fe80::1",
    "link-local with a zone": "fe80::1%eth0",
    "public with a zone": "2606:2800:220:1::1946%eth0",
    "site-local": "fec0::1",
    "IPv6 multicast": "ff02::1",
    "IPv6 documentation": "2001:db8::1",
    "IPv6 documentation 2": "3fff::1",
    "discard": "100::1",
    "segment routing": "5f00::1",
    "loopback, mapped": "::ffff:127.0.0.1",
    "private, mapped, in hexadecimal": "::ffff:a00:1",
    "loopback, compatible": "::127.0.0.1",
    "even a public one, compatible": "::93.184.216.34",
    "loopback, translated": "::ffff:0:127.0.0.1",
    "metadata, by NAT64": "64:ff9b::169.254.169.254",
    "private, by NAT64": "64:ff9b::10.0.0.1",
    "by local NAT64": "64:ff9b:1::5db8:d822",
    "loopback, by 6to4": "2002:7f00:1::1",
    "private, by 6to4": "2002:c0a8:101::1",
    "Teredo": "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "loopback, by ISATAP": "2606:2800::5efe:127.0.0.1",
    "private, by ISATAP that says it is unique": "2606:2800::200:5efe:10.0.0.1",
    "no address": "localhost",
    "an odd notation": "127.1",
    "nothing": "",
}


@pytest.mark.parametrize("address", PUBLIC.values(), ids=PUBLIC.keys())
def test_a_public_address_is_recognized(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", NOT_PUBLIC.values(), ids=NOT_PUBLIC.keys())
def test_any_other_address_is_not_public(address: str) -> None:
    assert not is_public(address)


@given(ip_addresses(v=4) | ip_addresses(network="2000::/3") | ip_addresses(network="fc00::/6"))
def test_an_address_that_python_calls_special_is_never_public(address: IPv4Address | IPv6Address) -> None:
    special = (address.is_private, address.is_multicast, address.is_loopback, address.is_link_local)

    if any(special) or address.is_unspecified or address.is_reserved:
        assert not is_public(str(address))


@given(ip_addresses(v=4))
def test_an_ipv4_address_mapped_into_ipv6_is_as_public_as_itself(address: object) -> None:
    rendered = str(address)

    assert is_public(f"::ffff:{rendered}") == is_public(f"64:ff9b::{rendered}") == is_public(rendered)
    assert not is_public(f"64:ff9b:1::{rendered}")
    assert not is_public(f"::{rendered}")
