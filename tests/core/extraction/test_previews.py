"""Previews of values in table cells."""

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core.extraction import CELL, Budget, Preview, full, preview, read_conversation
from palaver.core.extraction.previews import (
    ChatPreview,
    EmptyPreview,
    JsonPreview,
    MessagePreview,
    TextPreview,
    WholeChat,
    WholeEmpty,
    WholeJson,
    WholeText,
)
from palaver.core.messages import Message
from tests.core.extraction.test_strict_search import PREFERENCES
from tests.core.extraction.test_strict_search import values as searched

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
SYSTEM = {"role": "system", "content": "Be brief."}
QUESTION = {"role": "user", "content": "Weather in Oslo?"}
TOOL_CALLS = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
        {"id": "c2", "type": "function", "function": {"name": "clock", "arguments": ""}},
    ],
}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "rain"}
ANSWER = {"role": "assistant", "content": "It rains."}
THANKS = {"role": "user", "content": "Thanks."}
TURNS = [SYSTEM, QUESTION, TOOL_CALLS, RESULT, ANSWER, ANSWER, THANKS]


def encoded_preview(value: Any, prefer: Any = None, budget: Budget = CELL) -> Any:
    return msgspec.json.decode(msgspec.json.encode(preview(value, prefer, budget)))


def message(index: int, role: str, text: str, *, cut: int = 0, calls: Any = (), attachments: int = 0) -> Any:
    return {"index": index, "role": role, "text": text, "cut": cut, "calls": [*calls], "attachments": attachments}


# The shapes


def test_an_input_column_shows_the_last_user_message() -> None:
    assert encoded_preview({"inputs": {"prompt": TURNS}}, "input") == {
        "renderer": "chat",
        "text": "Thanks.",
        "role": "user",
        "count": 7,
        "path": "/inputs/prompt",
        "dialect": "chat-completions",
        "messages": [message(6, "user", "Thanks.")],
        "more": 6,
    }


def test_an_output_column_shows_the_last_answer_and_the_messages_from_the_start() -> None:
    assert encoded_preview({"outputs": TURNS}, "output") == {
        "renderer": "chat",
        "text": "It rains.",
        "role": "assistant",
        "count": 7,
        "path": "/outputs",
        "dialect": "chat-completions",
        "messages": [
            message(0, "system", "Be brief."),
            message(1, "user", "Weather in Oslo?"),
            message(2, "assistant", "", calls=['weather({"city":"Oslo"})', "clock()"]),
            message(3, "tool", "rain"),
            message(4, "assistant", "It rains."),
        ],
        "more": 2,
    }


def test_previews_of_text_json_and_null() -> None:
    assert [encoded_preview(value) for value in ("first\n line", [1, "x"], None)] == [
        {"renderer": "text", "text": "first line", "body": "first\n line", "cut": 0},
        {"renderer": "json", "text": '[1,"x"]', "body": '[1,"x"]', "cut": 0},
        {"renderer": "empty", "text": ""},
    ]


@pytest.mark.parametrize("value", [TURNS, "x", [1], None])
def test_a_preview_round_trips_through_json(value: Any) -> None:
    created = preview(value)

    assert msgspec.json.decode(msgspec.json.encode(created), type=Preview) == created
    assert created.renderer == encoded_preview(value)["renderer"]


# The choice of renderer


