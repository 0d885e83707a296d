"""Choose between JSON, JSON lines and server-sent events for /invoke, from the Accept header."""

from collections.abc import Mapping, Sequence

from palaver.errors import NotAcceptable
from palaver.protocols.base import choose_media_type
from palaver.protocols.ui_stream.request import parse_version

JSON, SSE = "application/json", "text/event-stream"
NDJSON, JSONL = "application/x-ndjson", "application/jsonl"
INVOKE_OFFERS = (JSON, NDJSON, JSONL, SSE)


def ui_version(headers: Mapping[str, str]) -> int | None:
    """Return the version of a client that wants UI messages; None for Agenta's own format."""
    match headers.get("x-ag-messages-format", "agenta"):
        case "agenta":
            return None
        case "vercel":
            return parse_version(headers)
        case _:
            known = ["agenta", "vercel"]
            raise NotAcceptable(f"x-ag-messages-format must be {' or '.join(known)}.", supported=known)


def ui_offers(offers: Sequence[str]) -> tuple[str, ...]:
    """UI messages can be sent as JSON or as events, not as lines."""
    return tuple(offer for offer in offers if offer in (JSON, SSE))


def negotiate(headers: Mapping[str, str], flags: Mapping[str, bool], offers: Sequence[str]) -> str:
    """Choose the media type of the response."""
    stream = flags.get("stream")
    allowed = tuple(offer for offer in offers if stream is None or stream is (offer != JSON))
    if not allowed:
        raise NotAcceptable("This route does not stream. Omit flags.stream or use /invoke.", supported=offers)
    media_type = choose_media_type(headers.get("accept"), allowed)
    if media_type is None:
        suffix = "" if stream is None else f" if flags.stream is {str(stream).lower()}"
        raise NotAcceptable(
            f"None of the accepted media types is available{suffix}. Accept {' or '.join(allowed)}.", supported=allowed
        )
    return media_type
