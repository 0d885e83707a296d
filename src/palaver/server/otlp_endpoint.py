"""Where spans are sent on to, as the settings say: a URL, what goes with each request, and the form."""

from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from palaver.errors import PalaverError, SettingsError
from palaver.outbound import check_headers, check_url
from palaver.server.settings import Settings

if TYPE_CHECKING:
    from palaver.traces.otlp import Form

_PLACE = "/v1/traces"


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A server that takes OTLP."""

    url: str
    headers: dict[str, str] = {}
    form: "Form" = "protobuf"


def endpoint(settings: Settings) -> Endpoint | None:
    """The one that is set, if any. A SettingsError says what cannot be meant, and never a header's value."""
    if not settings.otlp_endpoint:
        return None
    return Endpoint(
        url=_url(settings.otlp_endpoint),
        headers=read_headers(settings.otlp_headers),
        form="json" if settings.otlp_protocol == "http/json" else "protobuf",
    )


def hidden(headers: str) -> str:
    """How the setting is shown."""
    return "***" if headers else ""


def read_headers(given: str) -> dict[str, str]:
    """Headers as OpenTelemetry's variables hold them: `name=value,other=value`, percent-encoded. They are secrets."""
    headers: dict[str, str] = {}
    for pair in filter(None, map(str.strip, given.split(","))):
        name, is_there, value = pair.partition("=")
        if not is_there:
            raise SettingsError("Setting otlp_headers: write name=value, and commas between several.")
        headers[name.strip().lower()] = unquote(value.strip())
    try:
        check_headers(headers)
    except PalaverError:
        raise SettingsError("Setting otlp_headers: there is a header in it that HTTP cannot carry.") from None
    return headers


def _url(given: str) -> str:
    """The URL to send to. Of a bare address it is the place where OTLP has it."""
    import httpx

    try:
        check_url(given)
    except PalaverError as error:
        told = error.message.replace("Pass credentials with headers=.", "Put credentials into otlp_headers.")
        raise SettingsError(f"Setting otlp_endpoint: {told}") from None
    url = httpx.URL(given)
    return str(url.copy_with(path=_PLACE)) if url.path in ("", "/") else given
