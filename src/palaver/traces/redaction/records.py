"""Records: each is redacted once, before anything of it is queued or written."""

from collections.abc import Sequence
from typing import Any

import msgspec

from palaver.core import masking
from palaver.traces.record import Redaction, Span
from palaver.traces.redaction.elsewhere import Elsewhere
from palaver.traces.redaction.rules import FIELDS, Rule, Scope, matcher
from palaver.traces.redaction.tally import MOST_REDACTIONS
from palaver.traces.redaction.texts import Detectors, may_be_sensitive
from palaver.traces.redaction.values import DROPPED, Pass, PathRule

_TYPES: dict[str, Any] = {field.name: field.type for field in msgspec.structs.fields(Span)}
_EMPTY = Span(trace_id="", span_id="", start=msgspec.convert("1970-01-01T00:00:00Z", _TYPES["start"]))
_SENT = ("attributes", "events", "links")
"""Last, so that what rules remove from the record is known by then."""
_READ = (*(name for name in FIELDS if name not in _SENT), *_SENT, "notes")
_encode = msgspec.json.Encoder().encode


class Redactor:
    """The rules of one project, for one kind of what is stored. Keeps nothing between records."""

    def __init__(self, rules: Sequence[Rule], key: bytes, scope: Scope = "traces") -> None:
        applied = [rule for rule in rules if scope in rule.scope]
        self._detectors = Detectors(applied, key)
        self._paths: list[PathRule] = [
            (rule.path, matcher(rule.path if scope == "traces" else _anywhere(rule.path)), rule.action)
            for rule in applied
            if rule.path is not None
        ]
        self._only_secrets = not self._paths and self._detectors.names == ("secrets",)

    def span(self, span: Span) -> Span:
        """The record without what the rules remove; the same one where that is nothing."""
        if self._only_secrets:
            text = _encode(span).decode()
            if not masking.may_contain_secret(text) and not may_be_sensitive(text):
                return span
        try:
            return self._walked(span)
        except Exception:  # Whatever it is: what could not be looked through is not kept.
            emptied = {name: getattr(_EMPTY, name) for name in _READ}
            return msgspec.structs.replace(span, **emptied, redactions=(*span.redactions, Redaction("*", "failure")))

    def _walked(self, span: Span) -> Span:
        given = {name: msgspec.to_builtins(value) for name in _READ if (value := getattr(span, name))}
        one = Pass(self._paths, self._detectors)
        tally = one.tally
        changed: dict[str, Any] = {}
        for name, value in given.items():
            before = tally.changes
            new = one.field(name, value)
            if tally.changes > before:
                changed[name] = new
        if one.removed:
            elsewhere = Elsewhere(one.removed, tally)
            for name, value in given.items():
                before = tally.changes
                new = elsewhere.field(name, changed.get(name, value), as_sent=name in _SENT)
                if tally.changes > before:
                    changed[name] = new
        if not changed:
            return span
        fields = {name: _typed(name, value) for name, value in changed.items()}
        redactions = (*span.redactions, *tally.redactions())[: 2 * MOST_REDACTIONS]
        return msgspec.structs.replace(span, **fields, redactions=redactions)

    def begun(self) -> Pass:
        """A pass over values that belong together."""
        return Pass(self._paths, self._detectors)

    def value(self, value: Any, field: str = "inputs") -> tuple[Any, tuple[Redaction, ...]]:
        """A JSON value that is no record, as if it stood in this field of one; None for one that is dropped."""
        one = self.begun()
        new = one.field(field, value)
        return None if new is DROPPED else new, one.tally.redactions()


def redacted(span: Span, rules: Sequence[Rule], key: bytes) -> Span:
    """One record by these rules. Who has many makes a Redactor once."""
    return Redactor(rules, key).span(span)


def _anywhere(path: str) -> str:
    """A path for what is kept piece by piece: the number of a piece there is another than in a record."""
    return ".".join("*" if step.isdigit() else step for step in path.split("."))


def _typed(name: str, value: Any) -> Any:
    """The field as a record has it. What a rule left in no form that fits is nothing."""
    if value is DROPPED:
        return getattr(_EMPTY, name)
    try:
        return msgspec.convert(value, _TYPES[name])
    except msgspec.ValidationError:
        return getattr(_EMPTY, name)
