"""Redaction before storage: by path, by detector, and always of secrets.

Modules:

    rules           the rules that settings and authors declare
    detectors       secrets and personal data in texts
    values          JSON values, with path rules and detectors
    redactor        span records, and the events and messages of runs
"""

from palaver.traces.redaction.detectors import MASK
from palaver.traces.redaction.redactor import Redactor
from palaver.traces.redaction.rules import Action, Rule, RuleScope, parse_rules

__all__ = ["MASK", "Action", "Redactor", "Rule", "RuleScope", "parse_rules"]
