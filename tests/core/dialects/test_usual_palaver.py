"""Our own dialect's usual shapes: what we write has one, plain words among it, and reads as it does the long way."""

from collections import OrderedDict, UserDict
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import dialects, jsons
from palaver.core.dialects import palaver, ui_message
from palaver.core.messages import Message
from palaver.core.parts import Annotation, Data, Reasoning, Text, ToolCall, ToolResult
from palaver.core.recognition import dialect_of, name_of, stretches
from tests.core.dialects.usual_laws import lists, shapes_of
from tests.core.values import Unwritable, messages

_written = st.lists(messages.filter(lambda message: message.parts != ()), min_size=1, max_size=6).map(palaver.write)
_elements = _written.map(lambda written: written[0])
_keys = st.sampled_from(
    "role sender type content parts message text state name id metadata providerMetadata annotations encrypted call_id"
    " media_type file_id modality url data value output is_error arguments".split()
)


@given(_written)
def test_what_we_write_has_a_shape(written: list[Any]) -> None:
    assert all(palaver.shapes(written))
    assert_both_ways_agree(written)


@given(lists(_elements, _keys))
def test_both_ways_of_reading_agree_whatever_the_elements(elements: list[Any]) -> None:
    assert_both_ways_agree(elements)


def assert_both_ways_agree(elements: list[Any]) -> None:
    shapes = shapes_of(palaver, elements)
    recognised, judged = dialects.recognised(elements), stretches(elements)

    assert len(shapes) == len(elements)
    for element, shape in zip(elements, shapes, strict=True):
        dialect = dialect_of([element]) if shape else "palaver"
        assert dialect in ("palaver", "ui-message")
        if dialect == "ui-message":  # It is taken along, as both read it alike.
            assert ui_message.read([element]) == [shape]
    assert palaver.read(elements, 3, shapes) == palaver.read(elements, 3)
    assert (recognised is None, (recognised and name_of(recognised))) == (judged is None, (judged and name_of(judged)))
    assert [one for stretch in recognised or [] for one in stretch.elements] == [
        one for stretch in judged or [] for one in stretch.elements
    ]
    assert dialects.read_stretches(recognised or []) == dialects.read_stretches(judged or [])


CALL = {"type": "tool-call", "call_id": "c", "name": "now"}
WORDS = {"role": "assistant", "parts": [{"type": "reasoning", "text": "r"}, {"type": "text", "text": "a"}]}
SENT: list[Any] = [
    {"role": "user", "parts": [{"type": "text", "text": "When?"}]},
    {"role": "assistant", "parts": [{**CALL, "arguments": '{"tz":1}'}], "id": "m", "metadata": {"a": 1}},
    {"role": "tool", "parts": [{"type": "tool-result", "call_id": "c", "output": {"h": 12}}]},
    WORDS,
    {"role": "user", "parts": [{"type": "data", "name": "chart", "value": [1]}], "name": "n"},
]


def test_a_conversation_of_ours_is_not_cut() -> None:
    found = dialects.recognised(SENT)

    assert found is not None
    assert [(stretch.dialect, stretch.start) for stretch in found] == [("palaver", 0)]
    assert dialects.read_stretches(found) == [
        Message.user("When?"),
        Message(
            role="assistant",
            id="m",
            metadata={"a": 1},
            parts=(ToolCall(call_id="c", name="now", arguments='{"tz":1}'),),
        ),
        Message.tool("c", {"h": 12}),
        Message.assistant(Reasoning(text="r"), Text(text="a")),
        Message(role="user", name="n", parts=(Data(name="chart", value=[1]),)),
    ]


def test_words_alone_are_a_ui_message() -> None:
    assert palaver.shapes([WORDS]) == [Message.assistant(Reasoning(text="r"), Text(text="a"))]
    assert dialect_of([WORDS]) == "ui-message"


