"""The rule that a job is complete: no placeholders."""

import re
from collections.abc import Iterator

from palaver_jobchat.javascript import string_value
from palaver_jobchat.rules.base import Job, Remark, rule

# All repetitions are bounded, to avoid quadratic time on long lines.
_IN_COMMENTS = re.compile(
    r"""
    \b(?-i:TODO|FIXME|XXX)\b | \btodo:
    | ^\W{0,9}(?:\.{3}|…)\W{0,9}$
    | (?:\.{3}|…)\ ?(?:existing|previous|remaining|unchanged)\b | (?:\.{3}|…)\ (?:other|rest|same|the)\b
    | \b(?:rest|remainder)\ of\ (?:the\ |your\ |this\ )?(?:\w+\ )?(?:code|job|file|function|operations?|logic)\b
    | \b(?:existing|previous|other|remaining)\ (?:code|operations?|logic|job)\b.{0,40}(?:here|\.{3}|…|unchanged|same)
    | \b(?:rest|code|everything\ else)\ (?:remains|stays|is)\ (?:the\ same|unchanged|as\ (?:before|it\ was))\b
    | \byour\b.{0,40}\bhere\b
    | \b(?:add|insert|put|write)\ (?:the\ )?(?:additional|code|logic|more|other|rest)\b.{0,40}\bhere\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
# Strings may contain "your" and "here" as well, so that this matches obvious placeholders only.
_IN_STRINGS = re.compile(
    r"""
    ^\W*(?:TODO|FIXME)\b
    | \bYOUR(?:_[A-Z0-9]+)+\b
    | [<\[{](?:your|my|insert|enter)[ _-][^>\]}]{0,60}[>\]}]
    | ^(?i:your)[ _-](?:[\w.]+[ _-]){0,5}(?i:here)$
    | \b(?:REPLACE|CHANGE)[ _-]?ME\b
    """,
    re.VERBOSE,
)


@rule("no_placeholders", accepts_invalid_code=True)
def no_placeholders(job: Job) -> Iterator[Remark]:
    for node in job.root.walk():
        if node.kind == "comment":
            for offset, line in enumerate(node.text.split("\n")):
                if _IN_COMMENTS.search(line):
                    yield Remark("warning", node.line + offset, "This comment is a placeholder for missing code.")
        elif (text := string_value(node)) is not None and _IN_STRINGS.search(text):
            yield Remark("warning", node.line, "This string is a placeholder.")
