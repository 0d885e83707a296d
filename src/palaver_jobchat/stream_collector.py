"""Hearing: what a model says, gathered piece by piece, and passed on as it comes.

A machine without a clock or a wire: it is given what happens, and gives what the run says about it.
"""

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
from palaver_jobchat.system_prompt import EDIT_JOB

_BETWEEN = "\n\n"


class UsageCounter:
    """What all requests of one answer cost, and how much of that is still to be told."""

    def __init__(self) -> None:
        self._before = Usage(0, 0)
        self._now = Usage(0, 0)

    @property
    def total(self) -> Usage:
        """Everything so far."""
        return self._before + self._now

    def grown(self, now: Usage) -> Usage | None:
        """What one request has cost more since it was last heard of; none where that is nothing."""
        more = Usage(
            input_tokens=max(now.input_tokens - self._now.input_tokens, 0),
            output_tokens=max(now.output_tokens - self._now.output_tokens, 0),
            cached_input_tokens=_more(now.cached_input_tokens, self._now.cached_input_tokens),
            cache_creation_input_tokens=_more(now.cache_creation_input_tokens, self._now.cache_creation_input_tokens),
        )
        self._now += more
        return more if any((more.total_tokens, more.cached_input_tokens, more.cache_creation_input_tokens)) else None

    def close(self) -> None:
        """The request is over; what is told next belongs to another."""
        self._before, self._now = self.total, Usage(0, 0)

    def told(self) -> dict[str, int]:
        """As Anthropic counts: what came out of a cache, or went into one, stands apart."""
        usage = self.total
        read, made = usage.cached_input_tokens or 0, usage.cache_creation_input_tokens or 0
        return {
            "input_tokens": max(usage.input_tokens - read - made, 0),
            "output_tokens": usage.output_tokens,
            "cache_creation_input_tokens": made,
            "cache_read_input_tokens": read,
        }


class StreamCollector:
    """One answer of a model."""

    def __init__(self, spending: UsageCounter) -> None:
        self.calls: list[ToolCallFinished] = []
        self.wants_edit = False
        """Has it begun to write an edit?"""
        self.stopped: ResponseFinished | None = None
        self._spending = spending
        self._blocks: list[dict[str, Any]] = []
        self._text: list[str] = []

    @property
    def text(self) -> str:
        """All that it has said."""
        return "".join(self._text)

    def feed(self, happening: ModelEvent) -> Iterator[str | Usage]:
        """What the run says about it: text, and usage."""
        match happening:
            case TextDelta(text=text):
                if text:
                    yield from self._say(text)
            case ToolCallStarted(name=name):
                self.wants_edit = self.wants_edit or name == EDIT_JOB["name"]
            case ToolCallFinished():
                self.calls.append(happening)
                self._blocks.append(
                    {"type": "tool_use", "id": happening.id, "name": happening.name, "input": happening.input}
                )
            case UsageReport(usage=usage):
                if more := self._spending.grown(usage):
                    yield more
            case ResponseFinished():
                self.stopped = happening
            case _:
                assert_never(happening)

    @property
    def edits(self) -> list[object]:
        """The edits that it asks for, of all its calls in order."""
        return requested_edits([call.input for call in self.calls if call.name == EDIT_JOB["name"]])

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The answer as a later request repeats it."""
        return [
            {**block, "text": "".join(block["text"])} if block["type"] == "text" else block for block in self._blocks
        ]

    def _say(self, text: str) -> Iterator[str]:
        if not self._blocks or self._blocks[-1]["type"] != "text":
            if self._text:  # It goes on after a call: as a paragraph of its own.
                self._text.append(_BETWEEN)
                yield _BETWEEN
            self._blocks.append({"type": "text", "text": list[str]()})
        self._blocks[-1]["text"].append(text)
        self._text.append(text)
        yield text


def _more(now: int | None, before: int | None) -> int | None:
    return None if now is None else max(now - (before or 0), 0)
