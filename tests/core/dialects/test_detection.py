"""Detecting whether a value is messages, and in which dialect: tables of examples, and properties."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core.dialects.detection import (
    KNOWN_ROLES,
    Segment,
    detect_element,
    detect_plain_element,
    dialect_of,
    explain_rejection,
    is_chat_messages,
    speaker_role,
    split_by_dialect,
)

U = {"role": "user", "content": "hi"}
A = {"role": "assistant", "content": "hello"}


class RaisingObject:
    """An object that raises when it is compared or tested for truth."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ValueError

    def __bool__(self) -> bool:
        raise ValueError


def user_messages(**fields: Any) -> list[Any]:
    """A list of one user message with these fields."""
    return [{"role": "user", **fields}]


MESSAGES: dict[str, Any] = {
    "text": [U, A],
    "null content": user_messages(content=None),
    "content of strings and objects": user_messages(content=["a", {"type": "text", "text": "b"}]),
    "empty content": user_messages(content=[]),
    "content of one typed object": user_messages(content={"type": "text", "text": "a"}),
    "no calls": [{"role": "assistant", "tool_calls": []}],
    "calls": [{"role": "assistant", "tool_calls": [{"id": "c"}]}],
    "a function call": [{"role": "assistant", "function_call": {}}],
    "a call's id": [{"role": "tool", "tool_call_id": "c"}],
    "text under text": user_messages(text=""),
    "text under message": user_messages(message="hi"),
    "parts": user_messages(parts=["a", {}]),
    "no parts": user_messages(parts=[]),
    "a delta": user_messages(delta={"content": "hi"}),
    "a known author": [{"author": "user", "text": "hi"}],
    "a known sender": [{"sender": "Bot", "text": "hi"}],
    "an author where the role is empty": [{"role": "", "author": "user", "text": "hi"}],
    "an author where the role is no text": [{"role": 5, "author": "user", "text": "hi"}],
    "one odd role among known ones": [U, {"role": "weather_tool", "content": "sun"}],
    "bad content beside a call": [{"role": "assistant", "content": 5, "tool_calls": []}],
}


@pytest.mark.parametrize("value", MESSAGES.values(), ids=MESSAGES)
def test_chat_messages_are_detected(value: Any) -> None:
    assert is_chat_messages(value)


@pytest.mark.parametrize("role", sorted(KNOWN_ROLES))
def test_known_roles_are_detected_in_any_case(role: str) -> None:
    assert is_chat_messages([{"role": role.upper(), "content": "hi"}])
    assert is_chat_messages([{"author": role.title(), "content": "hi"}])


NOT_MESSAGES: dict[str, Any] = {
    "nothing": [],
    "null": None,
    "a string": "hi",
    "one message outside a list": U,
    "a tuple": (U,),
    "a tuple inside": [(U,)],
    "numbers": [1, 2, 3],
    "junk among messages": [1, "x", U],
    "a post": [{"author": "Jane", "text": "post"}],
    "an unknown role alone": [{"role": "admin", "content": "all"}],
    "a role alone": [{"role": "user"}],
    "no role": [{"content": "hi"}],
    "an empty role": [{"role": "", "content": "hi"}],
    "a number": user_messages(content=5),
    "numbers inside": user_messages(content=[1, 2]),
    "an object without a type": user_messages(content={"a": 1}),
    "an object with an odd type": user_messages(content={"type": 1}),
    "text that is none": user_messages(text=None),
    "a message that is an object": user_messages(message={"content": "hi"}),
    "parts that are none": user_messages(parts="hi"),
    "parts of numbers": user_messages(parts=[1]),
    "calls that are none": user_messages(tool_calls={"id": "c"}),
    "calls of strings": user_messages(tool_calls=["c"]),
    "a function call that is text": user_messages(function_call="f()"),
    "a call's id that is a number": user_messages(tool_call_id=1),
    "an empty delta": user_messages(delta={}),
    "a tuple of content": user_messages(content=("a",)),
}


