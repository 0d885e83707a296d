"""The report about applied and failed edits."""

from palaver_jobchat.edit_report import application_status, code_edit, diff, warning
from palaver_jobchat.edits import apply_edits, truncated_result
from palaver_jobchat.javascript import Syntax, SyntaxProblem

VALID_SYNTAX = Syntax()
INVALID_SYNTAX = Syntax(ok=False, errors=(SyntaxProblem(line=7, column=3, message="unexpected ')'"),))
EDITS = [
    {"action": "replace", "old_code": "b", "new_code": "c"},
    {"action": "replace", "old_code": "a", "new_code": "x"},
    {"action": "replace", "old_code": "b", "new_code": "b"},
]
PARTIAL_RESULT = apply_edits("a\nb\na", EDITS)


def test_successful_edit_has_no_warning() -> None:
    result = apply_edits("", [{"action": "rewrite", "new_code": "a"}])

    assert warning(result, VALID_SYNTAX) is None
    assert application_status(result, VALID_SYNTAX) == {
        "success": True,
        "partial": False,
        "applied_changes": 1,
        "total_changes": 1,
        "syntax_ok": True,
        "edits": [{"state": "applied", "how": "created"}],
    }
    assert diff(result) == {"patches_applied": 1, "patches_total": 1}


def test_failed_edit_is_reported_with_the_lines_it_matches() -> None:
    text = warning(PARTIAL_RESULT, VALID_SYNTAX)

    assert text == "Edit 2 of 3 was not applied: its old code matches 2 places (lines 1 and 3)."
    assert application_status(PARTIAL_RESULT, VALID_SYNTAX, text) == {
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
        "warning": text,
    }
    assert diff(PARTIAL_RESULT, text) == {"patches_applied": 1, "patches_total": 2, "warning": text}


def test_warning_has_a_sentence_for_each_problem() -> None:
    assert warning(PARTIAL_RESULT, INVALID_SYNTAX, "OVERLOADED") == (
        "Edit 2 of 3 was not applied: its old code matches 2 places (lines 1 and 3). "
        "The resulting code does not parse (line 7). The correction call failed: OVERLOADED."
    )
    assert warning(apply_edits("a", [{}]), VALID_SYNTAX) == "Edit 1 of 1 was not applied: it is malformed."
    assert (
        warning(apply_edits("a", [EDITS[0]]), VALID_SYNTAX)
        == "Edit 1 of 1 was not applied: its old code is not in the job."
    )
    assert warning(truncated_result("a"), VALID_SYNTAX) == "Edit 1 of 1 was not applied: the answer was cut off."
    assert warning(apply_edits("b", [EDITS[2]]), Syntax(ok=False)) == (
        "The resulting code does not parse. The edits change nothing."
    )


def test_warning_lists_at_most_five_matching_lines() -> None:
    def text(job: str) -> str | None:
        return warning(apply_edits(job, [EDITS[1]]), VALID_SYNTAX)

    start = "Edit 1 of 1 was not applied: its old code matches"
    assert text("aa") == f"{start} 2 places (line 1)."
    assert text("a\n" * 9) == f"{start} 9 places (lines 1, 2, 3, 4, 5 and more)."
    assert text("a" * 200) == f"{start} more than 100 places (line 1)."


def test_code_edit_part_describes_each_edit_and_its_outcome() -> None:
    assert code_edit(PARTIAL_RESULT, INVALID_SYNTAX, "my_job") == {
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
    }
    failed = code_edit(apply_edits("a", [None]), VALID_SYNTAX)
    assert (failed["target"], failed["new"], failed["syntax"]) == ("job", None, {"ok": True, "errors": []})
