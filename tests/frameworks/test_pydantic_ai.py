"""Pydantic AI agents as workflows, with the framework's own test models."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from hypothesis import given as given_any
from hypothesis import settings
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    BinaryContent,
    BinaryImage,
    CustomEvent,
    DeferredToolRequests,
    ModelRetry,
    NativeOutput,
    RunContext,
    Tool,
    ToolOutput,
    models,
)
from pydantic_ai.exceptions import ContentFilterError
from pydantic_ai.messages import (
    AudioUrl,
    Citation,
    ContentCitationAnchor,
    DocumentCitationSource,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    PartEndEvent,
    PartStartEvent,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    WebCitationSource,
)
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel as Model
from pydantic_ai.usage import RequestUsage

from palaver import Context, Message, chat, workflow
from palaver.core.events import PartAdded, RunFailed, TextStarted
from palaver.core.messages import Annotation, Data, File, Reasoning, Refusal, Text, ToolCall, Usage
from palaver.engine.run import Run
from palaver.errors import Failure, NotAWorkflow, NotImplementedYet
from palaver.frameworks.pydantic_ai import adapter as pydantic_ai
from palaver.testing import client
from palaver.workflows.workflow import Options
from tests.engine.run_factory import (
    NOW,
    QUESTION,
    RUN,
    call,
    event_lines,
    last_event,
    new_engine,
    reply,
    reply_of,
    run_to_end,
    wait_ended,
    wait_for_event,
)


@pytest.fixture(autouse=True)
def no_network() -> Iterator[None]:
    before, models.ALLOW_MODEL_REQUESTS = models.ALLOW_MODEL_REQUESTS, False
    yield
    models.ALLOW_MODEL_REQUESTS = before


class Weather(BaseModel):
    """A structured answer."""

    city: str
    degrees: int


async def double(x: int) -> int:
    """Twice as much."""
    if x < 0:
        raise ModelRetry("not below zero")
    return 2 * x


DOUBLE = Tool(double, sequential=True)
"""Sequential: in parallel, the order of the results would be random."""


def scripted(*responses: list[Any]) -> FunctionModel:
    """A model that streams these pieces, one list for each request."""
    remaining = list(responses)

    async def stream(_: list[ModelMessage], __: AgentInfo) -> AsyncIterator[Any]:
        for piece in remaining.pop(0):
            yield piece

    return FunctionModel(stream_function=stream)


def tool_call_delta(
    index: int, arguments: str, *, call_id: str = "c1", name: str | None = "double"
) -> dict[int, DeltaToolCall]:
    return {index: DeltaToolCall(name=name, json_args=arguments, tool_call_id=call_id)}


async def run_agent(agent: Agent[Any, Any], *messages: Message) -> Run:
    return await run_to_end(chat(agent), *(messages or (QUESTION,)))


def reply_messages(run: Run) -> tuple[Message, ...]:
    return reply_of(run).messages


# Declaration


def test_an_agent_is_a_chat_under_its_name_in_url_safe_form() -> None:
    helper = chat(Agent(Model(), name="Helpful agent", description="Helps.", instructions="You are secret."))

    assert (helper.description.name, helper.description.description) == ("Helpful-agent", "Helps.")
    assert helper.description.is_chat
    assert helper.place == "Pydantic AI: Helpful agent"


def test_an_agent_without_a_name_is_named_assistant_unless_a_name_is_given() -> None:
    nameless, named = chat(Agent(Model())), chat(Agent(Model()), name="helper", description="Really helps.")

    assert (nameless.description.name, nameless.place) == ("assistant", "Pydantic AI: assistant")
    assert (named.description.name, named.description.description) == ("helper", "Really helps.")


def test_an_agent_is_rejected_as_a_workflow_that_is_not_a_chat() -> None:
    with pytest.raises(NotAWorkflow, match=r"Declare it with chat\(…\)"):
        workflow(Agent(Model()))


def test_an_agent_with_deps_that_palaver_cannot_create_is_rejected() -> None:
    with pytest.raises(NotAWorkflow, match="requires deps of type Weather, which Palaver cannot create"):
        chat(Agent(Model(), deps_type=Weather))


def test_other_objects_of_the_framework_are_not_adopted() -> None:
    adopt_options: Any = {"name": None, "description": None, "flags": {"is_chat": True}, "options": Options()}

    assert pydantic_ai.adopt(Model(), **adopt_options) is None
    assert pydantic_ai.Reader().feed(Model()) is None
    assert pydantic_ai.Reader().feed([Model()]) is None
    with pytest.raises(AttributeError):
        pydantic_ai.NOTHING  # noqa: B018


# Output


async def test_text_is_streamed() -> None:
    run = await run_agent(Agent(Model(custom_output_text="Hello there.")))

    assert event_lines(run.log)[:5] == [
        "RunStarted",
        "TextStarted",
        "TextDelta Hello",
        "TextDelta there.",
        "UsageAdded",
    ]
    assert reply_of(run) == reply(Message.assistant("Hello there."), usage=Usage(input_tokens=51, output_tokens=3))


async def test_reasoning_text_and_calls_are_one_message_before_the_tool_results() -> None:
    helper = Agent(
        scripted(
            [
                {0: DeltaThinkingPart(content="Hm")},
                {0: DeltaThinkingPart(content="m.", signature="sealed")},
                "Let me ",
                "see.",
                tool_call_delta(2, '{"x"'),
                tool_call_delta(2, ":-1}", name=None),
                tool_call_delta(3, '{"x":2}', call_id="c2"),
            ],
            ["It is 4."],
        ),
        tools=[DOUBLE],
    )

    run = await run_agent(helper)

    assert event_lines(run.log)[1:13] == [
        "ReasoningStarted",
        "ReasoningDelta Hm",
        "ReasoningDelta m.",
        "ReasoningEnded",
        "TextStarted",
        "TextDelta Let me",
        "TextDelta see.",
        "TextEnded",
        "ToolStarted",
        'ToolDelta {"x"',
        "ToolDelta :-1}",
        "ToolStarted",
    ]
    assert reply_messages(run) == (
        Message.assistant(
            Reasoning(text="Hmm.", encrypted="sealed"),
            Text(text="Let me see."),
            ToolCall(call_id="c1", name="double", arguments='{"x":-1}'),
            ToolCall(call_id="c2", name="double", arguments='{"x":2}'),
        ),
        Message.tool("c1", "not below zero", is_error=True),
        Message.tool("c2", 4),
        Message.assistant("It is 4."),
    )


async def test_arguments_of_two_calls_may_be_interleaved() -> None:
    pieces = [
        tool_call_delta(0, '{"x"'),
        tool_call_delta(1, '{"x":', call_id="c2"),
        tool_call_delta(0, ":1}", name=None),
        tool_call_delta(1, "2}", call_id="c2", name=None),
    ]

    run = await run_agent(Agent(scripted(pieces, ["So."]), tools=[DOUBLE]))

    assert reply_messages(run) == (
        Message.assistant(
            ToolCall(call_id="c1", name="double", arguments='{"x":1}'),
            ToolCall(call_id="c2", name="double", arguments='{"x":2}'),
        ),
        Message.tool("c1", 2),
        Message.tool("c2", 4),
        Message.assistant("So."),
    )


async def test_a_call_id_that_a_model_reuses_is_made_unique() -> None:
    run = await run_agent(
        Agent(scripted([tool_call_delta(0, '{"x":1}')], [tool_call_delta(0, '{"x":2}')], ["So."]), tools=[DOUBLE])
    )

    assert reply_messages(run) == (
        Message.assistant(ToolCall(call_id="c1", name="double", arguments='{"x":1}')),
        Message.tool("c1", 2),
        Message.assistant(ToolCall(call_id="c1.2", name="double", arguments='{"x":2}')),
        Message.tool("c1.2", 4),
        Message.assistant("So."),
    )


async def test_arguments_given_as_a_dictionary_are_encoded_as_json() -> None:
    run = await run_agent(Agent(Model(custom_output_text="Done."), tools=[DOUBLE]))

    call_id = "pyd_ai_tool_call_id__double"
    assert reply_messages(run) == (
        Message.assistant(ToolCall(call_id=call_id, name="double", arguments='{"x":0}')),
        Message.tool(call_id, 0),
        Message.assistant("Done."),
    )


async def test_usage_is_added_after_each_model_request() -> None:
    run = await run_agent(Agent(scripted([tool_call_delta(0, '{"x":1}')], ["Two words."]), tools=[DOUBLE]))

    kinds = event_lines(run.log)
    assert kinds.count("UsageAdded") == 2
    assert kinds.index("UsageAdded") < kinds.index("ToolReturned")
    assert reply_of(run).usage == Usage(input_tokens=100, output_tokens=6)


@pytest.mark.parametrize("shape", [Weather, ToolOutput(Weather, name="give_weather")])
async def test_structured_output_is_returned_as_text_and_data_without_its_output_tool(shape: Any) -> None:
    run = await run_agent(Agent(Model(custom_output_args={"city": "Oslo", "degrees": -3}), output_type=shape))

    assert reply_messages(run) == (
        Message.assistant('{"city":"Oslo","degrees":-3}', Data(name="output", value={"city": "Oslo", "degrees": -3})),
    )


async def test_structured_output_that_is_invalid_at_first_is_returned_once() -> None:
    wrong, right = '{"city": "Oslo"}', '{"city": "Oslo", "degrees": 2}'
    model = scripted(
        ["Sure: ", tool_call_delta(1, wrong, name="final_result")],
        [tool_call_delta(0, right, call_id="c2", name="final_result")],
    )

    run = await run_agent(Agent(model, output_type=Weather))

    assert reply_messages(run)[1:] == (
        Message.assistant('{"city":"Oslo","degrees":2}', Data(name="output", value={"city": "Oslo", "degrees": 2})),
    )
    assert reply_messages(run)[0].text == "Sure: "


async def test_structured_output_that_the_model_streams_as_text_is_not_repeated() -> None:
    model = scripted(['{"city": "Oslo", ', '"degrees": 2}'])
    model.profile["supports_json_schema_output"] = True

    run = await run_agent(Agent(model, output_type=NativeOutput(Weather)))

    assert reply_messages(run) == (
        Message.assistant('{"city": "Oslo", "degrees": 2}', Data(name="output", value={"city": "Oslo", "degrees": 2})),
    )


async def test_the_result_of_an_output_function_is_the_answer() -> None:
    def shout(text: str) -> str:
        """Shouts."""
        return text.upper()

    run = await run_agent(
        Agent(
            scripted([tool_call_delta(0, '{"text":"hi"}', name="final_result")]),
            output_type=ToolOutput(shout, name="final_result"),
        )
    )

    assert reply_messages(run) == (Message.assistant("HI"),)


async def test_a_native_tool_of_the_provider_is_a_tool_call_with_its_result() -> None:
    model = scripted(
        [
            {
                0: NativeToolCallPart(
                    tool_name="web_search", args={"q": "news"}, tool_call_id="w1", provider_name="function"
                )
            },
            {
                1: NativeToolReturnPart(
                    tool_name="web_search", content=["none"], tool_call_id="w1", provider_name="function"
                )
            },
            "No news.",
        ]
    )

    run = await run_agent(Agent(model))

    assert reply_messages(run) == (
        Message.assistant(ToolCall(call_id="w1", name="web_search", arguments='{"q":"news"}')),
        Message.tool("w1", ["none"]),
        Message.assistant("No news."),
    )


async def test_a_tool_can_use_palavers_context_and_emit_custom_events() -> None:
    @dataclass(kw_only=True)
    class HalfwayEvent(CustomEvent):
        done: int

    @dataclass(kw_only=True)
    class HiddenEvent(CustomEvent, ui=False):
        done: int

    helper = Agent(Model(custom_output_text="So."), deps_type=Context)

    @helper.tool
    async def session(ctx: RunContext[Context]) -> str:
        """Tells the session."""
        await ctx.emit(HalfwayEvent(done=1))
        await ctx.emit(HiddenEvent(done=2))
        return ctx.deps.session

    run = await run_to_end(chat(helper), QUESTION, session="ses_1")

    assert reply_messages(run)[1].tool_results[0].output == "ses_1"
    rendered = [event.part for event in run.log if isinstance(event, PartAdded) and isinstance(event.part, Data)]
    assert [(part.name, part.value["done"]) for part in rendered] == [("halfway", 1)]


# Complete messages


async def run_chat(*values: object) -> Run:
    @chat
    async def answer(messages: list[Message]) -> AsyncIterator[object]:
        for value in values:
            yield value

    return await run_to_end(answer, QUESTION)


async def test_a_function_may_yield_messages_with_every_kind_of_part() -> None:
    text = TextPart(
        content="See.",
        id="msg_a",
        provider_name="p",
        citations=[
            Citation(
                sources=[
                    WebCitationSource(url="https://a.org", title="A"),
                    DocumentCitationSource(document_id="f1", title="F"),
                ],
                anchor=ContentCitationAnchor(start=0, end=3),
            ),
            Citation(sources=[WebCitationSource(url="https://b.org")]),
        ],
    )
    response = ModelResponse(
        parts=[
            text,
            ThinkingPart(content="", signature="sealed", provider_name="p"),
            FilePart(content=BinaryContent(b"hi", media_type="image/png")),
            ToolCallPart(tool_name="double", args={"x": 1}, tool_call_id="c1"),
        ],
        finish_reason="length",
    )
    request = ModelRequest(
        parts=[UserPromptPart("?"), ToolReturnPart("double", BinaryContent(b"hi", media_type="a/b"), "c1")]
    )

    run = await run_chat(response, [request])

    annotations = (
        Annotation(kind="url", title="A", url="https://a.org", start=0, end=3),
        Annotation(kind="file", title="F", file_id="f1", start=0, end=3),
        Annotation(kind="url", url="https://b.org"),
    )
    messages = reply_messages(run)
    assert messages[0] == Message.assistant(
        Text(text="See.", annotations=annotations),
        Reasoning(text="", encrypted="sealed"),
        File(media_type="image/png", data="aGk="),
        ToolCall(call_id="c1", name="double", arguments='{"x":1}'),
    )
    assert messages[1].tool_results[0].output["data"] == "aGk="
    assert run.log[1] == TextStarted(seq=1, item="msg_a", message="msg_a")
    assert reply_of(run).finish == "length"


async def test_a_function_may_return_a_run_result() -> None:
    helper = Agent(Model(custom_output_args={"city": "Oslo", "degrees": 2}), tools=[DOUBLE], output_type=Weather)

    @chat
    async def answer(messages: list[ModelMessage]) -> Any:
        return await helper.run(message_history=messages)

    run = await run_to_end(answer, QUESTION)

    call_id = "pyd_ai_tool_call_id__double"
    assert reply_messages(run) == (
        Message.assistant(ToolCall(call_id=call_id, name="double", arguments='{"x":0}')),
        Message.tool(call_id, 0),
        Message.assistant('{"city":"Oslo","degrees":2}', Data(name="output", value={"city": "Oslo", "degrees": 2})),
    )
    assert reply_of(run).usage is not None


async def test_a_function_may_yield_the_events_of_a_run() -> None:
    helper = Agent(Model(custom_output_text="Done."), tools=[DOUBLE])

    @chat
    async def answer(messages: list[Message]) -> AsyncIterator[object]:
        async with helper.run_stream_events(message_history=pydantic_ai.written(messages)) as events:
            async for event in events:
                yield event

    run, complete = await run_to_end(answer, QUESTION), await run_agent(helper)

    assert reply_messages(run) == reply_messages(complete)
    assert reply_of(run).usage == reply_of(complete).usage


async def test_speech_and_compaction_parts_are_ignored() -> None:
    from pydantic_ai.messages import CompactionPart, PartDeltaEvent, SpeechPart, SpeechPartDelta

    run = await run_chat(
        PartStartEvent(index=0, part=CompactionPart(content="so far")),
        PartStartEvent(index=1, part=SpeechPart(speaker="assistant", transcript="Hi")),
        PartDeltaEvent(index=1, delta=SpeechPartDelta(transcript_delta="Hi")),
        PartStartEvent(index=2, part=TextPart(content="Hello.")),
        PartEndEvent(index=2, part=TextPart(content="Hello.")),
    )

    assert reply_messages(run) == (Message.assistant("Hello."),)


# Errors, approvals and cancellation


@pytest.mark.parametrize(("reason", "finish"), [("length", "length"), ("content_filter", "content-filter")])
async def test_an_incomplete_answer_finishes_with_its_reason(reason: Any, finish: Any) -> None:
    def respond(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
        return ModelResponse(
            parts=[TextPart("Once upon")], finish_reason=reason, usage=RequestUsage(input_tokens=1, output_tokens=2)
        )

    helper = Agent(FunctionModel(respond))

    @chat
    async def answer(messages: list[Message]) -> Any:
        return await helper.run("Well?")

    run = await run_to_end(answer, QUESTION)

    assert reply_of(run) == reply(
        Message.assistant("Once upon"), usage=Usage(input_tokens=1, output_tokens=2), finish=finish
    )


async def test_a_content_filter_error_finishes_the_run_with_content_filter() -> None:
    async def stream(_: list[ModelMessage], __: AgentInfo) -> AsyncIterator[str]:
        yield "Once "
        raise ContentFilterError("secret reason")

    run = await run_agent(Agent(FunctionModel(stream_function=stream)))

    assert reply_of(run) == reply(Message.assistant("Once "), finish="content-filter")


async def test_an_agent_that_exceeds_its_limits_fails_with_usage_limit_exceeded() -> None:
    steps = [[tool_call_delta(0, '{"x":1}', call_id=f"c{n}")] for n in range(60)]

    run = await run_agent(Agent(scripted(*steps), tools=[DOUBLE]))

    message = "The agent exceeded its usage limits."
    assert last_event(run) == RunFailed(code="usage_limit_exceeded", message=message, at=NOW)


async def test_a_model_error_fails_the_run_without_its_message() -> None:
    async def stream(_: list[ModelMessage], __: AgentInfo) -> AsyncIterator[str]:
        yield "Well"
        raise RuntimeError("secret key sk-1")

    run = await run_agent(Agent(FunctionModel(stream_function=stream)))

    assert last_event(run) == RunFailed(code="workflow_failed", message=f"The workflow failed (run {RUN}).", at=NOW)


@pytest.mark.parametrize("arguments", ['{"path":"a"}', None])
async def test_a_tool_that_needs_approval_ends_the_run_with_a_request_and_cannot_resume(arguments: str | None) -> None:
    model = Model() if arguments is None else scripted([tool_call_delta(0, arguments, name="delete")])
    agent = Agent(model, output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def delete(path: str) -> str:
        """Deletes a file."""
        return f"{path} is gone"

    helper = chat(agent)

    run = await run_to_end(helper, QUESTION)

    call_id = "c1" if arguments else "pyd_ai_tool_call_id__delete"
    approval = {"id": call_id, "call_id": call_id, "name": "delete", "arguments": '{"path":"a"}'}
    approval |= {"message": None, "decisions": ["approve", "reject"], "interrupt": None}
    assert reply_messages(run) == (
        Message.assistant(
            ToolCall(call_id=call_id, name="delete", arguments='{"path":"a"}'),
            Data(name="approval-request", value=approval),
        ),
    )
    assert reply_of(run).finish == "tool-calls"
    granted = Message.user(Data(name="approval-response", value={"id": call_id, "approve": True}))
    with pytest.raises(NotImplementedYet, match="cannot resume after an approval"):
        helper.bind(call(QUESTION, granted))


async def test_cancelling_a_run_stops_the_agent_and_its_tools() -> None:
    tool_started, tool_ended = asyncio.Event(), asyncio.Event()
    helper = Agent(scripted([tool_call_delta(0, "{}", name="wait")]))

    @helper.tool_plain
    async def wait() -> str:
        """Waits for ever."""
        tool_started.set()
        try:
            await asyncio.Event().wait()
        finally:
            tool_ended.set()
        return "never"

    run = new_engine().start(chat(helper), call(QUESTION))
    await wait_for_event(tool_started)
    run.cancel()
    await wait_ended(run)

    assert tool_ended.is_set()
    assert event_lines(run.log) == [
        "RunStarted",
        "ToolStarted",
        "ToolDelta {}",
        "ToolEnded",
        "UsageAdded",
        "RunCancelled",
    ]


async def test_an_agent_that_exceeds_the_event_limit_is_stopped() -> None:
    stopped = asyncio.Event()

    async def stream(_: list[ModelMessage], __: AgentInfo) -> AsyncIterator[str]:
        try:
            while True:
                yield "more "
                await asyncio.sleep(0)
        finally:
            stopped.set()

    run = await run_to_end(chat(Agent(FunctionModel(stream_function=stream)), limits={"events": 20}), QUESTION)

    await wait_for_event(stopped)
    assert isinstance(run.log[-1], RunFailed)
    assert run.log[-1].code == "too_many_events"


# Input


def message_contents(messages: list[ModelMessage]) -> list[tuple[str, list[Any]]]:
    """Return kinds and contents, without timestamps."""

    def content(part: Any) -> Any:
        match part:
            case ToolCallPart():
                return part.tool_call_id, part.tool_name, part.args
            case ToolReturnPart():
                return part.tool_call_id, part.tool_name, part.content, part.outcome
            case SystemPromptPart():
                return "system", part.content
            case _:
                return part.content

    return [(message.kind, [content(part) for part in message.parts]) for message in messages]


PICTURE = BinaryImage(b"hi", media_type="image/png")
HISTORY = (
    Message.system("Speak French."),
    Message.user("Look:", File(media_type="image/png", data="aGk=")),
    Message.assistant(
        Reasoning(text="hm"),
        Text(text="A cat."),
        ToolCall(call_id="c1", name="double", arguments='{"x":1}'),
        ToolCall(call_id="c2", name="double"),
        ToolCall(call_id="c3", name="unanswered"),
    ),
    Message.tool("c1", {"y": 2}),
    Message.tool("c2", "none", is_error=True),
    Message.assistant(Data(name="chart", value=1)),
    Message.user("Sure", "?"),
    Message.assistant(Refusal(text="No.")),
)


def test_a_history_is_converted_to_requests_and_responses() -> None:
    assert message_contents(pydantic_ai.written(HISTORY)) == [
        ("request", [("system", "Speak French."), ["Look:", PICTURE]]),
        ("response", ["A cat.", ("c1", "double", '{"x":1}'), ("c2", "double", "{}")]),
        (
            "request",
            [("c1", "double", {"y": 2}, "success"), ("c2", "double", "none", "failed"), "Sure?"],
        ),
        ("response", ["No."]),
    ]
    assert pydantic_ai.written([Message.system(), Message.user(Data(name="x"))]) == []


async def test_the_agents_system_prompt_comes_first_and_a_clients_is_an_instruction() -> None:
    seen: list[ModelMessage] = []
    instructions: list[str | None] = []

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        seen.extend(messages)
        instructions.append(info.instructions)
        yield "Oui."

    helper = Agent(FunctionModel(stream_function=stream), system_prompt="Be kind.", instructions="Be short.")

    await run_agent(helper, *HISTORY[:-1])

    assert message_contents(seen)[0] == (
        "request",
        [("system", "Be kind."), ["Look:", PICTURE]],
    )
    assert instructions == ["Be short.\n\nSpeak French."]


FILE_URL = "https://a.org/file"


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (File(media_type="image/png", url=FILE_URL), ImageUrl(url=FILE_URL, media_type="image/png")),
        (File(media_type="audio/mpeg", url=FILE_URL), AudioUrl(url=FILE_URL, media_type="audio/mpeg")),
        (File(media_type="application/pdf", url=FILE_URL), DocumentUrl(url=FILE_URL, media_type="application/pdf")),
        (File(media_type="a/b", url="data:a/b;base64,aGk="), BinaryContent(b"hi", media_type="a/b")),
    ],
)
def test_files_are_converted_by_media_type(file: File, content: Any) -> None:
    assert message_contents(pydantic_ai.written([Message.user(file)])) == [("request", [[content]])]


def test_a_file_by_provider_id_is_left_out_and_invalid_base64_is_rejected() -> None:
    assert pydantic_ai.written([Message.user(File(media_type="image/png", file_id="file-of-the-author"))]) == []
    with pytest.raises(Failure, match="is not valid base64"):
        pydantic_ai.written([Message.user(File(media_type="image/png", data="a"))])


# Streamed or complete

STEPS = st.lists(
    st.lists(st.one_of(st.text(min_size=1), st.integers(0, 9)), min_size=1, max_size=5).filter(
        lambda step: any(isinstance(piece, int) for piece in step)
    ),
    max_size=3,
)


@settings(max_examples=25)
@given_any(steps=STEPS, last=st.text(min_size=1).filter(str.strip))
async def test_streamed_and_complete_results_give_the_same_messages(steps: list[list[str | int]], last: str) -> None:
    """For any texts and tool calls, parallel and sequential."""
    numbers = count()

    def parts(step: list[str | int]) -> list[Any]:
        return [
            TextPart(p) if isinstance(p, str) else ToolCallPart("double", f'{{"x":{p}}}', f"c{next(numbers)}")
            for p in step
        ]

    script = [*[parts(step) for step in steps], [TextPart(last)]]

    def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=list(script[sum(message.kind == "response" for message in messages)]))

    async def stream(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[Any]:
        for index, part in enumerate(respond(messages, _).parts):
            if isinstance(part, TextPart):
                yield part.content
            elif isinstance(part, ToolCallPart):
                yield {
                    index: DeltaToolCall(name=part.tool_name, json_args=str(part.args), tool_call_id=part.tool_call_id)
                }

    helper = Agent(FunctionModel(respond, stream_function=stream), tools=[DOUBLE])

    @chat
    async def complete(messages: list[ModelMessage]) -> Any:
        return await helper.run(message_history=messages)

    streamed, returned = reply_messages(await run_agent(helper)), reply_messages(await run_to_end(complete, QUESTION))

    assert [(m.role, m.text, m.tool_calls, m.tool_results) for m in streamed] == [
        (m.role, m.text, m.tool_calls, m.tool_results) for m in returned
    ]


# Over HTTP


async def test_invoke_returns_the_same_answer_complete_and_streamed() -> None:
    helper = chat(Agent(Model(custom_output_text="It is 8."), tools=[DOUBLE]), name="helper")

    body = {"messages": [{"role": "user", "content": "Twice four?"}]}
    async with client(helper) as http:
        complete = await http.post("/helper/invoke", json=body)
        stream = await http.post("/helper/invoke", json=body, headers={"accept": "text/event-stream"})

    assert complete.status_code == stream.status_code == 200
    assert complete.json()[-1] == {"role": "assistant", "content": "It is 8."}
    assert "8." in stream.text
