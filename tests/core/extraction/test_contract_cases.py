"""Extraction, case by case: detection, both searches, and the parsed messages.

The expected values are written by hand from the rules of extraction, not taken from the code's output.
"""

import json
from typing import Any

import pytest

from palaver.core.extraction import dialect_of, extract_chat_messages, is_chat_messages, read_conversation
from palaver.core.messages import Data, File, Message, Reasoning, Refusal, Text, ToolCall, ToolResult

U = {"role": "user", "content": "hi"}
A = {"role": "assistant", "content": "hello"}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
HI, HELLO = ("user", "hi"), ("assistant", "hello")
F = ("call", "c1", "f", {"a": 1})


def text(value: Any) -> str:
    return json.dumps(value)


def nest(path: str, value: Any) -> Any:
    for key in reversed(path.split("/")):
        value = {key: value}
    return value


def table(*rows: tuple[Any, ...]) -> pytest.MarkDecorator:
    """Cases whose first column is the rule, used as the test id."""
    names = ["value", "prefer", "expected"] if len(rows[0]) == 4 else ["value", "expected"]
    return pytest.mark.parametrize(names, [pytest.param(*row[1:], id=row[0]) for row in rows])


# The strict test


@table(
    ("an empty list does not pass", [], False),
    ("an object is no list", U, False),
    ("a tuple is a leaf", (U,), False),
    ("a tuple is no object either", [tuple(U.items())], False),
    ("every element must be message-shaped", [U, {"foo": 1}], False),
    ("not a string among them", [U, "hi"], False),
    ("not a null among them", [U, None], False),
    ("not a list among them", [[U]], False),
    ("known roles, case ignored", [{"role": "ASSISTANT", "content": "x"}], True),
    ("developer is known", [{"role": "developer", "content": "x"}], True),
    ("chatbot is known", [{"role": "chatbot", "content": "x"}], True),
    ("agent is known", [{"role": "Agent", "content": "x"}], True),
    ("admin is not known", [{"role": "admin", "content": "all"}], False),
    ("a role with a space around it is not known", [{"role": " user", "content": "x"}], False),
    ("one odd role among known ones passes", [U, {"role": "get_weather", "content": "12"}], True),
    ("an empty role is none", [{"role": "", "content": "x"}], False),
    ("a number is no role", [{"role": 1, "content": "x"}], False),
    ("no role at all", [{"content": "x"}], False),
    ("a sender that is a known role", [{"sender": "human", "text": "hi"}], True),
    ("an author that is a known role", [{"author": "user", "text": "hi"}], True),
    ("an author that is a person", [{"author": "Jane", "text": "post"}], False),
    ("a sender that is a person, among messages", [U, {"sender": "Jane", "text": "post"}], False),
    ("an empty role, or else the author", [{"role": "", "author": "Bot", "text": "hi"}], True),
    ("the role comes before the author", [{"role": "admin", "author": "user", "text": "hi"}], False),
    ("content may be null", [{"role": "user", "content": None}], True),
    ("content may be empty", [{"role": "user", "content": ""}], True),
    ("content may be an empty list", [{"role": "user", "content": []}], True),
    ("content may be strings and objects", [{"role": "user", "content": ["a", {"x": 1}]}], True),
    ("content may not hold numbers", [{"role": "user", "content": [1, 2]}], False),
    ("content may not hold nulls", [{"role": "user", "content": ["a", None]}], False),
    ("content may be one object with a type", [{"role": "user", "content": {"type": "text", "text": "x"}}], True),
    ("content may not be any object", [{"role": "user", "content": {"a": 1}}], False),
    ("an object's type must be a string", [{"role": "user", "content": {"type": 1}}], False),
    ("content may not be a number", [{"role": "user", "content": 5}], False),
    ("content may not be a boolean", [{"role": "user", "content": True}], False),
    ("a role alone says nothing", [{"role": "user"}], False),
    ("text must be a string", [{"role": "user", "text": None}], False),
    ("message is a string", [{"role": "user", "message": "hi"}], True),
    ("message as an object does not count", [{"role": "user", "message": {"content": "hi"}}], False),
    ("parts of strings and objects", [{"role": "user", "parts": ["a", {}]}], True),
    ("parts may be empty", [{"role": "user", "parts": []}], True),
    ("parts may not hold numbers", [{"role": "user", "parts": [1]}], False),
    ("tool_calls may be empty", [{"role": "assistant", "tool_calls": []}], True),
    ("tool_calls hold only objects", [{"role": "assistant", "tool_calls": ["x"]}], False),
    ("function_call is an object", [{"role": "assistant", "function_call": {}}], True),
    ("function_call is no string", [{"role": "assistant", "function_call": "f"}], False),
    ("tool_call_id is a string", [{"role": "tool", "tool_call_id": "c1"}], True),
    ("delta.content is a string", [{"role": "assistant", "delta": {"content": "x"}}], True),
    ("delta.content is not null", [{"role": "assistant", "delta": {"content": None}}], False),
    ("one good field among bad ones is enough", [{"role": "user", "content": 5, "text": "hi"}], True),
)
def test_strict_detection_of_chat_messages(value: Any, expected: bool) -> None:
    assert is_chat_messages(value) is expected


# The strict search


