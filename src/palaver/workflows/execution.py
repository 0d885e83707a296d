"""Run functions of any kind as a stream of values, and read the values as messages, parts and events.

Sync code runs in the thread pool. ReplyReader is a sync state machine; core/grammar.py makes its output a valid stream.
"""

import asyncio
import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import aclosing
from itertools import groupby, takewhile
from typing import Any, Literal, NamedTuple, cast

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core import dialects, json
from palaver.core.dialects.detection import dialect_of
from palaver.core.events import Event, TextDelta
from palaver.core.grammar import OutputValue
from palaver.core.messages import Data, Message, Part, Text, Usage
from palaver.core.runs import Reply
from palaver.errors import BadStream, InvalidMessages
from palaver.workflows.adapters import FrameworkAdapter, OutputReader, adapter_for
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

_PLAIN_TYPES = (str, dict, list, tuple, msgspec.Struct, int, float, type(None))
"""Common types of values that are not iterators."""

FunctionKind = Literal["async generator", "coroutine", "sync"]
"""How a function is run."""


def function_kind(function: Callable[..., Any]) -> FunctionKind:
    """Determine how a function is run; once per declaration, as it costs as much as a short run."""
    target = underlying_callable(function)
    if inspect.isasyncgenfunction(target):
        return "async generator"
    return "coroutine" if inspect.iscoroutinefunction(target) else "sync"


OutputStream = AsyncGenerator[object, None] | Coroutine[Any, Any, object]
"""A stream of values, or a coroutine that returns one."""


def call_function(kind: FunctionKind, bound: BoundFunction, context: Context) -> OutputStream:
    """Call the function. Async output is returned as it is, without a wrapper on the hot path."""
    return _iterate_in_thread(bound, context) if kind == "sync" else bound()


def iterate_output(value: object, context: Context) -> AsyncGenerator[object, None] | None:
    """Return the values of an iterator, async iterable or awaitable; None for a plain value."""
    output: object = value.value if isinstance(value, Returned) else value
    if isinstance(output, _PLAIN_TYPES):
        return None
    if isinstance(output, Iterator):
        return _iterate_in_thread(lambda: cast("object", output), context)
    if isinstance(output, AsyncGenerator):
        return cast("AsyncGenerator[object, None]", output)
    if isinstance(output, AsyncIterable):
        return _iterate_async(cast("AsyncIterable[object]", output))
    if inspect.isawaitable(output):
        return _iterate_awaitable(output, is_returned=isinstance(value, Returned))
    return None


async def _iterate_awaitable(output: Awaitable[Any], *, is_returned: bool) -> AsyncGenerator[object, None]:
    value = await output
    yield Returned(value) if is_returned else value


async def _iterate_async(values: AsyncIterable[object]) -> AsyncGenerator[object, None]:
    iterator = aiter(values)
    try:
        async for value in iterator:
            yield value
    finally:
        if close := getattr(iterator, "aclose", None):
            await close()


async def _iterate_in_thread(bound: BoundFunction, context: Context) -> AsyncGenerator[object, None]:
    """Run sync code in a single thread from start to end, so that thread-local state stays valid."""
    bridge = ThreadBridge(asyncio.get_running_loop())

    def work() -> None:
        try:
            with context.redirect_emit(lambda value: bridge.put(Emitted(value))):
                result = bound()
                if isinstance(result, Iterator):
                    _drain(cast("Iterator[object]", result), bridge)
                else:
                    bridge.put(Returned(result))
        except BaseException as error:  # sys.exit must end the run, not just the thread.
            bridge.end(error)
        else:
            bridge.end()

    try:
        await context.thread_pool.start(work)
        async with aclosing(bridge.values()) as values:
            async for value in values:
                yield value
    finally:
        bridge.close()


def _drain(values: Iterator[object], bridge: ThreadBridge) -> None:
    """Put each value, and those of nested iterators: a second thread might wait forever for our slot."""
    try:
        for value in values:
            if isinstance(value, _PLAIN_TYPES) or not isinstance(value, Iterator):
                bridge.put(cast("object", value))
            else:
                _drain(cast("Iterator[object]", value), bridge)
    finally:
        if isinstance(values, Generator):
            cast("Generator[object, Any, Any]", values).close()


_OUTPUT_TYPES = (Event | Part | Usage).__args__


