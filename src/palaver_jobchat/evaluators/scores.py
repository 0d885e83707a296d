"""The code that an answer suggests, and its scores: by the rules, and by what a row expects.

`expected` is `{"code"?, "contains"?, "absent"?, "edit"?, "span"?}`; each key is one check.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import UNSET, UnsetType

from palaver import Case, Data, Score, Skip
from palaver_jobchat.adaptors import names
from palaver_jobchat.adaptors.entries import AdaptorDocs
from palaver_jobchat.adaptors.library import AdaptorLibrary
from palaver_jobchat.adaptors.names import Adaptor
from palaver_jobchat.javascript import CodeBlock, common_prefix, javascript_blocks
from palaver_jobchat.rules import RULES, Finding, Job, Rule, adaptor_functions
from palaver_jobchat.settings import read_settings

_LINE = re.compile(r"[^\n]*\n|[^\n]+")

OUTSIDE_UNTOUCHED = "outside_untouched"
_RULES_WITH_DOCS = (adaptor_functions.known_functions, adaptor_functions.request_options)


def find_changes_outside(code: str, *, old: str, span: tuple[int, int]) -> tuple[Finding, ...]:
    """Return a finding if lines outside of `span` (first and last line of the old code, from 1) have changed.

    A span that ends one line before its start is a position between two lines.
    """
    first, last = span
    lines = _LINE.findall(old)
    before, after = "".join(lines[: max(first - 1, 0)]), "".join(lines[max(last, 0) :])
    if not code.startswith(before):
        equal_lines = common_prefix(code, before).count("\n")
        message = "This line was changed, but it is before the lines that may change."
        return (Finding(OUTSIDE_UNTOUCHED, "error", equal_lines + 1, message),)
    if not code[len(before) :].endswith(after):
        from_end = common_prefix(code[::-1], after[::-1]).count("\n")
        line = max(code.count("\n") + 1 - from_end, 1)
        message = "This line was changed, but it is after the lines that may change."
        return (Finding(OUTSIDE_UNTOUCHED, "error", line, message),)
    return ()


class SuggestedCode(msgspec.Struct, frozen=True, kw_only=True):
    blocks: tuple[CodeBlock, ...]
    """What rules check: the new job, or each block of the text."""
    old: str = ""
    """The job before the answer."""
    new: str | None = None
    """The edited job; None if it is unchanged, and in plain mode."""
    text: str = ""
    """The answer's text."""


def suggested_code(case: Case) -> SuggestedCode:
    """Return the code that an answer suggests. In edit mode, code in the text is only an example."""
    edit = _last_data(case, "code-edit")
    if edit is not None:
        new = edit.get("new")
        blocks = (CodeBlock(new, 1),) if isinstance(new, str) else ()
        old = edit.get("old")
        return SuggestedCode(
            blocks=blocks,
            old=old if isinstance(old, str) else "",
            new=new if isinstance(new, str) else None,
            text=case.text,
        )
    old = _context(case).get("expression")
    blocks = () if _can_edit(case) else tuple(javascript_blocks(case.text))
    return SuggestedCode(blocks=blocks, old=old if isinstance(old, str) else "", text=case.text)


def answer_adaptor(case: Case) -> Adaptor | None:
    """Return the adaptor whose docs the answer was based on; None if they were not of the requested version."""
    reply = _last_data(case, "reply")
    if reply is None:  # An imported answer: text only.
        adaptor = _context(case).get("adaptor")
        return names.parse_adaptor(adaptor) if isinstance(adaptor, str) and adaptor.strip() else None
    match reply:
        case {"meta": {"job_chat": {"adaptor": {"name": str(name), "version": str(version), "docs": "exact"}}}}:
            return Adaptor(name, version)
        case _:
            return None


def _can_edit(case: Case) -> bool:
    reply = _last_data(case, "reply")
    if reply is not None:
        return "suggested_code" in reply
    return case.inputs.get("suggest_code") is True or case.inputs.get("use_new_prompt") is True


