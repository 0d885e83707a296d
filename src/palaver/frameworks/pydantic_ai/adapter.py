"""The adapter of Pydantic AI.

`adopt` wraps an agent, which gets the Context if `deps_type=Context`; `written` converts a history. The agent's system
prompt comes first; a client's is added to the instructions. Client tools are not forwarded. A tool that needs approval
ends the run with an `approval-request`, if the agent's output type includes `DeferredToolRequests`; it cannot be
resumed, because the pending call is not stored. A JSON Schema that the caller requires is the output type of the run,
unless the agent has one.
"""

from collections.abc import AsyncGenerator, Container, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from palaver.core.json_schema import inline_references
from palaver.core.messages import File, Message, Part, Refusal, Text, ToolCall
from palaver.core.model_options import required_schema
from palaver.errors import Failure, NotAWorkflow
from palaver.frameworks.base import AdoptedWorkflow
from palaver.frameworks.pydantic_ai.reader import Reader
from palaver.workflows.adapters import choose_name
from palaver.workflows.context import Context
from palaver.workflows.workflow import Options

if TYPE_CHECKING:
    from pydantic_ai.agent import AbstractAgent
    from pydantic_ai.messages import BinaryContent, ModelMessage, ModelRequestPart, ModelResponsePart, UserContent

    MESSAGES: type | None

PACKAGES = ("pydantic_ai",)
"""Packages whose objects are recognized."""

__all__ = ["MESSAGES", "PACKAGES", "Reader", "adopt", "written"]


def __getattr__(name: str) -> object:
    """Load `MESSAGES` lazily. `list[ModelMessage]` is recognized by this member of the union."""
    if name != "MESSAGES":
        raise AttributeError(name)
    from pydantic_ai.messages import ModelResponse

    return ModelResponse


def adopt(
    thing: object, *, name: str | None, description: str | None, flags: Mapping[str, bool], options: Options
) -> AdoptedWorkflow | None:
    """Return the workflow of an agent; None for any other object."""
    from pydantic_ai.agent import AbstractAgent

    if not isinstance(thing, AbstractAgent):
        return None
    agent = cast("AbstractAgent[Any, Any]", thing)
    name = choose_name(name, agent.name, "assistant")
    if not flags["is_chat"]:
        raise NotAWorkflow(f"{name} is an agent and therefore a chat. Declare it with chat(…).")
    if agent.deps_type not in (object, type(None), Context):
        raise NotAWorkflow(
            f"{name} requires deps of type {agent.deps_type.__name__}, which Palaver cannot create. Use "
            "deps_type=Context, or declare a function that yields the events of agent.run_stream_events(…)."
        )
    return AdoptedWorkflow(
        agent,
        partial(_run_agent, agent),
        place=f"Pydantic AI: {agent.name or name}",
        name=name,
        description=description or agent.description or "",
        flags=flags,
        options=options,
    )


async def _run_agent(
    agent: "AbstractAgent[Any, Any]", messages: list[Message], ctx: Context
) -> AsyncGenerator[object, None]:
    from pydantic_ai.capabilities import ReinjectSystemPrompt
    from pydantic_ai.exceptions import ContentFilterError, UsageLimitExceeded
    from pydantic_ai.messages import ToolCallEvent

    from palaver.frameworks.pydantic_ai.steps import step_capabilities

    history = [message for message in messages if message.role not in ("system", "developer")]
    instructions = [message.text for message in messages if message.role in ("system", "developer")]
    reader = Reader()
    try:
        async with agent.run_stream_events(
            message_history=written(history),
            instructions=instructions or None,
            output_type=_output_type(agent, ctx.options),
            deps=ctx if agent.deps_type is Context else None,
            # With a history, an agent assumes that it contains the system prompt.
            capabilities=[ReinjectSystemPrompt(id=None), *step_capabilities()],
            infer_name=False,
        ) as events:
            async for event in events:
                for output in reader.feed(event) or ():
                    yield output
                if isinstance(event, ToolCallEvent):
                    for output in reader.report_usage(events.usage):
                        yield output
    except ContentFilterError:
        reader.finish = "content-filter"
    except UsageLimitExceeded as error:
        raise Failure("usage_limit_exceeded", "The agent exceeded its usage limits.") from error
    for output in reader.end():
        yield output


