"""Terminal events of failed runs. Foreign exceptions go to the log; strangers only learn the id of the run."""

import logging
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from palaver.core import json, secret_mask
from palaver.core.events import Event, RunFailed
from palaver.errors import DiskFull, Failure, Overloaded, PalaverError, WorkflowFailed

log = logging.getLogger("palaver.run")


class RunIdentity(Protocol):
    """What log messages and errors say about a run."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str:
        """The name of the workflow."""
        ...


@dataclass
class FailureDisclosure:
    """What callers learn about the exceptions of workflows. Shared by all runs of an engine."""

    debug: bool = False
    """Whether the operator wants callers to see them."""
    is_local: Callable[[], bool] = lambda: False
    """Whether all callers are on this machine, and need no API key."""
    server_url: str = ""
    """The address of the web interface, for links to traces."""

    @property
    def shows_exceptions(self) -> bool:
        return self.debug or self.is_local()

    def trace_url(self, trace: str) -> str:
        return f"{self.server_url}/traces/{trace}" if self.server_url and self.is_local() else ""


def failure_event(
    error: BaseException, run: RunIdentity, *, debug: bool, trace_url: str = "", secrets: Collection[str] = ()
) -> RunFailed:
    """Return the terminal event of a run that raised: a PalaverError keeps its message, others only with `debug`.

    `secrets` are the caller's, which are masked wherever an exception repeats them.
    """
    error = _unwrap_group(error)
    if isinstance(error, PalaverError):
        status = error.status if isinstance(error, Failure) else None
        failure = RunFailed(code=error.code, message=error.message, status=status, details=error.details)
        return sanitize_failure(failure, secrets)
    if secrets:
        log.error("The workflow %s failed (run %s).\n%s", run.name, run.id, _masked_traceback(error, secrets))
    else:
        log.error("The workflow %s failed (run %s).", run.name, run.id, exc_info=error)
    message = f"The workflow failed (run {run.id})."
    if debug:
        message = f"{message} {_describe(error, secrets)}"
    if trace_url:
        message = f"{message if message.endswith(('.', '!', '?')) else f'{message}.'} Trace: {trace_url}"
    return RunFailed(code=WorkflowFailed.code, message=message)


def sanitize_failure(failure: RunFailed, secrets: Collection[str] = ()) -> RunFailed:
    """Make an author's failure encodable: valid text, details that are JSON, no secrets."""
    code, message, details = (
        json.replace_surrogates(str(failure.code)),
        json.replace_surrogates(str(failure.message)),
        _plain_details(failure.details),
    )
    if secrets:
        code, message, details = secret_mask.mask_values([code, message, details], secrets)
    return msgspec.structs.replace(failure, code=code, message=message, details=details)


def _masked_traceback(error: BaseException, secrets: Collection[str]) -> str:
    return secret_mask.mask_values("".join(traceback.format_exception(error)), secrets)


def unrecorded_end(error: Exception, run: RunIdentity, last: Sequence[Event]) -> Sequence[Event]:
    """Return the last events of a run whose end could not be recorded, with a failure as terminal event."""
    is_expected = isinstance(error, PalaverError)
    log.error("Failed to store the outcome of run %s: %s", run.id, error, exc_info=None if is_expected else error)
    *earlier_events, terminal = last
    code = DiskFull.code if isinstance(error, DiskFull) else Overloaded.code
    failure = RunFailed(
        seq=terminal.seq, code=code, message="The run ended, but its outcome could not be stored. Try again later."
    )
    return [*earlier_events, msgspec.structs.replace(failure, at=getattr(terminal, "at", None))]


def _unwrap_group(error: BaseException) -> BaseException:
    """Return the only exception of a (nested) exception group."""
    if not issubclass(type(error), BaseExceptionGroup):
        return error
    exceptions: Sequence[BaseException] = getattr(error, "exceptions")  # noqa: B009 - typed here, unknown to the checker
    return _unwrap_group(exceptions[0]) if len(exceptions) == 1 else error


def _plain_details(details: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return json.to_builtins(details)
    except json.NotJson as error:
        return {"details": f"omitted: {error}"}


def _describe(error: BaseException, secrets: Collection[str]) -> str:
    try:
        return json.replace_surrogates(secret_mask.mask_secrets(f"{type(error).__name__}: {error}", secrets))
    except Exception:  # The author's __str__ may raise anything.
        return type(error).__name__
