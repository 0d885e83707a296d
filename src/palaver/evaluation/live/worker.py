"""Select live traces by the rules of all projects, and score them in this process.

All state is in the database: any process may continue the work of another.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from palaver.engine.poller import Poller
from palaver.errors import NotFound, PalaverError
from palaver.evaluation.live.trace_selection import is_selected, trace_query
from palaver.evaluation.score import EvaluationAborted
from palaver.storage.database import Database
from palaver.storage.evaluations import live_evaluators
from palaver.storage.spans import queries as span_queries

if TYPE_CHECKING:
    from palaver.evaluation.live.scorer import LiveScorer

log = logging.getLogger("palaver.evaluation")

POLL_INTERVAL_S, IDLE_POLL_INTERVAL_S = 1.0, 5.0
"""Seconds between polls, with and without rules."""
CLEANUP_INTERVAL_S = 30.0
"""Seconds between searches for the work of dead processes, and for scores whose traces are gone."""
SETTLE_TIME_S = 60.0
"""After this time a write is visible to all readers."""
MAX_CONCURRENT_CASES = 4
"""Cases scored concurrently in one process."""


class LiveEvaluationWorker:
    """Selects traces and scores due cases. One per process."""

    def __init__(
        self,
        database: Database,
        *,
        process: str,
        make_scorer: "Callable[[], LiveScorer]",
        is_draining: Callable[[], bool],
        now: Callable[[], datetime],
        quiet_time: timedelta = live_evaluators.TRACE_QUIET_TIME,
        idle_time: timedelta = live_evaluators.SESSION_IDLE_TIME,
        poll_interval: float = POLL_INTERVAL_S,
    ) -> None:
        self._database = database
        self._process = process
        self._make_scorer = make_scorer  # Called for the first case: it imports much, and most servers never have one.
        self._scorer: LiveScorer | None = None
        self._is_draining = is_draining
        self._now = now
        self._quiet_time, self._idle_time = quiet_time, idle_time
        self._poll_interval = poll_interval
        self._positions: deque[tuple[float, int]] = deque()
        self._cleaned_at = -inf
        self._orphan_cursor: live_evaluators.CaseKey | None = None
        self._has_claimed = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._poller = Poller(self._poll, subject="live traces", log=log, retry_delay=poll_interval)
        self._polls = False

    def start(self, *, polls: bool = True) -> None:
        """Start polling; with `polls=False` on the first `wake`: only this process can create a rule."""
        self._polls = polls
        if polls:
            self._poller.start()

    def wake(self) -> None:
        """Poll now: rules were created or changed."""
        self._poller.start()
        self._poller.wake()

    async def stop(self) -> None:
        await self._poller.stop()
        await self._release()

    async def _poll(self) -> float | None:
        has_rules = bool(await self.step())
        if has_rules or self._tasks:
            return self._poll_interval
        return IDLE_POLL_INTERVAL_S if self._polls else None

    async def _release(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        if self._has_claimed:
            try:
                await self._database.write(live_evaluators.release_cases, self._process)
            except PalaverError as error:
                log.debug("Failed to release live traces: %s", error.message)

    async def step(self) -> list[live_evaluators.EnabledEvaluator]:
        """Apply all rules once and start due cases. Returns the rules."""
        enabled = await self._database.read(live_evaluators.list_enabled)
        if enabled:
            await self._scan(enabled)
        if not self._is_draining():
            await self._claim({(evaluator.project, evaluator.rule.id): evaluator.rule for evaluator in enabled})
        await self._clean_up()
        return enabled

    async def wait_idle(self) -> None:
        """Wait until no case is being scored."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    async def _scan(self, enabled: list[live_evaluators.EnabledEvaluator]) -> None:
        last = await self._database.read(span_queries.last_position)
        settled = self._settled_position(last) if self._database.kind == "postgresql" else None
        for evaluator in enabled:
            rule = evaluator.rule
            while last != rule.place and await self._database.write(  # noqa: ASYNC110 - in batches
                live_evaluators.scan_arrivals,
                evaluator.project,
                rule.id,
                trace_query(rule),
                self._now(),
                is_selected=partial(is_selected, rule),
                settled=settled,
                quiet=self._quiet_time,
                idle=self._idle_time,
            ):
                await asyncio.sleep(0)  # Let other tasks write.

    def _settled_position(self, last: int) -> int:
        """Return the position up to which all writes are visible: the last one of SETTLE_TIME_S ago, else 0."""
        now = time.monotonic()
        self._positions.append((now, last))
        while len(self._positions) > 1 and now - self._positions[1][0] >= SETTLE_TIME_S:
            self._positions.popleft()
        recorded_at, position = self._positions[0]
        return position if now - recorded_at >= SETTLE_TIME_S else 0

    async def _claim(self, rules: dict[tuple[str, str], live_evaluators.LiveEvaluator]) -> None:
        free_slots, now = MAX_CONCURRENT_CASES - len(self._tasks), self._now()
        if free_slots <= 0 or not rules or not await self._database.read(live_evaluators.has_due_cases, now):
            return
        ahead = timedelta(seconds=self._poll_interval)
        claimed = await self._database.write(
            live_evaluators.claim_cases,
            self._process,
            now,
            free_slots,
            ahead=ahead,
            quiet=self._quiet_time,
            idle=self._idle_time,
        )
        self._has_claimed = self._has_claimed or bool(claimed)
        for case in claimed:
            task = asyncio.get_running_loop().create_task(self._score(rules.get((case.project, case.rule)), case))
            self._tasks.add(task)
            task.add_done_callback(self._on_done)

    async def _score(self, rule: live_evaluators.LiveEvaluator | None, claimed: live_evaluators.ClaimedCase) -> None:
        await asyncio.sleep(max(0.0, (claimed.start_at - self._now()).total_seconds()))
        try:
            if rule is None:
                rule = await self._database.read(live_evaluators.get_live_evaluator, claimed.project, claimed.rule)
            if self._scorer is None:
                self._scorer = await asyncio.to_thread(self._make_scorer)
            scores = await self._scorer.score(rule, claimed)
        except NotFound:
            return  # The rule was deleted, and its cases with it.
        except EvaluationAborted:
            return  # The process is shutting down and returns its cases.
        except Exception:
            log.exception("Failed to score the live trace %s", claimed.trace)
            await self._database.write(live_evaluators.retry_case, self._process, claimed, self._now())
            return
        session = claimed.subject if rule.session else None
        await self._database.write(
            live_evaluators.finish_case, self._process, claimed, scores or [], self._now(), session=session
        )

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("Failed to store the scores of a live trace", exc_info=error)
        self._poller.wake()

    # Cleanup

    async def _clean_up(self) -> None:
        now = time.monotonic()
        if now - self._cleaned_at < CLEANUP_INTERVAL_S:
            return
        self._cleaned_at = now
        if await self._database.read(live_evaluators.has_lost_cases, self._process):
            await self._database.write(live_evaluators.requeue_lost_cases, self._process)
        orphans, self._orphan_cursor = await self._database.read(
            live_evaluators.find_orphaned_cases, self._orphan_cursor
        )
        if orphans:
            await self._database.write(live_evaluators.delete_cases, orphans)