@table(
    ("null is nothing", None, None, None),
    ("a string is never parsed", text([U]), None, None),
    ("a text under a key is not parsed", {"messages": text([U])}, None, None),
    ("a number is nothing", 5, None, None),
    ("a list is itself", [U], "output", [U]),
    ("the elements of a list are not searched", [{"messages": [U]}], None, None),
    ("a batch is not opened", {"messages": [[U]]}, None, None),
    ("something else under a key is passed over", {"messages": [1], "prompt": [U]}, None, [U]),
    ("an object under a key is passed over", {"messages": U}, None, None),
    ("an empty list under a key is passed over", {"messages": [], "history": [U]}, None, [U]),
    ("neutral keys come first without preference", {"prompt": [U], "logs": [A]}, None, [A]),
    ("then input", {"prompt": [U], "completion": [A]}, None, [U]),
    ("neutral before output for input", {"completion": [U], "chat": [A]}, "input", [A]),
    ("neutral before input for output", {"prompt": [U], "chat": [A]}, "output", [A]),
    ("output first for output", {"messages": [U], "responses": [A]}, "output", [A]),
    ("left to right in a group", {"input_messages": [A], "prompt": [U]}, None, [U]),
    ("the order of keys does not matter", {"logs": [A], "messages": [U]}, None, [U]),
    ("output_messages before responses", {"responses": [U], "output_messages": [A]}, "output", [A]),
    ("singular names are not in the strict tables", {"input": [U], "output": [A]}, None, None),
    ("a wrapper that is a list", {"inputs": [U]}, None, [U]),
    ("a wrapper that is a message", {"response": A}, None, [A]),
    ("a wrapper that is a text", {"data": text([U])}, None, None),
    ("data comes first without preference", {"inputs": [A], "data": {"messages": [U]}}, None, [U]),
    ("request before response", {"response": [A], "request": [U]}, None, [U]),
    ("inputs before request", {"request": [A], "inputs": [U]}, "input", [U]),
    ("data.inputs before request", {"request": [A], "data": {"inputs": [U]}}, "input", [U]),
    ("data.inputs before data itself", {"data": {"messages": [A], "inputs": [U]}}, "input", [U]),
    ("data before inputs for output", {"inputs": [A], "data": {"messages": [U]}}, "output", [U]),
    ("data.outputs before response", {"response": [U], "data": {"outputs": [A]}}, "output", [A]),
    ("data.x only when data is an object", {"data": [{"inputs": [U]}]}, "input", None),
    ("data.inputs is no single key", {"data.inputs": [U]}, "input", None),
    ("other names are no wrappers", {"attributes": {"messages": [U]}}, None, None),
    ("the other side is a fallback", {"inputs": {"prompt": [U]}}, "output", [U]),
    ("keys come before wrappers", {"messages": [U], "outputs": {"completion": [A]}}, "output", [U]),
    ("wrappers come before choices", {"choices": [{"message": A}], "inputs": [U]}, "output", [U]),
    ("the object itself comes last", {**A, "messages": [U]}, None, [U]),
    ("choices before the object itself", {**U, "choices": [{"message": A}]}, None, [A]),
    ("a choice's message, else its delta", {"choices": [{"delta": A}, {"message": U, "delta": A}]}, None, [A, U]),
    ("an empty message counts as missing", {"choices": [{"message": {}, "delta": A}]}, None, [A]),
    ("a null message counts as missing", {"choices": [{"message": None, "delta": A}]}, None, [A]),
    ("a text as message counts as missing", {"choices": [{"message": "x", "delta": A}]}, None, [A]),
    ("entries with neither are left out", {"choices": [{}, 5, None, {"text": "x"}, {"message": A}]}, None, [A]),
    ("choices of nothing", {"choices": [{"text": "x"}]}, None, None),
    ("choices must be a list", {"choices": {"message": A}}, None, None),
    ("choices must pass the test", {"choices": [{"message": A}, {"message": {"foo": 1}}]}, None, None),
    ("a delta without role is none here", {"choices": [{"delta": {"content": "x"}}]}, None, None),
    ("six keys lead to an object", nest("data/data/data/data/data/data", {"messages": [U]}), None, [U]),
    ("seven are too many", nest("data/data/data/data/data/data/data", {"messages": [U]}), None, None),
    ("six keys lead to a list", nest("data/inputs/data/inputs/data/inputs", [U]), None, [U]),
    ("seven to a list are too many", nest("data/inputs/data/inputs/data/inputs/request", [U]), None, None),
    ("data.inputs counts two", nest("data/inputs/data/inputs/data/inputs", {"prompt": [U]}), "input", [U]),
    ("and so it does at the end", nest("request/data/inputs/data/inputs/data/inputs", {"prompt": [U]}), "input", None),
    ("choices at depth six", nest("data/data/data/data/data/data", {"choices": [{"message": A}]}), None, [A]),
    ("a message at depth six", nest("data/data/data/data/data/data", A), "output", [A]),
)
def test_the_strict_search_finds_the_expected_messages(value: Any, prefer: Any, expected: Any) -> None:
    assert extract_chat_messages(value, prefer) == expected


def test_a_shared_object_is_searched_again_at_a_smaller_depth() -> None:
    deep = nest("data/data/data/data", {"messages": [U]})
    value = {"data": {"data": {"data": {"inputs": deep}}}, "response": deep}

    assert extract_chat_messages(value) == [U]


