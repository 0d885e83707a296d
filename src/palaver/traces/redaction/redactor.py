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
"""Last, so that what rules removed from other fields is known by then."""
_REDACTED_FIELDS = (*(name for name in REDACTABLE_FIELDS if name not in _SENT_FIELDS), *_SENT_FIELDS, "notes")
_encode = msgspec.json.Encoder().encode


class Redactor:
    """Applies the rules of one project for one scope. Keeps no state between records."""

    def __init__(self, rules: Sequence[Rule], key: bytes, scope: RuleScope = "traces") -> None:
        applied = [rule for rule in rules if scope in rule.scope]
        self._text_redactor = TextRedactor(applied, key)
        self._paths: list[PathRule] = [
            (rule.path, compile_path(rule.path if scope == "traces" else _any_index(rule.path)), rule.action)
            for rule in applied
            if rule.path is not None
        ]
        self._only_secrets = not self._paths and self._text_redactor.names == ("secrets",)

    def span(self, span: Span) -> Span:
        """Return the redacted record; the same object if nothing was removed."""
        if self._only_secrets:
            text = _encode(span).decode()
            if not masking.may_contain_secret(text) and not may_hold_sensitive_name(text):
                return span
        try:
            return self._redact(span)
        except Exception:  # Fail closed: a record that can't be redacted is not stored.
            emptied = {name: getattr(_EMPTY_SPAN, name) for name in _REDACTED_FIELDS}
            return msgspec.structs.replace(span, **emptied, redactions=(*span.redactions, Redaction("*", "failure")))

    def _redact(self, span: Span) -> Span:
        values = {name: msgspec.to_builtins(value) for name in _REDACTED_FIELDS if (value := getattr(span, name))}
        redactor = ValueRedactor(self._paths, self._text_redactor)
        tally = redactor.tally
        changed: dict[str, Any] = {}
        for name, value in values.items():
            before = tally.changes
            new = redactor.field(name, value)
            if tally.changes > before:
                changed[name] = new
        if redactor.removed:
            scrubber = RemovedValueScrubber(redactor.removed, tally)
            for name, value in values.items():
                before = tally.changes
                new = scrubber.field(name, changed.get(name, value), as_sent=name in _SENT_FIELDS)
                if tally.changes > before:
                    changed[name] = new
        if not changed:
            return span
        fields = {name: _convert_field(name, value) for name, value in changed.items()}
        redactions = (*span.redactions, *tally.redactions())[: 2 * MAX_REDACTIONS]
        return msgspec.structs.replace(span, **fields, redactions=redactions)

    def value_redactor(self) -> ValueRedactor:
        """Return a redactor for values of one record or run."""
        return ValueRedactor(self._paths, self._text_redactor)

    def value(self, value: Any, field: str = "inputs") -> tuple[Any, tuple[Redaction, ...]]:
        """Redact a value as if it were this field of a record; None if it is dropped."""
        redactor = self.value_redactor()
        new = redactor.field(field, value)
        return None if new is DROPPED else new, redactor.tally.redactions()


def redact_span(span: Span, rules: Sequence[Rule], key: bytes) -> Span:
    """Redact one record. For many, create one Redactor."""
    return Redactor(rules, key).span(span)


def _any_index(path: str) -> str:
    """Replace indexes by `*`: they differ for runs, which are stored piece by piece."""
    return ".".join("*" if step.isdigit() else step for step in path.split("."))


def _convert_field(name: str, value: Any) -> Any:
    """Convert to the field's type; empty if a rule left a value that does not fit."""
    if value is DROPPED:
        return getattr(_EMPTY_SPAN, name)
    try:
        return msgspec.convert(value, _FIELD_TYPES[name])
    except msgspec.ValidationError:
        return getattr(_EMPTY_SPAN, name)


class RedactionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Rules, prices and key of a server; plain data, so that the decode worker applies the same."""

    rules: Sequence[Rule] = ()
    prices: Mapping[str, Price] = {}
    key: bytes = b""
    """Key from which each project's hash key is derived; empty if no rule hashes."""


class ProjectRedactors:
    """One Redactor per project. Thread-safe."""

    def __init__(self, config: RedactionConfig) -> None:
        self._config = config
        self._redactors: dict[str, Redactor] = {}

    def span(self, span: Span) -> Span:
        """Set the cost of a span and redact it."""
        return self.of(span.project).span(add_cost(span, self._config.prices))

    def of(self, project: str) -> Redactor:
        """Return the redactor of a project."""
        key = self._config.key
        project = project if key else ""  # Without a key all projects share one.
        redactor = self._redactors.get(project)
        if redactor is None:
            redactor = self._redactors[project] = Redactor(
                usable_rules(self._config.rules, key), project_key(project, key)
            )
        return redactor


def project_key(project: str, key: bytes) -> bytes:
    """Derive a project's key."""
    return hashlib.blake2b(project.encode(), key=key, digest_size=32).digest() if key else b""


def usable_rules(rules: Sequence[Rule], key: bytes) -> Sequence[Rule]:
    """Without a key, rules that hash are changed to mask."""
    if key:
        return rules
    return [msgspec.structs.replace(rule, action="mask") if rule.action == "hash" else rule for rule in rules]
