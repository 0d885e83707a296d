"""smolagents and CrewAI, as OpenInference instruments them: their own forms of messages, calls and answers.

smolagents   calls and results are texts of the roles `tool-call` and `tool-response`, and an answer is a call of the
             tool `final_answer`
CrewAI       a task's messages are in its output, and the task itself is in the attribute `crew_tasks`
"""

import ast
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from palaver.core.json import Object, argument_text, as_list, dict_or_empty, is_object, optional_str
from palaver.core.messages import Message, Part, Text, ToolCall, ToolResult
from palaver.traces.conventions.attributes import Attributes, SpanFields, parse_container
from palaver.traces.conventions.messages import parse_messages

_SMOLAGENTS, _CREWAI = "openinference.instrumentation.smolagents", "openinference.instrumentation.crewai"
_CALL_PREFIX = re.compile(r"^Calling tools:\s*")
_PREFIXES = {"user": "New task:\n", "tool-response": "Observation:\n"}
_FINAL_ANSWER = "final_answer"
_MAX_CALLS_CHARS, _MAX_BRACKETS = 64 * 1024, 1_000


def complete_fields(scope: str | None, attributes: Attributes, fields: SpanFields) -> SpanFields:
    """Return the fields of a span with the messages of these frameworks; others unchanged."""
    if scope == _SMOLAGENTS:
        return _smolagents_fields(fields)
    return _crew_fields(attributes, fields) if scope == _CREWAI else fields


# smolagents


def _smolagents_fields(fields: SpanFields) -> SpanFields:
    messages_in = _smolagents_messages(fields.messages_in or ())
    task = dict_or_empty(fields.inputs).get("task")
    if not messages_in and isinstance(task, str):
        messages_in = (Message.user(task),)
    is_answer = bool(fields.tool) and fields.tool.name == _FINAL_ANSWER
    return msgspec.structs.replace(
        fields,
        kind="task" if is_answer else fields.kind,  # Its call is read as the answer.
        messages_in=messages_in,
        messages_out=_smolagents_messages(fields.messages_out or ()),
    )


def _smolagents_messages(messages: Iterable[Message]) -> tuple[Message, ...]:
    result: list[Message] = []
    is_answered = False
    for message in messages:
        role = message.name or message.role  # The dialect keeps an unknown role as a name.
        text = message.text.removeprefix(_PREFIXES.get(role, ""))
        if role == "tool-response":
            if not is_answered:  # The result of the final answer repeats it.
                result.append(Message("tool", (ToolResult("", text),)))
            is_answered = False
            continue
        parts = _read_calls(text) if role == "tool-call" else message.parts
        is_answered = any(isinstance(part, ToolCall) and part.name == _FINAL_ANSWER for part in parts)
        if role == "user" and text != message.text:
            parts = (Text(text), *(part for part in message.parts if not isinstance(part, Text)))
        name = None if role == "tool-call" else message.name
        result.append(msgspec.structs.replace(message, parts=tuple(map(_convert_answer, parts)), name=name))
    return tuple(result)


def _convert_answer(part: Part) -> Part:
    """Return a call of `final_answer` as its text, and any other part unchanged."""
    if not isinstance(part, ToolCall) or part.name != _FINAL_ANSWER:
        return part
    answer = dict_or_empty(part.parsed).get("answer")
    return Text(answer if isinstance(answer, str) else part.arguments)


def _read_calls(text: str) -> tuple[Part, ...]:
    """Read calls, which are written as Python writes a list; a text that is not one stays a text."""
    literal = _CALL_PREFIX.sub("", text)
    calls: Any = None
    if len(literal) <= _MAX_CALLS_CHARS and sum(map(literal.count, "([{-+~")) <= _MAX_BRACKETS:
        try:
            calls = ast.literal_eval(literal.strip())  # Reads literals only.
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            calls = None
    parts = [part for call in as_list(calls) if (part := _read_call(dict_or_empty(call))) is not None]
    return tuple(parts) or (Text(text),)


def _read_call(call: Object) -> ToolCall | None:
    function = dict_or_empty(call.get("function"))
    name = optional_str(function.get("name"))
    arguments = argument_text(function.get("arguments"))
    return None if name is None else ToolCall(optional_str(call.get("id")) or "", name, arguments)


# CrewAI


def _crew_fields(attributes: Attributes, fields: SpanFields) -> SpanFields:
    """Read the tasks of a crew or an agent: the messages of each, or else its description and its answer."""
    output = fields.outputs
    tasks = [output] if is_object(output) and "tasks_output" not in output else []
    tasks = [dict_or_empty(task) for task in as_list(dict_or_empty(output).get("tasks_output"))] or tasks
    descriptions = _descriptions(attributes)
    messages = [message for task in tasks for message in _task_messages(task)]
    if not messages:
        return msgspec.structs.replace(fields, messages_in=fields.messages_in or descriptions or UNSET)
    last = max((index for index, message in enumerate(messages) if message.role == "user"), default=-1)
    return msgspec.structs.replace(
        fields, messages_in=tuple(messages[: last + 1]), messages_out=tuple(messages[last + 1 :])
    )


def _descriptions(attributes: Attributes) -> tuple[Message, ...]:
    tasks = [dict_or_empty(task) for task in as_list(parse_container(attributes.get("crew_tasks")))]
    return tuple([Message.user(text) for task in tasks if (text := optional_str(task.get("description")))])


def _task_messages(task: Mapping[str, Any]) -> Iterable[Message]:
    description, answer = optional_str(task.get("description")), optional_str(task.get("raw"))
    if answer is None:
        return ()
    messages = parse_messages(as_list(task.get("messages")), "input")
    if messages:
        return [_shorten_question(message, description) for message in messages]
    return (Message.user(description), Message.assistant(answer)) if description else (Message.assistant(answer),)


def _shorten_question(message: Message, description: str | None) -> Message:
    """Return the description of the task without the prompt that CrewAI puts around it."""
    is_prompt = description is not None and message.role == "user" and description in message.text
    return Message.user(description or "") if is_prompt else message
