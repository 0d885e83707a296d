"""Prometheus metrics at /metrics.

Requests are counted in plain numbers on the event loop, and converted when /metrics is read: the library's thread-safe
counters cost more than routing a request.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from palaver.engine.engine import Engine

METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_BUCKETS = Histogram.DEFAULT_BUCKETS


class Metrics:
    """The metrics of a server. Labels are names of routes, not paths: clients must not create series."""

    def __init__(self, engine: Engine) -> None:
        registry = self._registry = CollectorRegistry()
        self._requests: dict[tuple[str, int], int] = {}
        self._buckets = [0] * len(_BUCKETS)
        self._total_seconds = 0.0
        self._counters: list[tuple[str, str, Callable[[], int]]] = []
        registry.register(self)
        active_runs = Gauge("palaver_runs_alive", "Active runs.", registry=registry)
        active_runs.set_function(lambda: engine.active_count)
        busy_threads = Gauge(
            "palaver_threads_busy", "Worker threads in use by synchronous workflows.", registry=registry
        )
        busy_threads.set_function(lambda: engine.thread_pool.busy)

    def count(self, route: str, status: int, seconds: float) -> None:
        key = route, status
        self._requests[key] = self._requests.get(key, 0) + 1
        self._buckets[bisect_left(_BUCKETS, seconds)] += 1
        self._total_seconds += seconds

    def add_counter(self, name: str, description: str, count: Callable[[], int]) -> None:
        """Add a counter whose value another object holds."""
        self._counters.append((name, description, count))

    def collect(self) -> Iterator[Metric]:
        """Called by the Prometheus registry."""
        requests = CounterMetricFamily("palaver_requests", "HTTP requests.", labels=["route", "status"])
        for (route, status), request_count in self._requests.items():
            requests.add_metric([route, str(status)], request_count)
        yield requests
        for name, description, count in self._counters:
            yield CounterMetricFamily(name, description, value=count())
        cumulative = [(_bucket_label(bound), sum(self._buckets[: index + 1])) for index, bound in enumerate(_BUCKETS)]
        durations = HistogramMetricFamily("palaver_request_seconds", "Duration of requests, in seconds.")
        durations.add_metric([], cumulative, self._total_seconds)
        yield durations

    def text(self) -> bytes:
        return generate_latest(self._registry)


def _bucket_label(bound: float) -> str:
    return "+Inf" if bound == float("inf") else str(bound)