class ReplyReader:
    """Reads the output of one run.

    The first match wins: Palaver's events, parts and usage; a framework's object; text; for a chat, messages in any
    dialect, alone or under `messages`; any other JSON.
    """

    def __init__(self, *, is_chat: bool, history: Sequence[Message] = ()) -> None:
        self._warnings: list[str] = []
        self._is_chat = is_chat
        self._history = history
        self._values: list[Any] = []
        self._text: list[str] = []
        self._returned: Any | UnsetType = UNSET
        self._readers: dict[int, OutputReader] = {}  # By id of the adapter module.

    @property
    def warnings(self) -> list[str]:
        """Warnings about output that was dropped or changed."""
        reader_warnings = [warning for reader in self._readers.values() for warning in getattr(reader, "warnings", ())]
        return self._warnings + reader_warnings

    def feed(self, value: object) -> Iterator[OutputValue]:
        """Convert one value. Raises BadStream if it is not a valid output."""
        if isinstance(value, Emitted):
            yield from self.feed_emitted(value.value)
            return
        is_returned = isinstance(value, Returned)
        value = value.value if isinstance(value, Returned) else value
        if isinstance(value, bytes | bytearray | memoryview):
            raise BadStream("The workflow returned bytes. Decode them to text first.")
        if is_returned and not self._is_chat:
            self._returned = _to_builtins(value)
        elif isinstance(value, _OUTPUT_TYPES):
            yield cast("OutputValue", value)
        elif self._is_chat:
            yield from self._feed_chat(value)
        else:
            yield from self._feed_yielded(value)

    def feed_emitted(self, value: object) -> Iterator[OutputValue]:
        """Convert a value passed to `ctx.emit(…)`: one of Palaver's types. It is not part of the result value."""
        if isinstance(value, Message):
            yield from self._new_messages([value])
        elif isinstance(value, _OUTPUT_TYPES):
            yield cast("OutputValue", value)
        else:
            raise BadStream(f"ctx.emit() accepts events, parts, messages and usage, not {type(value).__name__}.")

    def end(self) -> list[OutputValue]:
        """Return the remaining output when the workflow has ended."""
        return [output for reader in self._readers.values() for output in reader.end()]

    def value(self, final_value: Any | UnsetType = UNSET) -> Any | UnsetType:
        """Return the result of a workflow that is not a chat: `final_value`, else what was returned or yielded."""
        if self._is_chat:
            return UNSET
        if final_value is not UNSET:
            return _to_builtins(final_value)
        if self._returned is not UNSET:
            return self._returned
        self._join_text()
        return self._values if len(self._values) > 1 else self._values[0] if self._values else None

    def _feed_chat(self, value: object) -> Iterator[OutputValue]:
        if value is None:
            return
        if isinstance(value, str):
            yield TextDelta(delta=value)
        elif isinstance(value, Reply):
            yield from self._new_messages(value.messages)
            if value.usage is not None:
                yield value.usage
        elif isinstance(value, Message):
            yield from self._new_messages([value])
        elif (output := self._feed_framework(value)) is not None or (output := self._feed_state(value)) is not None:
            yield from output
        elif (messages := self._read_messages(value)) is not None:
            yield from self._new_messages(messages)
        else:
            self._warn(
                f"a chat returned a value of type {type(value).__name__}, which is not a message; it is shown as data"
            )
            yield Message.assistant(Data(name="output", value=_to_builtins(value)))

    def _read_messages(self, value: object) -> Sequence[Message] | None:
        """Read messages, directly or under `messages`; None if there are none."""
        messages = _as_messages(value)
        if messages is None and isinstance(value, dict):
            messages = _as_messages(cast("dict[str, Any]", value).get("messages"))
        return messages

    def _feed_framework(self, value: object) -> Iterable[OutputValue] | None:
        """Convert a framework's object, or a list of them; None if it is neither."""
        framework = adapter_for(value)
        output = self._reader_for(framework).feed(value) if framework is not None else None
        if output is None and isinstance(value, list | tuple):
            return self._feed_framework_list(cast("Sequence[object]", value))
        return output

    def _feed_state(self, value: object) -> Iterable[OutputValue] | None:
        """Convert the objects in `{"messages": …}`, or in the updates of a graph, which are such states by node."""
        if not isinstance(value, dict):
            return None
        state = cast("dict[object, object]", value)
        changes: Iterable[object] = [state] if "messages" in state else state.values()
        outputs = [
            self._feed_framework(cast("dict[object, object]", change).get("messages"))
            for change in changes
            if isinstance(change, dict)
        ]
        known_outputs = [output for output in outputs if output is not None]
        return [value for output in known_outputs for value in output] if known_outputs else None

    def _feed_framework_list(self, values: Sequence[object]) -> Iterable[OutputValue] | None:
        """Convert a list that contains a framework's objects; None if it is not messages."""
        adapters = [adapter_for(value) for value in values]
        first_adapter = next((framework for framework in adapters if framework), None)
        if first_adapter is None:
            return None
        if isinstance(values, tuple) and (group_output := self._reader_for(first_adapter).feed(values)) is not None:
            return group_output  # A pair, such as LangGraph's message and its metadata.
        output: list[OutputValue] = []
        for framework, group in groupby(values, adapter_for):
            if framework is not None:
                group_output = self._reader_for(framework).feed(list(group))
            else:
                messages = _as_messages(list(group))
                group_output = None if messages is None else self._new_messages(messages)
            if group_output is None:
                return None
            output += group_output
        return output

    def _reader_for(self, framework: FrameworkAdapter) -> OutputReader:
        reader = self._readers.get(id(framework))
        return reader or self._readers.setdefault(id(framework), framework.Reader(self._history))

    def _new_messages(self, messages: Sequence[Message]) -> Iterator[OutputValue]:
        """Yield the new messages of the assistant and tools, without a repeated history."""
        for message in messages[self._count_repeated(messages) :]:
            if message.role in ("assistant", "tool"):
                yield message
            else:
                self._warn(f"dropped a {message.role} message from a chat's reply")

    def _count_repeated(self, messages: Sequence[Message]) -> int:
        """Return the number of leading messages that repeat the call's history, as in LangGraph's state."""
        pairs = zip(messages, self._history, strict=False)
        repeated = list(takewhile(lambda pair: _comparison_key(pair[0]) == _comparison_key(pair[1]), pairs))
        # A reply has no user messages; without one, an apparent repetition may be new output.
        return len(repeated) if any(message.role == "user" for message, _ in repeated) else 0

    def _feed_yielded(self, value: object) -> Iterator[OutputValue]:
        if isinstance(value, str):
            self._text.append(value)
            yield TextDelta(delta=value)
            return
        framework = adapter_for(value)
        if framework is not None and (output := self._reader_for(framework).feed(value)) is not None:
            for item in output:
                self._text.append(_text_of(item))
                yield item
            return
        self._join_text()
        json_value = _to_builtins(value)
        self._values.append(json_value)
        yield Data(name="output", value=json_value)

    def _join_text(self) -> None:
        if text := "".join(self._text):
            self._values.append(text)
        self._text = []

    def _warn(self, warning: str) -> None:
        if warning not in self._warnings:
            self._warnings.append(warning)


