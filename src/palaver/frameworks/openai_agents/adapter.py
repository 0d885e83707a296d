"""The adapter of the OpenAI Agents SDK.

`adopt` wraps an agent, whose tools find the Context in `wrapper.context`; `written` converts a history to input items.
The SDK's tracing reports only to Palaver, and is off for untraced runs: it would send messages to OpenAI. Client tools
are not forwarded. A tool that needs approval ends the run with an `approval-request`; it cannot be resumed, because the
SDK's run state is not stored. A JSON Schema that the caller requires is the output type of the starting agent, unless
it has one.
"""

import asyncio
from collections.abc import AsyncGenerator, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from palaver.core import json
from palaver.core.messages import File, Message, Refusal, Text, ToolCall, ToolResult
from palaver.core.model_options import TextFormat, required_schema
from palaver.errors import Failure, NotAWorkflow
from palaver.frameworks.base import AdoptedWorkflow
from palaver.frameworks.openai_agents.reader import Reader
from palaver.workflows.adapters import choose_name
from palaver.workflows.context import Context
from palaver.workflows.workflow import Options

if TYPE_CHECKING:
    from agents import Agent, AgentOutputSchemaBase, RunResultStreaming

PACKAGES = ("agents",)
"""Packages whose objects are recognized."""
MESSAGES = None
"""The SDK has no message class: its input items are dictionaries."""

__all__ = ["MESSAGES", "PACKAGES", "Reader", "adopt", "written"]


def adopt(
    thing: object,
    *,
    name: str | None,
    description: str | None,
    flags: Mapping[str, bool],
    options: Options,
) -> AdoptedWorkflow | None:
    """Return the workflow of an agent; None for any other object."""
    from agents import Agent

    if not isinstance(thing, Agent):
        return None
    agent = cast("Agent[Any]", thing)
    name = choose_name(name, agent.name)
    if not flags["is_chat"]:
        raise NotAWorkflow(f"{name} is an agent and therefore a chat. Declare it with chat(…).")
    return AdoptedWorkflow(
        agent,
        partial(_run_agent, agent),
        place=f"OpenAI Agents: {agent.name}",
        name=name,
        description=description or agent.handoff_description or "",
        flags=flags,
        options=options,
    )


def written(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Convert messages to input items of the Responses API, which every model of the SDK accepts.

    Left out are reasoning, data, calls without a result, files by `file_id` (they would be in the operator's account),
    and ids: an item with the id of a stored response is rejected without its reasoning.
    """
    answered_ids = {result.call_id for message in messages for result in message.tool_results}
    return [item for message in messages for item in _input_items(message, answered_ids)]


async def _run_agent(agent: "Agent[Any]", messages: list[Message], ctx: Context) -> AsyncGenerator[object, None]:
    from agents import RunConfig, Runner

    from palaver.frameworks.openai_agents.steps import step_hooks

    text_format = required_schema(ctx.options)
    if text_format is not None and agent.output_type is None:
        agent = agent.clone(output_type=_output_schema(text_format))
    with step_hooks() as hooks:
        config = RunConfig(tracing_disabled=hooks is None, trace_include_sensitive_data=True)
        input_items = cast("Any", written(messages))
        result = Runner.run_streamed(agent, input_items, context=ctx, run_config=config, hooks=hooks)
    events = cast("AsyncGenerator[object, None]", result.stream_events())
    reader = Reader()
    try:
        async for sdk_event in events:
            for event in reader.feed(sdk_event) or ():
                yield event
    except Exception as error:
        if hooks is not None:
            hooks.fail_models(error)
        # The SDK raises for these, which have finish reasons.
        if reader.finish == "stop" and not reader.refused:
            raise _public_error(error, result) from error
    finally:
        result.cancel()  # First: closing the stream would wait for the agent to finish.
        await events.aclose()
        if result.run_loop_task is not None:
            await asyncio.wait([result.run_loop_task])
    for event in (*(reader.feed(result) or ()), *reader.end()):
        yield event


def _output_schema(text_format: TextFormat) -> "AgentOutputSchemaBase":
    from agents import AgentOutputSchemaBase

    class RequiredOutput(AgentOutputSchemaBase):
        def is_plain_text(self) -> bool:
            return False

        def name(self) -> str:
            return text_format.get("name") or "output"

        def json_schema(self) -> dict[str, Any]:
            return dict(text_format.get("schema", {}))

        def is_strict_json_schema(self) -> bool:
            return text_format.get("strict") is True

        def validate_json(self, json_str: str) -> Any:
            return json_str  # Checked when the run ends.

    return RequiredOutput()


def _public_error(error: Exception, result: "RunResultStreaming") -> Exception:
    """Convert errors of guardrails and limits to public ones; others are returned unchanged."""
    import agents

    match error:
        case agents.InputGuardrailTripwireTriggered() | agents.ToolInputGuardrailTripwireTriggered():
            return Failure("input_refused", "A guardrail of this agent rejected the input.", status=400)
        case agents.OutputGuardrailTripwireTriggered() | agents.ToolOutputGuardrailTripwireTriggered():
            return Failure("output_refused", "A guardrail of this agent rejected its output.")
        case agents.MaxTurnsExceeded():
            return Failure("too_many_turns", f"The agent did not finish within {result.max_turns} turns.")
        case _:
            return error


def _input_items(message: Message, answered_ids: Container[str]) -> Iterable[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    for part in message.parts:
        match part:
            case Text(text=text) | Refusal(text=text):
                content.append({"type": "input_text", "text": text})
            case File() if message.role == "user":
                content += _input_file(part)
            case ToolCall() if part.call_id in answered_ids:
                yield from _input_message(message, content)
                content = []
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
                pass  # Not readable for a model.
    yield from _input_message(message, content)


def _input_message(message: Message, content: Sequence[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    texts = [part["text"] for part in content if part["type"] == "input_text"]
    if len(texts) < len(content):
        yield {"role": message.role, "content": list(content)}
    elif text := "".join(texts):
        yield {"role": message.role, "content": text}


def _input_file(file: File) -> Iterable[dict[str, Any]]:
    url = file.url or (f"data:{file.media_type};base64,{file.data}" if file.data else None)
    kind, _, subtype = file.media_type.partition("/")
    if url is None:
        return
    if kind == "image":
        yield {"type": "input_image", "image_url": url, "detail": file.detail or "auto"}
    elif kind == "audio" and file.data:
        yield {
            "type": "input_audio",
            "input_audio": {"data": file.data, "format": _AUDIO_FORMATS.get(subtype, subtype)},
        }
    elif file.url and not file.url.startswith("data:"):
        yield {"type": "input_file", "file_url": file.url}
    else:
        yield {"type": "input_file", "file_data": url, "filename": file.filename or "file"}


_AUDIO_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav"}
