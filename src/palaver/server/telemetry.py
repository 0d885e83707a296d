"""Spans, in and out: our runs' own, which are kept and sent on, and those that other programs send us."""

from palaver.engine.engine import utc_now
from palaver.engine.tracing import RunTracer
from palaver.server.metrics import Metrics
from palaver.server.otlp_endpoint import endpoint
from palaver.server.redacting import Redacting
from palaver.server.sending import Sender, both
from palaver.server.settings import Settings
from palaver.server.traces import Traces
from palaver.storage.database import Database
from palaver.traces.aside import Aside
from palaver.traces.writing import Writer


class Telemetry:
    """All of it that one server has."""

    def __init__(self, settings: Settings, database: Database, redacting: Redacting) -> None:
        redact = redacting.span
        self.writer = Writer(database, redact=redact, now=utc_now)
        self.sending = Sender(endpoint(settings), redact=redact)
        sink = both(self.writer.put, self.sending)
        self.tracing = RunTracer(sink, content=settings.trace_content, clean=redacting.by_author)
        """What makes spans of runs."""
        reader = Aside(redact, redacting.house_rules, cores=settings.workers + 1)
        self.traces = Traces(self.writer, reader, settings, now=utc_now)
        """What takes those of others."""

    def follow(self, metrics: Metrics) -> None:
        """Let it be known how many there are."""
        metrics.follow("palaver_spans_written", "Spans that were kept.", lambda: self.writer.written)
        metrics.follow("palaver_spans_dropped", "Spans of runs that were not.", lambda: self.writer.dropped)
        metrics.follow("palaver_spans_sent", "Spans of runs that were sent on.", lambda: self.sending.sent)
        metrics.follow("palaver_spans_unsent", "Spans of runs that were not.", lambda: self.sending.dropped)

    async def flushed(self) -> None:
        """Wait until the spans of all runs by now are written, or given up."""
        await self.tracing.flushed()
        await self.writer.flushed()

    async def close(self) -> None:
        """Write and send what is left, and let all go."""
        await self.tracing.close()
        await self.traces.close()
        await self.sending.close()
