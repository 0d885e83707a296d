"""Rehearsing: an answer without a model and without a key, for a first look.

The way is the one of every answer: the real client library, over a socket, to a server that speaks Anthropic's
protocol. Only that server is our own, in this process, and what it says is a script that suits the question.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import msgspec

from palaver_jobchat import models
from palaver_jobchat.models.base import Model, ModelEvent, ModelRequest
from palaver_jobchat.settings import Settings

NOTICE: Final = {
    "level": "info",
    "text": "This is a rehearsal: no model was asked. The answer is a script's; what becomes of it is as it would be.",
}
"""The part `notice`, which pages show above an answer."""


class RehearsalModel:
    """A model that is none. Its server starts with the first question."""

    def __init__(self, settings: Settings) -> None:
        self._settings = msgspec.structs.replace(settings, provider="anthropic", model="rehearsal")
        self._lock = threading.Lock()
        self._model: Model | None = None

    @property
    def name(self) -> str:
        """Which says what it is."""
        return "rehearsal"

    @property
    def is_configured(self) -> bool:
        """It needs nothing."""
        return True

    async def aclose(self) -> None:
        """Close the connections to our own server."""
        if self._model is not None:
            await self._model.aclose()

    async def ask(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """The answer as it comes. Nobody's key is used."""
        model = self._model or await asyncio.to_thread(self._started)
        async with aclosing(model.ask(msgspec.structs.replace(request, key=None))) as happenings:
            async for happening in happenings:
                yield happening

    def _started(self) -> Model:
        from palaver_jobchat.testing import FakeAnthropic
        from palaver_jobchat.testing.rehearsal_script import rehearse

        with self._lock:
            if self._model is None:
                fake = FakeAnthropic(rehearse).start()
                self._model = models.create_model(self._settings, api_key="rehearsal", base_url=fake.url)
            return self._model
