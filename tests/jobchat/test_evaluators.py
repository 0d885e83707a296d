"""Job Chat's evaluators: their scores, and when they skip."""

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from palaver import Case, Data, Message, Text
from palaver.evaluation.network_context import OfflineContext
from palaver_jobchat import evaluators, rules
from palaver_jobchat.evaluators import (
    job_expected,
    job_known_functions,
    job_no_import,
    job_outside_untouched,
    job_rules,
)
from tests.jobchat.entry_points import entry_points

OLD_CODE = "get('/a');\nget('/b');\nget('/c');\n"
HTTP_ADAPTOR = {"name": "@openfn/language-http", "version": "6.5.4", "docs": "exact"}
INVALID_CODE = "get('/a';\nimport x from 'y';\n"
CHANGED_AFTER = "This line was changed, but it is after the lines that may change."


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PALAVER_JOBCHAT_ONLINE", "0")
    monkeypatch.setenv("PALAVER_JOBCHAT_CACHE", str(tmp_path / "cache"))


def edit_case(new: str | None, *, old: str = OLD_CODE, text: str = "I'll do that.", **case: Any) -> Case:
    """Return an answer with an edit."""
    return answer_case(text, Data(name="code-edit", value={"old": old, "new": new}), suggested_code=new, **case)


def answer_case(text: str, *parts: Data, adaptor: Any = None, expected: Any = UNSET, **reply: Any) -> Case:
    """Return an answer of Job Chat; without `suggested_code`, in plain mode."""
    reply_value = {"meta": {"job_chat": {"adaptor": adaptor or {"docs": "none"}}}, **reply}
    message = Message("assistant", (Text(text), *parts, Data(name="reply", value=reply_value)))
    return Case(text=text, messages=(message,), expected=expected)


async def score_all(evaluator: Any, case: Case) -> dict[str, tuple[str, bool | None, float | None, str]]:
    """Return status, passed, score and reason by evaluator name."""
    return {
        one.evaluator: (one.status, one.passed, one.score, one.reason)
        for one in await evaluator.bind({}, OfflineContext()).score(case)
    }


# Rules


async def test_rule_reports_errors_of_the_changed_job_with_their_lines() -> None:
    case = edit_case("get('/a');\nimport x from 'y';\nimport z from 'y';\n")

    (score,) = await job_no_import.bind({}, OfflineContext()).score(case)

    assert (score.evaluator, score.status, score.passed, score.score) == ("job_no_import", "scored", False, 0.0)
    findings = [(finding["level"], finding["line"]) for finding in score.details["findings"]]
    assert findings == [("error", 2), ("error", 3)]
    assert score.reason.startswith("Line 2: ")
    assert score.reason.endswith(" (and 1 more)")


async def test_plain_mode_checks_the_code_blocks_and_reports_lines_of_the_text() -> None:
    case = answer_case("So:\n\n```js\nget('/a');\n```\n\nOr:\n\n```js\nget('/b');\nimport x from 'y';\n```")

    (score,) = await job_no_import.bind({}, OfflineContext()).score(case)

    assert [finding["line"] for finding in score.details["findings"]] == [11]


async def test_finding_of_level_note_does_not_fail_the_rule() -> None:
    (score,) = await evaluators.job_top_level_operations.bind({}, OfflineContext()).score(
        edit_case("const a = 1;\nget('/a');\n")
    )

    assert score.passed is True
    assert score.reason == ""
    assert [finding["level"] for finding in score.details["findings"]] == ["note"]


async def test_job_rules_gives_a_score_for_each_rule() -> None:
    scores = await score_all(
        job_rules, edit_case("fn(state => { state.a = 1; });\n", adaptor=HTTP_ADAPTOR, expected={"span": [1, 3]})
    )

    assert list(scores) == [f"job_rules.{rule.id}" for rule in rules.RULES] + ["job_rules.outside_untouched"]
    assert [name for name, (_, passed, _, _) in scores.items() if not passed] == ["job_rules.returns_state"]


async def test_each_rule_is_a_separate_evaluator() -> None:
    for rule in rules.RULES:
        rule_evaluator = getattr(evaluators, f"job_{rule.id}")
        assert rule_evaluator.key == f"job_{rule.id}"
        assert rule_evaluator.description
        assert (await score_all(rule_evaluator, edit_case("get('/a');\n", adaptor=HTTP_ADAPTOR)))[rule_evaluator.key][
            :3
        ] == (
            "scored",
            True,
            1.0,
        )


