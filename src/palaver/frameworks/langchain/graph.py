"""Run a LangGraph graph or another runnable as a workflow.

A graph with a checkpointer stores its thread, whose id is the run's session, and gets only new messages. The inputs of
a graph are the keys of its state, of a chain the variables of its prompt, of a chat model the messages.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_origin
from uuid import uuid4

from msgspec import UNSET, UnsetType

from palaver.core import json
from palaver.core.events import RunFinished
from palaver.core.grammar import OutputValue
from palaver.core.json import as_list, dict_or_empty, optional_str
from palaver.core.messages import APPROVAL_REQUEST, APPROVAL_RESPONSE, Data, Message, ToolCall, unanswered_calls
from palaver.core.model_options import TextFormat, required_schema
from palaver.errors import ChatWithoutMessages, Failure
from palaver.frameworks.base import approval_request
from palaver.frameworks.langchain.messages import (
    HistoryEcho,
    MessageCall,
    message_calls,
    to_json_text,
    to_json_value,
    written,
)
from palaver.frameworks.langchain.stream import MessageStream, RepeatPolicy
from palaver.workflows.annotations import strip_annotation
from palaver.workflows.config_models import ConfigModel, is_config_model
from palaver.workflows.context import Context

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable


class Interrupt(NamedTuple):
    """The questions of one interrupt: one per action, or one about its value."""

    id: str
    questions: Sequence[dict[str, Any]]
    by_action: bool

    def answer(self, answers: Mapping[str, Mapping[str, Any]]) -> Any:
        if not self.by_action:
            return answers[self.questions[0]["id"]]["approve"]
        return {"decisions": [_decision(answers[question["id"]]) for question in self.questions]}


def parse_interrupts(interrupts: Sequence[Any], pending: Sequence[MessageCall]) -> list[Interrupt]:
    """Parse interrupts. An action belongs to the first pending call with its name and arguments."""
    calls = list(pending)
    return [_parse_interrupt(interrupt, calls) for interrupt in interrupts]


def approval_requests(interrupts: Sequence[Interrupt]) -> Iterator[Data]:
    for interrupt in interrupts:
        for question in interrupt.questions:
            yield Data(name=APPROVAL_REQUEST, value=question)


def approval_answers(messages: Sequence[Message]) -> dict[str, Mapping[str, Any]]:
    """Return the approvals at the end of a call, by id."""
    parts = [part for message in messages for part in message.parts]
    values = [dict_or_empty(part.value) for part in parts if isinstance(part, Data) and part.name == APPROVAL_RESPONSE]
    return {
        item["id"]: item for item in values if isinstance(item.get("id"), str) and type(item.get("approve")) is bool
    }


def resume_value(interrupts: Sequence[Interrupt], answers: Mapping[str, Mapping[str, Any]]) -> Any:
    """Return the value of `Command(resume=…)`. Raises Failure unless exactly the pending questions are answered."""
    question_ids = [question["id"] for interrupt in interrupts for question in interrupt.questions]
    if unknown := [name for name in answers if name not in question_ids]:
        raise Failure("approval_not_found", f"Approval {unknown[0][:80]!r} is not pending.", status=404)
    if missing_ids := [name for name in question_ids if name not in answers]:
        listing = ", ".join(missing_ids)
        raise Failure("approval_pending", f"Answer all pending approvals together. Missing: {listing}.", status=400)
    if len(interrupts) == 1:
        return interrupts[0].answer(answers)
    return {interrupt.id: interrupt.answer(answers) for interrupt in interrupts}


def check_arguments_unchanged(interrupts: Sequence[Interrupt], approved_calls: Mapping[str, ToolCall]) -> None:
    """Raise Failure if the approved arguments differ from those of the pending call."""
    for question in (question for interrupt in interrupts for question in interrupt.questions):
        call = approved_calls.get(question["call_id"])
        if call is not None and call.parsed != json.parse_or_text(question["arguments"]):
            message = f"The pending call {call.call_id!r} has different arguments from the one that was approved."
            raise Failure("stale_base", message, status=409)


def _parse_interrupt(interrupt: Any, calls: list[MessageCall]) -> Interrupt:
    value = dict_or_empty(interrupt.value)
    actions = [dict_or_empty(action) for action in as_list(value.get("action_requests"))]
    if not actions:
        question = approval_request(
            f"int_{interrupt.id}",
            None,
            "interrupt",
            to_json_text(interrupt.value),
            message=optional_str(interrupt.value),
            interrupt=interrupt.id,
        )
        return Interrupt(interrupt.id, [question], by_action=False)
    reviews = [dict_or_empty(review) for review in as_list(value.get("review_configs"))]
    decisions = {review.get("action_name"): as_list(review.get("allowed_decisions")) for review in reviews}
    questions: list[dict[str, Any]] = []
    for number, action in enumerate(actions, 1):
        name, arguments = str(action.get("name")), action.get("args", action.get("arguments"))
        call = next((call for call in calls if call.name == name and _same_arguments(call.arguments, arguments)), None)
        if call is not None:
            calls.remove(call)
        question = approval_request(
            call.call_id if call else f"int_{interrupt.id}.{number}",
            call.call_id if call else None,
            name,
            to_json_text(arguments),
            message=optional_str(action.get("description")),
            interrupt=interrupt.id,
        )
        questions.append(question | {"decisions": decisions.get(name) or question["decisions"]})
    return Interrupt(interrupt.id, questions, by_action=True)


def _same_arguments(text: str, arguments: Any) -> bool:
    return json.parse_or_text(text) == to_json_value(arguments)


def _decision(answer: Mapping[str, Any]) -> dict[str, Any]:
    if answer["approve"]:
        return {"type": "approve"}
    reason = optional_str(answer.get("reason"))
    return {"type": "reject", "message": reason} if reason else {"type": "reject"}


RESUME_INPUT = "resume"
"""The input whose value resumes an interrupted graph."""

log = logging.getLogger("palaver.run")


class GraphThread(NamedTuple):
    """The stored state of a graph; empty without a checkpointer or for a new thread."""

    exists: bool = False
    messages: Sequence[Any] = ()
    interrupts: Sequence[Any] = ()

    @property
    def calls(self) -> dict[str, MessageCall]:
        return {call.call_id: call for message in self.messages for call in message_calls(message) if call.call_id}

    @property
    def pending(self) -> list[MessageCall]:
        """The calls without a result; a model may reuse ids in every turn."""
        pending_calls: dict[str, MessageCall] = {}
        for message in self.messages:
            pending_calls |= {call.call_id: call for call in message_calls(message) if call.call_id}
            pending_calls.pop(getattr(message, "tool_call_id", ""), None)
        return list(pending_calls.values())


_NEW_THREAD = GraphThread()


async def run_graph(
    graph: Any,
    messages: Sequence[Message],
    inputs: Mapping[str, Any],
    context: Context,
    *,
    resume: Any | UnsetType = UNSET,
    takes_list: bool = False,
) -> AsyncGenerator[object, None]:
    """Yield the events of one run. `resume` is the value for an interrupted graph."""
    config: Any = {"configurable": {"thread_id": context.session}}
    thread = await _load_thread(graph, config)
    answers = approval_answers(_since_last_answer(messages))
    if resume is not UNSET or answers:
        graph_input, history = _resume_command(thread, messages, answers, resume), thread.messages
    else:
        input_messages = _input_messages(thread, messages)
        graph_input, history = (
            (input_messages if takes_list else {**inputs, "messages": input_messages}),
            [*thread.messages, *input_messages],
        )
    reader = GraphStreamReader(
        thread, pending=unanswered_calls(messages), history=history, output_keys=_output_keys(graph)
    )
    async with aclosing(
        graph.astream(graph_input, config, stream_mode=["messages", "updates", *reader.extra_modes], subgraphs=True)
    ) as steps:
        async for namespace, mode, payload in steps:
            for output in reader.feed(namespace, mode, payload):
                yield output
    for output in reader.end():
        yield output
    for warning in reader.stream.warnings:
        log.info("run %s: %s", context.run_id, warning)


async def _load_thread(graph: Any, config: Any) -> GraphThread:
    if not graph.checkpointer:
        return _NEW_THREAD
    snapshot = await graph.aget_state(config, subgraphs=True)
    messages = list(_snapshot_messages(snapshot))
    return GraphThread(exists=snapshot.created_at is not None, messages=messages, interrupts=snapshot.interrupts)


def _snapshot_messages(snapshot: Any) -> Iterator[Any]:
    """Yield the messages of a state and of its pending subgraphs."""
    values: object = snapshot.values
    yield from _update_messages(
        cast("Mapping[str, Any]", values).get("messages") if isinstance(values, Mapping) else values
    )
    for task in snapshot.tasks:
        if hasattr(task.state, "tasks"):
            yield from _snapshot_messages(task.state)


# Input


def _resume_command(
    thread: GraphThread, messages: Sequence[Message], answers: Mapping[str, Mapping[str, Any]], resume: Any | UnsetType
) -> Any:
    from langgraph.types import Command

    if not thread.interrupts:
        raise Failure("approval_not_found", "No approval is pending.", status=404)
    if resume is not UNSET:
        return Command(resume=resume)
    interrupts = parse_interrupts(thread.interrupts, thread.pending)
    check_arguments_unchanged(interrupts, unanswered_calls(messages))
    return Command(resume=resume_value(interrupts, answers))


def _input_messages(thread: GraphThread, messages: Sequence[Message]) -> list[Any]:
    input_messages = written(_since_last_answer(messages) if thread.exists else messages)
    thread_contents = {message.id: (message.type, message.content) for message in thread.messages}
    for message in input_messages:
        # LangGraph merges messages by id: reusing the id of another message in the thread would replace it.
        content = message.type, message.content
        if message.id is None or thread_contents.get(message.id, content) != content:
            message.id = str(uuid4())
    return cast("list[Any]", input_messages)


def _since_last_answer(messages: Sequence[Message]) -> Sequence[Message]:
    last = max((index for index, message in enumerate(messages) if message.role in ("assistant", "tool")), default=-1)
    return messages[last + 1 :]


# Output


class GraphStreamReader:
    def __init__(
        self,
        thread: GraphThread = _NEW_THREAD,
        *,
        pending: Collection[str] = (),
        history: Sequence[Any] = (),
        output_keys: Sequence[str] | None = None,
        repeats: RepeatPolicy = "complete",
    ) -> None:
        self.stream = MessageStream(repeats=repeats, pending=pending, thread=thread.calls)
        self.extra_modes = ["values"] if output_keys is not None else []
        self._thread = thread
        self._echo = HistoryEcho(history)
        self._interrupts: dict[str, Any] = {}
        self._output_keys = output_keys
        self._state: Mapping[str, Any] | None = None

    def feed(self, namespace: Sequence[str], mode: str, payload: Any) -> Iterable[OutputValue]:
        match mode:
            case "messages":
                message, metadata = payload
                return self._feed_message(message, metadata.get("langgraph_checkpoint_ns", ""))
            case "updates":
                return self._feed_updates(cast("Mapping[str, Any]", payload))
            case _:
                if not namespace and isinstance(payload, Mapping):
                    self._state = cast("Mapping[str, Any]", payload)
                return ()

    def end(self) -> Iterator[OutputValue]:
        if self._interrupts:
            yield from (output for output in self.stream.end() if not isinstance(output, RunFinished))
            answered = self.stream.answered
            pending = [call for call in self._thread.pending if call.call_id not in answered]
            pending += [
                MessageCall(call_id=call.model_id, name=call.name, arguments=call.arguments)
                for call in self.stream.unanswered
            ]
            yield from approval_requests(parse_interrupts(list(self._interrupts.values()), pending))
            yield RunFinished(finish="tool-calls")
            return
        if self._output_keys is not None and self._state is not None:
            output_values = {key: to_json_value(self._state[key]) for key in self._output_keys if key in self._state}
            yield Message.assistant(Data(name="output", value=output_values))
        yield from self.stream.end()

    def _feed_message(self, message: Any, branch: str) -> Iterable[OutputValue]:
        is_chunk = not message.type.islower()
        if not is_chunk and self._echo.repeats(message, branch):
            return ()
        return self.stream.feed(message, branch=branch)

    def _feed_updates(self, updates: Mapping[str, Any]) -> Iterator[OutputValue]:
        for node, update in updates.items():
            if node == "__interrupt__":
                self._interrupts |= {interrupt.id: interrupt for interrupt in update}
                continue
            for change in as_list(update):
                messages = cast("Mapping[str, Any]", change).get("messages") if isinstance(change, Mapping) else change
                for message in self._echo.new_messages(_update_messages(messages)):
                    self._echo.remember(message)
                    yield from self.stream.feed(message)


def _update_messages(value: Any) -> list[Any]:
    """Return the messages of an update; LangChain's shorthand is expanded."""
    from langchain_core.messages import BaseMessage, convert_to_messages

    if isinstance(value, tuple) and not _is_shorthand(value):
        return _update_messages(list(cast("Sequence[Any]", value)))
    messages = [item for item in as_list(value) if isinstance(item, BaseMessage) or _is_shorthand(item)]
    return cast("list[Any]", convert_to_messages(messages))


