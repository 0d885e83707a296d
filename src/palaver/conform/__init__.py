"""Grade recorded streams and bodies of Responses, Chat Completions, UI streams and services by the protocols' rules.

`grade(stream, protocol)` is the entry point of `palaver conform` and of our own tests. Pure: bytes in, a report out.
Independent of our encoders, so that it can judge them.

    grade             grade a stream, a body or a refusal; rules of framing
    rules             every rule, and which protocols must keep it
    findings          violations and the report
    frames            parse a recorded event stream
    responses         rules of Responses streams and bodies
    response_items    rules of response objects and their items
    chat_completions  rules of Chat Completions
    ui_stream         rules of UI message streams
    services          rules of service streams
"""

from palaver.conform.findings import Report, Violation
from palaver.conform.grade import grade, grade_body, grade_refusal, grade_unanswered
from palaver.conform.rules import GROUPS, RULES, Protocol, Rule, Severity, severity

__all__ = [
    "GROUPS",
    "RULES",
    "Protocol",
    "Report",
    "Rule",
    "Severity",
    "Violation",
    "grade",
    "grade_body",
    "grade_refusal",
    "grade_unanswered",
    "severity",
]