@pytest.mark.parametrize(
    "case",
    [
        answer_case("Because."),
        answer_case("So:\n\n```js\nget('/a');\n```", suggested_code=None),
        edit_case(None),
        Case(text="```js\nget('/a');\n```", inputs={"suggest_code": True}),
        Case(text="```js\nget('/a');\n```", inputs={"use_new_prompt": True}),
        Case(text="```json\n{}\n```"),
        Case(),
    ],
)
async def test_rules_are_skipped_without_suggested_code(case: Case) -> None:
    skipped = ("skipped", None, None, "no_code: the answer suggests no code")

    assert await score_all(job_rules, case) == {"job_rules": skipped}
    assert await score_all(job_no_import, case) == {"job_no_import": skipped}


async def test_only_some_rules_score_code_that_does_not_parse() -> None:
    case = edit_case(INVALID_CODE)

    assert list(await score_all(job_rules, case)) == [
        "job_rules.parses",
        "job_rules.no_credentials",
        "job_rules.no_placeholders",
    ]
    assert await score_all(job_no_import, case) == {
        "job_no_import": (
            "skipped",
            None,
            None,
            "not_readable: the code is not valid JavaScript, or is nested too deeply",
        )
    }


@pytest.mark.parametrize("adaptor", [None, {**HTTP_ADAPTOR, "docs": "nearest"}, {**HTTP_ADAPTOR, "version": "7.0.0"}])
async def test_known_functions_is_skipped_without_docs_of_the_exact_version(adaptor: Any) -> None:
    case = edit_case("gett('/a');\n", adaptor=adaptor)

    assert await score_all(job_known_functions, case) == {
        "job_known_functions": (
            "skipped",
            None,
            None,
            "no_docs: docs for this exact version of the adaptor are missing",
        )
    }
    assert "job_rules.known_functions" not in await score_all(job_rules, case)


async def test_known_functions_depend_on_the_adaptor_version() -> None:
    code = "cursor('now');\n"

    new = await score_all(job_known_functions, edit_case(code, adaptor=HTTP_ADAPTOR))
    old = await score_all(job_known_functions, edit_case(code, adaptor={**HTTP_ADAPTOR, "version": "6.0.0"}))

    assert new["job_known_functions"][1] is True
    assert old["job_known_functions"][1] is False


async def test_adaptor_is_taken_from_the_inputs_if_the_answer_is_only_text() -> None:
    case = Case(text="```js\ngett('/a');\n```", inputs={"context": {"adaptor": "http@6.5.4"}})

    assert (await score_all(job_known_functions, case))["job_known_functions"][:3] == ("scored", False, 0.0)


async def test_the_last_edit_counts() -> None:
    first, last = edit_case("import x from 'y';\n"), edit_case("get('/a');\n")
    case = Case(messages=(*first.messages, *last.messages))

    assert (await score_all(job_no_import, case))["job_no_import"][1] is True


# Lines outside the expected span


@pytest.mark.parametrize(
    ("new", "expected", "outcome"),
    [
        ("get('/a');\nput('/b');\nget('/c');\n", {"span": [2, 2]}, ("scored", True, 1.0, "")),
        ("get('/a');\nput('/b');\nput('/c');\n", {"span": [2, 2]}, ("scored", False, 0.0, f"Line 3: {CHANGED_AFTER}")),
        ("get('/a');\n", {"edit": True}, ("skipped", None, None)),
        ("get('/a');\n", "get", ("skipped", None, None)),
        ("get('/a');\n", UNSET, ("skipped", None, None)),
        (None, {"span": [2, 2]}, ("skipped", None, None)),
        ("get('/a');\n", {"span": "all"}, ("error", None, None)),
    ],
)
async def test_outside_untouched_scores_changes_outside_the_expected_span(
    new: str | None, expected: Any, outcome: tuple[Any, ...]
) -> None:
    scores = await score_all(job_outside_untouched, edit_case(new, expected=expected))

    assert scores["job_outside_untouched"][: len(outcome)] == outcome


# Expectations

EDIT_CASE = edit_case("get('/a');\nput('/b');\nget('/c');\n")
TEXT_CASE = answer_case("It asks for three things.", suggested_code=None)
PLAIN_CASE = answer_case("So:\n\n```js\nget('/a');\n```")


