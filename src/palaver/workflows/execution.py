"""Run functions of any kind as a stream of values. Sync code runs in the thread pool."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import aclosing
from typing import Any, Literal, NamedTuple, cast

import msgspec

from palaver.workflows.context import Context
from palaver.workflows.signature import underlying_callable
from palaver.workflows.thread_pool import ThreadBridge


class Returned(NamedTuple):
    """A value that the function returned rather than yielded."""

    value: Any


class Emitted(NamedTuple):
    """A value that sync code passed to `ctx.emit(…)`, in order with those that it yields."""

    value: Any


BoundFunction = Callable[[], Any]
"""The author's function with its arguments bound."""

_WHOLE = (str, dict, list, tuple, msgspec.Struct, int, float, type(None))
"""Common types of values that are not iterators."""

FunctionKind = Literal["async generator", "coroutine", "sync"]
"""How a function is run."""


def function_kind(function: Callable[..., Any]) -> FunctionKind:
    """Determine how a function is run; once per declaration, as it costs as much as a short run."""
    runs = underlying_callable(function)
    if inspect.isasyncgenfunction(runs):
        return "async generator"
    return "coroutine" if inspect.iscoroutinefunction(runs) else "sync"


OutputStream = AsyncGenerator[object, None] | Coroutine[Any, Any, object]
"""A stream of values, or a coroutine that returns one."""


def call_function(kind: FunctionKind, bound: BoundFunction, context: Context) -> OutputStream:
    """Call the function. Async output is returned as it is, without a wrapper on the hot path."""
    match kind:
        case "async generator" | "coroutine":
            return bound()
        case "sync":
            return _threaded(bound, context)


def iterate_output(value: object, context: Context) -> AsyncGenerator[object, None] | None:
    """Return the values of an iterator, async iterable or awaitable; None for a plain value."""
    given: object = value.value if isinstance(value, Returned) else value
    if isinstance(given, _WHOLE):
        return None
    if isinstance(given, Iterator):
        return _threaded(lambda: cast("object", given), context)
    if isinstance(given, AsyncGenerator):
        return cast("AsyncGenerator[object, None]", given)
    if isinstance(given, AsyncIterable):
        return _relayed(cast("AsyncIterable[object]", given))
    if inspect.isawaitable(given):
        return _awaited(lambda: given, returned=isinstance(value, Returned))
    return None


async def _awaited(begin: Callable[[], Awaitable[Any]], *, returned: bool = True) -> AsyncGenerator[object, None]:
    value = await begin()
    yield Returned(value) if returned else value


async def _relayed(values: AsyncIterable[object]) -> AsyncGenerator[object, None]:
    iterator = aiter(values)
    try:
        async for value in iterator:
            yield value
    finally:
        if close := getattr(iterator, "aclose", None):
            await close()


async def _threaded(bound: BoundFunction, context: Context) -> AsyncGenerator[object, None]:
    """Run sync code in a single thread from start to end, so that thread-local state stays valid."""
    pump = ThreadBridge(asyncio.get_running_loop())

    def work() -> None:
        try:
            with context.speaking(lambda said: pump.put(Emitted(said))):
                result = bound()
                if isinstance(result, Iterator):
                    _drain(cast("Iterator[object]", result), pump)
                else:
                    pump.put(Returned(result))
        except BaseException as error:  # sys.exit must end the run, not just the thread.
            pump.end(error)
        else:
            pump.end()

    try:
        await context.threads.start(work)
        async with aclosing(pump.values()) as values:
            async for value in values:
                yield value
    finally:
        pump.close()


def _drain(values: Iterator[object], pump: ThreadBridge) -> None:
    """Put each value, and those of nested iterators: a second thread might wait forever for our slot."""
    try:
        for value in values:
            if isinstance(value, _WHOLE) or not isinstance(value, Iterator):
                pump.put(cast("object", value))
            else:
                _drain(cast("Iterator[object]", value), pump)
    finally:
        if isinstance(values, Generator):
            cast("Generator[object, Any, Any]", values).close()