def _output_type(agent: "AbstractAgent[Any, Any]", options: Mapping[str, Any]) -> Any:
    """Return the type with the schema that the caller requires; None if there is none or the agent can't use it."""
    from pydantic_ai import StructuredDict
    from pydantic_ai.exceptions import UserError

    text_format = required_schema(options)
    if text_format is None or agent.output_type is not str:
        return None
    while (wrapped := getattr(agent, "wrapped", None)) is not None:
        agent = wrapped
    if getattr(agent, "_output_validators", None):
        return None  # They expect a string.
    schema = inline_references(text_format.get("schema", {}))  # The framework would, without a limit.
    try:
        return None if schema is None else StructuredDict(schema, text_format.get("name"))
    except UserError:  # The framework supports only objects.
        return None


def written(messages: Sequence[Message]) -> "list[ModelMessage]":
    """Convert messages to requests and responses.

    Reasoning, data and files by `file_id` are left out, and calls without a result: the agent would run them, though
    the history is untrusted.
    """
    from pydantic_ai.messages import ModelRequest, ModelResponse

    names = {call.call_id: call.name for message in messages for call in message.tool_calls}
    answered_ids = {result.call_id for message in messages for result in message.tool_results}
    history: list[ModelMessage] = []
    for message in messages:
        if message.role == "assistant":
            if parts := list(_response_parts(message, answered_ids)):
                history.append(ModelResponse(parts=parts))
        elif request_parts := list(_request_parts(message, names)):
            if history and isinstance(last := history[-1], ModelRequest):
                history[-1] = ModelRequest(parts=[*last.parts, *request_parts])
            else:
                history.append(ModelRequest(parts=request_parts))
    return history


def _response_parts(message: Message, answered_ids: Container[str]) -> "Iterator[ModelResponsePart]":
    from pydantic_ai.messages import TextPart, ToolCallPart

    for part in message.parts:
        match part:
            case Text(text=text) | Refusal(text=text) if text:
                yield TextPart(content=text)
            case ToolCall() if part.call_id in answered_ids:
                yield ToolCallPart(tool_name=part.name, args=part.arguments or "{}", tool_call_id=part.call_id)
            case _:
                pass  # Not readable for a model.


def _request_parts(message: Message, names: Mapping[str, str]) -> "Iterator[ModelRequestPart]":
    from pydantic_ai.messages import SystemPromptPart, ToolReturnPart, UserPromptPart

    if message.role in ("system", "developer"):
        if message.text:
            yield SystemPromptPart(content=message.text)
        return
    for result in message.tool_results:
        yield ToolReturnPart(
            tool_name=names.get(result.call_id, "unknown"),
            content=result.output,
            tool_call_id=result.call_id,
            outcome="failed" if result.is_error else "success",
        )
    content = [piece for part in message.parts for piece in _user_content(part)]
    if any(not isinstance(piece, str) for piece in content):
        yield UserPromptPart(content=content)
    elif content:
        yield UserPromptPart(content="".join(cast("list[str]", content)))


def _user_content(part: Part) -> "Iterator[UserContent]":
    match part:
        case Text(text=text) if text:
            yield text
        case File(data=str(data), media_type=kind):
            yield _binary_content(f"data:{kind};base64,{data}")
        case File(url=str(url), media_type=kind):
            yield _binary_content(url) if url.startswith("data:") else _file_url(url, kind)
        case _:
            pass  # Not readable for a model.


def _binary_content(uri: str) -> "BinaryContent":
    from pydantic_ai.messages import BinaryContent

    try:
        return BinaryContent.from_data_uri(uri)
    except ValueError:
        raise Failure("invalid_file", "A file in the conversation is not valid base64.", status=400) from None


def _file_url(url: str, kind: str) -> "UserContent":
    """Return a URL part. The provider fetches the file, or Pydantic AI does, which refuses private addresses."""
    from pydantic_ai.messages import AudioUrl, DocumentUrl, ImageUrl, VideoUrl

    url_types = {"image": ImageUrl, "audio": AudioUrl, "video": VideoUrl}
    return url_types.get(kind.partition("/")[0], DocumentUrl)(url=url, media_type=kind)