@pytest.mark.parametrize(
    ("case", "expected", "faults"),
    [
        (EDIT_CASE, {"edit": True}, []),
        (EDIT_CASE, {"edit": False}, ["The job should not have been changed."]),
        (TEXT_CASE, {"edit": False}, []),
        (TEXT_CASE, {"edit": True}, ["The job should have been changed."]),
        (PLAIN_CASE, {"edit": False}, []),
        (EDIT_CASE, {"code": "get('/a');\nput('/b');\nget('/c');\n"}, []),
        (
            EDIT_CASE,
            {"code": "get('/a');\nput('/b');\nget('/c');"},
            ["The code differs from the expected code, starting at line 3."],
        ),
        (
            EDIT_CASE,
            {"code": "get('/a');\nput('/b');\nget('/c');\n\n"},
            ["The code differs from the expected code at the end."],
        ),
        (
            EDIT_CASE,
            {"code": "get('/a');\r\nput('/b');\nget('/c');\n"},
            ["The code differs from the expected code, starting at line 1."],
        ),
        (TEXT_CASE, {"code": "get('/a');\n"}, ["The answer suggests no code."]),
        (PLAIN_CASE, {"code": "get('/a');\n"}, []),
        (PLAIN_CASE, {"code": "get('/b');\n"}, ["No code block matches the expected code."]),
        (EDIT_CASE, {"contains": "put("}, []),
        (EDIT_CASE, {"contains": ["put(", "post(", "I'll"]}, ["Missing: `post(`, `I'll`."]),
        (TEXT_CASE, {"contains": "three"}, []),
        (PLAIN_CASE, {"contains": ["So:", "get('/a')"]}, []),
        (EDIT_CASE, {"absent": "get('/b')"}, []),
        (EDIT_CASE, {"absent": ["x", "put("]}, ["Should not occur: `put(`."]),
        (TEXT_CASE, {"absent": "three"}, ["Should not occur: `three`."]),
        (EDIT_CASE, {"span": [2, 2]}, []),
        (EDIT_CASE, {"span": [1, 1]}, [f"Line 2: {CHANGED_AFTER}"]),
        (TEXT_CASE, {"span": [1, 1]}, []),
        (
            EDIT_CASE,
            {"edit": False, "contains": "get(", "absent": "put("},
            ["The job should not have been changed.", "Should not occur: `put(`."],
        ),
    ],
)
async def test_each_expected_key_is_checked(case: Case, expected: dict[str, Any], faults: list[str]) -> None:
    case = Case(text=case.text, messages=case.messages, expected=expected)

    (score,) = await job_expected.bind({}, OfflineContext()).score(case)

    assert (score.status, score.passed, score.reason) == ("scored", not faults, " ".join(faults))
    assert score.score == pytest.approx(1 - len(faults) / len(expected))
    assert list(score.details["checks"].values()).count(False) == len(faults)
    assert set(score.details["checks"]) == set(expected)


@pytest.mark.parametrize(
    ("expected", "status", "code"),
    [
        (UNSET, "skipped", "no_expected"),
        ({}, "skipped", "no_expected"),
        ({"edits": True}, "error", "evaluator_failed"),
        ({"edit": "yes"}, "error", "evaluator_failed"),
        ({"span": [1]}, "error", "evaluator_failed"),
        ("get('/a');", "error", "evaluator_failed"),
        (None, "error", "evaluator_failed"),
    ],
)
async def test_invalid_expected_is_an_error_and_missing_expected_is_skipped(
    expected: Any, status: str, code: str
) -> None:
    ((actual_status, passed, _, reason),) = (
        await score_all(job_expected, edit_case("get('/a');\n", expected=expected))
    ).values()

    assert (actual_status, passed) == (status, None)
    assert reason.startswith(f"{code}: ")


# Installation


def test_importing_the_evaluators_does_not_import_tree_sitter() -> None:
    code = "import sys, palaver_jobchat.evaluators; print([name for name in sys.modules if 'tree_sitter' in name])"

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout == "[]\n"


def test_all_evaluators_are_registered_as_entry_points() -> None:
    registered = entry_points("palaver.evaluators")

    keys = {key for key, value in registered.items() if value.startswith("palaver_jobchat.")}
    assert keys == {name for name in vars(evaluators) if name.startswith("job_")}
    for key in keys:
        assert EntryPoint(key, registered[key], "palaver.evaluators").load().key == key
