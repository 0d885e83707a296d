"""What is told about edits: the status and the short form in the answer, their warning, and the `code-edit` part."""

from collections.abc import Iterator, Sequence
from typing import Any

from palaver_jobchat.edit_matching import MAX_MATCHES
from palaver_jobchat.edits import EditOutcome, EditResult
from palaver_jobchat.javascript import Syntax

_LINES_NAMED = 5


def application_status(result: EditResult, syntax: Syntax, warning: str | None = None) -> dict[str, Any]:
    """The answer's `application_status`: every edit's fate, and their sum."""
    applied, total = _counts(result)
    return {
        "success": applied == total,
        "partial": 0 < applied < total,
        "applied_changes": applied,
        "total_changes": total,
        "syntax_ok": syntax.ok,
        "edits": [_fate(outcome) for outcome in result.outcomes],
        **({"warning": warning} if warning else {}),
    }


def diff(result: EditResult, warning: str | None = None) -> dict[str, Any]:
    """The answer's `diff`: the same sum under the names that Lightning reads."""
    applied, total = _counts(result)
    return {
        "patches_applied": applied,
        "patches_total": total,
        **({"warning": warning} if warning else {}),
    }


def code_edit(result: EditResult, syntax: Syntax, target: str | None = None) -> dict[str, Any]:
    """The value of the data part `code-edit`, from which a page shows a diff."""
    return {
        "language": "javascript",
        "target": target or "job",
        "old": result.job,
        "new": result.suggested,
        "syntax": {
            "ok": syntax.ok,
            "errors": [
                {"line": fault.line, "column": fault.column, "message": fault.message} for fault in syntax.errors
            ],
        },
        "edits": [
            {
                "action": outcome.action,
                "old": outcome.old,
                "new": outcome.new,
                **_fate(outcome),
                **({} if outcome.start is None else {"start": outcome.start, "end": outcome.end}),
            }
            for outcome in result.outcomes
        ],
    }


def warning(result: EditResult, syntax: Syntax, correction_error: str | None = None) -> str | None:
    """What is wrong, in sentences; nothing where all is well.

    `correction_error` is the type of the error that the correction call ended with.
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
    """Why an edit was not applied, as the second half of a sentence."""
    match outcome.reason:
        case "not_found":
            return "its old code is not in the job"
        case "ambiguous":
            count = len(outcome.lines)
            many = f"more than {MAX_MATCHES}" if count > MAX_MATCHES else str(count)
            return f"its old code matches {many} places ({_lines(outcome.lines)})"
        case "truncated":
            return "the answer was cut off before its end"
        case "malformed" | None:
            return "it is not an edit that can be read"


def _lines(lines: Sequence[int]) -> str:
    distinct = [str(line) for line in dict.fromkeys(lines)]
    if len(distinct) == 1:
        return f"line {distinct[0]}"
    if len(distinct) > _LINES_NAMED:
        return f"lines {', '.join(distinct[:_LINES_NAMED])} and more"
    return f"lines {', '.join(distinct[:-1])} and {distinct[-1]}"


def _fate(outcome: EditOutcome) -> dict[str, Any]:
    return {
        "state": outcome.state,
        **({"how": outcome.how} if outcome.how else {}),
        **({"reason": outcome.reason} if outcome.reason else {}),
    }


def _counts(result: EditResult) -> tuple[int, int]:
    """How many edits were applied, and how many had something to do."""
    states = [outcome.state for outcome in result.outcomes]
    return states.count("applied"), len(states) - states.count("unchanged")
