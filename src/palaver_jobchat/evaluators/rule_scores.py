"""Judging: what the rules say of suggested code, as scores."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from palaver import Case, Score, Skip
from palaver_jobchat.adaptors.folder import AdaptorDocs
from palaver_jobchat.adaptors.library import AdaptorLibrary
from palaver_jobchat.evaluators import expected
from palaver_jobchat.evaluators.suggested_code import answer_adaptor, suggested_code
from palaver_jobchat.rules import RULES, Finding, Job, Rule, adaptor_functions
from palaver_jobchat.rules.code_blocks import CodeBlock
from palaver_jobchat.rules.outside_untouched import ID, outside_untouched
from palaver_jobchat.settings import read_settings

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
    code = _code(case, docs)
    scores = {rule.id: _judged(rule, code) for rule in RULES if _unjudged(rule, code) is None}
    if (untouched := _untouched(case)) is not None:
        scores[ID] = untouched
    return [msgspec.structs.replace(score, name=rule) for rule, score in scores.items()]


def score_rule(rule: str, case: Case, docs: AdaptorDocs | None) -> Score:
    """The score of one of them."""
    code = _code(case, docs)
    why = _unjudged(_BY_ID[rule], code)
    if why is not None:
        raise Skip(*why)
    return _judged(_BY_ID[rule], code)


def score_outside_untouched(case: Case) -> Score:
    """The score of the rule that needs more than code: how the job was, and where it was to be changed."""
    score = _untouched(case)
    if score is None:
        raise Skip("no_span", "the job is not changed, or the row does not say which lines may be")
    return score


def _code(case: Case, docs: AdaptorDocs | None) -> list[ParsedBlock]:
    blocks = suggested_code(case).blocks
    if not blocks:
        raise Skip("no_code", "the answer suggests no code")
    return [ParsedBlock(block, Job(block.code, docs)) for block in blocks]


def _unjudged(rule: Rule, code: Sequence[ParsedBlock]) -> tuple[str, str] | None:
    """Why a rule can say nothing of this code, as a code and in words; none where it can."""
    if rule is adaptor_functions.KNOWN_FUNCTIONS and all(one.job.docs is None for one in code):
        return "no_docs", "there is no description of this very version of the adaptor"
    if not any(rule.any_code or (one.job.program.syntax.ok and not one.job.too_deep) for one in code):
        return "not_readable", "the code is not JavaScript, or nested too deeply"
    return None


def _judged(rule: Rule, code: Sequence[ParsedBlock]) -> Score:
    return _scored(
        [
            msgspec.structs.replace(finding, line=finding.line + one.block.line - 1)
            for one in code
            for finding in rule.findings(one.job)
        ]
    )


def _untouched(case: Case) -> Score | None:
    """None where the job is not changed, or may be changed anywhere."""
    said, span = suggested_code(case), expected.span(case.expected)
    if said.new is None or span is None:
        return None
    return _scored(outside_untouched(said.new, old=said.old, span=span))


def _scored(findings: Sequence[Finding]) -> Score:
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
