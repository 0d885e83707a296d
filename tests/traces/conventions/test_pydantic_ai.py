"""Spans sent by real Pydantic AI agents, in every supported format, are conversations."""

from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import (
    Agent,
    InstrumentationSettings,
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from palaver.core.messages import Message, ToolCall
from palaver.traces.model import RawSpan, Span, Tool
from palaver.traces.span_mapper import to_span

CALL_MESSAGE = Message.assistant(ToolCall("c1", "now", '{"tz":"UTC"}'))
PROMPT = (Message.system("Be brief."), Message.system("You tell the time."), Message.user("Time?"))
ANSWER = (CALL_MESSAGE, Message.tool("c1", "noon"), Message.assistant("Noon."))


def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    after_tool = any(isinstance(part, ToolReturnPart) for message in messages for part in message.parts)
    return ModelResponse(
        parts=[TextPart("Noon.") if after_tool else ToolCallPart("now", {"tz": "UTC"}, tool_call_id="c1")]
    )


def map_span(span: ReadableSpan) -> Span:
    attributes: dict[str, Any] = {
        name: list(value) if isinstance(value, tuple) else value for name, value in (span.attributes or {}).items()
    }
    start = datetime(2026, 11, 15, tzinfo=UTC)
    return to_span(
        RawSpan(trace_id="1" * 32, span_id="2" * 16, name=span.name, start=start, attributes=attributes), project="p"
    )


@pytest.mark.filterwarnings("ignore:Instrumentation format versions")
@pytest.mark.parametrize("version", [2, 3, 4, 5, 6])
async def test_two_runs_of_an_agent_with_a_tool_are_conversations(version: Literal[2, 3, 4, 5, 6]) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    agent = Agent(FunctionModel(answer), name="clock", instructions="Be brief.", system_prompt="You tell the time.")
    agent.instrument = InstrumentationSettings(tracer_provider=provider, version=version)

    @agent.tool_plain
    def now(tz: str) -> str:
        return f"noon{tz[3:]}"

    first = await agent.run("Time?")
    await agent.run("Sure?", message_history=first.all_messages())
    spans = [map_span(span) for span in sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0)]

    assert now("UTC") == "noon"
    assert [span.kind for span in spans] == ["agent", "llm", "tool", "llm", "agent", "llm"]
    run, first_call, tool, after_tool, second_run, _ = spans
    assert (run.workflow, run.messages_in, run.messages_out, run.outputs) == ("clock", PROMPT, ANSWER, "Noon.")
    assert (first_call.messages_in, first_call.messages_out) == (PROMPT, (CALL_MESSAGE,))
    assert (tool.tool, tool.inputs, tool.outputs) == (Tool("now", "c1"), {"tz": "UTC"}, "noon")
    assert (after_tool.messages_in, after_tool.messages_out) == ((*PROMPT, *ANSWER[:2]), ANSWER[2:])
    assert (second_run.messages_in, second_run.messages_out) == ((*PROMPT, *ANSWER, Message.user("Sure?")), ANSWER[2:])
    assert all(span.usage and span.session and span.notes == () for span in (run, first_call, after_tool, second_run))
