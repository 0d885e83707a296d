"""The data of a request that the encoder needs: the client's version, its tools, and the state of its last message."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from palaver.core.messages import Message, ToolCall, unanswered_calls
from palaver.errors import InvalidValue
from palaver.protocols.base import Headers

VERSION_HEADER = "x-palaver-ui-version"
"""The header with the client's version of the AI SDK; the response repeats it."""

_VERSIONS = {"5": 5, "6": 6, "7": 7}
_DEFAULT_VERSION = "6"


_TYPE_TAG = "ui-client"


class UIRequest(msgspec.Struct, frozen=True, kw_only=True, tag=_TYPE_TAG):
    """What is needed to encode the response. Stored with the run under a type tag, see `restore_ui_request`."""

    version: int = _VERSIONS[_DEFAULT_VERSION]
    message: str | None = None
    """The id of the message that is continued; None for a new one."""
    shown: Mapping[str, bool] = {}
    """The tool calls that this message shows; False for tools that the client knows by type."""
    waiting: Mapping[str, ToolCall] = {}
    """All tool calls of the history without a result."""
    tools: frozenset[str] = frozenset()
    """Names of the tools that the client runs."""
    about: str | None = None
    """The message that the client has changed or wants to be regenerated."""
    regenerates: bool = False
    """Whether the client wants another response to the same history."""

    @property
    def headers(self) -> Headers:
        """The response headers that announce the stream and its version."""
        return (("x-vercel-ai-ui-message-stream", "v1"), (VERSION_HEADER, str(self.version)))


def parse_version(headers: Mapping[str, str]) -> int:
    """Parse the client's version of the AI SDK. Raises InvalidValue."""
    known = _VERSIONS.get(headers.get(VERSION_HEADER, _DEFAULT_VERSION).strip())
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
    """Build the request from the history: its elements as they were sent, and the messages that they are.

    If the last element is an assistant's, the client continues it: its id and its tool calls are kept.
    """
    message: str | None = None
    shown: dict[str, bool] = {}
    match elements:
        case [*_, {"role": "assistant", **element}]:
            message = element_id if isinstance(element_id := element.get("id"), str) and element_id else None
            parts = element.get("parts")
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
        waiting=unanswered_calls(messages),
        tools=tools,
        about=about,
        regenerates=regenerates,
    )


def restore_ui_request(value: Any) -> UIRequest:
    """Restore a stored request; the default one if the value was stored by another protocol."""
    is_ui_request = isinstance(value, Mapping) and cast("Mapping[str, Any]", value).get("type") == _TYPE_TAG
    return msgspec.convert(value, UIRequest) if is_ui_request else UIRequest()
