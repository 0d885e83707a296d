"""A conversation with tools is recognized for every emitter and convention.

Each turn is one row; test_other_spans.py tests the remaining rows.
"""

from typing import Any

from tests.conformance.telemetry.trace_server import RunEmitter
from tests.conformance.telemetry.weather_chat import actual_view, expected_view, tool_span

AGENT = ("agent", ("llm",), ("llm",), ("tool",))
"""An agent's run: model calls and a tool."""
CALLS = ("unknown", ("llm",), ("llm",))
"""Model calls below a custom span."""
GRAPH = ("task", ("task", ("llm",)), ("task", ("llm",)), ("task", ("tool",)))


def test_opentelemetry_sdk_spans_are_recognized_in_protobuf_and_json(emitted: RunEmitter) -> None:
    table = emitted("opentelemetry_sdk.py")

    assert actual_view(table, "protobuf") == expected_view("protobuf", AGENT, workflow="forecaster")
    assert actual_view(table, "json") == expected_view("json", AGENT, workflow="forecaster")
    assert table.count() == 4


def test_langchain_agent_spans_of_openinference_are_recognized(emitted: RunEmitter) -> None:
    table = emitted("langchain_agent.py")

    # LangChain passes a single argument bare, and its graph doesn't contain the model's instructions.
    tools = [[tool_span("Oslo", "4 °C", inputs="Oslo")], [tool_span("Bergen", "9 °C", inputs="Bergen")]]
    assert actual_view(table, "s-1") == expected_view("s-1", GRAPH, leading=[], tools=tools)
    assert table.count() == 3


def test_openai_sdk_spans_of_openllmetry_are_recognized(emitted: RunEmitter) -> None:
    table = emitted("openai_sdk.py")

    for session in ("chat", "chat-streamed", "responses", "responses-streamed"):
        assert actual_view(table, session) == expected_view(session, CALLS, tools=[[], []])
    assert table.count() == 9


def test_pydantic_ai_spans_of_every_version_are_recognized(emitted: RunEmitter) -> None:
    table = emitted("pydantic_agent.py")

    for version in (2, 3, 4, 5, 6):
        assert actual_view(table, f"v{version}") == expected_view(
            f"v{version}", AGENT, user=None, workflow="forecaster"
        )
    assert table.count() == 10


def test_mlflow_agent_spans_are_recognized(emitted: RunEmitter) -> None:
    table = emitted("mlflow_agent.py")

    def weather(city: str, output: str) -> dict[str, Any]:
        return tool_span(city, output, tool={"name": "weather"})  # Without the id of the call.

    tools = [[weather("Oslo", "4 °C")], [weather("Bergen", "9 °C")]]
    assert actual_view(table, "s-1") == expected_view("s-1", AGENT, tools=tools, out="text")
    assert table.count() == 2


STEPS = ("agent", ("llm",), ("llm", ("tool",)))
"""The tool runs while the model's answer is still streaming."""
TREES = {
    "5-whole": AGENT,
    "5-streamed": STEPS,
    "6-whole": AGENT,
    "6-streamed": AGENT,
    "7-whole": ("agent", ("task", ("llm",)), ("task", ("llm",), ("tool",))),
    "7-streamed": ("agent", ("task", ("llm",)), ("task", ("llm",), ("tool",))),
    "7-legacy-whole": STEPS,
    "7-legacy-streamed": STEPS,
}


def test_ai_sdk_spans_of_three_versions_are_recognized_complete_and_streamed(emitted: RunEmitter) -> None:
    table = emitted("ai_sdk.mjs")

    for session, tree in TREES.items():
        assert actual_view(table, session) == expected_view(session, tree, workflow="forecaster")
    assert table.count() == 18
