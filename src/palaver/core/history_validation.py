"""Validate the message history of a client, which is untrusted."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeGuard

import msgspec

from palaver.core.ids import MAX_ID_LENGTH
from palaver.core.messages import APPROVAL_RESPONSE, Data, File, Message, Part, Text, ToolCall, ToolResult
from palaver.errors import InvalidValue, TooLarge, UnknownCall

SystemPolicy = Literal["keep", "drop", "reject"]

_FILE_SCHEMES = ("https:", "http:", "data:")


class HistoryLimits(msgspec.Struct, frozen=True):
    """Limits on a history from a client."""

    messages: int = 2_000
    parts: int = 500
    """Per message."""
    files: int = 20
    """In all messages together."""
    file: int = 20 * 1024 * 1024
    """Bytes per file, decoded."""


DEFAULT_HISTORY_LIMITS = HistoryLimits()


def validate_history(
    messages: Sequence[Message], *, system: SystemPolicy = "keep", limits: HistoryLimits = DEFAULT_HISTORY_LIMITS
) -> tuple[tuple[Message, ...], list[str]]:
    """Return the messages that a workflow may receive, and warnings about dropped ones.

    A result must answer an earlier call without one. Calls without a result are dropped, since models reject them.
    System messages are marked, dropped or rejected, according to `system`.
    """
    if len(messages) <= limits.messages and all(map(_is_plain, messages)):
        return messages if isinstance(messages, tuple) else tuple(messages), []
    check_history_limits(messages, limits)
    warnings: list[str] = []
    accepted: dict[int, Message] = {}
    for index, message in enumerate(messages):
        if message.role not in ("system", "developer"):
            accepted[index] = message
        elif system == "reject":
            raise InvalidValue(
                f"Message {index} has the role {message.role!r}, which this workflow does not accept from clients.",
                pointer=f"/messages/{index}",
            )
        elif system == "drop":
            warnings.append(f"dropped the client's {message.role} message {index}")
        else:
            accepted[index] = msgspec.structs.replace(message, metadata={**message.metadata, "origin": "client"})
    for index, calls in _open_calls(accepted).items():
        warnings.append(f"dropped calls without a result: {', '.join(calls.values())}")
        parts = tuple(part for part_index, part in enumerate(accepted[index].parts) if part_index not in calls)
        if parts:
            accepted[index] = msgspec.structs.replace(accepted[index], parts=parts)
        else:
            del accepted[index]
    return tuple(accepted.values()), warnings


def _is_plain(message: Message) -> bool:
    """Whether the message is one user or assistant text without an id, which needs no checks."""
    parts = message.parts
    return len(parts) == 1 and type(parts[0]) is Text and message.id is None and message.role in ("user", "assistant")


def _open_calls(messages: Mapping[int, Message]) -> Mapping[int, Mapping[int, str]]:
    """Return the ids of calls without a result, by message and part index. Raises for a result without a call.

    An id may be reused once it has its result: some models number their calls per turn.
    """
    pending: dict[str, tuple[int, int]] = {}
    unanswered: dict[int, dict[int, str]] = {}
    answered_ids: set[str] = set()
    for index, message in messages.items():
        for part_index, part in enumerate(message.parts):
            if isinstance(part, ToolCall):
                if part.call_id in pending:
                    _add_unanswered(unanswered, part.call_id, pending[part.call_id])
                pending[part.call_id] = index, part_index
            elif isinstance(part, ToolResult):
                if pending.pop(part.call_id, None) is None:
                    is_repeated = part.call_id in answered_ids
                    raise UnknownCall(
                        f"Message {index} has a result for call {part.call_id!r}, which "
                        f"{'already has one' if is_repeated else 'does not appear in an earlier message'}.",
                        pointer=f"/messages/{index}",
                    )
                answered_ids.add(part.call_id)
    approved_ids = _approved_call_ids(messages.values()) if pending else ()
    for call_id, location in pending.items():
        if call_id not in approved_ids:
            _add_unanswered(unanswered, call_id, location)
    return unanswered


def _approved_call_ids(messages: Iterable[Message]) -> set[str]:
    """Return the ids of calls that a user approved or rejected; their results are still to come."""
    responses = (part.value for message in messages for part in message.parts if _is_approval(part))
    return {value["id"] for value in responses if isinstance(value, dict) and isinstance(value.get("id"), str)}  # pyright: ignore[reportUnknownMemberType]  # JSON


def _is_approval(part: Part) -> TypeGuard[Data]:
    return isinstance(part, Data) and part.name == APPROVAL_RESPONSE


def _add_unanswered(calls: dict[int, dict[int, str]], call_id: str, location: tuple[int, int]) -> None:
    index, part_index = location
    calls.setdefault(index, {})[part_index] = call_id


def check_history_limits(messages: Sequence[Message], limits: HistoryLimits = DEFAULT_HISTORY_LIMITS) -> None:
    if len(messages) > limits.messages:
        raise InvalidValue(f"Too many messages: {len(messages):,} (limit: {limits.messages:,}).", pointer="/messages")
    file_count = 0
    for index, message in enumerate(messages):
        pointer = f"/messages/{index}"
        if len(message.parts) > limits.parts:
            raise InvalidValue(
                f"Message {index} has too many parts: {len(message.parts):,} (limit: {limits.parts:,}).",
                pointer=pointer,
            )
        if any(len(identifier) > MAX_ID_LENGTH for identifier in _iter_ids(message)):
            raise InvalidValue(f"An id in message {index} is longer than {MAX_ID_LENGTH} characters.", pointer=pointer)
        for part in message.parts:
            if isinstance(part, File):
                file_count += 1
                _check_file(part, index, limits)
    if file_count > limits.files:
        raise TooLarge(f"Too many files: {file_count} (limit: {limits.files}).", pointer="/messages")


def _iter_ids(message: Message) -> Iterable[str]:
    if message.id is not None:
        yield message.id
    for part in message.parts:
        match part:
            case ToolCall(call_id=value) | ToolResult(call_id=value) | File(file_id=str(value)):
                yield value
            case _:
                pass


def _check_file(file: File, index: int, limits: HistoryLimits) -> None:
    pointer = f"/messages/{index}"
    if file.url is not None and not file.url.lower().startswith(_FILE_SCHEMES):
        raise InvalidValue(
            f"Message {index} has a file with an unsupported URL. Use an https, http or data URL.", pointer=pointer
        )
    if len(file.data or "") * 3 // 4 > limits.file:
        raise TooLarge(f"A file in message {index} exceeds the limit of {limits.file:,} bytes.", pointer=pointer)
