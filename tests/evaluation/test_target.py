"""The parameters shared by built-in evaluators that select the part of a case to evaluate."""

from typing import Any

import pytest
from msgspec import UNSET

from palaver.errors import InvalidValue
from palaver.evaluation.case import Case
from palaver.evaluation.score import ScoringError, Skip
from palaver.evaluation.target import Target
from tests.evaluation.evaluator_helpers import answer

CHAT_CASE = answer(
    [
        {
            "role": "assistant",
            "content": "First.",
            "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": '{"city": "Oslo", "n": 2}'}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "ok"},
        {"role": "assistant", "parts": [{"type": "data", "name": "code-edit", "value": {"new": "x = 1"}}]},
        {"role": "assistant", "content": 'Last: {"a": {"b": "deep"}}'},
    ],
    inputs={"topic": "maths", "messages": [1]},
)
VALUE_CASE = answer({"a": {"b": "deep", "n": 1}, "list": ["x"], "text": '{"c": 3}'}, is_chat=False)


@pytest.mark.parametrize(
    ("case", "target", "text"),
    [
        (CHAT_CASE, "text", 'Last: {"a": {"b": "deep"}}'),
        (CHAT_CASE, "all_text", 'First.\nLast: {"a": {"b": "deep"}}'),
        (CHAT_CASE, "tool_calls[0].parsed.city", "Oslo"),
        (CHAT_CASE, "$.tool_calls[0].name", "f"),
        (CHAT_CASE, "/tool_calls/0/result", "ok"),
        (CHAT_CASE, "data.code-edit.new", "x = 1"),
        (CHAT_CASE, "json.a.b", "deep"),
        (CHAT_CASE, "inputs.topic", "maths"),
        (CHAT_CASE, "messages[0].role", "assistant"),
        (CHAT_CASE, "turns[0].text", 'Last: {"a": {"b": "deep"}}'),
        (CHAT_CASE, "tool_calls[1].parsed.city", ""),
        (CHAT_CASE, "data.nothing", ""),
        (VALUE_CASE, "value.a.b", "deep"),
        (VALUE_CASE, "$.value.list[0]", "x"),
        (VALUE_CASE, "/value/list/0", "x"),
        (answer("text", is_chat=False), "text", "text"),
        (answer("text", is_chat=False), "all_text", "text"),
        (answer("text", is_chat=False), "value", "text"),
        (answer(""), "text", ""),
        (answer(), "all_text", ""),
    ],
)
def test_target_selects_a_text(case: Case, target: str, text: str) -> None:
    selected = Target(target=target)
    selected.check()

    assert selected.text(case) == text


@pytest.mark.parametrize(
    ("case", "target", "why"),
    [
        (VALUE_CASE, "text", "the workflow's value is not text (type: object); set stringify, or choose a text target"),
        (
            VALUE_CASE,
            "all_text",
            "the workflow's value is not text (type: object); set stringify, or choose a text target",
        ),
        (VALUE_CASE, "value.a", "value.a is not text (type: object); set stringify, or choose a text target"),
        (VALUE_CASE, "value.gone", "value.gone is missing"),
        (CHAT_CASE, "value", "value is missing"),
        (
            CHAT_CASE,
            "tool_calls[0].parsed",
            "tool_calls[0].parsed is not text (type: object); set stringify, or choose a text target",
        ),
    ],
)
def test_a_target_that_is_not_text_is_an_error_without_stringify(case: Case, target: str, why: str) -> None:
    with pytest.raises(ScoringError) as raised:
        Target(target=target).text(case)

    assert str(raised.value) == f"needs_text: {why}"


@pytest.mark.parametrize(
    ("case", "target", "text"),
    [
        (VALUE_CASE, "text", '{"a":{"b":"deep","n":1},"list":["x"],"text":"{\\"c\\": 3}"}'),
        (answer({"b": 1, "a": [1.5, None, "é"]}, is_chat=False), "text", '{"a":[1.5,null,"é"],"b":1}'),
        (VALUE_CASE, "value.a", '{"b":"deep","n":1}'),
        (answer(None, is_chat=False), "text", "null"),
        (answer("text", is_chat=False), "text", "text"),
        (CHAT_CASE, "tool_calls[0].parsed", '{"city":"Oslo","n":2}'),
    ],
)
def test_stringify_encodes_values_as_canonical_json(case: Case, target: str, text: str) -> None:
    assert Target(target=target, stringify=True).text(case) == text


