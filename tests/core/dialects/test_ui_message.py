"""UI messages: splitting, joining, and round trips up to the listed losses."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core.dialects import ui_message
from palaver.core.messages import Annotation, Data, File, Message, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from tests.core.strategies import messages

NOW = ToolCall(call_id="c", name="now", arguments='{"tz":1}')
LATER = ToolCall(call_id="d", name="later", arguments="{}")
STEP = {"type": "step-start"}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def tool(state: str | None = None, **fields: Any) -> dict[str, Any]:
    document = {} if state is None else {"state": state}
    return {"type": "dynamic-tool", "toolName": "now", "toolCallId": "c", "input": {"tz": 1}, **document, **fields}


def later_tool(**fields: Any) -> dict[str, Any]:
    return {"type": "tool-later", "toolCallId": "d", "input": {}, "state": "input-available", **fields}


READ_CASES: dict[str, tuple[list[Any], list[Message]]] = {
    "text": ([text("a"), {**text("b"), "state": "done"}], [Message.assistant("a", "b")]),
    "nothing": ([], [Message.assistant()]),
    "only steps": ([STEP, STEP], [Message.assistant()]),
    "reasoning": (
        [
            {"type": "reasoning", "text": "r", "state": "done"},
            {"type": "reasoning", "text": "s", "providerMetadata": {"palaver": {"encrypted": "x"}}},
        ],
        [Message.assistant(Reasoning(text="r"), Reasoning(text="s", encrypted="x"))],
    ),
    "a refusal": (
        [{**text("no"), "providerMetadata": {"palaver": {"refusal": True}}}],
        [Message.assistant(Refusal(text="no"))],
    ),
    "files": (
        [
            {"type": "file", "mediaType": "image/png", "url": "https://host/a", "filename": "a.png"},
            {"type": "file", "mediaType": "image/png", "url": "data:image/gif;base64,AAAA"},
            {"type": "file", "url": "data:image/gif;base64,AAAA"},
            {"type": "file", "mimeType": "image/png", "url": "https://host/a"},
            {"type": "file", "url": "https://host/a", "filename": 5},
            {"type": "data-file", "id": "fil_1", "data": {"media_type": "image/png", "file_id": "f", "filename": "a"}},
        ],
        [
            Message.assistant(
                File(media_type="image/png", url="https://host/a", filename="a.png"),
                File(media_type="image/png", data="AAAA"),
                File(media_type="image/gif", data="AAAA"),
                File(media_type="image/png", url="https://host/a"),
                File(media_type="application/octet-stream", url="https://host/a"),
                File(media_type="image/png", file_id="f", filename="a"),
            )
        ],
    ),
    "data": (
        [{"type": "data-chart", "id": "dat_1", "data": {"x": 1}}, {"type": "data-file", "data": 5}, {"type": "data-n"}],
        [Message.assistant(Data(name="chart", value={"x": 1}), Data(name="file", value=5), Data(name="n"))],
    ),
    "sources are notes on the text before": (
        [
            text("a"),
            text("b"),
            {"type": "source-url", "sourceId": "1", "url": "u", "title": "t"},
            {"type": "reasoning", "text": "r"},
            {"type": "source-document", "sourceId": "2", "mediaType": "text/plain", "title": "", "filename": "a.txt"},
        ],
        [
            Message.assistant(
                "a",
                Text(
                    text="b",
                    annotations=(Annotation(kind="url", url="u", title="t"), Annotation(kind="file", title="a.txt")),
                ),
                Reasoning(text="r"),
            )
        ],
    ),
    "sources of no text, and no source": (
        [{"type": "source-url", "sourceId": "1", "url": "u"}, text("a"), {"type": "source-url", "sourceId": "2"}],
        [
            Message.assistant(
                Data(name="ui-message:source-url", value={"type": "source-url", "sourceId": "1", "url": "u"}),
                "a",
                Data(name="ui-message:source-url", value={"type": "source-url", "sourceId": "2"}),
            )
        ],
    ),
    "any other part, with its raw value": (
        [{"type": "custom", "x": 1}, {"type": "text", "text": 5}, {"type": "file"}, 5],
        [
            Message.assistant(
                Data(name="ui-message:custom", value={"type": "custom", "x": 1}),
                Data(name="ui-message:text", value={"type": "text", "text": 5}),
                Data(name="ui-message:file", value={"type": "file"}),
                Data(name="ui-message:part", value=5),
            )
        ],
    ),
    "a call, its result and text": (
        [text("Let me see."), tool("output-available", output={"h": 12}), text("Noon.")],
        [Message.assistant("Let me see.", NOW), Message.tool("c", {"h": 12}), Message.assistant("Noon.")],
    ),
    "calls that were made together": (
        [tool("output-available", output=1), later_tool(state="output-available", output=2), text("a")],
        [Message.assistant(NOW, LATER), Message.tool("c", 1), Message.tool("d", 2), Message.assistant("a")],
    ),
    "calls that were made in turn": (
        [
            STEP,
            tool("output-available", output=1),
            STEP,
            later_tool(state="output-available", output=2),
            STEP,
            text("a"),
        ],
        [
            Message.assistant(NOW),
            Message.tool("c", 1),
            Message.assistant(LATER),
            Message.tool("d", 2),
            Message.assistant("a"),
        ],
    ),
    "a step is a message": ([STEP, text("a"), STEP, text("b")], [Message.assistant("a"), Message.assistant("b")]),
    "a failed call": (
        [tool("output-error", errorText="no clock")],
        [Message.assistant(NOW), Message.tool("c", "no clock", is_error=True)],
    ),
    "a call whose input was no JSON": (
        [tool("output-error", input=None, rawInput="{tz", errorText="bad")],
        [
            Message.assistant(ToolCall(call_id="c", name="now", arguments="{tz")),
            Message.tool("c", "bad", is_error=True),
        ],
    ),
    "a denied call": (
        [tool("output-denied", approval={"id": "c", "approved": False})],
        [Message.assistant(NOW), Message.tool("c", "Denied.", is_error=True)],
    ),
    "an approved call and a rejected one": (
        [
            tool("approval-responded", approval={"id": "c", "approved": True}),
            later_tool(state="approval-responded", approval={"approved": False, "reason": "no"}),
        ],
        [
            Message.assistant(NOW, LATER),
            Message.user(
                Data(name="approval-response", value={"id": "c", "approve": True, "reason": None}),
                Data(name="approval-response", value={"id": "d", "approve": False, "reason": "no"}),
            ),
        ],
    ),
    "calls without a result": (
        [
            tool("input-streaming", toolCallId="1", input=None),
            tool("input-available", toolCallId="2"),
            tool("approval-requested", toolCallId="3", approval={"id": "3"}),
            tool(toolCallId="4"),
            tool("later", toolCallId="5"),
            text("a"),
        ],
        [
            Message.assistant(
                ToolCall(call_id="1", name="now"),
                *(ToolCall(call_id=str(number), name="now", arguments='{"tz":1}') for number in range(2, 6)),
                "a",
            )
        ],
    ),
    "a call that comes twice": (
        [tool("input-available"), tool("output-available", output=1), tool("output-available", output=2)],
        [Message.assistant(NOW), Message.tool("c", 1)],
    ),
    "a call without an id": (
        [text("a"), {"type": "tool-now", "state": "input-available"}],
        [Message.assistant("a", ToolCall(call_id="call_0_1", name="now"))],
    ),
    "parts of version 4": (
        [
            {"type": "reasoning", "reasoning": "Hm.", "details": [{"type": "text", "text": "Hm."}]},
            {"type": "file", "mimeType": "image/png", "data": "AAAA"},
            {"type": "file", "data": "AAAA", "filename": "a"},
            {
                "type": "tool-invocation",
                "toolInvocation": {
                    "state": "result",
                    "toolCallId": "c",
                    "toolName": "now",
                    "args": {"tz": 1},
                    "result": "12",
                },
            },
        ],
        [
            Message.assistant(
                Reasoning(text="Hm."),
                File(media_type="image/png", data="AAAA"),
                File(media_type="application/octet-stream", data="AAAA", filename="a"),
                NOW,
            ),
            Message.tool("c", "12"),
        ],
    ),
    "parts of model messages": (
        [
            {"type": "tool-call", "toolCallId": "c", "toolName": "now", "input": {"tz": 1}},
            {
                "type": "tool-result",
                "toolCallId": "c",
                "toolName": "now",
                "output": {"type": "json", "value": {"h": 1}},
            },
            {"type": "tool-result", "toolCallId": "d", "toolName": "f", "output": {"type": "error-text", "value": "x"}},
            {"type": "tool-result", "toolCallId": "e", "toolName": "f", "output": "x"},
        ],
        [
            Message.assistant(NOW, ToolCall(call_id="d", name="f"), ToolCall(call_id="e", name="f")),
            Message.tool("c", {"h": 1}),
            Message.tool("d", "x", is_error=True),
            Message.tool("e", "x"),
        ],
    ),
}


@pytest.mark.parametrize(("parts", "expected"), READ_CASES.values(), ids=READ_CASES)
def test_a_message_is_read(parts: list[Any], expected: list[Message]) -> None:
    assert ui_message.read([{"role": "assistant", "parts": parts}]) == expected


def test_only_the_first_message_of_a_split_has_the_id_and_metadata() -> None:
    parts = [tool("output-available", output=1), text("a")]
    element = {"id": "m", "role": "assistant", "metadata": {"runId": "r"}, "parts": parts}

    assert ui_message.read([element, {"id": 5, "role": "user", "metadata": 5, "parts": [text("b")]}]) == [
        Message(role="assistant", id="m", metadata={"runId": "r"}, parts=(NOW,)),
        Message.tool("c", 1),
        Message.assistant("a"),
        Message.user("b"),
    ]


@pytest.mark.parametrize(
    ("element", "message"),
    [
        ({"role": "developer", "parts": [text("")]}, Message(role="developer", parts=(Text(text=""),))),
        ({"role": "tool", "parts": [text("a")]}, Message(role="tool", parts=(Text(text="a"),))),
        ({"role": "planner", "parts": []}, Message(role="assistant", name="planner", parts=())),
        ({"role": "user", "name": "", "parts": [text("a")]}, Message(role="user", name="", parts=(Text(text="a"),))),
        (
            {"role": "user", "parts": [{**text("a"), "annotations": [{"kind": "url", "url": "u"}]}]},
            Message.user(Text(text="a", annotations=(Annotation(kind="url", url="u"),))),
        ),
        ({"role": "user", "parts": [{**text("a"), "annotations": [{"kind": "?"}]}]}, Message.user("a")),
    ],
    ids=["an empty text", "a tool's text", "an unknown role", "a name", "annotations", "no annotations"],
)
def test_text_in_the_palaver_dialect_is_read_alike(element: dict[str, Any], message: Message) -> None:
    assert ui_message.read([element]) == [message]


CHAT_CALL = {"id": "c", "function": {"name": "now", "arguments": '{"tz":1}'}}


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        ({"parts": [text("a")], "tool_calls": [CHAT_CALL]}, [Message.assistant("a", NOW)]),
        (
            {"parts": [tool("output-available", output=1), text("a")], "tool_calls": [CHAT_CALL]},
            [Message.assistant(NOW), Message.tool("c", 1), Message.assistant("a")],
        ),
        ({"parts": [], "tool_calls": [CHAT_CALL]}, [Message.assistant(NOW)]),
        ({"parts": [], "text": "a"}, [Message.assistant("a")]),
        ({"parts": [text("a")], "text": "b"}, [Message.assistant("a")]),
        ({"role": "tool", "tool_call_id": "c", "parts": [text("12")]}, [Message.tool("c", "12")]),
        (
            {"role": "now", "tool_call_id": "c", "parts": [text("12")]},
            [Message(role="tool", name="now", parts=(ToolResult(call_id="c", output="12"),))],
        ),
        ({"parts": [text("a")], "tool_call_id": "c"}, [Message.assistant("a")]),
    ],
    ids=["calls", "a known call", "only calls", "only text", "text", "a result", "a tool's name", "no result"],
)
def test_chat_completions_fields_next_to_the_parts_are_read(element: dict[str, Any], expected: list[Message]) -> None:
    assert ui_message.read([{"role": "assistant", **element}]) == expected


def ui(role: str, *parts: Any, number: int = 0, **fields: Any) -> dict[str, Any]:
    return {"id": f"message-{number}", "role": role, "parts": list(parts), **fields}


WRITE_CASES: dict[str, tuple[list[Message], list[dict[str, Any]]]] = {
    "text": (
        [Message(role="user", id="u", name="n", metadata={"a": 1}, parts=(Text(text="a"), Text(text="b")))],
        [{"id": "u", "role": "user", "parts": [text("a"), text("b")], "metadata": {"a": 1}}],
    ),
    "nothing": ([Message.user(), Message.assistant()], [ui("user"), ui("assistant", number=1)]),
    "a developer": ([Message(role="developer", parts=(Text(text="a"),))], [ui("system", text("a"))]),
    "a turn": (
        [
            Message.user("When?"),
            Message(role="assistant", id="m", parts=(Text(text="Let me see."), NOW, LATER)),
            Message.tool("c", {"h": 12}),
            Message.tool("d", {"no": "clock"}, is_error=True),
            Message(role="assistant", id="n", metadata={"a": 1}, parts=()),
            Message.assistant("Noon."),
            Message.user("Thanks."),
            Message.assistant("Bye."),
        ],
        [
            ui("user", text("When?")),
            {
                "id": "m",
                "role": "assistant",
                "parts": [
                    text("Let me see."),
                    tool("output-available", output={"h": 12}),
                    {
                        "type": "dynamic-tool",
                        "toolName": "later",
                        "toolCallId": "d",
                        "state": "output-error",
                        "input": {},
                        "errorText": '{"no":"clock"}',
                    },
                    STEP,
                    text("Noon."),
                ],
            },
            ui("user", text("Thanks."), number=2),
            ui("assistant", text("Bye."), number=3),
        ],
    ),
    "a result that comes late": (
        [
            Message.assistant(NOW),
            Message.user("And?"),
            Message.tool("c", 1),
            Message.tool("c", 2),
            Message.tool("x", 3),
        ],
        [ui("assistant", tool("output-available", output=1)), ui("user", text("And?"), number=1)],
    ),
    "a result inside its message": (
        [Message.assistant(NOW, ToolResult(call_id="c", output=1), "a")],
        [ui("assistant", tool("output-available", output=1), text("a"))],
    ),
    "arguments that are none, or no JSON": (
        [Message.assistant(ToolCall(call_id="c", name="f"), ToolCall(call_id="d", name="f", arguments="{tz"))],
        [
            ui(
                "assistant",
                tool("input-available", toolName="f", input={}),
                tool("input-available", toolName="f", toolCallId="d", input="{tz"),
            )
        ],
    ),
    "the rest": (
        [
            Message.assistant(
                Text(
                    text="a",
                    annotations=(
                        Annotation(kind="span", start=1),
                        Annotation(kind="url", url="u", title="t"),
                        Annotation(kind="url"),
                        Annotation(kind="file", file_id="f"),
                    ),
                ),
                Reasoning(text="r", encrypted="x"),
                Reasoning(text="s"),
                Refusal(text="no"),
                File(media_type="image/png", data="AAAA", filename="a.png"),
                File(media_type="image/png", url="https://host/a"),
                File(media_type="image/png", file_id="f"),
                Data(name="chart", value=[1]),
            )
        ],
        [
            ui(
                "assistant",
                text("a"),
                {"type": "source-url", "sourceId": "source-0", "url": "u", "title": "t"},
                {
                    "type": "source-document",
                    "sourceId": "source-1",
                    "mediaType": "application/octet-stream",
                    "title": "",
                },
                {"type": "reasoning", "text": "r", "providerMetadata": {"palaver": {"encrypted": "x"}}},
                {"type": "reasoning", "text": "s"},
                {**text("no"), "providerMetadata": {"palaver": {"refusal": True}}},
                {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA", "filename": "a.png"},
                {"type": "file", "mediaType": "image/png", "url": "https://host/a"},
                {"type": "data-file", "data": {"media_type": "image/png", "file_id": "f"}},
                {"type": "data-chart", "data": [1]},
            )
        ],
    ),
    "a foreign part, as it was": (
        [Message.assistant(Data(name="ui-message:custom", value={"type": "custom", "x": 1}))],
        [ui("assistant", {"type": "custom", "x": 1})],
    ),
    "nothing that was only data": (
        [
            Message.assistant(
                Data(name="ui-message:text", value=text("a")),
                Data(name="ui-message:dynamic-tool", value=tool("output-available", output=1)),
                Data(name="ui-message:step-start", value=STEP),
                Data(name="ui-message:custom", value={"type": "other"}),
                Data(name="ui-message:source-url", value={"type": "source-url", "url": "u"}),
            )
        ],
        [
            ui(
                "assistant",
                {"type": "data-ui-message:text", "data": text("a")},
                {"type": "data-ui-message:dynamic-tool", "data": tool("output-available", output=1)},
                {"type": "data-ui-message:step-start", "data": STEP},
                {"type": "data-ui-message:custom", "data": {"type": "other"}},
                {"type": "data-ui-message:source-url", "data": {"type": "source-url", "url": "u"}},
            )
        ],
    ),
}


@pytest.mark.parametrize(("conversation", "expected"), WRITE_CASES.values(), ids=WRITE_CASES)
def test_messages_are_written(conversation: list[Message], expected: list[dict[str, Any]]) -> None:
    assert ui_message.write(conversation) == expected


@given(st.lists(messages, max_size=5))
def test_messages_round_trip_up_to_the_listed_losses(conversation: list[Message]) -> None:
    encoded = ui_message.write(conversation)

    decoded = ui_message.read(encoded)

    assert decoded == normalize(conversation)
    assert ui_message.read(msgspec.json.decode(msgspec.json.encode(encoded))) == decoded


@given(st.lists(messages, max_size=5))
def test_a_second_round_trip_loses_nothing(conversation: list[Message]) -> None:
    decoded = ui_message.read(ui_message.write(conversation))

    assert ui_message.read(ui_message.write(decoded)) == decoded


# The normal form: messages after the losses listed in LOSSES


class PartWithResult:
    """A part, with its result if it is a call."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.result: ToolResult | None = None


