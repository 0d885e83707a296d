"""Is that stream lawful? Grades Responses, Chat Completions, UI streams and services, ours and strangers', by rules.

`grade(stream, protocol)` is the door; `palaver conform` and our own tests go through it. Everything here is pure: bytes
in, a report out. It knows nothing of our encoders, so that it can judge them.
"""

from palaver.conform.findings import Broken, Report
from palaver.conform.grade import grade, grade_refusal, grade_whole, unanswered
from palaver.conform.rule import Protocol, Rule, Severity
from palaver.conform.rules import GROUPS, RULES, severity

__all__ = [
    "grade",
    "grade_refusal",
    "grade_whole",
    "unanswered",
    "Broken",
    "GROUPS",
    "Protocol",
    "RULES",
    "Report",
    "Rule",
    "Severity",
    "severity",
]