@pytest.mark.parametrize(
    ("case", "target", "value"),
    [
        (CHAT_CASE, "text", {"a": {"b": "deep"}}),
        (CHAT_CASE, "all_text", {"a": {"b": "deep"}}),
        (CHAT_CASE, "tool_calls[0].parsed", {"city": "Oslo", "n": 2}),
        (CHAT_CASE, "data.code-edit", {"new": "x = 1"}),
        (CHAT_CASE, "json.a", {"b": "deep"}),
        (CHAT_CASE, "tool_calls[5]", UNSET),
        (VALUE_CASE, "value.a", {"b": "deep", "n": 1}),
        (VALUE_CASE, "value.text", {"c": 3}),
        (VALUE_CASE, "value.a.b", UNSET),
        (VALUE_CASE, "value.gone", UNSET),
        (answer("none"), "text", UNSET),
        (answer(), "text", UNSET),
    ],
)
def test_target_selects_a_json_value(case: Case, target: str, value: Any) -> None:
    assert Target(target=target).value(case) == value


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("reply", "invalid target 'reply': use text, all_text, or a path that starts with one of value, "),
        ("", "invalid target '': use text, "),
        ("$", "invalid target '$': use text, "),
        ("[0]", "invalid target '[0]': use text, "),
        ("value..a", "invalid path 'value..a': use a.b[0], $.a[0] or /a/0."),
    ],
)
def test_an_invalid_target_is_rejected(target: str, why: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        Target(target=target).check()

    assert refused.value.message.startswith(why)
    assert refused.value.pointer == "/parameters/target"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (None, {"text": "yes"}),
        ("other", "column"),
        ("a.b", "one column"),
        ("deep.list[1]", 2),
        ("/deep/list/0", 1),
        ("expected.text", "yes"),
        ("null", None),
    ],
)
def test_the_expected_value_comes_from_the_row(path: str | None, expected: Any) -> None:
    row = {"other": "column", "a.b": "one column", "a": {"b": 0}, "deep": {"list": [1, 2]}, "null": None}
    case = answer("x", row=row | {"expected": {"text": "yes"}}, expected={"text": "yes"})

    assert Target(expected_from=path).expected(case) == expected


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (None, "no_expected: the row has no expected answer"),
        ("gone", "no_expected: the row has no expected answer in 'gone'"),
        ("a[", "no_expected: the row has no expected answer in 'a['"),
    ],
)
def test_a_case_without_an_expected_value_is_skipped(path: str | None, why: str) -> None:
    with pytest.raises(Skip) as raised:
        Target(expected_from=path).expected(answer("x", row={"a": 1}))

    assert str(raised.value) == why


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("text", "text"),
        ({"role": "assistant", "content": "said"}, "said"),
        ([{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}], "b"),
        ({"role": "user", "content": "asked"}, "asked"),
    ],
)
def test_the_expected_text_may_come_from_a_message(expected: Any, text: str) -> None:
    assert Target().expected_text(answer("x", expected=expected)) == text


@pytest.mark.parametrize(
    ("value", "text"), [(5, "5"), (1.0, "1.0"), (10**30, "1" + "0" * 30), (True, "true"), (None, "null")]
)
def test_the_text_of_numbers_booleans_and_null_is_their_json(value: Any, text: str) -> None:
    case = answer(value, is_chat=False, expected=value)

    assert (Target().text(case), Target(target="value").text(case), Target().expected_text(case)) == (text, text, text)


@pytest.mark.parametrize("expected", [{"a": 1}, ["x"]])
def test_an_expected_value_that_is_not_text_is_an_error_without_stringify(expected: Any) -> None:
    case = answer("x", expected=expected)

    with pytest.raises(ScoringError, match="needs_text: the expected answer is not text"):
        Target().expected_text(case)
    assert isinstance(Target(stringify=True).expected_text(case), str)


def test_case_is_folded_unless_case_sensitive() -> None:
    assert Target().fold_case("Straße") == "Straße"
    assert Target(case_sensitive=False).fold_case("Straße") == "strasse"
    assert Target(case_sensitive=False).fold_value({"A": ["B"]}) == {"A": ["b"]}
    assert Target().value_at("a[0]", {"a": [1]}) == 1
    assert Target().value_at("a[", {"a": [1]}) is UNSET
