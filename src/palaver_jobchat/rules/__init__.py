"""The rules of good jobs, one file each: pure functions of code and, where it is known, the adaptor's description."""

from typing import Final

import msgspec

from palaver_jobchat.adaptors.folder import Docs
from palaver_jobchat.rules import (
    json_path,
    keeps_state,
    known_functions,
    lazy_state,
    no_alter_state,
    no_bare_state,
    no_credentials,
    no_duplicate_declarations,
    no_import,
    no_placeholders,
    no_state_call,
    no_top_level_await,
    parses,
    returns_state,
    top_level_operations,
)
from palaver_jobchat.rules.base import Finding, Job, Rule
from palaver_jobchat.rules.blocks import Block, fenced
from palaver_jobchat.rules.outside_untouched import outside_untouched

RULES: Final[tuple[Rule, ...]] = (
    parses.RULE,
    no_import.RULE,
    top_level_operations.RULE,
    no_top_level_await.RULE,
    no_alter_state.RULE,
    no_state_call.RULE,
    no_bare_state.RULE,
    lazy_state.RULE,
    returns_state.RULE,
    keeps_state.RULE,
    no_credentials.RULE,
    known_functions.RULE,
    json_path.RULE,
    no_placeholders.RULE,
    no_duplicate_declarations.RULE,
)
"""All that need nothing but the code, and the docs if there are any; `outside_untouched` needs more."""


def check(code: str, docs: Docs | None = None) -> tuple[Finding, ...]:
    """What all rules find in a job: in their order, and within each in that of the lines."""
    job = Job(code, docs)
    return tuple(finding for rule in RULES for finding in rule.findings(job))


def check_text(text: str, docs: Docs | None = None) -> tuple[Finding, ...]:
    """What all rules find in the blocks of JavaScript of a Markdown text, with the lines of the text."""
    return tuple(
        msgspec.structs.replace(finding, line=finding.line + block.line - 1)
        for block in fenced(text)
        for finding in check(block.code, docs)
    )


__all__ = ["RULES", "Block", "Finding", "Job", "Rule", "check", "check_text", "fenced", "outside_untouched"]