UNUSUAL: dict[str, dict[str, Any]] = {
    "no parts": {"role": "user", "parts": []},
    "a role in capitals": {"role": "USER", "parts": [CALL]},
    "a number for an id": {"role": "user", "id": 5, "parts": [CALL]},
    "calls beside its parts": {"role": "assistant", "parts": [CALL], "tool_calls": [{"id": "d", "name": "f"}]},
    "a message of Responses": {"type": "message", "role": "user", "parts": [CALL]},
    "a part that is no part of ours": {"role": "assistant", "parts": [CALL, {"type": "step-start"}]},
    "a result that does not fit": {"role": "tool", "parts": [{"type": "tool-result", "call_id": "c", "is_error": 1}]},
    "a call that does not fit": {"role": "assistant", "parts": [{**CALL, "arguments": {}}]},
    "a part that does not fit": {"role": "assistant", "parts": [CALL, {"type": "file"}]},
}


@pytest.mark.parametrize("element", UNUSUAL.values(), ids=UNUSUAL)
def test_what_needs_a_second_look_has_no_shape(element: dict[str, Any]) -> None:
    assert palaver.shapes([element]) == [None]
    assert_both_ways_agree([*SENT, element, *SENT])


def test_words_with_more_than_we_write_are_left_to_their_own_dialect() -> None:
    refused = {"type": "text", "text": "no", "providerMetadata": {"palaver": {"refusal": True}}}

    assert palaver.shapes([{"role": "assistant", "parts": [CALL, refused]}]) == [None]


class Name(str):
    """A text of somebody's own class."""


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


NO_JSON: dict[str, Any] = {
    "a tuple": {"role": "user", "parts": (CALL,)},
    "a mapping": UserDict({"role": "user", "parts": [CALL]}),
    "a subclass": OrderedDict({"role": "user", "parts": [CALL]}),
    "a part that is a mapping": {"role": "user", "parts": [MappingProxyType(CALL)]},
    "an output": {"role": "tool", "parts": [{"type": "tool-result", "call_id": "c", "output": Unwritable()}]},
    "a value": {"role": "user", "parts": [{"type": "data", "name": "n", "value": Unwritable()}]},
    "metadata": {"role": "user", "parts": [CALL], "metadata": {"a": Unwritable()}},
    "a deep output": {"role": "tool", "parts": [{"type": "tool-result", "call_id": "c", "output": nested(300)}]},
    "a deep value": {"role": "user", "parts": [{"type": "data", "name": "n", "value": nested(300)}]},
    "deep metadata": {"role": "user", "parts": [CALL], "metadata": {"a": nested(300)}},
    "a text of another class": {"role": "user", "parts": [CALL, {"type": "text", "text": Name("a")}]},
    "a name of another class": {"role": "user", "parts": [{**CALL, "name": Name("now")}]},
    "an id of another class": {"role": "user", "parts": [CALL], "id": Name("m")},
    "a message of ours": Message.assistant(ToolCall(call_id="c", name="now")),
    "anything": Unwritable(),
}


@pytest.mark.parametrize("element", NO_JSON.values(), ids=NO_JSON)
def test_what_is_no_plain_json_has_none(element: Any) -> None:
    assert palaver.shapes([element]) == [None]


def test_a_lone_surrogate_is_mended_where_it_could_not_be_written() -> None:
    element = {"role": "tool", "parts": [{"type": "tool-result", "call_id": "c", "output": ["\ud800"]}]}

    assert palaver.shapes([element]) == [None]
    assert palaver.read([element]) == [Message(role="tool", parts=(ToolResult(call_id="c", output=["\ufffd"]),))]


def test_a_text_of_another_class_becomes_one() -> None:
    element = {
        "role": "user",
        "parts": [{"type": "text", "text": Name("a"), "annotations": [{"kind": "url", "url": Name("u")}]}],
    }

    [message] = palaver.read([element])

    assert message == Message.user(Text(text="a", annotations=(Annotation(kind="url", url="u"),)))
    assert jsons.is_writable(message)


def test_half_a_character_stays_in_a_text() -> None:
    element = {"role": "user", "parts": [{"type": "text", "text": "\ud800"}, CALL]}

    assert palaver.read([element]) == [Message.user("\ud800", ToolCall(call_id="c", name="now"))]
