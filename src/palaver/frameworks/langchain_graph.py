"""One run of a LangGraph graph: what goes in, what its stream says, and what it waits for.

A graph with a checkpointer remembers its thread, which is the run's session: it is given only what it does not know.
"""

import logging
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple, cast
from uuid import uuid4

from msgspec import UNSET, UnsetType

from palaver.core.dialects.common import as_list
from palaver.core.events import RunFinished
from palaver.core.grammar import OutputValue
from palaver.core.messages import Data, Message
from palaver.errors import Failure
from palaver.frameworks.langchain_approvals import answers_in, asked, check_seen, requests, resumed
from palaver.frameworks.langchain_content import Called, calls, plain
from palaver.frameworks.langchain_messages import Echo, waiting_in, written
from palaver.frameworks.langchain_stream import Repeats, Stream
from palaver.workflows.context import Context

RESUME = "resume"
"""The input that an interrupted graph goes on with, as it is."""

log = logging.getLogger("palaver.run")


class Thread(NamedTuple):
    """What a graph remembers: nothing, for one without a checkpointer or a thread that is new."""

    exists: bool = False
    messages: Sequence[Any] = ()
    interrupts: Sequence[Any] = ()

    @property
    def calls(self) -> dict[str, Called]:
        """The calls that its messages make."""
        return {call.call_id: call for message in self.messages for call in calls(message) if call.call_id}

    @property
    def pending(self) -> list[Called]:
        """Those that have no result; a model may count its calls anew in every turn."""
        waiting: dict[str, Called] = {}
        for message in self.messages:
            waiting |= {call.call_id: call for call in calls(message) if call.call_id}
            waiting.pop(getattr(message, "tool_call_id", ""), None)
        return list(waiting.values())


_NEW = Thread()


async def run(
    graph: Any,
    messages: Sequence[Message],
    inputs: Mapping[str, Any],
    context: Context,
    *,
    resume: Any | UnsetType = UNSET,
    takes_list: bool = False,
) -> AsyncGenerator[object, None]:
    """What one run of the graph says. Where it waits for something, `resume` is what it goes on with, as it is."""
    config: Any = {"configurable": {"thread_id": context.session}}
    thread = await _remembered(graph, config)
    answers = answers_in(_since_last_answer(messages))
    if resume is not UNSET or answers:
        given, history = _resumed(thread, messages, answers, resume), thread.messages
    else:
        passed = _passed(thread, messages)
        given, history = (passed if takes_list else {**inputs, "messages": passed}), [*thread.messages, *passed]
    reading = Reading(thread, asked=waiting_in(messages), history=history, answers_with=_answer_keys(graph))
    async with aclosing(
        graph.astream(given, config, stream_mode=["messages", "updates", *reading.further_modes], subgraphs=True)
    ) as steps:
        async for namespace, mode, payload in steps:
            for said in reading.feed(namespace, mode, payload):
                yield said
    for said in reading.end():
        yield said
    for warning in reading.stream.warnings:
        log.info("run %s: %s", context.run_id, warning)


async def _remembered(graph: Any, config: Any) -> Thread:
    if not graph.checkpointer:
        return _NEW
    snapshot = await graph.aget_state(config, subgraphs=True)
    found = list(_messages_in(snapshot))
    return Thread(exists=snapshot.created_at is not None, messages=found, interrupts=snapshot.interrupts)


def _messages_in(snapshot: Any) -> Iterator[Any]:
    """The messages of a state, and of those of the graphs that wait inside it."""
    values: object = snapshot.values
    yield from _messages(cast("Mapping[str, Any]", values).get("messages") if isinstance(values, Mapping) else values)
    for task in snapshot.tasks:
        if hasattr(task.state, "tasks"):
            yield from _messages_in(task.state)


# What goes in


def _resumed(
    thread: Thread, messages: Sequence[Message], answers: Mapping[str, Mapping[str, Any]], resume: Any | UnsetType
) -> Any:
    """What a graph that waits goes on with."""
    from langgraph.types import Command

    if not thread.interrupts:
        raise Failure("approval_not_found", "Nothing here waits for an approval.", status=404)
    if resume is not UNSET:
        return Command(resume=resume)
    questions = asked(thread.interrupts, thread.pending)
    check_seen(questions, waiting_in(messages))
    return Command(resume=resumed(questions, answers))


