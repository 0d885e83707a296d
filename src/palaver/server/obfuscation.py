"""Pad the frames of streams, so that packet sizes reveal no words (OpenAI's `obfuscation` field)."""

from types import ModuleType, SimpleNamespace
from typing import Any, cast

from palaver.core.events import Event, ReasoningDelta, RunStarted, TextDelta, ToolDelta
from palaver.protocols.base import Adapter, EventEncoder
from palaver.protocols.chat_completions import adapter as chat_completions
from palaver.protocols.responses import adapter as responses

_PADDING_STEP_BYTES = 64
"""The size of a padded frame is a multiple of this."""
_PADDING_FIELD = b',"obfuscation":"'
_PADDING_END = b'"}\n\n'
_PADDING_OVERHEAD_BYTES = len(_PADDING_FIELD) + 1  # With the closing quote.


def padded_adapters() -> dict[str, Adapter]:
    """Return adapters that pad their deltas, by protocol: OpenAI's two have a field for it, `obfuscation`.

    An observer of encrypted packets then learns no words from their sizes.
    """
    return {"chat_completions": _padded_adapter(chat_completions), "responses": _padded_adapter(responses)}


def _padded_adapter(protocol: ModuleType) -> Adapter:
    padded = SimpleNamespace(**vars(protocol))

    def stream_encoder(request: Any) -> EventEncoder:
        return pad_deltas(protocol.stream_encoder(request))

    def queued_stream(started: RunStarted, request: Any) -> tuple[bytes, EventEncoder]:
        opening, encode = protocol.queued_stream(started, request)
        return opening, pad_deltas(encode)

    padded.stream_encoder, padded.queued_stream = stream_encoder, queued_stream
    return cast("Adapter", padded)


def pad_deltas(encoder: EventEncoder) -> EventEncoder:
    """Pad the frames of deltas; the same event always gives the same bytes."""

    def encode(event: Event) -> bytes:
        body = encoder(event)
        if isinstance(event, TextDelta | ReasoningDelta | ToolDelta) and body.endswith(b"}\n\n"):
            padding_bytes = -(len(body) + _PADDING_OVERHEAD_BYTES) % _PADDING_STEP_BYTES
            return b"".join((body[:-3], _PADDING_FIELD, b"0" * padding_bytes, _PADDING_END))
        return body

    return encode
