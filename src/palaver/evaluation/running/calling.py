"""Calling: one call of a workflow, as any other run, at its pace, within its time, and again if that may help."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from palaver.core import steps
from palaver.core.calls import Call
from palaver.core.events import Event, RunCancelled, RunFailed, RunFinished
from palaver.core.fold import fold
from palaver.core.origins import Origin
from palaver.engine.engine import Engine
from palaver.engine.run import Run
from palaver.errors import PalaverError, RequestError, RunTimeout, ShuttingDown
from palaver.evaluation.running.playing import Answered
from palaver.evaluation.running.pricing import Prices, with_cost
from palaver.evaluation.running.retrying import is_passing, pause
from palaver.evaluation.scoring.scores import GivenUp
from palaver.workflows.workflow import Workflow

ENDING = 5.0
"""Seconds for which a call that was stopped is waited for."""
Sleep = Callable[[float], Awaitable[None]]


class Given(msgspec.Struct, frozen=True):
    """Why a call failed."""

    code: str
    message: str


class Called(msgspec.Struct, frozen=True, kw_only=True):
    """What a call came to, and how it is found again."""

    answered: Answered
    run: str | None = None
    trace_id: str | None = None
    attempts: int = 1


class Calling:
    """Makes the calls of one evaluation."""

    def __init__(
        self,
        engine: Engine,
        *,
        timeout: float,
        retries: int,
        pace: Callable[[], Awaitable[None]] | None = None,
        prices: Prices | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._engine = engine
        self._timeout = timeout
        self._retries = retries
        self._pace = pace
        self._prices = prices or {}
        self._sleep = sleep

    async def call(self, workflow: Workflow, call: Call, origin: Origin) -> Called:
        """Make it; again, after a pause, as long as it fails for a moment."""
        for tried in range(1, self._retries + 2):
            if self._pace is not None:
                await self._pace()
            told: list[steps.Step] = []
            try:
                run = self._start(workflow, call, origin, told)
            except ShuttingDown:
                raise GivenUp from None
            except PalaverError as error:
                failed, called = _refused(error), Called(answered=_failed(_refused(error)), attempts=tried)
            else:
                last = await self._ended(run)
                called = await self._priced(_called(run, last, tried), told)
                if not isinstance(last, RunFailed):
                    return called
                failed = last
            if tried > self._retries or not is_passing(failed):
                return called
            await self._sleep(pause(failed, tried))
        raise AssertionError

    def _start(self, workflow: Workflow, call: Call, origin: Origin, told: list[steps.Step]) -> Run:
        if not self._prices:
            return self._engine.start(workflow, call, origin=origin)
        with steps.overheard_by(told.append):
            return self._engine.start(workflow, call, origin=origin)

    async def _priced(self, called: Called, told: list[steps.Step]) -> Called:
        """The same with its cost, where the reply tells its tokens alone."""
        usage = called.answered.usage
        if not told or usage is None or usage.cost is not None:
            return called
        # In a thread: what frameworks tell is read only now.
        known = await asyncio.to_thread(with_cost, usage, list(told), self._prices)
        answered = msgspec.structs.replace(called.answered, usage=known)
        return msgspec.structs.replace(called, answered=answered)

    async def _ended(self, run: Run) -> Event:
        """Wait for the end of a run; let it end if it takes too long, or if nobody wants it any more."""
        try:
            async with asyncio.timeout(self._timeout):
                await run.ended()
        except TimeoutError:
            told = f"The call took longer than {self._timeout:g} seconds."
            run.cancel(RunFailed(code=RunTimeout.code, message=told))
            await run.ended()
        except asyncio.CancelledError:
            run.cancel()
            await asyncio.wait([asyncio.ensure_future(run.ended())], timeout=ENDING)
            raise
        last = run.log[-1] if run.log else RunCancelled()
        if isinstance(last, RunCancelled) or (isinstance(last, RunFinished) and last.finish == "interrupted"):
            if self._engine.draining:
                raise GivenUp
            return RunFailed(code="cancelled", message="Somebody stopped the run.")
        if isinstance(last, RunFailed) and last.code == ShuttingDown.code:
            raise GivenUp
        return last


def _called(run: Run, last: Event, tried: int) -> Called:
    reply = fold(run.log)
    started = run.started.at
    ended = last.at if isinstance(last, RunFinished | RunFailed) else None
    first = run.first_output_at
    failed = Given(last.code, last.message) if isinstance(last, RunFailed) else None
    answered = Answered(
        messages=reply.messages,
        value=reply.value,
        usage=reply.usage,
        finish=reply.finish,
        latency=0.0 if started is None else ((ended or run.time()) - started).total_seconds(),
        first_output=None if started is None or first is None else (first - started).total_seconds(),
        events=tuple(run.log),
        failed=failed,
    )
    return Called(answered=answered, run=run.id, trace_id=run.started.trace_id or None, attempts=tried)


def _refused(error: PalaverError) -> RunFailed:
    """A call that could not even begin."""
    status = 400 if isinstance(error, RequestError) else None
    return RunFailed(code=error.code, message=error.message, status=status, details=error.details)


def _failed(failed: RunFailed) -> Answered:
    return Answered(finish="error", failed=Given(failed.code, failed.message))


def error_of(failed: Any) -> dict[str, str]:
    """Why a cell failed, as it is kept."""
    if isinstance(failed, Given):
        return {"code": failed.code, "message": failed.message}
    return {"code": "workflow_failed", "message": str(failed)}
