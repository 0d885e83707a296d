"""The question beside a history is its last user turn, and the answer follows it except in input columns."""

from typing import Any

import pytest
from msgspec import UNSET

from palaver.core.extraction import preview, read_conversation

H = [{"role": "user", "content": "Any snow?"}, {"role": "assistant", "content": "A little."}]
Q = "And tomorrow?"
HISTORY = [("user", "Any snow?"), ("assistant", "A little.")]
QUESTION, ANSWER = ("user", Q), ("assistant", "None.")


def read(value: Any, prefer: Any = None) -> Any:
    """The messages, the path and the other paths."""
    found = read_conversation(value, prefer)
    if found is None:
        return None
    return [(message.role, message.text) for message in found.messages], found.path, found.other_paths


@pytest.mark.parametrize("prefer", [None, "input", "output"])
@pytest.mark.parametrize(
    ("question", "history"),
    [("input", "chat_history"), ("question", "history"), ("content", "history"), ("query", "message_history")],
)
def test_the_question_is_the_last_user_turn(question: str, history: str, prefer: Any) -> None:
    whole = [*HISTORY, QUESTION]

    assert read({question: Q, history: H}, prefer) == (whole, f"/{history}", (f"/{question}",))
    assert read({"inputs": {history: H, question: Q}}, prefer) == (
        whole,
        f"/inputs/{history}",
        (f"/inputs/{question}",),
    )
    assert read({question: Q, history: []}, prefer) == ([QUESTION], f"/{history}", (f"/{question}",))


@pytest.mark.parametrize(
    ("prefer", "messages"),
    [(None, [*HISTORY, QUESTION, ANSWER]), ("input", [*HISTORY, QUESTION]), ("output", [*HISTORY, QUESTION, ANSWER])],
)
def test_the_answer_follows_the_question_except_in_an_input_column(prefer: Any, messages: Any) -> None:
    found = read({"input": Q, "chat_history": H, "output": "None."}, prefer)

    assert found[0] == messages


def test_a_turn_that_the_history_already_ends_with_is_not_repeated() -> None:
    asked = [*H, {"role": "user", "content": f" {Q}\n"}]
    answered = [*asked, {"role": "assistant", "content": "None."}]
    whole = [*HISTORY, ("user", f" {Q}\n"), ANSWER]

    assert read({"question": Q, "history": asked})[0] == whole[:3]
    assert read({"question": Q, "history": asked, "answer": "None."})[0] == whole
    assert read({"question": Q, "history": answered, "answer": "None."}, "input")[0] == whole


@pytest.mark.parametrize("prefer", [None, "input", "output"])
def test_a_question_of_messages_follows_its_history(prefer: Any) -> None:
    question = [{"role": "user", "content": Q}]

    assert read({"input": question, "history": H}, prefer)[0] == [*HISTORY, QUESTION]
    assert read({"input": question[0], "history": H}, prefer)[0] == [*HISTORY, QUESTION]


def test_a_history_as_json_text_is_completed_and_a_question_that_is_json_stays_text() -> None:
    history = '[{"role":"user","content":"Any snow?"},{"role":"assistant","content":"A little."}]'

    assert read({"question": '{"a": 1}', "history": history})[0] == [*HISTORY, ("user", '{"a": 1}')]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"content": " ", "history": H}, (HISTORY, "/history", UNSET)),
        ({"content": 5, "history": H}, (HISTORY, "/history", UNSET)),
        ({"question": Q, "messages": H}, (HISTORY, "/messages", UNSET)),
        ({"role": "assistant", "content": "x", "history": H}, (HISTORY, "/history", UNSET)),
        ({"role": "user", "content": Q, "history": []}, ([QUESTION], "", UNSET)),
        ({"prompt": [{"role": "system", "content": "Be kind."}, *H], "history": H}, (HISTORY, "/history", UNSET)),
        ({"question": Q, "history": [1, 2]}, None),
        ({"question": " ", "history": []}, None),
        ({"history": []}, None),
    ],
)
def test_other_neighbours_are_no_turn(value: Any, found: Any) -> None:
    assert read(value) == found


def test_a_cell_shows_the_question_and_the_answer() -> None:
    value = {"question": Q, "history": H, "answer": "None."}

    assert (preview(value, "input").text, preview(value, "output").text) == (Q, "None.")
