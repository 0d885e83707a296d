"""webhook: send the case to a service that scores it."""

import asyncio
import hmac
import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import UNSET, Meta

from palaver.core import json
from palaver.errors import InvalidValue, PalaverError, UrlRefused
from palaver.evaluation.case import Case
from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.evaluator import evaluator
from palaver.evaluation.score import ScoringError, Skip
from palaver.evaluation.target import Target
from palaver.outbound import client, printable, read_limited


@evaluator(check=lambda given, context: context.check_post(given.url, given.secret, "/parameters/secret"))
async def webhook(
    case: Case,
    target: Target,
    context: EvaluatorContext,
    *,
    url: Annotated[str, Meta(min_length=1, max_length=2_000, description="URL to which the case is posted.")],
    secret: Annotated[
        str | None, Meta(description="Environment variable with the signing secret: env:PALAVER_WEBHOOK_NAME.")
    ] = None,
    timeout: Annotated[float, Meta(gt=0, le=30, description="Timeout in seconds.")] = 10,  # noqa: ASYNC109  # of the request
    body: Annotated[
        Literal["case", "agenta"], Meta(description="Request format: the whole case, or Agenta's format.")
    ] = "case",
) -> Any:
    """Post the case to a service, which returns the score in any form that a custom evaluator may return.

    With a secret the body is signed: `palaver-signature: sha256=` and its HMAC-SHA256. Private addresses are refused
    unless the operator allows them.
    """
    payload = _encode_case(case) if body == "case" else _encode_for_agenta(case, target)
    answer = await context.post(url, payload, secret=secret, seconds=timeout)
    return _decode_from_agenta(answer) if body == "agenta" else answer


def _encode_case(case: Case) -> dict[str, Any]:
    fields = {name: value for name, value in msgspec.structs.asdict(case).items() if name not in ("script", "events")}
    turns = [msgspec.structs.asdict(turn) | {"notes": sorted(turn.notes), "verdict": UNSET} for turn in case.turns]
    fields |= {"notes": sorted(case.notes), "turns": [_present_fields(turn) for turn in turns]}
    return msgspec.to_builtins(_present_fields(fields))


def _present_fields(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not UNSET}


def _encode_for_agenta(case: Case, target: Target) -> dict[str, Any]:
    try:
        expected = target.expected(case)
    except Skip:
        expected = None
    output = target.raw(case)
    return {
        "inputs": case.inputs,
        "output": None if output is UNSET else msgspec.to_builtins(output),
        "correct_answer": expected,
    }


def _decode_from_agenta(answer: Any) -> Any:
    """Rename Agenta's `success` to `passed`."""
    if not isinstance(answer, dict) or "success" not in answer:
        return cast("Any", answer)
    fields = cast("Mapping[str, Any]", answer)
    return {"passed" if key == "success" else key: value for key, value in fields.items()}


SIGNATURE_HEADER: Final = "palaver-signature"
MAX_RESPONSE_BYTES: Final = 1024 * 1024
_STATUS_OK: Final = 200
_SECRET_REFERENCE: Final = re.compile(r"env:(PALAVER_WEBHOOK_[A-Z0-9_]{1,64})")


class WebhookClient:
    def __init__(self, env: Mapping[str, str], *, allow_private: bool = False) -> None:
        self._env = env
        self._allow_private = allow_private

    def check(self, url: str, secret: str | None, pointer: str) -> None:
        """Raise UrlRefused or InvalidValue for a URL or secret that can never be used."""
        import httpx

        from palaver.outbound import ssrf

        policy = ssrf.UrlPolicy(allow_private=self._allow_private)
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL:
            raise ssrf.url_refused() from None
        policy.check(parsed)
        if _is_ip_address(parsed.host):
            policy.check_addresses([parsed.host])
        if secret is not None:
            self._resolve_secret(secret, pointer)

    async def post(self, url: str, body: Any, *, secret: str | None, seconds: float) -> Any:
        """Return the JSON answer of the service. Raises ScoringError."""
        import httpx

        from palaver.outbound import ssrf

        payload = json.encode(json.to_builtins(body))
        headers = {"content-type": "application/json", "accept": "application/json"}
        if secret is not None:
            headers[SIGNATURE_HEADER] = sign_body(payload, self._resolve_secret(secret, "/parameters/secret"))
        transport = ssrf.GuardedTransport(ssrf.UrlPolicy(allow_private=self._allow_private))
        try:
            async with (
                asyncio.timeout(seconds),
                client(headers=headers, timeout=seconds, transport=transport) as http,
                http.stream("POST", url, content=payload) as response,
            ):
                answer = await read_limited(response, MAX_RESPONSE_BYTES)
        except (TimeoutError, httpx.TimeoutException):
            raise ScoringError("webhook_timeout", f"The service did not answer within {seconds:g} seconds.") from None
        except UrlRefused as error:
            raise ScoringError(error.code, error.message) from None
        except (httpx.HTTPError, httpx.InvalidURL):
            raise ScoringError(
                "webhook_failed", "The service could not be reached or closed the connection early."
            ) from None
        except PalaverError as error:
            raise ScoringError("webhook_failed", error.message) from None
        if response.status_code != _STATUS_OK:
            raise ScoringError(
                "webhook_failed", f"The service responded with status {response.status_code}{_quote_body(answer)}"
            )
        try:
            return json.decode(answer)
        except PalaverError as error:
            raise ScoringError("webhook_failed", f"The service returned an invalid response: {error.message}") from None

    def _resolve_secret(self, reference: str, pointer: str) -> str:
        match = _SECRET_REFERENCE.fullmatch(reference)
        if match is None:
            raise InvalidValue("secret must name an environment variable: env:PALAVER_WEBHOOK_NAME.", pointer=pointer)
        value = self._env.get(match[1])
        if not value:
            raise InvalidValue(f"environment variable {match[1]} is not set.", pointer=pointer)
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
    text = printable(body[:1000].decode("utf-8", "replace").strip())
    return f": {text}" if text else "."
