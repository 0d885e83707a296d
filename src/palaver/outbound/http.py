"""Texts of strangers, fit to be shown."""

import functools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from palaver.errors import InvalidOption, UpstreamFailed, UrlRefused

if TYPE_CHECKING:
    import ssl

    import httpx


# C0, DEL and C1 steer terminals; bidi marks reorder what is read; line separators and lone surrogates break logs.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_LEFT_BY_JSON = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str, most: int = 200) -> str:
    """A stranger's text, fit to be shown: one line, at most so many of its characters, and nothing that steers."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), cut)


def printable_lines(text: str) -> str:
    """The same for a text of several lines, whole: its line breaks and tabs stay."""
    return "\n".join("\t".join(printable(cell, len(cell)) for cell in line.split("\t")) for line in text.split("\n"))


def printable_json(text: str) -> str:
    """JSON with nothing in it that a terminal would act on; it means the same."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _LEFT_BY_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


CONNECT_TIMEOUT_S = 5.0

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"([!-~]([\t -~]*[!-~])?)?")


def check_url(url: str) -> None:
    """Refuse a URL that we would never connect to."""
    import httpx

    try:
        parsed = httpx.URL(url)
        parsed.raw_host.decode().encode("idna")  # What the resolver does: a label that is empty or too long fails here.
        host, port = parsed.host, parsed.port
    except (httpx.InvalidURL, UnicodeError):
        raise UrlRefused(f"{_printable_url(url)} is not a URL.") from None
    if parsed.scheme not in ("http", "https"):
        raise UrlRefused(f"{_printable_url(url)} is neither http nor https. Write it as http://… or https://….")
    if parsed.userinfo:
        raise UrlRefused(f"The URL for {printable(host)} has a user name in it. Pass credentials with headers=.")
    if not host:
        raise UrlRefused(f"{_printable_url(url)} names no host.")
    if port is not None and not 0 < port < 65536:
        raise UrlRefused(f"{_printable_url(url)} has no valid port. Ports go from 1 to 65535.")


def client(
    *,
    headers: Mapping[str, str] | None = None,
    timeout: float = 60.0,
    transport: "httpx.AsyncBaseTransport | None" = None,
) -> "httpx.AsyncClient":
    """A client for one origin: `headers` go with every request, `timeout` is for the first byte and for gaps.

    Where a redirect would lead is in `response.extensions["location"]`, for the eye only. A `transport` makes the
    connections in its own way (guard.py).
    """
    import httpx

    sent = httpx.Headers({"user-agent": f"palaver/{_version()}", "accept-encoding": "identity"})
    sent.update(check_headers(headers or {}))
    return httpx.AsyncClient(
        headers=sent,
        timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT_S)),
        verify=ssl_context(),
        transport=transport,
        trust_env=False,
        follow_redirects=False,
        event_hooks={"response": [_store_location]},
    )


@functools.cache
def ssl_context() -> "ssl.SSLContext":
    """Whom we trust over TLS; reading all the certificates takes 20 ms, which no call should pay twice."""
    import httpx

    return httpx.create_ssl_context(trust_env=False)


async def read_limited(response: "httpx.Response", limit: int) -> bytes:
    """The whole body of a response opened with `client.stream`, if it has at most `limit` bytes."""
    # A few compressed bytes can stand for gigabytes. We asked for plain ones.
    if (coding := response.headers.get("content-encoding", "identity").lower()) != "identity":
        raise UpstreamFailed(f"The remote's answer is {printable(coding, 40)}, though plain bytes were asked for.")
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > limit:
            raise UpstreamFailed(f"The remote's answer is larger than {limit} bytes; the rest was not read.")
    return bytes(body)


def _printable_url(url: str) -> str:
    # Whatever stands before an @ may be a password, also in a URL that cannot be parsed.
    hidden = re.sub(r"[^/]*@", "***@", url)
    return f"'{printable(hidden)}'"


async def _store_location(response: "httpx.Response") -> None:
    # httpx parses a Location that it does not follow, and on odd ones raises what is no HTTPError.
    response.extensions["location"] = response.headers.pop("location", "")


def check_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers, if HTTP can carry them."""
    for name, value in headers.items():
        # The client would refuse these too, but with the value in its message: values are secrets.
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise InvalidOption(
                f"headers= has a header that HTTP cannot carry: '{printable(name)}'. "
                "Use printable ASCII without line breaks or spaces at the ends."
            )
    return headers


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("palaver")
    except PackageNotFoundError:  # Run from a checkout that was never installed.
        return "0"