@pytest.mark.parametrize(
    ("value", "neutral", "of_input", "of_output"),
    [
        (None, "empty", "empty", "empty"),
        ("", "empty", "empty", "empty"),
        (" ", "text: ", "text: ", "text: "),
        ("hi", "text: hi", "text: hi", "text: hi"),
        (5, "json: 5", "json: 5", "json: 5"),
        (False, "json: false", "json: false", "json: false"),
        ([], "json: []", "json: []", "json: []"),
        ({}, "json: {}", "json: {}", "json: {}"),
        (["hi"], 'json: ["hi"]', 'json: ["hi"]', 'json: ["hi"]'),
        # Text that is a JSON object or array is treated as its parsed value.
        (' {"a": 1} ', 'json: {"a":1}', 'json: {"a":1}', 'json: {"a":1}'),
        ("{not json}", "text: {not json}", "text: {not json}", "text: {not json}"),
        ("[" * 100 + "]" * 100, "text: " + "[" * 100 + "]" * 100, *["text: " + "[" * 100 + "]" * 100] * 2),
        ('{"input": "hi", "b": 1}', "text: hi", "text: hi", 'json: {"input":"hi","b":1}'),
        ('[{"role": "user", "content": "hi"}]', "chat: hi", "chat: hi", "chat: hi"),
        # Keys that hold texts, by side.
        ({"input": "i", "output": "o"}, "text: i", "text: i", "text: o"),
        ({"output": "o", "b": 1}, "text: o", 'json: {"output":"o","b":1}', "text: o"),
        (
            {"returnValues": {"output": "o"}, "b": 1},
            "text: o",
            *['json: {"returnValues":{"output":"o"},"b":1}', "text: o"],
        ),
        ({"generations": [[{"text": "a"}, 5], [{"text": "b"}]], "n": 1}, "text: a b", "json", "text: a b"),
        ({"generations": [{"text": "a"}], "n": 1}, "text: a", "json", "text: a"),
        ({"generations": [[{"text": 5}], 7], "n": 1}, "json", "json", "json"),
        ({"input": 5, "output": None, "returnValues": [], "generations": {}}, "json", "json", "json"),
        ({"input": '{"a":1}', "output": "o"}, "text: o", "json", "text: o"),
        ({"input": "", "b": 1}, "empty", "empty", "json"),
        # An object with one key: the rules apply again to its value.
        ({"question": "why?"}, "text: why?", "text: why?", "text: why?"),
        ({"input": "i"}, "text: i", "text: i", "text: i"),
        ({"x": {"output": "o", "b": 1}}, "text: o", "json", "text: o"),
        ({"x": '{"input": "i"}'}, "text: i", "text: i", 'json: {"x":"{\\"input\\": \\"i\\"}"}'),
        ({"x": {"y": "z"}}, 'json: {"x":{"y":"z"}}', "json", "json"),
        ({"x": None}, 'json: {"x":null}', "json", "json"),
        ({"x": ["z"]}, "json", "json", "json"),
        ({"a": "x", "b": "y"}, 'json: {"a":"x","b":"y"}', "json", "json"),
    ],
)
def test_the_renderer_depends_on_value_and_preference(value: Any, neutral: str, of_input: str, of_output: str) -> None:
    for prefer, expected in zip(PREFERENCES, (neutral, of_input, of_output), strict=True):
        created = preview(value, prefer)
        assert expected in (created.renderer, f"{created.renderer}: {created.text}")


def test_an_invalid_preference_raises_value_error() -> None:
    for function in (preview, full):
        with pytest.raises(ValueError, match="prefer must be None, 'input' or 'output'"):
            function("x", "both")  # type: ignore[operator]


# The line of a preview


@pytest.mark.parametrize(
    ("messages", "neutral", "of_input", "of_output"),
    [
        ([QUESTION], ("user", "Weather in Oslo?"), ("user", "Weather in Oslo?"), ("user", "Weather in Oslo?")),
        ([QUESTION, ANSWER], ("assistant", "It rains."), ("user", "Weather in Oslo?"), ("assistant", "It rains.")),
        ([ANSWER, THANKS], ("user", "Thanks."), ("user", "Thanks."), ("assistant", "It rains.")),
        (
            [TOOL_CALLS, RESULT],
            *[("assistant", 'weather({"city":"Oslo"}), clock()'), ("tool", "rain")],
            ("assistant", 'weather({"city":"Oslo"}), clock()'),
        ),
        ([SYSTEM, RESULT], ("tool", "rain"), ("tool", "rain"), ("tool", "rain")),
    ],
)
def test_the_line_is_the_last_message_of_that_side(messages: Any, neutral: Any, of_input: Any, of_output: Any) -> None:
    created: list[Any] = [preview(messages, prefer) for prefer in PREFERENCES]

    assert [(one.role, one.text) for one in created] == [neutral, of_input, of_output]


IMAGE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}