@pytest.mark.parametrize("value", NOT_MESSAGES.values(), ids=NOT_MESSAGES)
def test_other_values_are_not_detected_as_chat_messages(value: Any) -> None:
    assert not is_chat_messages(value)


CALL = {"type": "function_call", "name": "now", "arguments": "{}"}
REASONING = {"type": "reasoning", "summary": []}
LC = {"lc": 1, "id": ["langchain", "schema", "HumanMessage"], "kwargs": {"content": "hi"}}

DIALECTS: dict[str, tuple[Any, str | None]] = {
    # langchain
    "lc serialised": ([LC], "langchain"),
    "lc chunk": ([{**LC, "id": ["x", "AIMessageChunk"]}], "langchain"),
    "lc of something else": ([{**LC, "id": ["x", "Prompt"]}], None),
    "lc without content": ([{**LC, "kwargs": {}}], None),
    "lc of another version": ([{**LC, "lc": 2}], None),
    "human": ([{"type": "human", "content": "hi"}], "langchain"),
    "ai with a list": ([{"type": "ai", "content": ["hi"]}], "langchain"),
    "data form": ([{"type": "system", "data": {"content": "hi"}}], "langchain"),
    "a chunk": ([{"type": "AIMessageChunk", "content": "hi"}], "langchain"),
    "a tool with extras": ([{"type": "tool", "content": "hi", "additional_kwargs": {}}], "langchain"),
    "a function with metadata": ([{"type": "function", "content": "hi", "response_metadata": {}}], "langchain"),
    "rows of a log": ([{"type": "system", "content": "boot"}, {"type": "tool", "content": "x"}], None),
    "a bare system among certain ones": (
        [{"type": "system", "content": "x"}, {"type": "human", "content": "y"}],
        "langchain",
    ),
    "human without content": ([{"type": "human"}], None),
    "human with a role": ([{"type": "human", "role": "user", "content": "hi"}], "chat-completions"),
    # responses
    "an item that is a message": ([{"type": "message", **U}], "responses"),
    "a message with an unknown role": ([{"type": "message", "role": "x", "content": "hi"}], None),
    "a function call": ([CALL], "responses"),
    "a function call without arguments": ([{"type": "function_call", "name": "now", "id": "x"}], None),
    "a custom call": ([{"type": "custom_tool_call", "name": "now", "input": ""}], "responses"),
    "a custom call without input": ([{"type": "custom_tool_call", "name": "now"}], None),
    "an output": ([{"type": "function_call_output", "call_id": "c", "output": "x"}], "responses"),
    "a custom output": ([{"type": "custom_tool_call_output", "call_id": "c", "output": []}], "responses"),
    "an output without a call": ([{"type": "function_call_output", "output": "x"}], None),
    "only reasoning": ([REASONING], None),
    "reasoning and a call": ([REASONING, CALL], "responses"),
    "reasoning by content": ([{"type": "reasoning", "content": []}, CALL], "responses"),
    "encrypted reasoning": ([{"type": "reasoning", "encrypted_content": "x"}, CALL], "responses"),
    "reasoning of nothing": ([{"type": "reasoning"}, CALL], None),
    "another kind of call": ([{"type": "web_search_call", "id": "x"}, CALL], "responses"),
    "another kind of output": ([{"type": "computer_call_output", "id": "x"}, CALL], "responses"),
    "of MCP": ([{"type": "mcp_list_tools", "id": "x"}, CALL], "responses"),
    "a reference": ([{"type": "item_reference", "id": "x"}, CALL], "responses"),
    "an approval": ([{"type": "mcp_approval_response", "approval_request_id": "c", "approve": True}], "responses"),
    "an approval of nothing": ([{"type": "mcp_approval_response", "approve": True, "id": "x"}], None),
    "data in an item of ours": ([{"type": "palaver:data", "name": "n", "value": 1}], "responses"),
    "data without a name": ([{"type": "palaver:data", "value": 1}], None),
    "a file in an item of ours": ([{"type": "palaver:file", "media_type": "image/png"}], "responses"),
    "another call alone": ([{"type": "web_search_call", "id": "x"}], None),
    "another call without an id": ([{"type": "web_search_call"}, CALL], None),
    "input text": (user_messages(content=[{"type": "input_text", "text": "hi"}]), "responses"),
    "output text by an unknown role": (
        [{"role": "x", "content": [{"type": "output_text", "text": "hi"}]}],
        "responses",
    ),
    "an input image": (user_messages(content=[{"type": "input_image"}]), "responses"),
    "an input file": (user_messages(content=[{"type": "input_file"}]), "responses"),
    "Slack's": ([{"type": "message", "user": "U1", "text": "hi"}], None),
    # palaver
    "a call of ours": (
        [{"role": "assistant", "parts": [{"type": "tool-call", "call_id": "c", "name": "f"}]}],
        "palaver",
    ),
    "a file of ours": (user_messages(parts=[{"type": "file", "media_type": "image/png"}]), "palaver"),
    "a file id of ours": (user_messages(parts=[{"type": "file", "file_id": "f"}]), "palaver"),
    "a refusal of ours": (user_messages(parts=[{"type": "refusal", "text": "no"}]), "palaver"),
    "data of ours": (user_messages(parts=[{"type": "data", "name": "n", "value": 1}]), "palaver"),
    "data of ours beside a part of an unknown type": (
        user_messages(parts=[{"type": "data", "name": "n", "value": 1}, {"type": "hologram"}]),
        "palaver",
    ),
    "data with a name in a UI message": (
        user_messages(parts=[{"type": "data", "name": "n"}, {"type": "data-x", "data": 1}]),
        "ui-message",
    ),
    "data of ours with no value": (user_messages(parts=[{"type": "data", "name": "n"}]), "palaver"),
    "data of somebody's": (user_messages(parts=[{"type": "data", "data": 1}]), "ui-message"),
    "reasoning of ours": (user_messages(parts=[{"type": "reasoning", "text": "", "encrypted": "x"}]), "palaver"),
    "ours by an unknown role": ([{"role": "x", "parts": [{"type": "text", "text": "hi"}]}], None),
    # gemini
    "gemini": ([{"role": "model", "parts": [{"text": "hi"}]}], "gemini"),
    "a function call of gemini's": ([{"role": "model", "parts": [{"functionCall": {}}]}], "gemini"),
    "inline data in snake case": (user_messages(parts=[{"inline_data": {}}]), "gemini"),
    "parts without a role": ([{"parts": [{"text": "hi"}]}], None),
    # gen-ai
    "a call of gen-ai's": ([{"role": "assistant", "parts": [{"type": "tool_call", "id": "c"}]}], "gen-ai"),
    "a blob": (user_messages(parts=[{"type": "blob"}]), "gen-ai"),
    "text under content": (user_messages(parts=[{"type": "text", "content": "hi"}]), "gen-ai"),
    # ui-message
    "text parts alone": (user_messages(parts=[{"type": "text", "text": "hi"}]), "ui-message"),
    "text and reasoning": (
        [{"role": "assistant", "parts": [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "hi"}]}],
        "ui-message",
    ),
    "no parts": (user_messages(parts=[]), "ui-message"),
    "text parts beside one of ours": (
        user_messages(parts=[{"type": "text", "text": "hi"}, {"type": "file", "media_type": "image/png"}]),
        "palaver",
    ),
    "a file of the AI SDK": (
        user_messages(parts=[{"type": "file", "mediaType": "image/png", "url": "x"}]),
        "ui-message",
    ),
    "a tool part": (
        [{"role": "assistant", "parts": [{"type": "tool-now", "state": "output-available"}]}],
        "ui-message",
    ),
    "a step": (
        [{"role": "assistant", "parts": [{"type": "step-start"}, {"type": "text", "text": "hi"}]}],
        "ui-message",
    ),
    "parts win over content": (user_messages(content="hi", parts=[{"type": "step-start"}]), "ui-message"),
    "no parts beside content": (user_messages(content="hi", parts=[]), "chat-completions"),
    "no parts beside null": (user_messages(content=None, parts=[]), "chat-completions"),
    # anthropic
    "tool use": ([{"role": "assistant", "content": [{"type": "tool_use", "id": "t"}]}], "anthropic"),
    "a tool's result": (user_messages(content=[{"type": "tool_result", "tool_use_id": "t"}]), "anthropic"),
    "a source": (user_messages(content=[{"type": "image", "source": {"type": "base64"}}]), "anthropic"),
    "a whole answer of anthropic's": ([{"type": "message", "stop_reason": None, **A}], "anthropic"),
    "thinking in an item": ([{"type": "message", "role": "assistant", "content": [{"type": "thinking"}]}], "anthropic"),
    # chat-completions
    "text": ([U, A], "chat-completions"),
    "one message outside a list": (U, "chat-completions"),
    "a log row with a role": ([{"type": "system", **U}], "chat-completions"),
    "a picture": (user_messages(content=[{"type": "image_url", "image_url": {"url": "x"}}]), "chat-completions"),
    "parts of strings": (user_messages(parts=["hi"]), "chat-completions"),
    "an odd role alone": ([{"role": "admin", "content": "all"}], None),
    "an odd role among known ones": ([{"role": "admin", "content": "all"}, U], "chat-completions"),
    "OpenInference's": ([{"message": U}, {"message": {"role": "assistant", "tool_calls": []}}], "chat-completions"),
    "OpenInference's by an unknown role": ([{"message": {"role": "x", "content": "hi"}}], None),
    "wrapped in ours": (
        [{"message": {"role": "user", "parts": [{"type": "data", "name": "n", "value": 1}]}}],
        "palaver",
    ),
    "wrapped twice": ([{"message": {"message": U}}], None),
    "wrapped with a role": ([{"role": "user", "message": U}], None),
    # formats that are only read
    "a pair": ([["human", "hi"]], "langchain"),
    "a tuple of Python": ([("system", "be kind"), ("user", "hi")], "langchain"),
    "a pair with parts": ([["ai", [{"type": "text", "text": "hi"}]]], "langchain"),
    "a pair among objects": ([U, ["ai", "hi"]], "langchain"),
    "only a system pair": ([["system", "be kind"]], None),
    "a pair with another role": ([["human", "hi"], ["host", "db"]], None),
    "a placeholder": ([("human", "hi"), ("placeholder", "{history}")], None),
    "a pair of numbers": ([["human", 5]], None),
    "three texts": ([["human", "hi", "x"]], None),
    "blocks": ([{"role": "user", "blocks": [{"block_type": "text", "text": "hi"}]}], "llama-index"),
    "blocks by an unknown role": ([{"role": "x", "blocks": [{"block_type": "text"}]}], None),
    "blocks of something else": ([{"role": "user", "blocks": [{"type": "section"}]}], None),
    "no blocks": ([{"role": "user", "blocks": []}], None),
    "no blocks beside calls": ([{"role": "assistant", "blocks": [], "additional_kwargs": {}}], "llama-index"),
    "content beside blocks": (user_messages(content="hi", blocks=[{"type": "section"}]), "chat-completions"),
    "a request of Pydantic AI's": (
        [{"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "hi"}]}],
        "pydantic-ai",
    ),
    "a response without parts": ([{"kind": "response", "parts": []}], None),
    "a request with other parts": ([{"kind": "request", "parts": [{"content": "hi"}]}], None),
    "another kind": ([{"kind": "Pod", "parts": [{"part_kind": "text"}]}], None),
    "from and value": ([{"from": "human", "value": "hi"}], "sharegpt"),
    "from in capitals": ([{"from": "Human", "value": "hi"}], "sharegpt"),
    "only the system": ([{"from": "system", "value": "hi"}], None),
    "from an account": ([{"from": "0xa1", "value": "5"}], None),
    "from without a text": ([{"from": "human", "value": 5}], None),
    "a user of AutoGen's": ([{"type": "UserMessage", "source": "user", "content": "hi"}], "autogen"),
    "a user without a source": ([{"type": "UserMessage", "content": "hi"}], None),
    "instructions of AutoGen's alone": ([{"type": "SystemMessage", "content": "hi"}], None),
    "a text of a team": ([{"type": "TextMessage", "source": "x", "content": "hi"}], "autogen"),
    "an event of a team": ([{"type": "MyEvent", "source": "x", "content": 5, "models_usage": None}], "autogen"),
    "an event of a program": ([{"type": "MyEvent", "source": "x", "content": 5}], None),
    # several
    "the first row that occurs": ([U, LC, {"role": "assistant", "content": [{"type": "tool_use"}]}], "langchain"),
    "one that is none": ([U, {"role": "user"}], None),
    "nothing": ([], None),
    "null": (None, None),
    "a tuple": ((U,), None),
    "bytes": (b"hi", None),
    # odd values where a type or a list belongs
    "a type that is a list": (user_messages(content=[{"type": []}]), "chat-completions"),
    "a part's type that is an object": (user_messages(parts=[{"type": {}}]), "chat-completions"),
    "a type that cannot be compared": (
        [{"type": RaisingObject(), "lc": RaisingObject(), "parts": RaisingObject(), **U}],
        "chat-completions",
    ),
    "an odd object": (RaisingObject(), None),
}


@pytest.mark.parametrize(("value", "dialect"), DIALECTS.values(), ids=DIALECTS)
def test_the_dialect_of_a_value_is_detected(value: Any, dialect: str | None) -> None:
    assert dialect_of(value) == dialect


def test_a_list_is_split_where_the_dialect_changes() -> None:
    unknown_role = {"role": "x", "content": "hi"}

    assert split_by_dialect([U, unknown_role, REASONING, CALL, A]) == [
        Segment("chat-completions", [U, unknown_role]),
        Segment("responses", [REASONING, CALL], 2),
        Segment("chat-completions", [A], 4),
    ]
    assert split_by_dialect([unknown_role, REASONING]) is None


def test_wrapped_messages_are_unwrapped_without_changing_the_input() -> None:
    value = [{"message": U}, A]

    assert split_by_dialect(value) == [Segment("chat-completions", [U, A])]
    assert value == [{"message": U}, A]


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        ({"role": "user", "author": "assistant"}, "user"),
        ({"role": "admin"}, "admin"),
        ({"role": None, "sender": "Human"}, "Human"),
        ({"sender": "Jane", "author": "bot"}, "bot"),
        ({"sender": "Jane"}, None),
        ({"role": ""}, None),
    ],
)
def test_the_speaker_is_any_role_or_a_known_sender_or_author(element: dict[str, Any], expected: str | None) -> None:
    assert speaker_role(element) == expected


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (5, (None, "is not a list of messages")),
        ({"role": "user"}, (None, "is not a list of messages")),
        ([U, "hi"], (1, "is not an object")),
        ([U, {"content": "hi"}], (1, "has no role")),
        ([{"role": "user"}], (0, "has no supported content (content, parts, tool_calls, …)")),
        ([{"role": "admin", "content": "all"}], (None, "has no message with a known role")),
    ],
)
def test_the_reason_for_rejecting_a_value_is_explained(value: Any, reason: tuple[int | None, str]) -> None:
    assert dialect_of(value) is None
    assert explain_rejection(value) == reason


