"""S6, outbound connections: one test per requirement.

Details are tested in tests/outbound, tests/discovery/test_probe.py and tests/frameworks/test_remote.py.
"""

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from palaver import connect
from palaver.discovery.probe import discover
from palaver.errors import PalaverError, UrlRefused
from palaver.outbound import CONNECT_TIMEOUT_S, client, fetch_document, http
from palaver.outbound.ssrf import GuardedTransport, UrlPolicy
from palaver.testing import client as calling
from tests.frameworks.fake_servers import fake_server, full_response, response_head
from tests.outbound.test_ssrf import (
    PUBLIC_ADDRESS,
    REFUSAL_MESSAGE,
    RecordedStream,
    RedirectingBackend,
    static_resolver,
)

SOURCE = Path(__file__).parent.parent.parent / "src" / "palaver"

INVALID_URLS = [
    "ftp://a.example/",
    "file:///etc/passwd",
    "http://ann:pw@a.example/",
    "http://a.example:22/",
    "http://0x7f.1/",
]
INVALID_URLS += ["http://2130706433/", "http://127.1/", "http://0177.0.0.1/", "http://①②⑦.0.0.1/", "//a.example/", "x"]
INVALID_URLS += ["http://a.example\\@127.0.0.1/", "http://[fe80::1%25eth0]/", "gopher://a.example:70/", "http://"]


@pytest.mark.parametrize("url", INVALID_URLS)
async def test_ambiguous_url_is_rejected_before_any_lookup(url: str) -> None:  # S6.1
    async def never(host: str, port: int) -> Sequence[str]:
        raise AssertionError("it was looked up")

    with pytest.raises(UrlRefused) as refused:
        await fetch_document(
            url, transport=GuardedTransport(UrlPolicy(), resolve=never, backend=RedirectingBackend(None))
        )

    assert (refused.value.code, refused.value.message) == ("url_refused", REFUSAL_MESSAGE)


PRIVATE_ADDRESSES = [
    "127.0.0.1",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.0.1",
    "169.254.169.254",
    "100.64.0.1",
    "224.0.0.1",
    "0.0.0.0",
]
PRIVATE_ADDRESSES += [
    "240.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1",
    "fc00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::7f00:1",
]
PRIVATE_ADDRESSES += ["64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::", "2001:0:7f00:1::", "2606:2800::5efe:7f00:1"]


@pytest.mark.parametrize("address", PRIVATE_ADDRESSES)
async def test_host_with_any_private_address_is_rejected(address: str) -> None:  # S6.2
    network = RedirectingBackend(None)
    for addresses in ([address], [PUBLIC_ADDRESS, address], [address, PUBLIC_ADDRESS]):
        transport = GuardedTransport(UrlPolicy(), resolve=static_resolver(*addresses), backend=network)
        with pytest.raises(UrlRefused) as refused:
            await fetch_document("http://a.example/", transport=transport)
        assert refused.value.message == REFUSAL_MESSAGE
    assert network.asked == []


async def test_connection_goes_to_the_checked_address_without_a_second_lookup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # S6.3
    addresses = [[PUBLIC_ADDRESS], ["127.0.0.1"]]

    async def rebinding(host: str, port: int) -> Sequence[str]:
        return addresses.pop(0)

    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.setattr(RecordedStream, "peer", (PUBLIC_ADDRESS, 80))
    with fake_server(full_response("Hi")) as remote:
        network = RedirectingBackend(port=httpx.URL(remote.url).port or 0)
        await fetch_document(
            "http://a.example/", transport=GuardedTransport(UrlPolicy(), resolve=rebinding, backend=network)
        )

    assert network.asked == [(PUBLIC_ADDRESS, 80)]
    assert remote.requests[0].headers["host"] == "a.example"
    assert addresses == [["127.0.0.1"]]  # No second lookup.


async def test_nothing_is_sent_to_a_peer_with_another_address(monkeypatch: pytest.MonkeyPatch) -> None:  # S6.3
    monkeypatch.setattr(RecordedStream, "peer", ("127.0.0.1", 80))
    with fake_server(full_response("Hi")) as remote:
        network = RedirectingBackend(port=httpx.URL(remote.url).port or 0)
        transport = GuardedTransport(UrlPolicy(), resolve=static_resolver(PUBLIC_ADDRESS), backend=network)
        with pytest.raises(UrlRefused):
            await fetch_document("http://a.example/", transport=transport)

    assert [stream.written for stream in network.streams] == [b""]


async def test_redirects_are_not_followed_and_limits_are_as_documented() -> None:  # S6.4
    with fake_server(response_head(status="302 Found", location="http://127.0.0.1:1/")) as remote:
        answer = await fetch_document(remote.url, allow_private=True)
    async with client() as opened:
        followed = opened.follow_redirects

    assert (answer.status, len(remote.requests), followed) == (302, 1, False)
    assert (CONNECT_TIMEOUT_S, http.FETCH_TIMEOUT_S, http.MAX_DOCUMENT_BYTES) == (5, 30, 10 * 1024 * 1024)


CREDENTIALS = {
    "authorization": "Bearer hunter2",
    "cookie": "palaver=hunter2",
    "x-api-key": "hunter2",
    "api-key": "hunter2",
    "proxy-authorization": "Basic hunter2",
    "baggage": "user=hunter2",
    "x-secret": "hunter2",
}


