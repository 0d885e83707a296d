"""Anthropic messages: reading, writing, placement of tool results, and round trips up to the listed losses."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import dialects, json
from palaver.core.dialects import anthropic
from palaver.core.dialects.detection import dialect_of
from palaver.core.messages import Annotation, Data, File, Message, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from tests.core.strategies import messages

NOW = ToolCall(call_id="c", name="now", arguments='{"tz":1}')
CALL = {"type": "tool_use", "id": "c", "name": "now", "input": {"tz": 1}}
SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def tool_result(content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "c", "content": content, **fields}


def image(**source: Any) -> dict[str, Any]:
    return {"type": "image", "source": source}


def document(*, title: Any = None, **source: Any) -> dict[str, Any]:
    return {"type": "document", "source": source, **({} if title is None else {"title": title})}


def message_dict(role: str, *blocks: Any, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": [*blocks], **fields}


READ_CASES: dict[str, tuple[list[Any], list[Message]]] = {
    "text, blocks and nothing": (
        [
            {"role": "user", "content": "a"},
            message_dict("assistant", text("a"), text(""), "b", {"text": "c"}, {"text": ""}),
            {"role": "user", "content": ""},
            {"role": "user", "content": None},
            {"role": "user", "content": text("one")},
        ],
        [
            Message.user("a"),
            Message.assistant("a", "b", "c"),
            Message.user(),
            Message.user(),
            Message.user("one"),
        ],
    ),
    "the system, as a message": ([message_dict("system", text("Be brief."))], [Message.system("Be brief.")]),
    "a whole answer": (
        [message_dict("assistant", text("a"), id="msg_1", type="message", model="m", stop_reason="end_turn", usage={})],
        [Message(role="assistant", parts=(Text(text="a"),), id="msg_1")],
    ),
    "names": (
        [message_dict("user", text("a"), name="Ann"), message_dict("clerk", text("b"))],
        [
            Message(role="user", parts=(Text(text="a"),), name="Ann"),
            Message(role="assistant", parts=(Text(text="b"),), name="clerk"),
        ],
    ),
    "thinking": (
        [
            message_dict(
                "assistant",
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "thinking", "thinking": "so", "signature": ""},
                {"type": "thinking", "thinking": ""},
                {"type": "thinking", "thinking": "", "signature": "sig"},
                {"type": "redacted_thinking", "data": "xyz"},
                {"type": "redacted_thinking", "data": ""},
                {"type": "reasoning", "text": "r"},
                text("a"),
            )
        ],
        [
            Message.assistant(
                Reasoning(text="hm", encrypted="sig"),
                Reasoning(text="so"),
                Reasoning(text="", encrypted="sig"),
                Reasoning(text="", encrypted="xyz"),
                Reasoning(text="r"),
                "a",
            )
        ],
    ),
    "a call, its result and what follows": (
        [
            {"role": "user", "content": "Time?"},
            message_dict("assistant", text("Let me see."), CALL),
            message_dict("user", tool_result("noon"), text("And?")),
        ],
        [
            Message.user("Time?"),
            Message.assistant("Let me see.", NOW),
            Message.tool("c", "noon"),
            Message.user("And?"),
        ],
    ),
    "results wherever they stand": (
        [message_dict("user", text("a"), tool_result("1"), tool_result("2", tool_use_id="d"), text("b"), id="m")],
        [
            Message(role="user", parts=(Text(text="a"),), id="m"),
            Message.tool("c", "1"),
            Message.tool("d", "2"),
            Message.user("b"),
        ],
    ),
    "what results hold": (
        [
            message_dict(
                "user",
                tool_result([text("a"), text("b"), "c"]),
                tool_result(text("one")),
                tool_result([]),
                tool_result(None),
                {"type": "tool_result", "tool_use_id": "c"},
                {"type": "tool_result"},
                tool_result([text("a"), PNG]),
                tool_result({"x": 1}),
                tool_result("no clock", is_error=True),
                tool_result("odd", is_error="yes"),
            )
        ],
        [
            Message.tool("c", "abc"),
            Message.tool("c", "one"),
            Message.tool("c", ""),
            Message.tool("c", None),
            Message.tool("c", None),
            Message.tool("", None),
            Message.tool("c", [text("a"), PNG]),
            Message.tool("c", {"x": 1}),
            Message.tool("c", "no clock", is_error=True),
            Message.tool("c", "odd"),
        ],
    ),
    "a tool that speaks for itself": (
        [
            {"role": "tool", "tool_call_id": "c", "content": [text("a"), text("b")], "name": "now", "id": "m"},
            {"role": "tool", "content": [PNG]},
            message_dict("tool", tool_result("1"), text("b")),
        ],
        [
            Message(role="tool", parts=(ToolResult(call_id="c", output="ab"),), name="now", id="m"),
            Message.tool("", [PNG]),
            Message.tool("c", "1"),
            Message.user("b"),
        ],
    ),
    "calls without an id, a name or an input, and one told twice": (
        [
            message_dict("assistant", text("a"), {"type": "tool_use"}, CALL, {**CALL, "name": "again"}),
            message_dict("assistant", {"type": "tool_use", "id": "d", "name": "f", "input": '{"a'}),
        ],
        [
            Message.assistant("a", ToolCall(call_id="call_0_1", name=""), NOW),
            Message.assistant(ToolCall(call_id="d", name="f", arguments='{"a')),
        ],
    ),
    "calls beside the content": (
        [
            {
                **message_dict("assistant", CALL),
                "tool_calls": [
                    {"id": "c", "function": {"name": "now", "arguments": "{}"}},
                    {"id": "d", "function": {"name": "later", "arguments": "{ }"}},
                ],
            }
        ],
        [Message.assistant(NOW, ToolCall(call_id="d", name="later", arguments="{ }"))],
    ),
    "images": (
        [
            message_dict(
                "user",
                PNG,
                image(type="base64", data="AAAA"),
                image(type="url", url="https://host/a"),
                image(type="url", url="data:image/gif;base64,AAAA"),
                image(type="file", file_id="f"),
                {"type": "image_url", "image_url": {"url": "https://host/b"}},
                {"type": "image_url", "image_url": "https://host/c"},
            )
        ],
        [
            Message.user(
                File(media_type="image/png", data="AAAA"),
                File(media_type="image/*", data="AAAA"),
                File(media_type="image/*", url="https://host/a"),
                File(media_type="image/gif", data="AAAA"),
                File(media_type="image/*", file_id="f"),
                File(media_type="image/*", url="https://host/b"),
                File(media_type="image/*", url="https://host/c"),
            )
        ],
    ),
    "documents": (
        [
            message_dict(
                "user",
                document(type="base64", media_type="application/pdf", data="AAAA", title="a.pdf"),
                document(type="base64", data="AAAA", title=5),
                document(type="text", media_type="text/plain", data="hello"),
                document(type="text", data="\ud800"),
                document(type="url", url="https://host/a"),
                document(type="file", file_id="f"),
            )
        ],
        [
            Message.user(
                File(media_type="application/pdf", data="AAAA", filename="a.pdf"),
                File(media_type="application/octet-stream", data="AAAA"),
                File(media_type="text/plain", data="aGVsbG8="),
                File(media_type="text/plain", data="Pw=="),
                File(media_type="application/pdf", url="https://host/a"),
                File(media_type="application/octet-stream", file_id="f"),
            )
        ],
    ),
    "citations": (
        [
            message_dict(
                "assistant",
                {
                    **text("a"),
                    "citations": [
                        {"type": "web_search_result_location", "url": "u", "title": "t", "cited_text": "x"},
                        {"type": "search_result_location", "source": "s", "title": None},
                        {"type": "char_location", "document_title": "d", "start_char_index": 1, "end_char_index": 2},
                        {"type": "page_location", "file_id": "f"},
                        {"type": "web_search_result_location"},
                        5,
                    ],
                },
            )
        ],
        [
            Message.assistant(
                Text(
                    text="a",
                    annotations=(
                        Annotation(kind="url", url="u", title="t"),
                        Annotation(kind="url", url="s"),
                        Annotation(kind="file", title="d"),
                        Annotation(kind="file", file_id="f"),
                    ),
                )
            )
        ],
    ),
    "our own data": (
        [message_dict("user", {"type": "palaver:data", "source": {"name": "chart", "value": [1]}})],
        [Message.user(Data(name="chart", value=[1]))],
    ),
    "any other part, with its raw value": (
        [
            message_dict(
                "assistant",
                SEARCH,
                {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
                {"type": "thinking"},
                document(type="content", content="x"),
                {"type": "image", "source": "here"},
                {"type": "palaver:data", "source": {"name": 5, "value": 5}},
                {"x": 1},
                5,
            )
        ],
        [
            Message.assistant(
                Data(name="anthropic:server_tool_use", value=SEARCH),
                Data(
                    name="anthropic:web_search_tool_result",
                    value={"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
                ),
                Data(name="anthropic:thinking", value={"type": "thinking"}),
                Data(name="anthropic:document", value=document(type="content", content="x")),
                Data(name="anthropic:image", value={"type": "image", "source": "here"}),
                Data(
                    name="anthropic:palaver:data",
                    value={"type": "palaver:data", "source": {"name": 5, "value": 5}},
                ),
                Data(name="anthropic:part", value={"x": 1}),
                Data(name="anthropic:part", value=5),
            )
        ],
    ),
}


@pytest.mark.parametrize(("elements", "expected"), READ_CASES.values(), ids=READ_CASES)
def test_messages_are_read(elements: list[Any], expected: list[Message]) -> None:
    assert anthropic.read(elements) == expected


WRITE_CASES: dict[str, tuple[list[Message], list[Any]]] = {
    "texts": (
        [Message.user("a"), Message.assistant("a", "", "b"), Message.user(), Message.user("")],
        [
            {"role": "user", "content": "a"},
            message_dict("assistant", text("a"), text("b")),
            {"role": "user", "content": ""},
            {"role": "user", "content": ""},
        ],
    ),
    "instructions": (
        [Message.system("a"), Message(role="developer", parts=(Text(text="b"),), id="m", name="n", metadata={"x": 1})],
        [{"role": "system", "content": "a"}, {"role": "system", "content": "b"}],
    ),
    "results before what the user says": (
        [
            Message.assistant("Let me see.", NOW),
            Message.tool("c", "noon"),
            Message.tool("d", {"h": 12}, is_error=True),
            Message.user("And?"),
            Message.user("Well?"),
        ],
        [
            message_dict("assistant", text("Let me see."), CALL),
            message_dict(
                "user",
                tool_result("noon"),
                {"type": "tool_result", "tool_use_id": "d", "content": '{"h":12}', "is_error": True},
                text("And?"),
            ),
            {"role": "user", "content": "Well?"},
        ],
    ),
    "results that nobody speaks after": (
        [Message.tool("c", "1"), Message.user(), Message.tool("c", "2"), Message.assistant("a"), Message.tool("c", "")],
        [
            message_dict("user", tool_result("1")),
            {"role": "user", "content": ""},
            message_dict("user", tool_result("2")),
            {"role": "assistant", "content": "a"},
            message_dict("user", tool_result("")),
        ],
    ),
    "results inside messages": (
        [Message.assistant(NOW, ToolResult(call_id="c", output="1"), "a"), Message(role="tool", parts=())],
        [
            message_dict("assistant", CALL),
            message_dict("user", tool_result("1")),
            {"role": "assistant", "content": "a"},
        ],
    ),
    "results that are blocks, nothing, or neither": (
        [
            Message.tool("c", [text("a"), PNG]),
            Message.tool("c", None),
            Message.tool("c", []),
            Message.tool("c", [PNG, {"type": "x"}]),
        ],
        [
            message_dict(
                "user",
                tool_result([text("a"), PNG]),
                {"type": "tool_result", "tool_use_id": "c"},
                tool_result("[]"),
                tool_result(
                    '[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},{"type":"x"}]'
                ),
            )
        ],
    ),
    "arguments that are none, or no object": (
        [
            Message.assistant(
                ToolCall(call_id="a", name="f"),
                ToolCall(call_id="b", name="f", arguments="{tz"),
                ToolCall(call_id="c", name="f", arguments='"x"'),
            )
        ],
        [
            message_dict(
                "assistant",
                {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                {"type": "tool_use", "id": "b", "name": "f", "input": "{tz"},
                {"type": "tool_use", "id": "c", "name": "f", "input": '"x"'},
            )
        ],
    ),
    "files": (
        [
            Message.user(
                File(media_type="image/png", data="AAAA", filename="a.png", detail="low"),
                File(media_type="image/png", url="https://host/a"),
                File(media_type="application/pdf", file_id="f", url="https://host/a", filename="a.pdf"),
                File(media_type="application/pdf"),
                File(media_type="text/plain", data="aGVsbG8="),
                File(media_type="text/plain", data="/w=="),
                File(media_type="text/plain", data="aGVsbG9="),
                File(media_type="text/plain", data="é"),
            )
        ],
        [
            message_dict(
                "user",
                PNG,
                image(type="url", url="https://host/a"),
                document(type="file", file_id="f", title="a.pdf"),
                document(type="base64", media_type="application/pdf", data=""),
                document(type="text", media_type="text/plain", data="hello"),
                document(type="base64", media_type="text/plain", data="/w=="),
                document(type="base64", media_type="text/plain", data="aGVsbG9="),
                document(type="base64", media_type="text/plain", data="é"),
            )
        ],
    ),
    "the rest": (
        [
            Message.assistant(
                Reasoning(text="hm", encrypted="sig"),
                Reasoning(text="so"),
                Reasoning(text="", encrypted="xyz"),
                Reasoning(text=""),
                Text(text="a", annotations=(Annotation(kind="url", url="u"),)),
                Refusal(text="no"),
                Data(name="chart", value=None),
                Data(name="anthropic:server_tool_use", value=SEARCH),
            )
        ],
        [
            message_dict(
                "assistant",
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "thinking", "thinking": "so", "signature": ""},
                {"type": "redacted_thinking", "data": "xyz"},
                text("a"),
                text("no"),
                {"type": "palaver:data", "source": {"name": "chart", "value": None}},
                SEARCH,
            )
        ],
    ),
    "nothing that was only data": (
        [
            Message.assistant(
                Data(name="anthropic:text", value=text("a")),
                Data(name="anthropic:tool_use", value=CALL),
                Data(name="anthropic:custom", value={"type": "other"}),
                Data(name="anthropic:part", value=5),
            )
        ],
        [
            message_dict(
                "assistant",
                {"type": "palaver:data", "source": {"name": "anthropic:text", "value": text("a")}},
                {"type": "palaver:data", "source": {"name": "anthropic:tool_use", "value": CALL}},
                {"type": "palaver:data", "source": {"name": "anthropic:custom", "value": {"type": "other"}}},
                {"type": "palaver:data", "source": {"name": "anthropic:part", "value": 5}},
            )
        ],
    ),
}


@pytest.mark.parametrize(("conversation", "expected"), WRITE_CASES.values(), ids=WRITE_CASES)
def test_messages_are_written(conversation: list[Message], expected: list[dict[str, Any]]) -> None:
    assert anthropic.write(conversation) == expected


@given(st.lists(messages, max_size=5))
def test_messages_round_trip_up_to_the_listed_losses(conversation: list[Message]) -> None:
    encoded = anthropic.write(conversation)

    decoded = anthropic.read(encoded)

    assert decoded == normalize(conversation)
    assert anthropic.read(msgspec.json.decode(msgspec.json.encode(encoded))) == decoded


@given(st.lists(messages, max_size=5))
def test_a_second_round_trip_loses_nothing(conversation: list[Message]) -> None:
    decoded = anthropic.read(anthropic.write(conversation))

    assert anthropic.read(anthropic.write(decoded)) == decoded


@given(messages)
def test_written_messages_are_detected_as_anthropic_or_read_alike(conversation: Message) -> None:
    for element in anthropic.write([conversation]):
        dialect = dialect_of(element)

        assert dialect in ("anthropic", "chat-completions")
        if dialect == "chat-completions":
            assert dialects.read([element]) == anthropic.read([element])


# Malformed messages


_words = st.sampled_from(
    "user assistant tool system message text thinking redacted_thinking reasoning tool_use tool_result image document"
    " server_tool_use palaver:data image_url base64 url file content web_search_result_location char_location"
    " \0 \ud800 data:;base64,AA".split()
)
_keys = st.sampled_from(
    "role type content text parts id name input tool_use_id is_error source media_type data url file_id title citations"
    " thinking signature value image_url tool_calls function_call additional_kwargs tool_call_id function arguments"
    " delta message".split()
)
_odd_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.just(1.5) | _words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=6),
    max_leaves=16,
)
_blocks = st.builds(lambda kind, rest: {**rest, "type": kind}, _words, st.dictionaries(_keys, _odd_values, max_size=5))
_elements = st.builds(
    lambda role, rest, content: {**rest, "role": role, "content": content},
    _words,
    st.dictionaries(_keys, _odd_values, max_size=4),
    st.lists(_blocks | _odd_values, max_size=4) | _odd_values,
)


@given(st.lists(_elements | _odd_values, max_size=3))
def test_malformed_messages_never_raise(elements: list[Any]) -> None:
    read = anthropic.read(elements)

    for other in (anthropic, *dialects.DIALECT_MODULES.values()):
        other.write(read)


def test_very_long_texts_are_read() -> None:
    long = "x" * 10_000_000

    assert anthropic.read([message_dict("assistant", CALL, text(long)), message_dict("user", tool_result(long))]) == [
        Message.assistant(NOW, long),
        Message.tool("c", long),
    ]


@pytest.mark.parametrize("block", [{"type": "x", "value": 5}, tool_result(5), {**CALL, "input": 5}])
def test_too_deeply_nested_content_raises_not_json(block: dict[str, Any]) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [{"type": "x", "content": deep}]
    element = message_dict("assistant", {key: deep if value == 5 else value for key, value in block.items()})

    with pytest.raises(json.NotJson):
        anthropic.read([element])


# The normal form: messages after the losses listed in LOSSES


def normalize(conversation: Sequence[Message]) -> list[Message]:
    return [one for message in conversation for one in _split(message)]


def _split(message: Message) -> Iterator[Message]:
    role = "system" if message.role == "developer" else message.role
    if not message.parts and role != "tool":
        yield Message(role=role, parts=())
    for are_results, group in groupby(message.parts, lambda part: isinstance(part, ToolResult)):
        if are_results:
            yield from (Message(role="tool", parts=(_result(part),)) for part in group if isinstance(part, ToolResult))
        elif role != "tool":
            yield Message(role=role, parts=tuple(_drop_repeated_calls(group)))


def _drop_repeated_calls(group: Iterator[Part]) -> Iterator[Part]:
    calls: set[str] = set()
    for part in group:
        if isinstance(part, ToolCall):
            if part.call_id in calls:
                continue
            calls.add(part.call_id)
        yield from _part(part)


def _result(result: ToolResult) -> ToolResult:
    output = result.output
    if output is not None and not isinstance(output, str):
        output = msgspec.json.encode(output).decode()
    return ToolResult(call_id=result.call_id, output=output, is_error=result.is_error)


def _part(part: Part) -> Iterator[Part]:
    match part:
        case Text(text=words) | Refusal(text=words):
            if words:
                yield Text(text=words)
        case Reasoning(text=words, encrypted=encrypted):
            if words or encrypted:
                yield Reasoning(text=words, encrypted=encrypted or None)
        case ToolCall(call_id=call_id, name=name, arguments=arguments):
            value = part.parsed
            output = msgspec.json.encode(value).decode() if isinstance(value, dict) else arguments
            yield ToolCall(call_id=call_id, name=name, arguments=output)
        case File():
            yield _file(part)
        case _:
            yield part


def _file(file: File) -> File:
    is_image = file.media_type.startswith("image/")
    filename = None if is_image else file.filename
    if file.file_id is not None:
        media_type = "image/*" if is_image else "application/octet-stream"
        return File(media_type=media_type, file_id=file.file_id, filename=filename)
    if file.url is not None:
        return File(media_type="image/*" if is_image else "application/pdf", url=file.url, filename=filename)
    return File(media_type=file.media_type, data=file.data or "", filename=filename)
