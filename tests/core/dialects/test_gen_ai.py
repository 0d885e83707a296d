"""OpenTelemetry's gen_ai messages: reading, writing, and round trips up to the listed losses."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import json
from palaver.core.dialects import gen_ai
from palaver.core.dialects.detection import dialect_of
from palaver.core.messages import Annotation, Data, File, Message, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from tests.core.strategies import Unwritable, messages

NOW = ToolCall(call_id="c", name="now", arguments='{"tz":1}')
A = (Text(text="a"),)
CALL = {"type": "tool_call", "id": "c", "name": "now", "arguments": {"tz": 1}}


def text(words: str, **palaver_fields: Any) -> dict[str, Any]:
    return {"type": "text", "content": words, **({"palaver": palaver_fields} if palaver_fields else {})}


def response(output: Any, call_id: str | None = "c", **palaver_fields: Any) -> dict[str, Any]:
    answer = {"type": "tool_call_response", "id": call_id, "response": output}
    return {**answer, "palaver": palaver_fields} if palaver_fields else answer


def raw_data(part: Any, kind: str) -> Data:
    return Data(name=f"gen-ai:{kind}", value=part)


READ_CASES: dict[str, tuple[list[Any], list[Message]]] = {
    "text": (
        [text("a"), text(""), "b", {"type": "text", "text": "c"}, {"type": "output_text", "text": "d"}, {"text": "e"}],
        [Message.assistant("a", "", "b", "c", "d", "e")],
    ),
    "nothing": ([], [Message.assistant()]),
    "reasoning": (
        [
            {"type": "reasoning", "content": "r"},
            {"type": "reasoning", "content": "s", "palaver": {"encrypted": "x"}},
            {"type": "thinking", "thinking": "t"},
        ],
        [Message.assistant(Reasoning(text="r"), Reasoning(text="s", encrypted="x"), Reasoning(text="t"))],
    ),
    "our own additions to a text": (
        [
            text("no", refusal=True),
            text("", data={"name": "chart", "value": [1]}),
            text("", data={"name": "nothing"}),
            text("a", annotations=[{"kind": "url", "url": "u"}]),
        ],
        [
            Message.assistant(
                Refusal(text="no"),
                Data(name="chart", value=[1]),
                Data(name="nothing"),
                Text(text="a", annotations=(Annotation(kind="url", url="u"),)),
            )
        ],
    ),
    "additions that are not ours": (
        [
            text("a", data={"name": "chart"}),
            text("b", annotations=[{"kind": "?"}]),
            text("c", annotations=[{"\ud800": 1}]),
            {**text("d"), "palaver": 5},
        ],
        [Message.assistant("a", "b", "c", "d")],
    ),
    "files": (
        [
            {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AAAA"},
            {"type": "blob", "modality": "audio", "content": "AAAA"},
            {"type": "blob", "modality": ["image"], "content": "AAAA"},
            {"type": "uri", "modality": "video", "uri": "gs://bucket/v"},
            {"type": "uri", "uri": "data:image/gif;base64,AAAA"},
            {"type": "uri", "mime_type": "image/png", "uri": "data:image/gif;base64,AAAA"},
            {"type": "file", "modality": "image", "file_id": "f", "palaver": {"filename": "a.png", "detail": "low"}},
        ],
        [
            Message.assistant(
                File(media_type="image/png", data="AAAA"),
                File(media_type="audio/*", data="AAAA"),
                File(media_type="application/octet-stream", data="AAAA"),
                File(media_type="video/*", url="gs://bucket/v"),
                File(media_type="image/gif", data="AAAA"),
                File(media_type="image/png", data="AAAA"),
                File(media_type="image/*", file_id="f", filename="a.png", detail="low"),
            )
        ],
    ),
    "calls": (
        [
            CALL,
            {"type": "tool_call", "id": "d", "name": "f", "arguments": '{ "x": 1 }'},
            {"type": "tool_call", "id": "e", "name": "f", "arguments": None},
            {"type": "tool_call", "id": "c", "name": "again"},
        ],
        [
            Message.assistant(
                NOW,
                ToolCall(call_id="d", name="f", arguments='{ "x": 1 }'),
                ToolCall(call_id="e", name="f"),
            )
        ],
    ),
    "a call, its result and text": (
        [text("a"), CALL, response({"h": 12}), response("no", "d", is_error=True), text("b")],
        [
            Message.assistant("a", NOW),
            Message.tool("c", {"h": 12}),
            Message.tool("d", "no", is_error=True),
            Message.assistant("b"),
        ],
    ),
    "calls and results without ids, in their order": (
        [
            {**CALL, "id": None},
            {"type": "tool_call", "name": "later", "arguments": {}},
            response(1, None),
            response(2, None),
            response(3, None),
        ],
        [
            Message.assistant(
                ToolCall(call_id="call_0_0", name="now", arguments='{"tz":1}'),
                ToolCall(call_id="call_0_1", name="later", arguments="{}"),
            ),
            Message.tool("call_0_0", 1),
            Message.tool("call_0_1", 2),
            Message.tool("", 3),
        ],
    ),
    "results by either name, and of text parts": (
        [
            {"type": "tool_call_response", "id": "c", "result": [1]},
            {"type": "tool_call_response", "id": "c", "response": None, "result": 0},
            {"type": "tool_call_response", "id": "c"},
            response([text("a"), {"type": "text", "text": "b"}]),
            response([text("a"), 5]),
            response(["a"]),
            response([]),
        ],
        [
            Message.tool("c", [1]),
            Message.tool("c", 0),
            Message.tool("c", None),
            Message.tool("c", "ab"),
            Message.tool("c", [text("a"), 5]),
            Message.tool("c", ["a"]),
            Message.tool("c", []),
        ],
    ),
    "any other part, with its raw value": (
        [
            {"type": "server_tool_call", "id": "s", "name": "search", "server_tool_call": {"type": "search"}},
            {"type": "server_tool_call_response", "id": "s", "server_tool_call_response": {}},
            {"type": "compaction", "id": "x"},
            {"type": "text", "content": 5},
            {"type": "tool_call"},
            {"type": "file"},
            {"type": ["text"]},
            5,
        ],
        [
            Message.assistant(
                raw_data(
                    {"type": "server_tool_call", "id": "s", "name": "search", "server_tool_call": {"type": "search"}},
                    "server_tool_call",
                ),
                raw_data(
                    {"type": "server_tool_call_response", "id": "s", "server_tool_call_response": {}},
                    "server_tool_call_response",
                ),
                raw_data({"type": "compaction", "id": "x"}, "compaction"),
                raw_data({"type": "text", "content": 5}, "text"),
                raw_data({"type": "tool_call"}, "tool_call"),
                raw_data({"type": "file"}, "file"),
                raw_data({"type": ["text"]}, "part"),
                raw_data(5, "part"),
            )
        ],
    ),
}


@pytest.mark.parametrize(("parts", "expected"), READ_CASES.values(), ids=READ_CASES)
def test_a_message_is_read(parts: list[Any], expected: list[Message]) -> None:
    assert gen_ai.read([{"role": "assistant", "parts": parts, "finish_reason": "stop"}]) == expected


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        ({"role": "developer", "parts": [text("a")]}, [Message(role="developer", parts=A)]),
        ({"role": "model", "name": "m", "parts": [text("a")]}, [Message(role="assistant", name="m", parts=A)]),
        ({"role": "planner", "parts": [text("a")]}, [Message(role="assistant", name="planner", parts=A)]),
        ({"role": "user", "content": "a"}, [Message.user("a")]),
        (
            {"role": "tool", "id": "m", "parts": [response(1), text("a"), response(2, "d")]},
            [
                Message(
                    role="tool",
                    id="m",
                    parts=(ToolResult(call_id="c", output=1), Text(text="a"), ToolResult(call_id="d", output=2)),
                )
            ],
        ),
        (
            {"role": "user", "id": "m", "name": "n", "parts": [response(1), text("a"), response(2), text("b")]},
            [
                Message.tool("c", 1),
                Message(role="user", id="m", name="n", parts=A),
                Message.tool("c", 2),
                Message(role="user", name="n", parts=(Text(text="b"),)),
            ],
        ),
    ],
    ids=["a role of ours", "a synonym", "a role that is a name", "no parts", "a tool", "results of a user"],
)
def test_roles_names_and_tool_results_are_read(element: Any, expected: list[Message]) -> None:
    assert gen_ai.read([element]) == expected


WRITE_CASES: dict[str, tuple[list[Message], list[dict[str, Any]]]] = {
    "a conversation": (
        [
            Message.system("Be brief."),
            Message(role="user", parts=(Text(text="Time?"),), id="m", name="Ann", metadata={"x": 1}),
            Message.assistant("Let me see.", NOW),
            Message.tool("c", {"h": 12}),
            Message.assistant("Noon."),
        ],
        [
            {"role": "system", "parts": [text("Be brief.")]},
            {"role": "user", "name": "Ann", "parts": [text("Time?")]},
            {"role": "assistant", "parts": [text("Let me see."), CALL]},
            {"role": "tool", "parts": [response({"h": 12})]},
            {"role": "assistant", "parts": [text("Noon.")]},
        ],
    ),
    "nothing": ([Message.assistant()], [{"role": "assistant", "parts": [text("")]}]),
    "results inside a message": (
        [Message.assistant(NOW, ToolResult(call_id="c", output="no", is_error=True), "a")],
        [
            {"role": "assistant", "parts": [CALL]},
            {"role": "tool", "parts": [response("no", is_error=True)]},
            {"role": "assistant", "parts": [text("a")]},
        ],
    ),
    "arguments that an object would not give back": (
        [
            Message.assistant(
                ToolCall(call_id="1", name="f", arguments='{ "x": 1 }'),
                ToolCall(call_id="2", name="f", arguments="{tz"),
                ToolCall(call_id="3", name="f", arguments="[1]"),
                ToolCall(call_id="4", name="f", arguments='{"x":1e400}'),
                ToolCall(call_id="5", name="f", arguments=f'{{"x":{"9" * 5000}}}'),
                ToolCall(call_id="", name="f"),
            )
        ],
        [
            {
                "role": "assistant",
                "parts": [
                    {"type": "tool_call", "id": "1", "name": "f", "arguments": '{ "x": 1 }'},
                    {"type": "tool_call", "id": "2", "name": "f", "arguments": "{tz"},
                    {"type": "tool_call", "id": "3", "name": "f", "arguments": "[1]"},
                    {"type": "tool_call", "id": "4", "name": "f", "arguments": '{"x":1e400}'},
                    {"type": "tool_call", "id": "5", "name": "f", "arguments": f'{{"x":{"9" * 5000}}}'},
                    {"type": "tool_call", "id": None, "name": "f", "arguments": ""},
                ],
            }
        ],
    ),
    "the rest": (
        [
            Message.assistant(
                Text(text="a", annotations=(Annotation(kind="url", url="u"),)),
                Reasoning(text="r"),
                Reasoning(text="s", encrypted="x"),
                Refusal(text="no"),
                File(media_type="image/png", data="AAAA", filename="a.png", file_id="f"),
                File(media_type="application/pdf", url="https://host/a", detail="low"),
                File(media_type="audio/wav", file_id="f"),
                File(media_type="text/plain"),
                Data(name="chart", value=[1]),
            )
        ],
        [
            {
                "role": "assistant",
                "parts": [
                    text("a", annotations=[{"kind": "url", "url": "u"}]),
                    {"type": "reasoning", "content": "r"},
                    {"type": "reasoning", "content": "s", "palaver": {"encrypted": "x"}},
                    text("no", refusal=True),
                    {
                        "type": "blob",
                        "modality": "image",
                        "mime_type": "image/png",
                        "content": "AAAA",
                        "palaver": {"filename": "a.png"},
                    },
                    {
                        "type": "uri",
                        "modality": "document",
                        "mime_type": "application/pdf",
                        "uri": "https://host/a",
                        "palaver": {"detail": "low"},
                    },
                    {"type": "file", "modality": "audio", "mime_type": "audio/wav", "file_id": "f"},
                    {"type": "blob", "modality": "document", "mime_type": "text/plain", "content": ""},
                    text("", data={"name": "chart", "value": [1]}),
                ],
            }
        ],
    ),
    "a foreign part, as it was": (
        [Message.assistant("a", raw_data({"type": "custom", "x": 1}, "custom"))],
        [{"role": "assistant", "parts": [text("a"), {"type": "custom", "x": 1}]}],
    ),
    "a foreign part alone, which others would claim": (
        [Message.assistant(raw_data({"type": "dynamic-tool", "toolName": "f"}, "dynamic-tool"))],
        [
            {
                "role": "assistant",
                "parts": [
                    text("", data={"name": "gen-ai:dynamic-tool", "value": {"type": "dynamic-tool", "toolName": "f"}})
                ],
            }
        ],
    ),
    "nothing that was only data": (
        [
            Message.assistant(
                "a", raw_data(CALL, "tool_call"), raw_data(text("b"), "text"), raw_data({"type": "x"}, "y")
            )
        ],
        [
            {
                "role": "assistant",
                "parts": [
                    text("a"),
                    text("", data={"name": "gen-ai:tool_call", "value": CALL}),
                    text("", data={"name": "gen-ai:text", "value": text("b")}),
                    text("", data={"name": "gen-ai:y", "value": {"type": "x"}}),
                ],
            }
        ],
    ),
}


@pytest.mark.parametrize(("conversation", "expected"), WRITE_CASES.values(), ids=WRITE_CASES)
def test_messages_are_written(conversation: list[Message], expected: list[dict[str, Any]]) -> None:
    assert gen_ai.write(conversation) == expected


@given(st.lists(messages, max_size=5))
def test_messages_round_trip_up_to_the_listed_losses(conversation: list[Message]) -> None:
    encoded = gen_ai.write(conversation)

    decoded = gen_ai.read(encoded)

    assert decoded == normalize(conversation)
    assert gen_ai.read(msgspec.json.decode(msgspec.json.encode(encoded))) == decoded


@given(st.lists(messages, max_size=5))
def test_a_second_round_trip_loses_nothing(conversation: list[Message]) -> None:
    decoded = gen_ai.read(gen_ai.write(conversation))

    assert gen_ai.read(gen_ai.write(decoded)) == decoded


# Malformed messages


_words = st.sampled_from(
    "user assistant tool text input_text reasoning thinking tool_call tool_call_response server_tool_call blob uri file"
    " image image/png hi \0 \ud800 data:;base64,AA".split()
)
_keys = st.sampled_from(
    "role type content text parts id name arguments response result modality mime_type uri file_id palaver data value"
    " annotations kind refusal encrypted is_error filename message delta thinking \ud800".split()
)
_odd_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.just(1.5) | _words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=6),
    max_leaves=16,
)
_parts = (
    st.builds(lambda kind, rest: {**rest, "type": kind}, _words, st.dictionaries(_keys, _odd_values, max_size=5))
    | _odd_values
)
_elements = st.builds(
    lambda rest, parts: {**rest, "parts": parts},
    st.dictionaries(_keys, _odd_values, max_size=4),
    st.lists(_parts, max_size=4) | _odd_values,
)


@given(st.lists(_elements | _odd_values, max_size=3))
def test_malformed_messages_never_raise_and_are_written_in_a_known_dialect(elements: list[Any]) -> None:
    encoded = gen_ai.write(gen_ai.read(elements))

    # A stored file alone is detected as Palaver's: detection can't tell gen_ai files from Palaver files yet.
    assert {dialect_of(one) for one in encoded} <= {"gen-ai", "palaver"}


def _deep_value() -> Any:
    deep: Any = []
    for _ in range(100_000):
        deep = [{"type": "text", "content": deep}]
    return deep


@pytest.mark.parametrize(
    "part",
    [
        {**CALL, "arguments": {"a": Unwritable()}},
        response(Unwritable()),
        response(_deep_value()),
        text("", data={"name": "chart", "value": Unwritable()}),
        {"type": "x", "value": _deep_value()},
        Unwritable(),
    ],
    ids=["arguments", "a result", "a deep result", "our own data", "a deep part", "an object"],
)
def test_content_that_is_not_json_or_too_deep_raises_not_json(part: Any) -> None:
    with pytest.raises(json.NotJson):
        gen_ai.read([{"role": "assistant", "parts": [part]}])


def test_raw_values_are_not_copied() -> None:
    long = "x" * 10_000_000
    element = {"role": "assistant", "parts": [{"type": "x", "value": [long]}, text(long), response([long])]}

    (message, result) = gen_ai.read([element])

    (stored, output), (answer,) = message.parts, result.tool_results
    assert isinstance(stored, Data)
    assert (stored.value is element["parts"][0], output) == (True, Text(text=long))
    assert answer.output is element["parts"][2]["response"]
    assert gen_ai.write([message])[0]["parts"][0] is stored.value


# The normal form: messages after the losses listed in LOSSES


def normalize(conversation: Sequence[Message]) -> list[Message]:
    pending_ids: list[str] = []
    pieces = [piece for message in conversation for piece in _pieces(message)]
    return [
        Message(role=piece.role, name=piece.name, parts=_normal_parts(piece, index, pending_ids))
        for index, piece in enumerate(pieces)
    ]


def _pieces(message: Message) -> Iterator[Message]:
    if message.role == "tool" or not message.parts:
        yield message
        return
    output: list[Part] = []
    for part in message.parts:
        if not isinstance(part, ToolResult):
            output.append(part)
            continue
        if output:
            yield Message(role=message.role, name=message.name, parts=tuple(output))
        yield Message(role="tool", parts=(part,))
        output = []
    if output:
        yield Message(role=message.role, name=message.name, parts=tuple(output))


def _normal_parts(piece: Message, index: int, pending_ids: list[str]) -> tuple[Part, ...]:
    parts: dict[Any, Part] = {}
    for position, part in enumerate(piece.parts or (Text(text=""),)):
        match part:
            case ToolCall(call_id="", name=name, arguments=arguments):
                pending_ids.append(f"call_{index}_{position}")
                parts[position] = ToolCall(call_id=pending_ids[-1], name=name, arguments=arguments)
            case ToolCall(call_id=call_id):
                parts.setdefault(call_id, part)
            case ToolResult(call_id="", output=output, is_error=failed) if pending_ids:
                parts[position] = ToolResult(call_id=pending_ids.pop(0), output=output, is_error=failed)
            case File():
                parts[position] = _normal_file(part)
            case _:
                parts[position] = part
    return tuple(parts.values())


def _normal_file(file: File) -> File:
    if file.url is not None:
        return msgspec.structs.replace(file, data=None, file_id=None)
    if file.data is not None or file.file_id is None:
        return msgspec.structs.replace(file, data=file.data or "", file_id=None)
    return file