# Properties, for values made of the words in the tables above

_words = st.sampled_from(
    "user assistant admin human ai system tool function message text tool_use thinking input_text function_call"
    " reasoning web_search_call tool-call data refusal step-start tool_call blob hi".split()
)
_keys = st.sampled_from(
    "role sender author content text message parts tool_calls function_call tool_call_id delta type lc id kwargs data"
    " name arguments call_id output summary value media_type stop_reason source additional_kwargs".split()
)
_leaves = st.none() | st.booleans() | st.integers(0, 2) | _words | st.text(max_size=3)
_odd_values = st.sampled_from([(), b"", 1.5, float("nan"), {1, 2}, object(), RaisingObject(), int])
_values: st.SearchStrategy[Any] = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=5), max_leaves=12
)
_message_like = st.dictionaries(_keys, _values, max_size=3).flatmap(
    lambda rest: st.builds(lambda role, content: {"role": role, "content": content, **rest}, _words, _values)
)
_anything = st.recursive(
    _leaves | _odd_values,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys | st.integers(), inner, max_size=4),
    max_leaves=12,
)


@given(_values | st.lists(_message_like, max_size=3))
def test_chat_messages_always_have_a_dialect(value: Any) -> None:
    assert dialect_of(value) is not None or not is_chat_messages(value)


