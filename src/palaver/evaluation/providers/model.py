"""A provider's model, for verdicts and embeddings."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from palaver.core.messages import Message, Usage
from palaver.evaluation.context import record_spending
from palaver.evaluation.judge_verdict import JudgeAnswer
from palaver.evaluation.providers import anthropic, openai
from palaver.evaluation.providers.client import ProviderClient, ProviderRequest, UnreadableAnswer
from palaver.evaluation.providers.config import Provider, ProviderKind
from palaver.evaluation.score import ScoringError
from palaver.traces.prices import Price, token_cost


class ProviderProtocol(Protocol):
    def auth_headers(self, key: str | None) -> Mapping[str, str]: ...

    def chat_request(
        self,
        model: str,
        messages: Sequence[Message],
        schema: Mapping[str, Any],
        options: Mapping[str, Any],
        base_url: str,
    ) -> ProviderRequest: ...

    def read_answer(self, answer: Any) -> tuple[str, Usage | None]:
        """Read the text and the usage. Raises UnreadableAnswer."""
        ...

    def embedding_request(self, model: str, texts: Sequence[str]) -> ProviderRequest: ...

    def read_vectors(self, answer: Any, count: int) -> tuple[list[list[float]], Usage | None]:
        """Read the vectors, in the order of the texts. Raises UnreadableAnswer."""
        ...


PROTOCOLS: Final[Mapping[ProviderKind, ProviderProtocol]] = {"openai": openai, "anthropic": anthropic}


class ProviderModel:
    def __init__(self, name: str, provider: Provider, model: str, key: str | None, price: Price | None) -> None:
        self._name = name
        self._provider = provider
        self._model = model
        self._price = price
        self._protocol = PROTOCOLS[provider.kind]
        self._client = ProviderClient(name, provider, self._protocol.auth_headers(key), key)

    async def answer(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> JudgeAnswer:
        provider = self._provider
        request = self._protocol.chat_request(self._model, messages, schema, provider.options, provider.base_url)
        response = await self._client.post(request.path, request.body)
        try:
            text, usage = self._protocol.read_answer(response)
        except UnreadableAnswer as error:
            raise ScoringError("provider_failed", f"the response from {self._name} cannot be used: {error}") from None
        return JudgeAnswer(text=text, usage=usage, cost=self._cost(usage))

    async def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        try:
            request = self._protocol.embedding_request(self._model, texts)
            response = await self._client.post(request.path, request.body)
            embedded, usage = self._protocol.read_vectors(response, len(texts))
        except UnreadableAnswer as error:
            raise ScoringError("provider_failed", f"{self._name}: {error}") from None
        record_spending(usage, self._cost(usage))
        return embedded

    def _cost(self, usage: Usage | None) -> float | None:
        return None if usage is None or self._price is None else token_cost(usage, self._price)
