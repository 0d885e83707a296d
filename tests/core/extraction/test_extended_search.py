"""The extended search for a conversation."""

from typing import Any

import msgspec
import pytest
from hypothesis import given

from palaver.core.extraction.search import Conversation, extract_chat_messages, read_conversation
from palaver.core.messages import Data, Message, Part, Text
from tests.core.extraction.test_strict_search import PREFERENCES, A, U, nested, values

USER_MESSAGES, ASSISTANT_MESSAGES = (Message.user("hi"),), (Message.assistant("hello"),)


def text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def read_summary(value: Any, prefer: Any = None) -> tuple[list[tuple[str, str]], str, str, str | None] | None:
    """Role and text of each message, the dialect, the path and the side."""
    read = read_conversation(value, prefer)
    if read is None:
        return None
    return [(message.role, message.text) for message in read.messages], read.dialect, read.path, read.side


HI, HELLO = [("user", "hi")], [("assistant", "hello")]


_EMPTY_PART, _UI_DATA = Data("chat-completions:part"), Data("ui-message:data-x")
GEMINI_CONTENT = {"role": "model", "parts": [{"text": "hello"}]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([U], (HI, "chat-completions", "", None)),
        (U, (HI, "chat-completions", "", None)),
        # Texts
        (text([U]), (HI, "chat-completions", "", None)),
        ({"input.value": text({"messages": [U]})}, (HI, "chat-completions", "/input.value/messages", "input")),
        (text({"data": text({"messages": text([U])})}), (HI, "chat-completions", "/data/messages", None)),
        (text({"data": text({"data": text({"messages": text([U])})})}), None),
        ({"message": text([U])}, None),
        ({"role": "user", "content": text([A])}, ([("user", text([A]))], "chat-completions", "", None)),
        ("{not json}", None),
        # Batches
        ({"messages": [[U]]}, (HI, "chat-completions", "/messages/0", None)),
        ({"messages": [[U], [A]]}, None),
        # Names
        ({"input": U}, (HI, "chat-completions", "/input", "input")),
        ({"gen_ai.output.messages": [A]}, (HELLO, "chat-completions", "/gen_ai.output.messages", "output")),
        ({"chat_history": [U]}, (HI, "chat-completions", "/chat_history", None)),
        (
            {"attributes": {"llm.input_messages": [{"message": U}]}},
            (HI, "chat-completions", "/attributes/llm.input_messages", "input"),
        ),
        ({"a/b": 1, "kwargs": {"messages": [U]}}, (HI, "chat-completions", "/kwargs/messages", None)),
        # Responses of model APIs
        ({"choices": [{"message": A}]}, (HELLO, "chat-completions", "/choices", "output")),
        ({"choices": [{"delta": {"content": "hello"}}]}, (HELLO, "chat-completions", "/choices", "output")),
        ({"candidates": [{"content": GEMINI_CONTENT}, {"content": {}}]}, (HELLO, "gemini", "/candidates", "output")),
        ({"candidates": [{"content": {"parts": [{"text": "hello"}]}}]}, None),
        (
            {"generations": [[{"message": {"type": "ai", "content": "hello"}}]]},
            (HELLO, "langchain", "/generations", "output"),
        ),
        ({"content": GEMINI_CONTENT}, (HELLO, "gemini", "/content", None)),
        ({"contents": [{"parts": [{"text": "hi"}]}]}, (HI, "gemini", "/contents", "input")),
        # No conversation
        ({"contents": [{"text": "hi"}]}, None),
        ([{"type": "system", "content": "disk full"}], None),
        ({"candidates": 5, "choices": "x", "generations": [5, [6]]}, None),
        (None, None),
        ([], None),
    ],
)
def test_conversations_are_found_with_dialect_path_and_side(value: Any, expected: Any) -> None:
    assert read_summary(value) == expected


@pytest.mark.parametrize(
    ("value", "prefer", "path"),
    [
        ({"prompt": [U], "outputs": {"completion": [A]}}, "output", "/outputs/completion"),
        ({"messages": [U], "outputs": {"completion": [A]}}, "output", "/outputs/completion"),
        ({"messages": [U], "outputs": {"completion": [A]}}, "input", "/messages"),
        ({"messages": [U], "outputs": {"completion": [A]}}, None, "/messages"),
        ({"outputs": {"prompt": [U]}, "messages": [A]}, "output", "/outputs/prompt"),
        ({"messages": [U], "choices": [{"message": A}]}, "output", "/choices"),
        ({"outputs": {"completion": [A]}}, "input", "/outputs/completion"),
        ({"inputs": {"messages": [U]}, "history": [A]}, "output", "/history"),
    ],
)
def test_the_outermost_key_with_a_side_decides(value: Any, prefer: Any, path: str) -> None:
    read = read_conversation(value, prefer)

    assert read is not None
    assert read.path == path


