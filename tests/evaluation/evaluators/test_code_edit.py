"""code_edit: the code change in the answer applies, parses, and meets the given conditions."""

from typing import Any

import pytest
from msgspec import UNSET

from palaver.core.messages import Data, Message
from palaver.evaluation.case import Case
from tests.evaluation.evaluators.fake_judge import bind_error, chat, score_record, score_summary

OLD_CODE, NEW_CODE = "get('/a');", "get('/b');\nfn(state => state);"


def case_with_edit(*, expected: Any = UNSET, **overrides: Any) -> Case:
    value = {
        "language": "javascript",
        "old": OLD_CODE,
        "new": NEW_CODE,
        "syntax": {"ok": True, "errors": []},
        "edits": [{"action": "replace", "state": "applied"}, {"action": "replace", "state": "unchanged"}],
        **overrides,
    }
    first = Data(name="code-edit", value={"old": "x", "new": None, "syntax": {"ok": False}, "edits": []})
    second = Data(name="chart", value={})
    answer = Message.assistant("Done.", Data(name="code-edit", value=value), second)
    return chat(Message.assistant(first), answer, expected=expected, inputs={"context": {"expression": OLD_CODE}})


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({}, (True, 1, "")),
        ({"edits": [{"state": "applied"}, {"state": "failed"}]}, (False, 0.6667, "failed checks: applied")),
        ({"edits": None}, (False, 0.6667, "failed checks: applied")),
        ({"syntax": {"ok": False}}, (False, 0.6667, "failed checks: parses")),
        ({"syntax": None}, (False, 0.6667, "failed checks: parses")),
        ({"new": OLD_CODE}, (False, 0.6667, "failed checks: changed")),
        ({"new": None, "syntax": {}}, (False, 0.3333, "failed checks: parses, changed")),
    ],
)
async def test_the_last_edit_must_apply_parse_and_change_the_code(overrides: dict[str, Any], expected: Any) -> None:
    assert await score_summary("code_edit", case_with_edit(**overrides)) == expected


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"checks": ["parses"]}, (True, 1, "")),
        ({"base_from": "context.expression"}, (True, 1, "")),
        ({"must_contain": "fn("}, (True, 1, "")),
        ({"must_contain": ["fn(", "post("]}, (False, 0.75, "failed checks: must_contain")),
        ({"must_not_contain": "eval"}, (True, 1, "")),
        ({"must_not_contain": ["eval", "get("], "checks": []}, (False, 0, "failed checks: must_not_contain")),
        (
            {"must_contain": "fn(", "must_not_contain": "fn(", "checks": []},
            (False, 0.5, "failed checks: must_not_contain"),
        ),
        ({"base_from": "context.gone"}, (None, None, "no_base: the inputs have no text at 'context.gone'")),
    ],
)
async def test_further_checks_can_be_configured(parameters: dict[str, Any], expected: Any) -> None:
    assert await score_summary("code_edit", case_with_edit(), parameters) == expected


async def test_the_new_code_can_be_compared_with_the_expected_code() -> None:
    ignoring_space = {"equals": True, "ignore_space": True}

    assert (await score_record("code_edit", case_with_edit(expected=NEW_CODE), {"equals": True})).passed
    assert (await score_record("code_edit", case_with_edit(expected={"code": NEW_CODE}), {"equals": True})).passed
    assert not (await score_record("code_edit", case_with_edit(expected=NEW_CODE + "\n"), {"equals": True})).passed
    assert (await score_record("code_edit", case_with_edit(expected=NEW_CODE + "\n"), ignoring_space)).passed
    assert not (await score_record("code_edit", case_with_edit(expected=NEW_CODE, new=None), ignoring_space)).passed
    assert await score_summary("code_edit", case_with_edit(), {"equals": True}) == (
        None,
        None,
        "no_expected: the row has no expected answer",
    )
    assert (await score_record("code_edit", case_with_edit(expected=3), {"equals": True})).status == "skipped"


async def test_an_edit_of_other_code_than_the_input_does_not_pass() -> None:
    scored = await score_record("code_edit", case_with_edit(old="other"), {"base_from": "/context/expression"})

    assert (scored.passed, scored.score) == (False, 0.75)
    assert scored.details == {"checks": {"applied": True, "parses": True, "changed": True, "base": False}}


@pytest.mark.parametrize("parts", [[], [Data(name="code-edit", value="x")], [Data(name="chart", value={})]])
async def test_an_answer_without_an_edit_does_not_pass(parts: list[Data]) -> None:
    case = chat(Message.assistant("Sure.", *parts))

    assert await score_summary("code_edit", case) == (False, 0, "the answer has no code edit")


@pytest.mark.parametrize(
    ("parameters", "pointer"),
    [
        ({"checks": []}, "/parameters/checks"),
        ({"checks": ["pretty"]}, "/parameters/checks/0"),
        ({"base_from": "a["}, "/parameters/base_from"),
    ],
)
def test_invalid_parameters_are_rejected(parameters: dict[str, Any], pointer: str) -> None:
    assert bind_error("code_edit", parameters)[0] == pointer
