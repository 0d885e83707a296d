"""A provider's model: one that judges, and one that gives texts their vectors."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from palaver.core.messages import Message, Usage
from palaver.evaluation.context import record_spending
from palaver.evaluation.judges.verdict import JudgeAnswer
from palaver.evaluation.providers import anthropic, openai
from palaver.evaluation.providers.client import ProviderClient
from palaver.evaluation.providers.config import Provider, ProviderKind
from palaver.evaluation.providers.wire import ProviderAnswer, ProviderRequest, UnreadableAnswer
from palaver.evaluation.score import ScoringError
from palaver.traces.prices import Price, token_cost


class ProviderProtocol(Protocol):
    """A wire protocol: a module with these functions."""

    def auth_headers(self, key: str | None) -> Mapping[str, str]:
        """How the key is sent."""
        ...

    def chat_request(
        self,
        model: str,
        messages: Sequence[Message],
        schema: Mapping[str, Any],
        options: Mapping[str, Any],
        base_url: str,
    ) -> ProviderRequest:
        """What asks for an answer that fits a schema."""
        ...

    def read_answer(self, answer: Any) -> ProviderAnswer:
        """What the model answered; Misread where that is no answer."""
        ...

    def embedding_request(self, model: str, texts: Sequence[str]) -> ProviderRequest:
        """What asks for the vectors of texts."""
        ...

    def read_vectors(self, answer: Any, wanted: int) -> tuple[list[list[float]], Usage | None]:
        """The vectors, in the order of the texts."""
        ...


PROTOCOLS: Final[Mapping[ProviderKind, ProviderProtocol]] = {"openai": openai, "anthropic": anthropic}


class ProviderModel:
    """One model of one provider."""

    def __init__(self, name: str, provider: Provider, model: str, key: str | None, price: Price | None) -> None:
        self._name = name
        self._provider = provider
        self._model = model
        self._price = price
        self._speech = PROTOCOLS[provider.kind]
        self._asking = ProviderClient(name, provider, self._speech.auth_headers(key), key)

    async def answer(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> JudgeAnswer:
        """What it says."""
        provider = self._provider
        request = self._speech.chat_request(self._model, messages, schema, provider.options, provider.base_url)
        told = await self._asking.post(request.path, request.body)
        try:
            said = self._speech.read_answer(told)
        except UnreadableAnswer as why:
            raise ScoringError("provider_failed", f"the answer of {self._name} cannot be used: {why}") from None
        return JudgeAnswer(text=said.text, usage=said.usage, cost=self._cost(said.usage))

    async def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """One for each text."""
        try:
            request = self._speech.embedding_request(self._model, texts)
            told = await self._asking.post(request.path, request.body)
            found, usage = self._speech.read_vectors(told, len(texts))
        except UnreadableAnswer as why:
            raise ScoringError("provider_failed", f"{self._name}: {why}") from None
        record_spending(usage, self._cost(usage))
        return found

    def _cost(self, usage: Usage | None) -> float | None:
        return None if usage is None or self._price is None else token_cost(usage, self._price)
