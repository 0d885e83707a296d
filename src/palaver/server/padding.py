"""Padding: deltas filled up to a few sizes, so that who sees only how large encrypted packets are learns no words.

The two protocols of OpenAI have a field for it, `obfuscation`; the others have none and stay as they are. It is filled
with the same every time, so that what is told again is the same bytes.
"""

from types import ModuleType, SimpleNamespace
from typing import Any, cast

from palaver.core.events import Event, ReasoningDelta, RunStarted, TextDelta, ToolDelta
from palaver.protocols import chat_completions, responses
from palaver.protocols.base import Adapter, Frames

_STEP = 64
"""Every padded piece has a multiple of so many bytes."""
_FIELD, _END = b',"obfuscation":"', b'"}\n\n'
_AROUND = len(_FIELD) + 1  # Its closing quote; the bracket and the line ends are there already.


def adapters() -> dict[str, Adapter]:
    """The protocols that can be padded, by name, padded."""
    return {"chat_completions": _padding(chat_completions), "responses": _padding(responses)}


def _padding(protocol: ModuleType) -> Adapter:
    """The protocol with other encoders of its streams, and otherwise as it is."""
    own = SimpleNamespace(**vars(protocol))

    def frames(reading: Any) -> Frames:
        return padded(protocol.frames(reading))

    def queued_frames(started: RunStarted, reading: Any) -> tuple[bytes, Frames]:
        opening, rest = protocol.queued_frames(started, reading)
        return opening, padded(rest)

    own.frames, own.queued_frames = frames, queued_frames
    return cast("Adapter", own)


def padded(frames: Frames) -> Frames:
    """The same frames, those of deltas filled up."""

    def tell(event: Event) -> bytes:
        body = frames(event)
        if isinstance(event, TextDelta | ReasoningDelta | ToolDelta) and body.endswith(b"}\n\n"):
            missing = -(len(body) + _AROUND) % _STEP
            return b"".join((body[:-3], _FIELD, b"0" * missing, _END))
        return body

    return tell
