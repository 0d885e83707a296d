"""A completion as chunks, one event at a time, or joined to a whole.

Both are made of the same deltas, so they cannot differ.
"""

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from palaver.core import json
from palaver.core.events import TERMINAL_EVENTS, Event, RunFailed, RunFinished, RunStarted, TerminalEvent, TextDelta
from palaver.core.messages import Usage
from palaver.protocols import openai_errors, sse
from palaver.protocols.completion_deltas import Delta, Deltas, is_broken

DONE = sse.frame(b"[DONE]")

_INTERRUPTED = RunFailed(code="interrupted", message="The run was interrupted.")
_text = msgspec.json.Encoder().encode


class Writer:
    """Events in, chunks out. A piece of text is the hot path: all but the text itself is made once."""

    def __init__(self, model: str, tools: Collection[str], *, include_usage: bool) -> None:
        self._model = model
        self._include_usage = include_usage
        self._deltas = Deltas(tools)
        self._linear = self._deltas.linear
        self._head = self._before = b""
        self._end = b"}\n\n"
        if include_usage:
            self._end = b',"usage":null' + self._end
        self._tail = b',"logprobs":null,"finish_reason":null}]' + self._end
        self._after = b"}" + self._tail

    def frames(self, event: Event) -> bytes:
        """The chunks of one event; empty where it has none."""
        linear = self._linear
        if type(event) is TextDelta and event.item == linear.flowing:
            linear.pieces.append(event.delta)
            return b"".join((self._before, _text(event.delta), self._after))
        if isinstance(event, RunStarted):
            self._begin(event)
        chunks = [self._chunk(delta) for delta in self._deltas.feed(event)]
        if isinstance(event, TERMINAL_EVENTS):
            chunks += self._last(event)
        return b"".join(chunks)

    def _begin(self, started: RunStarted) -> None:
        named = json.encode(headline(started, self._model, "chat.completion.chunk"))
        self._head = b'data: %b,"choices":[' % named.removesuffix(b"}")
        self._before = self._head + b'{"index":0,"delta":{"content":'

    def _chunk(self, delta: Delta) -> bytes:
        return b'%b{"index":0,"delta":%b%b' % (self._head, json.encode(delta), self._tail)

    def _last(self, event: TerminalEvent) -> Iterable[bytes]:
        if is_broken(event):
            ended = _INTERRUPTED if isinstance(event, RunFinished) else event
            yield sse.frame(json.encode({"error": openai_errors.told(ended)}))
        else:
            reason = self._deltas.finish_reason.encode()
            choice = b'{"index":0,"delta":{},"logprobs":null,"finish_reason":"%b"}]' % reason
            yield self._head + choice + self._end
            usage = event.usage or self._deltas.usage
            if self._include_usage and usage is not None:
                yield b'%b],"usage":%b}\n\n' % (self._head, json.encode(usage_told(usage)))
        yield DONE


def headline(started: RunStarted, model: str, kind: str) -> dict[str, Any]:
    """What every chunk, and the whole completion, begins with."""
    created = 0 if started.at is None else int(started.at.timestamp())
    return {"id": f"chatcmpl-{started.run_id}", "object": kind, "created": created, "model": model}


def joined(deltas: Iterable[Delta]) -> dict[str, Any]:
    """The message that deltas amount to, as a client would build it."""
    pieces: dict[str, list[str]] = {"content": [], "refusal": [], "reasoning_content": []}
    notes: list[Any] = []
    calls: list[dict[str, Any]] = []
    arguments: list[list[str]] = []
    for delta in deltas:
        for name, value in delta.items():
            match name:
                case "content" | "refusal" | "reasoning_content":
                    pieces[name].append(value)
                case "annotations":
                    notes += [{key: told for key, told in note.items() if key != "index"} for note in value]
                case "tool_calls" if value[0]["index"] == len(calls):
                    calls.append(value[0])
                    arguments.append([])
                case "tool_calls":
                    arguments[-1].append(value[0]["function"]["arguments"])
                case _:
                    pass  # The role, which is known.
    content, refusal, reasoning = ("".join(said) for said in pieces.values())
    message: dict[str, Any] = {
        "role": "assistant",
        "content": content or (None if calls or refusal else ""),
        "refusal": refusal or None,
        "annotations": notes,
    }
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["function"]["name"], "arguments": "".join(said)},
            }
            for call, said in zip(calls, arguments, strict=True)
        ]
    return message


def usage_told(usage: Usage) -> dict[str, Any]:
    """Usage in this protocol's words."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens or 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
    }