def _last_data(case: Case, name: str) -> Mapping[str, Any] | None:
    """Return the value of the last data part with this name that is an object."""
    for message in reversed(case.messages):
        for part in reversed(message.parts):
            value: Any = part.value if isinstance(part, Data) and part.name == name else None
            if isinstance(value, dict):
                return cast("dict[str, Any]", value)
    return None


def _context(case: Case) -> Mapping[str, Any]:
    context = case.inputs.get("context")
    return cast("dict[str, Any]", context) if isinstance(context, dict) else {}


Needles = str | list[str]


class Expected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The column `expected` of a row. Unknown keys are errors."""

    edit: bool | UnsetType = UNSET
    """Whether the job must be changed."""
    code: str | UnsetType = UNSET
    """The complete new code; in plain mode, one of the blocks."""
    contains: Needles | UnsetType = UNSET
    """Strings that must occur in the new job or, without one, in the answer."""
    absent: Needles | UnsetType = UNSET
    """Strings that must not occur."""
    span: tuple[int, int] | UnsetType = UNSET
    """The first and last line of the old job that may be changed."""


def score_expected(case: Case) -> Score:
    """Return the share of the row's expectations that are met. Passes if all are."""
    checks = dict(check_expected(parse_expected(case.expected), suggested_code(case)))
    if not checks:
        raise Skip("no_expected", "`expected` is empty")
    problems = [problem for problem in checks.values() if problem is not None]
    return Score(
        passed=not problems,
        score=1 - len(problems) / len(checks),
        reason=" ".join(problems),
        details={"checks": {key: problem is None for key, problem in checks.items()}},
    )


def parse_expected(value: Any) -> Expected:
    """Decode `expected`. Raises ValueError."""
    try:
        return msgspec.convert(value, Expected)
    except msgspec.ValidationError as error:
        raise ValueError(f"Invalid value in the column `expected`: {error}.") from error


def expected_span(value: Any) -> tuple[int, int] | None:
    """Return the lines that may change, if the row limits them."""
    if not isinstance(value, dict) or "span" not in value:
        return None
    span = parse_expected({"span": cast("dict[str, Any]", value)["span"]}).span
    return None if span is UNSET else span


def check_expected(expected: Expected, suggestion: SuggestedCode) -> Iterator[tuple[str, str | None]]:
    """Yield each key that is set, with the problem, or None if the expectation is met."""
    text = suggestion.text if suggestion.new is None else suggestion.new
    if expected.edit is not UNSET:
        yield "edit", _edit_problem(expected.edit, suggestion)
    if expected.code is not UNSET:
        yield "code", _code_problem(expected.code, suggestion)
    if expected.contains is not UNSET:
        missing = [needle for needle in _needles(expected.contains) if needle not in text]
        yield "contains", f"Missing: {_join_quoted(missing)}." if missing else None
    if expected.absent is not UNSET:
        present = [needle for needle in _needles(expected.absent) if needle in text]
        yield "absent", f"Should not occur: {_join_quoted(present)}." if present else None
    if expected.span is not UNSET:
        findings = (
            find_changes_outside(suggestion.new, old=suggestion.old, span=expected.span)
            if suggestion.new is not None
            else ()
        )
        yield "span", f"Line {findings[0].line}: {findings[0].message}" if findings else None


def _edit_problem(expected: bool, suggestion: SuggestedCode) -> str | None:  # noqa: FBT001
    if expected == (suggestion.new is not None):
        return None
    return "The job should have been changed." if expected else "The job should not have been changed."


def _code_problem(expected: str, suggestion: SuggestedCode) -> str | None:
    if suggestion.new is not None:
        is_equal = suggestion.new == expected
        lines = zip(suggestion.new.splitlines(keepends=True), expected.splitlines(keepends=True), strict=False)
        line = next((number for number, (new, old) in enumerate(lines, 1) if new != old), None)
        where = f", starting at line {line}" if line is not None else " at the end"
        return None if is_equal else f"The code differs from the expected code{where}."
    # A fenced block does not tell how its last line ended.
    if any(block.code.strip("\r\n") == expected.strip("\r\n") for block in suggestion.blocks):
        return None
    return "No code block matches the expected code." if suggestion.blocks else "The answer suggests no code."


