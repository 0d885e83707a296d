"""Whoever sends a talk with tools, by whichever convention: the table shows it as the conversation that it was.

Each turn is one row, and beside them is none but those that test_further.py looks at.
"""

from typing import Any

from tests.conformance.telemetry.house import Emitted
from tests.conformance.telemetry.talk import seen, talk, tool

AGENT = ("agent", ("llm",), ("llm",), ("tool",))
"""An agent's run: calls of a model, and a tool."""
CALLS = ("unknown", ("llm",), ("llm",))
"""Calls of a model below a span of somebody's own."""
GRAPH = ("task", ("task", ("llm",)), ("task", ("llm",)), ("task", ("tool",)))


def test_the_opentelemetry_sdk_in_both_forms(emitted: Emitted) -> None:
    table = emitted("opentelemetry_sdk.py")

    assert seen(table, "protobuf") == talk("protobuf", AGENT, workflow="forecaster")
    assert seen(table, "json") == talk("json", AGENT, workflow="forecaster")
    assert table.count() == 4


def test_a_langchain_agent_by_openinference(emitted: Emitted) -> None:
    table = emitted("langchain_agent.py")

    # LangChain gives a tool of one argument just that, and its graph does not know what its model was instructed.
    tools = [[tool("Oslo", "4 °C", inputs="Oslo")], [tool("Bergen", "9 °C", inputs="Bergen")]]
    assert seen(table, "s-1") == talk("s-1", GRAPH, leading=[], tools=tools)
    assert table.count() == 3


def test_the_openai_sdk_by_openllmetry(emitted: Emitted) -> None:
    table = emitted("openai_sdk.py")

    for session in ("chat", "chat-streamed", "responses", "responses-streamed"):
        assert seen(table, session) == talk(session, CALLS, tools=[[], []])
    assert table.count() == 9


def test_a_pydantic_ai_agent_in_every_version_of_its_spans(emitted: Emitted) -> None:
    table = emitted("pydantic_agent.py")

    for version in (2, 3, 4, 5, 6):
        assert seen(table, f"v{version}") == talk(f"v{version}", AGENT, user=None, workflow="forecaster")
    assert table.count() == 10


def test_an_agent_under_mlflow(emitted: Emitted) -> None:
    table = emitted("mlflow_agent.py")

    def weather(city: str, said: str) -> dict[str, Any]:
        return tool(city, said, tool={"name": "weather"})  # It does not know which call it answers.

    tools = [[weather("Oslo", "4 °C")], [weather("Bergen", "9 °C")]]
    assert seen(table, "s-1") == talk("s-1", AGENT, tools=tools, out="text")
    assert table.count() == 2


STEPS = ("agent", ("llm",), ("llm", ("tool",)))
"""Where a tool runs while the answer of the model is still read."""
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


def test_the_ai_sdk_in_three_versions_whole_and_streamed(emitted: Emitted) -> None:
    table = emitted("ai_sdk.mjs")

    for session, tree in TREES.items():
        assert seen(table, session) == talk(session, tree, workflow="forecaster")
    assert table.count() == 18
