"""A bulk insert stores the same rows, bodies and search words as single inserts."""

import pytest

from palaver.storage.database import Database
from palaver.storage.pagination import Window
from palaver.storage.spans import queries as span_pages
from palaver.storage.spans import traces as span_trees
from palaver.storage.spans.queries import SpanQuery
from tests.storage.span_factory import insert_rows, span_id, span_row, trace_id

SPAN_COUNT = 300


async def test_many_spans_are_stored_and_found(database: Database) -> None:
    rows = [
        span_row(f"s{number}", number, text=f"word{number} common", user=f"u{number}") for number in range(SPAN_COUNT)
    ]

    added = await insert_rows(database, *rows)

    page = await database.read(span_pages.list_spans, "mine", SpanQuery(), Window(SPAN_COUNT))
    assert tuple(added) == (SPAN_COUNT, 0, 0)
    assert [(one.name, one.user, one.start) for one in page.data] == [
        (one.name, one.user, one.start) for one in reversed(rows)
    ]
    for number in (0, SPAN_COUNT // 2, SPAN_COUNT - 1):
        result = await database.read(span_pages.list_spans, "mine", SpanQuery(search=f"word{number} common"))
        body = await database.read(span_trees.get_span_body, "mine", trace_id("t"), span_id(f"s{number}"))
        assert [one.name for one in result.data] == [f"s{number}"]
        assert body == rows[number].body


@pytest.mark.parametrize("filler", ["short", "a long story " * 200])
async def test_replaced_span_is_no_longer_found_by_its_old_text(database: Database, filler: str) -> None:
    await insert_rows(database, span_row("a", text=f"{filler} before"))
    await insert_rows(database, span_row("a", duration_ms=200.0, text=f"{filler} after"))

    before, after = [
        await database.read(span_pages.list_spans, "mine", SpanQuery(search=word)) for word in ("before", "after")
    ]

    assert ([one.name for one in before.data], [one.name for one in after.data]) == ([], ["a"])
