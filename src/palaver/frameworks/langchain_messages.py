"""Our messages as LangChain's, and the echo of them: what a node or a function gives back of its own history."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from palaver.core.dialects.common import result_text, without_none
from palaver.core.messages import Data, File, Message, Part, Refusal, Text, ToolCall
from palaver.frameworks.langchain_content import text_of

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

_ROLES = {"AIMessageChunk": "ai", "chat": "ai", "ChatMessageChunk": "ai", "function": "tool"}


def written(messages: Sequence[Message]) -> "list[BaseMessage]":
    """Our messages as LangChain's. Reasoning and data are left out, and an assistant's message that is nothing else."""
    names = {call.call_id: call.name for message in messages for call in message.tool_calls}
    return [each for message in messages for each in _written(message, names)]


def _written(message: Message, names: Mapping[str, str]) -> "Iterator[BaseMessage]":
    from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage

    said: dict[str, Any] = {"content": _content(message.parts), **without_none(id=message.id, name=message.name)}
    match message.role:
        case "system":
            yield SystemMessage(**said)
        case "developer":
            yield SystemMessage(**said, additional_kwargs={"__openai_role__": "developer"})
        case "user":
            if not message.parts or not all(isinstance(part, Data) for part in message.parts):
                yield HumanMessage(**said)  # An approval reaches a graph otherwise.
        case "assistant":
            if said["content"] or message.tool_calls:
                yield _assistant(message, said)
        case "tool":
            pass
    only = message.id if len(message.tool_results) == 1 and message.role == "tool" else None
    for result in message.tool_results:
        yield ToolMessage(
            content=result_text(result.output),
            tool_call_id=result.call_id,
            status="error" if result.is_error else "success",
            **without_none(id=only, name=names.get(result.call_id)),
        )


def _assistant(message: Message, said: dict[str, Any]) -> "AIMessage":
    """One message, however many calls; what no model could read of them is kept apart, as LangChain does."""
    from langchain_core.messages import AIMessage

    read = [(call, call.parsed) for call in message.tool_calls]
    return AIMessage(
        **said,
        tool_calls=[
            {"type": "tool_call", "id": call.call_id, "name": call.name, "args": arguments}
            for call, arguments in read
            if isinstance(arguments, dict)
        ],
        invalid_tool_calls=[
            {"type": "invalid_tool_call", "id": call.call_id, "name": call.name, "args": call.arguments, "error": None}
            for call, arguments in read
            if not isinstance(arguments, dict)
        ],
    )


def _content(parts: Sequence[Part]) -> "str | list[str | dict[str, Any]]":
    """Text as one string; with files, a list of LangChain's own blocks."""
    blocks: list[str | dict[str, Any]] = []
    texts: list[str] = []
    for part in parts:
        match part:
            case Text(text=text) | Refusal(text=text):
                texts.append(text)
                blocks.append({"type": "text", "text": text})
            case File():
                blocks.append(_block(part))
            case _:
                pass
    return blocks if len(blocks) > len(texts) else "".join(texts)


def _block(file: File) -> dict[str, Any]:
    kind = file.media_type.partition("/")[0]
    extras = without_none(filename=file.filename, detail=file.detail)
    return {
        "type": kind if kind in ("image", "audio", "video") else "file",
        "mime_type": file.media_type,
        **without_none(url=file.url, base64=file.data, file_id=file.file_id, extras=extras or None),
    }


class Echo:
    """Tells what is given back of a history from what is new: by id, else by what it says, in order from the start."""

    def __init__(self, history: Sequence[Any]) -> None:
        self._ids = {message.id for message in history if message.id}
        self._gists = [_gist(message) for message in history]
        self._reached: dict[str, int] = {}
        self._nameless: list[tuple[object, ...]] = []

    def note(self, message: Any) -> None:
        """This was said without an id: when it comes again, under the one that a graph gave it, it is an echo."""
        if not message.id:
            self._nameless.append(_gist(message))

    def begin(self, branch: str = "") -> None:
        """From here on, what comes in this branch may be the history from its start."""
        self._reached[branch] = 0

    def repeats(self, message: Any, branch: str = "") -> bool:
        """Is this message one of the history?"""
        gist, at = _gist(message), self._reached.get(branch, 0)
        # No answer begins with a user's or the system's message; without one, the same words may be said anew.
        if gist in self._gists[at : at + 1] and (at or message.type in ("human", "system")):
            self._reached[branch] = at + 1
        elif message.id in self._ids:
            return True
        elif message.id and gist in self._nameless:
            self._nameless.remove(gist)
        else:
            return False
        if message.id:
            self._ids.add(message.id)
        return True

    def fresh(self, messages: Sequence[Any]) -> list[Any]:
        """The messages of a list that are none of the history."""
        self.begin()
        return [message for message in messages if not self.repeats(message)]


def _gist(message: Any) -> tuple[object, ...]:
    """What two spellings of one message have in common."""
    asked = [call.get("id") for call in getattr(message, "tool_calls", None) or ()]
    asked += [call.get("id") for call in getattr(message, "invalid_tool_calls", None) or ()]
    return (
        _ROLES.get(message.type, message.type),
        text_of(message),
        tuple(asked),
        getattr(message, "tool_call_id", None),
    )


def waiting_in(messages: Sequence[Message]) -> dict[str, ToolCall]:
    """By id, the calls in our messages that have no result; some models count theirs anew in every turn."""
    waiting: dict[str, ToolCall] = {}
    for message in messages:
        waiting |= {call.call_id: call for call in message.tool_calls}
        for result in message.tool_results:
            waiting.pop(result.call_id, None)
    return waiting
