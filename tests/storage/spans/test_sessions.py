"""Sessions and statistics over time, on every database."""

from datetime import timedelta

from palaver.storage.database import Database
from palaver.storage.pagination import FIRST_PAGE, Window
from palaver.storage.spans import queries as span_sessions
from palaver.storage.spans import stats as span_stats
from palaver.storage.spans.filters import FilterCondition
from palaver.storage.spans.queries import SessionListItem, SpanQuery
from palaver.storage.spans.stats import TraceStats
from tests.storage.span_factory import NOON, SECOND, insert_rows, span_row

HOUR = timedelta(hours=1)


async def test_sessions_are_listed_by_last_activity(database: Database) -> None:
    await insert_rows(
        database,
        span_row("a", 0, trace="1", session="s1"),
        span_row("b", 5, trace="2", session="s1"),
        span_row("c", 6, trace="2", parent="b", session="s1"),
        span_row("d", 3, trace="3"),
        span_row("e", 4, trace="3", parent="d", session="s2"),
        span_row("f", 5, trace="4", session="s3"),
        span_row("g", 9, trace="5", session="s9", project="theirs"),
    )

    first = await database.read(span_sessions.list_sessions, "mine", SpanQuery(), Window(2))
    second = await database.read(span_sessions.list_sessions, "mine", SpanQuery(), Window(2, first.next))
    earlier = await database.read(span_sessions.list_sessions, "mine", SpanQuery(until=NOON + SECOND))

    def item(session: str, at: float, until: float, traces: int, spans: int, **preview_texts: str) -> SessionListItem:
        previews = {
            f"preview_{end}": {"renderer": "text", "text": f"{end} {name}"} for end, name in preview_texts.items()
        }
        started, ended = NOON + at * SECOND, NOON + until * SECOND
        return SessionListItem(session=session, first=started, last=ended, traces=traces, spans=spans, **previews)

    assert first.data == [
        item("s1", 0, 6, 2, 3, **{"in": "a", "out": "b"}),
        item("s3", 5, 5, 1, 1, **{"in": "f", "out": "f"}),
    ]
    assert [one.session for one in second.data] == ["s2"]
    assert earlier.data == [item("s1", 0, 0, 1, 1, **{"in": "a", "out": "b"})]


async def test_session_previews_come_from_the_heads_of_its_traces(database: Database) -> None:
    await insert_rows(
        database,
        span_row("root", 0, trace="1"),
        span_row("inner", 1, trace="1", parent="root", session="s"),
        span_row("mute", 2, trace="2", session="s", preview_in=b"null", preview_out=b"null"),
    )

    result = await database.read(span_sessions.list_sessions, "mine")

    assert [(one.preview_in, one.preview_out) for one in result.data] == [
        ({"renderer": "text", "text": "in root"}, None)
    ]


async def test_sessions_are_searched_by_part_of_their_name(database: Database) -> None:
    names = ["shop-1", "shop_2", "100 %", "\u202ekcatta", "'; DROP TABLE spans; --"]
    await insert_rows(database, *(span_row(f"{at}", at, trace=f"{at}", session=name) for at, name in enumerate(names)))

    async def search(name: str, window: Window = FIRST_PAGE) -> list[str]:
        page = await database.read(span_sessions.list_sessions, "mine", SpanQuery(), window, name=name)
        return [one.session for one in page.data]

    assert await search("shop") == ["shop_2", "shop-1"]
    assert await search("p_") == ["shop_2"]
    assert await search("%") == ["100 %"]
    assert await search("DROP") == [names[4]]
    assert await search("nobody") == []
    page = await database.read(span_sessions.list_sessions, "mine", SpanQuery(), Window(1), name="shop")
    assert await search("shop", Window(1, page.next)) == ["shop-1"]


async def test_traces_of_a_session_are_listed_in_order_of_start(database: Database) -> None:
    await insert_rows(
        database,
        span_row("second", 2, trace="2"),
        span_row("inner", 3, trace="2", parent="second", session="s"),
        span_row("first", 1, trace="1", session="s"),
        span_row("third", 4, trace="3", session="s"),
        span_row("other", 4, trace="4", session="t"),
    )

    first = await database.read(span_sessions.list_session_traces, "mine", "s", Window(2))
    remaining = await database.read(span_sessions.list_session_traces, "mine", "s", Window(2, first.next))

    assert [(one.name, one.spans) for one in (*first.data, *remaining.data)] == [
        ("first", 1),
        ("second", 2),
        ("third", 1),
    ]


async def test_trace_stats_are_grouped_by_time_and_field(database: Database) -> None:
    hour = HOUR.total_seconds()
    await insert_rows(
        database,
        *(span_row(f"{ms}", ms, trace=f"{ms}", workflow="w", duration_ms=float(ms)) for ms in range(1, 21)),
        span_row("chat", 1, trace="1", parent="1", kind="llm", input_tokens=5, output_tokens=2, cost=0.5),
        span_row("more", 2, trace="1", parent="1", kind="embedding", input_tokens=5, cost=0.25),
        span_row("tool", 2, trace="1", parent="1", kind="tool", input_tokens=500, cost=100.0),
        span_row("bad", 30, trace="bad", workflow="w", status="error", duration_ms=1.0, input_tokens=1),
        span_row("alone", 31, trace="alone", cost=0.125),
        span_row("next", hour, trace="next", workflow="w"),
        span_row("theirs", 0, trace="x", project="theirs"),
    )

    result = await database.read(span_stats.trace_stats, "mine", group="workflow")
    by_day = await database.read(span_stats.trace_stats, "mine", by="day")
    failed = SpanQuery(filter=FilterCondition("field", "status", "eq", ("error",)))

    def stat(at: float, group: str | None, traces: int, **more: float) -> TraceStats:
        defaults = {"errors": 0, "p50_ms": 100.0, "p95_ms": 100.0, "input_tokens": 0, "output_tokens": 0, "cost": 0.0}
        return TraceStats(at=NOON + at * HOUR, group=group, traces=traces, **(defaults | more))  # type: ignore[arg-type]

    busy = stat(0, "w", 21, errors=1, p50_ms=10.0, p95_ms=19.0, input_tokens=11, output_tokens=2, cost=0.75)
    assert sorted(result, key=lambda one: (one.at, one.group or "")) == [
        stat(0, None, 1, cost=0.125),
        busy,
        stat(1, "w", 1),
    ]
    assert [(one.at, one.group, one.traces, one.cost) for one in by_day] == [(NOON - 12 * HOUR, None, 23, 0.875)]
    by_minute = await database.read(span_stats.trace_stats, "mine", by="minute")
    assert [(one.at, one.traces) for one in by_minute] == [(NOON, 22), (NOON + HOUR, 1)]
    assert [one.traces for one in await database.read(span_stats.trace_stats, "mine", query=failed)] == [1]
    assert await database.read(span_stats.trace_stats, "nobody") == []
