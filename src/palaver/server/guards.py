"""Guards: who may ask, and in what form, before anything is read or looked up (security contract, section 1).

A page in the developer's browser can send requests to loopback and can make its own name resolve there. It must not be
able to read, run or change anything: hence the checks of Host and Origin, and bodies that no form can post.
"""

import re
from functools import lru_cache
from itertools import chain

from palaver.errors import ForeignOrigin, InvalidValue, RequestError, TooLarge, UnsupportedMediaType, WrongHost
from palaver.server.exchange import Exchange
from palaver.server.forwarded import SENT_HOST
from palaver.server.settings import Settings

_TRICK = re.compile(r"//|[\\;\0]|\.(?:/|$)")  # `//`, `\\`, `;params`, NUL, and segments that end with a dot, `..` too.
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


def check(exchange: Exchange, settings: Settings) -> None:
    """Raise for a request that must not go any further."""
    _check_size(exchange, settings)
    raw = exchange.headers.raw
    host = raw.get(b"host")
    if host is None or (exchange.headers.repeats and _count(exchange, b"host") != 1):
        raise InvalidValue("A request must have exactly one Host header.")
    if settings.is_loopback:
        server = exchange.scope.get("server")
        host = exchange.scope.get(SENT_HOST) or host  # A page that makes its own name resolve here sends any header.
        if not _is_ours(host, server[1] if server else None, settings.allowed_hosts):
            raise WrongHost("This server answers to localhost only: list other names in PALAVER_ALLOWED_HOSTS.")
    if exchange.method not in ("GET", "HEAD") and (b"origin" in raw or b"sec-fetch-site" in raw):
        check_origin(exchange, settings)


def _count(exchange: Exchange, wanted: bytes) -> int:
    return sum(name == wanted for name, _ in exchange.scope["headers"])


@lru_cache(256)
def _is_ours(host: bytes, port: int | None, allowed: tuple[str, ...]) -> bool:
    name = host.decode("latin-1").lower()
    return name.removesuffix(f":{port}") in _LOOPBACK_NAMES or name in allowed


def check_origin(exchange: Exchange, settings: Settings) -> None:
    """Raise for a page of another origin."""
    origin = exchange.headers.get("origin")
    if origin is None:
        if exchange.headers.get("sec-fetch-site") == "cross-site":
            raise ForeignOrigin("This request comes from a page of another site.")
        return
    own = f"{exchange.scope.get('scheme', 'http')}://{exchange.headers.get('host', '')}"
    if origin.lower() != own.lower() and origin not in settings.allowed_origins:
        raise ForeignOrigin("This request comes from a page of another origin: list it in PALAVER_ALLOWED_ORIGINS.")


def check_json(exchange: Exchange) -> None:
    """Raise for a body that is not declared as JSON; an empty one needs no type."""
    raw = exchange.headers.raw.get(b"content-type", b"")
    if raw == b"application/json":
        return
    declared = raw.decode("latin-1").partition(";")[0].strip().lower()
    if declared == "application/json" or (declared.startswith("application/") and declared.endswith("+json")):
        return
    length = exchange.headers.get("content-length")
    if declared or length not in (None, "0") or "transfer-encoding" in exchange.headers:
        given = f"not {declared}" if declared else "and the body has no type"
        raise UnsupportedMediaType(f"Send application/json, {given}.")


def _check_size(exchange: Exchange, settings: Settings) -> None:
    url = len(exchange.scope.get("raw_path") or b"") + len(exchange.scope["query_string"])
    if url > settings.max_url:
        raise TooLarge(f"The URL is longer than {settings.max_url} bytes.", part="url")
    headers = exchange.scope["headers"]
    if len(headers) > 100 or sum(map(len, chain.from_iterable(headers))) > settings.max_headers:
        raise TooLarge(f"The headers are more than 100, or larger than {settings.max_headers} bytes.", part="headers")


def is_bad(path: str, raw_path: bytes) -> bool:
    """Is this path anything but one plain spelling? No route of ours needs an escape, and one spelling is one route."""
    return b"%" in raw_path or _TRICK.search(path) is not None


def not_normal(path: str) -> RequestError:
    """The answer to such a path."""
    return InvalidValue(f"The path {path[:80]!r} is not in its plain form.")