def _passed(thread: Thread, messages: Sequence[Message]) -> list[Any]:
    """The messages that the graph is given."""
    passed = written(_since_last_answer(messages) if thread.exists else messages)
    known = {message.id: (message.type, message.content) for message in thread.messages}
    for message in passed:
        # By its id we know a message again when a node gives it back. One that has the id of other words in the thread
        # would replace them.
        said = message.type, message.content
        if message.id is None or known.get(message.id, said) != said:
            message.id = str(uuid4())
    return cast("list[Any]", passed)


def _since_last_answer(messages: Sequence[Message]) -> Sequence[Message]:
    last = max((index for index, message in enumerate(messages) if message.role in ("assistant", "tool")), default=-1)
    return messages[last + 1 :]


# What comes out


class Reading:
    """Understands the stream of one run."""

    def __init__(
        self,
        thread: Thread = _NEW,
        *,
        asked: Collection[str] = (),
        history: Sequence[Any] = (),
        answers_with: Sequence[str] | None = None,
        repeats: Repeats = "complete",
    ) -> None:
        self.stream = Stream(repeats=repeats, asked=asked, thread=thread.calls)
        self.further_modes = ["values"] if answers_with is not None else []
        self._thread = thread
        self._echo = Echo(history)
        self._interrupts: dict[str, Any] = {}
        self._answers_with = answers_with
        self._state: Mapping[str, Any] | None = None

    def feed(self, namespace: Sequence[str], mode: str, payload: Any) -> Iterable[OutputValue]:
        """The events of one step of the stream."""
        match mode:
            case "messages":
                message, about = payload
                return self._message(message, about.get("langgraph_checkpoint_ns", ""))
            case "updates":
                return self._updates(cast("Mapping[str, Any]", payload))
            case _:
                if not namespace and isinstance(payload, Mapping):
                    self._state = cast("Mapping[str, Any]", payload)
                return ()

    def end(self) -> Iterator[OutputValue]:
        """What the graph waits for, what it came to, how it ended."""
        if self._interrupts:
            yield from (given for given in self.stream.end() if not isinstance(given, RunFinished))
            answered = self.stream.answered
            pending = [call for call in self._thread.pending if call.call_id not in answered]
            pending += [Called(call_id=m.asked, name=m.name, arguments=m.arguments) for m in self.stream.unanswered]
            yield from requests(asked(list(self._interrupts.values()), pending))
            yield RunFinished(finish="tool-calls")
            return
        if self._answers_with is not None and self._state is not None:
            came_to = {key: plain(self._state[key]) for key in self._answers_with if key in self._state}
            yield Message.assistant(Data(name="output", value=came_to))
        yield from self.stream.end()

    def _message(self, message: Any, branch: str) -> Iterable[OutputValue]:
        is_chunk = not message.type.islower()
        if not is_chunk and self._echo.repeats(message, branch):
            return ()
        return self.stream.feed(message, branch=branch)

    def _updates(self, updates: Mapping[str, Any]) -> Iterator[OutputValue]:
        for node, update in updates.items():
            if node == "__interrupt__":
                self._interrupts |= {interrupt.id: interrupt for interrupt in update}
                continue
            for change in as_list(update):
                found = cast("Mapping[str, Any]", change).get("messages") if isinstance(change, Mapping) else change
                for message in self._echo.fresh(_messages(found)):
                    self._echo.note(message)
                    yield from self.stream.feed(message)


def _messages(found: Any) -> list[Any]:
    """The messages of an update: one, or a list; those in LangChain's shorthand are spelled out."""
    from langchain_core.messages import BaseMessage, convert_to_messages

    if isinstance(found, tuple) and not _is_shorthand(found):
        return _messages(list(cast("Sequence[Any]", found)))
    known = [each for each in as_list(found) if isinstance(each, BaseMessage) or _is_shorthand(each)]
    return cast("list[Any]", convert_to_messages(known))


def _is_shorthand(found: Any) -> bool:
    """Is it a message as LangGraph also takes them: `("ai", "Hi.")`, or a dict with a role?"""
    if isinstance(found, dict):
        return "content" in found and ("role" in found or "type" in found)
    match found:
        case (str(), str()):
            return True
        case _:
            return False


def _answer_keys(graph: Any) -> Sequence[str] | None:
    """The keys of the state that a graph answers with, if `messages` is not among them."""
    keys: str | Sequence[str] = graph.output_channels
    return None if isinstance(keys, str) or "messages" in keys else keys
