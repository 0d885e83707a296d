"""History that a client sent: untrusted, whatever the protocol (security contract, section 5)."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from palaver.core.messages import Message
from palaver.core.parts import File, ToolCall
from palaver.errors import InvalidValue, UnknownCall

SystemPolicy = Literal["keep", "drop", "reject"]

MOST_MESSAGES = 2_000
MOST_PARTS = 500
_FILE_SCHEMES = ("https:", "http:", "data:")


def believed(
    messages: Sequence[Message], *, system: SystemPolicy = "keep", most_messages: int = MOST_MESSAGES
) -> tuple[tuple[Message, ...], list[str]]:
    """The messages that a workflow may be given, and warnings about what was left out.

    A result must answer a call before it that has none yet; calls that nobody answered are left out, for no model
    takes them; instructions from a client are marked as such, dropped or refused, as the author declared.
    """
    if len(messages) > most_messages:
        raise InvalidValue(f"There are {len(messages)} messages; at most {most_messages} are taken.", pointer="/messages")
    answered = _answered(messages)
    warnings: list[str] = []
    kept: list[Message] = []
    for index, message in enumerate(messages):
        _check_parts(message, index)
        if message.role in ("system", "developer"):
            if system == "reject":
                raise InvalidValue(
                    f"Message {index} is a {message.role} message; this workflow takes none from clients.",
                    pointer=f"/messages/{index}",
                )
            if system == "drop":
                warnings.append(f"dropped the client's {message.role} message {index}")
                continue
            message = msgspec.structs.replace(message, metadata={**message.metadata, "origin": "client"})
        open_calls = [call.call_id for call in message.tool_calls if call.call_id not in answered]
        if open_calls:
            warnings.append(f"dropped calls without a result: {', '.join(open_calls)}")
            parts = tuple(p for p in message.parts if not (isinstance(p, ToolCall) and p.call_id in open_calls))
            if not parts:
                continue
            message = msgspec.structs.replace(message, parts=parts)
        kept.append(message)
    return tuple(kept), warnings


def _answered(messages: Sequence[Message]) -> set[str]:
    """The calls that have their result; raises for a result that answers nothing."""
    waiting: set[str] = set()
    answered: set[str] = set()
    for index, message in enumerate(messages):
        waiting |= {call.call_id for call in message.tool_calls}
        for result in message.tool_results:
            if result.call_id not in waiting or result.call_id in answered:
                raise UnknownCall(
                    f"Message {index} answers call {result.call_id!r}, which "
                    f"{'already has a result' if result.call_id in answered else 'no message before it makes'}.",
                    pointer=f"/messages/{index}",
                )
            answered.add(result.call_id)
    return answered


def _check_parts(message: Message, index: int) -> None:
    if len(message.parts) > MOST_PARTS:
        raise InvalidValue(
            f"Message {index} has {len(message.parts)} parts; at most {MOST_PARTS} are taken.", pointer=f"/messages/{index}"
        )
    for part in message.parts:
        if isinstance(part, File) and part.url is not None and not part.url.lower().startswith(_FILE_SCHEMES):
            raise InvalidValue(
                f"A file of message {index} has a URL that is not https, http or data.", pointer=f"/messages/{index}"
            )
