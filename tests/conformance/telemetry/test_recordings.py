"""Conversations of emitters that need an environment of their own, as record.py recorded them (recorded/)."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.conformance.telemetry.record import PROGRAMS, REQUIREMENTS
from tests.conformance.telemetry.trace_server import ProjectView, TraceServer
from tests.conformance.telemetry.weather_chat import actual_view, expected_view, tool_span

AGENT = ("agent", ("llm",), ("llm",), ("tool",))
CALLS = ("unknown", ("llm",), ("llm",))


def replay(view: ProjectView, name: str, *, logs_first: bool | None = None) -> None:
    """Send a recording again, to the same paths and with a key in the same place."""
    lines = (PROGRAMS / f"{name}.jsonl").read_text("utf-8").splitlines()
    requests = [json.loads(line) for line in lines]
    if logs_first is not None:
        requests.sort(key=lambda request: request["path"].endswith("/logs") != logs_first)
    for request in requests:
        secret = base64.b64encode(f"pk-lf-1:{view.key}".encode()).decode() if request["scheme"] == "Basic" else view.key
        headers = {"authorization": f"{request['scheme'] or 'Bearer'} {secret}"}
        answer = httpx.post(f"{view.url}{request['path']}", json=request["body"], headers=headers)
        assert (answer.status_code, answer.json()) == (200, {}), answer.text


@pytest.fixture
def view(trace_server: TraceServer) -> Iterator[ProjectView]:
    with trace_server.create_project() as created:
        yield created


def test_every_emitter_has_a_recording_and_a_program() -> None:
    assert sorted(path.stem for path in PROGRAMS.glob("*.jsonl")) == sorted(REQUIREMENTS)


def named_tools(**differences: Any) -> list[Any]:
    """The tool spans of emitters that don't record the ids of calls."""
    return [
        [tool_span(city, output, tool={"name": "weather"}, **differences)]
        for city, output in (("Oslo", "4 °C"), ("Bergen", "9 °C"))
    ]


TEXT = {"in": "text", "out": "text"}
STEPS = ("agent", ("task", ("llm",)), ("task", ("llm",), ("tool",)))


def test_langfuse_sends_to_its_own_path_with_basic_authentication(view: ProjectView) -> None:
    replay(view, "langfuse_sdk")

    expected = expected_view("s-1", AGENT, workflow="forecaster", tools=named_tools(), provider=None, **TEXT)
    assert actual_view(view, "s-1") == expected


def test_agenta_sends_to_its_own_path(view: ProjectView) -> None:
    replay(view, "agenta_sdk")

    tree = ("workflow", ("llm",), ("llm",), ("tool",))
    unknown = dict.fromkeys(("user", "model", "provider", "input_tokens", "output_tokens"))
    assert actual_view(view, "s-1") == expected_view("s-1", tree, tools=named_tools(), **unknown)


@pytest.mark.parametrize("name", ["strands_agent", "strands_agent_latest"])
def test_strands_has_messages_in_one_event_each_or_in_several_events_of_details(view: ProjectView, name: str) -> None:
    replay(view, name)

    result = (lambda text: [{"text": text}]) if name == "strands_agent_latest" else str
    tools = [[tool_span("Oslo", result("4 °C"))], [tool_span("Bergen", result("9 °C"))]]
    expected = expected_view("s-1", STEPS, workflow="forecaster", provider="strands-agents", tools=tools)
    assert actual_view(view, "s-1") == expected


def test_smolagents_calls_are_calls_and_its_final_answer_is_text(view: ProjectView) -> None:
    replay(view, "smolagents_agent")

    table = actual_view(view, "s-1")
    [[_, instructions]] = table["thread"][0][:1]
    tree = ("agent", ("task", ("llm",), ("task",)), ("task", ("llm",), ("tool",)))
    leading = [("system", instructions)]
    assert table == expected_view("s-1", tree, leading=leading, tools=named_tools(), out="text")


def test_crewai_tasks_are_questions_with_calls_and_answers(view: ProjectView) -> None:
    replay(view, "crewai_crew")

    table = actual_view(view, "s-1")
    leading = [("system", "You are forecaster. Be brief.\nYour personal goal is: Tell the weather.")]
    unknown = dict.fromkeys(("model", "provider", "input_tokens", "output_tokens"))
    expected = expected_view("s-1", ("task", ("agent", ("tool",))), leading=leading, tools=named_tools(), **unknown)
    second = [*leading, *expected["conversations"][1][-4:]]  # A crew has no memory.
    assert table == {**expected, "conversations": [expected["conversations"][0], second]}


def test_logfire_spans_have_the_names_of_their_messages(view: ProjectView) -> None:
    replay(view, "logfire_openai")

    table = actual_view(view, "s-1")
    assert table["conversations"] == expected_view("s-1", CALLS)["conversations"]
    assert [row["name"] for row in view.rows("s-1")] == [
        "Answer What is the weather in Oslo?",
        "Answer And in Bergen?",
    ]


@pytest.mark.parametrize("logs_first", [True, False])
def test_openai_instrumentation_of_opentelemetry_has_messages_in_logs(view: ProjectView, *, logs_first: bool) -> None:
    replay(view, "openai_v2", logs_first=logs_first)

    assert actual_view(view, "s-1") == expected_view("s-1", CALLS, user=None, tools=[[], []])


@pytest.mark.parametrize("logs_first", [True, False])
def test_adk_has_messages_in_logs(view: ProjectView, *, logs_first: bool) -> None:
    replay(view, "adk_agent", logs_first=logs_first)

    expected = expected_view(
        "s-1",
        ("workflow", ("agent", ("llm",), ("llm",), ("tool",))),
        leading=[("system", 'Be brief.\n\nYou are an agent. Your internal name is "forecaster".')],
        result=lambda output: {"result": output},
        tools=[[tool_span(city, None, inputs=None)] for city in ("Oslo", "Bergen")],
        workflow="forecaster",
        model="gemini-2.5-flash",
        provider="gcp.gemini",
        user=None,
    )
    assert actual_view(view, "s-1") == expected
