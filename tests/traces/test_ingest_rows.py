"""The row of a span: its columns, previews, search words and body."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import json
from palaver.core.messages import Data, File, Message, Reasoning, Refusal, ToolCall, ToolResult, Usage
from palaver.storage.spans.writes import decompress_body
from palaver.traces import ingest
from palaver.traces.ingest import build_row
from palaver.traces.model import Span, SpanException, Tool

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
EMPTY_SPAN = Span(trace_id="0" * 31 + "1", span_id="0" * 15 + "2", start=NOON)


def span(**more: Any) -> Span:
    return msgspec.structs.replace(EMPTY_SPAN, **more)


def renderer_and_text(preview: bytes) -> tuple[str, str]:
    """Return the renderer of a preview and its one-line text."""
    document = json.decode_or_text(preview.decode())
    return document["renderer"], document["text"]


def test_a_row_has_the_columns_of_a_span_and_its_complete_body() -> None:
    given = span(
        parent_id="0" * 16,
        project="team",
        name="chat gpt-4o",
        kind="llm",
        status="error",
        status_message="gone",
        duration_ms=812.4,
        usage=Usage(31, 9),
        cost=0.0002,
        cost_source="reported",
        model="gpt-4o",
        provider="openai",
        finish="stop",
        session="s",
        user="u",
        workflow="w",
        run_id="run_1",
        service="shop",
        scope="my.lib",
        tool=Tool("calc"),
        exception=SpanException("ValueError", "no"),
        attributes={"http.route": "/a"},
    )

    row = build_row(given)

    columns = {name: getattr(row, name) for name in row.__struct_fields__}
    for name in ("preview_in", "preview_out", "body"):
        columns.pop(name)
    assert columns == {
        "project": "team",
        "trace_id": given.trace_id,
        "span_id": given.span_id,
        "parent_id": "0" * 16,
        "start": NOON,
        "duration_ms": 812.4,
        "kind": "llm",
        "status": "error",
        "name": "chat gpt-4o",
        "status_message": "gone",
        "model": "gpt-4o",
        "provider": "openai",
        "finish": "stop",
        "session": "s",
        "user": "u",
        "workflow": "w",
        "run_id": "run_1",
        "service": "shop",
        "scope": "my.lib",
        "tool": "calc",
        "exception": "ValueError",
        "input_tokens": 31,
        "output_tokens": 9,
        "cost": 0.0002,
        "cost_source": "reported",
        "words": "chat gpt 4o w gpt 4o shop calc no gone",
        "labels": '{"http.route":"/a"}',
    }
    assert msgspec.json.decode(decompress_body(row.body), type=Span) == given


def test_an_empty_span_becomes_a_row() -> None:
    row = build_row(EMPTY_SPAN)

    assert (row.name, row.status_message, row.model, row.input_tokens, row.labels) == (
        "unnamed",
        None,
        None,
        None,
        "{}",
    )
    assert (renderer_and_text(row.preview_in), renderer_and_text(row.preview_out), row.words) == (
        ("empty", ""),
        ("empty", ""),
        "",
    )


CALL = Message.assistant(ToolCall("c1", "weather", '{"city":"Oslo"}'))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {
                "messages_in": (
                    Message.user("hi"),
                    Message.assistant("yes?"),
                    Message.user("Weather?"),
                    Message.tool("c", 1),
                )
            },
            ("chat", "Weather?"),
        ),
        ({"messages_in": (Message.system("Be  brief.\n"),)}, ("chat", "Be brief.")),
        (
            {"messages_in": (Message.user("See", File("image/png", url="https://a/b")),), "inputs": "other"},
            ("chat", "See [image]"),
        ),
        ({"inputs": {"question": "Why?"}}, ("text", "Why?")),
        ({"inputs": {"a": 1, "b": 2}}, ("json", '{"a":1,"b":2}')),
        ({"inputs": {"messages": [{"role": "user", "content": "hello"}]}}, ("chat", "hello")),
    ],
)
def test_the_input_preview_shows_the_last_request_message_or_the_inputs(
    given: dict[str, Any], expected: tuple[str, str]
) -> None:
    assert renderer_and_text(build_row(span(**given)).preview_in) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"messages_out": (Message.assistant("Rain."), Message.tool("c", 1))}, ("chat", "Rain.")),
        ({"messages_out": (CALL,)}, ("chat", 'weather({"city":"Oslo"})')),
        ({"messages_out": (Message.assistant(),), "outputs": "4"}, ("text", "4")),
        ({"messages_out": (Message.assistant(),), "outputs": ""}, ("chat", "")),
        ({"outputs": 4}, ("json", "4")),
        ({"status": "error", "exception": SpanException("E", "no such city")}, ("text", "no such city")),
        ({"status": "error", "status_message": "[1, 2"}, ("text", "[1, 2")),
        (
            {"status": "error", "exception": SpanException("E", "late"), "messages_out": (Message.assistant("Ra"),)},
            ("chat", "Ra"),
        ),
        ({"status": "error"}, ("empty", "")),
        ({"exception": SpanException("E", "caught")}, ("empty", "")),
    ],
)
def test_the_output_preview_shows_the_answer_or_the_error(given: dict[str, Any], expected: tuple[str, str]) -> None:
    assert renderer_and_text(build_row(span(**given)).preview_out) == expected


def test_search_words_include_names_and_message_parts() -> None:
    question = Message.user(
        "question one", File("text/plain", url="https://a/b", filename="plan.txt"), Data("chart", {})
    )
    answer = Message.assistant(Reasoning("hmm"), ToolCall("c", "lookup", '{"q":"two"}'), Refusal("sorry"))
    result = Message(
        "tool", (ToolResult("c", {"three": 3}), ToolResult("c", "four"), File("image/png", url="https://a"))
    )

    search_text = build_row(
        span(name="chat", messages_in=(question, result), messages_out=(answer,), inputs={"a": "not said"})
    ).words

    line = "question one file plan txt data chart"
    assert search_text == f"chat question one plan txt chart three 3 four hmm lookup q two sorry {line}"


def test_previewed_text_occurs_once_in_the_search_words() -> None:
    row = build_row(span(name="carrots", messages_in=(Message.user("are they rotten"),), outputs="rot"))
    long = " ".join(f"word{number}" for number in range(100))

    assert row.words == "carrots are they rotten rot"
    assert build_row(span(name="x", messages_in=(Message.user(long),))).words == f"x {long}"


def test_only_the_beginning_of_long_messages_is_searchable() -> None:
    long = tuple(Message.user(letter * 20 * 1024 + " end") for letter in "äbc")

    search_text = build_row(span(messages_in=long)).words.replace(" ", "")

    message_words = search_text[search_text.index("ä" * 500) :]
    assert message_words.count("ä") == 16 * 1024
    assert "b" not in message_words
    assert "end" not in search_text.removeprefix(build_row(span(name="x", messages_in=())).words)[-100:]


def test_columns_are_truncated_and_the_body_is_complete() -> None:
    given = span(session="s" * 300, name="n" * 3000, user="👍🏽" * 128, attributes={"a": "x" * 2000})

    row = build_row(given)

    assert (row.session, row.name) == ("s" * 256, "n" * 2000)
    assert row.user == "👍🏽" * 128
    assert json.decode_or_text(row.labels) == {"a": "x" * 1000}
    assert msgspec.json.decode(decompress_body(row.body), type=Span) == given


def test_filter_attributes_are_encoded_as_scalars() -> None:
    given = {
        "n": None,
        "t": True,
        "i": 7,
        "f": 2.5,
        "big": 1 << 70,
        "inf": float("inf"),
        "l": [1, "a"],
        "d": {"a": 1},
        "nul\0": "a\0",
    }

    assert json.decode_or_text(ingest.encode_filter_attributes(given)) == {
        "n": None,
        "t": True,
        "i": 7,
        "f": 2.5,
        "big": str(1 << 70),
        "inf": None,
        "l": '[1,"a"]',
        "d": '{"a":1}',
        "nul\ufffd": "a\ufffd",
    }


def test_lone_surrogates_are_replaced() -> None:
    row = build_row(span(name="a\ud800b", inputs={"\udfff": 1}, attributes={"k\ud800": "v\ud800"}))
    message_row = build_row(span(messages_in=(Message.user("half \ud800"),)))

    decoded = msgspec.json.decode(decompress_body(row.body), type=Span)
    assert (decoded.name, decoded.inputs, decoded.attributes) == ("a\ufffdb", {"\ufffd": 1}, {"k\ufffd": "v\ufffd"})
    assert (row.name, row.words, row.labels) == ("a\ufffdb", "a b 1", '{"k\ufffd":"v\ufffd"}')
    assert message_row.words == "half"


def test_only_the_first_of_many_attributes_are_encoded_for_filters() -> None:
    decoded = json.decode_or_text(ingest.encode_filter_attributes({f"{number:03}": "x" * 997 for number in range(100)}))

    assert list(decoded) == [f"{number:03}" for number in range(65)]


_texts = st.text(max_size=20) | st.text(st.characters(exclude_categories=()), max_size=20)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=8,
)


@given(
    st.builds(
        Span,
        trace_id=st.just(EMPTY_SPAN.trace_id),
        span_id=st.just(EMPTY_SPAN.span_id),
        start=st.just(NOON),
        name=_texts,
        duration_ms=st.floats(),
        status=st.sampled_from(["ok", "error"]),
        messages_in=st.lists(st.builds(Message.user, _texts), max_size=2).map(tuple),
        inputs=_json,
        outputs=_json,
        parameters=st.just({}),
        tools=st.just(()),
        tool=st.none() | st.builds(Tool, _texts),
        usage=st.none() | st.builds(Usage, st.integers(0), st.integers(0)),
        cost=st.none() | st.floats(),
        cost_source=st.none(),
        session=st.none() | _texts,
        attributes=st.dictionaries(_texts, _json, max_size=4),
        events=st.just(()),
        links=st.just(()),
        dropped=st.just({}),
        notes=st.just(()),
        conventions=st.just(()),
        kind=st.just("llm"),
        parent_id=st.none(),
        project=st.just("default"),
        status_message=_texts,
    )
)
def test_any_span_becomes_a_valid_row(given: Span) -> None:
    row = build_row(given)

    assert row.words == " ".join(row.words.split())
    for text in (row.name, row.session or "", row.labels):
        text.encode()
        assert "\0" not in text
    assert len(row.preview_in) < 4096
    assert isinstance(json.decode_or_text(row.labels), dict)
