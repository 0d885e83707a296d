"""Score the code that an answer suggests."""

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
from palaver_jobchat.javascript import CodeBlock, javascript_blocks
from palaver_jobchat.rules import RULES, Finding, Job, Rule, adaptor_functions
from palaver_jobchat.settings import read_settings

_LINE = re.compile(r"[^\n]*\n|[^\n]+")

OUTSIDE_UNTOUCHED = "outside_untouched"


def find_changes_outside(code: str, *, old: str, span: tuple[int, int]) -> tuple[Finding, ...]:
    """Whether only the lines from the first to the last of `span`, counted in the old code from 1, are others now.

    They may have become more or fewer; a span one less at its end than at its beginning is a place between two lines.
    """
    first, last = span
    lines = _LINE.findall(old)
    before, after = "".join(lines[: max(first - 1, 0)]), "".join(lines[max(last, 0) :])
    if not code.startswith(before):
        same = _same_lines(code, before)
        return (
            Finding(
                OUTSIDE_UNTOUCHED, "error", same + 1, "This was changed, though it stands before what was to change."
            ),
        )
    if not code[len(before) :].endswith(after):
        from_end = _same_lines(code[::-1], after[::-1])
        line = max(code.count("\n") + 1 - from_end, 1)
        return (
            Finding(OUTSIDE_UNTOUCHED, "error", line, "This was changed, though it stands after what was to change."),
        )
    return ()


def _same_lines(code: str, other: str) -> int:
    """How many lines are the same from the beginning on."""
    same = 0
    for one, two in zip(code, other, strict=False):
        if one != two:
            break
        same += 1
    return code.count("\n", 0, same)


_NOTHING: Mapping[str, Any] = {}


class SuggestedCode(msgspec.Struct, frozen=True, kw_only=True):
    """The code of one answer."""

    blocks: tuple[CodeBlock, ...]
    """What rules judge: the whole new job, or each block of the text."""
    old: str = ""
    """The job before."""
    new: str | None = None
    """The job after; none where no edit changes it, and where code stands in the text."""
    text: str = ""
    """What the answer says."""


def suggested_code(case: Case) -> SuggestedCode:
    """The code that an answer suggests. Where edits can be made, code in the text is an example and none of it."""
    edit = _data(case, "code-edit")
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
    """The adaptor whose description the answer was made with; none where that was not the very version asked for."""
    reply = _data(case, "reply")
    if reply is None:  # An answer from elsewhere, that has only its text.
        asked = _context(case).get("adaptor")
        return names.parse_adaptor(asked) if isinstance(asked, str) and asked.strip() else None
    match reply:
        case {"meta": {"job_chat": {"adaptor": {"name": str(name), "version": str(version), "docs": "exact"}}}}:
            return Adaptor(name, version)
        case _:
            return None


def _can_edit(case: Case) -> bool:
    reply = _data(case, "reply")
    if reply is not None:
        return "suggested_code" in reply
    return case.inputs.get("suggest_code") is True or case.inputs.get("use_new_prompt") is True


def _data(case: Case, name: str) -> Mapping[str, Any] | None:
    """The value of the last data part of this name, if it is an object."""
    for message in reversed(case.messages):
        for part in reversed(message.parts):
            value: Any = part.value if isinstance(part, Data) and part.name == name else None
            if isinstance(value, dict):
                return cast("dict[str, Any]", value)
    return None


def _context(case: Case) -> Mapping[str, Any]:
    context = case.inputs.get("context")
    return cast("dict[str, Any]", context) if isinstance(context, dict) else _NOTHING


Needles = str | list[str]