def test_messages_are_found_in_a_cyclic_value() -> None:
    value: dict[str, Any] = {"response": {"messages": [A]}}
    value["data"] = value["inputs"] = value

    assert [extract_chat_messages(value, prefer) for prefer in (None, "input", "output")] == [[A]] * 3


@pytest.mark.parametrize("prefer", ["", "neutral", "Input", 5])
def test_an_invalid_preference_raises_value_error(prefer: Any) -> None:
    with pytest.raises(ValueError, match="prefer"):
        extract_chat_messages([U], prefer)
    with pytest.raises(ValueError, match="prefer"):
        read_conversation([U], prefer)


# Dialects


def parts(*values: Any, role: str = "user") -> dict[str, Any]:
    return {"role": role, "parts": list(values)}


def content(*values: Any, role: str = "user", **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": list(values), **fields}


TEXT = {"type": "text", "text": "x"}
LC = {
    "lc": 1,
    "type": "constructor",
    "id": ["langchain", "schema", "messages", "AIMessage"],
    "kwargs": {"content": "x"},
}
MESSAGE = {"type": "message", "role": "user", "content": "x"}
ITEM = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "12"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}


@table(
    ("an object is judged as a list of one", U, "chat-completions"),
    ("an empty list is none", [], None),
    ("an empty object is none", {}, None),
    ("text is none", "hi", None),
    ("a list of lists is none: no search", [[U]], None),
    ("every element must be recognised", [U, {"foo": 1}], None),
    ("at least one must be certain", [{"role": "admin", "content": "x"}], None),
    ("one certain is enough", [{"role": "admin", "content": "x"}, U], "chat-completions"),
    ("a mixed list has the first row's name", [U, ITEM], "responses"),
    ("wherever that row stands in it", [content({"type": "tool_use"}), U, {"type": "ai", "content": ""}], "langchain"),
    ("a message with a known role whatever its type", {**U, "type": "human"}, "chat-completions"),
    ("even of a call's type", {**ITEM, **A}, "chat-completions"),
    # langchain
    ("lc, id and kwargs", LC, "langchain"),
    ("lc of a chunk", {**LC, "id": ["AIMessageChunk"]}, "langchain"),
    ("lc of something else", {**LC, "id": ["langchain", "prompts", "PromptTemplate"]}, None),
    ("lc without content", {**LC, "kwargs": {"text": "x"}}, None),
    ("lc 2 is not 1", {**LC, "lc": 2}, None),
    ("human", {"type": "human", "content": "x"}, "langchain"),
    ("ai with a list", {"type": "ai", "content": []}, "langchain"),
    ("ai without content", {"type": "ai"}, None),
    ("ai with null", {"type": "ai", "content": None}, None),
    ("the data form", {"type": "system", "data": {"content": "x"}}, "langchain"),
    ("a chunk", {"type": "AIMessageChunk", "content": "x"}, "langchain"),
    ("rows of system are log rows", [{"type": "system", "content": "disk full"}], None),
    ("a bare tool may be a log row", [{"type": "tool", "content": "x"}], None),
    ("a system with additional_kwargs", {"type": "system", "content": "x", "additional_kwargs": {}}, "langchain"),
    ("a tool with response_metadata", {"type": "tool", "content": "x", "response_metadata": {}}, "langchain"),
    ("additional_kwargs must be an object", {"type": "tool", "content": "x", "additional_kwargs": None}, None),
    ("system beside human", [{"type": "system", "content": "x"}, {"type": "human", "content": "x"}], "langchain"),
    ("system beside a message", [{"type": "system", "content": "x"}, U], "langchain"),
    ("types are case sensitive", {"type": "Human", "content": "x"}, None),
    # responses
    ("a message with its type", MESSAGE, "responses"),
    ("an unknown role with type message", [{**MESSAGE, "role": "admin"}], None),
    ("a call", ITEM, "responses"),
    ("a call without name", {"type": "function_call", "arguments": "{}"}, None),
    ("a call without arguments", {"type": "function_call", "name": "f"}, None),
    ("a custom call", {"type": "custom_tool_call", "name": "f", "input": "x"}, "responses"),
    ("a custom call has input, not arguments", {"type": "custom_tool_call", "name": "f", "arguments": "x"}, None),
    ("an output", OUTPUT, "responses"),
    ("an output that is a list", {**OUTPUT, "output": [{"type": "input_text", "text": "x"}]}, "responses"),
    ("an output without call_id", {"type": "function_call_output", "output": "x"}, None),
    ("a custom output", {**OUTPUT, "type": "custom_tool_call_output"}, "responses"),
    ("only reasoning", [REASONING], None),
    ("only other calls", [SEARCH], None),
    ("reasoning and other calls", [REASONING, SEARCH, {"type": "item_reference", "id": "x"}], None),
    ("reasoning beside a message", [REASONING, A], "responses"),
    ("encrypted reasoning", [{"type": "reasoning", "encrypted_content": "x"}, A], "responses"),
    ("reasoning with nothing", [{"type": "reasoning"}, A], None),
    ("other calls beside a message", [SEARCH, {"type": "mcp_list_tools", "id": "m"}, A], "responses"),
    ("other calls need an id", [{"type": "web_search_call"}, A], None),
    ("content of output_text", content({"type": "output_text", "text": "x"}, role="assistant"), "responses"),
    ("content of input_image", content({"type": "input_image", "image_url": "x"}), "responses"),
    ("Slack's message", {"type": "message", "user": "U1", "text": "x"}, None),
    # palaver
    ("call_id is ours", parts({"type": "tool-result", "call_id": "c1", "output": 1}, role="tool"), "palaver"),
    ("media_type is ours", parts(TEXT, {"type": "file", "media_type": "image/png", "url": "x"}), "palaver"),
    ("encrypted is ours", parts({"type": "reasoning", "text": "x", "encrypted": "y"}), "palaver"),
    ("a refusal's text is ours", parts({"type": "refusal", "text": "no"}, role="assistant"), "palaver"),
    ("data's name and value are ours", parts({"type": "data", "name": "n", "value": 1}), "palaver"),
    (
        "all parts must be of our types",
        parts({"type": "file", "media_type": "m"}, {"type": "step-start"}),
        "ui-message",
    ),
    # gemini
    ("an untyped text", parts({"text": "x"}), "gemini"),
    ("functionCall", parts({"functionCall": {"name": "f"}}, role="model"), "gemini"),
    ("in snake case", parts({"function_call": {"name": "f"}}, role="model"), "gemini"),
    ("inline_data beside a string", parts("x", {"inline_data": {}}), "gemini"),
    ("an unknown role alone", parts({"text": "x"}, role="admin"), None),
    ("parts without role", {"parts": [{"text": "x"}]}, None),
    # gen-ai
    ("text with content", parts({"type": "text", "content": "x"}), "gen-ai"),
    ("reasoning with content", parts({"type": "reasoning", "content": "x"}), "gen-ai"),
    ("text with content and text", parts({"type": "text", "content": "x", "text": "x"}), "ui-message"),
    ("tool_call", parts({"type": "tool_call", "id": "c1", "name": "f"}, role="assistant"), "gen-ai"),
    ("blob", parts(TEXT, {"type": "blob", "content": "AAAA"}), "gen-ai"),
    # ui-message
    ("parts of only text", parts(TEXT), "ui-message"),
    ("parts of only reasoning", parts({"type": "reasoning", "text": "x"}), "ui-message"),
    ("tool parts", parts({"type": "tool-weather", "toolCallId": "c1", "state": "input-available"}), "ui-message"),
    ("no parts and no content", parts(), "ui-message"),
    ("no parts but content", {**parts(), "content": "x"}, "chat-completions"),
    ("parts win over content", {**parts(TEXT), "content": [{"type": "tool_use"}]}, "ui-message"),
    ("parts of strings", parts("x"), "chat-completions"),
    # anthropic
    ("tool_use", content({"type": "tool_use", "id": "c1"}, role="assistant"), "anthropic"),
    ("tool_result", content({"type": "tool_result", "tool_use_id": "c1"}), "anthropic"),
    ("redacted_thinking", content({"type": "redacted_thinking", "data": "x"}, role="assistant"), "anthropic"),
    ("a source", content({"type": "image", "source": {"type": "url", "url": "x"}}), "anthropic"),
    ("a source that is a text", content({"type": "image", "source": "x"}), "chat-completions"),
    ("message and stop_reason", content(TEXT, role="assistant", type="message", stop_reason="end_turn"), "anthropic"),
    ("stop_reason may be null", content(TEXT, role="assistant", type="message", stop_reason=None), "anthropic"),
    ("stop_reason alone", content(TEXT, role="assistant", stop_reason="end_turn"), "chat-completions"),
    ("type message with tool_use", content({"type": "tool_use"}, type="message"), "anthropic"),
    # chat-completions
    ("text parts in content", content(TEXT), "chat-completions"),
    ("image_url", content({"type": "image_url", "image_url": {"url": "x"}}), "chat-completions"),
    ("OpenInference's box", [{"message": U}], "chat-completions"),
    ("a box of nothing", [{"message": {"foo": 1}}], None),
    ("a box of text", [{"message": "hi"}], None),
    ("a box by somebody", [{"author": "Jane", "message": {"role": "admin", "content": "x"}}], None),
)
def test_the_dialect_of_a_value_is_detected(value: Any, expected: Any) -> None:
    assert dialect_of(value) == expected


