"""Live evaluators score traffic: once each, after a quiet period, rate-limited, by any process; on every database."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, select

from palaver import Case, evaluator
from palaver.core.messages import Usage
from palaver.errors import InvalidValue, Overloaded
from palaver.evaluation.live.scorer import LiveScorer
from palaver.evaluation.live.trace_selection import is_sampled, parse_trace_filter
from palaver.evaluation.network_context import OfflineContext
from palaver.evaluation.registry import EvaluatorRegistry
from palaver.evaluation.score import EvaluationAborted
from palaver.storage import background_runs
from palaver.storage.database import Database
from palaver.storage.evaluations import live_evaluators as online_cases
from palaver.storage.evaluations import live_evaluators as online_rules
from palaver.storage.evaluations import live_evaluators as online_scores
from palaver.storage.evaluations.live_evaluators import ClaimedCase, LiveEvaluator
from palaver.storage.evaluations.tables import online_cases as table
from palaver.storage.spans import queries as span_queries
from palaver.storage.spans import retention as span_retention
from palaver.storage.spans.tables import spans
from tests.evaluation.live.live_harness import (
    HELLO,
    NOON,
    Clock,
    create_rule,
    make_worker,
    root_span,
    scored_traces,
    scores,
    store_spans,
)
from tests.storage.evaluation_factory import register_processes
from tests.storage.span_factory import trace_id


async def test_a_trace_is_scored_after_its_root_has_ended_and_ten_seconds_without_spans(database: Database) -> None:
    clock = Clock()
    worker = make_worker(database, clock)
    await create_rule(database)
    await store_spans(database, root_span("child", trace="t", parent_id="f" * 16))
    await worker.step()
    clock.advance(60)
    await worker.step()
    await store_spans(database, root_span("root", trace="t"))
    await worker.step()
    clock.advance(9)
    await store_spans(database, root_span("late", 1, trace="t", parent_id="e" * 16))
    clock.advance(2)
    await worker.step()
    clock.advance(9)
    await worker.step()
    await worker.wait_idle()
    before = await scored_traces(database, "t")
    clock.advance(2)
    await worker.step()
    await worker.wait_idle()
    [score] = await scores(database, "t")

    assert before == []
    assert (score.name, score.status, score.passed, score.score) == ("hello", "scored", True, 1.0)
    assert (score.rule, score.session, score.created_at) == ("on_1", None, clock.now)


async def run_all(worker: Any, clock: Clock, *, steps: int = 3) -> None:
    """Score everything that has arrived."""
    for _ in range(steps):
        await worker.step()
        await worker.wait_idle()
        clock.advance(11)


async def test_a_trace_is_scored_once_even_if_more_spans_arrive(database: Database) -> None:
    clock, scored = Clock(), list[str]()

    class Counting(LiveScorer):
        async def score(self, rule: LiveEvaluator, claimed: ClaimedCase) -> Any:
            scored.append(claimed.trace)
            return []

    one, second = (
        make_worker(database, clock, name, make=lambda: Counting(database, None, None))  # type: ignore[arg-type]
        for name in ("p1", "p2")
    )
    await create_rule(database)
    await store_spans(database, *(root_span(f"t{index}", index) for index in range(6)))
    for _ in range(4):
        await asyncio.gather(one.step(), second.step())
        await asyncio.gather(one.wait_idle(), second.wait_idle())
        clock.advance(11)
    await store_spans(database, root_span("more", 9, trace="t0"))
    await run_all(one, clock)

    assert sorted(scored) == [trace_id(f"t{index}") for index in range(6)]


async def test_only_traces_that_match_the_filter_are_scored_and_no_evaluations(database: Database) -> None:
    clock = Clock()
    worker = make_worker(database, clock)
    await store_spans(database, root_span("before"))
    await create_rule(database, filter={"field": "service", "op": "eq", "value": "shop"})
    shop = {"service": "shop"}
    await store_spans(
        database,
        root_span("meant", 1, **shop),
        root_span("other", 2, service="bank"),
        root_span("cell", 3, **shop, attributes={"palaver.protocol": "evaluation"}),
        root_span("judge", 4, **shop, kind="evaluator"),
        root_span("run", 5, **shop, attributes={"palaver.protocol": "invoke"}, parent_id="f" * 16, run_id="run_1"),
        root_span("afar", 6, **shop, project="elsewhere"),
    )
    await worker.step()
    clock.advance(600)
    await run_all(worker, clock)

    names = ["before", "meant", "other", "cell", "judge", "run", "afar"]
    assert await scored_traces(database, *names) == ["meant", "run"]
    assert await scores(database, "afar", "elsewhere") == []


def test_a_larger_sample_contains_the_traces_of_a_smaller_one() -> None:
    trace_ids = [trace_id(str(index)) for index in range(4_000)]
    tenth, half = ({one for one in trace_ids if is_sampled(one, sample)} for sample in (0.1, 0.5))

    assert tenth < half
    assert (300 < len(tenth) < 500, 1_800 < len(half) < 2_200) == (True, True)
    assert ([is_sampled(one, 0.0) for one in trace_ids[:9]], [is_sampled(one, 1.0) for one in trace_ids[:9]]) == (
        [False] * 9,
        [True] * 9,
    )


def test_a_live_evaluator_cannot_filter_by_feedback() -> None:
    with pytest.raises(InvalidValue) as raised:
        parse_trace_filter({"and": [{"field": "feedback", "op": "eq", "value": "up"}]})

    assert raised.value.pointer == "/filter"


async def test_no_more_traces_are_scored_per_minute_than_allowed(database: Database) -> None:
    clock = Clock()
    await create_rule(database, per_minute=30)
    worker = make_worker(database, clock)
    await store_spans(database, *(root_span(f"t{index}", index) for index in range(50)))
    await worker.step()
    clock.advance(11)
    started: list[float] = []
    for _ in range(130):
        claimed = await database.write(online_cases.claim_cases, "p1", clock.now, 4, ahead=timedelta(seconds=1))
        started += [(one.start_at - NOON).total_seconds() for one in claimed]
        for one in claimed:
            await database.write(online_cases.finish_case, "p1", one, [], clock.now, session=None)
        clock.advance(1)

    assert started[:3] == [11.0, 13.0, 15.0]
    assert max(sum(first <= at < first + 60 for at in started) for first in started) == 30
    assert len(started) == len(set(started)) == 50


async def test_the_oldest_traces_beyond_the_rate_limit_are_dropped(database: Database) -> None:
    clock = Clock()
    await create_rule(database, per_minute=1)
    await store_spans(database, *(root_span(f"t{index:03}", index) for index in range(70)))
    worker = make_worker(database, clock)
    await worker.step()
    clock.advance(11)
    claimed = await database.write(online_cases.claim_cases, "p1", clock.now, 4, ahead=timedelta(seconds=1))
    counts = await database.read(online_scores.count_cases, "default", "on_1")

    assert [one.trace for one in claimed] == [trace_id("t010")]
    assert (counts.waiting, counts.running, counts.done, counts.dropped) == (59, 1, 0, 10)


async def test_a_run_with_a_remote_parent_waits_ten_minutes_for_its_root_span(database: Database) -> None:
    clock = Clock()
    worker = make_worker(database, clock)
    await create_rule(database)
    remote_run: dict[str, Any] = {"parent_id": "f" * 16, "run_id": "run_1"}
    await store_spans(database, root_span("inner", trace="whole", **remote_run), root_span("alone", 1, **remote_run))
    await run_all(worker, clock)
    before = await scored_traces(database, "whole", "alone")
    await store_spans(database, root_span("outer", 2, trace="whole"))
    await run_all(worker, clock)
    after = await scored_traces(database, "whole", "alone")
    clock.advance(600)
    await run_all(worker, clock)

    assert (before, after, await scored_traces(database, "whole", "alone")) == ([], ["whole"], ["whole", "alone"])


async def test_a_session_is_scored_after_ten_idle_minutes_and_again_if_it_continues(database: Database) -> None:
    clock = Clock()
    worker = make_worker(database, clock)
    parameters = {"evaluator": {"key": "contains", "parameters": {"substring": "Hello"}}}
    turns = {"key": "per_turn", "name": "turns", "parameters": parameters}
    await create_rule(database, session=True, evaluators=[turns])
    await store_spans(database, root_span("one", session="s"), root_span("alone", 1))
    await worker.step()
    clock.advance(500)
    await store_spans(database, root_span("two", 500, session="s"))
    for _ in range(2):
        await worker.step()
        clock.advance(550)
    before = await scored_traces(database, "one", "two", "alone")
    clock.advance(100)
    await worker.step()
    await worker.wait_idle()
    [score] = await scores(database, "two")
    after = await scored_traces(database, "one", "two", "alone")
    await store_spans(database, root_span("three", 2_000, session="s"))
    await worker.step()
    clock.advance(601)
    await worker.step()
    await worker.wait_idle()

    assert (before, after) == ([], ["two"])
    assert (score.session, score.passed) == ("s", True)
    assert await scored_traces(database, "one", "two", "three") == ["two", "three"]


async def test_cases_claimed_by_a_dead_process_are_scored_by_another(database: Database) -> None:
    clock = Clock()
    await create_rule(database)
    await store_spans(database, root_span("t"))
    await database.write(register_processes, "p1", "p2")
    await make_worker(database, clock).step()
    clock.advance(11)
    claimed = await database.write(online_cases.claim_cases, "p1", clock.now, 4, ahead=timedelta(seconds=1))
    second = make_worker(database, clock, "p2")
    await run_all(second, clock)
    before = await scored_traces(database, "t")
    await database.write(background_runs.remove_processes, ["p1"])
    another = make_worker(database, clock, "p2")
    for _ in range(2):  # The first step notices the dead process, the second claims its case.
        await another.step()
        await another.wait_idle()
    is_accepted = await database.write(online_cases.finish_case, "p1", claimed[0], [], clock.now, session=None)

    assert (before, await scored_traces(database, "t"), is_accepted) == ([], ["t"], False)


async def test_failed_scoring_is_retried_a_limited_number_of_times(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    clock, attempts = Clock(), list[str]()

    class Breaking(LiveScorer):
        async def score(self, rule: LiveEvaluator, claimed: ClaimedCase) -> Any:
            attempts.append(claimed.trace)
            raise RuntimeError("no")

    worker = make_worker(database, clock, make=lambda: Breaking(database, None, None))  # type: ignore[arg-type]
    await create_rule(database)
    await store_spans(database, root_span("t"))
    for _ in range(6):
        await worker.step()
        await worker.wait_idle()
        clock.advance(61)

    assert len(attempts) == 3
    assert await database.read(lambda db: db.scalar(select(table.c.state))) == "done"
    assert "Failed to score the live trace" in caplog.text


async def test_a_stopping_process_releases_its_claimed_cases(database: Database) -> None:
    clock, started = Clock(), asyncio.Event()

    class Slow(LiveScorer):
        async def score(self, rule: LiveEvaluator, claimed: ClaimedCase) -> Any:
            started.set()
            await asyncio.sleep(60)

    class Leaving(LiveScorer):
        async def score(self, rule: LiveEvaluator, claimed: ClaimedCase) -> Any:
            started.set()
            raise EvaluationAborted

    await create_rule(database)
    await store_spans(database, root_span("t"))
    for kind in (Slow, Leaving):
        worker = make_worker(database, clock, make=lambda kind=kind: kind(database, None, None))  # type: ignore[arg-type]
        await worker.step()
        clock.advance(11)
        worker.start()
        await started.wait()
        started.clear()
        if kind is Leaving:
            await worker.wait_idle()
        await worker.stop()
        assert await database.read(lambda db: db.scalar(select(table.c.state))) == "waiting"
    await run_all(make_worker(database, clock), clock)

    assert await scored_traces(database, "t") == ["t"]


async def test_polling_continues_after_database_errors_and_other_errors(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, original = Clock(), online_rules.list_enabled
    errors: list[Exception] = [RuntimeError("What is this?"), Overloaded("The database is away.")]

    def list_or_fail(db: Connection) -> Any:
        if errors:
            raise errors.pop()
        return original(db)

    monkeypatch.setattr(online_rules, "list_enabled", list_or_fail)
    await create_rule(database)
    await store_spans(database, root_span("t"))
    worker = make_worker(database, clock)
    worker.start()
    async with asyncio.timeout(60):
        while not await scored_traces(database, "t"):
            clock.advance(11)
            worker.wake()
    await worker.stop()

    messages = [record.getMessage() for record in caplog.records if record.name.startswith("palaver")]
    assert (errors, messages) == ([], ["Failed to poll for live traces"])


async def test_an_unknown_evaluator_is_recorded_as_an_error(database: Database) -> None:
    clock = Clock()
    missing = {"key": "no.such", "name": "nobody", "parameters": {}}
    await create_rule(database, evaluators=[missing, HELLO])
    await store_spans(database, root_span("t"))
    await run_all(make_worker(database, clock), clock)
    first, second = await scores(database, "t")

    assert (first.status, first.reason.partition(":")[0], second.status) == ("error", "evaluator_unknown", "scored")


async def test_an_evaluator_that_exceeds_its_time_limit_is_recorded_as_an_error(database: Database) -> None:
    @evaluator
    async def endless(case: Case) -> bool:
        await asyncio.Event().wait()
        return True

    def make_scorer() -> LiveScorer:
        return LiveScorer(database, EvaluatorRegistry([endless]), OfflineContext(), timeout=0.2)

    clock = Clock()
    await create_rule(database, evaluators=[{"key": "endless", "name": "endless", "parameters": {}}, HELLO])
    await store_spans(database, root_span("t"))
    async with asyncio.timeout(60):
        await run_all(make_worker(database, clock, make=make_scorer), clock)

    assert [(one.name, one.status, one.passed, one.reason) for one in await scores(database, "t")] == [
        ("endless", "error", None, "timeout: timed out after 0.2 seconds"),
        ("hello", "scored", True, ""),
    ]


async def test_a_reenabled_live_evaluator_does_not_score_earlier_traces(database: Database) -> None:
    clock = Clock()
    worker = make_worker(database, clock)
    rule = await create_rule(database)
    await store_spans(database, root_span("waits"))
    await worker.step()
    await database.write(online_rules.update_live_evaluator, "default", rule.id, clock.now, enabled=False)
    await store_spans(database, root_span("between", 1))
    await run_all(worker, clock)
    await database.write(online_rules.update_live_evaluator, "default", rule.id, clock.now, enabled=True)
    await store_spans(database, root_span("then", 2))
    await run_all(worker, clock)

    assert await scored_traces(database, "waits", "between", "then") == ["then"]


async def test_scores_are_deleted_with_their_trace(database: Database) -> None:
    clock = Clock()
    await create_rule(database)
    await store_spans(database, root_span("t"), root_span("kept", 1))
    await run_all(make_worker(database, clock), clock)
    await database.write(span_retention.delete_matching, "default", 10, spans.c.trace_id == trace_id("t"))
    await make_worker(database, clock).step()

    assert await scored_traces(database, "t", "kept") == ["kept"]


async def test_score_stats_count_the_scores_of_each_evaluator_over_time(database: Database) -> None:
    clock = Clock()
    await create_rule(
        database, evaluators=[HELLO, {"key": "token_budget", "name": "short", "parameters": {"max_total": 9}}]
    )
    usage = Usage(input_tokens=3, output_tokens=2)
    await store_spans(database, root_span("a", usage=usage), root_span("b", 1, messages_out=()))
    await run_all(make_worker(database, clock), clock)
    result = await database.read(online_scores.score_stats, "default", "on_1", by="hour", since=NOON, until=None)
    empty = await database.read(online_scores.score_stats, "default", "on_1", by="day", since=None, until=NOON)
    counts = await database.read(online_scores.count_cases, "default", "on_1")

    actual = [(one.evaluator, one.n, one.passed, one.judged, one.mean, one.skipped, one.errors) for one in result]
    assert actual == [("hello", 2, 1, 2, 0.5, 0, 0), ("short", 1, 1, 1, 1.0, 1, 0)]
    assert ({one.at for one in result}, empty, counts.done) == ({NOON}, [], 2)


async def test_traces_of_other_projects_are_skipped_except_on_postgresql(database: Database) -> None:
    """On PostgreSQL later rows can be visible earlier: a position is skipped only when it is visible to all."""
    clock = Clock()
    rule = await create_rule(database)
    await store_spans(database, root_span("afar", project="elsewhere"))
    await make_worker(database, clock).step()
    position = (await database.read(online_rules.get_live_evaluator, "default", rule.id)).place
    last_position = await database.read(span_queries.last_position)

    assert last_position > rule.place
    assert position == (rule.place if database.kind == "postgresql" else last_position)
