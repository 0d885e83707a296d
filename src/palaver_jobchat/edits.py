"""Apply the edits that a model requested to a job's code. Pure functions; any JSON is accepted as an edit.

Edits are applied in order, each to the result of the previous one. An edit that cannot be applied changes nothing and
has a reason. edit_report.py reports the outcome. If a model wraps code in a Markdown fence, the fence is removed.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

import msgspec

from palaver_jobchat import edit_matcher

ApplyMethod = Literal["exact", "line-ends", "indent", "tokens", "created", "rewrite", "corrected"]
FailureReason = Literal["not_found", "ambiguous", "malformed"]

_LINE_END = re.compile(r"\r?\n")
_OPENING_FENCE = re.compile(r"(?P<fence>`{3,}|~{3,})[ \t]*[\w+-]*[ \t\r]*")


class EditOutcome(msgspec.Struct, frozen=True, kw_only=True):
    action: str = ""
    old: str = ""
    new: str = ""
    state: Literal["applied", "unchanged", "failed"]
    how: ApplyMethod | None = None
    """Set if the edit was applied."""
    reason: FailureReason | None = None
    """Set if the edit failed."""
    start: int | None = None
    """Start offset in the code before this edit; of the first match if there are several."""
    end: int | None = None
    """End offset, of the last match."""
    lines: tuple[int, ...] = ()
    """First lines of the matches of an ambiguous edit."""


class EditResult(msgspec.Struct, frozen=True, kw_only=True):
    job: str
    """The code before the edits."""
    code: str
    """The code after the edits."""
    outcomes: tuple[EditOutcome, ...] = ()

    @property
    def suggested(self) -> str | None:
        """The new code, or None if it is unchanged."""
        return None if self.code == self.job else self.code

    @property
    def failed(self) -> tuple[EditOutcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.state == "failed")


def requested_edits(inputs: Sequence[object]) -> list[object]:
    """Return the edits of all calls of the tool, in order. An invalid input counts as one malformed edit."""
    edits: list[object] = []
    for tool_input in inputs:
        items = cast("dict[str, object]", tool_input).get("edits") if isinstance(tool_input, dict) else None
        edits += cast("list[object]", items) if isinstance(items, list) else [None]
    return edits


def apply_edits(job: str, edits: object) -> EditResult:
    """Apply edits to a job. Never raises, whatever the edits are."""
    return _apply_all(job, job, edits)


def apply_correction(result: EditResult, edits: object) -> EditResult:
    """Apply the model's second attempt at the failed edits.

    If there are as many as failed edits, they are matched one by one; otherwise all of them are applied, or
    none.
    """
    attempt = _apply_all(result.job, result.code, edits)
    if len(attempt.outcomes) == len(result.failed):
        second = iter(attempt.outcomes)
        outcomes = tuple(
            _prefer_applied(first, next(second)) if first.state == "failed" else first for first in result.outcomes
        )
    elif attempt.failed or attempt.code == result.code:
        return result
    else:
        outcomes = tuple(
            msgspec.structs.replace(outcome, state="applied", how="corrected", reason=None, lines=())
            if outcome.state == "failed"
            else outcome
            for outcome in result.outcomes
        )
    return msgspec.structs.replace(attempt, outcomes=outcomes)


def apply_code_correction(result: EditResult, edits: object, is_better: Callable[[str], bool]) -> EditResult:
    """Apply edits that should fix errors in the code; return the result unchanged if they don't."""
    attempt = _apply_all(result.job, result.code, edits)
    if attempt.failed or attempt.code == result.code or not is_better(attempt.code):
        return result
    return msgspec.structs.replace(attempt, outcomes=result.outcomes)


def _prefer_applied(first: EditOutcome, second: EditOutcome) -> EditOutcome:
    return msgspec.structs.replace(second, how="corrected") if second.state == "applied" else first