@pytest.mark.parametrize("dialect", ["invoke", "responses", "chat-completions"])
async def test_callers_credentials_are_not_forwarded(dialect: str) -> None:  # S6.4, S6.6
    body = {"secrets": {"key": "hunter2"}, "credentials": "hunter2", "messages": [{"role": "user", "content": "Why?"}]}
    text = {"role": "assistant", "content": "Hi"}
    with fake_server(
        full_response({"choices": [{"message": text}]} if dialect == "chat-completions" else text)
    ) as remote:
        workflow = remote.workflow(dialect=dialect, headers={"authorization": "Bearer our-provider-key"})
        async with calling(workflow) as http:
            for name, value in CREDENTIALS.items():
                (await http.post("/far/invoke", json=body, headers={name: value})).raise_for_status()

    assert len(remote.requests) == len(CREDENTIALS)
    assert "hunter2" not in repr(remote.requests)
    assert {request.headers["authorization"] for request in remote.requests} == {"Bearer our-provider-key"}


async def test_provider_key_is_sent_only_to_its_base_url() -> None:  # S6.6
    """Neither a redirect, nor a URL in the answer, nor one in the body of a call leads it to another host."""
    with (
        fake_server(full_response("caught")) as thief,
        fake_server(response_head(status="307 Moved", location=thief.url)) as remote,
    ):
        workflow = remote.workflow(headers={"authorization": "Bearer our-provider-key"})
        async with calling(workflow) as http:
            for field in ("base_url", "url", "endpoint", "api_base", "model"):
                overrides = {field: thief.url, "parameters": {field: thief.url}, "inputs": {"text": thief.url}}
                body = {**overrides, "messages": [{"role": "user", "content": thief.url}]}
                assert (await http.post("/far/invoke", json=body)).status_code == 502

    assert thief.requests == []


async def test_error_quotes_little_of_a_remote_and_no_control_characters() -> None:  # S6.4
    text = "\x1b[2J\u202e" + "x" * 5_000
    with fake_server(
        full_response({"error": {"message": text}, "detail": text, "status": {"message": text}}, status="400 Bad")
    ) as remote:
        async with calling(remote.workflow()) as http:
            answer = await http.post("/far/invoke", json={"messages": [{"role": "user", "content": "Why?"}]})

    message = answer.json()["status"]["message"]
    assert answer.status_code >= 400
    assert message.count("x") <= 200
    assert not {"\x1b", "\u202e"} & set(message)


async def test_urls_named_in_a_document_are_neither_requested_nor_trusted() -> None:  # S6.5
    with fake_server(full_response("caught")) as thief:
        document: dict[str, Any] = {
            "openapi": "3.1.0",
            "servers": [{"url": thief.url}],
            "info": {"title": "\x1b[2J../../etc", "version": "1", "contact": {"url": thief.url}},
            "externalDocs": {"url": thief.url},
            "paths": {
                "/invoke": {
                    "servers": [{"url": thief.url}],
                    "post": {
                        "operationId": "invoke",
                        "x-agenta": {"flags": {"is_chat": True}},
                        "requestBody": {
                            "content": {"application/json": {"schema": {"$ref": f"{thief.url}/schema.json"}}}
                        },
                    },
                }
            },
            "headers": {"authorization": "Bearer theirs"},
            "routes": {"invoke": f"{thief.url}/invoke"},
            "flags": {"is_chat": True},
        }
        with fake_server(full_response(document)) as remote:
            result = await discover(remote.url)

    assert thief.requests == []
    assert {request.headers["host"] for request in remote.requests} == {remote.url.removeprefix("http://")}
    assert result.call == f"POST {remote.url}/invoke"


async def test_document_larger_than_one_mebibyte_is_not_read() -> None:  # S6.5
    with fake_server(full_response({"flags": {"is_chat": True}, "filler": "x" * (1 << 20)})) as remote:
        result = await discover(remote.url)

    assert result.is_chat is None


async def test_connect_rejects_urls_with_credentials_or_other_schemes() -> None:  # S6.1
    for url in ("file:///etc/passwd", "ftp://a.example", "http://ann:hunter2@a.example"):
        with pytest.raises(PalaverError) as refused:
            connect(url)
        assert "hunter2" not in refused.value.message


def test_http_clients_are_created_only_in_known_modules() -> None:  # S6.3
    """All HTTP clients are created by outbound: they follow no redirects and ignore proxy variables."""
    clients = {
        "AsyncClient",
        "Client",
        "ClientSession",
        "urlopen",
        "HTTPConnection",
        "HTTPSConnection",
        "open_connection",
    }
    modules: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(attr=name, value=ast.Name(id="httpx" | "asyncio" | "aiohttp"))):
                    modules |= {str(path.relative_to(SOURCE))} if name in clients else set()
                case ast.Import(names=names):
                    assert not {alias.name for alias in names} & {
                        "requests",
                        "aiohttp",
                        "urllib.request",
                        "http.client",
                    }
                case ast.ImportFrom(module=str(module)):
                    assert module not in ("urllib.request", "http.client", "requests", "aiohttp"), path
                case _:
                    pass

    # The security probe sends what no client would: it has its own connection, to the given URL.
    assert modules == {"outbound/http.py", "testing.py", "cli/security_probe/attack.py"}
