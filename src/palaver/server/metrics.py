"""Figures for Prometheus at /metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from palaver.engine.engine import Engine

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """What one server counts. Names of routes are ours, never a path as sent: strangers must not make new series."""

    def __init__(self, engine: Engine) -> None:
        registry = self._registry = CollectorRegistry()
        self.requests = Counter("palaver_requests", "Requests answered.", ["route", "status"], registry=registry)
        self.seconds = Histogram("palaver_request_seconds", "Time until the answer was complete.", registry=registry)
        self._children: dict[tuple[str, int], Counter] = {}  # Looking a label up costs more than counting.
        alive = Gauge("palaver_runs_alive", "Runs that have not ended.", registry=registry)
        alive.set_function(lambda: engine.alive)
        busy = Gauge("palaver_threads_busy", "Threads that sync workflows hold.", registry=registry)
        busy.set_function(lambda: engine.threads.busy)

    def count(self, route: str, status: int, seconds: float) -> None:
        """One request was answered."""
        child = self._children.get((route, status))
        if child is None:
            child = self._children[route, status] = self.requests.labels(route, str(status))
        child.inc()
        self.seconds.observe(seconds)

    def text(self) -> bytes:
        """All figures in the text format."""
        return generate_latest(self._registry)
