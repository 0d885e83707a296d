"""Edits of a job's code that a model asked for: a pure function of the job and any JSON.

Edits run in order, each on what those before it made; one that cannot be applied changes nothing, and says why. What
is told about them afterwards is telling.py.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

import msgspec

from palaver_jobchat import edit_matching

How = Literal["exact", "line-ends", "indent", "created", "rewrite", "corrected"]
Reason = Literal["not_found", "ambiguous", "malformed", "truncated"]

_LINE_END = re.compile(r"\r?\n")


class EditOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one edit."""

    action: str = ""
    old: str = ""
    new: str = ""
    state: Literal["applied", "unchanged", "failed"]
    how: How | None = None
    """Only of one that was applied."""
    reason: Reason | None = None
    """Only of one that failed."""
    start: int | None = None
    """Where in the text that this edit saw; of several places, from the first …"""
    end: int | None = None
    """… to the last."""
    lines: tuple[int, ...] = ()
    """The lines where the places of an ambiguous edit begin."""


class EditResult(msgspec.Struct, frozen=True, kw_only=True):
    """A job after its edits."""

    job: str
    """As it was."""
    code: str
    """As it is now."""
    outcomes: tuple[EditOutcome, ...] = ()

    @property
    def suggested(self) -> str | None:
        """The new code, if it is not the old."""
        return None if self.code == self.job else self.code

    @property
    def failed(self) -> tuple[EditOutcome, ...]:
        """The edits that were not applied."""
        return tuple(outcome for outcome in self.outcomes if outcome.state == "failed")


def requested_edits(inputs: Sequence[object]) -> list[object]:
    """The edits of all calls of the tool, in order; an input that is not its shape is one edit that is none either."""
    edits: list[object] = []
    for given in inputs:
        some = cast("dict[str, object]", given).get("edits") if isinstance(given, dict) else None
        edits += cast("list[object]", some) if isinstance(some, list) else [None]
    return edits


def apply_edits(job: str, edits: object) -> EditResult:
    """The job with these edits. Whatever they are, this does not raise."""
    return _run(EditResult(job=job, code=job), edits)


def truncated_result(job: str) -> EditResult:
    """The job as it was: the answer ended inside its edits, and half an edit is none."""
    return EditResult(job=job, code=job, outcomes=(EditOutcome(state="failed", reason="truncated"),))


def apply_correction(result: EditResult, edits: object) -> EditResult:
    """The result with the model's second try at the edits that failed; there is no third.

    As many as had failed are taken one by one. Any other number cannot be told apart: all of them, or none.
    """
    tried = _run(EditResult(job=result.job, code=result.code), edits)
    failed = result.failed
    if len(tried.outcomes) == len(failed):
        second = iter(tried.outcomes)
        outcomes = tuple(
            _second(first, next(second)) if first.state == "failed" else first for first in result.outcomes
        )
        return EditResult(job=result.job, code=tried.code, outcomes=outcomes)
    if tried.failed or tried.code == result.code:
        return result
    outcomes = tuple(
        msgspec.structs.replace(outcome, state="applied", how="corrected", reason=None, lines=())
        if outcome.state == "failed"
        else outcome
        for outcome in result.outcomes
    )
    return EditResult(job=result.job, code=tried.code, outcomes=outcomes)


def apply_syntax_correction(result: EditResult, edits: object, parses: Callable[[str], bool]) -> EditResult:
    """The result with edits that were to mend its syntax, if they do."""
    tried = _run(EditResult(job=result.job, code=result.code), edits)
    if tried.failed or tried.code == result.code or not parses(tried.code):
        return result
    return EditResult(job=result.job, code=tried.code, outcomes=result.outcomes)


def _second(first: EditOutcome, second: EditOutcome) -> EditOutcome:
    return msgspec.structs.replace(second, how="corrected") if second.state == "applied" else first


def _run(before: EditResult, edits: object) -> EditResult:
    newline = "\r\n" if 2 * before.job.count("\r\n") > before.job.count("\n") else "\n"
    code, outcomes = before.code, list[EditOutcome]()
    for edit in cast("list[object]", edits) if isinstance(edits, list) else [edits]:
        code, outcome = _edited(code, edit, newline=newline, blank=not before.job.strip() and not code.strip())
        outcomes.append(outcome)
    return EditResult(job=before.job, code=code, outcomes=tuple(outcomes))


def _edited(code: str, edit: object, *, newline: str, blank: bool) -> tuple[str, EditOutcome]:
    """The code after one edit, and what became of that."""
    fields = cast("dict[str, Any]", edit) if isinstance(edit, dict) else {}
    action, old, new = fields.get("action"), fields.get("old_code"), fields.get("new_code")
    outcome = EditOutcome(
        action=action if isinstance(action, str) else "",
        old=old if isinstance(old, str) else "",
        new=new if isinstance(new, str) else "",
        state="failed",
        reason="malformed",
    )
    if not isinstance(new, str):
        return code, outcome
    if blank:
        if not new.strip():
            return code, _unchanged(outcome)
        return _whole(code, new, newline, outcome, how="created")
    match action:
        case "rewrite":
            return _whole(code, new, newline, outcome, how="rewrite") if new.strip() else (code, outcome)
        case "replace" | "replace_all" if outcome.old:
            if old == new:
                return code, _unchanged(outcome)
            return _replaced(code, outcome, newline)
        case _:
            return code, outcome


def _whole(
    code: str, new: str, newline: str, outcome: EditOutcome, *, how: Literal["created", "rewrite"]
) -> tuple[str, EditOutcome]:
    after = _LINE_END.sub(newline, new)
    if after == code:
        return code, _unchanged(outcome)
    return after, _applied(outcome, how, 0, len(code))


def _replaced(code: str, outcome: EditOutcome, newline: str) -> tuple[str, EditOutcome]:
    everywhere = outcome.action == "replace_all"
    match edit_matching.find_matches(code, outcome.old, taking="apart" if everywhere else "overlapping"):
        case None:
            return code, msgspec.structs.replace(outcome, reason="not_found")
        case tier, found:
            if len(found) > 1 and not everywhere:
                lines = tuple(edit_matching.line_at(code, place.start) for place in found)
                return code, msgspec.structs.replace(outcome, reason="ambiguous", lines=lines)
            pieces, done = list[str](), 0
            for place in found:
                pieces += (code[done : place.start], _LINE_END.sub(newline, edit_matching.reindent(outcome.new, place)))
                done = place.end
            after = "".join((*pieces, code[done:]))
            if after == code:
                return code, _unchanged(outcome)
            return after, _applied(outcome, tier, found[0].start, found[-1].end)


def _applied(outcome: EditOutcome, how: How, start: int, end: int) -> EditOutcome:
    return msgspec.structs.replace(outcome, state="applied", how=how, reason=None, start=start, end=end)


def _unchanged(outcome: EditOutcome) -> EditOutcome:
    return msgspec.structs.replace(outcome, state="unchanged", reason=None)
