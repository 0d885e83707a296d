"""Collect a model's response from its events, and yield what the run outputs for each of them."""

from collections.abc import Iterator
from typing import Any, assert_never

from palaver import Usage
from palaver_jobchat.edits import requested_edits
from palaver_jobchat.models.base import (
    ModelEvent,
    ResponseFinished,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    UsageReport,
)
from palaver_jobchat.prompt import EDIT_JOB

_PARAGRAPH_BREAK = "\n\n"


class UsageCounter:
    """Sums the usage of all requests of one answer. Providers report it cumulatively, per request."""

    def __init__(self) -> None:
        self._completed = Usage(0, 0)
        self._current = Usage(0, 0)

    @property
    def total(self) -> Usage:
        return self._completed + self._current

    def update(self, reported: Usage) -> Usage | None:
        """Record the current request's usage so far; return the increase, or None if there is none."""
        increase = Usage(
            input_tokens=max(reported.input_tokens - self._current.input_tokens, 0),
            output_tokens=max(reported.output_tokens - self._current.output_tokens, 0),
            cached_input_tokens=_increase(reported.cached_input_tokens, self._current.cached_input_tokens),
            cache_creation_input_tokens=_increase(
                reported.cache_creation_input_tokens, self._current.cache_creation_input_tokens
            ),
        )
        self._current += increase
        counts = (increase.total_tokens, increase.cached_input_tokens, increase.cache_creation_input_tokens)
        return increase if any(counts) else None

    def close(self) -> None:
        """End the current request: later updates belong to the next one."""
        self._completed, self._current = self.total, Usage(0, 0)

    def to_anthropic(self) -> dict[str, int]:
        """Return the total in Anthropic's format, where cached input is not part of `input_tokens`."""
        usage = self.total
        cache_read, cache_written = usage.cached_input_tokens or 0, usage.cache_creation_input_tokens or 0
        return {
            "input_tokens": max(usage.input_tokens - cache_read - cache_written, 0),
            "output_tokens": usage.output_tokens,
            "cache_creation_input_tokens": cache_written,
            "cache_read_input_tokens": cache_read,
        }


class StreamCollector:
    def __init__(self, usage_counter: UsageCounter) -> None:
        self.calls: list[ToolCallFinished] = []
        self.has_edit_call = False
        """Whether the model has started to write a call of edit_job."""
        self.finished: ResponseFinished | None = None
        self._usage_counter = usage_counter
        self._blocks: list[dict[str, Any]] = []
        self._text: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._text)

    def feed(self, event: ModelEvent) -> Iterator[str | Usage]:
        match event:
            case TextDelta(text=text):
                if text:
                    yield from self._append_text(text)
            case ToolCallStarted(name=name):
                self.has_edit_call = self.has_edit_call or name == EDIT_JOB["name"]
            case ToolCallFinished():
                self.calls.append(event)
                self._blocks.append({"type": "tool_use", "id": event.id, "name": event.name, "input": event.input})
            case UsageReport(usage=usage):
                if increase := self._usage_counter.update(usage):
                    yield increase
            case ResponseFinished():
                self.finished = event
            case _:
                assert_never(event)

    @property
    def edits(self) -> list[object]:
        """The requested edits of all calls, in order."""
        return requested_edits([call.input for call in self.calls if call.name == EDIT_JOB["name"]])

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The content blocks, as a later request repeats them."""
        return [
            {**block, "text": "".join(block["text"])} if block["type"] == "text" else block for block in self._blocks
        ]

    def _append_text(self, text: str) -> Iterator[str]:
        if not self._blocks or self._blocks[-1]["type"] != "text":
            if self._text:  # Text after a tool call starts a new paragraph.
                self._text.append(_PARAGRAPH_BREAK)
                yield _PARAGRAPH_BREAK
            self._blocks.append({"type": "text", "text": list[str]()})
        self._blocks[-1]["text"].append(text)
        self._text.append(text)
        yield text


def _increase(now: int | None, before: int | None) -> int | None:
    return None if now is None else max(now - (before or 0), 0)
