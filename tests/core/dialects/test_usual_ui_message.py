"""UI messages' usual shapes: what the AI SDK writes has one, and reads as it does the long way."""

from collections import OrderedDict, UserDict
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import dialects
from palaver.core.dialects import ui_message
from palaver.core.elements import KNOWN_ROLES
from palaver.core.messages import Message
from palaver.core.parts import Data, File, Reasoning, Refusal, Text, ToolCall, ToolResult
from tests.core.dialects.usual_laws import ODD, assert_both_ways_agree, lists
from tests.core.values import Unwritable, maybe

_texts = st.sampled_from(["", "a", "b", "ü\ud800", "https://host/a.png", "data:image/gif;base64,AAAA"])
_ids = st.sampled_from(["c", "d", "e"])
_anything = st.sampled_from([*ODD, {"type": "json", "value": 1}])
_given = st.sampled_from([value for value in ODD if value is not None])
_kept = st.sampled_from([{}, {"openai": {"itemId": "m"}}, {"palaver": {"refusal": True, "encrypted": "x"}}])


def part(kind: str, required: dict[str, Any], **optional: Any) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({"type": st.just(kind), **required}, optional=optional)


def tool(kind: str, state: str, **required: Any) -> st.SearchStrategy[Any]:
    asked = {"toolCallId": _ids, "state": st.just(state), "input": _given, **required}
    more = {"providerExecuted": _anything, "callProviderMetadata": _kept, "preliminary": _anything, "title": _texts}
    return part(kind, asked, **({} if kind == "dynamic-tool" else {"toolName": _texts}), **more)


_steps = st.just({"type": "step-start"})
_said = st.one_of(
    part("text", {"text": _texts}, state=_anything, providerMetadata=_kept),
    part("reasoning", {"text": _texts}, state=_anything, providerMetadata=_kept),
    part("file", {"url": _texts}, mediaType=maybe(_texts), filename=maybe(_texts), providerMetadata=_kept),
    part("data-chart", {"data": _anything}, id=_ids),
)
_called = st.one_of(
    tool("tool-weather", "output-available", output=_anything),
    tool("tool-weather", "output-error", errorText=_texts),
    tool("tool-weather", "input-available"),
    tool("tool-weather", "output-denied"),
    tool("dynamic-tool", "output-available", toolName=_texts, output=_anything),
)


@st.composite
def _turns(draw: st.DrawFn) -> list[Any]:
    """Steps, in each of which a call has an id of its own."""
    parts = draw(st.lists(_said, min_size=1, max_size=2))
    for step in draw(st.lists(st.lists(_said | _called, max_size=3, unique_by=_by_id), max_size=3)):
        parts += [draw(_steps), *step]
    return parts


def _by_id(written: dict[str, Any]) -> Any:
    return written.get("toolCallId", id(written))


_messages = st.fixed_dictionaries(
    {"role": st.sampled_from(sorted(KNOWN_ROLES)), "parts": st.lists(_said, min_size=1, max_size=3) | _turns()},
    optional={
        "id": maybe(_texts),
        "name": maybe(_texts),
        "metadata": maybe(st.just({"a": 1})),
        "createdAt": _anything,
        "content": _anything,
    },
)
_odd_parts = st.one_of(
    tool("tool-weather", "approval-responded", approval=_anything),
    tool("tool-call", "output-available", output=_anything),
    part("source-url", {"url": _texts}, title=_texts),
    part("source-document", {}, filename=_texts),
    part("data-file", {"data": st.just({"media_type": "text/plain", "file_id": "f"}) | _anything}),
    part("text", {"text": _texts}, annotations=st.sampled_from([[{"kind": "url", "url": "u"}], [{"kind": "?"}], None])),
    part("reasoning", {"reasoning": _texts}, details=_anything),
    part("file", {"data": _texts}, mimeType=_texts),
    part("tool-invocation", {"toolInvocation": tool("x", "result", result=_anything, args=_anything) | _anything}),
    part("tool-result", {"toolCallId": _ids, "output": _anything}),
    part("custom", {}),
    st.sampled_from([{"type": "text", "text": "a", "call_id": "c"}, {"type": "file", "url": "u", "modality": "image"}]),
)
_mixed = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant"]), "parts": st.lists(_said | _called | _odd_parts, max_size=5)}
)
_keys = st.sampled_from(
    "role sender type content parts message text state name id metadata providerMetadata annotations encrypted call_id"
    " media_type file_id modality url data toolCallId toolName toolInvocation input rawInput output errorText".split()
)