def _is_shorthand(value: Any) -> bool:
    """Whether the value is LangGraph's shorthand for a message: `("ai", "Hi.")`, or a dict with a role."""
    if isinstance(value, dict):
        return "content" in value and ("role" in value or "type" in value)
    match value:
        case (str(), str()):
            return True
        case _:
            return False


def _output_keys(graph: Any) -> Sequence[str] | None:
    keys: str | Sequence[str] = graph.output_channels
    return None if isinstance(keys, str) or "messages" in keys else keys


class _Argument(NamedTuple):
    annotation: Any
    required: bool = False


_MESSAGES_ARGUMENT = {"messages": _Argument(list[Message], required=True)}
_CONTEXT_ARGUMENT = {"ctx": _Argument(Context, required=True)}


def chat_function(runnable: "Runnable[Any, Any]", name: str) -> Callable[..., Any]:
    if is_graph(runnable):
        return _graph_chat_function(runnable, name)
    variables = _prompt_variables(runnable)
    if variables is not None and "messages" not in variables:
        raise ChatWithoutMessages(
            f"{name} is declared as a chat, but its prompt has no placeholder for the history. Add one named "
            "'messages', or declare it with workflow(…)."
        )

    async def answer(messages: list[Message], ctx: Context, **inputs: Any) -> AsyncGenerator[object, None]:
        history = written(messages)
        text_format = required_schema(ctx.options)
        asked = runnable if text_format is None else _ask_for_schema(runnable, text_format)
        async with aclosing(
            _astream(asked, history if variables is None else {**inputs, "messages": history})
        ) as outputs:
            async for chunk in outputs:
                yield chunk

    return _set_signature(answer, {**(variables or {}), **_MESSAGES_ARGUMENT, **_CONTEXT_ARGUMENT})