def normalize(conversation: Sequence[Message]) -> list[Message]:
    turns: list[tuple[Message, list[list[PartWithResult]]]] = []
    pending: dict[str, PartWithResult] = {}
    in_assistant_turn = False
    for message in conversation:
        if message.role == "tool":
            _attach_results(message.tool_results, pending)
            continue
        if not (in_assistant_turn and message.role == "assistant"):
            turns.append((message, []))
        in_assistant_turn = message.role == "assistant"
        step: list[PartWithResult] = []
        for part in message.parts:
            if isinstance(part, ToolResult):
                _attach_results([part], pending)
            elif message.role == "assistant" or not isinstance(part, ToolCall):
                step.append(PartWithResult(_part(part)))
                if isinstance(part, ToolCall):
                    pending[part.call_id] = step[-1]
        turns[-1][1].append(step)
    return [one for number, (first, steps) in enumerate(turns) for one in _turn(first, steps, number)]


def _attach_results(results: Sequence[ToolResult], pending: dict[str, PartWithResult]) -> None:
    for result in results:
        call = pending.pop(result.call_id, None)
        if call is not None:
            call.result = result


def _turn(first: Message, steps: Sequence[Sequence[PartWithResult]], number: int) -> list[Message]:
    role = "system" if first.role == "developer" else first.role
    cut = [
        one for index, step in enumerate(steps) for one in _step(role, step, number, _first_part_index(steps, index))
    ]
    head, *remaining = cut or [Message(role=role, parts=())]
    return [
        Message(role=role, id=first.id or f"message-{number}", parts=head.parts, metadata=first.metadata),
        *remaining,
    ]


