"""The context of a running workflow: logs, end of the run, secrets, threads and files."""

import threading
from collections.abc import Callable
from typing import Any, get_args

import pytest

from palaver.core.events import FinishReason, PartAdded, RunStarted
from palaver.core.messages import Data, File
from palaver.core.runs import Call, Secret
from palaver.workflows.context import Context
from palaver.workflows.thread_pool import ThreadPool

STATUS = PartAdded(part=Data(name="status", value="Working."), transient=True)


def fetch(part: File) -> Any:
    return part.media_type.encode()


def context(emit: Callable[[object], None] = print, **call_fields: Any) -> Context:
    call = Call(workflow="w", **call_fields)
    return Context(RunStarted(run_id="run_1", session="s"), call, {}, emit, ThreadPool(1), fetch)


def run_in_threads(*work: Callable[[], object]) -> None:
    """Run each function in a separate thread, all alive at the same time."""
    barrier = threading.Barrier(len(work))

    def run(one: Callable[[], object]) -> None:
        barrier.wait(10)
        one()
        barrier.wait(10)

    threads = [threading.Thread(target=run, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)


def test_a_log_line_is_a_transient_part() -> None:
    emitted: list[object] = []

    context(emitted.append).log("Working.")

    assert emitted == [STATUS]


@pytest.mark.parametrize("reason", get_args(FinishReason))
def test_finish_sets_the_finish_reason(reason: FinishReason) -> None:
    ctx = context()
    before = ctx.ending
    ctx.finish(reason)

    assert (before, ctx.ending) == ("stop", reason)


def test_an_unknown_finish_reason_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"invalid finish reason 'tired': must be one of stop, length, "):
        context().finish("tired")  # type: ignore[arg-type]


def test_secrets_can_be_revealed_but_are_not_shown() -> None:
    ctx = context(secrets={"key": Secret("hush")})

    assert ctx.secrets["key"].reveal() == "hush"
    assert "hush" not in repr(vars(ctx))


def test_values_emitted_by_sync_code_and_its_helper_threads_are_redirected() -> None:
    direct: list[object] = []
    redirected: list[object] = []
    ctx = context(direct.append)

    def sync_code() -> None:
        with ctx.redirect_emit(redirected.append):
            ctx.emit("sync")
            run_in_threads(lambda: ctx.emit("helper"))
        ctx.emit("after")

    run_in_threads(sync_code)
    ctx.emit("loop")

    assert (redirected, direct) == (["sync", "helper"], ["after", "loop"])


def test_the_event_loop_emits_directly_while_sync_code_runs() -> None:
    direct: list[object] = []
    redirected: list[object] = []
    ctx = context(direct.append)
    ready, finished = threading.Event(), threading.Event()

    def sync_code() -> None:
        with ctx.redirect_emit(redirected.append):
            ready.set()
            finished.wait(10)

    thread = threading.Thread(target=sync_code)
    thread.start()
    ready.wait(10)
    ctx.emit("loop")
    finished.set()
    thread.join(10)

    assert (direct, redirected) == (["loop"], [])


def test_values_emitted_by_two_sync_threads_are_redirected_separately() -> None:
    emitted: dict[str, list[object]] = {"a": [], "b": []}
    ctx = context()
    both = threading.Barrier(2)

    def sync_code(name: str) -> Callable[[], None]:
        def work() -> None:
            with ctx.redirect_emit(emitted[name].append):
                both.wait(10)
                ctx.emit(name)
                both.wait(10)

        return work

    run_in_threads(sync_code("a"), sync_code("b"))

    assert emitted == {"a": ["a"], "b": ["b"]}


def test_a_file_can_be_fetched_until_the_run_has_ended() -> None:
    ctx = context()
    before = ctx.fetch(File("text/plain", file_id="file_1"))
    ctx.close()

    assert before == b"text/plain"
    with pytest.raises(RuntimeError, match=r"ctx.fetch\(\) called after the run has ended"):
        ctx.fetch(File("text/plain", file_id="file_1"))
