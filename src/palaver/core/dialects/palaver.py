"""Our own dialect: what the REST API and test sets carry. `{"role": "user", "parts": [{"type": "text", …}]}`."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from palaver.core import jsons
from palaver.core.dialects.roles import role_of
from palaver.core.messages import Message
from palaver.core.parts import Data, Part
from palaver.core.recognition import actor

LOSSES: Sequence[str] = ()


def read(elements: Sequence[Any]) -> list[Message]:
    """Messages as they were written; a part that does not fit its kind becomes a data part with its raw value."""
    return [_message(element) for element in elements]


def write(messages: Sequence[Message]) -> list[Any]:
    """Plain JSON of the messages, defaults left out."""
    return [jsons.plain(message) for message in messages]


def _message(element: Mapping[str, Any]) -> Message:
    role, name = role_of(actor(element) or "")
    own_name, metadata, own_id = element.get("name"), element.get("metadata"), element.get("id")
    return Message(
        role=role,
        parts=tuple(_part(part) for part in element["parts"]),
        id=own_id if isinstance(own_id, str) else None,
        name=own_name if isinstance(own_name, str) else name,
        metadata=metadata if isinstance(metadata, dict) else {},  # pyright: ignore[reportUnknownArgumentType]  # JSON
    )


def _part(part: Any) -> Part:
    try:
        return msgspec.convert(part, Part)
    except msgspec.ValidationError:
        return Data(name=f"palaver:{part['type']}", value=part)
