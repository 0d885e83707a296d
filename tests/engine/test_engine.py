"""The engine: starting, finding, recording and draining runs, and its threads."""

import asyncio
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from palaver.core.events import Event, RunCancelled, RunFailed, RunFinished, RunStarted
from palaver.core.messages import Message
from palaver.core.runs import RunLimits
from palaver.engine import engine as engine_module
from palaver.engine.engine import Engine, RandomHex, new_run_id, utc_now
from palaver.engine.recorder import MemoryRunStore, RecordableRun, RunStore
from palaver.engine.run import Run
from palaver.errors import FaultyCall, InvalidValue, Overloaded, ShuttingDown
from palaver.workflows.decorators import chat, workflow
from palaver.workflows.thread_pool import ThreadPool
from palaver.workflows.workflow import Limits
from tests.engine.run_factory import (
    NOW,
    QUESTION,
    call,
    event_lines,
    last_event,
    new_engine,
    reply,
    reply_of,
    run_to_end,
    wait_ended,
    wait_for_event,
)


@workflow
async def answer() -> int:
    return 42


@chat
async def endless(messages: Any) -> AsyncIterator[str]:
    yield "Hel"
    await asyncio.Event().wait()


# Starting


async def test_a_new_run_gets_generated_ids_and_a_start_time() -> None:
    run = await run_to_end(answer, engine=Engine())

    assert re.fullmatch(r"run_[0-9a-hjkmnp-tv-z]{26}", run.id)
    assert re.fullmatch(r"[0-9a-f]{32}", run.started.session)
    assert re.fullmatch(r"[0-9a-f]{32}", run.started.trace_id)
    assert re.fullmatch(r"[0-9a-f]{16}", run.started.span_id)
    assert run.started.at is not None
    assert run.started.at <= utc_now()


def set_clock_ms(monkeypatch: pytest.MonkeyPatch, milliseconds: list[int]) -> None:
    """Let the engine's clock return these times, one for each call."""
    times = iter(milliseconds)
    monkeypatch.setattr(engine_module, "time", SimpleNamespace(time_ns=lambda: next(times) * 1_000_000))


def test_run_ids_are_unique_and_share_a_time_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock_ms(monkeypatch, [1_469_918_176_385] * 3)

    ids = [new_run_id() for _ in range(3)]

    assert len(set(ids)) == 3
    assert [run_id[:14] for run_id in ids] == ["run_01aryz6s41"] * 3


def test_run_ids_sort_by_creation_time(monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock_ms(monkeypatch, [2**power for power in range(10, 45)])

    ids = [new_run_id() for _ in range(35)]

    assert ids == sorted(ids)


async def test_an_invalid_call_starts_no_run() -> None:
    engine = new_engine()

    with pytest.raises(FaultyCall) as error:
        engine.start(answer, call(inputs={"x": 1}))

    assert error.value.code == "unknown_input"
    assert engine.active_count == 0


async def test_an_invalid_history_starts_no_run() -> None:
    @chat(system="reject")
    async def strict(messages: Any) -> None: ...

    engine = new_engine()

    with pytest.raises(InvalidValue, match="does not accept from clients"):
        engine.start(strict, call(Message.system("Obey.")))
    assert engine.active_count == 0


async def test_messages_dropped_from_the_history_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    received: list[Any] = []

    @chat(system="drop")
    async def deaf(messages: list[Message]) -> None:
        received.extend(messages)

    with caplog.at_level(logging.INFO, "palaver.run"):
        run = await run_to_end(deaf, Message.system("Obey."), QUESTION)

    assert received == [QUESTION]
    assert run.call.messages == (QUESTION,)
    assert [record.getMessage() for record in caplog.records] == [
        f"run {run.id}: dropped the client's system message 0"
    ]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(), RunLimits(1, 2, 3)),
        (Limits(seconds=9.5), RunLimits(9.5, 2, 3)),
        (Limits(events=9), RunLimits(1, 9, 3)),
        (Limits(bytes=9), RunLimits(1, 2, 9)),
    ],
)
async def test_limits_of_a_workflow_override_those_of_the_server(limits: Limits, expected: RunLimits) -> None:
    run = await run_to_end(workflow(lambda: 1, name="w", limits=limits), engine=new_engine(limits=RunLimits(1, 2, 3)))

    assert run._limits == expected


async def test_a_run_takes_on_disconnect_from_its_workflow() -> None:
    run = await run_to_end(workflow(lambda: 1, name="w", on_disconnect="finish"))

    assert run.on_disconnect == "finish"


