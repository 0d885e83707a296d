"""Redaction before storage: by place, by look, and always of secrets (contract: traces, 10)."""

from palaver.traces.redaction.detectors import MASK
from palaver.traces.redaction.redactor import Redactor, redact_span
from palaver.traces.redaction.rules import Action, Rule, RuleScope, parse_rules

__all__ = ["redact_span", "Redactor", "parse_rules", "Rule", "Action", "RuleScope", "MASK"]
