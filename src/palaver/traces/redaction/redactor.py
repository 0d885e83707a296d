"""Redact span records before they are queued or written, with the rules of their project."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from palaver.core import masking
from palaver.traces.model import Redaction, Span
from palaver.traces.prices import Price, add_cost
from palaver.traces.redaction.detectors import TextRedactor, may_hold_sensitive_name
from palaver.traces.redaction.rules import REDACTABLE_FIELDS, Rule, RuleScope, compile_path
from palaver.traces.redaction.values import DROPPED, MAX_REDACTIONS, PathRule, RemovedValueScrubber, ValueRedactor

_FIELD_TYPES: dict[str, Any] = {field.name: field.type for field in msgspec.structs.fields(Span)}
_EMPTY_SPAN = Span(trace_id="", span_id="", start=msgspec.convert("1970-01-01T00:00:00Z", _FIELD_TYPES["start"]))
_SENT_FIELDS = ("attributes", "events", "links")
"""Last, so that what rules remove from the record is known by then."""
_REDACTED_FIELDS = (*(name for name in REDACTABLE_FIELDS if name not in _SENT_FIELDS), *_SENT_FIELDS, "notes")
_encode = msgspec.json.Encoder().encode


class Redactor:
    """The rules of one project, for one kind of what is stored. Keeps nothing between records."""

    def __init__(self, rules: Sequence[Rule], key: bytes, scope: RuleScope = "traces") -> None:
        applied = [rule for rule in rules if scope in rule.scope]
        self._detectors = TextRedactor(applied, key)
        self._paths: list[PathRule] = [
            (rule.path, compile_path(rule.path if scope == "traces" else _any_index(rule.path)), rule.action)
            for rule in applied
            if rule.path is not None
        ]
        self._only_secrets = not self._paths and self._detectors.names == ("secrets",)

    def span(self, span: Span) -> Span:
        """The record without what the rules remove; the same one where that is nothing."""
        if self._only_secrets:
            text = _encode(span).decode()
            if not masking.may_contain_secret(text) and not may_hold_sensitive_name(text):
                return span
        try:
            return self._walked(span)
        except Exception:  # Whatever it is: what could not be looked through is not kept.
            emptied = {name: getattr(_EMPTY_SPAN, name) for name in _REDACTED_FIELDS}
            return msgspec.structs.replace(span, **emptied, redactions=(*span.redactions, Redaction("*", "failure")))

    def _walked(self, span: Span) -> Span:
        given = {name: msgspec.to_builtins(value) for name in _REDACTED_FIELDS if (value := getattr(span, name))}
        one = ValueRedactor(self._paths, self._detectors)
        tally = one.tally
        changed: dict[str, Any] = {}
        for name, value in given.items():
            before = tally.changes
            new = one.field(name, value)
            if tally.changes > before:
                changed[name] = new
        if one.removed:
            elsewhere = RemovedValueScrubber(one.removed, tally)
            for name, value in given.items():
                before = tally.changes
                new = elsewhere.field(name, changed.get(name, value), as_sent=name in _SENT_FIELDS)
                if tally.changes > before:
                    changed[name] = new
        if not changed:
            return span
        fields = {name: _convert_field(name, value) for name, value in changed.items()}
        redactions = (*span.redactions, *tally.redactions())[: 2 * MAX_REDACTIONS]
        return msgspec.structs.replace(span, **fields, redactions=redactions)

    def begun(self) -> ValueRedactor:
        """A pass over values that belong together."""
        return ValueRedactor(self._paths, self._detectors)

    def value(self, value: Any, field: str = "inputs") -> tuple[Any, tuple[Redaction, ...]]:
        """A JSON value that is no record, as if it stood in this field of one; None for one that is dropped."""
        one = self.begun()
        new = one.field(field, value)
        return None if new is DROPPED else new, one.tally.redactions()


def redact_span(span: Span, rules: Sequence[Rule], key: bytes) -> Span:
    """One record by these rules. Who has many makes a Redactor once."""
    return Redactor(rules, key).span(span)


def _any_index(path: str) -> str:
    """A path for what is kept piece by piece: the number of a piece there is another than in a record."""
    return ".".join("*" if step.isdigit() else step for step in path.split("."))


def _convert_field(name: str, value: Any) -> Any:
    """The field as a record has it. What a rule left in no form that fits is nothing."""
    if value is DROPPED:
        return getattr(_EMPTY_SPAN, name)
    try:
        return msgspec.convert(value, _FIELD_TYPES[name])
    except msgspec.ValidationError:
        return getattr(_EMPTY_SPAN, name)


class RedactionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    rules: Sequence[Rule] = ()
    prices: Mapping[str, Price] = {}
    key: bytes = b""
    """Whence each project has its own, for rules that hash; empty where none does."""


class ProjectRedactors:
    """Does it. May be asked from any thread."""

    def __init__(self, rules: RedactionConfig) -> None:
        self._rules = rules
        self._made: dict[str, Redactor] = {}

    def span(self, span: Span) -> Span:
        """A record as it may be kept: with its cost, and without what the rules remove."""
        return self.of(span.project).span(add_cost(span, self._rules.prices))

    def of(self, project: str) -> Redactor:
        """What removes from a project's records."""
        key = self._rules.key
        project = project if key else ""  # Without one, all are the same.
        found = self._made.get(project)
        if found is None:
            found = self._made[project] = Redactor(usable_rules(self._rules.rules, key), project_key(project, key))
        return found


def project_key(project: str, key: bytes) -> bytes:
    """A project's own key."""
    return hashlib.blake2b(project.encode(), key=key, digest_size=32).digest() if key else b""


def usable_rules(rules: Sequence[Rule], key: bytes) -> Sequence[Rule]:
    """Without a key, a rule that hashes masks."""
    if key:
        return rules
    return [msgspec.structs.replace(rule, action="mask") if rule.action == "hash" else rule for rule in rules]
