"""Redaction before storage: by place, by look, and always of secrets (contract: traces, 10)."""

from palaver.traces.redaction.records import Redactor, redacted
from palaver.traces.redaction.rules import Action, Rule, Scope, rules_of
from palaver.traces.redaction.texts import MASK

__all__ = ["redacted", "Redactor", "rules_of", "Rule", "Action", "Scope", "MASK"]