@pytest.mark.parametrize(
    ("chat_message", "line"),
    [
        ({"role": "user", "content": "  two\n\n lines\t\x00 "}, "two lines"),
        ({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab"),
        ({"role": "user", "content": [IMAGE, {"type": "text", "text": "What?"}, IMAGE]}, "[image] What? [image]"),
        ({"role": "user", "content": "x" * 239 + FAMILY}, "x" * 239),
        ({"role": "user", "content": ""}, ""),
        ({"role": "assistant", "content": None, "refusal": "I will not."}, "I will not."),
        ({"role": "assistant", "parts": [{"type": "reasoning", "text": "hm"}]}, ""),
        ({"role": "user", "parts": [{"type": "file", "media_type": "application/pdf", "file_id": "f"}]}, "[file]"),
        (
            {"role": "user", "parts": [{"type": "file", "media_type": "a/b", "file_id": "f", "filename": "a\n b.pdf"}]},
            "[file a b.pdf]",
        ),
        (
            {"role": "user", "parts": [{"type": "data", "name": "chart", "value": [1]}, {"type": "text", "text": "!"}]},
            "[data chart] !",
        ),
        (
            {"role": "tool", "parts": [
                {"type": "tool-result", "call_id": "c", "output": {"a": [1, None]}},
                {"type": "tool-result", "call_id": "d", "output": "dry"},
            ]},
            '{"a":[1,null]} dry',
        ),
    ],
)  # fmt: skip
def test_the_line_of_a_message(chat_message: Any, line: str) -> None:
    assert preview([chat_message]).text == line


# The messages of a preview


def test_a_message_is_cut_to_four_lines_and_320_characters() -> None:
    long = [{"role": "user", "content": "a\nb\nc\nd\ne"}, {"role": "user", "content": "x" * 318 + " " + FAMILY + "y"}]

    assert encoded_preview(long)["messages"] == [
        message(0, "user", "a\nb\nc\nd", cut=2),
        message(1, "user", "x" * 318, cut=7),
    ]


@pytest.mark.parametrize(
    ("lines", "count"), [([1] * 9, 5), ([4] * 9, 2), ([3, 3, 1, 1], 3), ([3, 3, 3], 2), ([0] * 9, 5), ([9, 9, 9], 2)]
)
def test_messages_are_shown_up_to_ten_lines_and_five_messages(lines: list[int], count: int) -> None:
    created = encoded_preview([{"role": "user", "content": "\n".join("x" * number)} for number in lines])

    assert (len(created["messages"]), created["more"]) == (count, len(lines) - count)


def test_at_least_one_message_is_shown() -> None:
    created = encoded_preview([QUESTION, QUESTION], None, Budget(lines=1))

    assert (created["messages"], created["more"]) == ([message(0, "user", "Weather in Oslo?")], 1)


def test_an_input_without_a_user_message_shows_its_last_message() -> None:
    assert encoded_preview([SYSTEM, ANSWER], "input")["messages"] == [message(1, "assistant", "It rains.")]


def test_calls_and_attachments_are_listed_separately_from_the_text() -> None:
    functions = [{"name": f"f{n}", "arguments": '{\n "x": "' + "y" * 100} for n in range(5)]
    calls = [{"id": f"c{n}", "type": "function", "function": f} for n, f in enumerate(functions)]
    conversation = [
        {"role": "user", "content": [{"type": "text", "text": "See:"}, IMAGE, IMAGE]},
        {"role": "assistant", "content": "Well.", "tool_calls": calls},
    ]

    assert encoded_preview(conversation)["messages"] == [
        message(0, "user", "See:", attachments=2),
        message(1, "assistant", "Well.", calls=[f'f{n}({{ "x": "' + "y" * 69 for n in range(3)]),
    ]


def test_tool_results_are_on_separate_lines_and_counted_in_full() -> None:
    results = [{"type": "tool-result", "call_id": f"c{n}", "output": out} for n, out in enumerate((["x" * 500], "z"))]

    assert encoded_preview([{"role": "tool", "parts": results}])["messages"] == [
        message(0, "tool", '["' + "x" * 318, cut=len('["' + "x" * 500 + '"]\nz') - 320)
    ]


def test_text_and_json_are_cut_to_ten_lines_and_500_characters() -> None:
    lines, wide = preview("a\n" * 12), preview({"k": ["x" * 600]})

    assert lines == TextPreview(" ".join("a" * 12), "a\n" * 9 + "a", 5)
    assert wide == JsonPreview('{"k":["' + "x" * 233, '{"k":["' + "x" * 493, 600 + len('{"k":[""]}') - 500)


def test_a_conversation_without_messages_has_a_chat_preview(monkeypatch: pytest.MonkeyPatch) -> None:
    from palaver.core.extraction import previews
    from palaver.core.extraction.search import Conversation

    monkeypatch.setattr(previews, "read_conversation", lambda *_: Conversation((), "gemini", "/contents", "input"))

    empty = ChatPreview("", None, 0, "/contents", "gemini", (), 0)
    assert [preview({}, prefer) for prefer in PREFERENCES] == [empty] * 3


# Full values


def test_full_returns_the_conversation_in_pages() -> None:
    value = {"messages": [{"role": "user", "content": str(number)} for number in range(450)]}
    pages: list[Any] = [full(value)]
    while pages[-1].next is not None:
        pages.append(full(value, first=pages[-1].next))

    assert [len(page.messages) for page in pages] == [200, 200, 50]
    assert [message.text for page in pages for message in page.messages] == [str(number) for number in range(450)]
    assert full([QUESTION], "input") == WholeChat((Message.user("Weather in Oslo?"),), 1, "", "chat-completions", None)
    assert full([QUESTION], first=-5) == full([QUESTION])
    assert full([QUESTION], first=5) == WholeChat((), 1, "", "chat-completions", None)


def test_full_returns_the_complete_value_if_there_is_no_conversation() -> None:
    assert [full(value) for value in ("x" * 1000, '{"a": [1]}', {"input": "hi", "b": 1}, None)] == [
        WholeText("x" * 1000),
        WholeJson({"a": [1]}),
        WholeText("hi"),
        WholeEmpty(),
    ]


# Properties


hostile_texts = st.text(
    st.sampled_from('ab \n\t\x00\x01\x1f"\\\u2028\x7f中\ud800\udc00\U0001f1f3\u0301\u200d' + FAMILY), max_size=12
)
large_texts = st.builds(lambda text, times: text * times, hostile_texts, st.integers(0, 400))
roles = st.sampled_from(["user", "assistant", "system", "tool", "human", "model"]) | large_texts
calls = st.builds(
    lambda name, arguments: {"id": name[:9], "type": "function", "function": {"name": name, "arguments": arguments}},
    large_texts,
    large_texts,
)
chat_messages = st.builds(
    lambda role, content, calls: {"role": role, "content": content, "tool_calls": calls},
    roles,
    large_texts
    | st.lists(st.builds(lambda text: {"type": "text", "text": text}, large_texts) | st.just(IMAGE), max_size=3),
    st.lists(calls, max_size=5),
)
any_values = st.recursive(
    st.none() | st.integers() | st.floats() | large_texts | chat_messages,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(hostile_texts, inner, max_size=3),
    max_leaves=12,
)
wrapped_values = st.builds(
    lambda keys, value: [value := {key: value} for key in keys][-1] if keys else value,
    st.lists(
        st.sampled_from(["data", "inputs", "outputs", "messages", "gen_ai.input.messages", "input", "output"]),
        max_size=4,
    ),
    any_values | st.lists(chat_messages, max_size=8),
)


@given(wrapped_values, st.sampled_from(PREFERENCES))
def test_every_preview_is_under_4_kib_and_a_chat_exactly_when_one_is_found(value: Any, prefer: Any) -> None:
    created = preview(value, prefer)

    assert len(msgspec.json.encode(created)) < 4096
    assert (created.renderer == "chat") is (read_conversation(value, prefer) is not None)
    assert full(value, prefer).renderer == created.renderer
    assert len(created.text) <= 240
    assert "\n" not in created.text


@given(searched)
def test_a_preference_never_decides_whether_it_is_a_chat(value: Any) -> None:
    assert len({preview(value, prefer).renderer == "chat" for prefer in PREFERENCES}) == 1


@given(wrapped_values, st.sampled_from(PREFERENCES), st.integers(0, 5_000), st.integers(0, 5_000))
def test_a_larger_budget_has_the_same_size_limit(value: Any, prefer: Any, lines: int, characters: int) -> None:
    budget = Budget(
        lines=lines,
        characters=characters,
        message_lines=lines,
        message_characters=characters,
        line_characters=characters,
        calls=lines,
        call_characters=characters,
    )

    assert len(msgspec.json.encode(preview(value, prefer, budget))) < 4096


@pytest.mark.parametrize(
    "text", ["中", "\x01", FAMILY, '"', "\ud800"], ids=["wide", "control", "family", "quote", "half"]
)
def test_an_oversized_preview_loses_characters_but_no_messages(text: str) -> None:
    calling = {**TOOL_CALLS, "tool_calls": [{"id": "c", "function": {"name": text * 900, "arguments": text * 900}}] * 3}
    created = encoded_preview([{"role": "user", "content": text * 900}, calling] * 9)

    assert len(created["messages"]) == 5
    assert created["messages"][0]["text"]
    assert created["messages"][0]["cut"] == 900 * len(text) - len(created["messages"][0]["text"])


def test_cyclic_deep_and_long_values_are_previewed_in_time() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = {"data": [deep]}
    cycle: dict[str, Any] = {"a": 1}
    cycle["data"] = cycle["list"] = [cycle]
    long = "some words \n" * 4_000_000
    started = time.thread_time()
    created = [
        preview(value).renderer for value in (deep, cycle, long, {"x": long, "y": 1}, [{**QUESTION, "content": long}])
    ]

    assert created == ["json", "json", "text", "json", "chat"]
    assert time.thread_time() - started < 10  # A watchdog: some hundredths of a second as a rule.


def test_previews_compare_by_value() -> None:
    assert preview([QUESTION]) == ChatPreview(
        text="Weather in Oslo?",
        role="user",
        count=1,
        path="",
        dialect="chat-completions",
        messages=(MessagePreview(0, "user", "Weather in Oslo?", 0, (), 0),),
        more=0,
    )
    assert preview(None) == EmptyPreview()
