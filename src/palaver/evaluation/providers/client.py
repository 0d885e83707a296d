"""Requests to a provider: one POST with its key, a timeout, and retries of transient failures.

Error messages of a provider are shown without anything that looks like a key. If the provider rejects the key, its own
message is not shown at all.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from palaver.core import json, secret_mask
from palaver.core.events import RunFailed
from palaver.errors import PalaverError
from palaver.evaluation.providers.config import Provider
from palaver.evaluation.runner.call import is_transient, retry_delay
from palaver.evaluation.score import ScoringError
from palaver.outbound import client, printable, read_limited
from palaver.protocols import client_base

MAX_RETRY_WAIT_S: Final = 120.0
"""A provider that asks for a longer wait is not retried."""
MAX_RESPONSE_BYTES: Final = 16 * 1024 * 1024
_OVERLOADED_STATUS: Final = 529
"""Anthropic's status for transient overload."""
_KEY_REJECTED_STATUSES: Final = (401, 403)


@dataclass(frozen=True, eq=False, repr=False)  # A repr would show the key.
class ProviderClient:
    name: str
    provider: Provider
    headers: Mapping[str, str]
    key: str | None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the JSON answer. Raises ScoringError with a one-line message."""
        payload = json.encode(json.to_builtins(body))
        for attempt in range(1, self.provider.retries + 2):
            answer, failed = await self._try_post(path, payload)
            if failed is None:
                return answer
            seconds = retry_delay(failed, attempt)
            if attempt > self.provider.retries or not is_transient(failed) or seconds > MAX_RETRY_WAIT_S:
                raise ScoringError(failed.code, failed.message)
            await self.sleep(seconds)
        raise AssertionError

    async def _try_post(self, path: str, payload: bytes) -> tuple[Any, RunFailed | None]:
        import httpx

        provider, name = self.provider, self.name
        headers = {"content-type": "application/json", "accept": "application/json", **self.headers}
        try:
            async with (
                asyncio.timeout(provider.timeout_seconds),
                client(headers=headers, timeout=provider.timeout_seconds) as http,
                http.stream("POST", provider.base_url.rstrip("/") + path, content=payload) as response,
            ):
                body = await read_limited(response, MAX_RESPONSE_BYTES)
        except (TimeoutError, httpx.TimeoutException):
            message = f"{name} did not answer within {provider.timeout_seconds:g} seconds."
            return None, RunFailed(code="provider_timeout", message=message)
        except httpx.HTTPError as error:
            is_unreachable = isinstance(error, httpx.ConnectError)
            message = f"{name} {'could not be reached' if is_unreachable else 'closed the connection early'}."
            return None, RunFailed(code="provider_failed", message=message, details=client_base.RETRYABLE)
        except PalaverError as error:
            return None, RunFailed(code="provider_failed", message=f"{name}: {error.message}")
        if response.status_code != 200:
            return None, self._status_error(response.status_code, response.headers.get("retry-after", ""), body)
        try:
            return msgspec.json.decode(body), None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None, RunFailed(code="provider_failed", message=f"{name} returned invalid JSON.")

    def _status_error(self, status: int, retry_after: str, body: bytes) -> RunFailed:
        if status in _KEY_REJECTED_STATUSES:
            message = f"{self.name} responded with status {status}: the API key was rejected."
            return RunFailed(code="provider_failed", message=message, status=status)
        text = client_base.error_message(body)
        if text:
            text = printable(secret_mask.mask_secrets(text, [self.key] if self.key else []))
        message = f"{self.name} responded with status {status}{f': {text}' if text else '.'}"
        details = (
            client_base.RETRYABLE if status == _OVERLOADED_STATUS else client_base.retry_details(status, retry_after)
        )
        return RunFailed(code="provider_failed", message=message, status=status, details=details)


class ProviderRequest(msgspec.Struct, frozen=True):
    """A body, and the path below the base URL."""

    path: str
    body: Mapping[str, Any]


class UnreadableAnswer(Exception):
    """The answer lacks the part that the message names."""


def token_count(value: Any) -> int:
    return value if type(value) is int and value >= 0 else 0


def as_object(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def as_objects(value: Any) -> list[Mapping[str, Any]]:
    return [as_object(item) for item in cast("list[Any]", value)] if isinstance(value, list) else []
