"""The usual shapes of Chat Completions: what SDKs write has one, and reads as it does the long way."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import dialects
from palaver.core.dialects import chat_completions
from palaver.core.messages import Message
from palaver.core.parts import File, ToolCall
from tests.core.dialects.usual_laws import assert_both_ways_agree, lists, shapes_of
from tests.core.values import maybe

_texts = st.sampled_from(["", "a", "b", "ü\ud800"])
_speakers = st.sampled_from("system developer user human assistant ai model bot".split())
_urls = st.sampled_from(["https://host/a.png", "data:image/png;base64,AAAA", ""])
_parts = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": _texts}),
    st.fixed_dictionaries(
        {"type": st.just("image_url"), "image_url": st.fixed_dictionaries({"url": _urls}, optional={"detail": _texts})}
    ),
)
_content = _texts | st.lists(_parts, max_size=3)
_calls = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from(["c", "d"]),
            "function": st.fixed_dictionaries({"name": _texts, "arguments": _texts}),
            "type": st.just("function"),
        }
    ),
    max_size=3,
)
_beside = {"name": maybe(_texts), "id": maybe(_texts), "timestamp": st.just("noon")}
_pure = st.fixed_dictionaries({"role": _speakers, "content": _content})
_said = st.fixed_dictionaries(
    {"role": st.sampled_from("user system developer".split()), "content": _content}, optional=_beside
)
_answers = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": st.none() | _content},
    optional={
        "tool_calls": maybe(_calls),
        "refusal": maybe(_texts),
        "reasoning_content": maybe(_texts),
        "annotations": st.just([]),
        **_beside,
    },
)
_results = st.fixed_dictionaries(
    {"role": st.just("tool"), "tool_call_id": _texts, "content": _texts}, optional={"name": maybe(_texts)}
)
_sent = st.fixed_dictionaries({"sender": _speakers, "text": _texts}, optional={"id": st.integers() | _texts})
_plain = st.fixed_dictionaries({"role": st.sampled_from(["human", "bot"]), "content": _texts, "at": st.integers()})
_keys = st.sampled_from(
    "role sender author type content text parts message delta name id tool_calls tool_call_id function_call refusal"
    " reasoning_content annotations additional_kwargs palaver audio source stop_reason custom tool_call".split()
)


@pytest.mark.parametrize(
    "elements", [_pure, _said | _answers | _results, _sent, _plain], ids=["pure", "usual", "sent", "plain"]
)
def test_what_is_usual_has_a_shape_and_both_ways_of_reading_agree(elements: st.SearchStrategy[Any]) -> None:
    @given(st.lists(elements, min_size=1, max_size=6))
    def holds(usual: list[Any]) -> None:
        assert all(chat_completions.shapes(usual))
        assert_both_ways_agree("chat-completions", usual)

    holds()


@given(lists(_pure | _said | _answers | _results, _keys) | lists(_sent, _keys) | lists(_plain, _keys))
def test_both_ways_agree_whatever_the_elements(elements: list[Any]) -> None:
    assert_both_ways_agree("chat-completions", elements)


WRITTEN: dict[str, list[Any]] = {
    "an assistant that calls": [
        {
            "role": "assistant",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}],
        }
    ],
    "an answer as the SDK dumps it": [
        {
            "role": "assistant",
            "content": "Rain.",
            "refusal": None,
            "annotations": [],
            "audio": None,
            "function_call": None,
            "tool_calls": None,
        }
    ],
    "what people add": [{"role": "user", "content": "hi", "created_at": "noon", "score": {"a": [1]}}],
    "what we write": chat_completions.write(
        [
            Message.system("Be brief."),
            Message.user("What is this?", File(media_type="image/png", url="https://host/a.png")),
            Message.assistant("Let me look.", ToolCall("c", "look", "{}")),
            Message.tool("c", "A boat."),
        ]
    ),
}


@pytest.mark.parametrize("elements", WRITTEN.values(), ids=WRITTEN)
def test_what_is_really_written_has_a_shape(elements: list[Any]) -> None:
    assert all(chat_completions.shapes(elements))
    assert_both_ways_agree("chat-completions", elements)


@pytest.mark.parametrize(
    "element",
    [
        {"role": "assistant"},
        {"role": "tool", "content": "x"},
        {"role": "assistant", "content": "x", "parts": ["y"]},
        {"role": "user", "content": [{"type": "text", "text": "a", "source": {}}]},
        {"role": "assistant", "content": None, "text": "x"},
        {"role": "assistant", "content": "x", "tool_calls": [{"id": "", "function": {"name": "f", "arguments": ""}}]},
        {"sender": "user", "text": "x", "role": "assistant"},
        {"role": "user", "content": "x", "type": "message"},
    ],
)
def test_these_have_none(element: dict[str, Any]) -> None:
    assert not any(shapes_of(chat_completions, [element]))


def test_one_that_is_none_ends_no_conversation() -> None:
    value = [
        {"role": "user", "content": "a"},
        {"role": "user", "content": 5, "text": "b"},
        {"role": "ai", "content": "c"},
    ]

    assert [message.text for message in dialects.read(value)] == ["a", "b", "c"]