@given(_anything | st.lists(_message_like | _anything, max_size=3))
def test_detection_never_raises(value: Any) -> None:
    is_chat_messages(value)
    dialect_of(value)
    split_by_dialect(value)
    explain_rejection(value)


@given(st.lists(_message_like | _values, max_size=3))
def test_key_order_and_unknown_keys_do_not_affect_detection(value: list[Any]) -> None:
    reordered = [dict(reversed(one.items())) | {"zzz": 1} if isinstance(one, dict) else one for one in value]

    assert (is_chat_messages(reordered), dialect_of(reordered)) == (is_chat_messages(value), dialect_of(value))


def test_deeply_nested_values_do_not_overflow_the_stack() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [{"message": deep, "content": deep}]

    assert dialect_of([{"role": "user", "content": deep}]) == "chat-completions"
    assert not is_chat_messages(deep)
    assert dialect_of(deep) is None


@given(st.lists(_message_like | _values, min_size=1, max_size=2).map(lambda made: made[0]))
def test_plain_detection_agrees_with_full_detection(element: Any) -> None:
    verdict = detect_plain_element(element)

    assert verdict is None or verdict == detect_element(element)


@pytest.mark.parametrize(
    ("element", "verdict"),
    [
        (U, ("chat-completions", True)),
        ({"role": "model", "parts": [{"text": "hi"}]}, ("gemini", True)),
        ({"role": "user", "parts": [{"type": "text", "text": "hi"}]}, ("ui-message", True)),
        ({"role": "user", "parts": [{"type": "text", "text": "hi", "state": "done"}]}, None),
        ({"role": "user", "parts": [{"type": None, "text": "hi"}]}, None),
        ({"role": "user", "parts": [{"type": "text", "content": "hi"}]}, ("gen-ai", True)),
        ({"role": "user", "parts": [{"type": "text", "content": "hi"}, 5]}, None),
        ({"role": "user", "parts": []}, None),
        ({"role": "model", "parts": [{"text": "hi"}, {"functionCall": {"name": "look"}}]}, ("gemini", True)),
        ({"role": "model", "parts": [{"text": "hi"}, 5]}, None),
        ({"role": "user", "content": [{"type": "text", "text": "hi"}]}, ("chat-completions", True)),
        ({"role": "user", "content": [{"type": "tool_use", "name": "look"}]}, None),
        ({"role": "user", "content": []}, None),
        ({"role": "user", "content": [{"type": "input_text"}], "type": "message"}, ("responses", True)),
        ({"role": "user", "content": [{"type": "input_text"}, 5], "type": "message"}, None),
        ({"role": "user", "content": "hi", "type": "message"}, None),
        ({"type": "human", "content": "hi"}, ("langchain", True)),
        ({"type": "system", "content": "hi", "additional_kwargs": {}}, ("langchain", True)),
        ({"type": "system", "content": "hi"}, None),
        ({"type": "human", "content": "hi", "sender": "user"}, None),
        ({"role": "admin", "content": "hi"}, None),
        (5, None),
    ],
)
def test_plain_detection_handles_the_simplest_elements(element: Any, verdict: Any) -> None:
    assert detect_plain_element(element) == verdict
    assert verdict is None or detect_element(element) == verdict
