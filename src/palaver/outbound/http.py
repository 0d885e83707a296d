"""The HTTP client, fetching of untrusted URLs through ssrf.py, and escaping of untrusted text for display."""

import asyncio
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import msgspec

from palaver.errors import InvalidOption, UpstreamFailed, UpstreamTimeout, UrlRefused

if TYPE_CHECKING:
    import httpx

    from palaver.outbound.ssrf import GuardedTransport


# C0, DEL and C1 steer terminals; bidi marks reorder what is read; line separators and lone surrogates break logs.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_UNESCAPED_BY_JSON = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str, max_length: int = 200) -> str:
    """Return untrusted text for display: one line, at most `max_length` characters, control characters escaped."""
    shortened = text if len(text) <= max_length else text[: max_length - 1] + "…"
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), shortened)


def printable_lines(text: str) -> str:
    """Escape control characters like `printable`, but keep line breaks, tabs and the whole length."""
    return "\n".join("\t".join(printable(cell, len(cell)) for cell in line.split("\t")) for line in text.split("\n"))


def printable_json(text: str) -> str:
    """Escape characters in JSON that a terminal would interpret; the value stays the same."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _UNESCAPED_BY_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


CONNECT_TIMEOUT_S = 5.0

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"([!-~]([\t -~]*[!-~])?)?")


def check_url(url: str) -> None:
    """Raise UrlRefused for a URL that is malformed, not http(s), or has user info."""
    import httpx

    try:
        parsed = httpx.URL(url)
        parsed.raw_host.decode().encode("idna")  # As the resolver does: fails for empty or too long labels.
        host, port = parsed.host, parsed.port
    except (httpx.InvalidURL, UnicodeError):
        raise UrlRefused(f"Invalid URL {_printable_url(url)}.") from None
    if parsed.scheme not in ("http", "https"):
        raise UrlRefused(f"Unsupported URL {_printable_url(url)}: must start with http:// or https://.")
    if parsed.userinfo:
        raise UrlRefused(f"The URL for {printable(host)} contains credentials. Pass them as headers instead.")
    if not host:
        raise UrlRefused(f"Invalid URL {_printable_url(url)}: it has no host.")
    if port is not None and not 0 < port < 65536:
        raise UrlRefused(f"Invalid port in {_printable_url(url)}: must be between 1 and 65535.")


def client(
    *,
    headers: Mapping[str, str] | None = None,
    timeout: float = 60.0,
    transport: "httpx.AsyncBaseTransport | None" = None,
) -> "httpx.AsyncClient":
    """Create a client: `headers` are sent with every request, `timeout` applies to the first byte and to gaps.

    The target of a redirect is in `response.extensions["location"]`, for display only. A `transport` makes the
    connections (see ssrf.py).
    """
    import httpx

    from palaver.outbound.ssrf import ssl_context

    all_headers = httpx.Headers({"user-agent": f"palaver/{_version()}", "accept-encoding": "identity"})
    all_headers.update(check_headers(headers or {}))
    return httpx.AsyncClient(
        headers=all_headers,
        timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT_S)),
        verify=ssl_context(),
        transport=transport,
        trust_env=False,
        follow_redirects=False,
        event_hooks={"response": [_store_location]},
    )


async def read_limited(response: "httpx.Response", limit: int) -> bytes:
    """Read the body of a response opened with `client.stream`. Raises UpstreamFailed above `limit` bytes."""
    # A few compressed bytes may expand to gigabytes; we requested identity.
    if (coding := response.headers.get("content-encoding", "identity").lower()) != "identity":
        raise UpstreamFailed(
            f"The remote service sent a response with content-encoding {printable(coding, 40)}, which is not supported."
        )
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > limit:
            raise UpstreamFailed(f"The response from the remote service exceeds the limit of {limit:,} bytes.")
    return bytes(body)


def _printable_url(url: str) -> str:
    # Anything before an @ may be a password, even in a malformed URL.
    masked = re.sub(r"[^/]*@", "***@", url)
    return f"'{printable(masked)}'"


async def _store_location(response: "httpx.Response") -> None:
    # httpx parses a Location even if it does not follow it, and raises non-HTTPErrors on odd ones.
    response.extensions["location"] = response.headers.pop("location", "")


def check_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the headers. Raises InvalidOption for invalid ones."""
    for name, value in headers.items():
        # httpx would reject these too, but its message would show the value, which may be a secret.
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise InvalidOption(
                f"Invalid header '{printable(name)}': the name and value must be printable ASCII, "
                "without line breaks or surrounding spaces."
            )
    return headers


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("palaver")
    except PackageNotFoundError:  # A checkout that is not installed.
        return "0"


FETCH_TIMEOUT_S = 30.0
MAX_DOCUMENT_BYTES = 10 * 1024 * 1024


class FetchedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A response. Redirects are not followed but returned."""

    status: int
    media_type: str
    """From Content-Type; empty if absent."""
    body: bytes


async def fetch_document(
    url: str, *, allow_private: bool = False, ports: Collection[int] = (), transport: "GuardedTransport | None" = None
) -> FetchedDocument:
    """GET a document from a public host, without credentials. Raises UrlRefused for any URL that is not allowed.

    `ports` are allowed besides 80 and 443. `allow_private` (`--allow-private-urls`) allows any host and port.
    """
    import httpx

    from palaver.outbound import ssrf

    try:
        parsed_url = httpx.URL(url)
    except httpx.InvalidURL:
        raise ssrf.url_refused() from None
    policy = ssrf.UrlPolicy(allow_private=allow_private, ports=ports)
    try:
        async with (
            asyncio.timeout(FETCH_TIMEOUT_S),
            client(timeout=FETCH_TIMEOUT_S, transport=transport or ssrf.GuardedTransport(policy)) as http,
            http.stream("GET", parsed_url) as response,
        ):
            body = await read_limited(response, MAX_DOCUMENT_BYTES)
    except (TimeoutError, httpx.TimeoutException):
        raise UpstreamTimeout("The remote service did not respond in time.") from None
    except httpx.HTTPError:
        raise UpstreamFailed("The remote service could not be reached, or closed the connection early.") from None
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return FetchedDocument(status=response.status_code, media_type=media_type, body=body)