class Expected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mistyped key is an error, not an expectation that always holds."""

    edit: bool | UnsetType = UNSET
    """Whether the job is changed."""
    code: str | UnsetType = UNSET
    """The whole suggested code; where code stands in the text, one of its blocks."""
    contains: Needles | UnsetType = UNSET
    """Texts that stand in the changed job or, where it is not changed, in the answer."""
    absent: Needles | UnsetType = UNSET
    """Texts that do not."""
    span: tuple[int, int] | UnsetType = UNSET
    """The first and last line of the old job that may be changed."""


class Check(msgspec.Struct, frozen=True):
    """One expectation, and what is wrong where it does not hold."""

    key: str
    problem: str | None = None


def score_expected(case: Case) -> Score:
    """The share of what a row expects that holds; passed where all of it does."""
    found = list(check_expected(parse_expected(case.expected), suggested_code(case)))
    if not found:
        raise Skip("no_expected", "the row expects nothing")
    faults = [check.problem for check in found if check.problem is not None]
    return Score(
        passed=not faults,
        score=1 - len(faults) / len(found),
        reason=" ".join(faults),
        details={"checks": {check.key: check.problem is None for check in found}},
    )


def parse_expected(value: Any) -> Expected:
    """What is expected; a ValueError says why it cannot be read."""
    try:
        return msgspec.convert(value, Expected)
    except msgspec.ValidationError as error:
        raise ValueError(f"The column `expected` cannot be used: {error}.") from error


def expected_span(value: Any) -> tuple[int, int] | None:
    """The lines that may be changed, if a row says that."""
    if not isinstance(value, dict) or "span" not in value:
        return None
    given = parse_expected({"span": cast("dict[str, Any]", value)["span"]}).span
    return None if given is UNSET else given


def check_expected(expected: Expected, said: SuggestedCode) -> Iterator[Check]:
    """A check for every key that is given."""
    text = said.text if said.new is None else said.new
    if expected.edit is not UNSET:
        yield Check("edit", _edit_fault(expected.edit, said))
    if expected.code is not UNSET:
        yield Check("code", _code_fault(expected.code, said))
    if expected.contains is not UNSET:
        missing = [needle for needle in _needles(expected.contains) if needle not in text]
        yield Check("contains", f"This is missing: {_join_quoted(missing)}." if missing else None)
    if expected.absent is not UNSET:
        found = [needle for needle in _needles(expected.absent) if needle in text]
        yield Check("absent", f"This should not be there: {_join_quoted(found)}." if found else None)
    if expected.span is not UNSET:
        findings = find_changes_outside(said.new, old=said.old, span=expected.span) if said.new is not None else ()
        yield Check("span", f"Line {findings[0].line}: {findings[0].message}" if findings else None)


def _edit_fault(expected: bool, said: SuggestedCode) -> str | None:  # noqa: FBT001 (it is what is expected)
    if expected == (said.new is not None):
        return None
    return "The job was to be changed, and is not." if expected else "The job is changed, and was not to be."


def _code_fault(expected: str, said: SuggestedCode) -> str | None:
    if said.new is not None:
        same = said.new == expected
        lines = zip(said.new.splitlines(keepends=True), expected.splitlines(keepends=True), strict=False)
        line = next((place for place, (one, other) in enumerate(lines, 1) if one != other), None)
        where = f" from line {line} on" if line is not None else " at its end"
        return None if same else f"The code is another{where}."
    # Of a block in a text nobody knows how its last line ended.
    if any(block.code.strip("\r\n") == expected.strip("\r\n") for block in said.blocks):
        return None
    return "No such code is suggested." if said.blocks else "No code is suggested."


def _needles(needles: Needles) -> list[str]:
    return [needles] if isinstance(needles, str) else needles


def _join_quoted(texts: list[str]) -> str:
    return ", ".join(f"`{text}`" for text in texts)


_BY_ID = {rule.id: rule for rule in RULES}


class ParsedBlock(msgspec.Struct, frozen=True):
    """A block of code, read once for all rules."""

    block: CodeBlock
    job: Job


async def adaptor_docs(case: Case) -> AdaptorDocs | None:
    """What is known of the adaptor. Nothing is fetched for it: what the answer was made with lies in a folder."""
    asked = answer_adaptor(case)
    if asked is None:
        return None
    docs = await _library().look_up(asked, download=False, on_progress=lambda _: None)
    return docs if docs.state == "exact" else None


def _library() -> AdaptorLibrary:
    return AdaptorLibrary(read_settings(os.environ, Path.cwd()))


def score_all_rules(case: Case, docs: AdaptorDocs | None) -> list[Score]:
    """A score for every rule that can judge the code, each with the rule's name."""
    code = _parsed_blocks(case, docs)
    scores = {rule.id: _score_blocks(rule, code) for rule in RULES if _skip_reason(rule, code) is None}
    if (untouched := _span_score(case)) is not None:
        scores[OUTSIDE_UNTOUCHED] = untouched
    return [msgspec.structs.replace(score, name=rule) for rule, score in scores.items()]


def score_rule(rule: str, case: Case, docs: AdaptorDocs | None) -> Score:
    """The score of one of them."""
    code = _parsed_blocks(case, docs)
    why = _skip_reason(_BY_ID[rule], code)
    if why is not None:
        raise Skip(*why)
    return _score_blocks(_BY_ID[rule], code)


def score_outside_untouched(case: Case) -> Score:
    """The score of the rule that needs more than code: how the job was, and where it was to be changed."""
    score = _span_score(case)
    if score is None:
        raise Skip("no_span", "the job is not changed, or the row does not say which lines may be")
    return score


def _parsed_blocks(case: Case, docs: AdaptorDocs | None) -> list[ParsedBlock]:
    blocks = suggested_code(case).blocks
    if not blocks:
        raise Skip("no_code", "the answer suggests no code")
    return [ParsedBlock(block, Job(block.code, docs)) for block in blocks]


def _skip_reason(rule: Rule, code: Sequence[ParsedBlock]) -> tuple[str, str] | None:
    """Why a rule can say nothing of this code, as a code and in words; none where it can."""
    if rule is adaptor_functions.KNOWN_FUNCTIONS and all(one.job.docs is None for one in code):
        return "no_docs", "there is no description of this very version of the adaptor"
    if not any(rule.accepts_invalid_code or (one.job.program.syntax.ok and not one.job.is_too_deep) for one in code):
        return "not_readable", "the code is not JavaScript, or nested too deeply"
    return None


def _score_blocks(rule: Rule, code: Sequence[ParsedBlock]) -> Score:
    return _score_findings(
        [
            msgspec.structs.replace(finding, line=finding.line + one.block.line - 1)
            for one in code
            for finding in rule.findings(one.job)
        ]
    )


def _span_score(case: Case) -> Score | None:
    """None where the job is not changed, or may be changed anywhere."""
    said, span = suggested_code(case), expected_span(case.expected)
    if said.new is None or span is None:
        return None
    return _score_findings(find_changes_outside(said.new, old=said.old, span=span))


def _score_findings(findings: Sequence[Finding]) -> Score:
    """Passed where there are neither errors nor warnings. Notes are told, and count for nothing."""
    bad = [finding for finding in findings if finding.level != "note"]
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    return Score(
        passed=not bad,
        reason=f"Line {bad[0].line}: {bad[0].message}{more}" if bad else "",
        details={
            "findings": [
                {"level": finding.level, "line": finding.line, "message": finding.message} for finding in findings
            ]
        },
    )
