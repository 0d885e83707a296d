"""Reading what is sent, aside: large requests are read by a process of their own, where a core is free for one.

To read a span takes longer than to write it, and two threads of one process do not get more done than one. The process
begins with the first large request, and ends when none came for a while; until it is there, and whenever it is not,
requests are read here. It gets requests over a pipe and gives rows back, one after the other; when whoever began it is
gone, it ends by itself. What it runs is `python -m palaver.traces.decode_worker`.
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
    from palaver.traces.otlp import RequestLimits
    from palaver.traces.redaction.redactor import RedactionConfig

log = logging.getLogger("palaver.traces")

MIN_OFFLOAD_BYTES = 64 * 1024
"""Bytes of a request from which on it is worth the way."""
IDLE_TIMEOUT_S = 60.0
"""Seconds without a request after which the process ends."""
_RESTART_DELAY_S = 60.0
"""Seconds until another one is begun, where one ended that should not have."""
_PIPE_BYTES = 1024 * 1024
_LENGTH_PREFIX_BYTES = 8


class DecodeFailure(msgspec.Struct, frozen=True):
    """What reading raised."""

    error: str
    message: str


Job: TypeAlias = "tuple[TraceRequest, RequestLimits]"
JobResult: TypeAlias = "tuple[DecodeFailure | None, IngestResult | None]"


class RequestDecoder:
    """Reads requests, aside or here. All of it happens in one thread."""

    def __init__(
        self,
        redact: "RedactSpan",
        rules: "Callable[[], RedactionConfig]",
        *,
        cores: int = 2,
        idle: float = IDLE_TIMEOUT_S,
    ) -> None:
        """Aside, if there are so many cores: one for each process that serves, and one more."""
        self._redact = redact
        self._rules = rules
        self._is_worth_it = _available_cores() >= cores
        self._idle = idle
        self._process: _WorkerProcess | None = None
        self._not_before = 0.0
        self.read = 0
        """Requests that were read aside."""

    def take(self, sent: "TraceRequest", limits: "RequestLimits") -> "IngestResult":
        """The rows of a request. Raises what decoding raises."""
        from palaver.traces.ingest import ingest_request

        if self._is_worth_it and len(sent.body) >= MIN_OFFLOAD_BYTES and (process := self._ready()) is not None:
            try:
                answer = process.asked((sent, limits))
            except (OSError, EOFError, msgspec.DecodeError):
                self._lost("ended while it read a request")
            else:
                self.read += 1
                return answer
        return ingest_request(sent, self._redact, limits)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.end()
            self._process = None

    def _ready(self) -> "_WorkerProcess | None":
        """The process, if there is one and it has loaded what it needs; if there is none, one is begun."""
        if self._process is not None and (status := self._process.status()) is not None:
            if status == 0:  # Nobody needed it for a while.
                self.close()
            else:
                self._lost(f"ended with {status}")
        if self._process is None and time.monotonic() >= self._not_before:
            try:
                self._process = _WorkerProcess(self._rules(), self._idle)
            except OSError as error:
                self._lost(f"could not be begun ({error})")
        return self._process if self._process is not None and self._process.has_begun() else None

    def _lost(self, how: str) -> None:
        self.close()
        self._not_before = time.monotonic() + _RESTART_DELAY_S
        log.warning("The process that reads spans %s; they are read in the server until another one is begun.", how)


def _available_cores() -> int:
    """Those that we may use; elsewhere than on POSIX none, as nobody there tells if there is anything in a pipe."""
    if os.name != "posix":
        return 0
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _WorkerProcess:
    """The process, from outside."""

    def __init__(self, rules: "RedactionConfig", idle: float) -> None:
        command = [sys.executable, "-P", "-m", __name__]
        # A session of its own: what a terminal sends to all is not for it.
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
        self._to, self._from = self._process.stdin, self._process.stdout
        self._begun = False
        try:
            _send_message(self._to, msgspec.msgpack.encode((rules, idle)))
        except OSError:  # It is gone already: nobody else would let go of what is left of it.
            self.end()
            raise

    def status(self) -> int | None:
        """How it ended, if it did."""
        return self._process.poll()

    def has_begun(self) -> bool:
        """Has it loaded what it needs?"""
        if not self._begun and select.select([self._from], [], [], 0)[0]:
            with contextlib.suppress(EOFError):
                _receive_message(self._from)
                self._begun = True
        return self._begun

    def asked(self, job: "Job") -> "IngestResult":
        """What it makes of a request."""
        from palaver.traces.ingest import IngestResult

        _send_message(self._to, msgspec.msgpack.encode(job))
        refused, taken = msgspec.msgpack.decode(
            _receive_message(self._from), type=tuple[DecodeFailure | None, IngestResult | None]
        )
        if refused is not None:
            raise _error_class(refused.error)(refused.message)
        assert taken is not None
        return taken

    def end(self) -> None:
        """Let it go."""
        for pipe in (self._to, self._from):
            with contextlib.suppress(OSError):
                pipe.close()
        try:
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _error_class(name: str) -> type[PalaverError]:
    found = getattr(errors, name, None)
    return found if isinstance(found, type) and issubclass(found, PalaverError) else PalaverError


# The pipe


def _send_message(pipe: IO[bytes], message: bytes) -> None:
    pipe.write(len(message).to_bytes(_LENGTH_PREFIX_BYTES))
    left = memoryview(message)
    while left:
        left = left[pipe.write(left) :]


def _receive_message(pipe: IO[bytes]) -> bytearray:
    """The next message. Raises EOFError if there is none."""
    return _read_exactly(pipe, int.from_bytes(_read_exactly(pipe, _LENGTH_PREFIX_BYTES)))


def _read_exactly(pipe: Any, length: int) -> bytearray:
    message = bytearray(length)
    left = memoryview(message)
    while left:
        count = pipe.readinto(left)
        if not count:
            raise EOFError
        left = left[count:]
    return message


# The process itself


def main() -> None:
    """Read requests until there are no more."""
    from palaver.traces.ingest import TraceRequest, ingest_request
    from palaver.traces.otlp import RequestLimits
    from palaver.traces.redaction.redactor import ProjectRedactors, RedactionConfig

    # What prints anything by mistake must not print it between messages.
    to = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    come = os.fdopen(os.dup(0), "rb", buffering=0)
    jobs = msgspec.msgpack.Decoder(tuple[TraceRequest, RequestLimits])
    with contextlib.suppress(EOFError, BrokenPipeError):
        rules, idle = msgspec.msgpack.decode(_receive_message(come), type=tuple[RedactionConfig, float])
        house = ProjectRedactors(rules)
        house.of("")
        _send_message(to, b"begun")
        while select.select([come], [], [], idle)[0]:
            sent, limits = jobs.decode(_receive_message(come))
            answer: JobResult
            try:
                answer = None, ingest_request(sent, house.span, limits)
            except PalaverError as error:
                answer = DecodeFailure(type(error).__name__, error.message), None
            _send_message(to, msgspec.msgpack.encode(answer))


if __name__ == "__main__":
    main()
