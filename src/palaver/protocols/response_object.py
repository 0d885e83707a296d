"""The response object: what a response says of itself, while it runs and when it has ended (contract: responses, 3).

It is put together as bytes. Of its thirty fields most never change during a run, and for most requests they are the
defaults, so these are encoded once and for all.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from palaver.core import json
from palaver.core.events import FinishReason, RunCancelled, RunFailed, RunFinished, RunStarted, TerminalEvent
from palaver.core.messages import Usage
from palaver.protocols.response_request import Profile, Reading

_DEFAULTS: Mapping[str, Any] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "previous_response_id": None,
    "conversation": None,
    "prompt_cache_key": None,
    "reasoning": None,
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
}
Running = Literal["queued", "in_progress"]
"""How a response is doing that has not ended."""
_INCOMPLETE: Mapping[FinishReason, str] = {
    "length": "max_output_tokens",
    "content-filter": "content_filter",
    "interrupted": "interrupted",
}


def response_id(run_id: str) -> str:
    """What a run is called here: one thing, two spellings."""
    return "resp_" + run_id.removeprefix("run_")


class End(NamedTuple):
    """How a response ended."""

    status: str
    reason: str | None = None
    """Why it is incomplete."""
    error: Mapping[str, str] | None = None


def ended(terminal: TerminalEvent) -> End:
    """A run's end in the words of Responses."""
    match terminal:
        case RunFinished(finish=finish):
            reason = _INCOMPLETE.get(finish)
            return End("incomplete", reason) if reason else End("completed")
        case RunCancelled():
            return End("cancelled", "cancelled")
        case RunFailed(code=code, message=message):
            return End("failed", error={"code": code, "message": message})


class ResponseObject:
    """The snapshots of one response."""

    __slots__ = ("_after", "_before", "_metadata", "_profile", "_trace", "id")

    def __init__(self, started: RunStarted, reading: Reading) -> None:
        self.id = response_id(started.run_id)
        self._profile: Profile = reading.profile
        self._metadata = dict(reading.metadata)
        self._trace = f"tr-{started.trace_id}" if reading.trace and started.trace_id else None
        self._before = b"".join(
            (b'{"id":"', self.id.encode(), b'","object":"response","created_at":%d' % _created(started, reading))
        )
        self._after = _unchanging(reading.profile, reading.model, reading.echo)

    @property
    def trace(self) -> str | None:
        """The trace's id, if it was asked for."""
        return self._trace

    def running(self, status: Running = "in_progress", output: Sequence[bytes] = ()) -> bytes:
        """Before the end, with the items that are done."""
        return self._snapshot(status.encode(), output, End(""), None, None, {}, self._metadata)

    def complete(
        self, terminal: TerminalEvent, output: Sequence[bytes], usage: Usage | None, custom: Mapping[str, Any]
    ) -> bytes:
        """At the end, with the items as they were done."""
        end = ended(terminal)
        metadata = self._metadata if self._trace is None else {**self._metadata, "trace_id": self._trace}
        at = terminal.at if end.status == "completed" else None
        return self._snapshot(end.status.encode(), output, end, at, usage, custom, metadata)

    def _snapshot(
        self,
        status: bytes,
        output: Sequence[bytes],
        end: End,
        at: datetime | None,
        usage: Usage | None,
        custom: Mapping[str, Any],
        metadata: Mapping[str, str],
    ) -> bytes:
        if at is not None and usage is None and not custom and not metadata:
            # By far the most common end, and of a fixed shape.
            done = (self._before, _DONE, b",".join(output), b'],"completed_at":%d' % _seconds(at))
            return b"".join((*done, _NOTHING_ELSE[self._profile], self._after, b"}"))
        changing: dict[str, Any] = {
            "completed_at": None if at is None else _seconds(at),
            "error": end.error,
            "incomplete_details": None if end.reason is None else {"reason": end.reason},
            "usage": None if usage is None else usage_object(usage),
        }
        if self._profile == "invocations":
            changing = {name: value for name, value in changing.items() if value is not None}
        if custom:
            changing["custom_outputs"] = custom
        changing["metadata"] = metadata
        return b"".join(
            (
                self._before,
                b',"status":"',
                status,
                b'","output":[',
                b",".join(output),
                b"],",
                json.encode(changing)[1:-1],
                self._after,
                b"}",
            )
        )


def plain(started: RunStarted, reading: Reading, item: bytes, at: datetime) -> bytes:
    """The response of a run that said one thing and ended well: what ResponseObject would give, in one go."""
    head = (
        _ID,
        started.run_id.removeprefix("run_").encode(),
        b'","object":"response","created_at":%d' % _created(started, reading),
    )
    tail = (_NOTHING_ELSE[reading.profile], _unchanging(reading.profile, reading.model, reading.echo), b"}")
    return b"".join((*head, _DONE, item, b'],"completed_at":%d' % _seconds(at), *tail))


def usage_object(usage: Usage) -> dict[str, Any]:
    """Usage, with all the details that validators want."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_input_tokens or 0,
            "cache_write_tokens": usage.cache_creation_input_tokens or 0,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": usage.total_tokens,
    }


def _encoded(profile: Profile, fields: Mapping[str, Any]) -> bytes:
    if profile == "invocations":
        fields = {name: value for name, value in fields.items() if value is not None}
    return b"," + json.encode(fields)[1:-1]


_ID = b'{"id":"resp_'
_DONE = b',"status":"completed","output":['
_NOTHING_ELSE: Mapping[Profile, bytes] = {
    "open": b',"error":null,"incomplete_details":null,"usage":null,"metadata":{}',
    "invocations": b',"metadata":{}',
}


def _unchanging(profile: Profile, model: str, echo: Mapping[str, Any]) -> bytes:
    """The fields that stay the same throughout a response."""
    if not echo:
        return _unasked(profile, model)
    return b',"model":' + json.encode(model) + _encoded(profile, {**_DEFAULTS, **echo})


@lru_cache(256)  # Most requests ask for nothing special, of one of a few models.
def _unasked(profile: Profile, model: str) -> bytes:
    return b',"model":' + json.encode(model) + _encoded(profile, _DEFAULTS)


def _created(started: RunStarted, reading: Reading) -> int:
    """A response in the background is there before its run starts."""
    return _seconds(reading.queued_at or started.at)


def _seconds(at: datetime | None) -> int:
    return int(at.timestamp()) if at else 0
