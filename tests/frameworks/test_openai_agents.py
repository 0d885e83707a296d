"""Agents of the OpenAI Agents SDK as workflows, with the SDK's own scripted model."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from typing import Any, cast

import msgspec
import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    MCPApprovalRequestItem,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RawResponsesStreamEvent,
    RunConfig,
    RunContextWrapper,
    RunItemStreamEvent,
    Runner,
    RunResultStreaming,
    ToolApprovalItem,
    ToolCallOutputItem,
    function_tool,
    input_guardrail,
    output_guardrail,
)
from agents.items import CompactionItem
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from agents.usage import Usage as SdkUsage
from hypothesis import given as given_any
from hypothesis import settings
from hypothesis import strategies as st
from openai import AsyncOpenAI
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseCustomToolCall,
    ResponseFunctionCallArgumentsDeltaEvent,
    ResponseFunctionToolCall,
    ResponseFunctionWebSearch,
    ResponseIncompleteEvent,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputRefusal,
    ResponseOutputText,
    ResponseReasoningItem,
    ResponseTextDeltaEvent,
    ResponseUsage,
)
from openai.types.responses.response import IncompleteDetails
from openai.types.responses.response_function_web_search import ActionSearch
from openai.types.responses.response_output_item import (
    ImageGenerationCall,
    LocalShellCall,
    LocalShellCallAction,
    McpApprovalRequest,
    McpListTools,
)
from openai.types.responses.response_output_text import (
    AnnotationFileCitation,
    AnnotationFilePath,
    AnnotationURLCitation,
)
from openai.types.responses.response_reasoning_item import Content, Summary
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails
from pydantic import BaseModel

from palaver import Context, Message, chat, workflow
from palaver.core.events import RunFailed, TextStarted
from palaver.core.messages import Annotation, Data, File, Reasoning, Refusal, Text, ToolCall, Usage
from palaver.engine.run import Run
from palaver.errors import NotAWorkflow, NotImplementedYet
from palaver.frameworks.openai_agents import adapter as openai_agents
from palaver.testing import client, scripted
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

TOOL_ERROR_MESSAGE = "An error occurred while running the tool. Please try again."


@function_tool
def double(x: int) -> int:
    """Twice as much."""
    if x < 0:
        raise ValueError("secret: negative")
    return 2 * x


@function_tool(needs_approval=True)
def delete(path: str) -> str:
    """Deletes a file."""
    return f"{path} is gone"


class Weather(BaseModel):
    """A structured answer."""

    city: str
    degrees: int


def agent(*steps: Any, **options: Any) -> Agent[Any]:
    return Agent(**{"name": "Helpful agent", "model": ScriptedModel(steps), **options})


def sdk_usage(input_tokens: int, output_tokens: int) -> SdkUsage:
    return SdkUsage(
        requests=1, input_tokens=input_tokens, output_tokens=output_tokens, total_tokens=input_tokens + output_tokens
    )


async def run_agent(sdk_agent: Agent[Any], *messages: Message) -> Run:
    return await run_to_end(chat(sdk_agent), *(messages or (QUESTION,)))


# Declaration


def test_an_agent_is_a_chat_under_its_name_in_url_safe_form() -> None:
    helper = chat(agent(handoff_description="Helps.", instructions="You are secret."))

    assert (helper.description.name, helper.description.description) == ("Helpful-agent", "Helps.")
    assert helper.description.is_chat
    assert helper.place == "OpenAI Agents: Helpful agent"


def test_a_given_name_and_description_override_those_of_the_agent() -> None:
    helper = chat(agent(), name="helper", description="Really helps.")

    assert (helper.description.name, helper.description.description) == ("helper", "Really helps.")


def test_an_agent_is_rejected_as_a_workflow_that_is_not_a_chat() -> None:
    with pytest.raises(NotAWorkflow, match=r"Declare it with chat\(…\)"):
        workflow(agent())


def test_other_objects_of_the_sdk_are_not_adopted() -> None:
    adopt_options = {"name": None, "description": None, "flags": {"is_chat": True}, "options": Options()}

    assert openai_agents.adopt(double, **adopt_options) is None
    assert openai_agents.Reader().feed(double) is None
    assert openai_agents.Reader().feed([double]) is None


# Output


async def test_text_streams_with_the_ids_of_the_sdk() -> None:
    run = await run_agent(agent([assistant_message("Hello there.", item_id="msg_a")]))

    assert event_lines(run.log) == ["RunStarted", "TextStarted", "TextDelta Hello there.", "TextEnded", "RunFinished"]
    assert run.log[1] == TextStarted(seq=1, item="msg_a", message="msg_a")


async def test_a_tool_call_and_its_result_are_returned_with_text_before_and_after() -> None:
    helper = agent(
        ModelStep(
            output=[assistant_message("Let me see.", item_id="m1"), function_call("double", {"x": 4}, call_id="c1")],
            usage=sdk_usage(10, 5),
        ),
        ModelStep(output=[assistant_message("It is 8.", item_id="m2")], usage=sdk_usage(20, 6)),
        tools=[double],
    )

    run = await run_agent(helper)

    assert reply_of(run) == reply(
        Message.assistant("Let me see.", ToolCall(call_id="c1", name="double", arguments='{"x":4}')),
        Message.tool("c1", 8),
        Message.assistant("It is 8."),
        usage=Usage(input_tokens=30, output_tokens=11),
    )


async def test_a_failed_parallel_call_is_an_error_result_without_the_reason() -> None:
    calls = [function_call("double", {"x": -1}, call_id="c1"), function_call("double", {"x": 3}, call_id="c2")]

    run = await run_agent(agent(calls, [assistant_message("6.")], tools=[double]))

    assert reply_of(run) == reply(
        Message.assistant(
            ToolCall(call_id="c1", name="double", arguments='{"x":-1}'),
            ToolCall(call_id="c2", name="double", arguments='{"x":3}'),
        ),
        Message.tool("c1", TOOL_ERROR_MESSAGE, is_error=True),
        Message.tool("c2", 6),
        Message.assistant("6."),
    )


async def test_a_handoff_is_a_tool_call_with_a_result_before_the_other_agents_answer() -> None:
    other = agent([assistant_message("Hier ist Otto.")], name="Otto")
    first = agent([function_call("transfer_to_otto", {}, call_id="c1")], handoffs=[other])

    run = await run_agent(first)

    assert reply_of(run) == reply(
        Message.assistant(ToolCall(call_id="c1", name="transfer_to_otto", arguments="{}")),
        Message.tool("c1", '{"assistant": "Otto"}'),
        Message.assistant("Hier ist Otto."),
    )


async def test_reasoning_summaries_are_joined_and_belong_to_the_next_message() -> None:
    thought = ResponseReasoningItem(
        id="rs_1",
        type="reasoning",
        summary=[Summary(text="First.", type="summary_text"), Summary(text="Then.", type="summary_text")],
        content=[Content(text="raw", type="reasoning_text")],
        encrypted_content="sealed",
    )

    run = await run_agent(agent([thought, assistant_message("Done.", item_id="m1")]))

    assert reply_of(run) == reply(
        Message.assistant(Reasoning(text="First.\n\nThen.", encrypted="sealed"), Text(text="Done."))
    )


async def test_reasoning_without_a_summary_uses_its_content() -> None:
    thought = ResponseReasoningItem(
        id="rs_1", type="reasoning", summary=[], content=[Content(text="raw", type="reasoning_text")]
    )

    run = await run_agent(agent([thought, assistant_message("Done.")]))

    assert reply_of(run) == reply(Message.assistant(Reasoning(text="raw"), Text(text="Done.")))


async def test_a_refusal_is_returned_as_a_refusal_part() -> None:
    declined = ResponseOutputMessage(
        id="m1",
        type="message",
        role="assistant",
        status="completed",
        content=[ResponseOutputRefusal(type="refusal", refusal="I cannot.")],
    )

    plain, shaped = await run_agent(agent([declined])), await run_agent(agent([declined], output_type=Weather))

    assert reply_of(plain) == reply_of(shaped) == reply(Message.assistant(Refusal(text="I cannot.")))


async def test_citations_become_annotations() -> None:
    notes = [
        AnnotationURLCitation(type="url_citation", url="https://a.org", title="A", start_index=0, end_index=3),
        AnnotationFileCitation(type="file_citation", file_id="f1", filename="f.txt", index=1),
        AnnotationFilePath(type="file_path", file_id="f2", index=1),
    ]
    message = ResponseOutputMessage(
        id="m1",
        type="message",
        role="assistant",
        status="completed",
        content=[
            ResponseOutputText(type="output_text", text="See.", annotations=notes),
            ResponseOutputText(type="output_text", text=" There.", annotations=[]),
        ],
    )

    run = await run_agent(agent([message]))

    assert reply_of(run) == reply(
        Message.assistant(
            Text(
                text="See.",
                annotations=(
                    Annotation(kind="url", title="A", url="https://a.org", start=0, end=3),
                    Annotation(kind="file", title="f.txt", file_id="f1"),
                ),
            ),
            Text(text=" There."),
        )
    )


async def test_structured_output_is_returned_as_text_and_as_data() -> None:
    run = await run_agent(agent([assistant_message('{"city": "Oslo", "degrees": -3}')], output_type=Weather))

    assert reply_of(run) == reply(
        Message.assistant('{"city": "Oslo", "degrees": -3}', Data(name="output", value={"city": "Oslo", "degrees": -3}))
    )


@pytest.mark.parametrize(("shape", "data"), [(None, []), (int, [Data(name="output", value=8)])])
async def test_a_tool_result_that_ends_the_run_is_returned_as_the_answer(shape: type | None, data: list[Data]) -> None:
    helper = agent(
        [function_call("double", {"x": 4}, call_id="c1")],
        tools=[double],
        tool_use_behavior="stop_on_first_tool",
        output_type=shape,
    )

    run = await run_agent(helper)

    assert reply_of(run) == reply(
        Message.assistant(ToolCall(call_id="c1", name="double", arguments='{"x":4}')),
        Message.tool("c1", 8),
        Message.assistant("8", *data),
    )


async def test_a_tool_result_that_is_not_json_is_returned_as_text() -> None:
    @function_tool
    def odd() -> object:
        """Gives something odd."""
        return complex(1, 2)

    run = await run_agent(agent([function_call("odd", {}, call_id="c1")], [assistant_message("Odd.")], tools=[odd]))

    assert reply_of(run).messages[1] == Message.tool("c1", "(1+2j)")


async def test_usage_of_an_agent_used_as_a_tool_is_counted() -> None:
    inner = agent(ModelStep(output=[assistant_message("inner words")], usage=sdk_usage(100, 50)), name="inner")
    outer = agent(
        ModelStep(output=[function_call("ask", {"input": "?"}, call_id="c1")], usage=sdk_usage(1, 2)),
        ModelStep(output=[assistant_message("outer words")], usage=sdk_usage(3, 4)),
        tools=[inner.as_tool("ask", "Asks the other one.")],
    )

    run = await run_agent(outer)

    assert reply_of(run) == reply(
        Message.assistant(ToolCall(call_id="c1", name="ask", arguments='{"input":"?"}')),
        Message.tool("c1", "inner words"),
        Message.assistant("outer words"),
        usage=Usage(input_tokens=104, output_tokens=56),
    )


async def test_a_tool_can_use_palavers_context() -> None:
    @function_tool
    def session(wrapper: RunContextWrapper[Context]) -> str:
        """Tells the session, and a line of status on the way."""
        wrapper.context.log("looking")
        return wrapper.context.session

    helper = agent([function_call("session", {}, call_id="c1")], [assistant_message("So.")], tools=[session])

    run = await run_to_end(chat(helper), QUESTION, session="ses_1")

    assert reply_of(run).messages[1] == Message.tool("c1", "ses_1")
    assert "PartAdded" in event_lines(run.log)


# Models with a different way of streaming


def model_response(*output: Any, reason: Any = None, usage: ResponseUsage | None = None) -> Response:
    return Response(
        id="resp_1",
        created_at=0,
        model="m",
        object="response",
        output=list(output),
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
        usage=usage,
        status="incomplete" if reason else "completed",
        incomplete_details=IncompleteDetails(reason=reason) if reason else None,
    )


def streaming_agent(*events: Any, **options: Any) -> Agent[Any]:
    return agent(ModelStep.stream(list(events)), **options)


def output_message(text: str, *, item_id: str = "__fake_id__") -> ResponseOutputMessage:
    content = [ResponseOutputText(type="output_text", text=text, annotations=[])]
    return ResponseOutputMessage(id=item_id, type="message", role="assistant", status="completed", content=content)  # pyright: ignore[reportArgumentType]


def item_added(item: Any, index: int = 0) -> ResponseOutputItemAddedEvent:
    return ResponseOutputItemAddedEvent(
        type="response.output_item.added", item=item, output_index=index, sequence_number=0
    )


def item_done(item: Any, index: int = 0) -> ResponseOutputItemDoneEvent:
    return ResponseOutputItemDoneEvent(
        type="response.output_item.done", item=item, output_index=index, sequence_number=0
    )


def text_delta(text: str, index: int = 0) -> ResponseTextDeltaEvent:
    return ResponseTextDeltaEvent(
        type="response.output_text.delta",
        content_index=0,
        delta=text,
        item_id="__fake_id__",
        logprobs=[],
        output_index=index,
        sequence_number=0,
    )


def response_completed(*output: Any, usage: ResponseUsage | None = None) -> ResponseCompletedEvent:
    return ResponseCompletedEvent(
        type="response.completed", response=model_response(*output, usage=usage), sequence_number=0
    )


async def test_the_placeholder_id_of_the_sdk_is_replaced() -> None:
    run = await run_agent(
        streaming_agent(
            item_added(output_message("")),
            text_delta("Hi "),
            text_delta("you"),
            item_done(output_message("Hi you")),
            response_completed(output_message("Hi you")),
        )
    )

    assert run.log[1] == TextStarted(seq=1, item=f"msg_{1:026}_1", message=f"msg_{1:026}_1")
    assert reply_of(run) == reply(Message.assistant("Hi you"))


async def test_arguments_of_two_calls_may_be_interleaved() -> None:
    def asks(call_id: str, arguments: str) -> ResponseFunctionToolCall:
        return ResponseFunctionToolCall(
            id="__fake_id__", type="function_call", call_id=call_id, name="double", arguments=arguments
        )

    def piece(text: str, index: int) -> ResponseFunctionCallArgumentsDeltaEvent:
        return ResponseFunctionCallArgumentsDeltaEvent(
            type="response.function_call_arguments.delta",
            delta=text,
            item_id="__fake_id__",
            output_index=index,
            sequence_number=0,
        )

    one, two = asks("c1", '{"x":1}'), asks("c2", '{"x":2}')
    helper = agent(
        ModelStep.stream(
            [
                item_added(asks("c1", ""), 0),
                piece('{"x"', 0),
                item_added(asks("c2", ""), 1),
                piece('{"x":', 1),
                piece(":1}", 0),
                piece("2}", 1),
                item_done(one, 0),
                item_done(two, 1),
                response_completed(one, two),
            ]
        ),
        [assistant_message("So.")],
        tools=[double],
    )

    run = await run_agent(helper)

    assert event_lines(run.log)[1:9] == [
        "ToolStarted",
        'ToolDelta {"x"',
        "ToolStarted",
        'ToolDelta {"x":',
        "ToolDelta :1}",
        "ToolDelta 2}",
        "ToolEnded",
        "ToolEnded",
    ]
    assert reply_of(run) == reply(
        Message.assistant(
            ToolCall(call_id="c1", name="double", arguments='{"x":1}'),
            ToolCall(call_id="c2", name="double", arguments='{"x":2}'),
        ),
        Message.tool("c1", 2),
        Message.tool("c2", 4),
        Message.assistant("So."),
    )


async def test_a_model_that_does_not_stream_returns_its_output_at_the_end() -> None:
    thought = ResponseReasoningItem(
        id="rs_1", type="reasoning", summary=[Summary(text="Hm.", type="summary_text")], encrypted_content="sealed"
    )
    asks = ResponseFunctionToolCall(type="function_call", call_id="c1", name="double", arguments='{"x":1}')
    usage = ResponseUsage(
        input_tokens=5,
        output_tokens=6,
        total_tokens=11,
        input_tokens_details=InputTokensDetails(cached_tokens=2, cache_write_tokens=0),
        output_tokens_details=OutputTokensDetails(reasoning_tokens=3),
    )
    helper = agent(
        ModelStep.stream([response_completed(thought, output_message("Wait."), asks, usage=usage)]),
        ModelStep.stream([response_completed(output_message("Two.", item_id="m2"))]),
        tools=[double],
    )

    run = await run_agent(helper)

    assert reply_of(run) == reply(
        Message.assistant(
            Reasoning(text="Hm.", encrypted="sealed"),
            Text(text="Wait."),
            ToolCall(call_id="c1", name="double", arguments='{"x":1}'),
        ),
        Message.tool("c1", 2),
        Message.assistant("Two."),
        usage=Usage(input_tokens=5, output_tokens=6, cached_input_tokens=2, reasoning_tokens=3),
    )


async def test_a_hosted_tool_call_becomes_a_data_part() -> None:
    search = ResponseFunctionWebSearch(
        id="ws_1", type="web_search_call", status="completed", action=ActionSearch(type="search", query="news")
    )
    answer = output_message("Found.")

    run = await run_agent(
        streaming_agent(item_added(search), item_done(search), item_done(answer, 1), response_completed(search, answer))
    )

    value = {"id": "ws_1", "type": "web_search_call", "status": "completed"}
    value["action"] = {"type": "search", "query": "news"}  # pyright: ignore[reportArgumentType]
    assert reply_of(run) == reply(
        Message.assistant(Data(name="responses:web_search_call", value=value), Text(text="Found."))
    )


async def run_chat(*values: object) -> Run:
    @chat
    async def answer(messages: list[Message]) -> AsyncIterator[object]:
        for value in values:
            yield value

    return await run_to_end(answer, QUESTION)


def raw_events(*events: Any) -> list[RawResponsesStreamEvent]:
    return [RawResponsesStreamEvent(data=event) for event in events]


async def test_shell_and_custom_tools_become_tool_calls_and_images_become_files() -> None:
    action = LocalShellCallAction(type="exec", command=["ls"], env={})
    shell = LocalShellCall(id="ls_1", type="local_shell_call", call_id="c1", status="completed", action=action)
    free = ResponseCustomToolCall(type="custom_tool_call", call_id="c2", name="grep", input="needle")
    picture = ImageGenerationCall(id="ig_1", type="image_generation_call", status="completed", result="aGk=")
    listed = McpListTools(id="l_1", type="mcp_list_tools", server_label="s", tools=[])
    owner = agent()

    def result(kind: str, **raw_item: str) -> ToolCallOutputItem:
        return ToolCallOutputItem(agent=owner, raw_item={"type": kind, **raw_item}, output="found")

    run = await run_chat(
        *raw_events(
            item_done(shell),
            item_done(free, 1),
            item_done(picture, 2),
            item_done(listed, 3),
            response_completed(shell, free, picture),
        ),
        *raw_events(item_done(shell), item_done(free, 1)),  # Repeated, as by a resumed run.
        result("local_shell_call_output", id="c1"),
        result("local_shell_call_output", call_id="c1"),
        result("custom_tool_call_output", call_id="c2"),
        RunItemStreamEvent(
            name="tool_output",
            item=CompactionItem(agent=owner, raw_item={"type": "compaction", "encrypted_content": ""}),
        ),
    )

    arguments = '{"action":{"command":["ls"],"env":{},"type":"exec"}}'
    assert reply_of(run) == reply(
        Message.assistant(
            ToolCall(call_id="c1", name="local_shell", arguments=arguments),
            ToolCall(call_id="c2", name="grep", arguments="needle"),
            File(media_type="image/png", data="aGk="),
        ),
        Message.tool("c1", "found"),
        Message.tool("c2", "found"),
    )


async def test_an_mcp_approval_request_is_returned_once_without_a_call_id() -> None:
    request = McpApprovalRequest(
        id="mcpr_1", type="mcp_approval_request", server_label="s", name="delete", arguments="{}"
    )
    item = MCPApprovalRequestItem(agent=(owner := agent()), raw_item=request)

    run = await run_chat(
        *raw_events(item_done(request), response_completed(request)),
        RunItemStreamEvent(name="mcp_approval_requested", item=item),
        ToolApprovalItem(agent=owner, raw_item=request),
    )

    approval = {"id": "mcpr_1", "call_id": None, "name": "delete", "arguments": "{}"}
    approval |= {"message": None, "decisions": ["approve", "reject"], "interrupt": None}
    assert reply_of(run) == reply(Message.assistant(Data(name="approval-request", value=approval)), finish="tool-calls")


@pytest.mark.parametrize(("reason", "finish"), [("max_output_tokens", "length"), ("content_filter", "content-filter")])
async def test_an_incomplete_answer_finishes_with_its_reason(reason: str, finish: str) -> None:
    cut = model_response(output_message("Once upon"), reason=reason)
    end = ResponseIncompleteEvent(type="response.incomplete", response=cut, sequence_number=0)

    run = await run_agent(streaming_agent(item_added(output_message("")), text_delta("Once upon"), end))

    assert reply_of(run) == reply(Message.assistant("Once upon"), finish=finish)


# Errors, approvals and cancellation


@input_guardrail
async def no_maths(*_: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info="secret reason", tripwire_triggered=True)


@output_guardrail
async def no_answer(*_: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info="secret reason", tripwire_triggered=True)


async def test_an_input_guardrail_fails_the_run_with_input_refused() -> None:
    run = await run_agent(agent([assistant_message("Hi.")], input_guardrails=[no_maths]))

    message = "A guardrail of this agent rejected the input."
    assert last_event(run) == RunFailed(code="input_refused", message=message, status=400, at=NOW)


async def test_an_output_guardrail_fails_the_run_after_its_text_was_streamed() -> None:
    run = await run_agent(agent([assistant_message("Hi.")], output_guardrails=[no_answer]))

    assert event_lines(run.log)[:3] == ["RunStarted", "TextStarted", "TextDelta Hi."]
    message = "A guardrail of this agent rejected its output."
    assert last_event(run) == RunFailed(code="output_refused", message=message, at=NOW)


async def test_an_agent_that_exceeds_its_turns_fails_with_too_many_turns() -> None:
    steps = [[function_call("double", {"x": n}, call_id=f"c{n}")] for n in range(12)]

    run = await run_agent(agent(*steps, tools=[double]))

    message = "The agent did not finish within 10 turns."
    assert last_event(run) == RunFailed(code="too_many_turns", message=message, at=NOW)


async def test_a_model_error_fails_the_run_without_its_message() -> None:
    run = await run_agent(agent(RuntimeError("secret key sk-1")))

    assert last_event(run) == RunFailed(code="workflow_failed", message=f"The workflow failed (run {RUN}).", at=NOW)


async def test_a_tool_that_needs_approval_ends_the_run_with_a_request_and_cannot_resume() -> None:
    helper = chat(agent([function_call("delete", {"path": "a"}, call_id="c1")], tools=[delete]))

    run = await run_to_end(helper, QUESTION)

    approval = {"id": "c1", "call_id": "c1", "name": "delete", "arguments": '{"path":"a"}'}
    approval |= {"message": None, "decisions": ["approve", "reject"], "interrupt": None}
    assert reply_of(run) == reply(
        Message.assistant(
            ToolCall(call_id="c1", name="delete", arguments='{"path":"a"}'),
            Data(name="approval-request", value=approval),
        ),
        finish="tool-calls",
    )
    granted = Message.user(Data(name="approval-response", value={"id": "c1", "approve": True}))
    with pytest.raises(NotImplementedYet, match="cannot resume after an approval"):
        helper.bind(call(QUESTION, granted))


async def test_cancelling_a_run_stops_the_agent_and_its_tools() -> None:
    tool_started, tool_ended = asyncio.Event(), asyncio.Event()

    @function_tool
    async def wait() -> str:
        """Waits for ever."""
        tool_started.set()
        try:
            await asyncio.Event().wait()
        finally:
            tool_ended.set()
        return "never"

    run = new_engine().start(chat(agent([function_call("wait", {}, call_id="c1")], tools=[wait])), call(QUESTION))
    await wait_for_event(tool_started)
    run.cancel()
    await wait_ended(run)

    assert tool_ended.is_set()
    assert event_lines(run.log) == ["RunStarted", "ToolStarted", "ToolDelta {}", "ToolEnded", "RunCancelled"]


async def test_an_agent_that_exceeds_the_event_limit_is_stopped() -> None:
    async def forever(_: Any) -> AsyncIterator[Any]:
        yield item_added(output_message(""))
        while True:
            yield text_delta("more ")
            await asyncio.sleep(0)

    run = await run_to_end(chat(agent(ModelStep.stream(forever)), limits={"events": 20}), QUESTION)

    assert isinstance(run.log[-1], RunFailed)
    assert run.log[-1].code == "too_many_events"


# Input


async def test_the_history_is_sent_to_the_model_as_input_items() -> None:
    helper = agent([assistant_message("Yes.")], instructions="Be kind.")
    model: Any = helper.model
    image = File(media_type="image/png", data="aGk=", detail="low")

    await run_agent(
        helper,
        Message.system("Speak French."),
        Message.user("Look:", image),
        Message.assistant(
            Reasoning(text="hm"),
            Text(text="A "),
            Text(text="cat."),
            ToolCall(call_id="c1", name="double", arguments='{"x":1}'),
            ToolCall(call_id="c2", name="double"),
            ToolCall(call_id="c3", name="unanswered"),
        ),
        Message.tool("c1", {"y": 2}),
        Message.tool("c2", "none", is_error=True),
        Message.assistant(Data(name="chart", value=1)),
        Message.user("Sure?"),
    )

    assert model.first_call.system_instructions == "Be kind."
    assert model.first_call.input == [
        {"role": "system", "content": "Speak French."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look:"},
                {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "low"},
            ],
        },
        {"role": "assistant", "content": "A cat."},
        {"type": "function_call", "call_id": "c1", "name": "double", "arguments": '{"x":1}'},
        {"type": "function_call", "call_id": "c2", "name": "double", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": '{"y":2}'},
        {"type": "function_call_output", "call_id": "c2", "output": "none"},
        {"role": "user", "content": "Sure?"},
    ]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (
            File(media_type="image/png", url="https://a.org/i.png"),
            [{"type": "input_image", "image_url": "https://a.org/i.png", "detail": "auto"}],
        ),
        (
            File(media_type="audio/mpeg", data="aGk="),
            [{"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}}],
        ),
        (
            File(media_type="application/pdf", url="https://a.org/a.pdf"),
            [{"type": "input_file", "file_url": "https://a.org/a.pdf"}],
        ),
        (
            File(media_type="application/pdf", data="aGk=", filename="a.pdf"),
            [{"type": "input_file", "file_data": "data:application/pdf;base64,aGk=", "filename": "a.pdf"}],
        ),
        (File(media_type="application/pdf", file_id="file-of-the-author"), None),
    ],
)
def test_files_are_encoded_by_media_type_and_provider_file_ids_are_left_out(
    file: File, content: list[Any] | None
) -> None:
    expected = [] if content is None else [{"role": "user", "content": content}]

    assert openai_agents.written([Message.user(file)]) == expected


# Functions that return objects of the SDK


async def test_a_function_may_yield_the_events_of_a_run() -> None:
    helper = agent([function_call("double", {"x": 4}, call_id="c1")], [assistant_message("8.")], tools=[double])

    @chat
    async def answer(messages: list[Message]) -> AsyncIterator[object]:
        items: Any = openai_agents.written(messages)
        result = Runner.run_streamed(helper, items, run_config=RunConfig(tracing_disabled=True))
        async for event in result.stream_events():
            yield event
        yield result

    run = await run_to_end(answer, QUESTION)

    assert reply_of(run) == reply(
        Message.assistant(ToolCall(call_id="c1", name="double", arguments='{"x":4}')),
        Message.tool("c1", 8),
        Message.assistant("8."),
    )


@pytest.mark.parametrize("returned", ["result", "items"])
async def test_a_function_may_return_a_run_result_or_its_items(returned: str) -> None:
    thought = ResponseReasoningItem(id="rs_1", type="reasoning", summary=[Summary(text="Hm.", type="summary_text")])
    helper = agent(
        ModelStep(output=[thought, function_call("double", {"x": 4}, call_id="c1")], usage=sdk_usage(1, 2)),
        ModelStep(output=[assistant_message("8.")], usage=sdk_usage(3, 4)),
        tools=[double],
    )

    @chat
    async def answer(messages: list[Message]) -> Any:
        result = await Runner.run(helper, "Well?", run_config=RunConfig(tracing_disabled=True))
        return result if returned == "result" else result.new_items

    run = await run_to_end(answer, QUESTION)

    assert reply_of(run) == reply(
        Message.assistant(Reasoning(text="Hm."), ToolCall(call_id="c1", name="double", arguments='{"x":4}')),
        Message.tool("c1", 8),
        Message.assistant("8."),
        usage=Usage(input_tokens=4, output_tokens=6) if returned == "result" else None,
    )


async def test_returning_a_streamed_run_that_was_not_read_fails_with_a_hint() -> None:
    result: list[RunResultStreaming] = []

    @chat
    async def answer(messages: list[Message]) -> Any:
        result.append(
            Runner.run_streamed(agent([assistant_message("Hi.")]), "?", run_config=RunConfig(tracing_disabled=True))
        )
        return result[0]

    run = await run_to_end(answer, QUESTION)
    result[0].cancel()

    assert isinstance(run.log[-1], RunFailed)
    assert run.log[-1].message.endswith("Yield the events of its stream_events() instead.")


# Streamed or complete


@settings(max_examples=25)
@given_any(
    steps=st.lists(st.lists(st.one_of(st.text(), st.integers(0, 9)), min_size=1, max_size=5), max_size=3),
    last=st.text(min_size=1),
)
async def test_streamed_and_complete_results_give_the_same_reply(steps: list[list[str | int]], last: str) -> None:
    """For any texts and tool calls, parallel and sequential."""
    numbers = count()

    def item(piece: str | int) -> Any:
        number = next(numbers)
        if isinstance(piece, str):
            return assistant_message(piece, item_id=f"m{number}")
        return function_call("double", {"x": piece}, call_id=f"c{number}")

    # A step with text alone would end the run.
    script = [[*map(item, step), item(1)] for step in steps]
    script.append([item(last)])
    helper = agent(*script, *script, tools=[double])

    @chat
    async def complete(messages: list[Message]) -> Any:
        return await Runner.run(helper, "Well?", run_config=RunConfig(tracing_disabled=True))

    assert reply_of(await run_agent(helper)) == reply_of(await run_to_end(complete, QUESTION))


# Over HTTP


@pytest.mark.parametrize("kind", [OpenAIChatCompletionsModel, OpenAIResponsesModel])
async def test_the_openai_models_of_the_sdk_return_what_the_server_sent(kind: Any) -> None:
    script = [
        {"reasoning": "Hm."},
        {"text": "Let "},
        {"text": "me see."},
        {"tool_call": {"id": "c1", "name": "double", "arguments": {"x": 1}}},
        {"tool_call": {"id": "c2", "name": "double", "arguments": {"x": 2}}},
    ]
    async with client(scripted) as http:
        api = AsyncOpenAI(api_key="none", base_url="http://localhost/scripted/v1", http_client=cast("Any", http))
        helper = agent(model=kind("scripted", api), tools=[double], tool_use_behavior="stop_on_first_tool")

        run = await run_agent(helper, Message.user(msgspec.json.encode(script).decode()))

    assert reply_of(run) == reply(
        Message.assistant(
            Reasoning(text="Hm."),
            Text(text="Let me see."),
            ToolCall(call_id="c1", name="double", arguments='{"x":1}'),
            ToolCall(call_id="c2", name="double", arguments='{"x":2}'),
        ),
        Message.tool("c1", 2),
        Message.tool("c2", 4),
        Message.assistant("2"),
    )


async def test_invoke_returns_the_same_answer_complete_and_streamed() -> None:
    def helper() -> Agent[Any]:
        return agent([function_call("double", {"x": 4}, call_id="c1")], [assistant_message("It is 8.")], tools=[double])

    body = {"messages": [{"role": "user", "content": "Twice four?"}]}
    async with client(chat(helper(), name="whole"), chat(helper(), name="streamed")) as http:
        complete = await http.post("/whole/invoke", json=body)
        stream = await http.post("/streamed/invoke", json=body, headers={"accept": "text/event-stream"})

    assert complete.status_code == stream.status_code == 200
    assert complete.json()[-1] == {"role": "assistant", "content": "It is 8."}
    assert "It is 8." in stream.text
