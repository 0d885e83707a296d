"""exact_match: texts as they are, messages by content, other JSON by value."""

from typing import Any

import pytest

from palaver.core.dialects import write
from tests.evaluation.evaluator_helpers import answer, score_case, verdict


def call(name: str, arguments: str, call_id: str = "a") -> dict[str, Any]:
    """A tool call in Chat Completions format."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def call_message(*calls: dict[str, Any], text: str | None = None) -> dict[str, Any]:
    """A message with tool calls."""
    return {"role": "assistant", "content": text, "tool_calls": list(calls)}


@pytest.mark.parametrize(
    ("output", "expected", "parameters", "passed"),
    [
        ("Oslo", "Oslo", {}, True),
        ("Oslo", "oslo", {}, False),
        ("Oslo", "oslo", {"case_sensitive": False}, True),
        ("STRASSE", "straße", {"case_sensitive": False}, True),
        (" Oslo\n", "Oslo", {}, False),
        (" Oslo\n", "Oslo", {"trim": True}, True),
        ("a  b\n c", "a b c", {}, False),
        ("a  b\n c", "a b c", {"collapse_space": True}, True),
        (" a  b ", "a b", {"collapse_space": True}, False),
        (" a  b ", "a b", {"collapse_space": True, "trim": True}, True),
        ("", "", {}, True),
        (None, "", {}, True),
        ("", "x", {}, False),
        ("42", 42, {}, True),
        ("42.0", 42, {}, True),
        ("true", 1, {}, False),
        ("true", True, {}, True),
        ("TRUE", True, {}, False),
        ("TRUE", True, {"case_sensitive": False}, True),
        (" 42 ", 42, {"trim": True}, True),
        ("null", None, {}, True),
        ("", None, {}, False),
        ('{"a": 1, "b": [2]}', {"b": [2.0], "a": 1}, {}, True),
        ('Here: {"a": 1}', {"a": 1}, {}, False),
        ('```json\n{"a": 1}\n```', {"a": 1}, {}, False),
        ("[1, 2]", [1, 2], {}, True),
        ("[2, 1]", [1, 2], {}, False),
        ("1.01", 1, {"tolerance": 0.1}, True),
        ('"Oslo"', "Oslo", {}, False),
        ('{"a": "X"}', {"a": "x"}, {"case_sensitive": False}, True),
        ({"a": 1}, {"a": 1}, {}, True),
        ({"a": 1}, {"a": 2}, {}, False),
        ("x" * 20, "x" * 21, {}, False),
    ],
)
async def test_a_chats_text_is_compared(output: Any, expected: Any, parameters: dict[str, Any], passed: bool) -> None:
    one = await score_case("exact_match", answer(output, expected=expected), **parameters)

    assert (one.status, one.passed, one.score) == ("scored", passed, float(passed))


@pytest.mark.parametrize(
    ("output", "expected", "result"),
    [
        ("Oslo", "Oslo", True),
        ("42", 42, True),
        (42, 42, True),
        (42, 42.0, True),
        (True, 1, False),
        (None, None, True),
        ({"a": [1, {"b": None}]}, {"a": [1.0, {"b": None}]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([], [], True),
        ([{"role": "assistant", "content": "x"}], [{"role": "assistant", "content": "x"}], True),
        ([{"role": "assistant", "content": "x", "id": 1}], [{"role": "assistant", "content": "x"}], False),
        (42, "42", True),
        (42, "42.0", False),
        (None, "null", True),
        (True, "true", True),
        ({"a": 1}, '{"a":1}', "needs_text"),
    ],
    ids=repr,
)
async def test_a_workflows_value_is_compared(output: Any, expected: Any, result: bool | str) -> None:
    assert await verdict("exact_match", answer(output, is_chat=False, expected=expected)) == result


CONVERSATION = [
    call_message(call("search", '{"q": "x", "n": 1}', "one"), text="Let me see."),
    {"role": "tool", "tool_call_id": "one", "content": '{"hits": 2}'},
    {"role": "assistant", "content": "Two."},
]


@pytest.mark.parametrize(
    ("output", "expected", "passed"),
    [
        ("Two.", {"role": "assistant", "content": "Two."}, True),
        ("Two.", {"role": "assistant", "content": "Three."}, False),
        ("Two.", {"role": "user", "content": "Two."}, False),
        ("Two.", {"role": "assistant", "parts": [{"type": "text", "text": "Two."}]}, True),
        ("Two.", [{"role": "assistant", "content": "Two."}], True),
        (CONVERSATION, {"role": "assistant", "content": "Two."}, True),
        (CONVERSATION, [{"role": "assistant", "content": "Two."}], False),
        (CONVERSATION, CONVERSATION, True),
        (CONVERSATION, CONVERSATION[:2], False),
        (CONVERSATION[:2], CONVERSATION, False),
        # Ids, key order, number formatting and fields added by a provider do not matter.
        (
            CONVERSATION,
            [
                call_message(call("search", '{"n": 1.0, "q": "x"}', "other"), text="Let me see.") | {"annotations": []},
                {"role": "tool", "tool_call_id": "other", "content": '{"hits":2}'},
                {"role": "assistant", "content": "Two.", "id": "msg_1", "refusal": None},
            ],
            True,
        ),
        (
            CONVERSATION,
            [call_message(call("search", '{"q": "y", "n": 1}'), text="Let me see."), *CONVERSATION[1:]],
            False,
        ),
        (
            CONVERSATION,
            [call_message(call("find", '{"q": "x", "n": 1}', "one"), text="Let me see."), *CONVERSATION[1:]],
            False,
        ),
        (
            CONVERSATION,
            [call_message(call("search", '{"q": "x", "n": 1}', "one"), text="Wait."), *CONVERSATION[1:]],
            False,
        ),
        (
            CONVERSATION,
            [CONVERSATION[0], {"role": "tool", "tool_call_id": "one", "content": "3"}, CONVERSATION[2]],
            False,
        ),
        (call_message(call("f", "{}")), call_message(call("f", "{}", "b")), True),
        (call_message(call("f", "{}")), call_message(call("f", "")), True),
        (call_message(call("f", "{}")), {"role": "assistant", "content": None, "tool_calls": [call("f", "{")]}, False),
        (
            call_message(call("f", "{}"), call("g", "{}", "b")),
            call_message(call("g", "{}"), call("f", "{}", "b")),
            False,
        ),
        (call_message(call("f", "{}")), {"role": "assistant", "content": ""}, False),
        (
            {"role": "assistant", "content": None, "refusal": "No."},
            {"role": "assistant", "content": "", "refusal": "No."},
            True,
        ),
        ({"role": "assistant", "content": None, "refusal": "No."}, {"role": "assistant", "content": "No."}, False),
        (None, {"role": "assistant", "content": "x"}, False),
    ],
)
async def test_messages_are_compared_by_roles_texts_and_calls(output: Any, expected: Any, passed: bool) -> None:
    assert await verdict("exact_match", answer(output, expected=expected)) is passed


@pytest.mark.parametrize("dialect", ["chat-completions", "palaver", "ui-message", "langchain"])
async def test_an_answer_matches_itself_in_every_dialect(dialect: Any) -> None:
    case = answer(CONVERSATION)

    assert await verdict("exact_match", answer(CONVERSATION, expected=write(case.messages, dialect))) is True


async def test_trim_and_case_folding_apply_to_texts_of_messages() -> None:
    case = answer(" two.\n", expected={"role": "assistant", "content": "Two."})

    assert await verdict("exact_match", case) is False
    assert await verdict("exact_match", case, trim=True, case_sensitive=False) is True


@pytest.mark.parametrize(
    ("target", "expected", "passed"),
    [
        ("value.city", "Oslo", True),
        ("value.n", 2, True),
        ("value.text", [1], True),
        ("value.none", None, True),
        ("value.gone", None, False),
        ("json.n", 2, True),
    ],
)
async def test_a_target_path_selects_the_compared_value(target: str, expected: Any, passed: bool) -> None:
    case = answer({"city": "Oslo", "n": 2, "text": "[1]", "none": None}, is_chat=False, expected=expected)

    assert await verdict("exact_match", case, target=target) is passed


async def test_the_reason_says_where_the_texts_differ_or_what_is_missing() -> None:
    assert (await score_case("exact_match", answer("Oslo", expected="Osla"))).reason == (
        "the text differs from the expected text at character 4"
    )
    assert (await score_case("exact_match", answer("", expected="x"))).reason == (
        "the text differs from the expected text at character 1; empty"
    )
    assert (await score_case("exact_match", answer("x"))).reason == "no_expected: the row has no expected answer"