def _first_part_index(steps: Sequence[Sequence[PartWithResult]], index: int) -> int:
    """The index of a step's first part, counting parts, their sources and step separators."""
    before = [step for step in steps[:index] if step]
    return sum(_width(output.part) for step in before for output in step) + len(before) - (0 if steps[index] else 1)


def _width(part: Part) -> int:
    return 1 + len(part.annotations) if isinstance(part, Text) else 1


def _step(role: Any, step: Sequence[PartWithResult], number: int, part_index: int) -> Iterator[Message]:
    parts: dict[Any, Part] = {}
    results: dict[str, ToolResult] = {}
    for output in step:
        part = output.part
        if isinstance(part, ToolCall):
            call_id = part.call_id or f"call_{number}_{part_index}"
            parts.setdefault(call_id, ToolCall(call_id=call_id, name=part.name, arguments=part.arguments))
            if output.result is not None:
                results.setdefault(call_id, _result(output.result, call_id))
        else:
            if results:
                yield Message(role=role, parts=tuple(parts.values()))
                yield from (Message(role="tool", parts=(result,)) for result in results.values())
                parts, results = {}, {}
            parts[part_index] = part
        part_index += _width(part)
    if parts:
        yield Message(role=role, parts=tuple(parts.values()))
    yield from (Message(role="tool", parts=(result,)) for result in results.values())


def _result(result: ToolResult, call_id: str) -> ToolResult:
    output = result.output
    if result.is_error and not isinstance(output, str):
        output = msgspec.json.encode(output).decode()
    return ToolResult(call_id=call_id, output=output, is_error=result.is_error)


def _part(part: Part) -> Part:
    match part:
        case Text(text=words, annotations=notes):
            return Text(text=words, annotations=tuple(note for one in notes if (note := _note(one)) is not None))
        case ToolCall(call_id=call_id, name=name):
            value = part.parsed
            arguments = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            return ToolCall(call_id=call_id, name=name, arguments="" if value is None else arguments)
        case File(media_type=media_type, filename=filename):
            if part.url is not None:
                return File(media_type=media_type, filename=filename, url=part.url)
            if part.data is None and part.file_id is not None:
                return File(media_type=media_type, filename=filename, file_id=part.file_id)
            return File(media_type=media_type, filename=filename, data=part.data or "")
        case _:
            return part


def _note(note: Annotation) -> Annotation | None:
    if note.kind == "file":
        return Annotation(kind="file", title=note.title or None)
    is_url = note.kind == "url" and note.url is not None
    return Annotation(kind="url", url=note.url, title=note.title) if is_url else None