def _apply_all(job: str, code: str, edits: object) -> EditResult:
    """Apply edits to `code`, which results from earlier edits of `job`."""
    newline = "\r\n" if 2 * job.count("\r\n") > job.count("\n") else "\n"
    outcomes: list[EditOutcome] = []
    for edit in cast("list[object]", edits) if isinstance(edits, list) else [edits]:
        code, outcome = _apply_one(code, edit, newline=newline, is_blank=not job.strip() and not code.strip())
        outcomes.append(outcome)
    return EditResult(job=job, code=code, outcomes=tuple(outcomes))


def _apply_one(code: str, edit: object, *, newline: str, is_blank: bool) -> tuple[str, EditOutcome]:
    fields = cast("dict[str, Any]", edit) if isinstance(edit, dict) else {}
    action, old, raw_new = fields.get("action"), fields.get("old_code"), fields.get("new_code")
    new = raw_new
    # A fence that the job has as well is part of its code, such as of a comment.
    if not (isinstance(old, str) and _OPENING_FENCE.match(old) and old in code):
        old, new = strip_fence(old), strip_fence(raw_new)
    outcome = EditOutcome(
        action=action if isinstance(action, str) else "",
        old=old if isinstance(old, str) else "",
        new=new if isinstance(new, str) else "",
        state="failed",
        reason="malformed",
    )
    if not isinstance(new, str):
        return code, outcome
    whole = new if new == raw_new else f"{new}\n"
    if is_blank:
        if not new.strip():
            return code, _mark_unchanged(outcome)
        return _replace_everything(code, whole, newline, outcome, how="created")
    match action:
        case "rewrite":
            return _replace_everything(code, whole, newline, outcome, how="rewrite") if new.strip() else (code, outcome)
        case "replace" | "replace_all" if outcome.old:
            if old == new:
                return code, _mark_unchanged(outcome)
            return _replace_matches(code, outcome, newline)
        case _:
            return code, outcome


def strip_fence(code: object) -> object:
    """Return code without the Markdown fence around it, closed or not. Other values are returned unchanged."""
    first, *lines = code.strip().split("\n") if isinstance(code, str) else ("",)
    opening = _OPENING_FENCE.fullmatch(first)
    if opening is None:
        return code
    if lines and lines[-1].strip() == opening["fence"]:
        lines.pop()
    return "\n".join(lines).removesuffix("\r")


def _replace_everything(
    code: str, new: str, newline: str, outcome: EditOutcome, *, how: Literal["created", "rewrite"]
) -> tuple[str, EditOutcome]:
    after = _LINE_END.sub(newline, new)
    if after == code:
        return code, _mark_unchanged(outcome)
    return after, _mark_applied(outcome, how, 0, len(code))


def _replace_matches(code: str, outcome: EditOutcome, newline: str) -> tuple[str, EditOutcome]:
    replace_all = outcome.action == "replace_all"
    match edit_matcher.find_matches(code, outcome.old, overlap="apart" if replace_all else "overlapping"):
        case None:
            return code, msgspec.structs.replace(outcome, reason="not_found")
        case tier, matches:
            if len(matches) > 1 and not replace_all:
                lines = tuple(edit_matcher.line_at(code, match.start) for match in matches)
                return code, msgspec.structs.replace(outcome, reason="ambiguous", lines=lines)
            pieces, end = list[str](), 0
            for match in matches:
                pieces += (code[end : match.start], _LINE_END.sub(newline, edit_matcher.reindent(outcome.new, match)))
                end = match.end
            after = "".join((*pieces, code[end:]))
            if after == code:
                return code, _mark_unchanged(outcome)
            return after, _mark_applied(outcome, tier, matches[0].start, matches[-1].end)


def _mark_applied(outcome: EditOutcome, how: ApplyMethod, start: int, end: int) -> EditOutcome:
    return msgspec.structs.replace(outcome, state="applied", how=how, reason=None, start=start, end=end)


def _mark_unchanged(outcome: EditOutcome) -> EditOutcome:
    return msgspec.structs.replace(outcome, state="unchanged", reason=None)
