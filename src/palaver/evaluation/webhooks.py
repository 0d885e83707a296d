"""Send cases to webhooks. URLs may be chosen by clients, so they are guarded against SSRF.

With a secret the request is signed: `palaver-signature: sha256=…` is the HMAC-SHA256 of the body. The secret is named,
never given: `env:PALAVER_WEBHOOK_…`. No other variables can be read.
"""

import asyncio
import hmac
import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, Final

from palaver.core import json
from palaver.errors import InvalidValue, PalaverError, UrlRefused
from palaver.evaluation.score import ScoringError
from palaver.outbound import client, printable, read_limited

SIGNATURE_HEADER: Final = "palaver-signature"
MAX_RESPONSE_BYTES: Final = 1024 * 1024
_OK: Final = 200
_SECRET_REFERENCE: Final = re.compile(r"env:(PALAVER_WEBHOOK_[A-Z0-9_]{1,64})")


class WebhookClient:
    def __init__(self, env: Mapping[str, str], *, allow_private: bool = False) -> None:
        self._env = env
        self._allow_private = allow_private

    def check(self, url: str, secret: str | None, pointer: str) -> None:
        """Raise for a URL or secret that can never be used."""
        import httpx

        from palaver.outbound import ssrf

        rules = ssrf.UrlPolicy(allow_private=self._allow_private)
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL:
            raise ssrf.url_refused() from None
        rules.check(parsed)
        if _is_ip_address(parsed.host):
            rules.check_addresses([parsed.host])
        if secret is not None:
            self._secret(secret, pointer)

    async def post(self, url: str, body: Any, *, secret: str | None, seconds: float) -> Any:
        """Return the JSON answer of the service. Raises ScoringError."""
        import httpx

        from palaver.outbound import ssrf

        sent = json.encode(json.to_builtins(body))
        headers = {"content-type": "application/json", "accept": "application/json"}
        if secret is not None:
            headers[SIGNATURE_HEADER] = sign_body(sent, self._secret(secret, "/parameters/secret"))
        transport = ssrf.GuardedTransport(ssrf.UrlPolicy(allow_private=self._allow_private))
        try:
            async with (
                asyncio.timeout(seconds),
                client(headers=headers, timeout=seconds, transport=transport) as http,
                http.stream("POST", url, content=sent) as response,
            ):
                answer = await read_limited(response, MAX_RESPONSE_BYTES)
        except (TimeoutError, httpx.TimeoutException):
            raise ScoringError("webhook_timeout", f"The service did not answer within {seconds:g} seconds.") from None
        except UrlRefused as error:
            raise ScoringError(error.code, error.message) from None
        except (httpx.HTTPError, httpx.InvalidURL):
            raise ScoringError("webhook_failed", "The service could not be reached, or broke off its answer.") from None
        except PalaverError as error:
            raise ScoringError("webhook_failed", error.message) from None
        if response.status_code != _OK:
            raise ScoringError("webhook_failed", f"The service answered {response.status_code}{_quote_body(answer)}")
        try:
            return json.decode(answer)
        except PalaverError as error:
            raise ScoringError("webhook_failed", f"The service's answer cannot be read: {error.message}") from None

    def _secret(self, named: str, pointer: str) -> str:
        match = _SECRET_REFERENCE.fullmatch(named)
        if match is None:
            raise InvalidValue("A secret is named, not given: env:PALAVER_WEBHOOK_… is a variable.", pointer=pointer)
        value = self._env.get(match[1])
        if not value:
            raise InvalidValue(f"The variable {match[1]} is not set where this runs.", pointer=pointer)
        return value


def sign_body(body: bytes, secret: str) -> str:
    return f"sha256={hmac.digest(secret.encode(), body, 'sha256').hex()}"


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _quote_body(body: bytes) -> str:
    words = printable(body[:1000].decode("utf-8", "replace").strip())
    return f": {words}" if words else "."
