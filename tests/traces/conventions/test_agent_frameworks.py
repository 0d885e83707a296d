"""smolagents and CrewAI under OpenInference: what recorded conversations (tests/conformance/telemetry) don't have."""

from typing import Any

import msgspec
import pytest

from palaver.core import json
from palaver.core.messages import Message, Text, ToolCall, ToolResult
from palaver.traces.conventions import openinference
from palaver.traces.conventions.attributes import SpanFields
from tests.traces.conventions.convention_cases import raw_span

PREFIX = "llm.input_messages"


def fields_of(scope: str, attributes: dict[str, Any]) -> SpanFields:
    raw = msgspec.structs.replace(raw_span(attributes), scope=f"openinference.instrumentation.{scope}")
    return openinference.read_fields(raw)


def smolagents(*messages: tuple[str, str]) -> Any:
    attributes = {"openinference.span.kind": "LLM"}
    for index, (role, text) in enumerate(messages):
        attributes[f"{PREFIX}.{index}.message.role"] = role
        attributes[f"{PREFIX}.{index}.message.content"] = text
    return fields_of("smolagents", attributes).messages_in


CALL = "[{'id': 'c', 'type': 'function', 'function': {'name': 'weather', 'arguments': {'city': 'Oslo'}}}]"


def test_calls_and_results_of_smolagents_are_read_from_their_texts() -> None:
    assert smolagents(
        ("user", "New task:\nSnow?"), ("tool-call", f"Calling tools:\n{CALL}"), ("tool-response", "Observation:\n4 °C")
    ) == (
        Message.user("Snow?"),
        Message.assistant(ToolCall("c", "weather", '{"city":"Oslo"}')),
        Message("tool", (ToolResult("", "4 °C"),)),
    )


@pytest.mark.parametrize(
    "text",
    [
        "Calling tools:\nweather()",
        "Calling tools:\n[__import__('os')]",
        "Calling tools:\n" + "[" * 5_000,
        "Calling tools:\n" + "-" * 60_000 + "1",
        "Calling tools:\n[{'function': 5}, 7]",
        f"Calling tools:\n{CALL}" + " " * 70_000,
    ],
)
def test_a_text_that_holds_no_calls_stays_a_text(text: str) -> None:
    assert smolagents(("tool-call", text)) == (Message.assistant(Text(text)),)


def test_the_final_answer_is_text_and_its_result_is_left_out() -> None:
    answer = "[{'id': 'c', 'function': {'name': 'final_answer', 'arguments': {'answer': 'Snow.'}}}]"

    assert smolagents(("tool-call", answer), ("tool-response", "Observation:\nSnow."), ("user", "New task:\nWhy?")) == (
        Message.assistant("Snow."),
        Message.user("Why?"),
    )


def crew(output: Any, **attributes: Any) -> tuple[Any, Any]:
    fields = fields_of("crewai", {"output.value": json.encode(output).decode(), **attributes})
    return fields.messages_in or (), fields.messages_out or ()


def test_tasks_of_a_crew_without_messages_are_questions_and_answers() -> None:
    tasks = [{"description": "Snow?", "raw": "A little."}, {"description": "Why?", "raw": "Cold."}]

    assert crew({"raw": "Cold.", "tasks_output": tasks}) == (
        (Message.user("Snow?"), Message.assistant("A little."), Message.user("Why?")),
        (Message.assistant("Cold."),),
    )


def test_a_crew_with_an_answer_of_text_has_the_question_of_its_tasks() -> None:
    tasks = json.encode([{"description": "Snow?"}]).decode()

    assert crew("A little.", crew_tasks=tasks) == ((Message.user("Snow?"),), ())


@pytest.mark.parametrize("output", [{}, {"tasks_output": 5}, {"tasks_output": [5]}, {"raw": 5}, [1], None])
def test_other_outputs_give_no_messages(output: Any) -> None:
    assert crew(output) == ((), ())
