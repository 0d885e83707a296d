"""Reading messages of any dialect, and writing them back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import dialects
from palaver.core.dialects.detection import dialect_of
from palaver.core.extraction import read_conversation
from palaver.core.messages import Data, Message, Text, ToolCall
from palaver.errors import InvalidMessages
from tests.core.strategies import Unwritable, messages

U = {"role": "user", "content": "hi"}
PALAVER_MESSAGE = {"role": "assistant", "id": "m", "parts": [{"type": "data", "name": "n", "value": 1}]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], []),
        ([U], [Message.user("hi")]),
        (U, [Message.user("hi")]),
        (
            [U, PALAVER_MESSAGE, {"message": U}, {"message": PALAVER_MESSAGE}],
            [
                Message.user("hi"),
                Message(role="assistant", id="m", parts=(Data(name="n", value=1),)),
                Message.user("hi"),
                Message(role="assistant", id="m", parts=(Data(name="n", value=1),)),
            ],
        ),
        (
            [
                U,
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "x"},
                {"type": "ai", "content": "hi"},
                {"role": "user", "id": "u", "parts": [{"type": "step-start"}, {"type": "text", "text": "hi"}]},
            ],
            [
                Message.user("hi"),
                Message.assistant(ToolCall(call_id="c", name="f", arguments="{}")),
                Message.tool("c", "x"),
                Message.assistant("hi"),
                Message(role="user", id="u", parts=(Text(text="hi"),)),
            ],
        ),
        (
            [
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {"a": "\ud800"}}}],
                }
            ],
            [Message.assistant(ToolCall(call_id="c", name="f", arguments='{"a":"\ufffd"}'))],
        ),
    ],
    ids=["nothing", "a list", "one message", "mixed and wrapped", "of all dialects", "half a character"],
)
def test_messages_are_read_element_by_element(value: Any, expected: list[Message]) -> None:
    assert dialects.read(value) == expected


@pytest.mark.parametrize(
    ("value", "message", "pointer"),
    [
        ("hi", "The message history is not a list of messages.", "/messages"),
        (None, "The message history is not a list of messages.", "/messages"),
        ([U, "hi"], "Message 1 is not an object.", "/messages/1"),
        ([{"content": "hi"}], "Message 0 has no role.", "/messages/0"),
        (
            [U, {"role": "user"}],
            "Message 1 has no supported content (content, parts, tool_calls, …).",
            "/messages/1",
        ),
        ([{"role": "admin", "content": "all"}], "The message history has no message with a known role.", "/messages"),
        (
            [{"role": "assistant", "tool_calls": [{"name": "f", "args": {"a": Unwritable()}}]}],
            (
                "The message history contains a value of type dict "
                "that is not JSON-serializable (unsupported type Unwritable)."
            ),
            "/messages",
        ),
    ],
)
def test_unreadable_messages_raise_with_pointer_and_reason(value: Any, message: str, pointer: str) -> None:
    with pytest.raises(InvalidMessages) as caught:
        dialects.read(value)

    assert (caught.value.message, caught.value.pointer) == (message, pointer)


def test_the_error_pointer_starts_with_the_callers_pointer() -> None:
    with pytest.raises(InvalidMessages) as caught:
        dialects.read([5], pointer="/data/inputs/messages")

    assert caught.value.pointer == "/data/inputs/messages/0"


def test_messages_are_written_in_the_requested_dialect() -> None:
    conversation = [Message(role="user", parts=(Text(text="hi"),), id="m")]

    assert dialects.write(conversation, "chat-completions") == [{"role": "user", "content": "hi"}]
    assert dialects.write(conversation, "palaver") == [
        {"role": "user", "parts": [{"type": "text", "text": "hi"}], "id": "m"}
    ]


@pytest.mark.parametrize("name", sorted(dialects.DIALECT_MODULES))
@given(conversation=st.lists(messages, max_size=4))
def test_written_messages_are_detected_and_read_in_their_dialect(name: Any, conversation: list[Message]) -> None:
    # Reasoning alone is not detected as a conversation, so a user message precedes it.
    encoded = dialects.write([Message.user("hi"), *conversation], name)

    # Text and reasoning look the same in Palaver and UI messages, plain text in Anthropic and Chat Completions.
    alike = {"palaver": "ui-message", "anthropic": "chat-completions"}
    assert dialect_of(encoded) in (name, alike.get(name))
    assert dialects.read([*encoded]) == dialects.DIALECT_MODULES[name].read(encoded)


_texts = st.sampled_from(["", "hi", None, 5, ["hi"]])
_text_part = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "reasoning", None])},
    optional={"text": _texts, "content": _texts, "state": st.just("done"), "call_id": _texts},
)
_text_elements = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "model", "Human", "admin", ""])},
    optional={
        "content": _texts,
        "parts": st.lists(_text_part | st.just({"type": "step-start"}), max_size=2),
        "id": _texts,
        "finish_reason": _texts,
    },
)


@pytest.mark.parametrize("name", ["chat-completions", "gen-ai", "ui-message"])
@given(element=_text_elements)
def test_the_shortcut_for_plain_text_reads_the_same_as_the_full_reader(name: Any, element: dict[str, Any]) -> None:
    read = dialects.DIALECT_MODULES[name].read  # These have a shortcut for an element that is only a text.

    assert read([element], 3) == read([{**element, "unknown": 1}], 3)


# Malformed messages: an element that is detected as a message is read whatever it contains


_words = st.sampled_from(
    "user assistant human ai tool system message text input_text output_text function_call function_call_output"
    " reasoning thinking refusal input_image image_url image file input_file input_audio audio tool_use tool_call"
    " mcp_approval_request mcp_approval_response palaver:data palaver:file data-x data-file dynamic-tool tool-now"
    " tool-call tool-result tool-invocation step-start source-url source-document output-available output-error"
    " approval-responded output-denied summary_text url_citation AIMessage FunctionMessage hi \0 \ud800"
    " data:;base64,AA".split()
)
_keys = st.sampled_from(
    "role type content text parts id name arguments call_id output summary encrypted_content annotations url image_url"
    " file_id file_data file_url detail input_audio data format source base64 mime_type media_type mediaType filename"
    " toolName toolCallId state input errorText approval toolInvocation result title sourceId providerMetadata palaver"
    " refusal kwargs lc additional_kwargs tool_calls invalid_tool_calls tool_call_chunks tool_call_id function"
    " args value reasoning reasoning_content thinking signature extras metadata index start_index"
    " approval_request_id".split()
)
_odd_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.just(1.5) | _words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=6),
    max_leaves=16,
)


def _element(kinds: list[str]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda rest, part, content, kind, more: {"type": kind, **rest, **part, "content": content, **more},
        st.dictionaries(_keys, _odd_values, max_size=5),
        st.fixed_dictionaries({}, optional={"role": _words, "parts": st.lists(_block, max_size=4)}),
        _odd_values | st.lists(_block, max_size=4),
        st.sampled_from(kinds),
        st.dictionaries(_keys, _odd_values, max_size=2),
    )


_block = st.builds(lambda kind, rest: {**rest, "type": kind}, _words, st.dictionaries(_keys, _odd_values, max_size=5))
_elements = st.lists(
    _element(["message", "human", "ai", "tool", "function_call", "reasoning", "mcp_approval_request"]) | _block,
    max_size=3,
)


@pytest.mark.parametrize("name", ["langchain", "responses", "ui-message"])
@given(elements=_elements)
def test_malformed_messages_never_raise(name: Any, elements: list[Any]) -> None:
    decoded = dialects.DIALECT_MODULES[name].read(elements)

    for other in dialects.DIALECT_MODULES.values():
        other.write(decoded)
    if dialect_of(elements) in dialects.DIALECT_MODULES and all(
        dialect_of(one) in dialects.DIALECT_MODULES for one in elements
    ):
        dialects.read(elements)


@pytest.mark.parametrize("name", ["langchain", "responses", "ui-message"])
def test_a_too_deep_part_is_rejected_by_read_and_empty_in_a_conversation(name: Any) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [{"type": "x", "content": deep}]
    part = {"type": "x", "value": deep}
    long = "x" * 10_000_000
    element = {
        "langchain": {"type": "ai", "content": [part, long]},
        "responses": {"role": "assistant", "content": [part, {"type": "output_text", "text": long}]},
        "ui-message": {"role": "assistant", "parts": [part, {"type": "text", "text": long}]},
    }[name]

    result = read_conversation([element])

    assert result is not None
    assert result.messages == (Message.assistant(Data(f"{name}:x"), Text(long)),) or result.messages == (
        Message.assistant(Text(long), Data(f"{name}:x")),
    )
    with pytest.raises(InvalidMessages, match="The message history contains a"):
        dialects.read([element])
