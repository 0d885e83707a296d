"""One door for both forms."""

from datetime import datetime

from palaver.traces.otlp import jsonform
from palaver.traces.otlp.spans import Batch
from palaver.traces.otlp.unpacking import LIMITS, Limits, form_of


def decode(body: bytes, media_type: str, received_at: datetime, limits: Limits = LIMITS) -> Batch:
    """The spans of an unpacked body, each checked and bounded. Pure, and some work: not for the event loop.

    Raises InvalidBody for what is no request at all, TooLarge for one of too many spans, and UnsupportedMediaType.
    """
    if form_of(media_type) == "json":
        return jsonform.decode(body, received_at, limits.spans)
    from palaver.traces.otlp import protobuf  # Slow to import, and many never need it.

    return protobuf.decode(body, received_at, limits.spans)
