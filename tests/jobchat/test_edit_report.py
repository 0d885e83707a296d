"""The report about applied and failed edits."""

from typing import Any

import msgspec

from palaver_jobchat.edit_report import EditedJob, application_status, code_edit, diff, warning
from palaver_jobchat.edits import apply_edits
from palaver_jobchat.javascript import Syntax, SyntaxProblem
from palaver_jobchat.rules import Finding

INVALID_SYNTAX = Syntax(ok=False, errors=(SyntaxProblem(line=7, column=3, message="unexpected ')'"),))
EDITS = [
    {"action": "replace", "old_code": "b", "new_code": "c"},
    {"action": "replace", "old_code": "a", "new_code": "x"},
    {"action": "replace", "old_code": "b", "new_code": "b"},
]
PARTIAL_RESULT = apply_edits("a\nb\na", EDITS)


def test_successful_edit_has_no_warning() -> None:
    edited = EditedJob(apply_edits("", [{"action": "rewrite", "new_code": "a"}]))

    assert warning(edited) is None
    assert application_status(edited) == {
        "success": True,
        "partial": False,
        "applied_changes": 1,
        "total_changes": 1,
        "syntax_ok": True,
        "edits": [{"state": "applied", "how": "created"}],
        "findings": [],
    }
    assert diff(edited) == {"patches_applied": 1, "patches_total": 1}


def test_failed_edit_is_reported_with_the_lines_it_matches() -> None:
    text = warning(EditedJob(PARTIAL_RESULT))

    assert text == "Edit 2 of 3 was not applied: its old code matches 2 places (lines 1 and 3)."
    assert application_status(EditedJob(PARTIAL_RESULT)) == {
        "success": False,
        "partial": True,
        "applied_changes": 1,
        "total_changes": 2,
        "syntax_ok": True,
        "edits": [
            {"state": "applied", "how": "exact"},
            {"state": "failed", "reason": "ambiguous"},
            {"state": "unchanged"},
        ],
        "findings": [],
        "warning": text,
    }
    assert diff(EditedJob(PARTIAL_RESULT)) == {"patches_applied": 1, "patches_total": 2, "warning": text}


def test_warning_has_a_sentence_for_each_problem() -> None:
    def text(job: str, *edits: Any) -> str | None:
        return warning(EditedJob(apply_edits(job, list(edits))))

    assert warning(EditedJob(PARTIAL_RESULT, INVALID_SYNTAX, correction_error="OVERLOADED")) == (
        "Edit 2 of 3 was not applied: its old code matches 2 places (lines 1 and 3). "
        "The resulting code does not parse (line 7). The correction call failed: OVERLOADED."
    )
    assert text("a", {}) == "Edit 1 of 1 was not applied: it is malformed."
    assert text("a", EDITS[0]) == "Edit 1 of 1 was not applied: its old code is not in the job."
    assert warning(EditedJob(apply_edits("b", [EDITS[2]]), Syntax(ok=False))) == (
        "The resulting code does not parse. The edits change nothing."
    )


def test_errors_in_the_new_code_are_no_success() -> None:
    findings = tuple(Finding("lazy_state", "error", line, "Can't assign to `$`.") for line in (1, 2, 3, 4, 5))
    note = Finding("keeps_state", "note", 1, "This drops the rest of the state.")
    edited = EditedJob(apply_edits("a", [EDITS[1]]), findings=(note, *findings))

    text = (
        "Line 1 of the resulting code: Can't assign to `$`. Line 2 of the resulting code: Can't assign to `$`. "
        "Line 3 of the resulting code: Can't assign to `$`. The resulting code has 2 more errors."
    )
    assert application_status(edited) == {
        "success": False,
        "partial": False,
        "applied_changes": 1,
        "total_changes": 1,
        "syntax_ok": True,
        "edits": [{"state": "applied", "how": "exact"}],
        "findings": [msgspec.to_builtins(finding) for finding in (note, *findings)],
        "warning": text,
    }
    assert application_status(EditedJob(apply_edits("a", [EDITS[1]]), INVALID_SYNTAX))["success"] is False
    assert application_status(EditedJob(apply_edits("a", [EDITS[1]]), findings=(note,)))["success"] is True


def test_warning_lists_at_most_five_matching_lines() -> None:
    def text(job: str) -> str | None:
        return warning(EditedJob(apply_edits(job, [EDITS[1]])))

    start = "Edit 1 of 1 was not applied: its old code matches"
    assert text("aa") == f"{start} 2 places (line 1)."
    assert text("a\n" * 9) == f"{start} 9 places (lines 1, 2, 3, 4, 5 and more)."
    assert text("a" * 200) == f"{start} more than 100 places (line 1)."


def test_code_edit_part_describes_each_edit_and_its_outcome() -> None:
    assert code_edit(EditedJob(PARTIAL_RESULT, INVALID_SYNTAX), "my_job") == {
        "language": "javascript",
        "target": "my_job",
        "old": "a\nb\na",
        "new": "a\nc\na",
        "syntax": {"ok": False, "errors": [{"line": 7, "column": 3, "message": "unexpected ')'"}]},
        "edits": [
            {"action": "replace", "old": "b", "new": "c", "state": "applied", "how": "exact", "start": 2, "end": 3},
            {"action": "replace", "old": "a", "new": "x", "state": "failed", "reason": "ambiguous"},
            {"action": "replace", "old": "b", "new": "b", "state": "unchanged"},
        ],
        "findings": [],
    }
    failed = code_edit(EditedJob(apply_edits("a", [None])))
    assert (failed["target"], failed["new"], failed["syntax"]) == ("job", None, {"ok": True, "errors": []})