def _ask_for_schema(runnable: Any, text_format: TextFormat) -> Any:
    """Return a chat model, or a chain that ends with one, with a JSON Schema for its text, if it supports one."""
    from langchain_core import runnables
    from langchain_core.language_models import BaseChatModel

    sequence, binding = cast("Any", runnables.RunnableSequence), cast("Any", runnables.RunnableBinding)
    steps: list[Any] = runnable.steps if isinstance(runnable, sequence) else [runnable]
    model = steps[-1]
    if not isinstance(model, BaseChatModel):
        return runnable
    schema = {"title": text_format.get("name", "output"), **text_format.get("schema", {})}
    strict = {"strict": True} if text_format.get("strict") else {}
    try:
        structured: Any = model.with_structured_output(schema, method="json_schema", include_raw=True, **strict)
        raw = structured.first.steps__["raw"]  # The model itself, whose text is not parsed yet.
    except (NotImplementedError, ValueError, TypeError, AttributeError, KeyError):
        return runnable
    if not isinstance(raw, binding) or "tools" in raw.kwargs:
        return runnable  # It would answer with a tool call.
    return sequence(*steps[:-1], raw) if len(steps) > 1 else raw


def _graph_chat_function(graph: Any, name: str) -> Callable[..., Any]:
    keys = _state_keys(graph)
    takes_list = keys is None and _input_is_list(graph)
    if keys is not None and "messages" not in keys:
        raise ChatWithoutMessages(
            f"{name} is declared as a chat, but its state has no 'messages'."
            " Add this key, or declare it with workflow(…)."
        )
    # A state key with the same name takes precedence.
    resume_argument = {RESUME_INPUT: _Argument(Any)} if graph.checkpointer and RESUME_INPUT not in (keys or {}) else {}

    async def answer(messages: list[Message], ctx: Context, **inputs: Any) -> AsyncGenerator[object, None]:
        value = inputs.pop(RESUME_INPUT, UNSET) if resume_argument else UNSET
        async with aclosing(run_graph(graph, messages, inputs, ctx, resume=value, takes_list=takes_list)) as outputs:
            async for event in outputs:
                yield event

    return _set_signature(answer, {**resume_argument, **(keys or {}), **_MESSAGES_ARGUMENT, **_CONTEXT_ARGUMENT})