# The wide search, and the parsed messages


def summarize_message(message: Message) -> tuple[Any, ...]:
    """Role, text, and everything else in order."""
    remaining = [_summarize_part(part) for part in message.parts if not isinstance(part, Text)]
    return (message.role, message.text, *remaining)


def _summarize_part(part: Any) -> Any:
    match part:
        case ToolCall():
            return "call", part.call_id, part.name, part.parsed
        case ToolResult():
            return "result", part.call_id, part.output
        case Reasoning():
            return "reasoning", part.text
        case Refusal():
            return "refusal", part.text
        case Data():
            return "data", part.name, part.value
        case File():
            return "file", part.media_type, part.url or part.data or part.file_id


def chat(path: str, *messages: Any, dialect: str = "chat-completions", side: str | None = None) -> Any:
    return dialect, path, side, list(messages)


def read_summary(value: Any, prefer: Any) -> Any:
    read = read_conversation(value, prefer)
    if read is None:
        return None
    messages = [summarize_message(message) for message in read.messages]
    joined: list[Any] = []
    for message in messages:
        # Items of one assistant's turn may be one message or several.
        if read.dialect == "responses" and joined and joined[-1][0] == message[0]:
            last = joined.pop()
            message = (last[0], last[1] + message[1], *last[2:], *message[2:])
        joined.append(message)
    return read.dialect, read.path, read.side, joined


