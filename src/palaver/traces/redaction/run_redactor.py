"""Redact the stored log and conversation of a run, with rules of the scope `runs`.

The request is redacted as `messages_in`, `inputs` and `parameters` of a record, the output as `messages_out` and
`outputs`. A text arrives in many deltas, and a match may span several: so an item is redacted as a whole once it has
ended, and if something was removed its first delta carries the whole text.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

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
from palaver.traces.redaction.detectors import MASK
from palaver.traces.redaction.redactor import Redactor
from palaver.traces.redaction.values import DROPPED, RemovedValueScrubber

_ID_FIELDS = ("type", "call_id", "file_id", "media_type")
"""Fields by which parts refer to each other or to a stored file."""
_BYTES_PLACEHOLDER = "bytes of a file"
"""Replaces file data, which detectors skip."""
_REDACTED_PART = Data(name="redacted")


class RunRedactor:
    """Redacts one run. Values that path rules removed from the request are also removed from the output."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor.value_redactor()
        self.has_asked = False
        """Whether it has seen the request."""

    # Request

    def new(self, run: NewRun) -> NewRun:
        origin, call = run.origin, self.call(run.call)
        said = None if origin.said is None else self.messages(origin.said)
        reading = None if origin.reading is None else self.value(_to_builtins(origin.reading))
        return replace(run, call=call, origin=replace(origin, said=said, reading=reading))

    def call(self, call: Call) -> Call:
        """Redact the request. Labels stay, as runs are found by them."""
        self.has_asked = True
        return replace(
            call,
            messages=self.messages(call.messages),
            inputs=self.inputs(call.inputs),
            parameters=self.inputs(call.parameters, "parameters"),
            references=self.inputs(call.references, "attributes"),
            tags=self.inputs(call.tags, "attributes"),
        )

    def inputs(self, inputs: Mapping[str, Any], field: str = "inputs") -> Mapping[str, Any]:
        new = self.value(dict(inputs), field) if inputs else inputs
        return cast("Mapping[str, Any]", new) if isinstance(new, Mapping) else {}

    def messages(self, messages: Sequence[Message], field: str = "messages_in") -> tuple[Message, ...]:
        return tuple(self._message(message, field) for message in messages)

    def value(self, value: Any, field: str = "inputs") -> Any:
        """Redact a value as this field; None if it is dropped."""
        try:
            new = self._redactor.field(field, value)
            if new is not DROPPED and self._redactor.removed:
                new = RemovedValueScrubber(self._redactor.removed, self._redactor.tally).field(
                    field, new, as_sent=False
                )
        except Exception:  # Fail closed.
            return MASK
        return None if new is DROPPED else new

    # Output

    def events(self, events: Sequence[Event]) -> list[Event]:
        """Redact events whose items are complete. Returns as many events, with the same numbers."""
        texts = self._texts(events)
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
                    redacted.append(self._other(event))
        return redacted

    def _texts(self, events: Sequence[Event]) -> dict[str, str]:
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
        whole = {item: "".join(chunks) for item, chunks in pieces.items()}
        redacted = {item: self._text(text, kinds[item]) for item, text in whole.items() if text}
        return {item: text for item, text in redacted.items() if text != whole[item]}

    def _text(self, text: str, kind: str) -> str:
        part = {"type": "text", "text": text} if kind == "text" else {"type": "tool-call", "arguments": text}
        new = self._part(part, "assistant", "messages_out").get(kind, "")
        return new if isinstance(new, str) else MASK

    def _other(self, event: Event) -> Event:
        match event:
            case ToolReturned(call_id=call_id, output=output):
                part_in = {"type": "tool-result", "call_id": call_id, "output": _to_builtins(output)}
                return replace(event, output=self._part(part_in, "tool", "messages_out").get("output"))
            case PartAdded(part=File() | Refusal() | Data() as part):
                (message,) = self.messages([Message(role="assistant", parts=(part,))], "messages_out")
                new = message.parts[0] if message.parts else _REDACTED_PART
                return replace(event, part=new if isinstance(new, File | Refusal | Data) else _REDACTED_PART)
            case RunFinished(value=value) if value is not msgspec.UNSET:
                return replace(event, value=self.value(_to_builtins(value), "outputs"))
            case RunFailed(message=message, details=details):
                text = self.value(message, "status_message")
                return replace(event, message=text or "", details=self.inputs(details, "outputs"))
            case _:
                return event

    # Messages and parts

    def _message(self, message: Message, field: str) -> Message:
        try:
            parts = cast("list[dict[str, Any]]", msgspec.to_builtins(message.parts))
            redacted = [self._part(part, message.role, field) for part in parts]
            new = msgspec.convert([part for part in redacted if part], tuple[Part, ...])
        except Exception:  # Fail closed.
            new = (Text(text=MASK),)
        metadata = self.inputs(message.metadata, "attributes") if message.metadata else message.metadata
        return replace(message, parts=new, metadata=dict(metadata))

    def _part(self, part: dict[str, Any], role: str, field: str) -> dict[str, Any]:
        """Redact a part in the context of its message; empty if it is dropped."""
        visible = {**part, "data": _BYTES_PLACEHOLDER} if part["type"] == "file" and "data" in part else part
        new = self.value([{"role": role, "parts": [visible]}], field)
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
