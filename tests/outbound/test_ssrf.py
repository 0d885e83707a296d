"""The SSRF guard for URLs from untrusted input, and `fetch` behind it."""

# ruff: noqa: ASYNC109 (the timeouts are parameters of httpcore's own interfaces)

import asyncio
import gzip
import ssl
from collections.abc import Iterable, Sequence
from typing import Any

import httpcore
import httpx
import pytest

from palaver.errors import PalaverError, UpstreamFailed, UpstreamTimeout, UrlRefused
from palaver.outbound import FetchedDocument, client, fetch_document, http
from palaver.outbound.ssrf import GuardedBackend, GuardedTransport, HostResolver, UrlPolicy, resolve_host
from tests.frameworks.fake_servers import fake_server, full_response, response_head

PUBLIC_ADDRESS = "93.184.216.34"
REFUSAL_MESSAGE = "This URL is not allowed."


def static_resolver(*addresses: str) -> HostResolver:
    """A resolver that always returns these addresses."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolve


class RedirectingBackend(httpcore.AsyncNetworkBackend):
    """A network in which every address leads to one host, or to none."""

    def __init__(self, host: str | None = "127.0.0.1", *, port: int = 0, silent: bool = False) -> None:
        self.host = host
        self.port = port
        self.silent = silent
        self.asked: list[tuple[str, int]] = []
        self.streams: list[RecordedStream] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        self.asked.append((host, port))
        if self.host is None:
            raise httpcore.ConnectError("nobody")
        if self.silent:
            await asyncio.Event().wait()
        network: Any = httpcore.AnyIOBackend()
        below = await network.connect_tcp(self.host, self.port)
        self.streams.append(RecordedStream(below))
        return self.streams[-1]

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing is tried again")


class RecordedStream(httpcore.AsyncNetworkStream):
    """A connection that reports a configured peer address and only pretends to speak TLS."""

    peer: Any = None

    def __init__(self, below: httpcore.AsyncNetworkStream) -> None:
        self.below = below
        self.closed = False
        self.written = b""
        self.tls_name: str | None = None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self.below.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.written += buffer
        await self.below.write(buffer, timeout)

    async def aclose(self) -> None:
        self.closed = True
        await self.below.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        self.tls_name = server_hostname
        return self

    def get_extra_info(self, info: str) -> Any:
        if info == "server_addr":
            return self.peer or self.below.get_extra_info(info)
        return None


# URLs


@pytest.mark.parametrize(
    "url",
    [
        "http://host.example/x?y=1#z",
        "https://host.example:443/",
        "HTTP://Host.Example:80",
        "http://host.example:8080",
        "https://xn--bcher-kva.example/",
        "https://bücher.example/",
        "http://93.184.216.34/",
        "http://[2606:2800:220:1::1946]/",
        "http://a_b.example./",
    ],
)
def test_a_plain_url_passes(url: str) -> None:
    UrlPolicy(ports=[8080]).check(httpx.URL(url))


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host.example/",
        "file:///etc/passwd",
        "gopher://host.example/",
        "//host.example/",
        "http:///x",
        "http://ann:secret@host.example/",
        "http://ann@host.example/",
        "http://host.example\\@127.0.0.1/",
        "http://host.example:8080/",
        "http://host.example:443/",
        "https://host.example:80/",
        "http://host.example:22/",
        "http://0x7f.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://127.1/",
        "http://127.0.0.1./",
        "http://1.2.3.4.5/",
        "http://host.0x/",
        "http://%31%32%37.0.0.1/",
        "http://exa mple/",
        "http://a\\b.example/",
        "http://-a.example/",
        "http://a..example/",
        "http://" + "a." * 150 + "example/",
        "http://[fe80::1%25eth0]/",
    ],
)
async def test_any_other_url_is_refused_without_a_reason(url: str) -> None:
    with pytest.raises(UrlRefused) as refused:
        await fetch_document(url)

    assert refused.value.message == REFUSAL_MESSAGE


@pytest.mark.parametrize(
    "url", ["http://0127.0.0.1/", "http://[::1/", "http://host:x/", "http://a\n/", "http://①.0.0.1"]
)
async def test_a_url_that_cannot_be_parsed_is_refused_without_a_reason(url: str) -> None:
    with pytest.raises(UrlRefused) as refused:
        await fetch_document(url)

    assert refused.value.message == REFUSAL_MESSAGE


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.255.0.1",
        "0.0.0.0",
        "10.1.2.3",
        "169.254.169.254",
        "100.64.0.1",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::7f00:1]",
        "[2002:7f00:1::]",
        "[2001:0:7f00:1::]",
        "[fe80::5efe:7f00:1]",
        "[fd00:ec2::254]",
        "127。0。0。1",
    ],
)
async def test_an_address_in_a_url_that_is_not_public_is_refused(host: str) -> None:
    with pytest.raises(UrlRefused) as refused:
        await fetch_document(f"http://{host}/latest/meta-data")

    assert refused.value.message == REFUSAL_MESSAGE


async def test_allow_private_permits_private_addresses_on_any_port() -> None:
    with fake_server(full_response("Hi")) as server:
        assert await fetch_document(server.url, allow_private=True) == FetchedDocument(
            status=200, media_type="application/json", body=b'"Hi"'
        )
        with pytest.raises(UrlRefused):
            await fetch_document(server.url)
        with pytest.raises(UrlRefused):
            await fetch_document(server.url, ports=[httpx.URL(server.url).port or 0])

    assert len(server.requests) == 1


# Addresses


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1"], ["10.0.0.1"], ["169.254.169.254"], ["::1"], ["::ffff:10.0.0.1"], [PUBLIC_ADDRESS, "10.0.0.1"], []],
    ids=str,
)
async def test_a_host_is_refused_if_any_of_its_addresses_is_not_public(addresses: list[str]) -> None:
    network = RedirectingBackend()
    transport = GuardedTransport(UrlPolicy(), resolve=static_resolver(*addresses), backend=network)

    with pytest.raises(UrlRefused) as refused:
        await fetch_document("http://host.example/", transport=transport)

    assert refused.value.message == REFUSAL_MESSAGE
    assert network.asked == []


@pytest.mark.parametrize("error", [OSError("no such name"), UnicodeError("no such label")], ids=repr)
async def test_an_unknown_host_name_is_refused_with_the_same_message(error: Exception) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        raise error

    with pytest.raises(UrlRefused) as refused:
        await fetch_document("http://host.example/", transport=GuardedTransport(UrlPolicy(), resolve=resolve))

    assert refused.value.message == REFUSAL_MESSAGE


async def test_the_system_resolver_resolves_localhost_which_is_refused() -> None:
    assert await resolve_host("127.0.0.1", 80) == ["127.0.0.1"]
    with pytest.raises(UrlRefused):
        await fetch_document("http://localhost/")


async def test_the_connection_uses_the_checked_address_and_the_host_name_of_the_url(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with fake_server(full_response("Hi")) as server:
        network = RedirectingBackend(port=httpx.URL(server.url).port or 0)
        monkeypatch.setattr(RecordedStream, "peer", (PUBLIC_ADDRESS, 443))
        transport = GuardedTransport(UrlPolicy(), resolve=static_resolver(PUBLIC_ADDRESS, "1.1.1.1"), backend=network)

        assert (await fetch_document("https://host.example/x?y=1#z", transport=transport)).body == b'"Hi"'

    (stream,) = network.streams
    assert network.asked == [(PUBLIC_ADDRESS, 443)]
    assert stream.tls_name == "host.example"
    assert server.requests[0].line == "GET /x?y=1 HTTP/1.1"
    assert server.requests[0].headers == {
        "host": "host.example",
        "accept": "*/*",
        "accept-encoding": "identity",
        "connection": "keep-alive",
        "user-agent": server.requests[0].headers["user-agent"],
    }


@pytest.mark.parametrize(
    "peer",
    [None, ("127.0.0.1", 80), ("::ffff:10.0.0.1", 80, 0, 0), ("1.1.1.1", 80), ("", 0)],
    ids=["the real one", "loopback", "private, mapped", "another public one", "nobody"],
)
async def test_a_peer_with_another_address_is_refused_before_anything_is_sent(
    peer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RecordedStream, "peer", peer)
    with fake_server(full_response("Hi")) as server:
        network = RedirectingBackend(port=httpx.URL(server.url).port or 0)
        transport = GuardedTransport(UrlPolicy(), resolve=static_resolver(PUBLIC_ADDRESS), backend=network)

        with pytest.raises(UrlRefused) as refused:
            await fetch_document("http://host.example/", transport=transport)

    (stream,) = network.streams
    assert refused.value.message == REFUSAL_MESSAGE
    assert (stream.closed, stream.written, server.requests) == (True, b"", [])


async def test_dns_rebinding_has_no_effect_because_a_name_is_resolved_once() -> None:
    """The name is public at the first lookup and loopback at every later one."""
    answers = [[PUBLIC_ADDRESS], ["127.0.0.1"], ["127.0.0.1"]]

    async def rebinding(host: str, port: int) -> Sequence[str]:
        return answers.pop(0)

    network = RedirectingBackend(None)
    transport = GuardedTransport(UrlPolicy(), resolve=rebinding, backend=network)
    with pytest.raises(UpstreamFailed):
        await fetch_document("http://host.example/", transport=transport)

    assert network.asked == [(PUBLIC_ADDRESS, 80)]
    assert len(answers) == 2  # It was looked up once.


async def test_the_next_address_is_tried_if_one_cannot_be_reached() -> None:
    network = RedirectingBackend(None)
    transport = GuardedTransport(UrlPolicy(), resolve=static_resolver(PUBLIC_ADDRESS, "1.1.1.1"), backend=network)

    with pytest.raises(UpstreamFailed) as failed:
        await fetch_document("http://host.example/", transport=transport)

    assert failed.value.message == "The remote service could not be reached, or closed the connection early."
    assert network.asked == [(PUBLIC_ADDRESS, 80), ("1.1.1.1", 80)]


async def test_connecting_to_a_host_that_does_not_answer_times_out() -> None:
    backend = GuardedBackend(
        UrlPolicy(), resolve=static_resolver(PUBLIC_ADDRESS), backend=RedirectingBackend(silent=True)
    )

    with pytest.raises(httpcore.ConnectTimeout):
        await backend.connect_tcp("host.example", 80, timeout=0.01)


async def test_a_resolver_that_does_not_answer_times_out() -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return await asyncio.Event().wait() or ()  # pyright: ignore[reportReturnType]

    with pytest.raises(httpcore.ConnectTimeout):
        await GuardedBackend(UrlPolicy(), resolve=resolve).connect_tcp("host.example", 80, timeout=0.01)


async def test_sleep_is_delegated_to_the_wrapped_backend() -> None:
    with pytest.raises(AssertionError, match="nothing is tried again"):
        await GuardedBackend(UrlPolicy(), backend=RedirectingBackend()).sleep(1)


# Responses


async def test_a_redirect_is_returned_and_not_followed() -> None:
    with fake_server(
        response_head("text/html; charset=utf-8", status="302 Found", location="http://127.0.0.1:1/")
    ) as server:
        assert await fetch_document(server.url, allow_private=True) == FetchedDocument(
            status=302, media_type="text/html", body=b""
        )

    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (full_response("x" * 2000), "The response from the remote service exceeds the limit of 1,000 bytes."),
        (
            response_head(content_encoding="gzip") + gzip.compress(b"x"),
            "The remote service sent a response with content-encoding gzip, which is not supported.",
        ),
        (
            response_head(content_length="99") + b"x",
            "The remote service could not be reached, or closed the connection early.",
        ),
        (b"", "The remote service could not be reached, or closed the connection early."),
        (b"SSH-2.0\r\n", "The remote service could not be reached, or closed the connection early."),
    ],
    ids=["too large", "compressed", "broken off", "nothing", "no HTTP"],
)
async def test_an_unusable_response_fails_with_upstream_failed(
    answer: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_DOCUMENT_BYTES", 1000)
    with fake_server(answer) as server, pytest.raises(PalaverError) as failed:
        await fetch_document(server.url, allow_private=True)

    assert (failed.value.code, failed.value.message) == ("upstream_failed", message)


@pytest.mark.parametrize("first", [b"", response_head() + b"x"], ids=["no answer", "half an answer"])
async def test_a_response_that_does_not_end_times_out(first: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "FETCH_TIMEOUT_S", 0.2)

    def silent(connection: Any, _: Any) -> None:
        connection.sendall(first)
        server.test_ended.wait(20)

    with fake_server(silent) as server, pytest.raises(UpstreamTimeout) as failed:
        await fetch_document(server.url, allow_private=True)

    assert failed.value.message == "The remote service did not respond in time."


async def test_a_response_sent_byte_by_byte_forever_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "FETCH_TIMEOUT_S", 0.2)

    def drip(connection: Any, _: Any) -> None:
        connection.sendall(response_head())
        while not server.test_ended.wait(0.01):
            connection.sendall(b"x")

    with fake_server(drip) as server, pytest.raises(UpstreamTimeout):
        await fetch_document(server.url, allow_private=True)


async def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_server(full_response("Hi")) as server, fake_server(b"") as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)

        assert (await fetch_document(server.url, allow_private=True)).body == b'"Hi"'

    assert proxy.requests == []


async def test_every_request_of_a_guarded_client_is_checked() -> None:
    async with client(transport=GuardedTransport(UrlPolicy())) as http:
        for url in ("http://127.0.0.1/", "http://localhost:9/", "http://ann:secret@host.example/"):
            with pytest.raises(UrlRefused):
                await http.post(url, content=b"{}")
