"""The demo's workflows: their answers, and that each is short enough to be shown in the docs."""

from pathlib import Path
from typing import Any

import pytest

from palaver import Message, demo
from palaver.demo.calculator import plan
from palaver.demo.eliza import answer, reflect
from palaver.testing import client

FOLDER = Path(demo.__file__).parent


@pytest.mark.parametrize("name", demo.__all__)
def test_each_demo_workflow_is_under_80_lines(name: str) -> None:
    assert len((FOLDER / f"{name}.py").read_text(encoding="utf-8").splitlines()) < 80


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], "Hello. What brings you here today?"),
        (["I am worried about my code."], "How long have you been worried about your code?"),
        (["I need you to listen to me!"], "What would it change if you had I to listen to you?"),
        (["My mother called"], "Tell me more about your mother."),
        (["zzz"], "Please go on."),
        (["zzz", "yyy"], "What does that suggest to you?"),
        (["I feel odd", "I feel odd"], "Who else knows that you feel odd?"),
    ],
)
def test_eliza_reflects_a_statement_back(lines: list[str], expected: str) -> None:
    assert answer(lines) == expected


def test_eliza_keeps_braces_and_backslashes_unchanged() -> None:
    assert answer([r"I am {0} \1 {name}"]) == r"How long have you been {0} \1 {name}?"
    assert reflect("") == ""


async def test_eliza_streams_its_answer_word_by_word() -> None:
    words = [word async for word in demo.eliza([Message.user("hello")])]

    assert words == ["Hello. ", "What ", "brings ", "you ", "here ", "today?"]


async def ask_calculator(question: str, **parameters: str) -> Any:
    body = {"messages": [{"role": "user", "content": question}], "parameters": parameters}
    async with client(demo.calculator) as http:
        answer = await http.post("/invoke", json=body)
    return answer.json()


@pytest.mark.parametrize(
    ("question", "result"),
    [("What is (2 + 3) * 4?", "20"), ("2+3*4", "14"), ("10 / 4", "2.5"), ("1 - 2 - 3", "-4"), ("0.1 + 0.2", "0.3")],
)
async def test_the_calculator_computes_the_result_with_a_tool_call(question: str, result: str) -> None:
    messages = await ask_calculator(question)

    assert messages[-1] == {"role": "assistant", "content": f"The answer is {result}."}
    assert messages[-2] == {"role": "tool", "tool_call_id": messages[-2]["tool_call_id"], "content": result}


@pytest.mark.parametrize(
    ("question", "result"), [("2 + 3 * 4", "20"), ("2 * 3 + 4", "10"), ("2 + (3 * 4)", "14"), ("8 - 6 / 2", "1")]
)
async def test_the_calculator_can_compute_in_the_order_as_written(question: str, result: str) -> None:
    assert (await ask_calculator(question, order="as written"))[-1]["content"] == f"The answer is {result}."


async def test_a_division_by_zero_is_a_failed_tool_call_with_an_answer() -> None:
    messages = await ask_calculator("1 / 0")

    assert messages[1]["palaver"] == {"is_error": True}
    assert messages[2]["content"] == "I can't divide 1 by 0."


@pytest.mark.parametrize("question", ["hello", "(2 3", "((1)", "2 +", "+ * /", "1234567890123456 + 1", ""])
async def test_a_message_without_valid_arithmetic_gets_a_hint(question: str) -> None:
    assert (await ask_calculator(question))["content"] == "Give me something to calculate, such as (2 + 3) * 4."


def test_products_come_before_sums_and_brackets_before_both() -> None:
    assert [sign for sign, _, _ in plan(["1", "+", "2", "*", "3"])] == ["*", "+"]
    assert [sign for sign, _, _ in plan(["(", "1", "+", "2", ")", "*", "3"])] == ["+", "*"]


async def test_a_second_question_in_the_same_conversation_gets_new_calls() -> None:
    first = await ask_calculator("1 + 1")
    history = [{"role": "user", "content": "1 + 1"}, *first, {"role": "user", "content": "2 + 2"}]
    async with client(demo.calculator) as http:
        second = (await http.post("/invoke", json={"messages": history})).json()

    assert second[-1]["content"] == "The answer is 4."
    assert {m["tool_call_id"] for m in first if m["role"] == "tool"}.isdisjoint(
        m["tool_call_id"] for m in second if m["role"] == "tool"
    )


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"text": "It was late. The rain fell, and the rain fell on the town."}, "The Rain Fell, and the Rain Fell"),
        ({"text": "The rain fell on the town.", "words": 4}, "The Rain Fell"),
        ({"text": "one word"}, "One Word"),
    ],
)
def test_a_headline_is_taken_from_the_most_informative_sentence(inputs: dict[str, Any], expected: str) -> None:
    assert demo.headline(**inputs) == expected


async def test_a_headline_of_blank_text_fails_with_nothing_to_say() -> None:
    async with client(demo.headline) as http:
        answer = await http.post("/invoke", json={"inputs": {"text": "  "}, "parameters": {"style": "plain"}})

    assert (answer.status_code, answer.json()["status"]["type"]) == (422, "nothing_to_say")


async def test_echo_returns_its_inputs() -> None:
    async with client(demo.echo) as http:
        answer = await http.post("/invoke", json={"inputs": {"a": [1, None], "b": {"c": "d"}}})

    assert answer.json() == {"a": [1, None], "b": {"c": "d"}}
