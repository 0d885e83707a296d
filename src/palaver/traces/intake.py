"""From a body to rows: unpacked, decoded, mapped, redacted, and made ready to be kept. Pure, and work for a thread.

One bad span never loses its neighbours: each goes this way by itself. What could not be redacted is not kept.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TypeAlias

import msgspec

from palaver.storage.spans.writes import SpanRow
from palaver.traces.mapping import to_span
from palaver.traces.otlp import LIMITS, Limits, Rejected, decode, unpacked
from palaver.traces.record import Raw, Span
from palaver.traces.rows import row_of

Redact: TypeAlias = Callable[[Span], Span]
"""What takes out of a record what is not to be kept."""

log = logging.getLogger("palaver.traces")


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it came."""

    project: str
    """The sender's, from its credential: nothing in the body can say it."""
    body: bytes
    media_type: str
    encoding: str | None = None
    received_at: datetime


class Taken(msgspec.Struct, frozen=True):
    """What is to be kept of it, and what not."""

    rows: list[SpanRow]
    rejected: list[Rejected]
    pending: int = 0
    """Notices of spans that have only begun: neither kept nor refused."""


def take(sent: Sent, redact: Redact, limits: Limits = LIMITS) -> Taken:
    """The rows of a request. Raises what decoding raises: InvalidBody, TooLarge, UnsupportedMediaType."""
    batch = decode(unpacked(sent.body, sent.encoding, limits), sent.media_type, sent.received_at, limits)
    rows: list[SpanRow] = []
    rejected = list(batch.rejected)
    for index, raw in enumerate(batch.spans):
        row = _row(lambda raw=raw: redact(to_span(raw, project=sent.project)), raw)
        if row is None:
            rejected.append(Rejected(index, f"the span {raw.span_id} could not be read"))
        else:
            rows.append(row)
    return Taken(rows, rejected, batch.pending)


def rows_of(spans: Iterable[Span], redact: Redact) -> Sequence[SpanRow]:
    """The rows of records that were made here."""
    made = [_row(lambda span=span: redact(span), span) for span in spans]
    return [row for row in made if row is not None]


def _row(made: Callable[[], Span], of: Raw | Span) -> SpanRow | None:
    try:
        return row_of(made())
    except Exception:  # A mistake of ours, which a stranger's span brought out: the others are still good.
        log.exception("The span %s of trace %s could not be read", of.span_id, of.trace_id)
        return None
