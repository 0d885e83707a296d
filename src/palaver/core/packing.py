"""Packing: events as they are kept. Deltas that follow each other in one item share what they have in common.

Nothing is merged: each keeps its own text, and unpacking gives the same events again, so that a replay gives the same
bytes. A stream is mostly such deltas, and takes a sixth of the room.
"""

from collections.abc import Iterable, Sequence

import msgspec

from palaver.core.events import Event, ReasoningDelta, TextDelta, ToolDelta


class _Deltas(msgspec.Struct, tag_field="type", gc=False):
    seq: int
    """That of the first of them."""
    item: str
    deltas: list[str]


class _TextDeltas(_Deltas, tag="text-deltas"):
    pass


class _ReasoningDeltas(_Deltas, tag="reasoning-deltas"):
    pass


class _ToolDeltas(_Deltas, tag="tool-deltas"):
    pass


_PACKED: dict[type, type[_Deltas]] = {
    TextDelta: _TextDeltas,
    ReasoningDelta: _ReasoningDeltas,
    ToolDelta: _ToolDeltas,
}
_UNPACKED: dict[type, type[TextDelta | ReasoningDelta | ToolDelta]] = {
    _TextDeltas: TextDelta,
    _ReasoningDeltas: ReasoningDelta,
    _ToolDeltas: ToolDelta,
}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Event | _TextDeltas | _ReasoningDeltas | _ToolDeltas]).decode


def pack(events: Sequence[Event]) -> bytes:
    """The events, as bytes."""
    packed: list[Event | _Deltas] = []
    kind: type | None = None  # Of the deltas that are being packed, and the item they belong to.
    item = ""
    deltas: list[str] = []
    for event in events:
        match event:
            case TextDelta() | ReasoningDelta() | ToolDelta():
                if type(event) is not kind or event.item != item:
                    kind, item, deltas = type(event), event.item, []
                    packed.append(_PACKED[kind](event.seq, item, deltas))
                deltas.append(event.delta)
            case _:
                kind = None
                packed.append(event)
    return _encode(packed)


def unpack(data: bytes) -> list[Event]:
    """The events again."""
    return [event for packed in _decode(data) for event in _unpacked(packed)]


def _unpacked(packed: Event | _TextDeltas | _ReasoningDeltas | _ToolDeltas) -> Iterable[Event]:
    if isinstance(packed, _Deltas):
        make, item = _UNPACKED[type(packed)], packed.item
        return [make(seq, item, delta) for seq, delta in enumerate(packed.deltas, packed.seq)]
    return (packed,)
