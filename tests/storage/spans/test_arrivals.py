"""Spans in order of arrival, traces by the prefix of their id, and outlines, on every database."""

from palaver.storage.database import Database
from palaver.storage.spans import filters as span_filters
from palaver.storage.spans import queries as span_arrivals
from palaver.storage.spans import traces as span_trees
from palaver.storage.spans.queries import SpanQuery
from tests.storage.span_factory import insert_rows, span_id, span_row, trace_id


async def test_spans_are_listed_in_order_of_arrival(database: Database) -> None:
    await insert_rows(database, span_row("before", 9))
    last = await database.read(span_arrivals.last_position)
    await insert_rows(database, span_row("late", 5, parent="before"), span_row("theirs", project="theirs"))
    await insert_rows(database, span_row("early", 1, trace="u"))
    await insert_rows(database, span_row("child", 2, trace="u", parent="early"))

    read = database.read
    result = await read(span_arrivals.list_arrivals, "mine", last)
    heads = await read(span_arrivals.list_arrivals, "mine", last, heads=True)
    first = await read(span_arrivals.list_arrivals, "mine", last, limit=1)
    remaining = await read(span_arrivals.list_arrivals, "mine", first[-1].position)
    query = SpanQuery(filter=span_filters.parse_filter({"field": "name", "op": "eq", "value": "child"}))

    assert [one.row.name for one in result] == ["late", "early", "child"]
    assert [one.row.name for one in heads] == ["early"]
    assert first + remaining == result
    assert [one.row.name for one in await read(span_arrivals.list_arrivals, "mine", last, query)] == ["child"]
    assert await read(span_arrivals.list_arrivals, "mine", await read(span_arrivals.last_position)) == []


async def test_last_position_of_an_empty_database_is_zero(database: Database) -> None:
    assert await database.read(span_arrivals.last_position) == 0


async def test_traces_are_listed_by_id_and_filtered(database: Database) -> None:
    await insert_rows(
        database, span_row("b", 2, trace="b"), span_row("a", 1, trace="a"), span_row("aa", 2, trace="a", parent="a")
    )
    await insert_rows(database, span_row("a", 1, trace="a", project="theirs"))
    traces = [trace_id("a"), trace_id("b"), trace_id("nobody")]
    query = SpanQuery(filter=span_filters.parse_filter({"field": "name", "op": "eq", "value": "b"}))

    result = await database.read(span_arrivals.list_matching_traces, "mine", traces)

    assert [(one.name, one.spans) for one in result] == [("a", 2), ("b", 1)]
    assert [one.name for one in await database.read(span_arrivals.list_matching_traces, "mine", traces, query)] == ["b"]


async def test_traces_are_found_by_id_prefix(database: Database) -> None:
    await insert_rows(
        database, span_row("a", trace="a"), span_row("b", trace="b"), span_row("c", trace="c", project="theirs")
    )
    known = sorted([trace_id("a"), trace_id("b")])

    async def find(prefix: str, limit: int = 9) -> list[str]:
        return await database.read(span_arrivals.find_traces_by_prefix, "mine", prefix, limit=limit)

    assert await find("") == known
    assert await find("", 1) == known[:1]
    assert await find(trace_id("a")) == [trace_id("a")]
    assert await find(trace_id("c")) == []


async def test_an_outline_has_every_span_once_below_its_parent(database: Database) -> None:
    await insert_rows(
        database,
        span_row("root"),
        span_row("b", 2, parent="root"),
        span_row("a", 1, parent="root"),
        span_row("aa", 3, parent="a"),
        span_row("orphan", 0.5, parent="nobody"),
        span_row("x", 6, parent="y"),
        span_row("y", 5, parent="x"),
    )

    result = await database.read(span_trees.load_outline, "mine", trace_id("t"))

    assert result == [
        (span_id("root"), 0, ()),
        (span_id("a"), 1, ()),
        (span_id("aa"), 2, ()),
        (span_id("b"), 1, ()),
        (span_id("orphan"), 0, ("orphan",)),
        (span_id("y"), 0, ("cycle",)),
        (span_id("x"), 1, ()),
    ]


async def test_replaced_span_arrives_at_a_later_position(database: Database) -> None:
    await insert_rows(database, span_row("a"), span_row("b", 1))
    before = await database.read(span_arrivals.last_position)
    await insert_rows(database, span_row("b", 1, duration_ms=9_000.0))
    [arrived] = await database.read(span_arrivals.list_arrivals, "mine", before)

    assert (arrived.row.name, arrived.row.duration_ms) == ("b", 9_000.0)
    assert arrived.position > before
