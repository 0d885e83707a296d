"""One trace, on every database: every span is in the tree exactly once."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, StaticPool, create_engine

from palaver.errors import InvalidValue
from palaver.storage.database import Database
from palaver.storage.pagination import FIRST_PAGE, Page, Window
from palaver.storage.spans import traces as span_shapes
from palaver.storage.spans import traces as span_trees
from palaver.storage.spans import writes as spans
from palaver.storage.spans.traces import SkeletonSpan, SpanTreeItem
from palaver.storage.tables import metadata
from tests.storage.span_factory import NOON, SECOND, TODAY, insert_rows, span_id, span_row, trace_id

TreeRows = list[tuple[str, int, int, tuple[str, ...]]]


def tree_rows(result: Page[SpanTreeItem]) -> TreeRows:
    return [(one.name, one.children, one.descendants, one.notes) for one in result.data]


async def list_children(
    database: Database, parent: str | None = None, window: Window = FIRST_PAGE
) -> Page[SpanTreeItem]:
    parent_id = None if parent is None else span_id(parent)
    return await database.read(span_trees.list_children, "mine", trace_id("t"), parent=parent_id, window=window)


async def test_children_are_listed_by_start_with_their_descendant_counts(database: Database) -> None:
    await insert_rows(
        database,
        span_row("root"),
        span_row("b", 2, parent="root"),
        span_row("a", 1, parent="root"),
        span_row("aa", 3, parent="a"),
        span_row("aaa", 4, parent="aa"),
        span_row("other", trace="u"),
    )

    assert tree_rows(await list_children(database)) == [("root", 2, 4, ())]
    assert tree_rows(await list_children(database, "root")) == [("a", 1, 2, ()), ("b", 0, 0, ())]
    assert tree_rows(await list_children(database, "a")) == [("aa", 1, 1, ())]
    assert tree_rows(await list_children(database, "aaa")) == []
    assert tree_rows(await list_children(database, "nobody")) == []


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
async def test_repeated_query_for_children_never_uses_a_generic_plan(database: Database) -> None:
    await insert_rows(database, span_row("root"), *(span_row(f"{at}", at, parent="root") for at in range(20)))

    def query_repeatedly(db: Connection) -> Any:
        for _ in range(20):  # Prepared after five executions; after five more PostgreSQL may use a generic plan.
            span_trees.list_children(db, "mine", trace_id("t"), parent=span_id("root"))
        plans = "SELECT generic_plans FROM pg_prepared_statements WHERE position('span_id IN' IN statement) > 0"
        return db.exec_driver_sql(plans).scalars().all()

    assert await database.read(query_repeatedly) == [0]


async def test_children_are_listed_in_pages(database: Database) -> None:
    await insert_rows(database, span_row("root"), *(span_row(f"{at}", at, parent="root") for at in range(5)))

    first = await list_children(database, "root", Window(2))
    await insert_rows(database, span_row("early", 0.5, parent="root"), span_row("late", 2.5, parent="root"))
    second = await list_children(database, "root", Window(3, first.next))

    assert [one.name for one in first.data] == ["0", "1"]
    assert [one.name for one in second.data] == ["2", "late", "3"]
    with pytest.raises(InvalidValue):
        await list_children(database, "0", Window(2, first.next))


async def test_orphans_and_cycles_are_listed_at_the_top_level(database: Database) -> None:
    await insert_rows(
        database,
        span_row("root", 5),
        span_row("orphan", 1, parent="gone"),
        span_row("child", 2, parent="orphan"),
        span_row("c", 9, parent="a"),
        span_row("a", 8, parent="b"),
        span_row("b", 7, parent="c"),
        span_row("tail", 6, parent="a"),
    )

    assert tree_rows(await list_children(database)) == [
        ("orphan", 1, 1, ("orphan",)),
        ("root", 0, 0, ()),
        ("b", 1, 3, ("cycle",)),
    ]
    assert tree_rows(await list_children(database, "b")) == [("a", 2, 2, ())]
    assert tree_rows(await list_children(database, "a")) == [("tail", 0, 0, ()), ("c", 0, 0, ())]
    assert tree_rows(await list_children(database, "c")) == []


@pytest.fixture(scope="module")
def memory_engine() -> Iterator[Engine]:
    """An SQLite database for many examples: a connection that is closed without a commit leaves nothing behind."""
    engine = create_engine("sqlite://", poolclass=StaticPool)
    metadata.create_all(engine)
    yield engine
    engine.dispose()


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3)), min_size=1, max_size=10))
def test_every_span_is_in_the_tree_exactly_once(memory_engine: Engine, created: list[tuple[int, int]]) -> None:
    rows = [
        span_row(f"{number}", at, parent=f"{parent}" if parent else None) for number, (parent, at) in enumerate(created)
    ]
    with memory_engine.connect() as db:
        spans.insert_spans(db, rows, today=TODAY)

        def walk(parent: str | None) -> list[tuple[str, int]]:
            result = span_trees.list_children(db, "mine", trace_id("t"), parent=parent, window=Window(100)).data
            return [one for each in result for one in ((each.name, each.descendants), *walk(each.span_id))]

        seen = walk(None)
        summary = span_trees.get_trace_overview(db, "mine", trace_id("t"))

    assert sorted(name for name, _ in seen) == sorted(f"{number}" for number in range(len(created)))
    positions = {name: index for index, (name, _) in enumerate(seen)}
    assert all(positions[name] + count < len(seen) for name, count in seen)
    assert summary is not None
    assert summary.root.spans == len(created)


async def test_skeleton_lists_all_spans_by_start(database: Database) -> None:
    await insert_rows(
        database,
        span_row("root"),
        span_row("b", 2, parent="root", kind="llm", status="error"),
        span_row("a", 1, parent="x"),
    )

    first = await database.read(span_trees.list_skeleton, "mine", trace_id("t"), Window(2))
    second = await database.read(span_trees.list_skeleton, "mine", trace_id("t"), Window(2, first.next))

    common: dict[str, Any] = {"kind": "unknown", "status": "ok", "duration_ms": 100.0}
    assert first.data == [
        SkeletonSpan(span_id=span_id("root"), parent_id=None, name="root", start=NOON, **common),
        SkeletonSpan(span_id=span_id("a"), parent_id=span_id("x"), name="a", start=NOON + SECOND, **common),
    ]
    assert [(one.name, one.kind, one.status) for one in second.data] == [("b", "llm", "error")]
    assert second.next is None


async def test_trace_overview_has_counts_totals_kinds_and_sessions(database: Database) -> None:
    await insert_rows(
        database,
        span_row("root", session="s2"),
        span_row("a", 1, parent="root", kind="llm", session="s1", cost=0.25, input_tokens=4),
        span_row("b", 2, parent="root", kind="llm", status="error", session="s1"),
    )

    result = await database.read(span_trees.get_trace_overview, "mine", trace_id("t"))

    assert result is not None
    assert (result.root.name, result.root.spans, result.root.errors) == ("root", 3, 1)
    assert (result.root.input_tokens, result.root.cost) == (4, 0.25)
    assert (result.kinds, result.sessions) == ({"llm": 2, "unknown": 1}, ["s1", "s2"])
    assert await database.read(span_trees.get_trace_overview, "mine", trace_id("u")) is None
    assert await database.read(span_trees.get_trace_overview, "theirs", trace_id("t")) is None


async def test_span_bodies_are_read_by_id(database: Database) -> None:
    rows = [span_row("a"), span_row("b"), span_row("c")]
    await insert_rows(database, *rows)

    def read_bodies(db: Connection) -> dict[str, bytes]:
        return dict(span_trees.iter_span_bodies(db, "mine", trace_id("t"), [span_id("a"), span_id("c"), span_id("x")]))

    assert await database.read(read_bodies) == {span_id("a"): rows[0].body, span_id("c"): rows[2].body}


async def test_shape_of_a_long_trace_is_cached_until_it_changes(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    reader = span_shapes._read_shape

    def counting_reader(db: Connection, project: str, trace: str) -> span_shapes.TraceShape:
        reads.append(f"{project} {trace[-2:]}")
        return reader(db, project, trace)

    monkeypatch.setattr(span_shapes, "CACHE_MIN_SPANS", 3)
    monkeypatch.setattr(span_shapes, "CACHE_MAX_SPANS", 8)
    monkeypatch.setattr(span_shapes, "_read_shape", counting_reader)
    await insert_rows(database, span_row("root", 1), span_row("a", 2, parent="root"), span_row("b", 3, parent="root"))
    await insert_rows(database, *(span_row(name, at, trace="u") for at, name in enumerate("xyz")))

    first = tree_rows(await list_children(database, "root")), tree_rows(await list_children(database))
    assert first == ([("a", 0, 0, ()), ("b", 0, 0, ())], [("root", 2, 2, ())])
    assert len(reads) == 1
    await insert_rows(
        database, span_row("b", 3, parent="a", duration_ms=9_000.0)
    )  # Stored again, below another parent.
    assert tree_rows(await list_children(database)) == [("root", 1, 2, ())]
    assert tree_rows(await list_children(database, "a")) == [("b", 0, 0, ())]
    assert len(reads) == 2
    await insert_rows(database, span_row("c", 4, parent="a"))
    assert tree_rows(await list_children(database, "a")) == [("b", 0, 0, ()), ("c", 0, 0, ())]
    assert len(reads) == 3

    for _ in range(2):
        await database.read(span_trees.list_children, "mine", trace_id("u"))
    assert len(reads) == 4
    await insert_rows(
        database, span_row("d", 5, parent="a"), span_row("e", 6, parent="a")
    )  # Now the cache has room for only one of the two traces.
    await list_children(database)
    await database.read(span_trees.list_children, "mine", trace_id("u"))
    assert len(reads) == 6
