"""Runs: what is kept of one in its log and its conversation, for rules of the scope `runs`.

What is asked is redacted as `messages_in`, `inputs` and `parameters` of a record would be, what is said as
`messages_out` and `outputs`. A text comes in many deltas, and what is to be removed may stand across them: so an item
is looked at whole, once it has ended, and where something was removed its first delta has all of it.
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
"""What one part finds another by, or a stored file."""
_BYTES_PLACEHOLDER = "bytes of a file"
"""Stands for what no detector looks at."""
_REDACTED_PART = Data(name="redacted")


class RunRedactor:
    """Redacts one run. What rules about places removed from it is looked for in all that it says later."""

    def __init__(self, redactor: Redactor) -> None:
        self._one = redactor.begun()
        self.has_asked = False
        """Was it shown what the run was asked?"""

    # What is asked

    def new(self, run: NewRun) -> NewRun:
        """A run as it may be kept."""
        origin, call = run.origin, self.call(run.call)
        said = None if origin.said is None else self.messages(origin.said)
        reading = None if origin.reading is None else self.value(_to_builtins(origin.reading))
        return replace(run, call=call, origin=replace(origin, said=said, reading=reading))

    def call(self, call: Call) -> Call:
        """What it was asked. Labels stay: a run is found by them."""
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
        """The map, as that field."""
        new = self.value(dict(inputs), field) if inputs else inputs
        return cast("Mapping[str, Any]", new) if isinstance(new, Mapping) else {}

    def messages(self, messages: Sequence[Message], field: str = "messages_in") -> tuple[Message, ...]:
        """Messages of one side."""
        return tuple(self._message(message, field) for message in messages)

    def value(self, value: Any, field: str = "inputs") -> Any:
        """A JSON value, as that field; None where nothing of it may be kept."""
        try:
            new = self._one.field(field, value)
            if new is not DROPPED and self._one.removed:
                new = RemovedValueScrubber(self._one.removed, self._one.tally).field(field, new, as_sent=False)
        except Exception:  # What could not be looked through is not kept.
            return MASK
        return None if new is DROPPED else new

    # What is said

    def events(self, events: Sequence[Event]) -> list[Event]:
        """Events whose items have all ended, or never will: as many, and each with its number."""
        texts = self._texts(events)
        begun: set[str] = set()
        said: list[Event] = []
        for event in events:
            match event:
                case TextDelta(item=item) | ReasoningDelta(item=item) | ToolDelta(item=item) if item in texts:
                    said.append(replace(event, delta="" if item in begun else texts[item]))
                    begun.add(item)
                case TextEnded(item=item) if item in texts:
                    said.append(replace(event, text=texts[item], annotations=()))  # They count its characters.
                case ReasoningEnded(item=item) if item in texts:
                    said.append(replace(event, text=texts[item], encrypted=None))
                case ToolEnded(item=item) if item in texts:
                    said.append(replace(event, arguments=texts[item]))
                case _:
                    said.append(self._other(event))
        return said

    def _texts(self, events: Sequence[Event]) -> dict[str, str]:
        """What items say instead, for those that may not say all."""
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
        whole = {item: "".join(said) for item, said in pieces.items()}
        found = {item: self._text(text, kinds[item]) for item, text in whole.items() if text}
        return {item: text for item, text in found.items() if text != whole[item]}

    def _text(self, text: str, kind: str) -> str:
        shown = {"type": "text", "text": text} if kind == "text" else {"type": "tool-call", "arguments": text}
        new = self._part(shown, "assistant", "messages_out").get(kind, "")
        return new if isinstance(new, str) else MASK

    def _other(self, event: Event) -> Event:
        match event:
            case ToolReturned(call_id=call_id, output=output):
                shown = {"type": "tool-result", "call_id": call_id, "output": _to_builtins(output)}
                return replace(event, output=self._part(shown, "tool", "messages_out").get("output"))
            case PartAdded(part=File() | Refusal() | Data() as part):
                (message,) = self.messages([Message(role="assistant", parts=(part,))], "messages_out")
                new = message.parts[0] if message.parts else _REDACTED_PART
                return replace(event, part=new if isinstance(new, File | Refusal | Data) else _REDACTED_PART)
            case RunFinished(value=value) if value is not msgspec.UNSET:
                return replace(event, value=self.value(_to_builtins(value), "outputs"))
            case RunFailed(message=message, details=details):
                told = self.value(message, "status_message")
                return replace(event, message=told or "", details=self.inputs(details, "outputs"))
            case _:
                return event

    # Pieces

    def _message(self, message: Message, field: str) -> Message:
        try:
            parts = cast("list[dict[str, Any]]", msgspec.to_builtins(message.parts))
            kept = [self._part(part, message.role, field) for part in parts]
            new = msgspec.convert([part for part in kept if part], tuple[Part, ...])
        except Exception:  # As above.
            new = (Text(text=MASK),)
        metadata = self.inputs(message.metadata, "attributes") if message.metadata else message.metadata
        return replace(message, parts=new, metadata=dict(metadata))

    def _part(self, part: dict[str, Any], role: str, field: str) -> dict[str, Any]:
        """A part where it stands in a message; empty where nothing of it may be kept."""
        shown = {**part, "data": _BYTES_PLACEHOLDER} if part["type"] == "file" and "data" in part else part
        new = self.value([{"role": role, "parts": [shown]}], field)
        try:
            (message,) = new
            (one,) = message["parts"]
            found: dict[str, Any] = {**one, **{name: part[name] for name in _ID_FIELDS if name in part}}
        except (TypeError, ValueError, KeyError):  # All of it was removed.
            return {}
        return {**found, "data": part["data"]} if found.get("data") == _BYTES_PLACEHOLDER else found


def _to_builtins(value: Any) -> Any:
    """The value as JSON knows it; what it does not know is masked."""
    try:
        return msgspec.to_builtins(value)
    except Exception:  # An author may give anything.
        return MASK
