"""Rules for good jobs: pure functions of the code and, if known, the adaptor's docs.

Modules:

    base                 Rule, Finding, and the parsed Job that rules check
    scopes               which names the code declares, and where
    operations           the calls of adaptor functions, and the functions passed to them
    structure            rules: it parses, no imports, only operations at the top level
    state                rules: how `state` is returned, kept and accessed
    adaptor_functions    rules: functions exist, paths start with `$`
    credentials          rule: no credentials in the code
    placeholders         rule: nothing is left to be written
"""

from typing import Final

import msgspec

from palaver_jobchat.adaptors.entries import AdaptorDocs
from palaver_jobchat.javascript import javascript_blocks
from palaver_jobchat.rules import adaptor_functions, credentials, placeholders, state, structure
from palaver_jobchat.rules.base import Finding, Job, Rule

RULES: Final[tuple[Rule, ...]] = (
    structure.PARSES,
    structure.NO_IMPORT,
    structure.TOP_LEVEL_OPERATIONS,
    structure.NO_TOP_LEVEL_AWAIT,
    state.NO_ALTER_STATE,
    state.NO_STATE_CALL,
    state.NO_BARE_STATE,
    state.LAZY_STATE,
    state.RETURNS_STATE,
    state.KEEPS_STATE,
    credentials.NO_CREDENTIALS,
    adaptor_functions.KNOWN_FUNCTIONS,
    adaptor_functions.JSON_PATH,
    placeholders.NO_PLACEHOLDERS,
    structure.NO_DUPLICATE_DECLARATIONS,
)
"""The rules that need only the code and, if known, the adaptor's docs."""


def check(code: str, docs: AdaptorDocs | None = None) -> tuple[Finding, ...]:
    """Return the findings of all rules, by rule and line."""
    job = Job(code, docs)
    return tuple(finding for rule in RULES for finding in rule.findings(job))


def check_text(text: str, docs: AdaptorDocs | None = None) -> tuple[Finding, ...]:
    """Return the findings in the JavaScript blocks of a Markdown text, with line numbers of the text."""
    return tuple(
        msgspec.structs.replace(finding, line=finding.line + block.line - 1)
        for block in javascript_blocks(text)
        for finding in check(block.code, docs)
    )


__all__ = [
    "RULES",
    "Finding",
    "Job",
    "Rule",
    "check",
    "check_text",
]
