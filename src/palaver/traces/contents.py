"""What a span of ours says, as attributes: labels always, contents only where they are recorded.

Content is what people and tools said: messages, inputs, parameters, values. It is bounded like anybody's, and never
holds the secrets that the caller gave to the run alone. What is left out is noted.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from palaver.core import json, masking
from palaver.core.dialects import gen_ai
from palaver.core.messages import File, Message
from palaver.core.runs import Call, RecordMode
from palaver.traces.otlp.bounds import LARGEST_SPAN, LONGEST_TEXT

LARGEST = LARGEST_SPAN // 4
"""Bytes of JSON of one content. A longer one is left out; one longer than an attribute may be stands in its field."""

_MESSAGES = tuple[Message, ...]


class Contents:
    """The attributes of one span, as they are gathered."""

    __slots__ = ("_full", "_known", "_lost", "_notes", "attributes")

    def __init__(self, call: Call, record: RecordMode) -> None:
        self.attributes: dict[str, Any] = {}
        self._full = record == "full"
        self._known = [secret.reveal() for secret in call.secrets.values()] if call.secrets else ()
        self._notes: dict[str, None] = {}
        self._lost = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out."""
        return tuple(self._notes)

    @property
    def dropped(self) -> dict[str, int]:
        """How much of it."""
        return {"bytes": self._lost} if self._lost else {}

    def label(self, name: str, value: Any) -> None:
        """Whatever is no content; None is not said."""
        if value is not None:
            self.attributes[name] = value

    def value(self, name: str, value: Any) -> Any:
        """A value as JSON text; what of it is recorded."""
        if not self._full:
            return None
        value = self._clean(value)
        try:
            text = json.encode(value)
        except Exception:  # Who calls a workflow from Python may give it anything.
            try:
                value = json.to_builtins(value)
            except json.NotJson:
                self._notes[f"unwritable:{name}"] = None
                return None
            text = json.encode(value)
        return value if self._fits(name, text) else None

    def text(self, name: str, value: Any) -> Any:
        """The same, but a text stands as it is; what is recorded is what it says, if that is JSON."""
        if not isinstance(value, str):
            return self.value(name, value)
        if not self._full:
            return None
        text = self._clean(json.replace_surrogates(value))
        return json.parse_or_text(text) if self._fits(name, text.encode()) else None

    def messages(self, name: str, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Messages in gen_ai's form, without the ids that only their sender knows; those that are recorded."""
        if not messages or not self._full:
            return ()
        said = tuple([Message(one.role, tuple(one.parts), None, one.name) for one in messages])
        try:
            if self._known:
                said = _converted(self._clean(msgspec.to_builtins(said)))
            try:
                text = _written(said)
            except Exception:  # As above.
                said = _converted(json.to_builtins(said))
                text = _written(said)
        except (json.NotJson, msgspec.ValidationError, TypeError):
            self._notes[f"unwritable:{name}"] = None
            return ()
        if len(text) > LONGEST_TEXT and (lighter := _without_data(said)) is not None:
            # Mostly it is a picture that makes them long. What was said about it is worth more.
            self._lost += len(text)
            self._notes[f"cut:{name}"] = None
            said, text = lighter, _written(lighter)
            self._lost -= len(text)
        return said if self._fits(name, text) else ()

    def _clean(self, value: Any) -> Any:
        return masking.mask_values(value, self._known) if self._known else value

    def _fits(self, name: str, text: bytes) -> bool:
        """May it stay in its field? In the attributes, too, if it is not too long for one."""
        if len(text) <= LONGEST_TEXT:
            self.attributes[name] = text.decode()
            return True
        self._notes[f"cut:{name}"] = None
        if len(text) <= LARGEST:
            return True
        self._lost += len(text)
        return False


def _written(messages: Sequence[Message]) -> bytes:
    return json.encode(gen_ai.write(messages))


def _converted(value: Any) -> tuple[Message, ...]:
    return msgspec.convert(value, _MESSAGES)


def _without_data(messages: Sequence[Message]) -> tuple[Message, ...] | None:
    """The messages, what is in their files left out; None where nothing is in any."""
    if not any(type(part) is File and part.data for message in messages for part in message.parts):
        return None
    return tuple(
        Message(
            message.role,
            tuple(
                msgspec.structs.replace(part, data="") if type(part) is File and part.data else part
                for part in message.parts
            ),
            None,
            message.name,
        )
        for message in messages
    )
