"""Produce: whatever kind of function the author wrote, a stream of the values it gives."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Generator, Iterator
from contextlib import aclosing
from typing import Any, NamedTuple, cast

from palaver.workflows.context import Context
from palaver.workflows.threads import Pump


class Returned(NamedTuple):
    """A value that the function returned; all others were yielded."""

    value: Any


Bound = Callable[[], Any]
"""The author's function with its arguments."""


def produce(function: Callable[..., Any], bound: Bound, context: Context) -> AsyncGenerator[object, None]:
    """The values, in order. An async generator is handed on as it is: on the hot path there is nothing in between."""
    if inspect.isasyncgenfunction(function):
        return bound()
    if inspect.iscoroutinefunction(function):
        return _awaited(bound())
    return _threaded(bound, context)


def unfold(value: object, context: Context) -> AsyncGenerator[object, None] | None:
    """The values of something that gives values in turn; None for anything that is a value itself."""
    if isinstance(value, Iterator):
        return _threaded(lambda: cast("object", value), context)
    if isinstance(value, AsyncIterable):
        return _relayed(cast("AsyncIterable[object]", value))
    if inspect.isawaitable(value):
        return _awaited(value)
    return None


async def _awaited(result: Awaitable[Any]) -> AsyncGenerator[object, None]:
    yield Returned(await result)


async def _relayed(values: AsyncIterable[object]) -> AsyncGenerator[object, None]:
    async for value in values:
        yield value


async def _threaded(bound: Bound, context: Context) -> AsyncGenerator[object, None]:
    """Sync code, in one thread from its first line to its last, so that what it holds per thread stays valid."""
    pump = Pump(asyncio.get_running_loop())

    def work() -> None:
        try:
            result = bound()
            if isinstance(result, Generator | Iterator):
                _drain(cast("Iterator[object]", result), pump)
            else:
                pump.put(Returned(result))
        except BaseException as error:  # noqa: BLE001 - sys.exit in a workflow must end the run, not vanish in a thread
            pump.end(error if isinstance(error, Exception) else _ended_by(error))
        else:
            pump.end()

    before = context.speak_through(pump.put)  # What it emits stays in order with what it yields.
    try:
        await context.threads.start(work)
        async with aclosing(pump.values()) as values:
            async for value in values:
                yield value
    finally:
        context.speak_through(before)
        pump.close()


def _drain(values: Iterator[object], pump: Pump) -> None:
    try:
        for value in values:
            pump.put(value)
    finally:
        if isinstance(values, Generator):
            cast("Generator[object, Any, Any]", values).close()


def _ended_by(error: BaseException) -> Exception:
    return RuntimeError(f"the workflow raised {type(error).__name__}")