# Looking up runs


async def test_an_active_run_can_be_looked_up_until_it_ends() -> None:
    engine, resume = new_engine(), asyncio.Event()

    @chat
    async def waiting(messages: Any) -> None:
        await resume.wait()

    run = engine.start(waiting, call())
    active, found = engine.active_count, engine.find(run.id)
    resume.set()
    await wait_ended(run)

    assert (active, found) == (1, run)
    assert (engine.active_count, engine.find(run.id)) == (0, None)


# Recording


class RecordingStore:
    """A store that records its calls."""

    def __init__(self) -> None:
        self.notes: list[Any] = []
        self.run: Run | None = None

    def check(self) -> None:
        self.notes.append("checked")

    def on_start(self, run: RecordableRun) -> None:
        self.notes.append(("opened", run.id, len(run.log)))

    def on_events(self, run: RecordableRun) -> None:
        self.notes.append(("grew", len(run.log)))

    async def record_end(self, run: RecordableRun, last: Sequence[Event]) -> None:
        await asyncio.sleep(0)
        self.notes.append(("closed", event_lines(last), len(run.log)))

    def begin_handover(self) -> None:
        self.notes.append("left")

    def record_later(self, run: RecordableRun, last: Sequence[Event]) -> None:
        self.notes.append(("lost", event_lines(last), len(run.log)))


async def test_the_store_receives_every_event_and_the_end_before_the_reader() -> None:
    store = RecordingStore()

    async def attend(events: Sequence[Event]) -> None:
        store.notes.append(("told", event_lines(events)))

    @chat
    async def short(messages: Any) -> AsyncIterator[str]:
        yield "Hi."

    run = await wait_ended(new_engine(store=store).start(short, call(), consumer=attend))

    assert store.notes == [
        "checked",
        ("opened", run.id, 0),
        ("grew", 1),
        ("told", ["RunStarted"]),
        ("grew", 3),
        ("told", ["TextStarted", "TextDelta Hi."]),
        ("closed", ["TextEnded", "RunFinished"], 3),
        ("told", ["TextEnded", "RunFinished"]),
    ]


async def test_a_run_whose_end_cannot_be_recorded_fails_as_overloaded(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(RecordingStore):
        async def record_end(self, run: RecordableRun, last: Sequence[Event]) -> None:
            raise OSError("disk full")

    @chat
    async def short(messages: Any) -> str:
        return "Hi."

    store = Broken()
    run = await run_to_end(short, engine=new_engine(store=store))

    assert event_lines(run.log) == ["RunStarted", "TextStarted", "TextDelta Hi.", "TextEnded", "RunFailed"]
    assert [event.seq for event in run.log] == [0, 1, 2, 3, 4]
    assert last_event(run) == RunFailed(
        code="overloaded", message="The run ended, but its outcome could not be stored. Try again later.", at=NOW
    )
    assert ("lost", ["TextEnded", "RunFailed"], 3) in store.notes
    assert "disk full" in caplog.text


async def test_no_run_starts_while_the_store_is_unavailable() -> None:
    class Away(RecordingStore):
        def check(self) -> None:
            raise Overloaded("The database is unreachable. Try again shortly.")

    engine = new_engine(store=Away())

    with pytest.raises(Overloaded, match="unreachable"):
        engine.start(answer, call())
    assert engine.active_count == 0


async def test_a_run_whose_start_cannot_be_recorded_is_not_started() -> None:
    class Broken(RecordingStore):
        def on_start(self, run: RecordableRun) -> None:
            raise OSError("disk full")

    engine = new_engine(store=Broken())

    with pytest.raises(OSError, match="disk full"):
        engine.start(answer, call())
    assert engine.active_count == 0


# Draining


async def test_draining_waits_for_active_runs_and_refuses_new_ones() -> None:
    engine, resume = new_engine(), asyncio.Event()

    @chat
    async def waiting(messages: Any) -> str:
        await resume.wait()
        return "Hi."

    run = engine.start(waiting, call())
    draining = asyncio.create_task(engine.drain(10))
    await asyncio.sleep(0)
    with pytest.raises(ShuttingDown):
        engine.start(waiting, call())
    resume.set()
    await asyncio.wait_for(draining, 10)

    assert engine.is_draining
    assert reply_of(run) == reply(Message.assistant("Hi."))


@pytest.mark.parametrize("seconds", [0, 0.01])
async def test_runs_that_outlast_the_drain_timeout_fail_as_shutting_down(seconds: float) -> None:
    engine = new_engine()
    runs = [engine.start(endless, call()) for _ in range(3)]
    for _ in range(5):
        await asyncio.sleep(0)
    await asyncio.wait_for(engine.drain(seconds), 10)

    assert engine.active_count == 0
    for run in runs:
        assert last_event(run) == RunFailed(code="shutting_down", message="The server is shutting down.", at=NOW)
        assert reply_of(run) == reply(Message.assistant("Hel"), finish="error", run_id=run.id)


async def test_draining_an_engine_without_runs_returns_at_once() -> None:
    engine = new_engine()

    await asyncio.wait_for(engine.drain(30), 5)
    await asyncio.wait_for(engine.drain(0), 5)

    assert engine.is_draining


async def test_a_drain_ends_a_run_that_ignores_cancellation_without_its_code() -> None:
    release, waits = asyncio.Event(), asyncio.Event()

    @chat
    async def deaf(messages: Any) -> None:
        waits.set()
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()

    engine = new_engine()
    run = engine.start(deaf, call())
    await wait_for_event(waits)
    await asyncio.wait_for(engine.drain(0, cancel_timeout_s=0.01), 60)

    assert engine.active_count == 0
    release.set()
    await wait_ended(run)
    assert last_event(run) == RunFailed(code="shutting_down", message="The server is shutting down.", at=NOW)


# Threads


async def test_runs_wait_for_a_free_thread_and_all_of_them_finish() -> None:
    running, most, lock = 0, 0, threading.Lock()

    @workflow
    def work() -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.002)
        with lock:
            running -= 1
        return 1

    engine = new_engine(thread_pool=ThreadPool(3))
    runs = [engine.start(work, call()) for _ in range(20)]
    for run in runs:
        await wait_ended(run)

    assert [last_event(run) for run in runs] == [RunFinished(value=1, at=NOW)] * 20
    assert most <= 3