def workflow_function(runnable: "Runnable[Any, Any]") -> Callable[..., Any]:
    """Return a function that passes its inputs to the runnable: by name if it has names, else `input`."""
    input_names = _state_keys(runnable) if is_graph(runnable) else _prompt_variables(runnable)

    def value_of(inputs: dict[str, Any]) -> Any:
        return inputs["input"] if input_names is None else inputs

    async def stream(**inputs: Any) -> AsyncGenerator[object, None]:
        async with aclosing(_astream(runnable, value_of(inputs))) as outputs:
            async for chunk in outputs:
                yield chunk

    async def call(ctx: Context, **inputs: Any) -> Any:
        config: Any = {"configurable": {"thread_id": ctx.session}}
        return to_json_value(await runnable.ainvoke(value_of(inputs), config))

    arguments = {"input": _Argument(Any, required=True)} if input_names is None else input_names
    return (
        _set_signature(stream, arguments)
        if _streams_text(runnable)
        else _set_signature(call, {**arguments, **_CONTEXT_ARGUMENT})
    )


def is_graph(runnable: object) -> bool:
    """Whether the object is a LangGraph graph. Does not import LangGraph."""
    return any(
        base.__name__ == "Pregel" and base.__module__.startswith("langgraph.") for base in type(runnable).__mro__
    )


