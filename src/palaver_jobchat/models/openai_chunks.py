"""The chunks of OpenAI's stream, and what they amount to."""

from typing import Final

from openai.types.chat import ChatCompletionChunk
from openai.types.chat.chat_completion_chunk import ChoiceDelta, ChoiceDeltaToolCall
from openai.types.completion_usage import CompletionUsage

from palaver import Usage
from palaver_jobchat.models.base import Happening, Reason, Said, Spent, Stopped
from palaver_jobchat.models.calls import Writing
from palaver_jobchat.models.failures import lost

_REASONS: Final[dict[str, Reason]] = {
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "length": "length",
    "content_filter": "content-filter",
}


class Reading:
    """Makes happenings out of chunks. What a call is, is known only at the end: pieces of several may be mixed."""

    def __init__(self) -> None:
        self._reason = ""
        self._is_refused = False
        self._calls: dict[int, Writing] = {}

    def feed(self, chunk: ChatCompletionChunk) -> list[Happening]:
        """What a chunk amounts to. Whatever an endpoint calls reasoning is not looked at."""
        happenings: list[Happening] = []
        for choice in (chunk.choices or [])[:1]:
            happenings += self._delta(choice.delta)
            self._reason = choice.finish_reason or self._reason
        if chunk.usage is not None:
            happenings.append(Spent(_usage(chunk.usage)))
        return happenings

    def end(self) -> list[Happening]:
        """The stream is over. One that told no reason to stop was cut off."""
        if not self._reason:
            raise lost()
        reason = _REASONS.get(self._reason, "stop")
        if reason == "stop" and self._is_refused:
            reason = "content-filter"
        if reason == "stop" and self._calls:  # A call that was asked for by name ends like this.
            reason = "tool-calls"
        return [*(call.ended for call in self._calls.values()), Stopped(reason, self._reason)]

    def _delta(self, delta: ChoiceDelta | None) -> list[Happening]:
        if delta is None:
            return []
        happenings: list[Happening] = [Said(text) for text in (delta.content, delta.refusal) if text]
        self._is_refused = self._is_refused or bool(delta.refusal)
        for place, piece in enumerate(delta.tool_calls or []):
            happenings += self._call(piece, place)
        return happenings

    def _call(self, piece: ChoiceDeltaToolCall, place: int) -> list[Happening]:
        index = piece.index if isinstance(piece.index, int) else place  # pyright: ignore[reportUnnecessaryIsInstance]  # Some endpoints send none.
        written = piece.function
        name = written.name if written is not None else None
        began: list[Happening] = []
        if index not in self._calls:
            self._calls[index] = Writing(piece.id or f"call_{index}", name or "")
            began.append(self._calls[index].began)
        if written is not None and written.arguments:
            self._calls[index].add(written.arguments)
        return began


def _usage(usage: CompletionUsage) -> Usage:
    given, made = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        input_tokens=usage.prompt_tokens or 0,
        output_tokens=usage.completion_tokens or 0,
        cached_input_tokens=(given.cached_tokens or 0) if given is not None else 0,
        cache_creation_input_tokens=0,
        reasoning_tokens=made.reasoning_tokens if made is not None else None,
    )
