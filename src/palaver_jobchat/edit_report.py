"""Report on applied edits: `application_status`, `diff`, the warning and the `code-edit` part."""

from collections.abc import Iterator, Sequence
from typing import Any

from palaver_jobchat.edit_matcher import MAX_MATCHES
from palaver_jobchat.edits import EditOutcome, EditResult
from palaver_jobchat.javascript import Syntax

_MAX_LISTED_LINES = 5


def application_status(result: EditResult, syntax: Syntax, warning: str | None = None) -> dict[str, Any]:
    """Return the reply's `application_status`: the outcome of each edit, and totals."""
    applied, total = _counts(result)
    return {
        "success": applied == total,
        "partial": 0 < applied < total,
        "applied_changes": applied,
        "total_changes": total,
        "syntax_ok": syntax.ok,
        "edits": [_outcome_fields(outcome) for outcome in result.outcomes],
        **({"warning": warning} if warning else {}),
    }


def diff(result: EditResult, warning: str | None = None) -> dict[str, Any]:
    """Return the reply's `diff`: the totals under the names that OpenFn Lightning reads."""
    applied, total = _counts(result)
    return {
        "patches_applied": applied,
        "patches_total": total,
        **({"warning": warning} if warning else {}),
    }


def code_edit(result: EditResult, syntax: Syntax, target: str | None = None) -> dict[str, Any]:
    """Return the value of the data part `code-edit`, which the page renders as a diff."""
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
    }


def warning(result: EditResult, syntax: Syntax, correction_error: str | None = None) -> str | None:
    """Return what went wrong, in sentences, or None.

    `correction_error` is the code of the error that ended the correction request.
    """
    return " ".join(_warnings(result, syntax, correction_error)) or None


def _warnings(result: EditResult, syntax: Syntax, correction_error: str | None) -> Iterator[str]:
    total = len(result.outcomes)
    for number, outcome in enumerate(result.outcomes, 1):
        if outcome.state == "failed":
            yield f"Edit {number} of {total} was not applied: {failure_reason(outcome)}."
    if not syntax.ok:
        where = f" (line {syntax.errors[0].line})" if syntax.errors else ""
        yield f"The resulting code does not parse{where}."
    if result.suggested is None and len(result.failed) < total:
        yield "The edits change nothing."
    if correction_error:
        yield f"The correction call failed: {correction_error}."


def failure_reason(outcome: EditOutcome) -> str:
    """Return why an edit was not applied, as the second half of a sentence."""
    match outcome.reason:
        case "not_found":
            return "its old code is not in the job"
        case "ambiguous":
            count = len(outcome.lines)
            many = f"more than {MAX_MATCHES}" if count > MAX_MATCHES else str(count)
            return f"its old code matches {many} places ({_lines(outcome.lines)})"
        case "truncated":
            return "the answer was cut off"
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
