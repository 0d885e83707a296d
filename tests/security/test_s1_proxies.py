"""S1.6: forwarded headers are trusted only from trusted proxies."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.errors import SettingsError
from palaver.server.security import ORIGINAL_HOST, TrustedProxies
from tests.server.keyed_server import keyed_server

pytestmark = pytest.mark.anyio
PROXY_SETTINGS: dict[str, Any] = {"trusted_proxies": ("10.0.0.0/8", "127.0.0.1", "::1")}
FORWARDED_HEADERS = {
    "x-forwarded-for": "203.0.113.9",
    "x-forwarded-proto": "https",
    "x-forwarded-host": "chat.example.org",
    "forwarded": "for=198.51.100.1;proto=http;host=evil.example",
}


def scope(client: str | None, *headers: tuple[bytes, bytes], kind: str = "http") -> dict[str, Any]:
    raw_headers = [(b"host", b"localhost:8642"), *headers]
    return {"type": kind, "scheme": "http", "client": (client, 4711) if client else None, "headers": raw_headers}


async def failed_logins(options: dict[str, Any], *addresses: str) -> list[int]:
    async with keyed_server(**options) as server:
        await server.create_key()
        return [
            (
                await server.http.post("/api/session", json={"key": "plv_no"}, headers={"x-forwarded-for": address})
            ).status_code
            for address in addresses
        ]


async def test_failed_logins_are_counted_per_forwarded_client_address() -> None:  # S1.6, S2.8
    eleven = ["203.0.113.9"] * 11

    assert await failed_logins(PROXY_SETTINGS, *eleven, "203.0.113.8") == [401] * 10 + [429, 401]


async def test_untrusted_peer_cannot_forward_another_client_address() -> None:  # S1.6, S2.8
    twelve = [f"203.0.113.{number}" for number in range(12)]

    assert await failed_logins({}, *twelve) == [401] * 10 + [429] * 2
    assert await failed_logins({"trusted_proxies": ("10.0.0.1",)}, *twelve) == [401] * 10 + [429] * 2


@pytest.mark.parametrize(
    ("options", "base", "secure"), [(PROXY_SETTINGS, "https://chat.example.org", True), ({}, "http://localhost", False)]
)
async def test_urls_and_cookies_follow_forwarded_headers_only_of_trusted_proxies(  # S1.6
    options: dict[str, Any], base: str, secure: bool
) -> None:
    async with keyed_server(**options) as server:
        _, header = await server.create_key()
        secret = header["authorization"].removeprefix("Bearer ")
        workflow = (await server.http.get("/api/workflows/echo", headers={**header, **FORWARDED_HEADERS})).json()
        response = await server.http.post(
            "/v1/responses",
            json={"model": "echo", "input": "Hi."},
            headers={**header, **FORWARDED_HEADERS, "origin": base},
        )
        login = await server.http.post("/api/session", json={"key": secret}, headers=FORWARDED_HEADERS)

    assert {"/".join(url.split("/")[:3]) for url in workflow["routes"].values()} == {base}
    assert ("; Secure" in login.headers["set-cookie"]) == secure
    assert response.status_code == 200


async def test_unknown_host_is_rejected_even_with_a_forwarded_host() -> None:  # S1.2, S1.6
    async with keyed_server(**PROXY_SETTINGS) as server:
        headers = {"host": "evil.example", "x-forwarded-host": "localhost"}
        answer = await server.http.get("/health", headers=headers)

    assert answer.status_code == 421


CLIENT_ADDRESSES: dict[str, tuple[str, str, str]] = {
    "one": ("10.1.2.3", "203.0.113.9", "203.0.113.9"),
    "several, of whom the last that is no proxy counts": (
        "10.1.2.3",
        "198.51.100.1, 203.0.113.9, 10.9.9.9",
        "203.0.113.9",
    ),
    "nobody but proxies": ("10.1.2.3", "10.4.4.4, 10.5.5.5", "10.4.4.4"),
    "something that is no address": ("10.1.2.3", "203.0.113.9, nonsense", "10.1.2.3"),
    "nothing": ("10.1.2.3", "", "10.1.2.3"),
    "a port": ("10.1.2.3", "203.0.113.9:5000", "203.0.113.9"),
    "IPv6": ("::1", "[2001:db8::1]:5000", "2001:db8::1"),
    "IPv4 in IPv6": ("::ffff:10.1.2.3", "2001:db8::2", "2001:db8::2"),
    "a stranger": ("203.0.113.1", "127.0.0.1", "203.0.113.1"),
}


@pytest.mark.parametrize(("peer", "raw_headers", "client"), CLIENT_ADDRESSES.values(), ids=CLIENT_ADDRESSES)
def test_client_is_the_last_forwarded_address_that_is_not_a_proxy(
    peer: str, raw_headers: str, client: str
) -> None:  # S1.6
    seen = TrustedProxies(PROXY_SETTINGS["trusted_proxies"]).resolve(
        scope(peer, (b"x-forwarded-for", raw_headers.encode()))
    )

    assert seen["client"][0] == client


def test_duplicate_or_invalid_forwarded_headers_are_ignored() -> None:  # S1.6
    odd = ((b"x-forwarded-host", b"a/b"), (b"x-forwarded-proto", b"gopher"))
    duplicates = ((b"host", b"other"), (b"x-forwarded-host", b"chat.example.org"))
    proxies = TrustedProxies(["10.0.0.1"])

    for headers in (odd, duplicates):
        seen = proxies.resolve(scope("10.0.0.1", *headers))
        assert (seen["scheme"], seen["headers"], ORIGINAL_HOST in seen) == (
            "http",
            scope("10.0.0.1", *headers)["headers"],
            False,
        )
    assert proxies.resolve(scope(None, *odd)) == scope(None, *odd)
    socket = proxies.resolve(scope("10.0.0.1", (b"x-forwarded-proto", b"http, https"), kind="websocket"))
    assert socket["scheme"] == "wss"


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_any_forwarded_header_values_are_handled(sent: bytes, scheme: bytes, host: bytes) -> None:  # S1.6
    headers = [(b"x-forwarded-for", sent), (b"x-forwarded-proto", scheme), (b"x-forwarded-host", host)]
    seen = TrustedProxies(["10.0.0.1"]).resolve(scope("10.0.0.1", *headers))

    assert seen["scheme"] in ("http", "https")
    assert len(seen["headers"]) == 4


def test_trusted_proxy_must_be_an_address_or_a_network() -> None:
    with pytest.raises(SettingsError, match=r"'proxy.example': must be an IP address or a network"):
        TrustedProxies(["proxy.example"])
