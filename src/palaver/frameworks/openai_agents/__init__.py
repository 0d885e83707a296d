"""OpenAI Agents SDK: an `Agent`, served as it is.

    chat(agent)                  runs it streamed; its tools find our Context in `wrapper.context`
    written(messages)            a history as the input items that `Runner.run` takes, for functions of the author's own
    Reader                       what such a function yields: stream events, run items, a whole result

The SDK's tracing is for us alone, and off where we do not trace: else it would send what was said to OpenAI. Client
tools are not forwarded. A tool that needs approval ends the run with an `approval-request`; going on from there needs
the SDK's own run state, which nobody keeps yet.
"""

import asyncio
from collections.abc import AsyncGenerator, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from palaver.core import json
from palaver.core.messages import File, Message, Refusal, Text, ToolCall, ToolResult
from palaver.errors import Failure, NotAWorkflow
from palaver.frameworks.base import AdoptedWorkflow
from palaver.frameworks.openai_agents.reader import Reader
from palaver.workflows.adapters import choose_name
from palaver.workflows.context import Context
from palaver.workflows.options import Options

if TYPE_CHECKING:
    from agents import Agent, RunResultStreaming

PACKAGES = ("agents",)
"""Whose objects are recognised here."""
MESSAGES = None
"""The SDK has no class of messages: its input items are plain dictionaries."""

__all__ = ["MESSAGES", "PACKAGES", "Reader", "adopt", "written"]


def adopt(
    thing: object,
    *,
    name: str | None,
    description: str | None,
    flags: Mapping[str, bool],
    options: Options,
) -> AdoptedWorkflow | None:
    """The workflow that an agent makes; None for any other object of the SDK."""
    from agents import Agent

    if not isinstance(thing, Agent):
        return None
    agent = cast("Agent[Any]", thing)
    name = choose_name(name, agent.name)
    if not flags["is_chat"]:
        raise NotAWorkflow(f"{name} is an agent, which is a chat: declare it with chat(…).")
    return AdoptedWorkflow(
        agent,
        partial(_answer, agent),
        place=f"OpenAI Agents: {agent.name}",
        resumes=False,
        name=name,
        description=description or agent.handoff_description or "",
        flags=flags,
        options=options,
    )


def written(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Our messages as input items of the Responses API, which every model of the SDK understands.

    Reasoning and data are left out, and so are all ids: an item that names one of a stored response is refused without
    its reasoning. A file by `file_id` is left out too: it would name a file in the account of the author; and a call
    that has no result, for no model takes one.
    """
    answered = {result.call_id for message in messages for result in message.tool_results}
    return [item for message in messages for item in _items(message, answered)]


async def _answer(agent: "Agent[Any]", messages: list[Message], ctx: Context) -> AsyncGenerator[object, None]:
    """One run of the agent."""
    from agents import RunConfig, Runner

    from palaver.frameworks.openai_agents.steps import step_hooks

    with step_hooks() as hooks:
        config = RunConfig(tracing_disabled=hooks is None, trace_include_sensitive_data=True)
        given = cast("Any", written(messages))
        result = Runner.run_streamed(agent, given, context=ctx, run_config=config, hooks=hooks)
    events = cast("AsyncGenerator[object, None]", result.stream_events())
    reader = Reader()
    try:
        async for event in events:
            for given in reader.feed(event) or ():
                yield given
    except Exception as error:
        if hooks is not None:
            hooks.broke(error)
        # Length and content filter are ends that we have words for; the SDK takes them for a broken model.
        if reader.finish == "stop" and not reader.refused:
            raise _public_error(error, result) from error
    finally:
        result.cancel()  # First: closing the stream alone would wait for the agent to come to its end.
        await events.aclose()
        if result.run_loop_task is not None:
            await asyncio.wait([result.run_loop_task])
    for given in (*(reader.feed(result) or ()), *reader.end()):
        yield given


def _public_error(error: Exception, result: "RunResultStreaming") -> Exception:
    """What the SDK raised, in public words where it is an answer of a kind; anything else as it is."""
    import agents

    match error:
        case agents.InputGuardrailTripwireTriggered() | agents.ToolInputGuardrailTripwireTriggered():
            return Failure("input_refused", "A guardrail of this agent refused what was asked.", status=400)
        case agents.OutputGuardrailTripwireTriggered() | agents.ToolOutputGuardrailTripwireTriggered():
            return Failure("output_refused", "A guardrail of this agent refused its answer.")
        case agents.MaxTurnsExceeded():
            return Failure("too_many_turns", f"The agent did not come to an end within {result.max_turns} turns.")
        case _:
            return error


# Our messages as theirs


def _items(message: Message, answered: Container[str]) -> Iterable[dict[str, Any]]:
    said: list[dict[str, Any]] = []
    for part in message.parts:
        match part:
            case Text(text=text) | Refusal(text=text):
                said.append({"type": "input_text", "text": text})
            case File() if message.role == "user":
                said += _file(part)
            case ToolCall() if part.call_id in answered:
                yield from _message(message, said)
                said = []
                yield {
                    "type": "function_call",
                    "call_id": part.call_id,
                    "name": part.name,
                    "arguments": part.arguments or "{}",
                }
            case ToolResult(call_id=call_id, output=output):
                text = output if isinstance(output, str) else json.encode(output).decode()
                yield {"type": "function_call_output", "call_id": call_id, "output": text}
            case _:
                pass  # Nothing that a model could read.
    yield from _message(message, said)


def _message(message: Message, said: Sequence[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    texts = [part["text"] for part in said if part["type"] == "input_text"]
    if len(texts) < len(said):
        yield {"role": message.role, "content": list(said)}
    elif text := "".join(texts):
        yield {"role": message.role, "content": text}


def _file(file: File) -> Iterable[dict[str, Any]]:
    where = file.url or (f"data:{file.media_type};base64,{file.data}" if file.data else None)
    kind, _, form = file.media_type.partition("/")
    if where is None:
        return
    if kind == "image":
        yield {"type": "input_image", "image_url": where, "detail": file.detail or "auto"}
    elif kind == "audio" and file.data:
        yield {"type": "input_audio", "input_audio": {"data": file.data, "format": _AUDIO.get(form, form)}}
    elif file.url and not file.url.startswith("data:"):
        yield {"type": "input_file", "file_url": file.url}
    else:
        yield {"type": "input_file", "file_data": where, "filename": file.filename or "file"}


_AUDIO = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav"}
