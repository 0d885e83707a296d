"""Pydantic AI: an `Agent`, served as it is.

    chat(agent)                  runs it streamed; an agent with `deps_type=Context` is given our Context
    written(messages)            a history as Pydantic AI's messages, for functions of the author's own
    Reader                       what such a function yields: stream events, messages, a whole result

The agent's own system prompt always stands first; what a client sends as one is added to the instructions. Client
tools are not forwarded. A tool that needs approval ends the run with an `approval-request`, where the agent's output
type takes `DeferredToolRequests`; going on from there needs a pending call that we kept, and nobody keeps any yet.
"""

from collections.abc import AsyncGenerator, Container, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from palaver.core.messages import File, Message, Part, Refusal, Text, ToolCall
from palaver.errors import Failure, NotAWorkflow
from palaver.frameworks.base import AdoptedWorkflow
from palaver.frameworks.pydantic_ai.reader import Reader
from palaver.workflows.adapters import choose_name
from palaver.workflows.context import Context
from palaver.workflows.options import Options

if TYPE_CHECKING:
    from pydantic_ai.agent import AbstractAgent
    from pydantic_ai.messages import BinaryContent, ModelMessage, ModelRequestPart, ModelResponsePart, UserContent

    MESSAGES: type | None

PACKAGES = ("pydantic_ai",)
"""Whose objects are recognised here."""

__all__ = ["MESSAGES", "PACKAGES", "Reader", "adopt", "written"]


def __getattr__(name: str) -> object:
    """`MESSAGES`, looked up late, for it loads the framework: `list[ModelMessage]` is known by this half of it."""
    if name != "MESSAGES":
        raise AttributeError(name)
    from pydantic_ai.messages import ModelResponse

    return ModelResponse


def adopt(
    thing: object, *, name: str | None, description: str | None, flags: Mapping[str, bool], options: Options
) -> AdoptedWorkflow | None:
    """The workflow that an agent makes; None for any other object of the framework."""
    from pydantic_ai.agent import AbstractAgent

    if not isinstance(thing, AbstractAgent):
        return None
    agent = cast("AbstractAgent[Any, Any]", thing)
    name = choose_name(name, agent.name, "assistant")
    if not flags["is_chat"]:
        raise NotAWorkflow(f"{name} is an agent, which is a chat: declare it with chat(…).")
    if agent.deps_type not in (object, type(None), Context):
        raise NotAWorkflow(
            f"{name} wants deps of type {agent.deps_type.__name__}, which we cannot make: give it deps_type=Context, "
            "or declare a function that yields what agent.run_stream_events(…) gives."
        )
    return AdoptedWorkflow(
        agent,
        partial(_answer, agent),
        place=f"Pydantic AI: {agent.name or name}",
        resumes=False,
        name=name,
        description=description or agent.description or "",
        flags=flags,
        options=options,
    )


async def _answer(
    agent: "AbstractAgent[Any, Any]", messages: list[Message], ctx: Context
) -> AsyncGenerator[object, None]:
    """One run of the agent."""
    from pydantic_ai.capabilities import ReinjectSystemPrompt
    from pydantic_ai.exceptions import ContentFilterError, UsageLimitExceeded
    from pydantic_ai.messages import ToolCallEvent

    from palaver.frameworks.pydantic_ai.steps import step_capabilities

    history = [message for message in messages if message.role not in ("system", "developer")]
    told = [message.text for message in messages if message.role in ("system", "developer")]
    reader = Reader()
    try:
        async with agent.run_stream_events(
            message_history=written(history),
            instructions=told or None,
            deps=ctx if agent.deps_type is Context else None,
            # With a history, an agent leaves out its system prompt: it trusts that it is in there.
            capabilities=[ReinjectSystemPrompt(id=None), *step_capabilities()],
            infer_name=False,
        ) as events:
            async for event in events:
                for given in reader.feed(event) or ():
                    yield given
                if isinstance(event, ToolCallEvent):
                    for given in reader.spend(events.usage):
                        yield given
    except ContentFilterError:
        reader.finish = "content-filter"
    except UsageLimitExceeded as error:
        raise Failure("usage_limit_exceeded", "The agent went over the limits of its usage.") from error
    for given in reader.end():
        yield given


# Our messages as theirs


def written(messages: Sequence[Message]) -> "list[ModelMessage]":
    """Our messages as requests and responses.

    Reasoning and data are left out, and files by `file_id`. So are calls without a result: an agent would run them,
    and whoever wrote the history might be a stranger.
    """
    from pydantic_ai.messages import ModelRequest, ModelResponse

    names = {call.call_id: call.name for message in messages for call in message.tool_calls}
    answered = {result.call_id for message in messages for result in message.tool_results}
    history: list[ModelMessage] = []
    for message in messages:
        if message.role == "assistant":
            if said := list(_response_parts(message, answered)):
                history.append(ModelResponse(parts=said))
        elif asked := list(_request_parts(message, names)):
            if history and isinstance(before := history[-1], ModelRequest):
                history[-1] = ModelRequest(parts=[*before.parts, *asked])
            else:
                history.append(ModelRequest(parts=asked))
    return history


def _response_parts(message: Message, answered: Container[str]) -> "Iterator[ModelResponsePart]":
    from pydantic_ai.messages import TextPart, ToolCallPart

    for part in message.parts:
        match part:
            case Text(text=text) | Refusal(text=text) if text:
                yield TextPart(content=text)
            case ToolCall() if part.call_id in answered:
                yield ToolCallPart(tool_name=part.name, args=part.arguments or "{}", tool_call_id=part.call_id)
            case _:
                pass  # Nothing that a model could read.


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
    content = [piece for part in message.parts for piece in _content(part)]
    if any(not isinstance(piece, str) for piece in content):
        yield UserPromptPart(content=content)
    elif content:
        yield UserPromptPart(content="".join(cast("list[str]", content)))


def _content(part: Part) -> "Iterator[UserContent]":
    match part:
        case Text(text=text) if text:
            yield text
        case File(data=str(data), media_type=kind):
            yield _binary(f"data:{kind};base64,{data}")
        case File(url=str(url), media_type=kind):
            yield _binary(url) if url.startswith("data:") else _file_url(url, kind)
        case _:
            pass  # Nothing that a model could read.


def _binary(uri: str) -> "BinaryContent":
    from pydantic_ai.messages import BinaryContent

    try:
        return BinaryContent.from_data_uri(uri)
    except ValueError:
        raise Failure("invalid_file", "A file of the conversation is not base64.", status=400) from None


def _file_url(url: str, kind: str) -> "UserContent":
    """A file elsewhere: the model's provider fetches it, or Pydantic AI, which refuses private addresses."""
    from pydantic_ai.messages import AudioUrl, DocumentUrl, ImageUrl, VideoUrl

    links = {"image": ImageUrl, "audio": AudioUrl, "video": VideoUrl}
    return links.get(kind.partition("/")[0], DocumentUrl)(url=url, media_type=kind)
