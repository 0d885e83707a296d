"""Is that stream lawful? Grades Responses, Chat Completions and UI streams, ours and strangers', against named rules.

`grade(stream, protocol)` is the door; `palaver conform` and our own tests go through it. Everything here is pure: bytes
in, a report out. It knows nothing of our encoders, so that it can judge them.
"""

from palaver.conform.findings import Broken, Report
from palaver.conform.grade import grade, grade_refusal, grade_whole, unanswered
from palaver.conform.rules import GROUPS, RULES, Protocol, Rule, Severity, severity

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
