"""What a request shows to say who it is from: a key in a header or a session in a cookie. Nothing is looked up here."""

import re
from typing import Literal, NamedTuple

from palaver.errors import ConflictingFields
from palaver.server.heads import Head
from palaver.server.settings import Settings

_SCHEMES = (b"bearer", b"apikey")
_HEADERS = (b"x-api-key", b"api-key")
_BETWEEN = re.compile(rb"[;,]")  # A comma where two Cookie headers were joined; no value of ours has one.


class Presented(NamedTuple):
    """What a request shows."""

    kind: Literal["key", "session"]
    text: str


def presented(head: Head, cookie: str) -> Presented | None:
    """The one credential in the headers of a request, good or not. Nothing in a URL is ever one."""
    raw = head.raw
    found: list[Presented] = []
    if (authorization := raw.get(b"authorization")) is not None:
        scheme, _, rest = authorization.partition(b" ")
        if scheme.lower() in _SCHEMES:
            found.append(Presented("key", _text(rest)))
    found += [Presented("key", _text(raw[name])) for name in _HEADERS if name in raw]
    if (cookies := raw.get(b"cookie")) is not None and (value := _cookie(cookies, cookie.encode())) is not None:
        found.append(Presented("session", value))
    if len(found) > 1 and len(set(found)) > 1:
        raise ConflictingFields("This request has two different credentials: send one.")
    return found[0] if found else None


def _text(raw: bytes) -> str:
    return raw.strip().decode("latin-1")


def _cookie(cookies: bytes, name: bytes) -> str | None:
    pairs = (piece.strip().partition(b"=") for piece in _BETWEEN.split(cookies))
    values = [value for named, _, value in pairs if named == name]
    if not values:
        return None
    return _text(values[0]) if len(values) == 1 else ""  # Of two, none: we never set two.


# Cookies


def cookie_name(settings: Settings) -> str:
    """What the cookie is called. Browsers take the longer name over https only, from this host alone, for all paths."""
    return "palaver" if settings.is_loopback else "__Host-palaver"


def set_cookie(settings: Settings, value: str, *, seconds: int, scheme: str = "http") -> str:
    """The header that gives a browser its session; for 0 seconds, the one that takes it away."""
    secure = "" if settings.is_loopback and scheme != "https" else "; Secure"
    return f"{cookie_name(settings)}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
