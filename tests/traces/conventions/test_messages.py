"""Messages from any attribute value, and the ids of their calls."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import json
from palaver.core.ids import truncate_id
from palaver.core.messages import Data, File, Message, Reasoning, Text, ToolCall, ToolResult
from palaver.traces.conventions.messages import assign_call_ids, parse_messages, parse_parts, tidy_conversation
from tests.core.strategies import messages as any_messages

HI = Message.user("hi")


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


@pytest.mark.parametrize(
    "value",
    [
        [{"role": "user", "parts": [text("hi")]}],
        {"role": "user", "parts": [text("hi")]},
        [{"role": "user", "content": "hi"}],
        [{"type": "human", "content": "hi"}],
        [{"role": "user", "parts": [{"text": "hi"}]}],
        [{"message": {"role": "user", "content": "hi"}}],
        {"messages": [{"role": "user", "content": "hi"}]},
        [[{"role": "user", "content": "hi"}]],
        [{"content": "hi"}],
        [{"parts": [text("hi")]}],
        ["hi"],
        "hi",
        '[{"role":"user","parts":[{"type":"text","content":"hi"}]}]',
    ],
    ids=repr,
)
def test_messages_of_every_dialect_and_plain_values_are_read(value: Any) -> None:
    assert parse_messages(value, "input") == (HI,)


@pytest.mark.parametrize("value", [None, "", [], {}, "[]", "{}", [""]], ids=repr)
def test_an_empty_value_gives_no_messages(value: Any) -> None:
    assert parse_messages(value, "input") == parse_messages(value, "output") == ()


def test_messages_without_a_role_are_user_input_or_assistant_output() -> None:
    assert parse_messages(["a", {"content": "b"}], "input") == (Message.user("a"), Message.user("b"))
    assert parse_messages(["a", {"content": "b"}], "output") == (Message.assistant("a"), Message.assistant("b"))
    assert parse_messages("[INST] a", "output") == (Message.assistant("[INST] a"),)


def test_an_unreadable_entry_becomes_a_data_part_and_the_others_are_read() -> None:
    value = [
        {"role": "user", "content": "hi"},
        7,
        {"odd": True},
        {"role": "tool", "odd": 1},
        {"role": "user", "x": object()},
    ]

    assert parse_messages(value, "input") == (
        HI,
        Message.user(Data("unreadable", 7)),
        Message.user(Data("unreadable", {"odd": True})),
        Message("tool", (Data("unreadable", {"role": "tool", "odd": 1}),)),
        Message.user(Data("unreadable", None)),
    )
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": object()}}]}
    assert parse_messages([*value[:1], call], "input") == (HI, Message.assistant(Data("unreadable", None)))
    assert parse_messages(True, "output") == (Message.assistant(Data("unreadable", True)),)


def test_an_unknown_role_becomes_the_name_of_an_assistant_message() -> None:
    assert parse_messages([{"role": "planner", "content": "go"}], "input") == (
        Message("assistant", (Text("go"),), None, "planner"),
    )


def test_all_parts_of_gen_ai_are_read() -> None:
    value = [
        {
            "role": "assistant",
            "parts": [
                text("a"),
                {"type": "reasoning", "content": "b"},
                {"type": "thinking", "content": "c"},
                {"type": "tool_call", "id": "1", "name": "f", "arguments": {"x": 1}},
                {"type": "tool_call", "id": "2", "name": "f", "arguments": '{"x": 1}'},
                {"type": "blob", "mime_type": "image/png", "modality": "image", "content": "QQ=="},
                {"type": "uri", "modality": "image", "uri": "https://a.example/b.png"},
                {"type": "uri", "uri": "data:image/png;base64,QQ=="},
                {"type": "file", "modality": "image", "file_id": "f-1"},
                {
                    "type": "server_tool_call",
                    "id": "3",
                    "name": "code",
                    "server_tool_call": {"type": "code", "code": "1"},
                },
                {"type": "server_tool_call_response", "id": "3", "server_tool_call_response": {"out": 1}},
                {"type": "hologram", "content": "?"},
            ],
        },
        {"role": "user", "parts": [{"type": "tool_call_response", "id": "1", "response": {"y": 1}}, text("and")]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "2", "result": "done"}]},
    ]

    assert parse_messages(value, "input") == (
        Message.assistant(
            "a",
            Reasoning("b"),
            Reasoning("c"),
            ToolCall("1", "f", '{"x":1}'),
            ToolCall("2", "f", '{"x": 1}'),
            File("image/png", data="QQ=="),
            File("image/*", url="https://a.example/b.png"),
            File("image/png", data="QQ=="),
            File("image/*", file_id="f-1"),
            ToolCall("3", "code", '{"type":"code","code":"1"}'),
        ),
        Message.tool("3", {"out": 1}),
        Message.assistant(Data("gen-ai:hologram", {"type": "hologram", "content": "?"})),
        Message.tool("1", {"y": 1}),
        Message.user("and"),
        Message.tool("2", "done"),
    )


CALL = {"role": "assistant", "parts": [{"type": "tool_call", "name": "f", "arguments": {}}]}
FUNCTION = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
RESULT = {"role": "tool", "parts": [{"type": "tool_call_response", "response": 1}]}


@pytest.mark.parametrize("call", [CALL, FUNCTION], ids=repr)
def test_calls_without_an_id_get_one_only_when_ids_are_assigned(call: Any) -> None:
    parsed = parse_messages([call, RESULT], "input")

    assert parsed == (Message.assistant(ToolCall("", "f", "{}")), Message.tool("", 1))
    assert assign_call_ids(parsed, parse_messages([call], "output")) == (
        (Message.assistant(ToolCall("call_1", "f", "{}")), Message.tool("call_1", 1)),
        (Message.assistant(ToolCall("call_2", "f", "{}")),),
    )


def test_call_ids_made_up_by_the_extraction_are_removed_and_original_ones_stay() -> None:
    original = (Message.assistant(ToolCall("call_0_0", "f"), ToolCall("call_7", "g")), Message.tool("call_0_0", 1))

    assert tidy_conversation(original, {"id": "call_7"}) == (
        Message.assistant(ToolCall("", "f"), ToolCall("call_7", "g")),
        Message.tool("", 1),
    )
    assert tidy_conversation(original, ["call_0_0", "call_7"]) == original
    document = {"messages": [{"role": "user", "content": "hi"}, FUNCTION, {"role": "tool", "content": "1"}]}
    assert parse_messages({"inputs": document}, "input")[1:] == (
        Message.assistant(ToolCall("", "f", "{}")),
        Message.tool("", "1"),
    )


def test_results_without_an_id_match_open_calls_and_ids_are_trimmed_and_truncated() -> None:
    long = "x" * 65
    messages_in = (
        Message.assistant(ToolCall(" a ", "f"), ToolCall("", "f"), ToolCall(long, "f"), ToolCall("call_4", "f")),
        Message.tool("a", 1),
        Message.tool("", 2),
        Message.tool(long + " ", 3),
    )
    messages_out = (
        Message.assistant(ToolCall("", "f")),
        Message.tool(" ", 4),
        Message.tool("", 5),
        Message.tool("", 6),
    )

    assert assign_call_ids(messages_in, messages_out) == (
        (
            Message.assistant(
                ToolCall("a", "f"), ToolCall("call_2", "f"), ToolCall(truncate_id(long), "f"), ToolCall("call_4", "f")
            ),
            Message.tool("a", 1),
            Message.tool("call_2", 2),
            Message.tool(truncate_id(long), 3),
        ),
        (
            Message.assistant(ToolCall("call_5", "f")),
            Message.tool("call_4", 4),
            Message.tool("call_5", 5),
            Message.tool("", 6),
        ),
    )


def test_a_call_without_a_result_takes_the_id_of_an_unmatched_result() -> None:
    calls = Message.assistant(ToolCall("fc_1", "f"), ToolCall("b", "g"), ToolCall("fc_2", "h"), ToolCall("fc_3", "i"))
    result_messages = (
        Message.tool("b", 2),
        Message.tool("call_x", 1),
        Message.tool("call_x", 1),
        Message.tool("call_y", 3),
    )

    assert assign_call_ids((Message.tool("earlier", 0), calls, *result_messages), ()) == (
        (
            Message.tool("earlier", 0),
            Message.assistant(
                ToolCall("call_x", "f"), ToolCall("b", "g"), ToolCall("call_y", "h"), ToolCall("fc_3", "i")
            ),
            *result_messages,
        ),
        (),
    )


def test_empty_text_gives_no_part() -> None:
    message = {
        "role": "assistant",
        "parts": [{"type": "text", "content": ""}, {"type": "tool_call", "id": "c", "name": "f"}],
    }

    assert parse_messages([message], "output") == (Message.assistant(ToolCall("c", "f")),)
    assert parse_messages([{"role": "assistant", "content": ""}], "output") == (Message("assistant", ()),)


def test_generated_call_ids_avoid_ids_in_use() -> None:
    parsed = (Message.assistant(ToolCall("call_2", "f"), ToolCall("", "g"), ToolCall("", "h")),)

    assert assign_call_ids(parsed, ())[0][0].tool_calls == [
        ToolCall("call_2", "f"),
        ToolCall("call_3", "g"),
        ToolCall("call_4", "h"),
    ]


def test_messages_without_calls_are_unchanged() -> None:
    parsed = (HI, Message.assistant("hello", Data("x", 1)))

    assert assign_call_ids(parsed, parsed) == (parsed, parsed)


def test_json_text_of_parts_is_parsed_and_other_content_is_unchanged() -> None:
    parts = [{"type": "text", "text": "hi"}, {"text": "you"}]
    assert parse_parts(json.encode(parts).decode()) == parts
    for content in ("hi", "[1, 2]", "[", "[]", '{"type":"text"}', '["a"]', 7, None, parts):
        assert parse_parts(content) == content


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text(max_size=5)
    | st.sampled_from(["user", "tool", "text", "[{}]"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "parts", "type", "id", "name", "tool_calls", "message", "arguments", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from(["input", "output"]))
def test_any_value_gives_encodable_messages_whose_calls_have_ids(value: Any, side: Any) -> None:
    parsed = parse_messages(value, side)
    numbered, _ = assign_call_ids(parsed, ())
    assert json.is_encodable([json.to_builtins(message) for message in numbered])
    assert all(call.call_id and len(call.call_id) <= 64 for message in numbered for call in message.tool_calls)


@given(st.lists(any_messages, max_size=4), st.lists(any_messages, max_size=4))
def test_every_call_gets_an_id_and_assigning_ids_twice_changes_nothing(
    one: list[Message], other: list[Message]
) -> None:
    first_pass = assign_call_ids(tuple(one), tuple(other))
    assert [len(side) for side in first_pass] == [len(one), len(other)]
    assert all(call.call_id for side in first_pass for message in side for call in message.tool_calls)
    assert assign_call_ids(*first_pass) == first_pass
    assert all(len(result.call_id) <= 64 for side in first_pass for message in side for result in message.tool_results)


def test_entries_above_the_limit_become_one_data_part() -> None:
    parsed = parse_messages([7] * 5_000, "input")

    assert len(parsed) == 2_001
    assert parsed[-1] == Message.user(Data("unreadable", [7] * 3_000))


def test_20000_generated_call_ids_avoid_20000_ids_in_use() -> None:
    count = 20_000
    parsed = Message.assistant(*[ToolCall("", "f")] * count, *[ToolCall(f"call_{n}", "f") for n in range(1, count + 1)])

    (numbered,), _ = assign_call_ids((parsed,), ())

    assert [call.call_id for call in numbered.tool_calls[:count]] == [f"call_{count + n}" for n in range(1, count + 1)]


def test_20000_calls_in_an_extracted_conversation_have_no_generated_ids() -> None:
    count = 20_000
    calls = [{"function": {"name": "f", "arguments": "{}"}}] * count
    (message,) = parse_messages({"messages": [{"role": "assistant", "content": None, "tool_calls": calls}]}, "input")

    assert message.parts == (ToolCall("", "f", "{}"),) * count


def test_20000_results_without_an_id_match_their_calls() -> None:
    count = 20_000
    calls = Message.assistant(*[ToolCall("", "f")] * count)
    results = Message("tool", tuple(ToolResult("", index) for index in range(count)))

    (_, result_message), _ = assign_call_ids((calls, results), ())

    assert [part.call_id for part in result_message.tool_results] == [f"call_{index}" for index in range(1, count + 1)]
