"""Decode large requests in a child process, if a core is free for it.

Decoding a span takes longer than writing it, and two threads of one process decode no faster than one. The process is
started by the first large request and exits when idle; until it is ready, and whenever it is gone, requests are decoded
in the server. Requests and rows travel over pipes, one after the other; the process exits when its parent does. It runs
`python -m palaver.traces.decode_worker`.
"""

import contextlib
import logging
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import msgspec

from palaver import errors
from palaver.errors import PalaverError

if TYPE_CHECKING:
    from palaver.traces.ingest import IngestResult, RedactSpan, TraceRequest
    from palaver.traces.otlp.decompression import RequestLimits
    from palaver.traces.redaction.redactor import RedactionConfig

log = logging.getLogger("palaver.traces")

MIN_OFFLOAD_BYTES = 64 * 1024
"""Smaller requests are decoded in the server."""
IDLE_TIMEOUT_S = 60.0
_RESTART_DELAY_S = 60.0
"""Delay before a process that failed is replaced."""
_PIPE_BYTES = 1024 * 1024
_LENGTH_PREFIX_BYTES = 8


class DecodeFailure(msgspec.Struct, frozen=True):
    error: str
    message: str


Job: TypeAlias = "tuple[TraceRequest, RequestLimits]"
JobResult: TypeAlias = "tuple[DecodeFailure | None, IngestResult | None]"


class RequestDecoder:
    """Decodes requests, in the child process or here. Use it from one thread."""

    def __init__(
        self,
        redact: "RedactSpan",
        redaction_config: "Callable[[], RedactionConfig]",
        *,
        cores: int = 2,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
    ) -> None:
        """Use a child process if there are at least `cores` cores: one per server process, and one more."""
        self._redact = redact
        self._redaction_config = redaction_config
        self._has_core = _available_cores() >= cores
        self._idle_timeout_s = idle_timeout_s
        self._process: _WorkerProcess | None = None
        self._restart_after = 0.0
        self.offloaded_count = 0
        """Number of requests that the child process decoded."""

    def decode(self, request: "TraceRequest", limits: "RequestLimits") -> "IngestResult":
        """Build the rows of a request. Raises what decoding raises."""
        from palaver.traces.ingest import ingest_request

        if self._has_core and len(request.body) >= MIN_OFFLOAD_BYTES and (process := self._ready_process()) is not None:
            try:
                result = process.run((request, limits))
            except (OSError, EOFError, msgspec.DecodeError):
                self._discard("exited while decoding a request")
            else:
                self.offloaded_count += 1
                return result
        return ingest_request(request, self._redact, limits)

    def close(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None

    def _ready_process(self) -> "_WorkerProcess | None":
        """Return the process if it is ready; start one if needed."""
        if self._process is not None and (status := self._process.status()) is not None:
            if status == 0:  # It was idle.
                self.close()
            else:
                self._discard(f"exited with status {status}")
        if self._process is None and time.monotonic() >= self._restart_after:
            try:
                self._process = _WorkerProcess(self._redaction_config(), self._idle_timeout_s)
            except OSError as error:
                self._discard(f"could not be started ({error})")
        return self._process if self._process is not None and self._process.is_ready() else None

    def _discard(self, reason: str) -> None:
        self.close()
        self._restart_after = time.monotonic() + _RESTART_DELAY_S
        log.warning(
            "The span decoder process %s. Spans are decoded in the server process until the decoder is restarted.",
            reason,
        )


def _available_cores() -> int:
    """Return the usable cores; 0 except on POSIX, where `select` does not work on pipes."""
    if os.name != "posix":
        return 0
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _WorkerProcess:
    """The parent's side of the child process."""

    def __init__(self, config: "RedactionConfig", idle_timeout_s: float) -> None:
        command = [sys.executable, "-P", "-m", __name__]
        # A new session, so that terminal signals don't reach it.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pipesize=_PIPE_BYTES,
            bufsize=0,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._is_ready = False
        try:
            _send_message(self._stdin, msgspec.msgpack.encode((config, idle_timeout_s)))
        except OSError:  # It exited already: reap it.
            self.end()
            raise

    def status(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self._process.poll()

    def is_ready(self) -> bool:
        """Whether it has loaded its modules."""
        if not self._is_ready and select.select([self._stdout], [], [], 0)[0]:
            with contextlib.suppress(EOFError):
                _receive_message(self._stdout)
                self._is_ready = True
        return self._is_ready

    def run(self, job: "Job") -> "IngestResult":
        from palaver.traces.ingest import IngestResult

        _send_message(self._stdin, msgspec.msgpack.encode(job))
        failure, result = msgspec.msgpack.decode(
            _receive_message(self._stdout), type=tuple[DecodeFailure | None, IngestResult | None]
        )
        if failure is not None:
            raise _error_class(failure.error)(failure.message)
        assert result is not None
        return result

    def end(self) -> None:
        """Close the pipes, then wait or kill."""
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        try:
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _error_class(name: str) -> type[PalaverError]:
    cls = getattr(errors, name, None)
    return cls if isinstance(cls, type) and issubclass(cls, PalaverError) else PalaverError


# The pipe


def _send_message(pipe: IO[bytes], message: bytes) -> None:
    pipe.write(len(message).to_bytes(_LENGTH_PREFIX_BYTES))
    remaining = memoryview(message)
    while remaining:
        remaining = remaining[pipe.write(remaining) :]


def _receive_message(pipe: IO[bytes]) -> bytearray:
    """Return the next message. Raises EOFError at the end."""
    return _read_exactly(pipe, int.from_bytes(_read_exactly(pipe, _LENGTH_PREFIX_BYTES)))


def _read_exactly(pipe: Any, length: int) -> bytearray:
    message = bytearray(length)
    remaining = memoryview(message)
    while remaining:
        count = pipe.readinto(remaining)
        if not count:
            raise EOFError
        remaining = remaining[count:]
    return message


# The process itself


def main() -> None:
    """Serve requests until the parent exits or the idle timeout."""
    from palaver.traces.ingest import TraceRequest, ingest_request
    from palaver.traces.otlp.decompression import RequestLimits
    from palaver.traces.redaction.redactor import ProjectRedactors, RedactionConfig

    # Keep stray prints out of the protocol.
    output = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    input_ = os.fdopen(os.dup(0), "rb", buffering=0)
    jobs = msgspec.msgpack.Decoder(tuple[TraceRequest, RequestLimits])
    with contextlib.suppress(EOFError, BrokenPipeError):
        config, idle_timeout_s = msgspec.msgpack.decode(_receive_message(input_), type=tuple[RedactionConfig, float])
        redactors = ProjectRedactors(config)
        redactors.for_project("")
        _send_message(output, b"begun")
        while select.select([input_], [], [], idle_timeout_s)[0]:
            request, limits = jobs.decode(_receive_message(input_))
            result: JobResult
            try:
                result = None, ingest_request(request, redactors.redact, limits)
            except PalaverError as error:
                result = DecodeFailure(type(error).__name__, error.message), None
            _send_message(output, msgspec.msgpack.encode(result))


if __name__ == "__main__":
    main()
