"""Responses items: grouping into messages, writing, and round trips up to the listed losses."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core.dialects import responses
from palaver.core.json import NotJson
from palaver.core.messages import Annotation, Data, File, Message, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from tests.core.strategies import Unwritable, messages

PNG = "data:image/png;base64,AAAA"
NOW = ToolCall(call_id="c", name="now", arguments='{"tz": 1}')


def call(call_id: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "now", "arguments": '{"tz": 1}', **fields}


def output(call_id: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "12:00", **fields}


def reasoning_item(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}], **fields}


def assistant_item(text: str, **fields: Any) -> dict[str, Any]:
    piece = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "content": [piece], **fields}


def user_item(*content: Any) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": list(content)}


READ_CASES: dict[str, tuple[list[Any], list[Message]]] = {
    "nothing": ([], []),
    "an easy message": ([{"role": "user", "content": "hi"}], [Message.user("hi")]),
    "no text": (
        [{"role": "user", "content": ""}, {"role": "developer", "content": []}],
        [Message.user(), Message(role="developer", parts=())],
    ),
    "an id, a status and a name": (
        [assistant_item("hi", id="m", status="completed", name="n")],
        [Message(role="assistant", id="m", name="n", parts=(Text(text="hi"),))],
    ),
    "a role that we do not know": (
        [{"type": "message", "role": "planner", "content": "hi"}],
        [Message(role="assistant", name="planner", parts=(Text(text="hi"),))],
    ),
    "text under another name": ([{"type": "message", "role": "user", "text": "hi"}], [Message.user("hi")]),
    "parts stay in their message": (
        [
            user_item(
                {"type": "input_text", "text": "a"},
                {"type": "text", "text": "b"},
                {"type": "new", "text": "c"},
                {"text": "d"},
                "e",
                {"type": "input_text", "text": ""},
                "",
            )
        ],
        [Message.user("a", "b", "c", "d", "e")],
    ),
    "a refusal": (
        [{"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}],
        [Message.assistant(Refusal(text="no"))],
    ),
    "images": (
        [
            user_item(
                {"type": "input_image", "image_url": "https://host/a", "detail": "low"},
                {"type": "input_image", "image_url": {"url": PNG, "detail": "high"}},
                {"type": "input_image", "file_id": "f", "image_url": None},
                {"type": "image_url", "image_url": {"url": "https://host/a"}},
            )
        ],
        [
            Message.user(
                File(media_type="image/*", url="https://host/a", detail="low"),
                File(media_type="image/png", data="AAAA", detail="high"),
                File(media_type="image/*", file_id="f"),
                File(media_type="image/*", url="https://host/a"),
            )
        ],
    ),
    "files and sounds": (
        [
            user_item(
                {"type": "input_file", "file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"},
                {"type": "input_file", "file_data": "AAAA"},
                {"type": "input_file", "file_url": "https://host/a.pdf"},
                {"type": "input_file", "file_id": "f", "filename": 5},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "input_audio", "data": "AAAA", "format": "mp3"},
            )
        ],
        [
            Message.user(
                File(media_type="application/pdf", data="AAAA", filename="a.pdf"),
                File(media_type="application/octet-stream", data="AAAA"),
                File(media_type="application/octet-stream", url="https://host/a.pdf"),
                File(media_type="application/octet-stream", file_id="f"),
                File(media_type="audio/wav", data="AAAA"),
                File(media_type="audio/mp3", data="AAAA"),
            )
        ],
    ),
    "any other part, with its raw value": (
        [user_item({"type": "input_video", "url": "u"}, {"type": 5}, {"type": "input_image"})],
        [
            Message.user(
                Data(name="responses:input_video", value={"type": "input_video", "url": "u"}),
                Data(name="responses:part", value={"type": 5}),
                Data(name="responses:input_image", value={"type": "input_image"}),
            )
        ],
    ),
    "annotations": (
        [
            {
                "type": "message",
                "role": "assistant",
                "content": [
                    {
                        "type": "output_text",
                        "text": "abc",
                        "annotations": [
                            {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 2},
                            {"type": "url_citation", "url": "u", "title": "", "start_index": "0"},
                            {"type": "file_citation", "file_id": "f", "filename": "a.txt", "index": 3},
                            {"type": "container_file_citation", "file_id": "f", "start_index": 1, "end_index": 2},
                            {"type": "palaver:span", "start_index": 1, "end_index": 2, "title": "s"},
                            {"type": "url_citation"},
                            5,
                        ],
                    }
                ],
            }
        ],
        [
            Message.assistant(
                Text(
                    text="abc",
                    annotations=(
                        Annotation(kind="url", url="u", title="t", start=0, end=2),
                        Annotation(kind="url", url="u"),
                        Annotation(kind="file", file_id="f", title="a.txt", start=3),
                        Annotation(kind="file", file_id="f", start=1, end=2),
                        Annotation(kind="span", title="s", start=1, end=2),
                    ),
                )
            )
        ],
    ),
    "a call whose arguments are no text": (
        [
            call("c", arguments={"tz": 1}),
            call("d", arguments=None),
            {"type": "function_call", "id": "i", "name": 5},
            {},
        ],
        [
            Message.assistant(
                ToolCall(call_id="c", name="now", arguments='{"tz":1}'),
                ToolCall(call_id="d", name="now"),
                ToolCall(call_id="i", name=""),
                Data(name="responses:item", value={}),
            )
        ],
    ),
    "a call without any id": (
        [{"role": "user", "content": "hi"}, {"type": "function_call", "name": "now", "arguments": ""}],
        [Message.user("hi"), Message.assistant(ToolCall(call_id="call_1", name="now"))],
    ),
    "results, each by itself": (
        [
            output("c"),
            output("d", output=[{"type": "input_text", "text": "x"}]),
            output("e", **{"palaver:is_error": True}),
        ],
        [
            Message.tool("c", "12:00"),
            Message.tool("d", [{"type": "input_text", "text": "x"}]),
            Message.tool("e", "12:00", is_error=True),
        ],
    ),
    "reasoning": (
        [
            {"type": "reasoning", "summary": [{"text": "a"}, {"text": "b"}], "encrypted_content": "x"},
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "c"}]},
            {"type": "reasoning", "encrypted_content": "y"},
            {"type": "reasoning", "summary": [{"text": ""}, 5], "encrypted_content": None},
        ],
        [
            Message.assistant(
                Reasoning(text="a\n\nb", encrypted="x"), Reasoning(text="c"), Reasoning(text="", encrypted="y")
            )
        ],
    ),
    "an approval, asked and given": (
        [
            call("c"),
            {"type": "mcp_approval_request", "id": "c", "name": "now", "arguments": "{}", "server_label": "w"},
            {"type": "mcp_approval_response", "approval_request_id": "c", "approve": False, "reason": "no"},
            {"type": "mcp_approval_request", "id": "int_1", "name": "interrupt", "arguments": {"a": 1}},
            {"type": "mcp_approval_response", "approval_request_id": "int_1", "approve": True},
        ],
        [
            Message.assistant(
                NOW,
                Data(name="approval-request", value={"id": "c", "call_id": "c", "name": "now", "arguments": "{}"}),
            ),
            Message.user(Data(name="approval-response", value={"id": "c", "approve": False, "reason": "no"})),
            Message.assistant(
                Data(
                    name="approval-request",
                    value={"id": "int_1", "call_id": None, "name": "interrupt", "arguments": '{"a":1}'},
                )
            ),
            Message.user(Data(name="approval-response", value={"id": "int_1", "approve": True, "reason": None})),
        ],
    ),
    "items of ours": (
        [
            {"type": "palaver:data", "id": "dat_1", "status": "completed", "name": "chart", "value": {"x": [1]}},
            {"type": "palaver:file", "id": "fil_1", "media_type": "image/png", "data": "AAAA", "filename": "p.png"},
            {"type": "palaver:data", "name": "empty"},
            {"type": "palaver:file", "url": "u"},
        ],
        [
            Message.assistant(
                Data(name="chart", value={"x": [1]}),
                File(media_type="image/png", data="AAAA", filename="p.png"),
                Data(name="empty"),
                Data(name="responses:palaver:file", value={"type": "palaver:file", "url": "u"}),
            )
        ],
    ),
    "any other item, with its raw value": (
        [{"type": "web_search_call", "id": "w"}, {"type": "custom_tool_call", "name": "f", "input": 5}, 5],
        [
            Message.assistant(
                Data(name="responses:web_search_call", value={"type": "web_search_call", "id": "w"}),
                Data(name="responses:custom_tool_call", value={"type": "custom_tool_call", "name": "f", "input": 5}),
                Data(name="responses:item", value=5),
            )
        ],
    ),
    "custom tools": (
        [
            {"type": "custom_tool_call", "id": "i", "call_id": "c", "name": "sql", "input": "select  1"},
            {"type": "custom_tool_call", "id": "d", "name": "sql", "input": ""},
            {"type": "custom_tool_call", "name": "sql", "input": "{}"},
            {"type": "custom_tool_call_output", "id": "o", "call_id": "c", "output": "1"},
            {"type": "custom_tool_call_output", "call_id": "d", "output": [{"type": "input_text", "text": "x"}]},
            {"type": "custom_tool_call_output", "call_id": "e"},
        ],
        [
            Message.assistant(
                ToolCall(call_id="c", name="sql", arguments="select  1"),
                ToolCall(call_id="d", name="sql"),
                ToolCall(call_id="call_2", name="sql", arguments="{}"),
            ),
            Message.tool("c", "1"),
            Message.tool("d", [{"type": "input_text", "text": "x"}]),
            Message.assistant(
                Data(
                    name="responses:custom_tool_call_output", value={"type": "custom_tool_call_output", "call_id": "e"}
                )
            ),
        ],
    ),
    "parts, which win over content": (
        [
            {
                "type": "message",
                "role": "user",
                "content": "no",
                "parts": [{"type": "text", "text": "a"}, {"text": "b"}, "c", {"type": "text", "content": "d"}],
            },
            {"type": "message", "role": "assistant", "parts": [{"type": "reasoning", "text": "hm"}, {"text": ""}]},
            {"type": "message", "role": "user", "content": "yes", "parts": []},
        ],
        [
            Message.user("a", "b", "c", "d"),
            Message.assistant(Reasoning(text="hm")),
            Message.user("yes"),
        ],
    ),
    "one part by itself": (
        [{"type": "message", "role": "user", "content": {"type": "input_text", "text": "hi"}}],
        [Message.user("hi")],
    ),
    "calls of another dialect in a message": (
        [
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "a"}],
                "tool_calls": [{"id": "c", "function": {"name": "now", "arguments": '{"tz": 1}'}}],
            },
            {"type": "message", "role": "tool", "tool_call_id": "c", "content": "12:00"},
            {"type": "message", "role": "tool", "content": [{"type": "output_text", "text": "?"}]},
            {"type": "message", "role": "tool", "content": [{"type": "x"}]},
        ],
        [
            Message.assistant("a", NOW),
            Message.tool("c", "12:00"),
            Message.tool("", "?"),
            Message.tool("", [{"type": "x"}]),
        ],
    ),
}


@pytest.mark.parametrize(("items", "expected"), READ_CASES.values(), ids=READ_CASES)
def test_items_are_read(items: list[Any], expected: list[Message]) -> None:
    assert responses.read(items) == expected


@pytest.mark.parametrize(
    "item",
    [
        user_item({"type": "x", "value": Unwritable()}),
        output("c", output=Unwritable()),
        {"type": "message", "role": "tool", "content": [{"type": "x", "value": Unwritable()}]},
        {"type": "web_search_call", "id": "w", "action": Unwritable()},
        {"type": "palaver:data", "name": "n", "value": Unwritable()},
        {"type": "mcp_approval_response", "approval_request_id": "c", "approve": Unwritable()},
    ],
)
def test_items_that_are_not_json_raise_not_json(item: Any) -> None:
    with pytest.raises(NotJson):
        responses.read([item])


def test_data_that_is_not_json_is_not_written_as_a_foreign_item() -> None:
    video, search = {"type": "input_video", "of": Unwritable()}, {"type": "web_search_call", "of": Unwritable()}

    assert responses.write(
        [
            Message.user(Data(name="responses:input_video", value=video)),
            Message.assistant(Data(name="responses:web_search_call", value=search)),
        ]
    ) == [user_item(), {"type": "palaver:data", "name": "responses:web_search_call", "value": search}]


def test_lone_surrogates_in_a_tool_output_are_replaced() -> None:
    assert responses.read([output("c", output={"a": "\ud800"})]) == [Message.tool("c", {"a": "\ufffd"})]


A, B = assistant_item("a", id="a"), assistant_item("b", id="b")
TEXT_A, TEXT_B = Text(text="a"), Text(text="b")
C, D = NOW, ToolCall(call_id="d", name="now", arguments='{"tz": 1}')
R, S = Reasoning(text="r"), Reasoning(text="s")


def assistant(message_id: str | None, *parts: Part) -> Message:
    return Message(role="assistant", id=message_id, parts=parts)


GROUPS: dict[str, tuple[list[Any], list[tuple[Message, int]]]] = {
    "calls made in parallel stay together": ([call("c"), call("d")], [(assistant(None, C, D), 0)]),
    "text and its calls": ([A, call("c"), call("d")], [(assistant("a", TEXT_A, C, D), 0)]),
    "text after a call is a message of its own": (
        [call("c"), A],
        [(assistant(None, C), 0), (assistant("a", TEXT_A), 1)],
    ),
    "two texts are two messages": ([A, B], [(assistant("a", TEXT_A), 0), (assistant("b", TEXT_B), 1)]),
    "an empty text is one, too": (
        [{"role": "assistant", "content": []}, B],
        [(assistant(None), 0), (assistant("b", TEXT_B), 1)],
    ),
    "reasoning stands before its text": (
        [reasoning_item("r"), reasoning_item("s"), A, call("c")],
        [(assistant("a", R, S, TEXT_A, C), 0)],
    ),
    "reasoning stands before its call": ([reasoning_item("r"), call("c")], [(assistant(None, R, C), 0)]),
    "reasoning after anything else starts a message": (
        [A, reasoning_item("r"), B, call("c"), reasoning_item("s"), call("d")],
        [(assistant("a", TEXT_A), 0), (assistant("b", R, TEXT_B, C), 1), (assistant(None, S, D), 4)],
    ),
    "reasoning of nothing starts none": (
        [call("c"), {"type": "reasoning", "summary": []}, call("d")],
        [(assistant(None, C, D), 0)],
    ),
    "what others say stands between": (
        [A, {"role": "user", "content": "hi"}, call("c"), output("c"), call("d"), output("d"), B],
        [
            (assistant("a", TEXT_A), 0),
            (Message.user("hi"), 1),
            (assistant(None, C), 2),
            (Message.tool("c", "12:00"), 3),
            (assistant(None, D), 4),
            (Message.tool("d", "12:00"), 5),
            (assistant("b", TEXT_B), 6),
        ],
    ),
    "data joins its turn": (
        [A, {"type": "palaver:data", "name": "n"}, call("c")],
        [(assistant("a", TEXT_A, Data(name="n"), C), 0)],
    ),
}


@pytest.mark.parametrize(("items", "expected"), GROUPS.values(), ids=GROUPS)
def test_items_of_one_turn_are_one_message_with_the_index_of_the_first(
    items: list[Any], expected: list[tuple[Message, int]]
) -> None:
    assert responses.read_indexed(items) == expected
    assert responses.read_indexed(items, 3) == [(message, index + 3) for message, index in expected]


WRITE_CASES: dict[str, tuple[Message, list[dict[str, Any]]]] = {
    "a question": (
        Message(
            role="user", id="u", name="n", metadata={"a": 1}, parts=(Text(text="a"), Text(text=""), Text(text="b"))
        ),
        [{**user_item({"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}), "id": "u"}],
    ),
    "an answer": (
        Message.assistant(
            Text(
                text="abc",
                annotations=(
                    Annotation(kind="url", url="u", title="t", start=1, end=2),
                    Annotation(kind="url", url="u"),
                    Annotation(kind="url"),
                    Annotation(kind="file", file_id="f", title="a.txt", start=1),
                    Annotation(kind="file"),
                    Annotation(kind="span", start=1),
                ),
            ),
            Refusal(text="no"),
        ),
        [
            {
                "type": "message",
                "role": "assistant",
                "content": [
                    {
                        "type": "output_text",
                        "text": "abc",
                        "annotations": [
                            {"type": "url_citation", "url": "u", "title": "t", "start_index": 1, "end_index": 2},
                            {"type": "url_citation", "url": "u", "title": "", "start_index": 0, "end_index": 3},
                            {"type": "file_citation", "file_id": "f", "filename": "a.txt", "index": 1},
                            {"type": "file_citation", "file_id": "", "filename": "", "index": 0},
                            {"type": "palaver:span", "title": "", "start_index": 1, "end_index": 3},
                        ],
                    },
                    {"type": "refusal", "refusal": "no"},
                ],
            }
        ],
    ),
    "nothing": (Message.user(), [user_item()]),
    "no answer": (Message.assistant("", Reasoning(text="")), []),
    "nothing that can be said": (
        Message.user(Reasoning(text="hm"), NOW, Refusal(text="no"), Data(name="n")),
        [{"type": "message", "role": "user", "content": []}],
    ),
    "a turn": (
        Message(
            role="assistant",
            id="m",
            parts=(
                Reasoning(text="r", encrypted="x"),
                Reasoning(text="", encrypted="y"),
                Reasoning(text=""),
                TEXT_A,
                NOW,
                TEXT_B,
                Data(name="n", value=[1]),
                File(media_type="image/png", data="AAAA", filename="p.png", detail="low"),
            ),
        ),
        [
            reasoning_item("r", encrypted_content="x"),
            {"type": "reasoning", "summary": [], "encrypted_content": "y"},
            assistant_item("a", id="m"),
            call("c"),
            assistant_item("b"),
            {"type": "palaver:data", "name": "n", "value": [1]},
            {"type": "palaver:file", "media_type": "image/png", "data": "AAAA", "filename": "p.png", "detail": "low"},
        ],
    ),
    "files that are asked about": (
        Message.user(
            File(media_type="image/png", url="https://host/a", detail="low"),
            File(media_type="image/png", data="AAAA", filename="a.png"),
            File(media_type="image/png", file_id="f"),
            File(media_type="audio/wav", data="AAAA"),
            File(media_type="application/pdf", data="AAAA", filename="a.pdf"),
            File(media_type="application/pdf", url="https://host/a.pdf"),
            File(media_type="audio/wav", file_id="f"),
        ),
        [
            user_item(
                {"type": "input_image", "image_url": "https://host/a", "detail": "low"},
                {"type": "input_image", "image_url": PNG},
                {"type": "input_image", "file_id": "f"},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "input_file", "file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"},
                {"type": "input_file", "file_url": "https://host/a.pdf"},
                {"type": "input_file", "file_id": "f"},
            )
        ],
    ),
    "results": (
        Message(
            role="tool",
            parts=(
                ToolResult(call_id="c", output={"h": 12}),
                Text(text="?"),
                ToolResult(call_id="d", output=[{"type": "input_text", "text": "x"}]),
                ToolResult(call_id="e", output=[{"type": "text"}], is_error=True),
            ),
        ),
        [
            output("c", output='{"h":12}'),
            output("d", output=[{"type": "input_text", "text": "x"}]),
            output("e", output='[{"type":"text"}]', **{"palaver:is_error": True}),
        ],
    ),
    "a message with its own result stays in order": (
        Message.assistant(NOW, ToolResult(call_id="c", output="12:00"), "a"),
        [call("c"), output("c"), assistant_item("a")],
    ),
    "a user's result and approval": (
        Message.user(
            "a",
            ToolResult(call_id="c", output="12:00"),
            Data(name="approval-response", value={"id": "d", "approve": True, "reason": "ok"}),
            Data(name="approval-response", value={"id": "e", "approve": False, "reason": None}),
            Data(name="approval-response", value={"id": "f", "approve": "yes"}),
        ),
        [
            user_item({"type": "input_text", "text": "a"}),
            output("c"),
            {"type": "mcp_approval_response", "approval_request_id": "d", "approve": True, "reason": "ok"},
            {"type": "mcp_approval_response", "approval_request_id": "e", "approve": False},
        ],
    ),
    "a request for approval": (
        Message.assistant(
            Data(name="approval-request", value={"id": "c", "call_id": "c", "name": "now", "arguments": "{}", "x": 1}),
            Data(name="approval-request", value={"id": 5}),
        ),
        [
            {
                "type": "mcp_approval_request",
                "id": "c",
                "name": "now",
                "arguments": "{}",
                "server_label": "palaver",
            },
            {"type": "palaver:data", "name": "approval-request", "value": {"id": 5}},
        ],
    ),
    "a foreign item, as it was": (
        Message.assistant(Data(name="responses:web_search_call", value={"type": "web_search_call", "id": "w"})),
        [{"type": "web_search_call", "id": "w"}],
    ),
    "a foreign part, as it was": (
        Message.user(Data(name="responses:input_video", value={"type": "input_video", "url": "u"})),
        [user_item({"type": "input_video", "url": "u"})],
    ),
    "a custom tool's call as a function's": (
        Message.assistant(ToolCall(call_id="c", name="sql", arguments="select 1")),
        [{"type": "function_call", "call_id": "c", "name": "sql", "arguments": "select 1"}],
    ),
    "no call that was only data": (
        Message.assistant(
            Data(name="responses:function_call", value=call("c")),
            Data(name="responses:web_search_call", value={"type": "image_call"}),
            Data(name="responses:message", value=assistant_item("a")),
            Data(name="responses:reasoning", value={"type": "reasoning"}),
            Data(name="responses:item", value={}),
            Data(name="responses:item", value=5),
        ),
        [
            {"type": "palaver:data", "name": "responses:function_call", "value": call("c")},
            {"type": "palaver:data", "name": "responses:web_search_call", "value": {"type": "image_call"}},
            {"type": "palaver:data", "name": "responses:message", "value": assistant_item("a")},
            {"type": "palaver:data", "name": "responses:reasoning", "value": {"type": "reasoning"}},
            {"type": "palaver:data", "name": "responses:item", "value": {}},
            {"type": "palaver:data", "name": "responses:item", "value": 5},
        ],
    ),
}


@pytest.mark.parametrize(("message", "expected"), WRITE_CASES.values(), ids=WRITE_CASES)
def test_a_message_is_written(message: Message, expected: list[dict[str, Any]]) -> None:
    assert responses.write([message]) == expected


@given(st.lists(messages, max_size=4))
def test_messages_round_trip_up_to_the_listed_losses(conversation: list[Message]) -> None:
    encoded = responses.write(conversation)

    decoded = responses.read(encoded)

    assert decoded == normalize(conversation)
    assert responses.read(msgspec.json.decode(msgspec.json.encode(encoded))) == decoded


@given(st.lists(messages, max_size=4))
def test_a_second_round_trip_loses_nothing(conversation: list[Message]) -> None:
    decoded = responses.read(responses.write(conversation))

    assert responses.read(responses.write(decoded)) == decoded


# The normal form: a message after the losses listed in LOSSES


def normalize(conversation: Sequence[Message]) -> list[Message]:
    """Split the messages into pieces, and join those of one turn again."""
    complete: list[Message] = []
    for piece in (piece for message in conversation for piece in _pieces(message)):
        last = complete[-1] if complete else None
        if last is not None and last.role == piece.role == "assistant" and _is_same_turn(last, piece):
            message_id = piece.id if last.id is None else last.id
            complete[-1] = Message(role="assistant", id=message_id, parts=(*last.parts, *piece.parts))
        else:
            complete.append(piece)
    return complete


def _is_same_turn(last: Message, piece: Message) -> bool:
    starts = isinstance(piece.parts[0], Text | Refusal | Reasoning)
    return not starts or all(isinstance(part, Reasoning) for part in last.parts)


def _pieces(message: Message) -> Iterator[Message]:
    if message.role == "tool":
        yield from (Message(role="tool", parts=(_result(result),)) for result in message.tool_results)
        return
    stored = [match for part in message.parts if (match := _part(part, message.role)) is not None]
    message_id = message.id
    if not stored and message.role != "assistant":
        yield Message(role=message.role, parts=(), id=message_id)
    for is_content, group in groupby(stored, lambda part: _is_content(part, message.role)):
        parts = tuple(group)
        if is_content:
            yield Message(role=message.role, parts=parts, id=message_id)
            message_id = None
        else:
            for part in parts:
                role = "tool" if isinstance(part, ToolResult) else message.role
                yield Message(role=role, parts=(part,))


def _is_content(part: Part, role: str) -> bool:
    return isinstance(part, Text | Refusal) or (isinstance(part, File) and role != "assistant")


def _part(part: Part, role: str) -> Part | None:
    is_assistant = role == "assistant"
    match part:
        case Text(text=text, annotations=notes):
            stored = [_note(note, text) for note in notes if note.kind != "url" or note.url is not None]
            return Text(text=text, annotations=tuple(stored) if is_assistant else ()) if text else None
        case Reasoning():
            return part if is_assistant and (part.text or part.encrypted) else None
        case ToolResult():
            return _result(part)
        case File():
            return part if is_assistant else _file(part)
        case _:
            return part if is_assistant else None


def _note(note: Annotation, text: str) -> Annotation:
    title, start, end = note.title or None, note.start or 0, len(text) if note.end is None else note.end
    match note.kind:
        case "url":
            return Annotation(kind="url", url=note.url, title=title, start=start, end=end)
        case "file":
            return Annotation(kind="file", file_id=note.file_id or None, title=title, start=start)
        case "span":
            return Annotation(kind="span", title=title, start=start, end=end)


def _result(result: ToolResult) -> ToolResult:
    text = result.output if isinstance(result.output, str) else msgspec.json.encode(result.output).decode()
    return ToolResult(call_id=result.call_id, output=text, is_error=result.is_error)


def _file(file: File) -> File:
    if file.media_type.startswith("audio/") and file.data:
        return File(media_type=file.media_type, data=file.data)
    image = file.media_type.startswith("image/")
    stored = File(
        media_type="image/*" if image else "application/octet-stream",
        filename=None if image else file.filename,
        detail=file.detail if image else None,
    )
    if file.file_id is not None:
        return msgspec.structs.replace(stored, file_id=file.file_id)
    if file.url is not None:
        return msgspec.structs.replace(stored, url=file.url)
    return msgspec.structs.replace(stored, media_type=file.media_type, data=file.data or "")
