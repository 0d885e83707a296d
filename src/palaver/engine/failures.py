"""Failures: how a run that ended badly says so. A stranger's exception is for the log; readers learn the run's id."""

import logging
import traceback
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from palaver.core import json, masking
from palaver.core.events import Event, RunFailed
from palaver.errors import DiskFull, Failure, Overloaded, PalaverError, WorkflowFailed

log = logging.getLogger("palaver.run")


class RunIdentity(Protocol):
    """What is said of the run."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def name(self) -> str:
        """The workflow's name."""
        ...


def failure_event(error: BaseException, run: RunIdentity, *, debug: bool, known: Collection[str] = ()) -> RunFailed:
    """The end of a run that an exception ended: ours with its own words, a foreign one without.

    `known` are the caller's secrets, which those whom they were shown to may have repeated.
    """
    error = _unwrap_group(error)
    if isinstance(error, PalaverError):
        status = error.status if isinstance(error, Failure) else None
        end = RunFailed(code=error.code, message=error.message, status=status, details=error.details)
        return sanitize_failure(end, known)
    if known:
        log.error("The workflow %s failed (run %s).\n%s", run.name, run.id, _masked_traceback(error, known))
    else:
        log.error("The workflow %s failed (run %s).", run.name, run.id, exc_info=error)
    message = f"The workflow failed (run {run.id})."
    return RunFailed(code=WorkflowFailed.code, message=f"{message} {_describe(error, known)}" if debug else message)


def sanitize_failure(end: RunFailed, known: Collection[str] = ()) -> RunFailed:
    """The end that an author wrote, fit for every wire: texts that are text, details that are JSON, no secrets."""
    code, message, details = (
        json.replace_surrogates(str(end.code)),
        json.replace_surrogates(str(end.message)),
        _plain_details(end.details),
    )
    if known:
        code, message, details = masking.mask_values([code, message, details], known)
    return msgspec.structs.replace(end, code=code, message=message, details=details)


def _masked_traceback(error: BaseException, known: Collection[str]) -> str:
    """Where it was raised, and what it said, without what it must not say."""
    return masking.mask_values("".join(traceback.format_exception(error)), known)


def unrecorded_end(error: Exception, run: RunIdentity, last: Sequence[Event]) -> Sequence[Event]:
    """The last events of a run whose end could not be made durable: nobody may take it for finished."""
    known = isinstance(error, PalaverError)
    log.error("The end of run %s could not be kept: %s", run.id, error, exc_info=None if known else error)
    *before, terminal = last
    code = DiskFull.code if isinstance(error, DiskFull) else Overloaded.code
    end = RunFailed(
        seq=terminal.seq, code=code, message="The run ended, but its end could not be kept: try again later."
    )
    return [*before, msgspec.structs.replace(end, at=getattr(terminal, "at", None))]


def _unwrap_group(error: BaseException) -> BaseException:
    """What was raised inside a task group, if it is one thing."""
    if not issubclass(type(error), BaseExceptionGroup):
        return error
    inner: Sequence[BaseException] = getattr(error, "exceptions")  # noqa: B009 - typed here, unknown to the checker
    return _unwrap_group(inner[0]) if len(inner) == 1 else error


def _plain_details(details: Mapping[str, Any]) -> Mapping[str, Any]:
    """Details that can be written down; authors put anything there."""
    try:
        return json.to_builtins(details)
    except json.NotJson as error:
        return {"details": f"left out: {error}"}


def _describe(error: BaseException, known: Collection[str]) -> str:
    try:
        return json.replace_surrogates(
            masking.mask_secrets(f"{type(error).__name__}: {error}", known)
        )  # It is told, and kept.
    except Exception:  # A __str__ of the author's may raise anything.
        return type(error).__name__