def _as_messages(value: Any) -> Sequence[Message] | None:
    """Read messages; a list may mix Message objects with messages in dialects."""
    if isinstance(value, list | tuple):
        items = list(cast("Sequence[Any]", value))
        if any(isinstance(item, Message) for item in items):
            runs = groupby(items, lambda item: isinstance(item, Message))
            groups = [list(group) if are_ours else _as_messages(list(group)) for are_ours, group in runs]
            return None if None in groups else [message for group in groups for message in group or ()]
        value = items
    if dialect_of(value) is None:
        return None
    try:
        return dialects.read(value)
    except InvalidMessages as error:
        raise BadStream(f"The workflow returned invalid messages: {error}") from None


def _text_of(value: OutputValue) -> str:
    match value:
        case TextDelta(delta=text) | Text(text=text):
            return text
        case Message():
            return value.text
        case _:
            return ""


def _comparison_key(message: Message) -> tuple[object, ...]:
    """Return what is equal in two versions of one message, whatever a dialect loses."""
    calls = tuple(call.call_id for call in message.tool_calls)
    return message.role, message.text, calls, tuple(result.call_id for result in message.tool_results)


def _to_builtins(value: object) -> Any:
    try:
        return json.to_builtins(value)
    except json.NotJson as error:
        raise BadStream(f"The workflow returned {error}. Return text, messages or JSON.") from None
