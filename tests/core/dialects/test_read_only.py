"""Dialects that are only read: AutoGen, LlamaIndex, Pydantic AI, ShareGPT, and the parts of Haystack and of threads.

The corpus has what the libraries themselves write; here are values that they might, or should not.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import dialects
from palaver.core.dialects.detection import dialect_of
from palaver.core.messages import Data, File, Message, Text, ToolCall, ToolResult
from tests.core.strategies import jsons

HI = "hi"


def autogen(kind: str, content: Any, source: str = "bot", **fields: Any) -> Any:
    return {"type": kind, "source": source, "models_usage": None, "content": content, **fields}


def response(*parts: Any) -> Any:
    return {"kind": "response", "parts": [{"part_kind": "text", "content": ""}, *parts]}


def request(*parts: Any, **fields: Any) -> Any:
    return {"kind": "request", "parts": [*parts], **fields}


def prompt(content: Any) -> Any:
    return {"part_kind": "user-prompt", "content": content}


def blocks(*items: Any) -> Any:
    return {"role": "user", "blocks": [*items]}


def content(*items: Any) -> Any:
    return {"role": "user", "content": [*items]}


READ: dict[str, tuple[Any, list[Message]]] = {
    "events that repeat others": (
        [autogen("TextMessage", HI, "user"), autogen("ModelClientStreamingChunkEvent", "h")],
        [Message.user(HI)],
    ),
    "structured content": (
        [autogen("StructuredMessage[Sky]", {"sky": "clear"})],
        [Message("assistant", (Data("autogen:StructuredMessage[Sky]", {"sky": "clear"}),), name="bot")],
    ),
    "an unknown item": (
        [autogen("MultiModalMessage", [5], "user")],
        [Message.user(Data("autogen:MultiModalMessage", 5))],
    ),
    "a user with another name": (
        [{"type": "UserMessage", "source": "planner", "content": HI}],
        [Message("user", (Text(HI),), name="planner")],
    ),
    "a built-in tool in the middle of a response": (
        [
            response(
                {"part_kind": "builtin-tool-call", "tool_name": "search", "args": None, "tool_call_id": "c"},
                {"part_kind": "builtin-tool-return", "tool_name": "search", "content": [1], "tool_call_id": "c"},
                {"part_kind": "text", "content": HI},
            )
        ],
        [Message.assistant(ToolCall("c", "search", "")), Message.tool("c", [1]), Message.assistant(HI)],
    ),
    "a denied tool": (
        [request({"part_kind": "tool-return", "tool_call_id": "c", "content": "no", "outcome": "denied"})],
        [Message.tool("c", "no", is_error=True)],
    ),
    "instructions that every request repeats": (
        [request(prompt("a"), instructions="Be kind."), response(), request(prompt("b"), instructions="Be kind.")],
        [Message.system("Be kind."), Message.user("a"), Message.assistant(), Message.user("b")],
    ),
    "a file of a model": (
        [response({"part_kind": "file", "content": {"kind": "binary", "data": "aGk=", "media_type": "image/png"}})],
        [Message.assistant(File("image/png", data="aGk="))],
    ),
    "unknown parts": (
        [request(prompt([{"kind": "cache-point"}]), {"part_kind": "new"}), response({"part_kind": "newer"})],
        [
            Message.user(Data("pydantic-ai:cache-point", {"kind": "cache-point"})),
            Message.user(Data("pydantic-ai:new", {"part_kind": "new"})),
            Message.assistant(Data("pydantic-ai:newer", {"part_kind": "newer"})),
        ],
    ),
    "blocks with files": (
        [
            blocks(
                {"block_type": "audio", "audio": "aGk=", "format": "wav", "url": None},
                {
                    "block_type": "document",
                    "url": "https://f.example/a.pdf",
                    "document_mimetype": "application/pdf",
                },
                {"block_type": "image", "path": "a.png"},
            )
        ],
        [
            Message.user(
                File("audio/wav", data="aGk="),
                File("application/pdf", "https://f.example/a.pdf"),
                Data("llama-index:image", {"block_type": "image", "path": "a.png"}),
            )
        ],
    ),
    "an unknown block": (
        [blocks({"block_type": "citation", "title": "a"})],
        [Message.user(Data("llama-index:citation", {"block_type": "citation", "title": "a"}))],
    ),
    "a call that is no JSON": (
        [{"from": "function_call", "value": "weather()"}, {"from": "human", "value": HI}],
        [Message.assistant("weather()"), Message.user(HI)],
    ),
    "unknown parts of Haystack and of threads": (
        [content({"tool_call": {"id": "c"}}, {"type": "image_file"}, {"type": "text", "text": {"value": 5}})],
        [
            Message.user(
                Data("chat-completions:part", {"tool_call": {"id": "c"}}),
                Data("chat-completions:image_file", {"type": "image_file"}),
                Data("chat-completions:text", {"type": "text", "text": {"value": 5}}),
            )
        ],
    ),
    "a failed tool of Haystack's": (
        [content({"tool_call_result": {"result": "no", "origin": {"tool_name": "t", "id": "c"}, "error": True}})],
        [Message("user", ()), Message("tool", (ToolResult("c", "no", is_error=True),))],
    ),
    "messages of a thread, oldest first": (
        [
            {"object": "thread.message", "created_at": 1, **content({"type": "text", "text": {"value": "a"}})},
            {"object": "thread.message", "created_at": 2, **content({"type": "text", "text": {"value": "b"}})},
        ],
        [Message.user("a"), Message.user("b")],
    ),
}


@pytest.mark.parametrize(("value", "messages"), READ.values(), ids=READ)
def test_unusual_elements_are_read(value: Any, messages: list[Message]) -> None:
    assert dialects.read(value) == messages


_OTHER = st.one_of(jsons, st.sampled_from([HI, [], {}, [HI], None]))
_KINDS = st.sampled_from(
    "user-prompt text thinking tool-call tool-return retry-prompt file builtin-tool-return image tool_call".split()
)
_PART = st.fixed_dictionaries(
    {"part_kind": _KINDS, "block_type": _KINDS},
    optional=dict.fromkeys(("content", "text", "tool_name", "args", "image", "url", "tool_kwargs"), _OTHER),
)
ELEMENTS = st.one_of(
    st.fixed_dictionaries(
        {"type": st.sampled_from("TextMessage ToolCallRequestEvent ToolCallExecutionEvent ThoughtEvent".split())}
        | {"source": st.just("bot"), "content": _OTHER},
        optional={"thought": _OTHER, "id": _OTHER},
    ),
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["request", "response"]), "parts": st.lists(_PART, min_size=1)},
        optional={"instructions": _OTHER},
    ),
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "tool", "assistant"]), "blocks": st.lists(_PART, min_size=1)},
        optional={"additional_kwargs": _OTHER},
    ),
    st.fixed_dictionaries(
        {"from": st.sampled_from(["human", "gpt", "function_call", "observation"]), "value": st.text()}
    ),
)


@given(st.lists(ELEMENTS, min_size=1))
def test_no_json_value_in_an_element_stops_the_reading(elements: list[Any]) -> None:
    for element in elements:
        if dialect_of(element) is not None:
            dialects.read(element)
    if dialect_of(elements) is not None:
        dialects.read(elements)
