"""The client of a UI message stream: its version, the tools it runs, and what its last message shows already."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from palaver.core.messages import Message, ToolCall
from palaver.errors import InvalidValue
from palaver.protocols.base import Headers

VERSION_HEADER = "x-palaver-ui-version"
"""The header in which a client says its version of the AI SDK; the answer repeats it."""

_VERSIONS = {"5": 5, "6": 6, "7": 7}
_DEFAULT = "6"


_TAG = "ui-client"


class UIRequest(msgspec.Struct, frozen=True, kw_only=True, tag=_TAG):
    """What is known of the client that will read the parts. Where it is kept, it says what it is: see `restored`."""

    version: int = _VERSIONS[_DEFAULT]
    message: str | None = None
    """The id of the message in which it goes on; None where it begins a new one."""
    shown: Mapping[str, bool] = {}
    """The calls that this message shows already; False for those of tools that the client knows by type."""
    waiting: Mapping[str, ToolCall] = {}
    """All calls of the history that have no result."""
    tools: frozenset[str] = frozenset()
    """Names of the tools that it runs itself."""
    about: str | None = None
    """The message that it names: one that it has changed, or wants to be answered anew."""
    regenerates: bool = False
    """Does it want another answer to what was said before?"""

    @property
    def headers(self) -> Headers:
        """What tells it that the answer is such a stream, and for which version."""
        return (("x-vercel-ai-ui-message-stream", "v1"), (VERSION_HEADER, str(self.version)))


def parse_version(headers: Mapping[str, str]) -> int:
    """The client's version of the AI SDK."""
    known = _VERSIONS.get(headers.get(VERSION_HEADER, _DEFAULT).strip())
    if known is None:
        raise InvalidValue(f"The header {VERSION_HEADER} must be 5, 6 or 7.")
    return known


def ui_request(
    version: int,
    elements: Any,
    messages: Iterable[Message],
    *,
    tools: frozenset[str] = frozenset(),
    about: str | None = None,
    regenerates: bool = False,
) -> UIRequest:
    """The client that sent this history: its elements as they came, and the messages that they are.

    Where the last element is an assistant's, the client goes on in it, with the id that it has and the calls it shows.
    """
    message: str | None = None
    shown: dict[str, bool] = {}
    match elements:
        case [*_, {"role": "assistant", **said}]:
            message = given if isinstance(given := said.get("id"), str) and given else None
            parts = said.get("parts")
            for part in cast("list[Any]", parts) if isinstance(parts, list) else ():
                match part:
                    case {"type": str(kind), "toolCallId": str(call_id)}:
                        shown[call_id] = kind == "dynamic-tool"
                    case _:
                        pass
        case _:
            pass
    return UIRequest(
        version=version,
        message=message,
        shown=shown,
        waiting=_unanswered(messages),
        tools=tools,
        about=about,
        regenerates=regenerates,
    )


def restore_ui_request(note: Any) -> UIRequest:
    """The client that began a stream, as it was kept; any client, where the note is another protocol's, or none."""
    is_ours = isinstance(note, Mapping) and cast("Mapping[str, Any]", note).get("type") == _TAG
    return msgspec.convert(note, UIRequest) if is_ours else UIRequest()


def _unanswered(messages: Iterable[Message]) -> dict[str, ToolCall]:
    waiting: dict[str, ToolCall] = {}
    for message in messages:
        waiting |= {call.call_id: call for call in message.tool_calls}
        for result in message.tool_results:
            waiting.pop(result.call_id, None)
    return waiting
