"""Anthropic's usual shapes: what its SDKs send has one, plain text among it, and reads as it does the long way."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import dialects
from palaver.core.dialects import anthropic
from palaver.core.messages import Message
from palaver.core.parts import File, Reasoning, Text, ToolCall, ToolResult
from palaver.core.recognition import dialect_of, name_of, stretches
from tests.core.dialects.usual_laws import ODD, lists, shapes_of
from tests.core.values import maybe

_texts = st.sampled_from(["", "a", "b", '{"x": 1}', "ü\ud800"])
_ids = st.sampled_from(["c", "d", "", "call_3_1"])
_anything = st.sampled_from(ODD)
_empty = st.just([]) | st.none()


def some(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional)


def block(kind: str, more: dict[str, Any] | None = None, **fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    return some({"type": st.just(kind), **fields}, more or {})


_cached = {"cache_control": _anything}
_text = block("text", {**_cached, "citations": _empty}, text=_texts)
_sources = st.one_of(
    block("base64", {"media_type": maybe(_texts)}, data=_texts),
    block("url", url=_texts | st.just("data:image/gif;base64,AA")),
    block("file", file_id=_texts),
)
_words = block("text", {"media_type": maybe(_texts)}, data=_texts)
_results = st.one_of(_anything, st.lists(_text | _texts, max_size=2), st.lists(_text | _sources, max_size=2))
_blocks = st.one_of(
    _text,
    block("thinking", {"signature": maybe(_texts)}, thinking=_texts),
    block("redacted_thinking", data=_texts),
    block("tool_use", {**_cached, "caller": _anything}, id=_ids, name=_texts, input=_anything),
    block("tool_result", {**_cached, "content": _results, "is_error": maybe(st.booleans())}, tool_use_id=_ids),
    block("image", _cached, source=_sources),
    block(
        "document",
        {**_cached, "title": maybe(_texts), "context": _anything, "citations": _anything},
        source=_sources | _words,
    ),
)
_roles = st.sampled_from(["system", "user", "assistant", "human", "model"])
_said = {"role": _roles, "content": _texts | st.lists(_blocks, max_size=4)}
_about = {"model": _anything, "usage": _anything, "stop_sequence": _anything, "container": _anything}
_sent = some(_said, {"id": maybe(_texts)})
_answered = some({**_said, "type": st.just("message"), "stop_reason": maybe(_texts)}, {"id": maybe(_texts), **_about})
_elements = st.one_of(_sent, _sent, _answered)
_keys = st.sampled_from(
    "role sender name id type stop_reason content parts text source data thinking signature input tool_calls"
    " function_call tool_call_id tool_use_id is_error citations title message".split()
)


@given(st.lists(_elements, min_size=1, max_size=10))
def test_what_is_usual_has_a_shape(elements: list[Any]) -> None:
    assert all(anthropic.shapes(elements))
    assert_both_ways_agree(elements)


@given(lists(_elements, _keys))
def test_both_ways_of_reading_agree_whatever_the_elements(elements: list[Any]) -> None:
    assert_both_ways_agree(elements)


def assert_both_ways_agree(elements: list[Any]) -> None:
    shapes = shapes_of(anthropic, elements)
    recognised, judged = dialects.recognised(elements), stretches(elements)

    assert len(shapes) in (0, len(elements))
    for element, shape in zip(elements, shapes, strict=False):
        dialect = dialect_of([element]) if shape else "anthropic"
        assert dialect in ("anthropic", "chat-completions")
        if dialect == "chat-completions":  # It is taken along, as both read it alike.
            assert anthropic.read([element], 3, [shape]) == dialects.READABLE[dialect].read([element], 3)
    assert anthropic.read(elements, 3, shapes) == anthropic.read(elements, 3)
    assert (recognised and name_of(recognised)) == (judged and name_of(judged))
    assert [one for stretch in recognised or [] for one in stretch.elements] == [
        one for stretch in judged or [] for one in stretch.elements
    ]
    assert dialects.read_stretches(recognised or []) == dialects.read_stretches(judged or [])


USER = {"role": "user", "content": "Time?"}
CALLED = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "Let me see.", "citations": None},
        {"type": "tool_use", "id": "c", "name": "now", "input": {"tz": 1}, "caller": {"type": "direct"}},
    ],
}
TOLD = {
    "role": "user",
    "content": [
        {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "noon"}], "is_error": False},
        {"type": "text", "text": "And?", "cache_control": {"type": "ephemeral"}},
    ],
}
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Noon.", "citations": None}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1, "server_tool_use": None},
    "container": None,
}
PLAIN = {"role": "assistant", "content": [{"type": "text", "text": "Noon."}]}
ODD_ONE = {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}]}


def test_a_list_with_plain_text_in_it_is_one_stretch_from_the_first_block_on() -> None:
    found = dialects.recognised([USER, USER, USER, CALLED, TOLD, PLAIN, USER, ANSWER])

    assert found is not None
    assert [(one.dialect, len(one.elements), one.start, [bool(shape) for shape in one.shapes]) for one in found] == [
        ("chat-completions", 3, 0, [True] * 3),
        ("anthropic", 5, 3, [True] * 5),
    ]


def test_where_the_first_few_tell_it_is_one_stretch_as_a_whole() -> None:
    found = dialects.recognised([USER, CALLED, TOLD, PLAIN])

    assert found is not None
    assert [(one.dialect, one.start, [bool(shape) for shape in one.shapes]) for one in found] == [
        ("anthropic", 0, [True] * 4)
    ]


def test_after_an_odd_one_the_rest_has_shapes_again() -> None:
    found = dialects.recognised([CALLED, *[TOLD, ODD_ONE, CALLED, USER] * 3])

    assert found is not None
    assert [(one.dialect, [bool(shape) for shape in one.shapes]) for one in found] == [
        ("anthropic", [True, *[True, False, True, True] * 3])
    ]


@pytest.mark.parametrize("few", [[USER, CALLED, TOLD], [ODD_ONE], [USER, ODD_ONE, {"role": "critic", "content": "no"}]])
def test_few_are_asked_about_more_than_a_few_times(few: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    shapes = anthropic.shapes
    monkeypatch.setattr(anthropic, "shapes", lambda elements: asked.append(len(elements)) or shapes(elements))
    elements = few * 1_000

    dialects.recognised(elements)

    assert sum(asked) <= 10 * len(elements)


def test_what_we_write_has_shapes() -> None:
    said = [
        Message.system("Be brief."),
        Message.user("Time?", File(media_type="image/png", data="AAAA"), File(media_type="text/plain", data="aGk=")),
        Message.user(
            File(media_type="image/*", url="https://host/a"), File(media_type="application/octet-stream", file_id="f")
        ),
        Message.assistant(Reasoning("hm", "s"), Reasoning("", "x"), "Let me see.", ToolCall("c", "now", '{"tz":1}')),
        Message.tool("c", "noon"),
        Message.tool("d", None, is_error=True),
        Message.user("And?"),
        Message.assistant("Noon."),
    ]
    written = anthropic.write(said)
    shapes = anthropic.shapes(written)

    assert all(shapes)
    assert anthropic.read(written, 0, shapes) == said


def test_text_and_results_are_read_as_they_stand() -> None:
    elements = [USER, CALLED, TOLD, ANSWER]

    assert anthropic.read(elements, 0, anthropic.shapes(elements)) == [
        Message.user("Time?"),
        Message.assistant(Reasoning("hm", "s"), "Let me see.", ToolCall("c", "now", '{"tz":1}')),
        Message("tool", (ToolResult("c", "noon"),)),
        Message.user("And?"),
        Message("assistant", (Text("Noon."),), "msg_1"),
    ]


def test_a_message_of_that_type_is_ours_to_read_only_with_a_reason_to_stop() -> None:
    assert anthropic.shapes([{"type": "message", "role": "user", "content": "hi"}]) == [None]
    assert dialect_of([{"type": "message", "role": "user", "content": "hi"}]) == "responses"
