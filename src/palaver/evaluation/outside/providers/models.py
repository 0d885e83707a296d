"""A provider's model: one that judges, and one that gives texts their vectors."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from palaver.core.messages import Message
from palaver.core.usage import Usage
from palaver.evaluation.judging.asking import Answer
from palaver.evaluation.outside.providers import anthropic, openai
from palaver.evaluation.outside.providers.asking import Asking
from palaver.evaluation.outside.providers.declared import Kind, Provider
from palaver.evaluation.outside.providers.speaking import Misread, Request, Said
from palaver.evaluation.scoring.scores import Unscored
from palaver.evaluation.scoring.spending import spend
from palaver.traces.prices import Price, cost_of


class Speech(Protocol):
    """A wire protocol: a module with these functions."""

    def headers(self, key: str | None) -> Mapping[str, str]:
        """How the key is sent."""
        ...

    def question(
        self,
        model: str,
        messages: Sequence[Message],
        schema: Mapping[str, Any],
        options: Mapping[str, Any],
        base_url: str,
    ) -> Request:
        """What asks for an answer that fits a schema."""
        ...

    def said(self, answer: Any) -> Said:
        """What the model answered; Misread where that is no answer."""
        ...

    def embedding(self, model: str, texts: Sequence[str]) -> Request:
        """What asks for the vectors of texts."""
        ...

    def vectors(self, answer: Any, wanted: int) -> tuple[list[list[float]], Usage | None]:
        """The vectors, in the order of the texts."""
        ...


SPEECHES: Final[Mapping[Kind, Speech]] = {"openai": openai, "anthropic": anthropic}


class ProviderModel:
    """One model of one provider."""

    def __init__(self, name: str, provider: Provider, model: str, key: str | None, price: Price | None) -> None:
        self._name = name
        self._provider = provider
        self._model = model
        self._price = price
        self._speech = SPEECHES[provider.kind]
        self._asking = Asking(name, provider, self._speech.headers(key), key)

    async def answer(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Answer:
        """What it says."""
        provider = self._provider
        request = self._speech.question(self._model, messages, schema, provider.options, provider.base_url)
        told = await self._asking.post(request.path, request.body)
        try:
            said = self._speech.said(told)
        except Misread as why:
            raise Unscored("provider_failed", f"the answer of {self._name} cannot be used: {why}") from None
        return Answer(text=said.text, usage=said.usage, cost=self._cost(said.usage))

    async def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """One for each text."""
        try:
            request = self._speech.embedding(self._model, texts)
            told = await self._asking.post(request.path, request.body)
            found, usage = self._speech.vectors(told, len(texts))
        except Misread as why:
            raise Unscored("provider_failed", f"{self._name}: {why}") from None
        spend(usage, self._cost(usage))
        return found

    def _cost(self, usage: Usage | None) -> float | None:
        return None if usage is None or self._price is None else cost_of(usage, self._price)
