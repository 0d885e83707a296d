"""Produce: whatever kind of function the author wrote, a stream of the values it gives."""

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
    """A value that the function returned; all others were yielded."""

    value: Any


class Emitted(NamedTuple):
    """A value that sync code said through `ctx.emit(…)`, in its place between those that it yields."""

    value: Any


BoundFunction = Callable[[], Any]
"""The author's function with its arguments."""

_WHOLE = (str, dict, list, tuple, msgspec.Struct, int, float, type(None))
"""Most values are such, and give nothing in turn: they need no closer look."""


FunctionKind = Literal["async generator", "coroutine", "sync"]
"""How a function is run."""


def function_kind(function: Callable[..., Any]) -> FunctionKind:
    """How this one is. Asked once, when it is declared: looking costs as much as a short run."""
    runs = underlying_callable(function)
    if inspect.isasyncgenfunction(runs):
        return "async generator"
    return "coroutine" if inspect.iscoroutinefunction(runs) else "sync"


OutputStream = AsyncGenerator[object, None] | Coroutine[Any, Any, object]
"""What a workflow gives: values in order, or, of a coroutine, the one that it returns."""


def call_function(kind: FunctionKind, bound: BoundFunction, context: Context) -> OutputStream:
    """What the function gives. Async code is handed on as it is: on the hot path there is nothing in between."""
    match kind:
        case "async generator" | "coroutine":
            return bound()
        case "sync":
            return _threaded(bound, context)


def iterate_output(value: object, context: Context) -> AsyncGenerator[object, None] | None:
    """The values of something that gives values in turn; None for anything that is a value itself."""
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
    """Sync code, in one thread from its first line to its last, so that what it holds per thread stays valid."""
    pump = ThreadBridge(asyncio.get_running_loop())

    def work() -> None:
        try:
            with context.speaking(lambda said: pump.put(Emitted(said))):
                result = bound()
                if isinstance(result, Iterator):
                    _drain(cast("Iterator[object]", result), pump)
                else:
                    pump.put(Returned(result))
        except BaseException as error:  # sys.exit in a workflow must end the run, not vanish in a thread.
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
    """Put each value, and of an iterator each of its own: in a second thread it might wait for ever for our slot."""
    try:
        for value in values:
            if isinstance(value, _WHOLE) or not isinstance(value, Iterator):
                pump.put(cast("object", value))
            else:
                _drain(cast("Iterator[object]", value), pump)
    finally:
        if isinstance(values, Generator):
            cast("Generator[object, Any, Any]", values).close()