@given(st.lists(_messages, min_size=1, max_size=6))
def test_what_is_usual_has_a_shape(usual: list[Any]) -> None:
    assert all(ui_message.shapes(usual))
    assert_both_ways_agree("ui-message", usual)


@given(lists(_messages | _mixed, _keys))
def test_both_ways_of_reading_agree_whatever_the_elements(elements: list[Any]) -> None:
    assert_both_ways_agree("ui-message", elements)


SENT: list[Any] = [
    {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Weather in Oslo?"}]},
    {
        "id": "a1",
        "role": "assistant",
        "metadata": {"model": "m"},
        "parts": [
            {"type": "step-start"},
            {"type": "reasoning", "text": "Look.", "state": "done", "providerMetadata": {"openai": {"itemId": "r"}}},
            {
                "type": "tool-weather",
                "toolCallId": "c",
                "state": "output-available",
                "input": {"city": "Oslo"},
                "output": {"degrees": 12},
                "callProviderMetadata": {"openai": {"itemId": "f"}},
            },
            {"type": "dynamic-tool", "toolName": "now", "toolCallId": "d", "state": "input-available", "input": {}},
            {"type": "step-start"},
            {"type": "text", "text": "Twelve degrees.", "state": "done"},
        ],
    },
    {
        "id": "u2",
        "role": "user",
        "createdAt": "2026-01-01T00:00:00Z",
        "chatId": "x",
        "attachments": [],
        "parts": [
            {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA", "filename": "a.png"},
            {"type": "data-chart", "id": "d", "data": {"x": 1}},
        ],
    },
    {"id": "a2", "role": "assistant", "parts": [{"type": "step-start"}, {"type": "text", "text": "A harbour."}]},
]


def test_what_the_ai_sdk_sends_has_a_shape() -> None:
    found = dialects.recognised(SENT)

    assert found is not None
    assert [(stretch.dialect, all(stretch.shapes)) for stretch in found] == [("ui-message", True)]
    assert dialects.read_stretches(found) == [
        Message(role="user", id="u1", parts=(Text(text="Weather in Oslo?"),)),
        Message(
            role="assistant",
            id="a1",
            metadata={"model": "m"},
            parts=(
                Reasoning(text="Look."),
                ToolCall(call_id="c", name="weather", arguments='{"city":"Oslo"}'),
                ToolCall(call_id="d", name="now", arguments="{}"),
            ),
        ),
        Message.tool("c", {"degrees": 12}),
        Message.assistant("Twelve degrees."),
        Message(
            role="user",
            id="u2",
            parts=(File(media_type="image/png", data="AAAA", filename="a.png"), Data(name="chart", value={"x": 1})),
        ),
        Message(role="assistant", id="a2", parts=(Text(text="A harbour."),)),
    ]


def test_what_we_write_has_a_shape() -> None:
    said = [
        Message.user("When?", File(media_type="image/png", url="https://host/a.png")),
        Message.assistant(Reasoning(text="r", encrypted="x"), ToolCall(call_id="c", name="now", arguments='{"tz":1}')),
        Message(role="tool", parts=(ToolResult(call_id="c", output={"h": 12}),)),
        Message.assistant("Noon.", Data(name="chart", value=[1])),
        Message.user("No."),
        Message.assistant(Refusal(text="no")),
    ]

    assert all(ui_message.shapes(ui_message.write(said)))


TEXT: dict[str, Any] = {"type": "text", "text": "a"}
CALLED: dict[str, Any] = {"type": "tool-now", "toolCallId": "c", "state": "output-available", "input": {}, "output": 1}


UNUSUAL: dict[str, dict[str, Any]] = {
    "no parts": {"role": "user", "parts": []},
    "a role in capitals": {"role": "USER", "parts": [TEXT]},
    "an unknown role": {"role": "planner", "parts": [TEXT]},
    "a number for an id": {"id": 5, "role": "user", "parts": [TEXT]},
    "a number for a name": {"role": "user", "name": 5, "parts": [TEXT]},
    "a list for metadata": {"role": "user", "metadata": [], "parts": [TEXT]},
    "calls beside its parts": {"role": "assistant", "parts": [TEXT], "tool_calls": [{"id": "d", "name": "f"}]},
    "a message of Responses": {"type": "message", "role": "user", "parts": [TEXT]},
    "steps alone": {"role": "assistant", "parts": [{"type": "step-start"}, {"type": "step-start"}]},
    "a call without an id": {"role": "assistant", "parts": [{**CALLED, "toolCallId": ""}]},
    "a call that comes twice": {"role": "assistant", "parts": [CALLED, {**CALLED, "output": 2}]},
    "an answer": {"role": "assistant", "parts": [{**CALLED, "state": "approval-responded"}]},
    "a call that may be ours": {"role": "assistant", "parts": [{**CALLED, "type": "tool-call", "call_id": "d"}]},
    "a call that may be a model message's": {"role": "assistant", "parts": [{**CALLED, "type": "tool-call"}]},
    "text that is ours": {"role": "assistant", "parts": [{**TEXT, "encrypted": None}]},
    "a file that is ours": {"role": "user", "parts": [{"type": "file", "url": "u", "media_type": "image/png"}]},
    "a file that is OpenTelemetry's": {"role": "user", "parts": [{"type": "file", "url": "u", "modality": "image"}]},
    "reasoning that is OpenTelemetry's": {
        "role": "assistant",
        "parts": [{"type": "reasoning", "content": "a", "reasoning": "b"}],
    },
    "a source": {"role": "assistant", "parts": [TEXT, {"type": "source-url", "url": "u"}]},
    "a part that nobody knows": {"role": "assistant", "parts": [TEXT, {"type": "custom"}]},
}


@pytest.mark.parametrize("element", UNUSUAL.values(), ids=UNUSUAL)
def test_what_needs_a_second_look_has_no_shape(element: dict[str, Any]) -> None:
    assert ui_message.shapes([element]) == [None]
    assert_both_ways_agree("ui-message", [SENT[0], element, SENT[1]])


NO_JSON: dict[str, Any] = {
    "a tuple": {"role": "user", "parts": (TEXT,)},
    "a mapping": UserDict({"role": "user", "parts": [TEXT]}),
    "a subclass": OrderedDict({"role": "user", "parts": [TEXT]}),
    "a part that is a mapping": {"role": "user", "parts": [UserDict(TEXT)]},
    "a second one": {"role": "user", "parts": [TEXT, MappingProxyType(TEXT)]},
    "a step that is one": {"role": "user", "parts": [UserDict({"type": "step-start"}), TEXT]},
    "a role in a list": {"role": ["user"], "parts": [TEXT]},
    "a type in a list": {"role": "user", "parts": [{"type": ["text"], "text": "a"}]},
    "a number for a type": {"role": "user", "parts": [{"type": 5}]},
    "an output": {"role": "assistant", "parts": [{**CALLED, "output": Unwritable()}]},
    "an input": {"role": "assistant", "parts": [{**CALLED, "input": {"at": Unwritable()}}]},
    "metadata": {"role": "user", "parts": [TEXT], "metadata": {"a": Unwritable()}},
    "anything": Unwritable(),
}


@pytest.mark.parametrize("element", NO_JSON.values(), ids=NO_JSON)
def test_what_is_no_plain_json_has_none(element: Any) -> None:
    assert ui_message.shapes([element]) == [None]


def test_behind_one_that_has_none_no_shape_is_looked_for() -> None:
    ours = {"role": "assistant", "parts": [{"type": "tool-call", "call_id": "c", "name": "now"}]}

    shapes = ui_message.shapes([{"role": "user", "parts": [TEXT]}, ours, SENT[0]])

    assert shapes == [Message.user("a"), None, None]


def test_a_value_of_some_size_is_kept_if_it_can_be_written() -> None:
    large: Any = [{"day": day} for day in range(100)]
    deep: Any = 0
    for _ in range(300):
        deep = [deep]

    shapes = ui_message.shapes(
        [{"role": "assistant", "parts": [{**CALLED, "output": output}]} for output in (large, deep)]
    )

    call = Message.assistant(ToolCall(call_id="c", name="now", arguments="{}"))
    assert shapes == [[call, Message.tool("c", large)], None]