async def test_a_stuck_thread_keeps_its_slot_until_it_returns() -> None:
    loop, stuck, release = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    @workflow
    def stick() -> None:
        loop.call_soon_threadsafe(stuck.set)
        release.wait(10)

    @workflow
    def quick() -> str:
        return "here"

    engine = new_engine(thread_pool=ThreadPool(1))
    first = engine.start(stick, call())
    await wait_for_event(stuck)
    first.cancel()
    await wait_ended(first)
    second = engine.start(quick, call())
    for _ in range(20):
        await asyncio.sleep(0)
    waited = not second.is_finished
    release.set()
    await wait_ended(second)

    assert (last_event(first), waited) == (RunCancelled(at=NOW), True)
    assert last_event(second) == RunFinished(value="here", at=NOW)


async def test_sync_code_that_yields_iterators_needs_no_second_thread() -> None:
    @chat
    def nested(messages: Any) -> Iterator[Any]:
        for _ in range(50):  # More than the buffer ahead of the reader holds.
            yield (piece for piece in "ab")

    run = await run_to_end(nested, engine=new_engine(thread_pool=ThreadPool(1)))

    assert reply_of(run) == reply(Message.assistant("ab" * 50))


async def test_the_first_event_of_a_run_is_run_started() -> None:
    run = await run_to_end(answer)

    assert isinstance(run.log[0], RunStarted)


def test_random_hex_has_the_requested_length_and_never_repeats() -> None:
    random_hex = RandomHex()
    drawn = [random_hex.hex(16) for _ in range(2_000)]  # More than one batch holds.

    assert all(re.fullmatch(r"[0-9a-f]{16}", digits) for digits in drawn)
    assert len(set(drawn)) == len(drawn)
    assert [len(random_hex.hex(digits)) for digits in (1, 48, 0, 7)] == [1, 48, 0, 7]


FORK_SCRIPT = """
import os
from palaver.engine.engine import RandomHex

random_hex = RandomHex()
random_hex.hex(16)
child = os.fork()
os.write(1, random_hex.hex(16).encode() + b"\\n")
if child:
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_random_hex_of_a_forked_process_differs_from_its_parent() -> None:
    """In a process of its own: Python 3.12 warns of forks where threads run."""
    output = subprocess.run([sys.executable, "-c", FORK_SCRIPT], check=True, capture_output=True, text=True).stdout

    drawn = output.split()
    assert [len(digits) for digits in drawn] == [16, 16]
    assert drawn[0] != drawn[1]


async def test_the_memory_store_holds_no_state() -> None:
    store: RunStore = MemoryRunStore()

    run = await run_to_end(answer, engine=new_engine(store=store))

    assert run.is_finished
    assert vars(store) == {}
