"""The reply grammar: what a workflow may return or yield, as messages, parts and events.

In this order, and the first match wins: one of our own values; text; for a chat, messages in any dialect, alone or
under `messages`; any other JSON. A sync machine beside core's grammar: this one understands, that one makes it lawful.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core import dialects, jsons
from palaver.core.calls import Reply
from palaver.core.events import Event, TextDelta
from palaver.core.extraction import dialect_of
from palaver.core.grammar import Given
from palaver.core.messages import Message
from palaver.core.parts import Data, Part
from palaver.core.usage import Usage
from palaver.errors import BadStream, InvalidMessages
from palaver.workflows.produce import Returned

_OURS = (Event | Part | Usage).__args__


class Replies:
    """Understands what one run of one workflow gives."""

    def __init__(self, *, is_chat: bool, history: Sequence[Message] = ()) -> None:
        self.warnings: list[str] = []
        self._is_chat = is_chat
        self._history = history
        self._values: list[Any] = []
        self._text: list[str] = []
        self._returned: Any | UnsetType = UNSET

    def feed(self, value: object) -> Iterator[Given]:
        """What one value amounts to; raises BadStream for what is no answer at all."""
        if type(value) is Returned:
            value = value.value
            if not self._is_chat:
                self._returned = _plain(value)
                return
        if isinstance(value, _OURS):
            yield value
        elif isinstance(value, bytes | bytearray | memoryview):
            raise BadStream("The workflow gave bytes: decode them to text first.")
        elif self._is_chat:
            yield from self._chat(value)
        else:
            yield from self._yielded(value)

    def emitted(self, value: object) -> Iterator[Given]:
        """What `ctx.emit(…)` said: one of our own values, and no part of a workflow's value."""
        if isinstance(value, Message):
            yield from self._messages([value])
        elif isinstance(value, _OURS):
            yield value
        else:
            raise BadStream(f"ctx.emit() takes an event, a part, a message or a usage, not a {type(value).__name__}.")

    def value(self) -> Any | UnsetType:
        """The value of a workflow that is no chat: returned, or made of what was yielded; a chat has none."""
        if self._is_chat:
            return UNSET
        if self._returned is not UNSET:
            return self._returned
        self._join_text()
        return self._values if len(self._values) > 1 else self._values[0] if self._values else None

    def _chat(self, value: object) -> Iterator[Given]:
        if value is None:
            return
        if isinstance(value, str):
            yield TextDelta(delta=value)
        elif isinstance(value, Reply):
            yield from self._messages(value.messages)
            if value.usage is not None:
                yield value.usage
        elif isinstance(value, Message):
            yield from self._messages([value])
        elif (messages := self._read(value)) is not None:
            yield from self._messages(messages)
        else:
            kind = type(value).__name__
            self.warnings.append(f"a chat gave a {kind} that is no message; it is shown as data")
            yield Message.assistant(Data(name="output", value=_plain(value)))

    def _read(self, value: object) -> Sequence[Message] | None:
        if isinstance(value, dict) and set(cast("dict[str, Any]", value)) >= {"messages"} and "role" not in value:
            value = cast("dict[str, Any]", value)["messages"]
        if isinstance(value, list | tuple):
            listed = cast("Sequence[Any]", value)
            if listed and all(isinstance(item, Message) for item in listed):
                return listed
            value = [_shown(item) for item in listed]
        if dialect_of(value) is None:
            return None
        try:
            return dialects.read(value)
        except InvalidMessages as error:
            raise BadStream(f"The workflow gave messages that cannot be read: {error}") from None

    def _messages(self, messages: Sequence[Message]) -> Iterator[Given]:
        """The new ones: not the history again, and nobody speaks for the user but the user."""
        for message in messages[self._repeated(messages) :]:
            if message.role in ("assistant", "tool"):
                yield message
            else:
                self.warnings.append(f"dropped a {message.role} message from a chat's reply")

    def _repeated(self, messages: Sequence[Message]) -> int:
        """How many leading messages are the history of the call, given back as LangGraph's state does."""
        history = self._history
        if len(messages) < len(history) or not any(message.role == "user" for message in history):
            return 0
        same = all(_gist(one) == _gist(other) for one, other in zip(history, messages, strict=False))
        return len(history) if same else 0

    def _yielded(self, value: object) -> Iterator[Given]:
        if isinstance(value, str):
            self._text.append(value)
            yield TextDelta(delta=value)
            return
        self._join_text()
        plain = _plain(value)
        self._values.append(plain)
        yield Data(name="output", value=plain)

    def _join_text(self) -> None:
        if self._text:
            self._values.append("".join(self._text))
            self._text = []


def _shown(item: Any) -> Any:
    # A list may mix our messages with plain ones; the dialect test knows JSON only.
    return msgspec.to_builtins(item) if isinstance(item, Message) else item


def _gist(message: Message) -> tuple[object, ...]:
    """What two spellings of one message have in common, whatever a dialect loses."""
    calls = tuple(call.call_id for call in message.tool_calls)
    return message.role, message.text, calls, tuple(result.call_id for result in message.tool_results)


def _plain(value: object) -> Any:
    try:
        return jsons.plain(value)
    except jsons.NotJson as error:
        raise BadStream(f"The workflow gave {error}: return text, messages or JSON.") from None
