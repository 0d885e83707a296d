"""Events of a run's stream, and their packed form for storage.

    run      = run-started  item*  terminal
    item     = text | reasoning | tool | result | part          (items may interleave; ids keep them apart)
    text     = text-started       text-delta+        text-ended
    reasoning= reasoning-started  reasoning-delta+   reasoning-ended
    tool     = tool-started       tool-delta*        tool-ended
    result   = tool-result                                      (its call ended before, in this run or the history)
    part     = part                                             (a file, a refusal, data); usage may stand anywhere
    terminal = run-finished | run-failed | run-cancelled

Producers may leave out ids and sequence numbers; grammar.py fills them in. Events are created by the hundred thousand,
so they are plain structs without validation, with `seq` first so that it can be passed by position.

Packed, consecutive deltas of one item share their common fields. Nothing is merged: unpacking returns the same events,
so a replay sends the same bytes, and a typical stream takes a sixth of the space.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core.messages import Annotation, Data, File, Refusal, Usage

FinishReason = Literal["stop", "length", "tool-calls", "content-filter", "cancelled", "interrupted", "error"]


class _Event(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type"):
    seq: int = -1
    """Position in the run: 0, 1, 2 … without gaps."""


class RunStarted(_Event, frozen=True, tag="run-started"):
    """The run started. Always the first event."""

    run_id: str = ""
    session: str = ""
    at: datetime | None = None
    trace_id: str = ""
    span_id: str = ""


class TextStarted(_Event, frozen=True, tag="text-started"):
    """A text item opens."""

    item: str = ""
    message: str = ""


# Deltas only hold strings and numbers: opting out of garbage collection saves a third of their cost.
class TextDelta(_Event, frozen=True, tag="text-delta", gc=False):
    """A piece of text."""

    item: str = ""
    delta: str = ""


class TextEnded(_Event, frozen=True, tag="text-ended"):
    """A text item closes. Has its complete text."""

    item: str = ""
    text: str = ""
    annotations: tuple[Annotation, ...] = ()


class ReasoningStarted(_Event, frozen=True, tag="reasoning-started"):
    """A reasoning item opens."""

    item: str = ""
    message: str = ""


class ReasoningDelta(_Event, frozen=True, tag="reasoning-delta", gc=False):
    """A piece of reasoning."""

    item: str = ""
    delta: str = ""


class ReasoningEnded(_Event, frozen=True, tag="reasoning-ended"):
    """A reasoning item closes. Has its complete text."""

    item: str = ""
    text: str = ""
    encrypted: str | None = None


class ToolStarted(_Event, frozen=True, tag="tool-started"):
    """A tool call opens."""

    item: str = ""
    message: str = ""
    call_id: str = ""
    name: str = ""


class ToolDelta(_Event, frozen=True, tag="tool-delta", gc=False):
    """A piece of a call's arguments."""

    item: str = ""
    delta: str = ""


class ToolEnded(_Event, frozen=True, tag="tool-ended"):
    """A tool call closes. Has its arguments exactly as they were produced."""

    item: str = ""
    arguments: str = ""


class ToolReturned(_Event, frozen=True, tag="tool-result"):
    """The result of a tool call, as a separate message."""

    item: str = ""
    message: str = ""
    call_id: str = ""
    output: Any = None
    is_error: bool = False


class PartAdded(_Event, frozen=True, tag="part"):
    """A complete part. A transient one is shown but not stored."""

    item: str = ""
    message: str = ""
    part: File | Refusal | Data | None = None
    transient: bool = False


class UsageAdded(_Event, frozen=True, tag="usage"):
    """The usage of one step. The usage of a run is the sum."""

    usage: Usage = Usage(input_tokens=0, output_tokens=0)


class RunFinished(_Event, frozen=True, tag="run-finished"):
    """The run succeeded. `value` is the result of a workflow that is not a chat; null is a value."""

    finish: FinishReason = "stop"
    usage: Usage | None = None
    value: Any | UnsetType = UNSET
    at: datetime | None = None


class RunFailed(_Event, frozen=True, tag="run-failed"):
    """The run failed. Output produced before the error is kept."""

    code: str = "workflow_failed"
    message: str = ""
    status: int | None = None
    """The HTTP status, if the author set one."""
    details: Mapping[str, Any] = {}
    usage: Usage | None = None
    at: datetime | None = None


class RunCancelled(_Event, frozen=True, tag="run-cancelled"):
    """The run was cancelled. Output produced before that is kept."""

    usage: Usage | None = None
    at: datetime | None = None


TerminalEvent = RunFinished | RunFailed | RunCancelled
Event = (
    TextDelta
    | ReasoningDelta
    | ToolDelta
    | RunStarted
    | TextStarted
    | TextEnded
    | ReasoningStarted
    | ReasoningEnded
    | ToolStarted
    | ToolEnded
    | ToolReturned
    | PartAdded
    | UsageAdded
    | TerminalEvent
)
TERMINAL_EVENTS = (RunFinished, RunFailed, RunCancelled)
TOOL_EVENTS = frozenset({ToolStarted, ToolEnded, ToolReturned})
"""Events whose time is recorded for tracing."""


class _Deltas(msgspec.Struct, tag_field="type", gc=False):
    seq: int
    """Sequence number of the first delta."""
    item: str
    deltas: list[str]


class _TextDeltas(_Deltas, tag="text-deltas"):
    pass


class _ReasoningDeltas(_Deltas, tag="reasoning-deltas"):
    pass


class _ToolDeltas(_Deltas, tag="tool-deltas"):
    pass


_PACKED_TYPES: dict[type, type[_Deltas]] = {
    TextDelta: _TextDeltas,
    ReasoningDelta: _ReasoningDeltas,
    ToolDelta: _ToolDeltas,
}
_UNPACKED_TYPES: dict[type, type[TextDelta | ReasoningDelta | ToolDelta]] = {
    _TextDeltas: TextDelta,
    _ReasoningDeltas: ReasoningDelta,
    _ToolDeltas: ToolDelta,
}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Event | _TextDeltas | _ReasoningDeltas | _ToolDeltas]).decode


def pack_events(events: Sequence[Event]) -> bytes:
    """Encode events for storage."""
    packed: list[Event | _Deltas] = []
    kind: type | None = None  # Type and item of the deltas being packed.
    item = ""
    deltas: list[str] = []
    for event in events:
        match event:
            case TextDelta() | ReasoningDelta() | ToolDelta():
                if type(event) is not kind or event.item != item:
                    kind, item, deltas = type(event), event.item, []
                    packed.append(_PACKED_TYPES[kind](event.seq, item, deltas))
                deltas.append(event.delta)
            case _:
                kind = None
                packed.append(event)
    return _encode(packed)


def unpack_events(data: bytes) -> list[Event]:
    """Decode events encoded by `pack_events`."""
    return [event for packed in _decode(data) for event in _expand(packed)]


def _expand(packed: Event | _TextDeltas | _ReasoningDeltas | _ToolDeltas) -> Iterable[Event]:
    if isinstance(packed, _Deltas):
        event_type, item = _UNPACKED_TYPES[type(packed)], packed.item
        return [event_type(seq, item, delta) for seq, delta in enumerate(packed.deltas, packed.seq)]
    return (packed,)
