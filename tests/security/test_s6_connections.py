"""S6, connected URLs: checked before discovery and before every call."""

from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from palaver.discovery.probe import MAX_DOCUMENT_BYTES
from palaver.outbound import ssrf
from palaver.storage import connections as kept
from tests.frameworks.fake_servers import fake_server, full_response, response_head
from tests.outbound.test_ssrf import PUBLIC_ADDRESS, REFUSAL_MESSAGE, RecordedStream, RedirectingBackend
from tests.security.test_s6_outbound import INVALID_URLS, PRIVATE_ADDRESSES
from tests.server.keyed_server import keyed_server

CHAT: dict[str, Any] = {"flags": {"is_chat": True}, "role": "assistant", "content": "Hi"}


class FakeNetwork:
    """Fake name resolution, with one host behind every address."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, port: int) -> None:
        self.addresses: Sequence[str] = [PUBLIC_ADDRESS]
        self.looked_up: list[str] = []
        self.network = RedirectingBackend(port=port)
        real = ssrf.GuardedTransport

        async def resolve(host: str, port: int) -> Sequence[str]:
            self.looked_up.append(host)
            return self.addresses

        def transport(rules: ssrf.UrlPolicy) -> ssrf.GuardedTransport:
            return real(rules, resolve=resolve, backend=self.network)

        monkeypatch.setattr(RecordedStream, "peer", (PUBLIC_ADDRESS, 80))
        monkeypatch.setattr(ssrf, "GuardedTransport", transport)


def status_and_error(answer: httpx.Response) -> tuple[int, dict[str, Any]]:
    return answer.status_code, answer.json()["error"]


URL_REFUSED = (422, {"code": "url_refused", "message": REFUSAL_MESSAGE})


async def test_ambiguous_url_is_rejected_before_any_lookup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # S6.1
    fake_network = FakeNetwork(monkeypatch, 0)
    async with keyed_server() as server:
        for url in INVALID_URLS:
            assert (
                status_and_error(await server.http.post("/api/connections", json={"url": url, "name": "far"}))
                == URL_REFUSED
            ), url

    assert (fake_network.looked_up, fake_network.network.asked) == ([], [])


@pytest.mark.parametrize("dry_run", [True, False])
async def test_host_with_a_private_address_is_rejected_without_a_reason(
    monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:  # S6.2
    fake_network = FakeNetwork(monkeypatch, 0)
    async with keyed_server() as server:
        for address in [*PRIVATE_ADDRESSES, None]:
            fake_network.addresses = [] if address is None else [PUBLIC_ADDRESS, address]
            body = {"url": "http://a.example/far", "dry_run": dry_run}
            assert status_and_error(await server.http.post("/api/connections", json=body)) == URL_REFUSED, address
        literal = [
            await server.http.post("/api/connections", json={"url": f"http://{one}/far", "dry_run": dry_run})
            for one in ("127.0.0.1", "localhost", "[::1]", "169.254.169.254", "10.1.2.3:8642")
        ]
        connections = await server.database.read(kept.list_connections, "default")

    assert (fake_network.network.asked, connections) == ([], [])
    assert all(answer.status_code == 422 for answer in literal)


async def test_loopback_is_rejected_unless_the_operator_allows_it() -> None:  # S6.2
    with fake_server(full_response(CHAT)) as remote:
        async with keyed_server() as server:
            refused = await server.http.post("/api/connections", json={"url": f"{remote.url}/far"})
        count = len(remote.requests)
        async with keyed_server(allow_private_urls=True) as server:
            created = await server.http.post("/api/connections", json={"url": f"{remote.url}/far"})
            response = await server.http.post("/far/invoke", json={"messages": []})

    assert (status_and_error(refused), count) == (URL_REFUSED, 0)
    assert (created.status_code, response.json()) == (201, {"role": "assistant", "content": "Hi"})


async def test_every_call_resolves_again_and_rejects_a_name_rebound_to_loopback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # S6.3
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with fake_server(full_response(CHAT)) as remote:
        fake_network = FakeNetwork(monkeypatch, httpx.URL(remote.url).port or 0)
        async with keyed_server() as server:
            created = await server.http.post("/api/connections", json={"url": "http://a.example/far"})
            before = await server.http.post("/far/invoke", json={"messages": []})
            count = len(remote.requests)
            fake_network.addresses = ["127.0.0.1"]
            after = await server.http.post("/far/invoke", json={"messages": []})
            refreshed = await server.http.post("/api/workflows/far/refresh")
            fake_network.addresses = [PUBLIC_ADDRESS]
            monkeypatch.setattr(RecordedStream, "peer", ("127.0.0.1", 80))  # Another host answers.
            peer = await server.http.post("/far/invoke", json={"messages": []})

    assert (created.status_code, before.json()["content"]) == (201, "Hi")
    assert {one.headers["host"] for one in remote.requests} == {"a.example"}
    assert {address for address, _ in fake_network.network.asked} == {PUBLIC_ADDRESS}
    for answer in (after, peer):
        assert (answer.status_code, answer.json()["status"]["type"]) == (422, "url_refused")
        assert answer.json()["status"]["message"] == REFUSAL_MESSAGE
    assert (refreshed.json()["state"], refreshed.json()["is_chat"]) == ("unavailable", True)
    assert len(remote.requests) == count


async def test_redirect_is_not_followed_during_discovery() -> None:  # S6.4
    with (
        fake_server(full_response(CHAT)) as thief,
        fake_server(response_head(status="307 Moved", location=thief.url)) as remote,
    ):
        async with keyed_server(allow_private_urls=True) as server:
            answer = await server.http.post("/api/connections", json={"url": f"{remote.url}/far"})

    status, error = status_and_error(answer)
    assert (status, error["code"], thief.requests) == (422, "not_discovered", [])
    assert error["details"]["tried"][0]["status"] == 307


async def test_callers_credentials_are_not_sent_to_the_remote() -> None:  # S6.4
    with fake_server(full_response(CHAT)) as remote:
        async with keyed_server(allow_private_urls=True) as server:
            _, admin = await server.create_key()
            key = admin["authorization"].removeprefix("Bearer ")
            private = {"baggage": "user=hunter2", "x-secret": "hunter2"}
            headers = {**admin, **private, "cookie": "other=hunter2"}
            created = await server.http.post("/api/connections", json={"url": f"{remote.url}/far"}, headers=headers)
            (await server.http.post("/far/invoke", json={"messages": []}, headers=headers)).raise_for_status()
            (await server.http.post("/api/session", json={"key": key})).raise_for_status()
            session = server.http.cookies["palaver"]  # The client sends it from here on.
            count = len(remote.requests)
            (await server.http.post("/far/invoke", json={"messages": []}, headers=private)).raise_for_status()

    seen = repr(remote.requests)
    assert (created.status_code, len(remote.requests)) == (201, count + 1)
    assert [secret for secret in ("hunter2", key, session) if secret in seen] == []
    assert not {"authorization", "cookie"} & {name for request in remote.requests for name in request.headers}


async def test_discovered_document_cannot_add_hosts_names_or_headers() -> None:  # S6.5
    with fake_server(full_response("caught")) as thief:
        document = {
            "flags": {"is_chat": True},
            "revision": {
                "name": "inspect",
                "slug": "../../etc",
                "description": "\x1b[2J" + "x" * 5_000,
                "data": {"uri": thief.url, "url": thief.url, "headers": {"authorization": "theirs"}},
            },
            "meta": {"palaver": {"streams": False, "routes": {"invoke": f"{thief.url}/invoke"}}},
            "servers": [{"url": thief.url}],
        }
        with fake_server(full_response(document)) as remote:
            async with keyed_server(allow_private_urls=True) as server:
                created = (await server.http.post("/api/connections", json={"url": remote.url})).json()
                (await server.http.post(f"/{created['name']}/invoke", json={"messages": []})).raise_for_status()

    assert thief.requests == []
    assert (created["name"], created["evidence"]["call"]) == ("127.0.0.1", f"POST {remote.url}/invoke")
    assert created["description"].count("x") <= 200
    assert "\x1b" not in created["description"]
    assert {request.headers["host"] for request in remote.requests} == {remote.url.removeprefix("http://")}
    assert all("authorization" not in request.headers for request in remote.requests)


async def test_document_larger_than_one_mebibyte_is_not_read() -> None:  # S6.5
    with fake_server(full_response({**CHAT, "filler": "x" * MAX_DOCUMENT_BYTES})) as remote:
        async with keyed_server(allow_private_urls=True) as server:
            answer = await server.http.post("/api/connections", json={"url": f"{remote.url}/far"})

    assert status_and_error(answer)[1]["code"] == "not_discovered"
