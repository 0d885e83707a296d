"""Rules for good jobs: pure functions of the code and, if known, the adaptor's docs.

Modules:

    base                 Rule, Finding, and the parsed Job that rules check
    scopes               which names the code declares, and where
    operations           the calls of adaptor functions, and the functions passed to them
    structure            rules: it parses, no imports, only operations at the top level
    state                rules: how `state` is returned, kept and accessed
    adaptor_functions    rules: functions exist and get the arguments they take, paths start with `$`
    credentials          rule: no credentials in the code
    placeholders         rule: nothing is left to be written
"""

from typing import Final

from palaver_jobchat.adaptors.entries import AdaptorDocs
from palaver_jobchat.rules import adaptor_functions, credentials, placeholders, state, structure
from palaver_jobchat.rules.base import Finding, Job, Rule

RULES: Final[tuple[Rule, ...]] = (
    structure.parses,
    structure.no_import,
    structure.top_level_operations,
    structure.no_top_level_await,
    state.no_alter_state,
    state.no_state_call,
    state.no_bare_state,
    state.lazy_state,
    state.returns_state,
    state.keeps_state,
    credentials.no_credentials,
    adaptor_functions.known_functions,
    adaptor_functions.request_options,
    adaptor_functions.json_path,
    placeholders.no_placeholders,
    structure.no_duplicate_declarations,
)
"""The rules that need only the code and, if known, the adaptor's docs."""


def check(code: str, docs: AdaptorDocs | None = None) -> tuple[Finding, ...]:
    """Return the findings of all rules, by rule and line."""
    job = Job(code, docs)
    return tuple(finding for rule in RULES for finding in rule.findings(job))
