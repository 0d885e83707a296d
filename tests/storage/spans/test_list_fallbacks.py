"""Fields of a listed trace that its last model call provides."""

from typing import Any

from palaver.core import json
from palaver.storage.database import Database
from palaver.storage.spans import queries as span_pages
from palaver.storage.spans import traces as span_trees
from palaver.storage.spans.queries import TraceListItem
from tests.storage.span_factory import insert_rows, span_row, trace_id

EMPTY = json.encode({"renderer": "empty", "text": ""})
SILENT: dict[str, Any] = {"preview_in": EMPTY, "preview_out": EMPTY}
CALL: dict[str, Any] = {"kind": "llm", "parent": "root"}


async def only(database: Database) -> TraceListItem:
    (result,) = (await database.read(span_pages.list_traces, "mine")).data
    summary = await database.read(span_trees.get_trace_overview, "mine", trace_id("t"))
    assert summary is not None
    assert summary.root == result
    return result


def shown_fields(result: TraceListItem) -> tuple[Any, ...]:
    texts = [preview["text"] for preview in (result.preview_in, result.preview_out)]
    return (*texts, result.model, result.provider, result.session, result.user)


async def test_a_silent_head_shows_what_the_call_that_ended_last_says(database: Database) -> None:
    await insert_rows(
        database,
        span_row("root", **SILENT),
        span_row("long", 1, duration_ms=9_000.0, model="a", provider="p", session="s", user="u", **CALL),
        span_row("short", 2, model="b", **CALL),
        span_row("tool", 99, kind="tool", parent="root", model="c"),
    )

    assert shown_fields(await only(database)) == ("in long", "out long", "a", "p", "s", "u")


async def test_a_call_that_tells_both_sides_goes_before_a_later_one_that_does_not(database: Database) -> None:
    await insert_rows(
        database,
        span_row("root", **SILENT),
        span_row("whole", 1, **CALL),
        span_row("half", 2, **CALL, preview_out=EMPTY),
    )

    assert shown_fields(await only(database)) == ("in whole", "out whole", None, None, None, None)


async def test_where_no_call_tells_both_sides_the_last_one_tells_what_it_can(database: Database) -> None:
    await insert_rows(database, span_row("root", **SILENT), span_row("half", 2, **CALL, preview_out=EMPTY, model="m"))

    assert shown_fields(await only(database)) == ("in half", "", "m", None, None, None)


async def test_what_the_head_says_stays(database: Database) -> None:
    await insert_rows(
        database,
        span_row("root", session="mine", user="me"),
        span_row("call", 1, model="m", session="s", user="u", **CALL),
    )

    assert shown_fields(await only(database)) == ("in root", "out root", "m", None, "mine", "me")


async def test_a_head_that_tells_all_of_it_is_asked_for_no_more(database: Database) -> None:
    await insert_rows(database, span_row("root", model="m"), span_row("call", 1, model="n", session="s", **CALL))

    assert shown_fields(await only(database)) == ("in root", "out root", "m", None, None, None)


async def test_what_failed_has_no_answer(database: Database) -> None:
    await insert_rows(database, span_row("root", status="error", **SILENT), span_row("call", 1, **CALL))

    assert shown_fields(await only(database)) == ("in call", "", None, None, None, None)


async def test_a_run_of_ours_has_said_itself_what_it_said(database: Database) -> None:
    await insert_rows(
        database, span_row("root", run_id="run_1", **SILENT), span_row("call", 1, model="m", session="s", **CALL)
    )

    assert shown_fields(await only(database)) == ("", "", "m", None, None, None)


async def test_a_trace_without_calls_stays_as_it_is(database: Database) -> None:
    await insert_rows(database, span_row("root", **SILENT), span_row("step", 1, parent="root"))

    assert shown_fields(await only(database)) == ("", "", None, None, None, None)
