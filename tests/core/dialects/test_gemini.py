"""Gemini contents: parts, matching results to calls, and round trips up to the listed losses."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import json
from palaver.core.dialects import gemini
from palaver.core.dialects.detection import dialect_of
from palaver.core.messages import Annotation, Data, File, Message, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from tests.core.strategies import Unwritable, messages


def call(name: str = "now", **fields: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, **fields}}


def response(name: str = "now", **fields: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, **fields}}


def now_call(call_id: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(call_id=call_id, name="now", arguments=arguments)


def content(role: str, *parts: Any) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


CODE = {"executableCode": {"language": "PYTHON", "code": "1"}}
CODE_RESULT = {"code_execution_result": {"outcome": "OUTCOME_OK", "output": "1"}}

READ_CASES: dict[str, tuple[list[Any], list[Message]]] = {
    "text": ([{"text": "a"}, "b", {"text": ""}, {"type": "text", "text": "c"}], [Message.assistant("a", "b", "c")]),
    "nothing": ([], [Message.assistant()]),
    "no words": ([{"text": ""}, {"text": "", "thought": True}], [Message.assistant()]),
    "reasoning": (
        [
            {"text": "r", "thought": True},
            {"text": "s", "thought": True, "thoughtSignature": "x"},
            {"type": "reasoning", "text": "t", "thought_signature": "y"},
            {"text": "a", "thought": False},
        ],
        [
            Message.assistant(
                Reasoning(text="r"), Reasoning(text="s", encrypted="x"), Reasoning(text="t", encrypted="y"), "a"
            )
        ],
    ),
    "signatures on what is no thought": (
        [
            {**call(id="c", args={}), "thoughtSignature": "x"},
            {"text": "a", "thoughtSignature": "y"},
            {"text": "", "thoughtSignature": "z"},
        ],
        [
            Message.assistant(
                Reasoning(text="", encrypted="x"),
                now_call("c"),
                Reasoning(text="", encrypted="y"),
                "a",
                Reasoning(text="", encrypted="z"),
            )
        ],
    ),
    "calls": (
        [
            call(id="c", args={"tz": [1, "é"]}),
            {**call(id="c", args={}), "thoughtSignature": "x"},
            call(),
            {"text": None, "function_call": {"id": None, "name": "now", "args": '{"tz": 1}'}, "thought": None},
            {"functionCall": {}},
        ],
        [
            Message.assistant(
                now_call("c", '{"tz":[1,"é"]}'),
                Reasoning(text="", encrypted="x"),
                now_call("call_0_2", ""),
                now_call("call_0_3", '{"tz": 1}'),
                ToolCall(call_id="call_0_4", name=""),
            )
        ],
    ),
    "results between words": (
        [
            {"text": "a"},
            response(id="c", response={"t": 1}),
            {"function_response": {"name": "now", "id": "d", "response": "late"}},
            {"text": "b"},
        ],
        [
            Message.assistant("a"),
            Message(role="tool", name="now", parts=(ToolResult(call_id="c", output={"t": 1}),)),
            Message(role="tool", name="now", parts=(ToolResult(call_id="d", output="late"),)),
            Message.assistant("b"),
        ],
    ),
    "results that say what they are": (
        [
            call(id="c"),
            response(id="c", response={"output": [1]}),
            response(id="c", response={"error": "no"}),
            response(id="c", response={"error": None, "output": 1}),
            response(id="c"),
        ],
        [
            Message.assistant(now_call("c", "")),
            Message.tool("c", [1]),
            Message.tool("c", "no", is_error=True),
            Message.tool("c", {"error": None, "output": 1}),
            Message.tool("c", None),
        ],
    ),
    "a result with files": (
        [response("", id="c", response={}, parts=[{"inlineData": {"mimeType": "image/png", "data": "AA"}}, {}])],
        [
            Message(
                role="tool",
                parts=(ToolResult(call_id="c", output={}), File(media_type="image/png", data="AA")),
            )
        ],
    ),
    "files": (
        [
            {"inlineData": {"mimeType": "image/png", "data": "AAAA", "displayName": "a.png"}},
            {"inline_data": {"mime_type": "image/png", "data": "AAAA"}},
            {"inlineData": {"data": "AAAA"}},
            {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://bucket/a"}, "videoMetadata": {"fps": 1}},
            {"file_data": {"file_uri": "https://host/a", "display_name": "a"}},
            {"fileData": {"mimeType": "image/png", "fileUri": "data:image/gif;base64,AA"}},
            {"fileData": {"fileUri": "data:image/gif;base64,AA"}},
            {"fileData": {"mimeType": "image/png", "fileUri": "files/a"}},
        ],
        [
            Message.assistant(
                File(media_type="image/png", data="AAAA", filename="a.png"),
                File(media_type="image/png", data="AAAA"),
                File(media_type="application/octet-stream", data="AAAA"),
                File(media_type="video/mp4", url="gs://bucket/a"),
                File(media_type="application/octet-stream", url="https://host/a", filename="a"),
                File(media_type="image/png", data="AA"),
                File(media_type="image/gif", data="AA"),
                File(media_type="image/png", file_id="files/a"),
            )
        ],
    ),
    "what has no place with us": (
        [
            CODE,
            CODE_RESULT,
            {"functionCall": 5},
            {"functionResponse": [1]},
            {"inlineData": {"data": 5}},
            {"thought": True, "toolCall": {"id": "x"}},
            {"type": "x", "text": "a"},
            {"text": None},
            5,
        ],
        [
            Message.assistant(
                Data(name="gemini:executableCode", value=CODE),
                Data(name="gemini:codeExecutionResult", value=CODE_RESULT),
                Data(name="gemini:functionCall", value={"functionCall": 5}),
                Data(name="gemini:functionResponse", value={"functionResponse": [1]}),
                Data(name="gemini:inlineData", value={"inlineData": {"data": 5}}),
                Data(name="gemini:toolCall", value={"thought": True, "toolCall": {"id": "x"}}),
                Data(name="gemini:x", value={"type": "x", "text": "a"}),
                Data(name="gemini:part", value={"text": None}),
                Data(name="gemini:part", value=5),
            )
        ],
    ),
}


@pytest.mark.parametrize(("parts", "expected"), READ_CASES.values(), ids=READ_CASES)
def test_a_message_is_read(parts: list[Any], expected: list[Message]) -> None:
    assert gemini.read([content("model", *parts)]) == expected


@pytest.mark.parametrize(
    ("element", "message"),
    [
        ({"parts": [{"text": "a"}]}, Message.user("a")),
        ({"role": "user", "parts": [{"text": "a"}]}, Message.user("a")),
        ({"role": "Model", "parts": [{"text": "a"}]}, Message.assistant("a")),
        ({"role": "system", "parts": [{"text": "a"}]}, Message.system("a")),
        ({"role": "critic", "parts": [{"text": "a"}]}, Message(role="assistant", name="critic", parts=(Text("a"),))),
        ({"role": "model", "parts": [], "content": "a"}, Message.assistant("a")),
        ({"role": "function", "parts": [{"text": "a"}, "b"]}, Message.tool("", "ab")),
        ({"role": "tool", "tool_call_id": "c", "parts": [CODE]}, Message.tool("c", [CODE])),
        (5, Message.user()),
    ],
)
def test_roles_are_mapped_to_palaver_roles(element: Any, message: Message) -> None:
    assert gemini.read([element]) == [message]


def test_a_result_without_an_id_is_matched_to_a_pending_call_of_its_name() -> None:
    output = gemini.read(
        [
            content("model", call(args={"old": 1})),
            content("model", call(), call("other", args={}), call(), call(id="c")),
            content("user", response(response={"n": 1}), response("other", response={}), response(response={"n": 2})),
            content("user", response(id="c", response={"n": 3}), response(response={"n": 4})),
            content("user", response(response={"n": 5}), response("none")),
        ]
    )

    assert output == [
        Message.assistant(now_call("call_0_0", '{"old":1}')),
        Message.assistant(
            now_call("call_1_0", ""),
            ToolCall(call_id="call_1_1", name="other", arguments="{}"),
            now_call("call_1_2", ""),
            now_call("c", ""),
        ),
        Message.tool("call_1_0", {"n": 1}),
        Message.tool("call_1_1", {}),
        Message.tool("call_1_2", {"n": 2}),
        Message.tool("c", {"n": 3}),
        Message.tool("call_0_0", {"n": 4}),
        Message(role="tool", name="now", parts=(ToolResult(call_id="", output={"n": 5}),)),
        Message(role="tool", name="none", parts=(ToolResult(call_id=""),)),
    ]


WRITE_CASES: dict[str, tuple[list[Message], list[dict[str, Any]]]] = {
    "roles": (
        [
            Message.system("a"),
            Message(role="developer", parts=(Text(text="b"),)),
            Message(role="user", parts=(Text(text="c", annotations=(Annotation(kind="url"),)),), id="m", name="n"),
            Message.assistant(),
        ],
        [
            content("system", {"text": "a"}),
            content("system", {"text": "b"}),
            content("user", {"text": "c"}),
            content("model", {"text": ""}),
        ],
    ),
    "calls and their results": (
        [
            Message.assistant(
                now_call("c", '{"tz": 1}'), ToolCall(call_id="d", name="f"), now_call("", "[1]"), now_call("e", "{tz")
            ),
            Message.tool("c", {"t": 1}),
            Message.tool("d", "no", is_error=True),
            Message(role="tool", name="n", parts=(ToolResult(call_id="x", output="a"), Text(text="gone"))),
            Message.user(ToolResult(call_id="e", output={"output": 1}), "a"),
        ],
        [
            content(
                "model",
                call(id="c", args={"tz": 1}),
                call("f", id="d", args={}),
                call(args={"arguments": [1]}),
                call(id="e", args={"arguments": "{tz"}),
            ),
            content(
                "user",
                response(id="c", response={"t": 1}),
                response("f", id="d", response={"error": "no"}),
                response("n", id="x", response={"output": "a"}),
                response(id="e", response={"output": {"output": 1}}),
            ),
            content("user", {"text": "a"}),
        ],
    ),
    "the rest": (
        [
            Message.assistant(
                Reasoning(text="r", encrypted="x"),
                Reasoning(text="s"),
                Reasoning(text=""),
                Reasoning(text="", encrypted="y"),
                Text(text=""),
                now_call("c"),
                Reasoning(text="", encrypted="v"),
                Refusal(text="no"),
                File(media_type="image/png", data="AAAA", url="https://host/a", filename="a.png"),
                File(media_type="image/png", url="https://host/a", file_id="f"),
                File(media_type="image/png", file_id="f"),
                File(media_type="image/png"),
                Data(name="chart", value=[1]),
                Data(name="gemini:executableCode", value=CODE),
                Data(name="gemini:codeExecutionResult", value=CODE),
                Data(name="gemini:executableCode", value={**CODE, "text": "a"}),
                Reasoning(text="", encrypted="z"),
            )
        ],
        [
            content(
                "model",
                {"text": "r", "thought": True, "thoughtSignature": "x"},
                {"text": "s", "thought": True},
                {**call(id="c", args={}), "thoughtSignature": "y"},
                {"text": "", "thought": True, "thoughtSignature": "v"},
                {"text": "no", "partMetadata": {"palaver": {"refusal": True}}},
                {"inlineData": {"mimeType": "image/png", "displayName": "a.png", "data": "AAAA"}},
                {"fileData": {"mimeType": "image/png", "fileUri": "https://host/a"}},
                {"fileData": {"mimeType": "image/png", "fileUri": "f"}},
                {"inlineData": {"mimeType": "image/png", "data": ""}},
                {"text": "", "partMetadata": {"palaver": {"data": {"name": "chart", "value": [1]}}}},
                CODE,
                {
                    "text": "",
                    "partMetadata": {"palaver": {"data": {"name": "gemini:codeExecutionResult", "value": CODE}}},
                },
                {
                    "text": "",
                    "partMetadata": {
                        "palaver": {"data": {"name": "gemini:executableCode", "value": {**CODE, "text": "a"}}}
                    },
                },
                {"text": "", "thought": True, "thoughtSignature": "z"},
            )
        ],
    ),
}


@pytest.mark.parametrize(("conversation", "expected"), WRITE_CASES.values(), ids=WRITE_CASES)
def test_messages_are_written(conversation: list[Message], expected: list[dict[str, Any]]) -> None:
    assert gemini.write(conversation) == expected


# Round trips


def _with_call_ids(message: Message) -> Message:
    """Give every call and result an id; results without one are tested above."""
    parts = [
        msgspec.structs.replace(part, call_id=part.call_id or "c") if isinstance(part, ToolCall | ToolResult) else part
        for part in message.parts
    ]
    return msgspec.structs.replace(message, parts=tuple(parts))


@given(st.lists(messages.map(_with_call_ids), max_size=5))
def test_messages_round_trip_up_to_the_listed_losses(conversation: list[Message]) -> None:
    encoded = gemini.write(conversation)

    decoded = gemini.read(encoded)

    assert decoded == normalize(conversation)
    assert gemini.read(msgspec.json.decode(msgspec.json.encode(encoded))) == decoded


@given(st.lists(messages, max_size=5))
def test_a_second_round_trip_loses_nothing(conversation: list[Message]) -> None:
    decoded = gemini.read(gemini.write(conversation))

    assert gemini.read(gemini.write(decoded)) == decoded


@given(st.lists(messages, max_size=4))
def test_written_messages_are_detected_as_gemini(conversation: list[Message]) -> None:
    encoded = gemini.write([Message.user("hi"), *conversation])

    assert dialect_of(encoded) == "gemini"
    assert {dialect_of(one) for one in encoded} == {"gemini"}


# Malformed messages

_keys = st.sampled_from(
    "role parts text thought thoughtSignature thought_signature functionCall function_call functionResponse id name"
    " args response inlineData inline_data mimeType data fileData file_uri fileUri displayName executableCode"
    " partMetadata palaver refusal value error output type content tool_call_id".split()
)
_words = st.sampled_from(["", "user", "model", "function", "text", "reasoning", "now", "\0", "\ud800", "data:;base64,"])
_odd_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.just(1.5) | _words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=5),
    max_leaves=16,
)
_element = st.fixed_dictionaries(
    {"parts": st.lists(_odd_values, max_size=4)}, optional={"role": _words, "content": _odd_values}
)


@given(st.lists(_element | _odd_values, max_size=3))
def test_malformed_messages_never_raise(elements: list[Any]) -> None:
    gemini.write(gemini.read(elements))


def test_very_long_texts_and_many_calls_are_read() -> None:
    long, calls = "x" * 10_000_000, [call() for _ in range(20_000)]

    answered = gemini.read([content("model", *calls), content("user", *[response() for _ in calls])])

    assert gemini.read([content("model", {"text": long})]) == [Message.assistant(long)]
    assert [one.call_id for one in answered[0].tool_calls] == [
        result.call_id for one in answered[1:] for result in one.tool_results
    ]


@pytest.mark.parametrize("field", ["executableCode", "functionCall", "functionResponse"])
def test_too_deeply_nested_content_raises_not_json(field: str) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [{"parts": deep}]
    element = content("model", {field: {"name": "now", "args": deep, "response": {"output": deep}}})

    with pytest.raises(json.NotJson):
        gemini.read([element])


def test_arguments_that_are_not_json_raise_not_json() -> None:
    with pytest.raises(json.NotJson):
        gemini.read([content("model", call(args={"a": Unwritable()}))])


# The normal form: messages after the losses listed in LOSSES


def normalize(conversation: Sequence[Message]) -> list[Message]:
    read: list[Message] = []
    call_ids: set[str] = set()
    for message in conversation:
        if message.role == "tool":
            read += [_result(result, message.name, call_ids) for result in message.tool_results]
            continue
        role = "system" if message.role == "developer" else message.role
        if not message.parts:
            read.append(Message(role=role, parts=()))
        for are_results, group in groupby(message.parts, lambda part: isinstance(part, ToolResult)):
            if are_results:
                read += [_result(part, None, call_ids) for part in group if isinstance(part, ToolResult)]
            else:
                read.append(Message(role=role, parts=_parts(group, call_ids)))
    return read


def _result(result: ToolResult, name: str | None, call_ids: set[str]) -> Message:
    return Message(role="tool", parts=(result,), name=None if result.call_id in call_ids else name or None)


def _parts(group: Any, call_ids: set[str]) -> tuple[Part, ...]:
    parts: dict[Any, Part] = {}
    for index, part in enumerate(group):
        match part:
            case Text(text="") | Reasoning(text="", encrypted=None | ""):
                pass
            case Text(text=words):
                parts[index] = Text(text=words)
            case ToolCall(call_id=call_id, name=name, parsed=value):
                call_ids.add(call_id)
                args = value if isinstance(value, dict) else {"arguments": value}
                arguments = msgspec.json.encode(args).decode()
                parts.setdefault(call_id, ToolCall(call_id=call_id, name=name, arguments=arguments))
            case File():
                parts[index] = _file(part)
            case _:
                parts[index] = part
    return tuple(parts.values())


def _file(file: File) -> File:
    document = {"media_type": file.media_type, "filename": file.filename}
    if file.data or (file.url is None and file.file_id is None):
        return File(**document, data=file.data or "")
    if file.url is None and file.file_id is not None and "://" not in file.file_id:
        return File(**document, file_id=file.file_id)
    return File(**document, url=file.file_id if file.url is None else file.url)
