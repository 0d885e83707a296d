"""Chat Completions messages: reading, writing, and round trips up to the listed losses."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core.dialects import chat_completions
from palaver.core.messages import Annotation, Data, File, Message, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from tests.core.strategies import messages

PNG = "data:image/png;base64,AAAA"


def function(name: str, arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def assistant(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant", **fields}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


NOW = ToolCall(call_id="c", name="now", arguments='{"tz": 1}')

READ_CASES: dict[str, tuple[dict[str, Any], Message]] = {
    "text": ({"role": "user", "content": "hi"}, Message.user("hi")),
    "an id and a name": (
        {"role": "user", "content": "hi", "id": "m", "name": "Ann"},
        Message(role="user", parts=(Text(text="hi"),), id="m", name="Ann"),
    ),
    "nothing": ({"role": "assistant", "content": None}, Message.assistant()),
    "empty text": ({"role": "assistant", "content": ""}, Message.assistant()),
    "text under other names": ({"sender": "user", "text": "hi"}, Message.user("hi")),
    "text under message": ({"author": "AI", "message": "hi"}, Message.assistant("hi")),
    "a delta": (assistant(delta={"content": "hi"}), Message.assistant("hi")),
    "an odd delta": (assistant(delta=5, content=None), Message.assistant()),
    "parts win over content": (assistant(content="a", parts=["b", {"text": "c"}]), Message.assistant("b", "c")),
    "empty parts do not": (assistant(content="a", parts=[]), Message.assistant("a")),
    "a null before text": (assistant(content=None, text="a"), Message.assistant("a")),
    "an unknown role": (
        {"role": "researcher", "content": "hi"},
        Message(role="assistant", name="researcher", parts=(Text(text="hi"),)),
    ),
    "parts of text": (
        user("a", {"type": "text", "text": "b"}, {"type": "input_text", "text": "c"}, {"text": "d"}),
        Message.user("a", "b", "c", "d"),
    ),
    "empty parts of text": (
        user("", {"type": "text", "text": ""}, {"type": "output_text", "text": ""}, {"text": ""}),
        Message.user(),
    ),
    "one part alone": ({"role": "user", "content": {"type": "text", "text": "a"}}, Message.user("a")),
    "reasoning and refusal": (
        assistant(content="a", reasoning_content="hm", refusal="no"),
        Message.assistant(Reasoning(text="hm"), "a", Refusal(text="no")),
    ),
    "reasoning and refusal in parts": (
        assistant(content=[{"type": "reasoning", "text": "hm"}, {"type": "refusal", "refusal": "no"}]),
        Message.assistant(Reasoning(text="hm"), Refusal(text="no")),
    ),
    "an image by URL": (
        user({"type": "image_url", "image_url": {"url": "https://host/a", "detail": "low"}}),
        Message.user(File(media_type="image/*", url="https://host/a", detail="low")),
    ),
    "an image as data": (
        user({"type": "image_url", "image_url": PNG}, {"type": "image_url", "image_url": {"url": PNG, "detail": 1}}),
        Message.user(File(media_type="image/png", data="AAAA"), File(media_type="image/png", data="AAAA")),
    ),
    "an image of no type": (
        user({"type": "image_url", "image_url": {"url": "data:;base64,AAAA"}}),
        Message.user(File(media_type="image/*", data="AAAA")),
    ),
    "a sound": (
        user({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}),
        Message.user(File(media_type="audio/wav", data="AAAA")),
    ),
    "files": (
        user(
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}},
            {"type": "file", "file": {"file_data": "AAAA", "filename": 5}},
            {"type": "file", "file": {"file_data": "https://host/a.pdf"}},
            {"type": "file", "file": {"file_data": "data:text/plain,hi"}},
            {"type": "file", "file": {"file_id": "f"}},
            {"type": "file", "file": {}},
        ),
        Message.user(
            File(media_type="application/pdf", data="AAAA", filename="a.pdf"),
            File(media_type="application/octet-stream", data="AAAA"),
            File(media_type="application/octet-stream", url="https://host/a.pdf"),
            File(media_type="application/octet-stream", url="data:text/plain,hi"),
            File(media_type="application/octet-stream", file_id="f"),
            File(media_type="application/octet-stream"),
        ),
    ),
    "any other part, with its raw value": (
        user({"type": "video_url", "video_url": "x"}, {"type": 5}, {"type": "text", "text": 5}),
        Message.user(
            Data(name="chat-completions:video_url", value={"type": "video_url", "video_url": "x"}),
            Data(name="chat-completions:part", value={"type": 5}),
            Data(name="chat-completions:text", value={"type": "text", "text": 5}),
        ),
    ),
    "content that is no content": (
        assistant(content=5, tool_calls=[]),
        Message.assistant(Data(name="chat-completions:part", value=5)),
    ),
    "calls": (
        assistant(content=None, tool_calls=[{"id": "c", "type": "function", "function": function("now", '{"tz": 1}')}]),
        Message.assistant(NOW),
    ),
    "calls with their arguments as an object": (
        assistant(
            tool_calls=[{"id": "c", "name": "now", "args": {"tz": 1}}, {"id": "d", "function": function("f", None)}]
        ),
        Message.assistant(ToolCall(call_id="c", name="now", arguments='{"tz":1}'), ToolCall(call_id="d", name="f")),
    ),
    "OpenInference's calls": (
        assistant(tool_calls=[{"tool_call": {"id": "c", "function": function("now", '{"tz": 1}')}}]),
        Message.assistant(NOW),
    ),
    "LangChain's calls": (
        assistant(
            content="", additional_kwargs={"tool_calls": [{"id": "c", "function": function("now", '{"tz": 1}')}]}
        ),
        Message.assistant(NOW),
    ),
    "a call that comes twice, and no call": (
        assistant(tool_calls=[{"id": "c", "function": function("now", '{"tz": 1}')}, {"id": "c", "name": "f"}, 5]),
        Message.assistant(NOW),
    ),
    "calls without ids": (
        assistant(tool_calls=[{"name": "f"}, {"id": "", "name": 5}]),
        Message.assistant(ToolCall(call_id="call_0_0", name="f"), ToolCall(call_id="call_0_1", name="")),
    ),
    "a legacy call": (
        assistant(content=None, function_call=function("now", '{"tz": 1}')),
        Message.assistant(ToolCall(call_id="call_0", name="now", arguments='{"tz": 1}')),
    ),
    "a result": (
        {"role": "tool", "tool_call_id": "c", "content": "12:00", "name": "now"},
        Message(role="tool", parts=(ToolResult(call_id="c", output="12:00"),), name="now"),
    ),
    "a result in parts of text": (
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "12"}, ":00"]},
        Message.tool("c", "12:00"),
    ),
    "a result in other parts": (
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "image_url", "image_url": PNG}]},
        Message.tool("c", [{"type": "image_url", "image_url": PNG}]),
    ),
    "a result of nothing": ({"role": "tool", "tool_call_id": "c"}, Message.tool("c", None)),
    "a result under another name": ({"role": "tool", "tool_call_id": "c", "message": "x"}, Message.tool("c", "x")),
    "a result that is an error": (
        {"role": "tool", "tool_call_id": "c", "content": "no", "palaver": {"is_error": True}},
        Message.tool("c", "no", is_error=True),
    ),
    "a result by its tool": (
        {"role": "weather", "tool_call_id": "c", "content": "sun"},
        Message(role="tool", parts=(ToolResult(call_id="c", output="sun"),), name="weather"),
    ),
    "data of ours": (
        assistant(content="a", palaver={"data": [{"name": "n", "value": 1}, {"name": "m"}, {"value": 2}, 5]}),
        Message.assistant("a", Data(name="n", value=1), Data(name="m")),
    ),
    "something else under our name": (assistant(content="a", palaver={"data": 5}), Message.assistant("a")),
    "annotations": (
        assistant(
            content=[{"type": "image_url", "image_url": "https://host/a"}, "a", "b"],
            annotations=[
                {
                    "type": "url_citation",
                    "url_citation": {"url": "https://host/", "title": "T", "start_index": 0, "end_index": 1},
                },
                {"type": "url_citation", "url_citation": {"url": "https://host/", "title": 5, "start_index": "0"}},
                {"type": "url_citation", "url_citation": {"title": "no url"}},
                5,
            ],
        ),
        Message.assistant(
            File(media_type="image/*", url="https://host/a"),
            Text(
                text="a",
                annotations=(
                    Annotation(kind="url", url="https://host/", title="T", start=0, end=1),
                    Annotation(kind="url", url="https://host/"),
                ),
            ),
            "b",
        ),
    ),
    "annotations of nothing": (
        assistant(content=None, annotations=[{"url_citation": {"url": "x"}}]),
        Message.assistant(),
    ),
}


@pytest.mark.parametrize(("element", "message"), READ_CASES.values(), ids=READ_CASES)
def test_a_message_is_read(element: dict[str, Any], message: Message) -> None:
    assert chat_completions.read([element]) == [message]


def test_a_legacy_function_result_is_matched_to_its_call_by_name() -> None:
    elements = [
        {"role": "user", "content": "When?"},
        assistant(content=None, function_call=function("now", "{}")),
        {"role": "function", "name": "now", "content": "12:00"},
        {"role": "function", "name": "later", "content": "?"},
    ]

    assert chat_completions.read(elements)[1:] == [
        Message.assistant(ToolCall(call_id="call_1", name="now", arguments="{}")),
        Message(role="tool", name="now", parts=(ToolResult(call_id="call_1", output="12:00"),)),
        Message(role="tool", name="later", parts=(ToolResult(call_id="", output="?"),)),
    ]


WRITE_CASES: dict[str, tuple[Message, list[dict[str, Any]]]] = {
    "text": (Message.user("a", "b"), [{"role": "user", "content": "ab"}]),
    "nothing": (Message.assistant(), [assistant(content="")]),
    "a name": (
        Message(role="developer", parts=(Text(text="a"),), name="x", id="m", metadata={"a": 1}),
        [{"role": "developer", "content": "a", "name": "x"}],
    ),
    "everything an assistant says": (
        Message.assistant(
            NOW,
            Data(name="n", value=1),
            Text(text="a", annotations=(Annotation(kind="url", url="u", end=1), Annotation(kind="span", start=1))),
            Refusal(text="no"),
            Reasoning(text="hm"),
        ),
        [
            {
                "role": "assistant",
                "content": "a",
                "reasoning_content": "hm",
                "refusal": "no",
                "annotations": [{"type": "url_citation", "url_citation": {"url": "u", "end_index": 1}}],
                "tool_calls": [{"id": "c", "type": "function", "function": function("now", '{"tz": 1}')}],
                "palaver": {"data": [{"name": "n", "value": 1}]},
            }
        ],
    ),
    "a call alone has null content": (
        Message.assistant(NOW),
        [
            assistant(
                content=None, tool_calls=[{"id": "c", "type": "function", "function": function("now", '{"tz": 1}')}]
            )
        ],
    ),
    "files": (
        Message.user(
            "a",
            File(media_type="image/png", url="https://host/a", detail="low"),
            File(media_type="image/png", data="AAAA"),
            File(media_type="image/png", file_id="f"),
            File(media_type="audio/wav", data="AAAA"),
            File(media_type="application/pdf", data="AAAA", filename="a.pdf"),
            File(media_type="application/pdf", url="https://host/a.pdf"),
            File(media_type="application/pdf"),
        ),
        [
            user(
                {"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {"url": "https://host/a", "detail": "low"}},
                {"type": "image_url", "image_url": {"url": PNG}},
                {"type": "file", "file": {"file_id": "f"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}},
                {"type": "file", "file": {"file_data": "https://host/a.pdf"}},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,"}},
            )
        ],
    ),
    "results": (
        Message(
            role="tool",
            name="now",
            parts=(
                ToolResult(call_id="c", output={"h": 12}),
                Text(text="?"),
                ToolResult(call_id="d", output="x", is_error=True),
            ),
        ),
        [
            {"role": "tool", "tool_call_id": "c", "content": '{"h":12}', "name": "now"},
            {"role": "tool", "tool_call_id": "d", "content": "x", "name": "now", "palaver": {"is_error": True}},
        ],
    ),
    "a message with its own result stays in order": (
        Message.assistant(NOW, ToolResult(call_id="c", output="12:00"), "Noon."),
        [
            assistant(
                content=None, tool_calls=[{"id": "c", "type": "function", "function": function("now", '{"tz": 1}')}]
            ),
            {"role": "tool", "tool_call_id": "c", "content": "12:00"},
            assistant(content="Noon."),
        ],
    ),
    "a user's result goes first": (
        Message.user(ToolResult(call_id="c", output="12:00"), "So?"),
        [{"role": "tool", "tool_call_id": "c", "content": "12:00"}, {"role": "user", "content": "So?"}],
    ),
}


@pytest.mark.parametrize(("message", "expected"), WRITE_CASES.values(), ids=WRITE_CASES)
def test_a_message_is_written(message: Message, expected: list[dict[str, Any]]) -> None:
    assert chat_completions.write([message]) == expected


@given(st.lists(messages, max_size=4))
def test_messages_round_trip_up_to_the_listed_losses(conversation: list[Message]) -> None:
    encoded = chat_completions.write(conversation)

    decoded = chat_completions.read(encoded)

    assert decoded == normalize(conversation)
    assert chat_completions.read(msgspec.json.decode(msgspec.json.encode(encoded))) == decoded


@given(st.lists(messages, max_size=4))
def test_a_second_round_trip_loses_nothing(conversation: list[Message]) -> None:
    decoded = chat_completions.read(chat_completions.write(conversation))

    assert chat_completions.read(chat_completions.write(decoded)) == decoded


# The normal form: a message after the losses listed in LOSSES


def normalize(conversation: Sequence[Message]) -> list[Message]:
    complete = [one for message in conversation for one in _split(message)]
    return [_named_calls(one, index) for index, one in enumerate(complete)]


def _split(message: Message) -> Iterator[Message]:
    """Split results into separate messages; a tool message holds nothing else."""
    if not message.parts and message.role != "tool":
        yield Message(role=message.role, parts=(), name=message.name)
    for are_results, group in groupby(message.parts, lambda part: isinstance(part, ToolResult)):
        if are_results:
            for result in group:
                name = message.name if message.role == "tool" else None
                yield Message(role="tool", parts=(_result(result),), name=name)
        elif message.role != "tool":
            yield Message(role=message.role, parts=tuple(_parts(list(group), message.role)), name=message.name)


def _result(result: Any) -> ToolResult:
    output = result.output if isinstance(result.output, str) else msgspec.json.encode(result.output).decode()
    return ToolResult(call_id=result.call_id, output=output, is_error=result.is_error)


def _parts(parts: Sequence[Part], role: str) -> Iterator[Part]:
    is_assistant = role == "assistant"
    if is_assistant and (reasoning := "".join(part.text for part in parts if isinstance(part, Reasoning))):
        yield Reasoning(text=reasoning)
    output = [part for part in parts if isinstance(part, File) or (isinstance(part, Text) and part.text)]
    has_annotations = False
    for is_text, group in groupby(output, lambda part: isinstance(part, Text)):
        if not is_text:
            yield from (_file(part) for part in group if isinstance(part, File))
            continue
        texts = [part for part in group if isinstance(part, Text)]
        notes = (
            tuple(map(_note, filter(_is_citation, texts[0].annotations)))
            if is_assistant and not has_annotations
            else ()
        )
        has_annotations = True
        yield Text(text="".join(part.text for part in texts), annotations=notes)
    if is_assistant and (refusal := "".join(part.text for part in parts if isinstance(part, Refusal))):
        yield Refusal(text=refusal)
    if is_assistant:
        yield from (part for part in parts if isinstance(part, ToolCall))
    yield from (part for part in parts if isinstance(part, Data))


def _is_citation(note: Annotation) -> bool:
    return note.kind == "url" and note.url is not None


def _note(note: Annotation) -> Annotation:
    return Annotation(kind="url", title=note.title, url=note.url, start=note.start, end=note.end)


def _file(file: File) -> File:
    if file.media_type.startswith("audio/") and file.data:
        return File(media_type=file.media_type, data=file.data)
    if file.media_type.startswith("image/") and file.file_id is None:
        if file.url is not None:
            return File(media_type="image/*", url=file.url, detail=file.detail)
        return File(media_type=file.media_type, data=file.data or "", detail=file.detail)
    if file.file_id is not None:
        return File(media_type="application/octet-stream", file_id=file.file_id, filename=file.filename)
    if file.url is not None:
        return File(media_type="application/octet-stream", url=file.url, filename=file.filename)
    return File(media_type=file.media_type, data=file.data or "", filename=file.filename)


def _named_calls(message: Message, index: int) -> Message:
    """Give calls without an id one from their position; leave out a second call with the same id."""
    parts: dict[Any, Part] = {}
    number = 0
    for position, part in enumerate(message.parts):
        if isinstance(part, ToolCall):
            call_id = part.call_id or f"call_{index}_{number}"
            number += 1
            parts.setdefault(call_id, ToolCall(call_id=call_id, name=part.name, arguments=part.arguments))
        else:
            parts[position] = part
    return Message(role=message.role, parts=tuple(parts.values()), name=message.name)
