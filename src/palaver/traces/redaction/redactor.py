"""Redact span records and the stored logs of runs, with the rules of their project."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from palaver.core import secret_mask
from palaver.core.events import (
    Event,
    PartAdded,
    ReasoningDelta,
    ReasoningEnded,
    RunFailed,
    RunFinished,
    TextDelta,
    TextEnded,
    ToolDelta,
    ToolEnded,
    ToolReturned,
)
from palaver.core.messages import Data, File, Message, Part, Refusal, Text
from palaver.core.runs import Call, NewRun
from palaver.traces.model import Redaction, Span
from palaver.traces.prices import Price, add_cost
from palaver.traces.redaction.detectors import MASK, TextRedactor, may_hold_sensitive_name
from palaver.traces.redaction.rules import REDACTABLE_FIELDS, Rule, RuleScope, compile_path
from palaver.traces.redaction.values import DROPPED, MAX_REDACTIONS, PathRule, RemovedValueScrubber, ValueRedactor

_FIELD_TYPES: dict[str, Any] = {field.name: field.type for field in msgspec.structs.fields(Span)}
_EMPTY_SPAN = Span(trace_id="", span_id="", start=msgspec.convert("1970-01-01T00:00:00Z", _FIELD_TYPES["start"]))
_SENT_FIELDS = ("attributes", "events", "links")
"""Fields as the sender wrote them; redacted last, when it is known what rules removed from other fields."""
_REDACTED_FIELDS = (*(name for name in REDACTABLE_FIELDS if name not in _SENT_FIELDS), *_SENT_FIELDS, "notes")
_encode = msgspec.json.Encoder().encode


class Redactor:
    """Applies the rules of one project for one scope. Keeps no state between records."""

    def __init__(self, rules: Sequence[Rule], key: bytes, scope: RuleScope = "traces") -> None:
        applicable = [rule for rule in rules if scope in rule.scope]
        self._text_redactor = TextRedactor(applicable, key)
        self._paths: list[PathRule] = [
            (rule.path, compile_path(rule.path if scope == "traces" else _generalize_indexes(rule.path)), rule.action)
            for rule in applicable
            if rule.path is not None
        ]
        self._only_secrets = not self._paths and self._text_redactor.names == ("secrets",)

    def redact_span(self, span: Span) -> Span:
        """Return the redacted record; the same object if nothing was removed."""
        if self._only_secrets:
            text = _encode(span).decode()
            if not secret_mask.may_contain_secret(text) and not may_hold_sensitive_name(text):
                return span
        try:
            return self._redact(span)
        except Exception:  # Fail closed: a record that can't be redacted is not stored.
            emptied = {name: getattr(_EMPTY_SPAN, name) for name in _REDACTED_FIELDS}
            return msgspec.structs.replace(span, **emptied, redactions=(*span.redactions, Redaction("*", "failure")))

    def _redact(self, span: Span) -> Span:
        values = {name: msgspec.to_builtins(value) for name in _REDACTED_FIELDS if (value := getattr(span, name))}
        redactor = self.value_redactor()
        tally = redactor.tally
        changed: dict[str, Any] = {}
        for name, value in values.items():
            before = tally.changes
            redacted = redactor.redact_field(name, value)
            if tally.changes > before:
                changed[name] = redacted
        if redactor.removed:
            scrubber = RemovedValueScrubber(redactor.removed, tally)
            for name, value in values.items():
                before = tally.changes
                redacted = scrubber.scrub_field(name, changed.get(name, value), as_sent=name in _SENT_FIELDS)
                if tally.changes > before:
                    changed[name] = redacted
        if not changed:
            return span
        fields = {name: _convert_field(name, value) for name, value in changed.items()}
        redactions = (*span.redactions, *tally.redactions())[: 2 * MAX_REDACTIONS]
        return msgspec.structs.replace(span, **fields, redactions=redactions)

    def value_redactor(self) -> ValueRedactor:
        return ValueRedactor(self._paths, self._text_redactor)

    def redact_value(self, value: Any, field: str = "inputs") -> tuple[Any, tuple[Redaction, ...]]:
        """Redact a value as if it were this field of a record; None if it is dropped."""
        redactor = self.value_redactor()
        redacted = redactor.redact_field(field, value)
        return None if redacted is DROPPED else redacted, redactor.tally.redactions()


def _generalize_indexes(path: str) -> str:
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

    def redact(self, span: Span) -> Span:
        return self.for_project(span.project).redact_span(add_cost(span, self._config.prices))

    def for_project(self, project: str) -> Redactor:
        key = self._config.key
        project = project if key else ""  # Without a key all projects share one.
        redactor = self._redactors.get(project)
        if redactor is None:
            redactor = self._redactors[project] = Redactor(
                usable_rules(self._config.rules, key), project_key(project, key)
            )
        return redactor


def project_key(project: str, key: bytes) -> bytes:
    return hashlib.blake2b(project.encode(), key=key, digest_size=32).digest() if key else b""


def usable_rules(rules: Sequence[Rule], key: bytes) -> Sequence[Rule]:
    """Return the rules; without a key, those that hash are changed to mask."""
    if key:
        return rules
    return [msgspec.structs.replace(rule, action="mask") if rule.action == "hash" else rule for rule in rules]


_ID_FIELDS = ("type", "call_id", "file_id", "media_type")
"""Fields by which parts refer to each other or to a stored file."""
_BYTES_PLACEHOLDER = "bytes of a file"
"""Replaces file data, which detectors skip."""
_REDACTED_PART = Data(name="redacted")


class RunRedactor:
    """Redacts one run. Values that path rules removed from the request are also removed from the output."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor.value_redactor()
        self.has_seen_request = False

    # Request

    def redact_new_run(self, run: NewRun) -> NewRun:
        origin, call = run.origin, self.redact_call(run.call)
        new_messages = None if origin.stored_messages is None else self.redact_messages(origin.stored_messages)
        protocol_note = None if origin.reading is None else self.redact_value(_to_builtins(origin.reading))
        return replace(run, call=call, origin=replace(origin, stored_messages=new_messages, reading=protocol_note))

    def redact_call(self, call: Call) -> Call:
        """Redact the request. Labels stay, as runs are found by them."""
        self.has_seen_request = True
        return replace(
            call,
            messages=self.redact_messages(call.messages),
            inputs=self.redact_mapping(call.inputs),
            parameters=self.redact_mapping(call.parameters, "parameters"),
            references=self.redact_mapping(call.references, "attributes"),
            tags=self.redact_mapping(call.tags, "attributes"),
        )

    def redact_mapping(self, inputs: Mapping[str, Any], field: str = "inputs") -> Mapping[str, Any]:
        redacted = self.redact_value(dict(inputs), field) if inputs else inputs
        return cast("Mapping[str, Any]", redacted) if isinstance(redacted, Mapping) else {}

    def redact_messages(self, messages: Sequence[Message], field: str = "messages_in") -> tuple[Message, ...]:
        return tuple(self._redact_message(message, field) for message in messages)

    def redact_value(self, value: Any, field: str = "inputs") -> Any:
        """Redact a value as this field; None if it is dropped."""
        try:
            new = self._redactor.redact_field(field, value)
            if new is not DROPPED and self._redactor.removed:
                new = RemovedValueScrubber(self._redactor.removed, self._redactor.tally).scrub_field(
                    field, new, as_sent=False
                )
        except Exception:  # Fail closed.
            return MASK
        return None if new is DROPPED else new

    # Output

    def redact_events(self, events: Sequence[Event]) -> list[Event]:
        """Redact events whose items are complete. Returns as many events, with the same numbers."""
        texts = self._redacted_texts(events)
        started: set[str] = set()
        redacted: list[Event] = []
        for event in events:
            match event:
                case TextDelta(item=item) | ReasoningDelta(item=item) | ToolDelta(item=item) if item in texts:
                    redacted.append(replace(event, delta="" if item in started else texts[item]))
                    started.add(item)
                case TextEnded(item=item) if item in texts:
                    redacted.append(replace(event, text=texts[item], annotations=()))  # Their offsets no longer fit.
                case ReasoningEnded(item=item) if item in texts:
                    redacted.append(replace(event, text=texts[item], encrypted=None))
                case ToolEnded(item=item) if item in texts:
                    redacted.append(replace(event, arguments=texts[item]))
                case _:
                    redacted.append(self._redact_event(event))
        return redacted

    def _redacted_texts(self, events: Sequence[Event]) -> dict[str, str]:
        """Return the redacted texts of the items that change."""
        pieces: dict[str, list[str]] = {}
        kinds: dict[str, str] = {}
        for event in events:
            match event:
                case TextDelta(item=item, delta=delta) | ReasoningDelta(item=item, delta=delta):
                    pieces.setdefault(item, []).append(delta)
                    kinds[item] = "text"
                case ToolDelta(item=item, delta=delta):
                    pieces.setdefault(item, []).append(delta)
                    kinds[item] = "arguments"
                case TextEnded(item=item, text=text) | ReasoningEnded(item=item, text=text):
                    pieces[item], kinds[item] = [text], "text"
                case ToolEnded(item=item, arguments=arguments):
                    pieces[item], kinds[item] = [arguments], "arguments"
                case _:
                    pass
        texts = {item: "".join(chunks) for item, chunks in pieces.items()}
        redacted = {item: self._redact_text(text, kinds[item]) for item, text in texts.items() if text}
        return {item: text for item, text in redacted.items() if text != texts[item]}

    def _redact_text(self, text: str, kind: str) -> str:
        part = {"type": "text", "text": text} if kind == "text" else {"type": "tool-call", "arguments": text}
        new = self._redact_part(part, "assistant", "messages_out").get(kind, "")
        return new if isinstance(new, str) else MASK

    def _redact_event(self, event: Event) -> Event:
        match event:
            case ToolReturned(call_id=call_id, output=output):
                result_part = {"type": "tool-result", "call_id": call_id, "output": _to_builtins(output)}
                return replace(event, output=self._redact_part(result_part, "tool", "messages_out").get("output"))
            case PartAdded(part=File() | Refusal() | Data() as part):
                (message,) = self.redact_messages([Message(role="assistant", parts=(part,))], "messages_out")
                new = message.parts[0] if message.parts else _REDACTED_PART
                return replace(event, part=new if isinstance(new, File | Refusal | Data) else _REDACTED_PART)
            case RunFinished(value=value) if value is not msgspec.UNSET:
                return replace(event, value=self.redact_value(_to_builtins(value), "outputs"))
            case RunFailed(message=message, details=details):
                text = self.redact_value(message, "status_message")
                return replace(event, message=text or "", details=self.redact_mapping(details, "outputs"))
            case _:
                return event

    # Messages and parts

    def _redact_message(self, message: Message, field: str) -> Message:
        try:
            parts = cast("list[dict[str, Any]]", msgspec.to_builtins(message.parts))
            redacted = [self._redact_part(part, message.role, field) for part in parts]
            new = msgspec.convert([part for part in redacted if part], tuple[Part, ...])
        except Exception:  # Fail closed.
            new = (Text(text=MASK),)
        metadata = self.redact_mapping(message.metadata, "attributes") if message.metadata else message.metadata
        return replace(message, parts=new, metadata=dict(metadata))

    def _redact_part(self, part: dict[str, Any], role: str, field: str) -> dict[str, Any]:
        """Redact a part in the context of its message; empty if it is dropped."""
        visible = {**part, "data": _BYTES_PLACEHOLDER} if part["type"] == "file" and "data" in part else part
        new = self.redact_value([{"role": role, "parts": [visible]}], field)
        try:
            (message,) = new
            (redacted,) = message["parts"]
            merged: dict[str, Any] = {**redacted, **{name: part[name] for name in _ID_FIELDS if name in part}}
        except (TypeError, ValueError, KeyError):  # The rule removed all of it.
            return {}
        return {**merged, "data": part["data"]} if merged.get("data") == _BYTES_PLACEHOLDER else merged


def _to_builtins(value: Any) -> Any:
    """Convert to JSON types; other objects are masked."""
    try:
        return msgspec.to_builtins(value)
    except Exception:  # A workflow may return any object.
        return MASK
