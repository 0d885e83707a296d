"""Lists of spans and traces, on every database: contents, order and search."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.errors import InvalidValue
from palaver.storage.database import Database
from palaver.storage.pagination import Window
from palaver.storage.spans import full_text as span_words
from palaver.storage.spans import queries as span_pages
from palaver.storage.spans.filters import FilterCondition, FilterGroup
from palaver.storage.spans.queries import SpanQuery, TraceListItem
from tests.storage.span_factory import NOON, SECOND, insert_rows, span_id, span_row, trace_id


async def list_names(database: Database, query: SpanQuery = span_pages.ALL_SPANS) -> list[str]:
    return [one.name for one in (await database.read(span_pages.list_spans, "mine", query)).data]


async def test_spans_are_listed_latest_first_and_pages_are_stable_while_spans_arrive(database: Database) -> None:
    await insert_rows(
        database, *(span_row(f"{at}", at, trace=f"{at}") for at in range(5)), span_row("a", 3, trace="same time")
    )

    first = await database.read(span_pages.list_spans, "mine", SpanQuery(), Window(2))
    await insert_rows(database, span_row("new", 9, trace="new"), span_row("late", 0.5, trace="late"))
    second = await database.read(span_pages.list_spans, "mine", SpanQuery(), Window(9, first.next))

    assert [one.name for one in first.data] == ["4", "a"]
    assert [one.name for one in second.data] == ["3", "2", "1", "late", "0"]
    assert second.next is None


async def test_equal_spans_of_two_traces_are_each_listed_once(database: Database) -> None:
    await insert_rows(database, *(span_row("a", trace=f"{number}") for number in range(5)))

    seen: list[str] = []
    window: Window | None = Window(2)
    while window is not None:
        result = await database.read(span_pages.list_spans, "mine", SpanQuery(), window)
        seen += [one.trace_id for one in result.data]
        window = None if result.next is None else Window(2, result.next)

    assert sorted(seen) == [trace_id(f"{number}") for number in range(5)]


async def test_a_cursor_of_another_list_or_a_damaged_one_is_refused(database: Database) -> None:
    await insert_rows(database, span_row("a"), span_row("b", 1), span_row("c", 2, trace="u"))
    cursor = (await database.read(span_pages.list_spans, "mine", SpanQuery(), Window(1))).next
    assert cursor is not None

    for read, project, query, after in (
        (span_pages.list_traces, "mine", SpanQuery(), cursor),
        (span_pages.list_spans, "theirs", SpanQuery(), cursor),
        (span_pages.list_spans, "mine", SpanQuery(search="a"), cursor),
        (span_pages.list_spans, "mine", SpanQuery(), cursor[:-2]),
    ):
        with pytest.raises(InvalidValue):
            await database.read(read, project, query, Window(1, after))


async def test_spans_are_filtered_by_start_time(database: Database) -> None:
    await insert_rows(database, *(span_row(f"{at}", at) for at in range(4)))

    assert await list_names(database, SpanQuery(since=NOON + 2 * SECOND)) == ["3", "2"]
    assert await list_names(database, SpanQuery(until=NOON + 2 * SECOND)) == ["1", "0"]
    assert await list_names(database, SpanQuery(since=NOON + SECOND, until=NOON + 3 * SECOND)) == ["2", "1"]


async def test_trace_is_listed_once_with_the_totals_of_its_model_calls(database: Database) -> None:
    tokens: dict[str, Any] = {"input_tokens": 10, "output_tokens": 1, "cost": 0.5}
    await insert_rows(
        database,
        span_row("agent", 0, kind="agent", session="s", workflow="w", input_tokens=99, output_tokens=99, cost=9.0),
        span_row("chat", 1, parent="agent", kind="llm", **tokens),
        span_row("again", 2, parent="agent", kind="llm", status="error", **tokens),
        span_row("tool", 3, parent="agent", kind="tool", **tokens),
    )

    [result] = (await database.read(span_pages.list_traces, "mine")).data

    assert result == TraceListItem(
        trace_id=trace_id("t"),
        span_id=span_id("agent"),
        parent_id=None,
        name="agent",
        kind="agent",
        status="ok",
        start=NOON,
        duration_ms=100.0,
        workflow="w",
        session="s",
        user=None,
        model=None,
        provider=None,
        service=None,
        run_id=None,
        input_tokens=20,
        output_tokens=2,
        cost=1.0,
        preview_in={"renderer": "text", "text": "in agent"},
        preview_out={"renderer": "text", "text": "out agent"},
        spans=4,
        errors=1,
    )


async def test_trace_without_usage_in_its_calls_has_the_usage_of_its_root(database: Database) -> None:
    await insert_rows(
        database, span_row("agent", input_tokens=7, cost=2.0), span_row("chat", 1, parent="agent", kind="llm")
    )

    [result] = (await database.read(span_pages.list_traces, "mine")).data

    assert (result.input_tokens, result.output_tokens, result.cost, result.spans) == (7, None, 2.0, 2)


async def test_a_list_of_no_traces_is_empty(database: Database) -> None:
    assert (await database.read(span_pages.list_traces, "mine")).data == []


# Searching


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ("refund", ["both", "refund"]),
        ("REFUND", ["both", "refund"]),
        ('refund "order 42"', ["both"]),
        ('"42 order"', []),
        ("order 42", ["both", "spread"]),
        ('"order 42', ["both"]),
        ("ord", []),
        ("straße", ["street"]),
        ("STRASSE", ["street"]),
        ("mail@example.org", ["mail"]),
        ("example mail", ["mail"]),
        ("%", []),
        ('""', []),
        ('"', []),
        ("refund %", ["both", "refund"]),
        ('refund" OR "order', []),
        ("refund OR spread", []),
        ("refund*", ["both", "refund"]),
        ("words:refund", []),
        ("NEAR(refund order)", []),
        ("-refund", ["both", "refund"]),
        ("'; DROP TABLE spans; --", []),
        ("!refund & order | 42", ["both"]),
        ("snake_case", ["snake"]),
        ("case", ["snake"]),
        ("1.5", ["snake"]),
        ("3e5 0x1f", ["numbers"]),
        ("a" * 200, ["long"]),
        ("a" * 100, []),
        ("a\0b", []),
    ],
)
async def test_search_finds_words_and_phrases_and_has_no_operators(
    database: Database, search: str, expected: list[str]
) -> None:
    texts = {
        "refund": "I want a Refund!",
        "both": "refund of (order 42)",
        "spread": "order no. 42",
        "street": "Lange Straße",
        "mail": "Write to mail@example.org.",
        "snake": "snake_case 1.5",
        "numbers": "3e5, 0x1f",
        "long": "a" * 200,
    }
    await insert_rows(database, *(span_row(name, text=content, trace=name) for name, content in texts.items()))

    assert sorted(await list_names(database, SpanQuery(search=search))) == expected


async def test_search_for_a_frequent_word_lists_the_latest_first(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_words, "MAX_SORTED_HITS", 3)
    monkeypatch.setattr(span_words, "SEARCH_WINDOWS", (2, 4, 99))
    matching = [span_row(f"{at}", at, trace=f"{at}", text="same", kind="llm") for at in range(9)]
    await insert_rows(
        database, *matching, *(span_row(f"no {at}", at, trace=f"no {at}", text="other", kind="llm") for at in range(6))
    )
    llm = FilterCondition("field", "kind", "eq", ("llm",))

    seen: list[str] = []
    window: Window | None = Window(2)
    while window is not None:
        result = await database.read(span_pages.list_traces, "mine", SpanQuery(search="same", filter=llm), window)
        seen += [one.name for one in result.data]
        window = None if result.next is None else Window(2, result.next)
    earlier = await database.read(
        span_pages.list_spans, "mine", SpanQuery(search="same", until=NOON + 3 * SECOND), Window(2)
    )

    assert seen == ["8", "7", "6", "5", "4", "3", "2", "1", "0"]
    assert [one.name for one in earlier.data] == ["2", "1"]


async def test_filter_search_and_time_range_are_combined(database: Database) -> None:
    await insert_rows(
        database,
        span_row("a", 0, text="x", kind="llm"),
        span_row("b", 1, text="x", kind="llm", status="error"),
        span_row("c", 2, text="y", kind="llm", status="error"),
        span_row("d", 3, text="x", kind="llm", status="error"),
    )
    errors = FilterGroup(
        "and", (FilterCondition("field", "kind", "eq", ("llm",)), FilterCondition("field", "status", "ne", ("ok",)))
    )

    assert await list_names(database, SpanQuery(filter=errors, search="x", until=NOON + timedelta(seconds=3))) == ["b"]


@given(st.text())
def test_normalized_words_are_letters_and_digits(texts: str) -> None:
    words = span_words.normalize_words(texts)

    assert words == span_words.normalize_words(words)
    assert all(word.isalnum() and len(word) <= 64 for word in words.split())
    assert all(part == span_words.normalize_words(part) for part in span_words.search_phrases(texts))
