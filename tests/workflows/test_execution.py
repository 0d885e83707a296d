"""Executing any kind of function as a stream of its values."""

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, cast

import pytest

from palaver.core.events import RunStarted
from palaver.core.messages import Data, File
from palaver.core.runs import Call
from palaver.workflows.context import Context
from palaver.workflows.execution import Emitted, Returned, call_function, function_kind, iterate_output
from palaver.workflows.thread_pool import ThreadPool


def fetch(part: File) -> Any:
    raise AssertionError(part)


def context() -> Context:
    return Context(RunStarted(run_id="r"), Call(workflow="w"), {}, print, ThreadPool(4), fetch)


async def run_function(function: Any, ctx: Context | None = None) -> list[object]:
    values = call_function(function_kind(function), function, ctx or context())
    async with asyncio.timeout(60):
        if isinstance(values, Coroutine):
            return [Returned(await values)]
        return [value async for value in values]


async def read_into(seen: list[object], values: AsyncIterator[object]) -> None:
    async with asyncio.timeout(60):
        async for value in values:
            seen += [value]


def function() -> str:
    return "a"


async def coroutine() -> str:
    return "a"


def generator() -> Iterator[str]:
    yield "a"
    yield "b"


async def async_generator() -> AsyncIterator[str]:
    yield "a"
    yield "b"


class SyncCallable:
    def __call__(self) -> str:
        return "a"


class AsyncCallable:
    async def __call__(self) -> str:
        return "a"


class StreamCallable:
    async def __call__(self) -> AsyncIterator[str]:
        yield "a"
        yield "b"


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (function, [Returned("a")]),
        (coroutine, [Returned("a")]),
        (generator, ["a", "b"]),
        (async_generator, ["a", "b"]),
        (lambda: iter(["a", "b"]), ["a", "b"]),
        (lambda: ["a", "b"], [Returned(["a", "b"])]),
        (lambda: None, [Returned(None)]),
        (SyncCallable(), [Returned("a")]),
        (AsyncCallable(), [Returned("a")]),
        (StreamCallable(), ["a", "b"]),
        (functools.partial(StreamCallable()), ["a", "b"]),
        (functools.partial(generator), ["a", "b"]),
    ],
    ids=["function", "coroutine", "generator", "async generator", "iterator", "list", "none", "object", "async object",
         "streaming object", "partial of a streaming object", "partial of a generator"],
)  # fmt: skip
async def test_any_kind_of_callable_gives_its_values(kind: Any, values: list[object]) -> None:
    assert await run_function(kind) == values


def test_an_async_generator_is_returned_unchanged() -> None:
    created = async_generator()

    assert call_function(function_kind(async_generator), lambda: created, context()) is created


async def test_a_coroutine_is_returned_unchanged() -> None:
    created = coroutine()

    assert call_function(function_kind(coroutine), lambda: created, context()) is created
    created.close()


async def test_async_code_runs_on_the_event_loop_and_sync_code_in_a_thread() -> None:
    async def async_code() -> int:
        return threading.get_ident()

    def sync_code() -> int:
        return threading.get_ident()

    loop_thread = threading.get_ident()

    assert await run_function(async_code) == [Returned(loop_thread)]
    assert await run_function(sync_code) != [Returned(loop_thread)]


async def test_values_that_sync_code_emits_are_in_order_with_those_it_yields() -> None:
    ctx, part = context(), Data(name="n")

    def talkative() -> Iterator[str]:
        ctx.emit(part)
        yield "a"
        ctx.emit("anything")

    assert await run_function(talkative, ctx) == [Emitted(part), "a", Emitted("anything")]


async def test_iterators_among_the_values_of_sync_code_are_drained_in_its_thread() -> None:
    def inner(depth: int) -> Iterator[Any]:
        yield threading.get_ident()
        if depth:
            yield inner(depth - 1)

    values = await run_function(lambda: inner(3))

    assert len(values) == 4
    assert len(set(values)) == 1


async def test_an_exception_of_sync_code_is_raised_after_its_values() -> None:
    def broken() -> Iterator[str]:
        yield "a"
        raise LookupError("x")

    seen: list[object] = []

    with pytest.raises(LookupError, match="x"):
        await read_into(seen, cast("AsyncIterator[object]", call_function(function_kind(broken), broken, context())))
    assert seen == ["a"]


# Values that are iterators or awaitables


class Feed:
    def __init__(self) -> None:
        self.left = ["a", "b"]
        self.closed = False

    def __aiter__(self) -> "Feed":
        return self

    async def __anext__(self) -> str:
        if not self.left:
            raise StopAsyncIteration
        return self.left.pop(0)


class ClosingFeed(Feed):
    async def aclose(self) -> None:
        self.closed = True


PLAIN_VALUES: list[object] = [
    "text",
    1,
    1.5,
    True,
    None,
    ["a"],
    ("a",),
    {"a": 1},
    {1, 2},
    b"a",
    Data(name="n"),
    range(3),
]


@pytest.mark.parametrize("value", [*PLAIN_VALUES, object(), Emitted(iter("a"))], ids=repr)
def test_plain_values_are_not_iterated(value: object) -> None:
    assert iterate_output(value, context()) is None
    assert iterate_output(Returned(value), context()) is None


async def collect_output(value: object) -> list[object]:
    values = iterate_output(value, context())
    assert values is not None
    async with asyncio.timeout(60):
        return [one async for one in values]


async def finished_future() -> asyncio.Future[str]:
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    future.set_result("a")
    return future


@pytest.mark.parametrize("wrap", [lambda value: value, Returned], ids=["yielded", "returned"])
async def test_iterators_and_awaitables_are_expanded(wrap: Any) -> None:
    assert await collect_output(wrap(generator())) == ["a", "b"]
    assert await collect_output(wrap(iter(["a", "b"]))) == ["a", "b"]
    assert await collect_output(wrap(async_generator())) == ["a", "b"]
    assert await collect_output(wrap(Feed())) == ["a", "b"]
    assert await collect_output(wrap(coroutine())) == [wrap("a")]
    assert await collect_output(wrap(await finished_future())) == [wrap("a")]


async def test_an_async_iterator_is_closed_when_its_reader_stops() -> None:
    feed, closed = ClosingFeed(), []

    async def cleaning() -> AsyncIterator[str]:
        try:
            yield "a"
        finally:
            closed.append("async generator")

    for value in (feed, cleaning()):
        values = iterate_output(value, context())
        assert values is not None
        await anext(values)
        await values.aclose()

    assert (feed.closed, closed) == (True, ["async generator"])