IN, OUT = "input", "output"
NESTED = text({"data": text({"data": text({"messages": [U]})})})


@table(
    ("a list at the root", [U, A], None, chat("", HI, HELLO)),
    ("a message at the root", U, OUT, chat("", HI)),
    ("null is nothing", None, None, None),
    ("plain text is nothing", "hello", None, None),
    # Texts
    ("a text at the root", text([U]), None, chat("", HI)),
    ("trimmed", f" \n{text([U])}\t ", None, chat("", HI)),
    ("a text of one message", text(U), None, chat("", HI)),
    ("a text under a key", {"messages": text([U])}, None, chat("/messages", HI)),
    ("a text as a wrapper", {"input.value": text({"messages": [U]})}, None, chat("/input.value/messages", HI, side=IN)),
    ("a text that does not parse", {"messages": "[oops]"}, None, None),
    ("a text of a text is no container", text(text([U])), None, None),
    ("three hops on one path", NESTED, None, chat("/data/data/messages", HI)),
    ("four are too many", {"data": text({"data": text({"data": text({"messages": text([U])})})})}, None, None),
    ("three, the last under a key", {"data": text({"data": text({"messages": text([U])})})}, None,
     chat("/data/data/messages", HI)),
    ("a hop costs no depth", nest("data/data/data/data/data", text(nest("data", {"messages": [U]}))), None,
     chat("/data/data/data/data/data/data/messages", HI)),
    ("hops are counted by path", {"inputs": text([1]), "outputs": text({"data": text({"messages": [A]})})}, None,
     chat("/outputs/data/messages", HELLO, side=OUT)),
    ("two texts side by side", {"mlflow.spanInputs": "{}", "mlflow.spanOutputs": text({"messages": [A]})}, None,
     chat("/mlflow.spanOutputs/messages", HELLO, side=OUT)),
    ("what was said is never opened: under message", {"message": text([U])}, None, None),
    ("what was said is never opened: content", {"role": "user", "content": text([A])}, None,
     chat("", ("user", text([A])))),
    ("nor anything inside a message", {**A, "messages": text([U])}, None, chat("", HELLO)),
    # Batches
    ("a batch of one", {"messages": [[U]]}, None, chat("/messages/0", HI)),
    ("a batch at the root", [[U, A]], None, chat("/0", HI, HELLO)),
    ("a batch in a wrapper", {"inputs": [[U]]}, None, chat("/inputs/0", HI, side=IN)),
    ("a batch in a text", {"input": text([[U]])}, None, chat("/input/0", HI, side=IN)),
    ("several are no conversation", {"messages": [[U], [A]]}, None, None),
    ("a list beside a message is none", {"messages": [[U], A]}, None, None),
    # Step 3
    ("an object that is one message", {"input": U}, None, chat("/input", HI, side=IN)),
    ("also under the strict names", {"completion": A}, None, chat("/completion", HELLO, side=OUT)),
    ("a message under message", {"message": A}, None, chat("/message", HELLO)),
    ("an object under a key that is no message", {"messages": {"messages": [U]}}, None, None),
    ("new_message", {"new_message": parts({"text": "hi"})}, None, chat("/new_message", HI, dialect="gemini", side=IN)),
    ("names with a dot are one key", {"gen_ai.input.messages": [U]}, None, chat("/gen_ai.input.messages", HI, side=IN)),
    ("and no path", {"gen_ai": {"input": {"messages": [U]}}}, None, chat("/gen_ai/input/messages", HI, side=IN)),
    ("llm.output_messages", {"llm.output_messages": [{"message": A}]}, None,
     chat("/llm.output_messages", HELLO, side=OUT)),
    ("ai.prompt.messages", {"ai.prompt.messages": text([U])}, None, chat("/ai.prompt.messages", HI, side=IN)),
    ("chat_history after logs", {"chat_history": [U], "logs": [A]}, None, chat("/logs", HELLO)),
    ("the names of the strict search come first", {"input": [A], "prompt": [U]}, None, chat("/prompt", HI, side=IN)),
    ("contents without role", {"contents": [{"parts": [{"text": "hi"}]}]}, None,
     chat("/contents", HI, dialect="gemini", side=IN)),
    ("one content without role", {"contents": {"parts": [{"text": "hi"}]}}, None,
     chat("/contents", HI, dialect="gemini", side=IN)),
    ("contents without role are Gemini's only", {"contents": [{"parts": [TEXT]}]}, None, None),
    ("no role outside contents", {"messages": [{"parts": [{"text": "hi"}]}]}, None, None),
    # Step 4
    ("a text that is no container is no wrapper", {"input": "hi", "output": "hello"}, None, None),
    ("input as a wrapper", {"input": {"messages": [U]}}, None, chat("/input/messages", HI, side=IN)),
    ("ag.data.inputs", {"ag": {"data": {"inputs": {"prompt": [U]}}}}, None,
     chat("/ag/data/inputs/prompt", HI, side=IN)),
    ("attributes", {"attributes": {"llm.input_messages": [{"message": U}]}}, None,
     chat("/attributes/llm.input_messages", HI, side=IN)),
    ("result", {"result": {"messages": [A]}}, None, chat("/result/messages", HELLO, side=OUT)),
    ("kwargs, values, body, __default__", nest("kwargs/values/body/__default__", [U]), None,
     chat("/kwargs/values/body/__default__", HI)),
    ("traceloop", {"traceloop.entity.input": text({"inputs": {"messages": [[U]]}})}, None,
     chat("/traceloop.entity.input/inputs/messages/0", HI, side=IN)),
    ("mlflow", {"mlflow.spanInputs": text({"request": {"input": [U]}})}, None,
     chat("/mlflow.spanInputs/request/input", HI, side=IN)),
    ("ai.prompt", {"ai.prompt": text({"messages": [U]})}, None, chat("/ai.prompt/messages", HI, side=IN)),
    ("response before attributes without preference", {"attributes": [U], "response": [A]}, None,
     chat("/response", HELLO, side=OUT)),
    ("neutral before the other inputs", {"input.value": {"messages": [U]}, "body": [A]}, None, chat("/body", HELLO)),
    ("seven keys are too many", nest("data/data/data/data/data/data/data", {"messages": [U]}), None, None),
    ("other names are no wrappers", {"payload": {"messages": [U]}}, None, None),
    # Step 5
    ("choices", {"choices": [{"message": A}]}, None, chat("/choices", HELLO, side=OUT)),
    ("a delta without role is the assistant's", {"choices": [{"delta": {"content": "hello"}}]}, None,
     chat("/choices", HELLO, side=OUT)),
    ("also where the role is null", {"choices": [{"delta": {"role": None, "content": "hello"}}]}, None,
     chat("/choices", HELLO, side=OUT)),
    ("candidates", {"candidates": [{"content": parts({"text": "hello"}, role="model")}]}, None,
     chat("/candidates", HELLO, dialect="gemini", side=OUT)),
    ("generations", {"generations": [[{"text": "x", "message": LC}]]}, None,
     chat("/generations", ("assistant", "x"), dialect="langchain", side=OUT)),
    ("generations are lists of lists", {"generations": [{"message": LC}]}, None, None),
    ("content with parts", {"author": "my_agent", "content": parts({"text": "hello"}, role="model")}, None,
     chat("/content", HELLO, dialect="gemini")),
    ("content without parts", {"content": U}, None, None),
    ("choices before candidates", {"candidates": [{"content": parts(TEXT)}], "choices": [{"message": A}]}, None,
     chat("/choices", HELLO, side=OUT)),
    # Sides
    ("the preferred side before the nearer", {"prompt": [U], "outputs": {"completion": [A]}}, OUT,
     chat("/outputs/completion", HELLO, side=OUT)),
    ("the preferred before the neutral", {"messages": [U], "outputs": {"completion": [A]}}, OUT,
     chat("/outputs/completion", HELLO, side=OUT)),
    ("the neutral before the other", {"messages": [U], "outputs": {"completion": [A]}}, IN, chat("/messages", HI)),
    ("without preference the first", {"messages": [U], "outputs": {"completion": [A]}}, None, chat("/messages", HI)),
    ("the outermost key decides", {"outputs": {"prompt": [U]}, "messages": [A]}, OUT,
     chat("/outputs/prompt", HI, side=OUT)),
    ("a neutral key outside decides nothing", {"data": {"outputs": {"messages": [A]}}, "prompt": [U]}, OUT,
     chat("/data/outputs/messages", HELLO, side=OUT)),
    ("choices are output", {"messages": [U], "choices": [{"message": A}]}, OUT, chat("/choices", HELLO, side=OUT)),
    ("inputs' choices are input", {"inputs": {"choices": [{"message": A}]}}, OUT,
     chat("/inputs/choices", HELLO, side=IN)),
    ("the other side is a fallback", {"outputs": {"messages": [A]}}, IN, chat("/outputs/messages", HELLO, side=OUT)),
    ("neutral before the other side, though deeper", {"prompt": [U], "data": {"data": {"logs": [A]}}}, OUT,
     chat("/data/data/logs", HELLO)),
    ("siblings are not read", {"system": "be kind", "messages": [U], "tools": []}, None, chat("/messages", HI)),
)  # fmt: skip
def test_the_wide_search_finds_the_expected_conversation(value: Any, prefer: Any, expected: Any) -> None:
    assert read_summary(value, prefer) == expected


