"""Large requests are decoded by a child process, or here if it fails."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palaver.errors import InvalidBody
from palaver.traces.decode_worker import MIN_OFFLOAD_BYTES, RequestDecoder
from palaver.traces.ingest import IngestResult, TraceRequest, ingest_request
from palaver.traces.otlp.decompression import DEFAULT_LIMITS
from palaver.traces.prices import Price
from palaver.traces.redaction import Rule
from palaver.traces.redaction.redactor import ProjectRedactors, RedactionConfig
from tests.traces.otlp.otlp_requests import NOW, PROTOBUF, request, span

RULES = RedactionConfig(
    rules=(Rule(detector=("email",), action="hash"), Rule(path="user")),
    prices={"gpt-4o": Price(input=2.5, output=10)},
    key=b"k" * 32,
)
TIMEOUT_S = 30.0


def trace_request(body: bytes) -> TraceRequest:
    return TraceRequest(project="mine", body=body, media_type=PROTOBUF, received_at=NOW)


def large_request(**attributes: Any) -> bytes:
    base_attributes = {
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.usage.input_tokens": 1_000,
        "user.id": "ada",
        **attributes,
    }
    text = "Write to ada@example.org! " + "There is more to say. " * (
        MIN_OFFLOAD_BYTES // 20
    )  # Few matches: redaction has a time budget.
    return request(span({"input.value": text, **base_attributes}), span(span_id=b"short"))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextlib.contextmanager
def ready_decoder(**more: Any) -> Iterator[RequestDecoder]:
    """A decoder whose worker process is running."""
    decoder = RequestDecoder(ProjectRedactors(RULES).redact, lambda: RULES, cores=1, **more)
    try:
        wait_until(
            lambda: (
                decoder.decode(trace_request(large_request()), DEFAULT_LIMITS) is not None
                and decoder.offloaded_count > 0
            )
        )
        yield decoder
    finally:
        decoder.close()


def is_equal(one: IngestResult, other: IngestResult) -> bool:
    return msgspec.msgpack.encode(one) == msgspec.msgpack.encode(other)


def decoder_pid(decoder: RequestDecoder) -> int:
    assert decoder._process is not None
    return decoder._process._process.pid


def test_the_worker_returns_the_same_result_as_local_decoding() -> None:
    with ready_decoder() as decoder:
        local = ingest_request(trace_request(large_request()), ProjectRedactors(RULES).redact)
        offloaded = decoder.decode(trace_request(large_request()), DEFAULT_LIMITS)

    assert decoder.offloaded_count == 2
    assert is_equal(local, offloaded)
    assert offloaded.rejected
    assert (offloaded.rows[0].user, offloaded.rows[0].cost) == ("‹redacted›", 0.0025)
    assert "example" not in offloaded.rows[0].words


def test_the_worker_raises_the_same_error_as_local_decoding() -> None:
    with ready_decoder() as decoder:
        with pytest.raises(InvalidBody) as offloaded:
            decoder.decode(trace_request(b"\xff" * MIN_OFFLOAD_BYTES), DEFAULT_LIMITS)
        with pytest.raises(InvalidBody) as local:
            ingest_request(trace_request(b"\xff" * MIN_OFFLOAD_BYTES), ProjectRedactors(RULES).redact)
        assert decoder.offloaded_count == 1

    assert str(offloaded.value) == str(local.value)


def test_small_requests_are_decoded_in_the_server_process() -> None:
    with ready_decoder() as decoder:
        assert decoder.decode(trace_request(request(span())), DEFAULT_LIMITS).rows
        assert decoder.offloaded_count == 1


def test_no_worker_is_started_without_a_free_core() -> None:
    decoder = RequestDecoder(ProjectRedactors(RULES).redact, lambda: RULES, cores=1_000_000)

    assert decoder.decode(trace_request(large_request()), DEFAULT_LIMITS).rows
    assert decoder._process is None


def test_a_request_is_decoded_locally_if_the_worker_dies(caplog: pytest.LogCaptureFixture) -> None:
    with ready_decoder() as decoder, caplog.at_level(logging.WARNING):
        os.kill(decoder_pid(decoder), signal.SIGSTOP)  # It receives the request and never answers.
        killer = subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -KILL {decoder_pid(decoder)}"])
        assert decoder.decode(trace_request(large_request()), DEFAULT_LIMITS).rows
        assert killer.wait(TIMEOUT_S) == 0

        assert decoder.decode(
            trace_request(large_request()), DEFAULT_LIMITS
        ).rows  # No other worker is started at once: it might die as well.
        assert decoder._process is None
        assert decoder.offloaded_count == 1
    assert "exited while decoding a request. Spans are decoded in the server process" in caplog.text


def test_a_worker_that_cannot_start_is_logged(caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    decoder = RequestDecoder(ProjectRedactors(RULES).redact, lambda: RULES, cores=1)
    with caplog.at_level(logging.WARNING):
        assert decoder.decode(trace_request(large_request()), DEFAULT_LIMITS).rows

    assert "could not be started" in caplog.text


def test_an_idle_worker_exits_and_is_restarted_on_demand(caplog: pytest.LogCaptureFixture) -> None:
    with ready_decoder(idle_timeout_s=0.2) as decoder, caplog.at_level(logging.WARNING):
        assert decoder._process is not None
        first_pid = decoder_pid(decoder)
        wait_until(lambda: decoder._process is not None and decoder._process.status() == 0)
        wait_until(
            lambda: (
                decoder.decode(trace_request(large_request()), DEFAULT_LIMITS) is not None
                and decoder.offloaded_count > 1
            )
        )
        assert decoder_pid(decoder) != first_pid
    assert caplog.text == ""


PROGRAM = """
import sys, time
from palaver.traces.redaction.redactor import RedactionConfig
from palaver.traces.decode_worker import _WorkerProcess
process = _WorkerProcess(RedactionConfig(), 60.0)
while not process.is_ready(): time.sleep(0.02)
print(process._process.pid, flush=True)
time.sleep(60)
"""


def test_the_worker_exits_when_the_server_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        worker_pid = int(server.stdout.readline())
        os.kill(worker_pid, 0)
        server.kill()

    def has_exited() -> bool:
        try:
            return Path(f"/proc/{worker_pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):  # The latter while the process is exiting.
            return True

    wait_until(has_exited)
