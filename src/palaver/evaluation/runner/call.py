"""Call a workflow for a cell: rate limit, timeout, retries and cost."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core import steps
from palaver.core.events import Event, FinishReason, RunCancelled, RunFailed, RunFinished
from palaver.core.fold import fold
from palaver.core.messages import Message, Usage
from palaver.core.runs import Call, Origin
from palaver.core.steps import Step
from palaver.engine.engine import Engine
from palaver.engine.run import Run
from palaver.errors import Overloaded, PalaverError, RequestError, RunTimeout, ShuttingDown, UpstreamTimeout
from palaver.evaluation.score import EvaluationAborted
from palaver.traces.prices import Price, compute_cost
from palaver.workflows.workflow import Workflow

TRANSIENT_STATUSES = frozenset({408, 425, 429, 502, 503, 504})
_TRANSIENT_CODES = frozenset({Overloaded.code, UpstreamTimeout.code})
_FIRST_DELAY_S, _MAX_DELAY_S = 0.5, 30.0
"""The delay doubles with each retry, with ±50% jitter."""


def is_transient(failure: RunFailed) -> bool:
    """Whether to retry. `details.retryable` takes precedence."""
    retryable = failure.details.get("retryable")
    if isinstance(retryable, bool):
        return retryable
    return failure.status in TRANSIENT_STATUSES or failure.code in _TRANSIENT_CODES


def retry_delay(failure: RunFailed, attempt: int, random_share: Callable[[], float] = random.random) -> float:
    """Return the seconds until the next attempt: `retry_after` if the failure has one."""
    requested = failure.details.get("retry_after")
    if isinstance(requested, int | float) and not isinstance(requested, bool) and 0 <= requested < float("inf"):
        return float(requested)
    return min(_MAX_DELAY_S, _FIRST_DELAY_S * 2 ** (attempt - 1) * (0.5 + random_share()))


Prices = Mapping[str, Price]
_PRICED_STEP_KINDS = ("llm", "embedding")
"""Kinds of steps that are priced. Agents are not among them: their total already includes their model calls."""


def add_cost(usage: Usage, steps: Sequence[Step], prices: Prices) -> Usage:
    """Add the cost of the model calls in these steps, as far as it is known.

    A reply has token counts, but not the models that they belong to. Frameworks report each model call while a traced
    run is in progress (core/steps.py).
    """
    calls = [step for step in steps if step.kind in _PRICED_STEP_KINDS]
    costs = [cost for step in calls if (cost := _step_cost(step, prices)) is not None]
    return msgspec.structs.replace(usage, cost=sum(costs)) if costs else usage


def _step_cost(step: Step, prices: Prices) -> float | None:
    model: str | None = None
    usage: Usage | None = None
    for read_details in step.details:
        with suppress(Exception):  # Code of a framework.
            details = read_details()
            model, usage = details.model or model, details.usage or usage
    return usage.cost if usage is not None and usage.cost is not None else compute_cost(usage, model, prices)


CallError = Mapping[str, str]
"""`{"code", "message"}`."""


class WorkflowAnswer(msgspec.Struct, frozen=True, kw_only=True):
    messages: tuple[Message, ...] = ()
    value: Any | UnsetType = UNSET
    usage: Usage | None = None
    finish: FinishReason = "stop"
    latency: float = 0.0
    first_output: float | None = None
    events: tuple[Event, ...] = ()
    error: CallError | None = None
    """The error of the call, which ends a script; None if it succeeded."""


CANCEL_TIMEOUT_S = 5.0
"""Maximum wait for a cancelled call to end."""
Sleep = Callable[[float], Awaitable[None]]


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    answer: WorkflowAnswer
    run: str | None = None
    trace_id: str | None = None
    attempts: int = 1


@dataclass(frozen=True, eq=False)
class WorkflowCaller:
    engine: Engine
    _: KW_ONLY
    timeout: float
    """Seconds of one call."""
    retries: int
    throttle: Callable[[], Awaitable[None]] | None = None
    prices: Prices | None = None
    sleep: Sleep = asyncio.sleep

    async def call(self, workflow: Workflow, call: Call, origin: Origin) -> CallResult:
        """Call the workflow; retry transient failures after a delay."""
        for attempt in range(1, self.retries + 2):
            if self.throttle is not None:
                await self.throttle()
            observed_steps: list[steps.Step] = []
            try:
                run = self._start(workflow, call, origin, observed_steps)
            except ShuttingDown:
                raise EvaluationAborted from None
            except PalaverError as error:
                failure = _failure_from_error(error)
                answer = WorkflowAnswer(finish="error", error=_call_error(failure))
                result = CallResult(answer=answer, attempts=attempt)
            else:
                last = await self._wait_ended(run)
                result = await self._add_cost(_call_result(run, last, attempt), observed_steps)
                if not isinstance(last, RunFailed):
                    return result
                failure = last
            if attempt > self.retries or not is_transient(failure):
                return result
            await self.sleep(retry_delay(failure, attempt))
        raise AssertionError

    def _start(self, workflow: Workflow, call: Call, origin: Origin, observed_steps: list[steps.Step]) -> Run:
        if not self.prices:
            return self.engine.start(workflow, call, origin=origin)
        with steps.observe_steps(observed_steps.append):
            return self.engine.start(workflow, call, origin=origin)

    async def _add_cost(self, result: CallResult, observed_steps: list[steps.Step]) -> CallResult:
        usage = result.answer.usage
        if not observed_steps or usage is None or usage.cost is not None:
            return result
        # In a thread, because the details of steps are computed only when they are read.
        priced = await asyncio.to_thread(add_cost, usage, list(observed_steps), self.prices or {})
        answer = msgspec.structs.replace(result.answer, usage=priced)
        return msgspec.structs.replace(result, answer=answer)

    async def _wait_ended(self, run: Run) -> Event:
        """Wait for the run to end. Cancel it on timeout or when the caller is cancelled."""
        try:
            async with asyncio.timeout(self.timeout):
                await run.wait_ended()
        except TimeoutError:
            message = f"The call timed out after {self.timeout:g} seconds."
            run.cancel(RunFailed(code=RunTimeout.code, message=message))
            await run.wait_ended()
        except asyncio.CancelledError:
            run.cancel()
            await asyncio.wait([asyncio.ensure_future(run.wait_ended())], timeout=CANCEL_TIMEOUT_S)
            raise
        last = run.log[-1] if run.log else RunCancelled()
        if isinstance(last, RunCancelled) or (isinstance(last, RunFinished) and last.finish == "interrupted"):
            if self.engine.is_draining:
                raise EvaluationAborted
            return RunFailed(code="cancelled", message="The run was stopped.")
        if isinstance(last, RunFailed) and last.code == ShuttingDown.code:
            raise EvaluationAborted
        return last


def _call_result(run: Run, last: Event, attempt: int) -> CallResult:
    reply = fold(run.log)
    started = run.started.at
    ended = last.at if isinstance(last, RunFinished | RunFailed) else None
    output_at = run.first_output_at
    answer = WorkflowAnswer(
        messages=reply.messages,
        value=reply.value,
        usage=reply.usage,
        finish=reply.finish,
        latency=0.0 if started is None else ((ended or run.time()) - started).total_seconds(),
        first_output=None if started is None or output_at is None else (output_at - started).total_seconds(),
        events=tuple(run.log),
        error=_call_error(last) if isinstance(last, RunFailed) else None,
    )
    return CallResult(answer=answer, run=run.id, trace_id=run.started.trace_id or None, attempts=attempt)


def _failure_from_error(error: PalaverError) -> RunFailed:
    status = 400 if isinstance(error, RequestError) else None
    return RunFailed(code=error.code, message=error.message, status=status, details=error.details)


def _call_error(failure: RunFailed) -> CallError:
    return {"code": failure.code, "message": failure.message}