# Inputs and outputs


def _astream(runnable: "Runnable[Any, Any]", value: Any) -> AsyncGenerator[object, None]:
    return cast("AsyncGenerator[object, None]", runnable.astream(value))


def _state_keys(graph: Any) -> dict[str, _Argument] | None:
    """Return the input keys of a graph's state; None if it takes one unnamed value."""
    schema = getattr(getattr(graph, "builder", None), "input_schema", None)
    if not is_config_model(schema):
        return None
    # Managed values are not inputs; reducers are stripped from the annotations.
    fields = [field for field in ConfigModel(schema).fields if field.attribute not in graph.builder.managed]
    return {field.attribute: _Argument(strip_annotation(field.annotation)) for field in fields}


def _input_is_list(graph: Any) -> bool:
    start = strip_annotation(getattr(graph.channels.get("__start__"), "typ", Any))
    kind = get_origin(start) or start
    return isinstance(kind, type) and issubclass(kind, Sequence)


def _prompt_variables(runnable: Any) -> dict[str, _Argument] | None:
    """Return the variables of the prompt at the start of a chain; None if there is none."""
    from langchain_core.prompts import BasePromptTemplate

    first = _end_of_chain(runnable, "first")
    if not isinstance(first, BasePromptTemplate):
        return None
    prompt = cast("BasePromptTemplate[Any]", first)
    return {name: _Argument(Any) for name in prompt.optional_variables} | {
        name: _Argument(Any if name in prompt.input_types else str, required=True) for name in prompt.input_variables
    }


def _streams_text(runnable: Any) -> bool:
    from langchain_core.language_models import BaseLanguageModel
    from langchain_core.output_parsers import StrOutputParser

    return isinstance(_end_of_chain(runnable, "last"), BaseLanguageModel | StrOutputParser)


def _end_of_chain(runnable: Any, end: str) -> Any:
    """Return the first or last step of a chain, without wrappers."""
    while (inner := getattr(runnable, end, None) or getattr(runnable, "bound", None)) is not None:
        runnable = inner
    return runnable


def _set_signature(function: Callable[..., Any], arguments: Mapping[str, _Argument]) -> Callable[..., Any]:
    target: Any = function
    target.__annotations__ = {name: argument.annotation for name, argument in arguments.items()}
    target.__signature__ = Signature(
        [
            Parameter(name, Parameter.KEYWORD_ONLY, default=Parameter.empty if argument.required else None)
            for name, argument in arguments.items()
        ]
    )
    return function
