"""Any endpoint that speaks OpenAI's Chat Completions, through OpenAI's own SDK. Every call streams."""

import os
from collections.abc import AsyncGenerator
from typing import Any, Final
from urllib.parse import urlsplit

from openai import AsyncOpenAI, AsyncStream, Timeout
from openai.types.chat import ChatCompletionChunk

from palaver import Failure, PalaverError
from palaver_jobchat.models import openai_shapes
from palaver_jobchat.models.base import Asking, Happening
from palaver_jobchat.models.failures import Sent, check_key, told
from palaver_jobchat.models.openai_chunks import Reading
from palaver_jobchat.models.per_loop import PerLoop
from palaver_jobchat.models.retrying import Patience, retrying

OPENAI: Final = "https://api.openai.com/v1"
ANTHROPIC: Final = "https://api.anthropic.com"
_TOOL: Final = "edit_job"
_CONNECT: Final = 5.0


class OpenAI:
    """A model behind an OpenAI-compatible endpoint."""

    def __init__(
        self,
        *,
        model: str,
        max_tokens: int = 16_384,
        patience: Patience | None = None,
        api_key: str = "",
        base_url: str = "",
        anthropic_url: str | None = None,
    ) -> None:
        if not model:
            raise PalaverError("The provider openai needs to be told which model: set PALAVER_JOBCHAT_MODEL.")
        self._model = model
        self._max_tokens = max_tokens
        self._patience = patience or Patience()
        self._key = api_key.strip()
        self._base_url = base_url or OPENAI
        self._anthropic = {
            _origin(url) for url in (ANTHROPIC, anthropic_url or os.environ.get("ANTHROPIC_BASE_URL", ""))
        }
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
            asking,
            model=self._model,
            own_key=self._key,
            timeout=self._patience.seconds,
            setting="PALAVER_JOBCHAT_API_KEY",
        )
        stream = await self._opened(asking, sent)
        try:
            reading = Reading()
            while (chunk := await _following(stream, sent)) is not None:
                for happening in reading.feed(chunk):
                    yield happening
            for happening in reading.end():
                yield happening
        finally:
            await stream.close()

    def _client(self) -> AsyncOpenAI:
        timeout = Timeout(self._patience.seconds, connect=_CONNECT)
        # Never without a key, not even a wrong one: the SDK would take OPENAI_API_KEY, whosever endpoint this is.
        return AsyncOpenAI(api_key=self._key or "none", base_url=self._base_url, timeout=timeout, max_retries=0)

    async def _opened(self, asking: Asking, sent: Sent) -> AsyncStream[ChatCompletionChunk]:
        check_key(sent)
        if sent.key.startswith("sk-ant-") and _origin(self._base_url) not in self._anthropic:
            message = (
                "The key is one of Anthropic's, and the model is not. Send a key for this server's model, or none."
            )
            raise Failure("bad_request", message, status=400)
        client = await self._clients.get()
        if sent.whose == "request":
            client = client.with_options(api_key=sent.key)
        request = self._request(asking)
        try:
            return await retrying(lambda: client.chat.completions.create(**request, stream=True), self._patience)
        except Exception as error:
            failed = told(error, sent)
        raise failed

    def _request(self, asking: Asking) -> dict[str, Any]:
        # OpenAI's newer models refuse the old name of the limit, and other servers often do not know the new one.
        limit = "max_completion_tokens" if _origin(self._base_url) == _origin(OPENAI) else "max_tokens"
        request: dict[str, Any] = {
            "model": self._model,
            limit: self._max_tokens,
            "messages": openai_shapes.messages(asking.prompt),
            "stream_options": {"include_usage": True},
        }
        if not asking.prompt.tools:
            return request
        choice = {"type": "function", "function": {"name": _TOOL}} if asking.must_edit else "auto"
        return {**request, "tools": openai_shapes.tools(asking.prompt), "tool_choice": choice}


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


async def _following(stream: AsyncStream[ChatCompletionChunk], sent: Sent) -> ChatCompletionChunk | None:
    """The next chunk; none at the end."""
    try:
        return await anext(stream)
    except StopAsyncIteration:
        return None
    except Exception as error:
        failed = told(error, sent)
    raise failed
