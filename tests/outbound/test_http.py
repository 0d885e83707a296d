"""The HTTP client for external URLs: refused URLs, headers, redirects, body limits, and escaping of foreign text."""

import gzip
import subprocess
import sys
from collections.abc import AsyncIterator

import httpx
import pytest

from palaver.errors import InvalidOption, UpstreamFailed, UrlRefused
from palaver.outbound import check_url, client, printable, read_limited


@pytest.mark.parametrize(
    "url", ["http://localhost:8642", "https://host/app?x=1", "HTTP://host", "http://[::1]:80/", "http://127.0.0.1"]
)
def test_an_http_or_https_url_is_accepted(url: str) -> None:
    check_url(url)


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("ftp://host/file", "Unsupported URL 'ftp://host/file': must start with http:// or https://."),
        ("file:///etc/passwd", "Unsupported URL 'file:///etc/passwd': must start with http:// or https://."),
        ("host:80", "Unsupported URL 'host:80': must start with http:// or https://."),
        ("", "Unsupported URL '': must start with http:// or https://."),
        ("http://", "Invalid URL 'http://': it has no host."),
        ("http:///path", "Invalid URL 'http:///path': it has no host."),
        ("http://host:0/", "Invalid port in 'http://host:0/': must be between 1 and 65535."),
        ("http://host:65536/", "Invalid port in 'http://host:65536/': must be between 1 and 65535."),
        ("http://a..b/", "Invalid URL 'http://a..b/'."),
        ("http://" + "a" * 64 + "/", "Invalid URL 'http://" + "a" * 64 + "/'."),
        ("http://xn--a/", "Invalid URL 'http://xn--a/'."),
        ("http://host/\n\x1b[31m", "Invalid URL 'http://host/\\n\\x1b[31m'."),
        ("http://[::1/", "Invalid URL 'http://[::1/'."),
    ],
)
def test_an_invalid_url_is_refused_with_a_one_line_message(url: str, line: str) -> None:
    with pytest.raises(UrlRefused) as caught:
        check_url(url)

    assert caught.value.message == line


@pytest.mark.parametrize(
    "url", ["http://ann:hunter2@host/", "http://hunter2@host", "http://hunter2@[::1/", "ftp://a:hunter2@host"]
)
def test_a_refused_url_never_shows_its_password(url: str) -> None:
    with pytest.raises(UrlRefused) as caught:
        check_url(url)

    assert "hunter2" not in caught.value.message


async def test_the_client_ignores_redirects_and_proxies_and_accepts_no_compression(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:3128")

    async with client(headers={"Authorization": "Bearer x"}, timeout=7) as http:
        assert (http.follow_redirects, http.trust_env) == (False, False)
        assert http.timeout == httpx.Timeout(7, connect=5.0)
        assert http.headers["authorization"] == "Bearer x"
        assert http.headers["accept-encoding"] == "identity"
        assert http.headers["user-agent"].startswith("palaver/")


@pytest.mark.parametrize(
    "headers", [{"x-key": "s3cret\n"}, {"x-key": "s3crét"}, {"x-key": " s3cret"}, {"x key": "s3cret"}]
)
def test_a_header_that_cannot_be_sent_is_named_without_its_value(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidOption, match="Invalid header ") as caught:
        client(headers=headers)

    assert next(iter(headers)) in caught.value.message
    assert "s3cr" not in caught.value.message


@pytest.mark.parametrize("location", ["http://elsewhere.invalid/", "mailto:x", "http://xn--a/", "http://[::/"])
async def test_the_location_of_a_redirect_is_returned_but_not_followed(location: str) -> None:
    async with client() as http:
        http._transport = httpx.MockTransport(lambda _: httpx.Response(302, headers={"location": location}))
        response = await http.get("http://host/")

    assert (response.status_code, response.extensions["location"]) == (302, location)


async def test_a_body_is_read_up_to_its_limit() -> None:
    assert await read_limited(httpx.Response(200, content=b"x" * 10), 10) == b"x" * 10


async def test_a_body_beyond_its_limit_is_not_read_to_the_end() -> None:
    chunk_sizes: list[int] = []

    async def endless() -> AsyncIterator[bytes]:
        while True:
            chunk_sizes.append(4)
            yield b"1234"

    with pytest.raises(UpstreamFailed, match="exceeds the limit of 10 bytes"):
        await read_limited(httpx.Response(200, content=endless()), 10)

    assert sum(chunk_sizes) == 12


async def test_a_compressed_body_is_refused_because_it_may_be_a_bomb() -> None:
    async def bomb() -> AsyncIterator[bytes]:
        yield gzip.compress(b"0" * 10_000_000)

    response = httpx.Response(200, headers={"content-encoding": "gzip"}, content=bomb())

    with pytest.raises(UpstreamFailed, match="content-encoding gzip, which is not supported"):
        await read_limited(response, 1024)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("Grüße, 世界 👩‍🚀", "Grüße, 世界 👩‍🚀"),
        ("a\nb\r\tc\x00", "a\\nb\\r\\tc\\x00"),
        ("\x1b[2J\x9b31m\x7f", "\\x1b[2J\\x9b31m\\x7f"),
        ("\u202eexe.txt\u2066\u200f\u061c", "\\u202eexe.txt\\u2066\\u200f\\u061c"),
        ("one\u2028two\u2029", "one\\u2028two\\u2029"),
        ("\ud800", "\\ud800"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 199 + "…"),
        ("", ""),
    ],
)
def test_untrusted_text_is_shown_on_one_line_with_escaped_control_characters(text: str, escaped: str) -> None:
    assert printable(text) == escaped


def test_untrusted_text_is_truncated_to_the_given_length() -> None:
    assert printable("0123456789", 5) == "0123…"


def test_importing_the_module_loads_no_http_client() -> None:
    program = "import sys, palaver.outbound, palaver.discovery.probe; sys.exit('httpx' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
