"""Serialized LangChain messages: reading every form, writing what LangChain loads, and the listed losses."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import json
from palaver.core.dialects import langchain
from palaver.core.messages import Annotation, Data, File, Message, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from tests.core.strategies import Unwritable, messages

PNG = "data:image/png;base64,AAAA"
NOW = ToolCall(call_id="c", name="now", arguments='{"tz":1}')


def ai(content: Any = "", **fields: Any) -> dict[str, Any]:
    return {"type": "ai", "content": content, **fields}


def now_call(**fields: Any) -> dict[str, Any]:
    return {"name": "now", "args": {"tz": 1}, "id": "c", "type": "tool_call", **fields}


READ_CASES: dict[str, tuple[dict[str, Any], Message]] = {
    "a human": ({"type": "human", "content": "hi"}, Message.user("hi")),
    "an id and a name": (
        ai("hi", id="m", name="n", response_metadata={}),
        Message(role="assistant", id="m", name="n", parts=(Text(text="hi"),)),
    ),
    "inside data": (
        {"type": "human", "data": {"type": "human", "content": "hi", "id": "m"}},
        Message(role="user", id="m", parts=(Text(text="hi"),)),
    ),
    "serialised": (
        {"lc": 1, "type": "constructor", "id": ["x", "SystemMessage"], "kwargs": {"content": "hi", "type": "system"}},
        Message.system("hi"),
    ),
    "a chunk": ({"type": "AIMessageChunk", "content": "hi"}, Message.assistant("hi")),
    "a serialised chunk": (
        {"lc": 1, "id": ["x", "HumanMessageChunk"], "kwargs": {"content": "hi"}},
        Message.user("hi"),
    ),
    "any role": (
        {"lc": 1, "id": ["x", "ChatMessage"], "kwargs": {"content": "hi", "role": "planner"}},
        Message(role="assistant", name="planner", parts=(Text(text="hi"),)),
    ),
    "a role of nothing": ({"lc": 1, "id": ["ChatMessage"], "kwargs": {"content": "hi"}}, Message.assistant("hi")),
    "a developer": (
        {"type": "system", "content": "hi", "additional_kwargs": {"__openai_role__": "developer"}},
        Message(role="developer", parts=(Text(text="hi"),)),
    ),
    "nothing": (ai(""), Message.assistant()),
    "blocks of text": (
        ai(["a", {"type": "text", "text": "b"}, {"type": "output_text", "text": "c"}, {"text": "d"}, "", {"text": ""}]),
        Message.assistant("a", "b", "c", "d"),
    ),
    "annotations": (
        ai(
            [
                {
                    "type": "text",
                    "text": "a",
                    "annotations": [
                        {"type": "citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1},
                        {"type": "file_citation", "file_id": "f", "filename": "a.txt", "index": 1},
                        {"start_index": 0, "end_index": 1},
                        {"title": "nowhere"},
                        5,
                    ],
                },
                {
                    "type": "text",
                    "text": "b",
                    "citations": [
                        {"document_index": 0, "document_title": "d", "start_char_index": 2, "end_char_index": 3}
                    ],
                },
            ]
        ),
        Message.assistant(
            Text(
                text="a",
                annotations=(
                    Annotation(kind="url", url="u", title="t", start=0, end=1),
                    Annotation(kind="file", file_id="f", title="a.txt", start=1),
                    Annotation(kind="span", start=0, end=1),
                ),
            ),
            Text(text="b", annotations=(Annotation(kind="file", title="d", start=2, end=3),)),
        ),
    ),
    "reasoning of all makers": (
        ai(
            [
                {"type": "thinking", "thinking": "a", "signature": "x"},
                {"type": "redacted_thinking", "data": "y"},
                {"type": "reasoning", "reasoning": "b", "extras": {"signature": "z"}},
                {"type": "reasoning", "summary": [{"text": "c"}, {"text": "d"}], "encrypted_content": "w"},
                {"type": "reasoning_content", "reasoning_content": {"text": "e", "signature": "v"}},
                {"type": "reasoning", "text": "g"},
                {"type": "reasoning", "encrypted_content": "u"},
                {"type": "reasoning", "summary": []},
                {"type": "thinking", "thinking": ""},
                "f",
            ]
        ),
        Message.assistant(
            Reasoning(text="a", encrypted="x"),
            Reasoning(text="", encrypted="y"),
            Reasoning(text="b", encrypted="z"),
            Reasoning(text="c\n\nd", encrypted="w"),
            Reasoning(text="e", encrypted="v"),
            Reasoning(text="g"),
            Reasoning(text="", encrypted="u"),
            "f",
        ),
    ),
    "reasoning and refusal beside the content": (
        ai("a", additional_kwargs={"reasoning_content": "r", "refusal": "no"}),
        Message.assistant(Reasoning(text="r"), "a", Refusal(text="no")),
    ),
    "a summary beside the content": (
        ai("a", additional_kwargs={"reasoning": {"summary": [{"text": "r"}, {"text": "s"}]}}),
        Message.assistant(Reasoning(text="r\n\ns"), "a"),
    ),
    "what stands in both is read once": (
        ai(
            [{"type": "thinking", "thinking": "r"}, {"type": "refusal", "refusal": "no"}],
            additional_kwargs={"reasoning_content": "r", "refusal": "no"},
        ),
        Message.assistant(Reasoning(text="r"), Refusal(text="no")),
    ),
    "files of all makers": (
        {
            "type": "human",
            "content": [
                {"type": "image", "url": "https://host/a", "mime_type": "image/png"},
                {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
                {"type": "image", "source_type": "base64", "data": "AAAA", "mime_type": "image/png"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
                {"type": "image_url", "image_url": "https://host/a"},
                {"type": "file", "file_id": "f", "extras": {"filename": "a.pdf"}},
                {"type": "file", "source_type": "id", "id": "f"},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "video", "url": "https://host/v"},
            ],
        },
        Message.user(
            File(media_type="image/png", url="https://host/a"),
            File(media_type="image/png", data="AAAA"),
            File(media_type="image/png", data="AAAA"),
            File(media_type="image/png", data="AAAA"),
            File(media_type="image/png", data="AAAA", detail="low"),
            File(media_type="image/*", url="https://host/a"),
            File(media_type="application/octet-stream", file_id="f", filename="a.pdf"),
            File(media_type="application/octet-stream", file_id="f"),
            File(media_type="application/pdf", data="AAAA", filename="a.pdf"),
            File(media_type="audio/wav", data="AAAA"),
            File(media_type="video/*", url="https://host/v"),
        ),
    ),
    "any other block, with its raw value": (
        ai(
            [
                {"type": "server_tool_call", "x": 1},
                {"type": "document", "source": {"type": "text", "data": "a"}},
                {},
                {"type": "thinking"},
            ]
        ),
        Message.assistant(
            Data(name="langchain:server_tool_call", value={"type": "server_tool_call", "x": 1}),
            Data(name="langchain:document", value={"type": "document", "source": {"type": "text", "data": "a"}}),
            Data(name="langchain:part", value={}),
            Data(name="langchain:thinking", value={"type": "thinking"}),
        ),
    ),
    "calls": (
        ai("a", tool_calls=[now_call(), now_call(id="d"), now_call()]),
        Message.assistant("a", NOW, ToolCall(call_id="d", name="now", arguments='{"tz":1}')),
    ),
    "calls where the content marks them": (
        ai(
            [
                "a",
                {"type": "tool_use", "id": "c", "name": "now", "input": {}},
                {"type": "input_json_delta", "partial_json": "{"},
                "b",
                {"type": "function_call", "id": "fc_1", "call_id": "d"},
                {"type": "tool_call", "id": "d"},
                {"type": "tool_use"},
            ],
            tool_calls=[now_call(id="d"), now_call(), now_call(id="e")],
        ),
        Message.assistant(
            "a",
            NOW,
            "b",
            ToolCall(call_id="d", name="now", arguments='{"tz":1}'),
            ToolCall(call_id="e", name="now", arguments='{"tz":1}'),
        ),
    ),
    "a call that stands in the content alone": (
        ai([{"type": "tool_use", "id": "c", "name": "now", "input": {"tz": 1}}, {"type": "tool_call", "id": "d"}]),
        Message.assistant(NOW, ToolCall(call_id="d", name="unknown")),
    ),
    "the exact text of arguments": (
        ai(
            tool_calls=[now_call(), now_call(id="d")],
            additional_kwargs={"tool_calls": [{"id": "c", "function": {"name": "now", "arguments": '{"tz": 1}'}}, 5]},
        ),
        Message.assistant(
            ToolCall(call_id="c", name="now", arguments='{"tz": 1}'),
            ToolCall(call_id="d", name="now", arguments='{"tz":1}'),
        ),
    ),
    "the exact text of a chunk's arguments": (
        {
            "type": "AIMessageChunk",
            "content": "",
            "tool_calls": [now_call(args={})],
            "tool_call_chunks": [{"name": "now", "args": '{"tz', "id": "c", "index": 0}, 5],
        },
        Message.assistant(ToolCall(call_id="c", name="now", arguments='{"tz')),
    ),
    "calls of the OpenAI form alone": (
        ai(additional_kwargs={"tool_calls": [{"id": "c", "function": {"name": "now", "arguments": '{"tz": 1}'}}]}),
        Message.assistant(ToolCall(call_id="c", name="now", arguments='{"tz": 1}')),
    ),
    "a legacy call": (
        ai(additional_kwargs={"function_call": {"name": "now", "arguments": "{}"}}),
        Message.assistant(ToolCall(call_id="call_0_0", name="now", arguments="{}")),
    ),
    "calls that LangChain could not parse": (
        ai(tool_calls=[now_call()], invalid_tool_calls=[{"name": None, "args": "{tz", "id": None, "error": "?"}]),
        Message.assistant(NOW, ToolCall(call_id="call_0_1", name="unknown", arguments="{tz")),
    ),
    "a result": (
        {"type": "tool", "content": "12:00", "tool_call_id": "c", "name": "now", "status": "error", "id": "t"},
        Message(role="tool", id="t", name="now", parts=(ToolResult(call_id="c", output="12:00", is_error=True),)),
    ),
    "a result in blocks of text": (
        {"type": "tool", "content": ["12", {"type": "text", "text": ":00"}], "tool_call_id": "c"},
        Message.tool("c", "12:00"),
    ),
    "a result in other blocks": (
        {"type": "tool", "content": [{"type": "image", "url": "u"}], "tool_call_id": "c"},
        Message.tool("c", [{"type": "image", "url": "u"}]),
    ),
}


@pytest.mark.parametrize(("element", "message"), READ_CASES.values(), ids=READ_CASES)
def test_a_message_is_read(element: dict[str, Any], message: Message) -> None:
    assert langchain.read([element]) == [message]


def test_function_results_match_calls_by_name_and_removals_are_skipped() -> None:
    elements = [
        ai(additional_kwargs={"function_call": {"name": "now", "arguments": "{}"}}),
        {"type": "function", "name": "now", "content": "12:00"},
        {"type": "function", "name": "later", "content": "?"},
        {"lc": 1, "id": ["x", "RemoveMessage"], "kwargs": {"content": "", "id": "m"}},
    ]

    assert langchain.read(elements)[1:] == [
        Message(role="tool", name="now", parts=(ToolResult(call_id="call_0_0", output="12:00"),)),
        Message(role="tool", name="later", parts=(ToolResult(call_id="", output="?"),)),
    ]


@pytest.mark.parametrize(
    "element",
    [
        ai([{"type": "x", "value": Unwritable()}]),
        ai([Unwritable()]),
        ai([{"type": "image", "x": Unwritable()}]),
        ai(tool_calls=[now_call(args={"a": Unwritable()})]),
        {"type": "tool", "content": [{"type": "image", "url": "u", "x": Unwritable()}], "tool_call_id": "c"},
    ],
    ids=["a block", "an object", "a file that is none", "arguments", "a result"],
)
def test_content_that_is_not_json_raises_not_json(element: Any) -> None:
    with pytest.raises(json.NotJson):
        langchain.read([element])


def flat_message(kind: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "content": content, "additional_kwargs": {}, "response_metadata": {}, **fields}


WRITE_CASES: dict[str, tuple[list[Message], list[dict[str, Any]]]] = {
    "text": (
        [Message(role="user", id="u", name="n", metadata={"a": 1}, parts=(Text(text="a"), Text(text="b")))],
        [flat_message("human", "ab", id="u", name="n")],
    ),
    "instructions": (
        [Message.system("a"), Message(role="developer", parts=(Text(text="b"),))],
        [flat_message("system", "a"), flat_message("system", "b", additional_kwargs={"__openai_role__": "developer"})],
    ),
    "nothing": (
        [Message.user(), Message.assistant(), Message.assistant(Reasoning(text="r"), Data(name="n"))],
        [flat_message("human", "")],
    ),
    "a turn": (
        [
            Message.assistant(NOW, "a", ToolCall(call_id="d", name="f", arguments="{tz"), Refusal(text="b")),
            Message(role="tool", id="t", parts=(ToolResult(call_id="c", output={"h": 12}),)),
            Message(
                role="tool",
                id="t",
                name="own",
                parts=(ToolResult(call_id="d", output="no", is_error=True), ToolResult(call_id="x")),
            ),
        ],
        [
            flat_message(
                "ai",
                "ab",
                tool_calls=[now_call()],
                invalid_tool_calls=[
                    {"name": "f", "args": "{tz", "id": "d", "error": None, "type": "invalid_tool_call"}
                ],
            ),
            flat_message("tool", '{"h":12}', tool_call_id="c", status="success", name="now", id="t"),
            flat_message("tool", "no", tool_call_id="d", status="error", name="own", id="t"),
            flat_message("tool", "null", tool_call_id="x", status="success", name="own"),
        ],
    ),
    "a message with its own result": (
        [Message(role="assistant", id="m", parts=(NOW, ToolResult(call_id="c", output="12"), Text(text="a")))],
        [
            flat_message("ai", "", tool_calls=[now_call()], id="m"),
            flat_message("tool", "12", tool_call_id="c", status="success", name="now"),
            flat_message("ai", "a"),
        ],
    ),
    "files": (
        [
            Message.user(
                "a",
                File(media_type="image/png", url="https://host/a", detail="low"),
                File(media_type="audio/wav", data="AAAA"),
                File(media_type="application/pdf", data="AAAA", filename="a.pdf"),
                File(media_type="video/mp4", file_id="f"),
            )
        ],
        [
            flat_message(
                "human",
                [
                    {"type": "text", "text": "a"},
                    {"type": "image", "mime_type": "image/png", "url": "https://host/a"},
                    {"type": "audio", "mime_type": "audio/wav", "base64": "AAAA"},
                    {
                        "type": "file",
                        "mime_type": "application/pdf",
                        "base64": "AAAA",
                        "extras": {"filename": "a.pdf"},
                    },
                    {"type": "file", "mime_type": "video/mp4", "file_id": "f"},
                ],
            )
        ],
    ),
}


@pytest.mark.parametrize(("conversation", "expected"), WRITE_CASES.values(), ids=WRITE_CASES)
def test_messages_are_written(conversation: list[Message], expected: list[dict[str, Any]]) -> None:
    assert langchain.write(conversation) == expected


@given(st.lists(messages, max_size=4))
def test_messages_round_trip_up_to_the_listed_losses(conversation: list[Message]) -> None:
    encoded = langchain.write(conversation)

    decoded = langchain.read(encoded)

    assert decoded == normalize(conversation)
    assert langchain.read(msgspec.json.decode(msgspec.json.encode(encoded))) == decoded


@given(st.lists(messages, max_size=4))
def test_a_second_round_trip_loses_nothing(conversation: list[Message]) -> None:
    decoded = langchain.read(langchain.write(conversation))

    assert langchain.read(langchain.write(decoded)) == decoded


def test_langchain_loads_written_messages_and_its_serialized_forms_are_read() -> None:
    core = pytest.importorskip("langchain_core.messages")
    load = pytest.importorskip("langchain_core.load")
    conversation = [
        Message.system("Be brief."),
        Message.user("When?", File(media_type="image/png", data="AAAA")),
        Message(role="assistant", id="m", parts=(Text(text="Let me see."), NOW)),
        Message(role="tool", name="now", parts=(ToolResult(call_id="c", output="12:00", is_error=True),)),
        Message.assistant("Noon."),
    ]

    loaded = core.convert_to_messages(langchain.write(conversation))

    assert [type(message).__name__ for message in loaded] == [
        "SystemMessage",
        "HumanMessage",
        "AIMessage",
        "ToolMessage",
        "AIMessage",
    ]
    assert langchain.read([message.model_dump() for message in loaded]) == conversation
    assert langchain.read(core.messages_to_dict(loaded)) == conversation
    assert langchain.read([load.dumpd(message) for message in loaded]) == conversation


# The normal form: a message after the losses listed in LOSSES


def normalize(conversation: Sequence[Message]) -> list[Message]:
    names: dict[str, str] = {}
    complete: list[Message] = []
    for message in conversation:
        names |= {call.call_id: call.name for call in message.tool_calls}
        message_id = message.id
        for piece in _pieces(message, names):
            named = _named_calls(piece, len(complete))
            complete.append(msgspec.structs.replace(named, id=message_id))
            message_id = None
    return complete


def _pieces(message: Message, names: dict[str, str]) -> Iterator[Message]:
    if not message.parts and message.role not in ("assistant", "tool"):
        yield Message(role=message.role, parts=(), name=message.name)
    for are_results, group in groupby(message.parts, lambda part: isinstance(part, ToolResult)):
        if are_results:
            for part in group:
                name = message.name if message.role == "tool" else None
                result: Any = part
                yield Message(
                    role="tool",
                    parts=(_result(result),),
                    name=names.get(result.call_id) if name is None else name,
                )
        elif message.role != "tool":
            parts = tuple(_parts(list(group), message.role))
            if parts or message.role != "assistant":
                yield Message(role=message.role, parts=parts, name=message.name)


def _result(result: ToolResult) -> ToolResult:
    output = result.output if isinstance(result.output, str) else msgspec.json.encode(result.output).decode()
    return ToolResult(call_id=result.call_id, output=output, is_error=result.is_error)


def _parts(parts: Sequence[Part], role: str) -> Iterator[Part]:
    output = [part for part in parts if isinstance(part, File) or (isinstance(part, Text | Refusal) and part.text)]
    for is_file, group in groupby(output, lambda part: isinstance(part, File)):
        if is_file:
            yield from (_file(part) for part in group if isinstance(part, File))
        else:
            yield Text(text="".join(part.text for part in group if isinstance(part, Text | Refusal)))
    calls = [part for part in parts if isinstance(part, ToolCall)] if role == "assistant" else []
    yield from (
        ToolCall(call_id=call.call_id, name=call.name, arguments=msgspec.json.encode(call.parsed).decode())
        for call in calls
        if isinstance(call.parsed, dict)
    )
    yield from (call for call in calls if not isinstance(call.parsed, dict))


def _file(file: File) -> File:
    stored = File(media_type=file.media_type, filename=file.filename)
    if file.url is not None:
        return msgspec.structs.replace(stored, url=file.url)
    if file.data is None and file.file_id is not None:
        return msgspec.structs.replace(stored, file_id=file.file_id)
    return msgspec.structs.replace(stored, data=file.data or "")


def _named_calls(message: Message, index: int) -> Message:
    """Give calls without an id one from their position; leave out a second call with the same id."""
    parts: dict[Any, Part] = {}
    number = 0
    for position, part in enumerate(message.parts):
        if isinstance(part, ToolCall):
            call_id = part.call_id or f"call_{index}_{number}"
            number += 1
            named = ToolCall(call_id=call_id, name=part.name or "unknown", arguments=part.arguments)
            parts.setdefault(call_id, named)
        else:
            parts[position] = part
    return Message(role=message.role, parts=tuple(parts.values()), name=message.name)
