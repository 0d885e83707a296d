"""Claude, through Anthropic's own SDK. Every call streams; what comes is read by anthropic_events.py.

The prompt is in this provider's shapes already, cache marks included.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator
from contextlib import suppress
from typing import Any, Final, Literal, cast

import msgspec
from anthropic import AsyncAnthropic, AsyncStream, DefaultAioHttpClient, Timeout
from anthropic.types import RawMessageStreamEvent

from palaver_jobchat.models.anthropic_events import Event, Lines, Reading
from palaver_jobchat.models.base import Asking, Happening
from palaver_jobchat.models.failures import Sent, check_key, failure, inside, lost, told
from palaver_jobchat.models.per_loop import PerLoop
from palaver_jobchat.models.retrying import Patience, retrying

DEFAULT: Final = "claude-sonnet-5-5"
_TOOL: Final = "edit_job"
_JSON: Final = {"content-type": "application/json"}
_Raw = cast("type[RawMessageStreamEvent]", RawMessageStreamEvent)
_CONNECT: Final = 5.0
_DRAIN: Final = 0.5


class Anthropic:
    """A model of Anthropic's. Key and address are those that the SDK would take from the environment."""

    def __init__(
        self,
        *,
        model: str = "",
        max_tokens: int = 16_384,
        thinking: Literal["off", "adaptive"] = "off",
        patience: Patience | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
    ) -> None:
        self._model = model or DEFAULT
        self._max_tokens = max_tokens
        self._thinking = thinking
        self._patience = patience or Patience()
        self._key = (os.environ.get("ANTHROPIC_API_KEY", "") if api_key is None else api_key).strip()
        self._base_url = base_url or os.environ.get("ANTHROPIC_BASE_URL") or None
        self._clients = PerLoop(self._client)

    @property
    def name(self) -> str:
        """Of the model."""
        return self._model

    @property
    def is_configured(self) -> bool:
        """Whether the server has a key of its own."""
        return bool(self._key)

    async def aclose(self) -> None:
        """Close the connections of this event loop. They are closed with the loop in any case."""
        await self._clients.aclose()

    async def ask(self, asking: Asking) -> AsyncGenerator[Happening]:
        """The answer as it comes."""
        sent = Sent.of(
            asking, model=self._model, own_key=self._key, timeout=self._patience.seconds, setting="ANTHROPIC_API_KEY"
        )
        stream = await self._opened(asking, sent)
        try:
            lines, reading, body = Lines(), Reading(), stream.response.aiter_bytes()
            while not reading.is_whole:
                for event in _events(lines, await _following(body, sent), sent):
                    for happening in reading.feed(event):
                        yield happening
            await _drain(body)
        finally:
            await stream.close()

    def _client(self) -> AsyncAnthropic:
        timeout = Timeout(self._patience.seconds, connect=_CONNECT)
        # Never without a key, not even an empty one: the SDK would go and look for other credentials.
        return AsyncAnthropic(
            api_key=self._key,
            base_url=self._base_url,
            timeout=timeout,
            max_retries=0,
            # A piece of an answer costs half as much as through httpx (docs/decisions/0024).
            http_client=DefaultAioHttpClient(timeout=timeout),
        )

    async def _opened(self, asking: Asking, sent: Sent) -> AsyncStream[RawMessageStreamEvent]:
        check_key(sent)
        client = await self._clients.get()
        if sent.whose == "request":
            client = client.with_options(api_key=sent.key)
        # What `messages.create` would send. It copies and writes the whole prompt in Python; this one is JSON already.
        content = msgspec.json.encode(self._request(asking))

        def post() -> Awaitable[AsyncStream[RawMessageStreamEvent]]:
            return client.post(
                "/v1/messages",
                cast_to=_Raw,
                content=content,
                options={"headers": _JSON},
                stream=True,
                stream_cls=AsyncStream[RawMessageStreamEvent],
            )

        try:
            return await retrying(post, self._patience)
        except Exception as error:
            failed = told(error, sent)
        raise failed

    def _request(self, asking: Asking) -> dict[str, Any]:
        prompt = asking.prompt
        is_thinking = self._thinking == "adaptive" and not asking.must_edit
        request: dict[str, Any] = {
            "model": self._model,
            "max_tokens": self._max_tokens,
            "system": prompt.system,
            "messages": prompt.messages,
            "stream": True,
            "thinking": {"type": "adaptive" if is_thinking else "disabled"},
        }
        if not prompt.tools:
            return request
        choice = {"type": "tool", "name": _TOOL} if asking.must_edit else {"type": "auto"}
        return {**request, "tools": prompt.tools, "tool_choice": choice}


async def _following(body: AsyncIterator[bytes], sent: Sent) -> bytes:
    """The next bytes of an answer that is not whole yet."""
    try:
        return await anext(body)
    except StopAsyncIteration:
        failed = lost()
    except Exception as error:
        failed = told(error, sent)
    raise failed


def _events(lines: Lines, piece: bytes, sent: Sent) -> Iterator[Event]:
    try:
        for event in lines.feed(piece):
            if event.type == "error":
                failed = failure(inside(event.error.type, event.error.message), sent)
                break
            yield event
        else:
            return
    except ValueError as error:
        failed = told(error, sent)
    raise failed


async def _drain(body: AsyncIterator[bytes]) -> None:
    """Read what is left: it makes the connection free for the next request. What goes wrong now concerns nobody."""
    with suppress(Exception):
        async with asyncio.timeout(_DRAIN):
            async for _ in body:
                pass
