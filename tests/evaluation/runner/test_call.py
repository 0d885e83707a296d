"""Calls of an evaluation: timeouts, rate limits, retries, and cost."""

import asyncio
from typing import Any

import msgspec
import pytest

from palaver import Failure, chat, workflow
from palaver.core import steps
from palaver.core.events import RunFailed
from palaver.core.messages import Message, Usage
from palaver.core.runs import Call, Origin
from palaver.core.steps import StepDetails
from palaver.engine.engine import Engine
from palaver.engine.tracing import RunTracer
from palaver.errors import Overloaded, UpstreamFailed
from palaver.evaluation.runner.call import (
    CallResult,
    EvaluationAborted,
    WorkflowCaller,
    is_transient,
    retry_delay,
)
from palaver.traces.model import Span
from palaver.traces.prices import Price
from palaver.traces.redaction.redactor import ProjectRedactors, RedactionConfig
from palaver.workflows.workflow import Workflow


class FakeSleep:
    """A sleep that returns at once and records the seconds."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


async def call_workflow(
    one: Workflow, sleep: FakeSleep | None = None, *, retries: int = 2, seconds: float = 5
) -> CallResult:
    caller = WorkflowCaller(Engine(), timeout=seconds, retries=retries, sleep=sleep or FakeSleep())
    call = Call(workflow=one.description.name, messages=(Message.user("Hi"),) if one.description.is_chat else ())
    return await caller.call(one, call, Origin(protocol="evaluation", background=True))


def flaky_chat(*errors: BaseException) -> Workflow:
    """A chat that fails with these errors in order, and then answers."""
    remaining = list(errors)

    @chat
    async def flaky(messages: Any) -> str:
        if remaining:
            raise remaining.pop(0)
        return "There."

    return flaky


async def test_a_call_returns_the_answer_and_its_latency() -> None:
    result = await call_workflow(flaky_chat())

    answer = result.answer
    assert ([message.text for message in answer.messages], answer.finish, answer.error) == (
        ["There."],
        "stop",
        None,
    )
    assert answer.first_output is not None
    assert 0 <= answer.first_output <= answer.latency < 5
    assert (result.attempts, result.run is None, result.trace_id is None) == (1, False, False)


async def test_temporary_failures_are_retried_after_the_retry_after_delay() -> None:
    sleep = FakeSleep()

    result = await call_workflow(
        flaky_chat(Failure("busy", "Later.", status=429, details={"retry_after": 7}), Failure("away", "…", status=503)),
        sleep,
    )

    assert (result.answer.error, result.attempts) == (None, 3)
    assert sleep.seconds[0] == 7
    assert 0.5 <= sleep.seconds[1] <= 1.5


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("the author's own"), "workflow_failed"),
        (ConnectionError("the author's own, too"), "workflow_failed"),
        (Failure("no_such_city", "Atlantis.", status=404), "no_such_city"),
        (Failure("never", "No.", status=503, details={"retryable": False}), "never"),
        (UpstreamFailed("It answered 400."), "upstream_failed"),
    ],
)
async def test_permanent_failures_are_not_retried(error: BaseException, code: str) -> None:
    sleep = FakeSleep()

    result = await call_workflow(flaky_chat(error), sleep)

    assert result.answer.error is not None
    assert (result.answer.error["code"], result.attempts, sleep.seconds) == (code, 1, [])


async def test_the_error_of_the_last_attempt_is_returned() -> None:
    failures = [UpstreamFailed(f"Away {number}.", details={"retryable": True}) for number in range(5)]

    result = await call_workflow(flaky_chat(*failures), retries=1)

    assert (result.answer.error, result.attempts) == ({"code": "upstream_failed", "message": "Away 1."}, 2)


async def test_a_call_that_exceeds_its_timeout_is_cancelled() -> None:
    ended = asyncio.Event()

    @chat
    async def slow(messages: Any) -> Any:
        yield "Wait"
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    result = await call_workflow(slow, seconds=0.05)

    assert ended.is_set()
    assert result.answer.error == {"code": "timeout", "message": "The call timed out after 0.05 seconds."}
    assert [message.text for message in result.answer.messages] == ["Wait"]


async def test_cancelling_a_call_stops_its_workflow() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    @workflow
    async def slow() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    task = asyncio.create_task(call_workflow(slow))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert ended.is_set()


async def test_a_call_without_a_required_input_returns_an_error() -> None:
    @workflow
    async def double(number: int) -> int:
        return number * 2

    result = await call_workflow(double)

    assert result.answer.error is not None
    assert (result.answer.error["code"], result.run, result.attempts) == ("missing_input", None, 1)


async def test_calls_are_aborted_when_the_engine_drains() -> None:
    engine = Engine()
    caller = WorkflowCaller(engine, timeout=60, retries=2)
    started = asyncio.Event()

    @workflow
    async def slow() -> None:
        started.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(caller.call(slow, Call(workflow="slow"), Origin(background=True)))
    await started.wait()
    await engine.drain(0)

    for call in (task, caller.call(slow, Call(workflow="slow"), Origin(background=True))):
        with pytest.raises(EvaluationAborted):
            await call


async def test_every_attempt_waits_for_the_throttle() -> None:
    waits: list[str] = []

    async def throttle() -> None:
        waits.append("one")

    flaky = flaky_chat(Overloaded("Full."), Overloaded("Full."))
    caller = WorkflowCaller(Engine(), timeout=60, retries=2, throttle=throttle, sleep=FakeSleep())
    await caller.call(flaky, Call(workflow="flaky", messages=(Message.user("Hi"),)), Origin(background=True))

    assert waits == ["one"] * 3


def test_retry_delays_double_up_to_half_a_minute() -> None:
    failed = RunFailed(code="overloaded")

    assert [retry_delay(failed, attempts, lambda: 0.5) for attempts in (1, 2, 3, 7, 20)] == [0.5, 1.0, 2.0, 30.0, 30.0]
    assert [retry_delay(failed, 1, lambda: 0.0), retry_delay(failed, 1, lambda: 1.0)] == [0.25, 0.75]
    assert retry_delay(RunFailed(details={"retry_after": True}), 1, lambda: 0.5) == 0.5


@pytest.mark.parametrize("status", [408, 425, 429, 502, 503, 504])
def test_transient_statuses(status: int) -> None:
    assert is_transient(RunFailed(status=status))


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422, 500, 501])
def test_permanent_statuses(status: int) -> None:
    assert not is_transient(RunFailed(status=status))


# Cost


CALL = Call(workflow="advisor", messages=(Message.user("Hi"),))
PRICES = {"gpt-9*": Price(input=2, output=10), "small": Price(input=1)}
GPT_9_STEP = StepDetails(model="gpt-9-2026", usage=Usage(1_000_000, 100_000))


def advisor_chat(*recorded_steps: tuple[steps.StepKind, StepDetails], usage: Usage | None) -> Workflow:
    """A chat that records these steps, and reports that usage."""

    @chat
    async def advisor(messages: Any) -> Any:
        listener = steps.current_listener()
        assert listener is not None
        for kind, one in recorded_steps:
            step = listener.begin(("house",), kind, "model")
            assert step is not None
            step.end(lambda one=one: one)
        yield "There."
        if usage is not None:
            yield usage

    return advisor


@pytest.mark.parametrize(
    ("recorded_steps", "usage", "cost"),
    [
        ([("llm", GPT_9_STEP)], Usage(1_000_000, 100_000), 3.0),
        ([("llm", GPT_9_STEP), ("embedding", StepDetails(model="small", usage=Usage(500_000, 0)))], Usage(1, 1), 3.5),
        ([("agent", GPT_9_STEP), ("llm", GPT_9_STEP)], Usage(1, 1), 3.0),
        ([("llm", GPT_9_STEP)], Usage(1, 1, cost=0.25), 0.25),
        ([("llm", StepDetails(model="other", usage=Usage(1, 1, cost=0.5))), ("llm", GPT_9_STEP)], Usage(1, 1), 3.5),
        ([("llm", StepDetails(model="other", usage=Usage(1, 1)))], Usage(1, 1), None),
        ([("llm", StepDetails(usage=Usage(1, 1))), ("llm", StepDetails(model="small"))], Usage(1, 1), None),
        ([], Usage(1, 1), None),
    ],
)
async def test_a_reply_that_reports_only_tokens_is_priced_from_its_trace(
    recorded_steps: list[tuple[steps.StepKind, StepDetails]], usage: Usage, cost: float | None
) -> None:
    spans: list[Span] = []
    tracing = RunTracer(spans.extend)
    caller = WorkflowCaller(Engine(tracer=tracing), timeout=60, retries=0, prices=PRICES)

    result = await caller.call(advisor_chat(*recorded_steps, usage=usage), CALL, Origin(protocol="evaluation"))
    await tracing.close()

    assert result.answer.usage == msgspec.structs.replace(usage, cost=cost)
    stored = [ProjectRedactors(RedactionConfig(prices=PRICES)).redact(span) for span in spans]
    costs = [span.cost for span in stored if span.kind in ("llm", "embedding") and span.cost is not None]
    assert usage.cost is not None or (sum(costs) if costs else None) == cost


@pytest.mark.parametrize("prices", [None, {}, PRICES])
async def test_nothing_is_priced_without_a_price_list_or_without_usage(prices: Any) -> None:
    engine = Engine(tracer=RunTracer(lambda _: None))
    usage = None if prices else Usage(1, 1)

    result = await WorkflowCaller(engine, timeout=60, retries=0, prices=prices).call(
        advisor_chat(("llm", GPT_9_STEP), usage=usage), CALL, Origin(protocol="evaluation")
    )

    assert result.answer.usage == usage