def _needles(needles: Needles) -> list[str]:
    return [needles] if isinstance(needles, str) else needles


def _join_quoted(texts: list[str]) -> str:
    return ", ".join(f"`{text}`" for text in texts)


_BY_ID = {rule.id: rule for rule in RULES}


async def adaptor_docs(case: Case) -> AdaptorDocs | None:
    """Return the docs of the answer's adaptor. Never downloads: the docs that the answer used are cached."""
    adaptor = answer_adaptor(case)
    if adaptor is None:
        return None
    library = AdaptorLibrary(read_settings(os.environ, Path.cwd()))
    docs = await library.look_up(adaptor, download=False, on_progress=lambda _: None)
    return docs if docs.state == "exact" else None


def score_all_rules(case: Case, docs: AdaptorDocs | None) -> list[Score]:
    """Return the scores of all rules that apply to the code, named by the rules."""
    code = _parsed_blocks(case, docs)
    scores = {rule.id: _score_blocks(rule, code) for rule in RULES if _skip_reason(rule, code) is None}
    if (untouched := _span_score(case)) is not None:
        scores[OUTSIDE_UNTOUCHED] = untouched
    return [msgspec.structs.replace(score, name=rule) for rule, score in scores.items()]


def score_rule(rule: str, case: Case, docs: AdaptorDocs | None) -> Score:
    code = _parsed_blocks(case, docs)
    reason = _skip_reason(_BY_ID[rule], code)
    if reason is not None:
        raise Skip(*reason)
    return _score_blocks(_BY_ID[rule], code)


def score_outside_untouched(case: Case) -> Score:
    """Score whether an edit leaves the lines outside of the row's `expected.span` unchanged."""
    score = _span_score(case)
    if score is None:
        raise Skip("no_span", "the job is unchanged, or the row does not limit which lines may change")
    return score


def _parsed_blocks(case: Case, docs: AdaptorDocs | None) -> list[tuple[CodeBlock, Job]]:
    blocks = suggested_code(case).blocks
    if not blocks:
        raise Skip("no_code", "the answer suggests no code")
    return [(block, Job(block.code, docs)) for block in blocks]


def _skip_reason(rule: Rule, code: Sequence[tuple[CodeBlock, Job]]) -> tuple[str, str] | None:
    """Return the code and message of why a rule does not apply, or None if it does."""
    if rule in _RULES_WITH_DOCS and all(job.docs is None for _, job in code):
        return "no_docs", "docs for this exact version of the adaptor are missing"
    if not any(rule.accepts(job) for _, job in code):
        return "not_readable", "the code is not valid JavaScript, or is nested too deeply"
    return None


def _score_blocks(rule: Rule, code: Sequence[tuple[CodeBlock, Job]]) -> Score:
    return _score_findings(
        [
            msgspec.structs.replace(finding, line=finding.line + block.line - 1)
            for block, job in code
            for finding in rule.findings(job)
        ]
    )


def _span_score(case: Case) -> Score | None:
    """Return None if the job is unchanged or may change anywhere."""
    suggestion, span = suggested_code(case), expected_span(case.expected)
    if suggestion.new is None or span is None:
        return None
    return _score_findings(find_changes_outside(suggestion.new, old=suggestion.old, span=span))


def _score_findings(findings: Sequence[Finding]) -> Score:
    """Pass without errors and warnings. Notes are reported in the details only."""
    failures = [finding for finding in findings if finding.level != "note"]
    suffix = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
    return Score(
        passed=not failures,
        reason=f"Line {failures[0].line}: {failures[0].message}{suffix}" if failures else "",
        details={
            "findings": [
                {"level": finding.level, "line": finding.line, "message": finding.message} for finding in findings
            ]
        },
    )