def tool(output: Any) -> Any:
    return ("tool", "", ("result", "c1", output))


TEXT_2 = {"type": "text", "text": "2"}
CALLS = ("assistant", "", F)
IMAGE = {"type": "base64", "media_type": "image/png", "data": "AAAA"}


@table(
    ("human is user", [{"role": "Human", "content": "hi"}], [HI]),
    ("ai, model, bot, chatbot, agent are assistant",
     [{"role": role, "content": "x"} for role in ("ai", "model", "bot", "chatbot", "AGENT")], [("assistant", "x")] * 5),
    ("developer stays", [{"role": "Developer", "content": "x"}], [("developer", "x")]),
    ("an unknown role with tool_call_id is a tool", [U, {"role": "weather", "tool_call_id": "c1", "content": "12"}],
     [HI, tool("12")]),
    ("whatever it says it with",
     [U, {"role": "weather", "tool_call_id": "c1", "parts": [{"type": "text", "text": "12"}]}], [HI, tool("12")]),
    ("any other unknown role is an assistant", [U, {"role": "weather", "content": "12"}], [HI, ("assistant", "12")]),
    ("the author speaks", [{"author": "user", "text": "hi"}], [HI]),
    # Content fields
    ("text", [{"role": "user", "text": "hi"}], [HI]),
    ("message", [{"role": "user", "message": "hi"}], [HI]),
    ("delta.content", [{"role": "user", "delta": {"content": "hi"}}], [HI]),
    ("content before text", [{"role": "user", "text": "no", "content": "hi"}], [HI]),
    ("parts before content", [{**parts({"type": "text", "text": "hi"}), "content": "no"}], [HI]),
    ("empty parts are not before content", [{"role": "user", "parts": [], "content": "hi"}], [HI]),
    ("with empty parts the text", [{"role": "user", "parts": [], "text": "hi"}], [HI]),
    ("nothing present is an empty message", [{"role": "assistant", "tool_calls": []}], [("assistant", "")]),
    ("null is an empty message", [{"role": "user", "content": None}], [("user", "")]),
    # Text
    ("strings and parts join without a separator", [content("h", {"type": "text", "text": "i"})], [HI]),
    ("untyped text", [content({"text": "hi"})], [HI]),
    ("one object", [{"role": "user", "content": {"type": "text", "text": "hi"}}], [HI]),
    ("input_text", [content({"type": "input_text", "text": "hi"})], [HI]),
    ("gen-ai's content", [parts({"type": "text", "content": "hi"})], [HI]),
    # Reasoning
    ("thinking", [content({"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "hello"}, role="assistant")],
     [(*HELLO, ("reasoning", "hm"))]),
    ("a thought", [parts({"text": "hm", "thought": True}, {"text": "hello"}, role="model")],
     [(*HELLO, ("reasoning", "hm"))]),
    ("reasoning items", [{**REASONING, "summary": [{"type": "summary_text", "text": "hm"}]}, A],
     [(*HELLO, ("reasoning", "hm"))]),
    ("gen-ai's reasoning", [parts({"type": "reasoning", "content": "hm"}, role="assistant")],
     [("assistant", "", ("reasoning", "hm"))]),
    # Calls
    ("tool_calls", [{"role": "assistant", "content": None, "tool_calls": [CALL]}], [CALLS]),
    ("with name and args", [{"type": "ai", "content": "", "tool_calls": [{"id": "c1", "name": "f", "args": {"a": 1}}]}],
     [CALLS]),
    ("OpenInference's", [{"message": {"role": "assistant", "tool_calls": [{"tool_call": CALL}]}}], [CALLS]),
    ("additional_kwargs", [{"type": "ai", "content": "", "additional_kwargs": {"tool_calls": [CALL]}}], [CALLS]),
    ("additional_kwargs are not read twice",
     [{"type": "ai", "content": "", "tool_calls": [{"id": "c1", "name": "f", "args": {"a": 1}}],
       "additional_kwargs": {"tool_calls": [CALL]}}], [CALLS]),
    ("tool_use", [content({"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}, role="assistant")],
     [CALLS]),
    ("tool_use and tool_calls of one id",
     [{"type": "ai", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}],
       "tool_calls": [{"id": "c1", "name": "f", "args": {"a": 1}}]}], [CALLS]),
    ("gen-ai's tool_call",
     [parts({"type": "tool_call", "id": "c1", "name": "f", "arguments": {"a": 1}}, role="assistant")],
     [CALLS]),
    ("functionCall", [parts({"functionCall": {"id": "c1", "name": "f", "args": {"a": 1}}}, role="model")], [CALLS]),
    ("tool-<name>",
     [parts({"type": "tool-f", "toolCallId": "c1", "state": "input-available", "input": {"a": 1}}, role="assistant")],
     [CALLS]),
    ("dynamic-tool",
     [parts({"type": "dynamic-tool", "toolName": "f", "toolCallId": "c1", "state": "input-available",
             "input": {"a": 1}}, role="assistant")], [CALLS]),
    ("tool-invocation",
     [parts({"type": "tool-invocation", "toolInvocation": {"state": "call", "toolCallId": "c1", "toolName": "f",
                                                           "args": {"a": 1}}}, role="assistant")], [CALLS]),
    ("AI SDK's tool-call in content",
     [content({"type": "tool-call", "toolCallId": "c1", "toolName": "f", "input": {"a": 1}}, role="assistant")],
     [CALLS]),
    ("ours", [parts({"type": "tool-call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'}, role="assistant")],
     [CALLS]),
    ("tool_calls beside parts", [{**parts({"type": "text", "text": "hello"}, role="assistant"), "tool_calls": [CALL]}],
     [(*HELLO, F)]),
    ("tool_calls beside empty parts", [{**parts(role="assistant"), "tool_calls": [CALL]}], [CALLS]),
    ("tool_calls beside Gemini's", [{**parts({"text": "hello"}, role="model"), "tool_calls": [CALL]}], [(*HELLO, F)]),
    ("tool_calls beside thinking",
     [content({"type": "thinking", "thinking": "hm"}, role="assistant", tool_calls=[CALL])],
     [("assistant", "", ("reasoning", "hm"), F)]),
    ("custom items", [{"type": "custom_tool_call", "call_id": "c1", "name": "f", "input": "raw"}],
     [("assistant", "", ("call", "c1", "f", "raw"))]),
    ("items", [{**ITEM, "arguments": '{"a": 1}'}], [CALLS]),
    # Results
    ("a tool message", [{"role": "tool", "tool_call_id": "c1", "content": "12"}], [tool("12")]),
    ("text parts become their text",
     [{"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "1"}, TEXT_2]}],
     [tool("12")]),
    ("a tool message of parts", [{**parts({"type": "text", "content": "12"}, role="tool"), "tool_call_id": "c1"}],
     [tool("12")]),
    ("tool_result with text parts",
     [content({"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "12"}]})],
     [tool("12")]),
    ("LangChain's tool", [{"type": "tool", "content": "12", "tool_call_id": "c1", "additional_kwargs": {}}],
     [tool("12")]),
    ("tool_call_response", [parts({"type": "tool_call_response", "id": "c1", "response": {"t": 12}}, role="tool")],
     [tool({"t": 12})]),
    ("functionResponse", [parts({"functionResponse": {"id": "c1", "name": "f", "response": {"t": 12}}})],
     [tool({"t": 12})]),
    ("an output item", [OUTPUT], [tool("12")]),
    ("AI SDK's type and value become the value",
     [{"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "f",
                                    "output": {"type": "json", "value": {"t": 12}}}]}], [tool({"t": 12})]),
    # Placement of results
    ("Anthropic's user message becomes tool, then user",
     [content({"type": "tool_result", "tool_use_id": "c1", "content": "12"}, {"type": "text", "text": "hi"})],
     [tool("12"), HI]),
    ("a UI message becomes assistant, tool, assistant",
     [parts({"type": "tool-f", "toolCallId": "c1", "state": "output-available", "input": {"a": 1}, "output": "12"},
            {"type": "text", "text": "hello"}, role="assistant")], [CALLS, tool("12"), HELLO]),
    ("an error of a UI tool is a result",
     [parts({"type": "tool-f", "toolCallId": "c1", "state": "output-error", "input": {"a": 1}, "errorText": "12"},
            role="assistant")], [CALLS, tool("12")]),
    # Files, refusals, the rest
    ("a source is a file", [content({"type": "image", "source": IMAGE})],
     [("user", "", ("file", "image/png", "AAAA"))]),
    ("inlineData is a file", [parts({"inlineData": {"mimeType": "image/png", "data": "AAAA"}})],
     [("user", "", ("file", "image/png", "AAAA"))]),
    ("a UI file", [parts({"type": "file", "mediaType": "image/png", "url": "http://x/y.png"})],
     [("user", "", ("file", "image/png", "http://x/y.png"))]),
    ("a refusal", [content({"type": "refusal", "refusal": "no"}, role="assistant")],
     [("assistant", "", ("refusal", "no"))]),
    ("any other part is data, by dialect and type", [content({"type": "hologram", "x": 1})],
     [("user", "", ("data", "chat-completions:hologram", {"type": "hologram", "x": 1}))]),
    ("of a UI message", [parts({"type": "hologram", "x": 1})],
     [("user", "", ("data", "ui-message:hologram", {"type": "hologram", "x": 1}))]),
    ("one element, one message", [U, U, A, A], [HI, HI, HELLO, HELLO]),
)  # fmt: skip
def test_messages_of_every_form_are_parsed(value: Any, expected: Any) -> None:
    assert read_summary(value, None)[3] == expected


def test_an_unknown_role_becomes_the_name() -> None:
    read = read_conversation([U, {"role": "Weather-Tool", "content": "12"}])

    assert read is not None
    assert [(message.role, message.name) for message in read.messages] == [
        ("user", None),
        ("assistant", "Weather-Tool"),
    ]


def test_text_arguments_stay_exact_and_objects_become_compact_json() -> None:
    exact = {"id": "c1", "function": {"name": "f", "arguments": '{ "a" :1'}}
    compact = {"id": "c2", "function": {"name": "f", "arguments": {"a": [1, 2]}}}
    read = read_conversation([{"role": "assistant", "tool_calls": [exact, compact]}])

    assert read is not None
    assert [call.arguments for call in read.messages[0].tool_calls] == ['{ "a" :1', '{"a":[1,2]}']


def test_a_legacy_function_result_becomes_a_tool_message() -> None:
    call_message = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a": 1}'}}
    read = read_conversation([call_message, {"role": "function", "name": "f", "content": "12"}])

    assert read is not None
    assert [(call.name, call.parsed) for call in read.messages[0].tool_calls] == [("f", {"a": 1})]
    assert [(one.role, [result.output for result in one.tool_results]) for one in read.messages[1:]] == [
        ("tool", ["12"])
    ]
