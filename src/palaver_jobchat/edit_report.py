"""The edited job, and the report on it: `application_status`, `diff`, the warning and the `code-edit` part."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from palaver_jobchat.edit_matcher import MAX_MATCHES
from palaver_jobchat.edits import EditOutcome, EditResult
from palaver_jobchat.javascript import Syntax
from palaver_jobchat.rules import Finding

_MAX_LISTED_LINES = 5
_MAX_LISTED_ERRORS = 3


class EditedJob(msgspec.Struct, frozen=True):
    result: EditResult
    syntax: Syntax = Syntax()
    findings: tuple[Finding, ...] = ()
    """What the rules found in the new code; empty if the code is unchanged."""
    correction_error: str | None = None
    """Code of the error that ended the correction request."""

    @property
    def rule_errors(self) -> tuple[Finding, ...]:
        """Errors in the new code other than syntax errors."""
        return tuple(finding for finding in self.findings if finding.level == "error" and finding.rule != "parses")


def application_status(edited: EditedJob) -> dict[str, Any]:
    """Return the reply's `application_status`: the outcome of each edit, totals, and what the rules found."""
    applied, total = _counts(edited.result)
    return {
        "success": applied == total and edited.syntax.ok and not edited.rule_errors,
        "partial": 0 < applied < total,
        "applied_changes": applied,
        "total_changes": total,
        "syntax_ok": edited.syntax.ok,
        "edits": [_outcome_fields(outcome) for outcome in edited.result.outcomes],
        **_findings(edited),
        **_warning(edited),
    }


def diff(edited: EditedJob) -> dict[str, Any]:
    """Return the reply's `diff`: the totals under the names that OpenFn Lightning reads."""
    applied, total = _counts(edited.result)
    return {"patches_applied": applied, "patches_total": total, **_warning(edited)}


def code_edit(edited: EditedJob, target: str | None = None) -> dict[str, Any]:
    """Return the value of the data part `code-edit`, which the page renders as a diff."""
    result, syntax = edited.result, edited.syntax
    return {
        "language": "javascript",
        "target": target or "job",
        "old": result.job,
        "new": result.suggested,
        "syntax": {
            "ok": syntax.ok,
            "errors": [
                {"line": problem.line, "column": problem.column, "message": problem.message}
                for problem in syntax.errors
            ],
        },
        "edits": [
            {
                "action": outcome.action,
                "old": outcome.old,
                "new": outcome.new,
                **_outcome_fields(outcome),
                **({} if outcome.start is None else {"start": outcome.start, "end": outcome.end}),
            }
            for outcome in result.outcomes
        ],
        **_findings(edited),
    }


def warning(edited: EditedJob) -> str | None:
    """Return what went wrong, in sentences, or None."""
    return " ".join(_warnings(edited)) or None


def _warning(edited: EditedJob) -> dict[str, Any]:
    text = warning(edited)
    return {"warning": text} if text else {}


def _findings(edited: EditedJob) -> dict[str, Any]:
    """Return the findings if the code was changed: otherwise nothing was checked."""
    if edited.result.suggested is None:
        return {}
    return {"findings": [msgspec.to_builtins(finding) for finding in edited.findings]}


def _warnings(edited: EditedJob) -> Iterator[str]:
    result, syntax = edited.result, edited.syntax
    total = len(result.outcomes)
    for number, outcome in enumerate(result.outcomes, 1):
        if outcome.state == "failed":
            yield f"Edit {number} of {total} was not applied: {failure_reason(outcome)}."
    if not syntax.ok:
        where = f" (line {syntax.errors[0].line})" if syntax.errors else ""
        yield f"The resulting code does not parse{where}."
    for error in edited.rule_errors[:_MAX_LISTED_ERRORS]:
        yield f"Line {error.line} of the resulting code: {error.message}"
    if (more := len(edited.rule_errors) - _MAX_LISTED_ERRORS) > 0:
        yield f"The resulting code has {more} more error{'' if more == 1 else 's'}."
    if result.suggested is None and len(result.failed) < total:
        yield "The edits change nothing."
    if edited.correction_error:
        yield f"The correction call failed: {edited.correction_error}."


def failure_reason(outcome: EditOutcome) -> str:
    """Return why an edit was not applied, as the second half of a sentence."""
    match outcome.reason:
        case "not_found":
            return "its old code is not in the job"
        case "ambiguous":
            count = len(outcome.lines)
            many = f"more than {MAX_MATCHES}" if count > MAX_MATCHES else str(count)
            return f"its old code matches {many} places ({_lines(outcome.lines)})"
        case "malformed" | None:
            return "it is malformed"


def _lines(lines: Sequence[int]) -> str:
    distinct = [str(line) for line in dict.fromkeys(lines)]
    if len(distinct) == 1:
        return f"line {distinct[0]}"
    if len(distinct) > _MAX_LISTED_LINES:
        return f"lines {', '.join(distinct[:_MAX_LISTED_LINES])} and more"
    return f"lines {', '.join(distinct[:-1])} and {distinct[-1]}"


def _outcome_fields(outcome: EditOutcome) -> dict[str, Any]:
    return {
        "state": outcome.state,
        **({"how": outcome.how} if outcome.how else {}),
        **({"reason": outcome.reason} if outcome.reason else {}),
    }


def _counts(result: EditResult) -> tuple[int, int]:
    """Return how many edits were applied, and how many there were without no-ops."""
    states = [outcome.state for outcome in result.outcomes]
    return states.count("applied"), len(states) - states.count("unchanged")
