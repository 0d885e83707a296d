"""What a service answers: a chat's text with its history and usage, any other workflow's value (job-chat, 1.2)."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import UNSET

from palaver.core.messages import Data, Refusal, Text, Usage
from palaver.core.runs import Reply

REPLY, STATUS, CHANGES = "reply", "status", "changes"
"""Names of data parts that mean something here, and of the event that a code edit becomes."""
_OURS = frozenset({"response", "history", "usage"})
"""What a reply cannot say: it is said by what the run did."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How to answer. It holds the conversation, and is therefore not kept with the run."""

    workflow: str
    is_chat: bool = True
    stream: bool = False
    sparse: bool = False
    """In a stream: only logs and the last event."""
    history: tuple[Any, ...] = ()
    """With the user's turn."""


def answered(reply: Reply, reading: Reading) -> Any:
    """The body of an answer, which is also the data of a stream's last event."""
    if not reading.is_chat:
        return None if reply.value is UNSET else reply.value
    parts = [part for message in reply.messages if message.role == "assistant" for part in message.parts]
    response = "\n\n".join([part.text for part in parts if isinstance(part, Text | Refusal) and part.text]).strip()
    document: dict[str, Any] = {
        "response": response,
        "history": [*reading.history, {"role": "assistant", "content": response}],
        "usage": usage_of(reply.usage),
        "meta": {},
    }
    for part in parts:
        if isinstance(part, Data) and part.name == REPLY:
            _add(document, part.value)
    return document


def _add(document: dict[str, Any], said: Any) -> None:
    if not isinstance(said, dict):
        return
    for name, value in cast("Mapping[str, Any]", said).items():
        if name == "meta":
            document["meta"] |= value if isinstance(value, dict) else {}
        elif name not in _OURS:
            document[name] = value


def usage_of(usage: Usage | None) -> dict[str, int]:
    """What it cost, as Anthropic counts: input that came out of a cache, or went into it, is counted apart."""
    if usage is None:
        usage = Usage(input_tokens=0, output_tokens=0)
    read, made = usage.cached_input_tokens or 0, usage.cache_creation_input_tokens or 0
    return {
        "input_tokens": max(usage.input_tokens - read - made, 0),
        "output_tokens": usage.output_tokens,
        "cache_creation_input_tokens": made,
        "cache_read_input_tokens": read,
    }