def test_a_conversation_holds_palaver_messages() -> None:
    assert read_conversation({"messages": [U]}) == Conversation(USER_MESSAGES, "chat-completions", "/messages")
    assert read_conversation({"output": A}) == Conversation(ASSISTANT_MESSAGES, "chat-completions", "/output", "output")


@pytest.mark.parametrize(
    ("element", "parts"),
    [
        ({"tool_calls": [{"name": "f", "args": {"a": object()}}], "content": "hm"}, [Text("hm"), _EMPTY_PART]),
        ({"content": ["hm", {"type": "custom", "x": object()}]}, [Text("hm"), Data("chat-completions:custom")]),
        ({"content": [{"type": "tool_use", "id": "t", "input": {1j: 2}}]}, [Data("anthropic:tool_use")]),
        ({"parts": [{"type": "text", "text": "hm"}, {"type": "data-x", "data": object()}]}, [Text("hm"), _UI_DATA]),
        ({"content": "hm", "palaver": {"data": [{"name": "n", "value": object()}]}}, [Text("hm"), _EMPTY_PART]),
    ],
)
def test_a_part_that_is_not_json_becomes_an_empty_data_part(element: Any, parts: list[Part]) -> None:
    read = read_conversation([U, {"role": "assistant", **element}])

    assert read is not None
    assert read.messages == (*USER_MESSAGES, Message.assistant(*parts))


def test_an_invalid_preference_raises_value_error() -> None:
    with pytest.raises(ValueError, match="prefer must be None"):
        read_conversation([U], "both")  # type: ignore[arg-type]


@pytest.mark.parametrize("prefer", PREFERENCES)
def test_the_search_ends_for_deep_and_cyclic_values(prefer: Any) -> None:
    cycle: dict[str, Any] = {"inputs": {}}
    cycle["data"] = cycle["inputs"]["body"] = cycle
    deep: Any = [U]
    for _ in range(50_000):
        deep = {"data": deep}

    assert read_conversation(cycle, prefer) is None
    assert read_conversation(deep, prefer) is None
    assert read_conversation(nested("data.inputs.data.inputs.data.inputs", [U]), prefer) is not None
    assert read_conversation("[" * 100_000 + "]" * 100_000, prefer) is None


@given(values)
def test_a_preference_never_changes_whether_something_is_found(value: Any) -> None:
    read = [read_conversation(value, prefer) for prefer in PREFERENCES]

    assert len({one is None for one in read}) == 1


@given(values)
def test_the_wide_search_finds_something_wherever_the_strict_search_does(value: Any) -> None:
    if extract_chat_messages(value) is not None:
        assert read_conversation(value) is not None


# The differences listed in docs/decisions/0015: value, preference, strict result, path of the wide result

DIFFERENCES: list[tuple[Any, Any, Any, Any]] = [
    ({"prompt": [U], "outputs": {"completion": [A]}}, "output", [U], "/outputs/completion"),
    ({"messages": [U], "outputs": {"completion": [A]}}, "output", [U], "/outputs/completion"),
    ({"messages": [U], "outputs": {"completion": [A]}}, "input", [U], "/messages"),
    ({"messages": [U], "outputs": {"completion": [A]}}, None, [U], "/messages"),
    ({"messages": [U], "choices": [{"message": A}]}, "output", [U], "/choices"),
    ({"outputs": {"prompt": [A]}, "messages": [U]}, "output", [U], "/outputs/prompt"),
    ({"input": [U]}, None, None, "/input"),
    ({"output": A}, None, None, "/output"),
    ({"message": A}, None, None, "/message"),
    (text([U]), None, None, ""),
    ({"messages": [[U, A]]}, None, None, "/messages/0"),
    ({"choices": [{"delta": {"content": "x"}}]}, None, None, "/choices"),
    ({"contents": [{"parts": [{"text": "hi"}]}]}, None, None, "/contents"),
    ({"type": "human", "content": "hi"}, None, None, ""),
    ([{"type": "function_call", "name": "now", "arguments": "{}"}], None, None, ""),
    ({"candidates": [{"content": GEMINI_CONTENT}]}, None, None, "/candidates"),
    ({"gen_ai.input.messages": text([U])}, None, None, "/gen_ai.input.messages"),
]


@pytest.mark.parametrize(("value", "prefer", "strict", "path"), DIFFERENCES)
def test_documented_differences_between_strict_and_wide_search(value: Any, prefer: Any, strict: Any, path: str) -> None:
    read = read_conversation(value, prefer)

    assert extract_chat_messages(value, prefer) == strict
    assert read is not None
    assert read.path == path
