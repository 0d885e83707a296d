"""Fields of a listed trace that its last model call provides."""

from typing import Any

from palaver.core import json
from palaver.storage.database import Database
from palaver.storage.spans import queries as span_pages
from palaver.storage.spans import traces as span_trees
from palaver.storage.spans.queries import TraceListItem
from tests.storage.span_factory import insert_rows, span_row, trace_id

EMPTY_PREVIEW = json.encode({"renderer": "empty", "text": ""})
EMPTY_PREVIEWS: dict[str, Any] = {"preview_in": EMPTY_PREVIEW, "preview_out": EMPTY_PREVIEW}
LLM_CALL: dict[str, Any] = {"kind": "llm", "parent": "root"}


async def get_only_trace(database: Database) -> TraceListItem:
    (result,) = (await database.read(span_pages.list_traces, "mine")).data
    summary = await database.read(span_trees.get_trace_overview, "mine", trace_id("t"))
    assert summary is not None
    assert summary.root == result
    return result


def fallback_fields(result: TraceListItem) -> tuple[Any, ...]:
    texts = [preview["text"] for preview in (result.preview_in, result.preview_out)]
    return (*texts, result.model, result.provider, result.session, result.user)


async def test_empty_head_shows_the_fields_of_the_model_call_that_ended_last(database: Database) -> None:
    await insert_rows(
        database,
        span_row("root", **EMPTY_PREVIEWS),
        span_row("long", 1, duration_ms=9_000.0, model="a", provider="p", session="s", user="u", **LLM_CALL),
        span_row("short", 2, model="b", **LLM_CALL),
        span_row("tool", 99, kind="tool", parent="root", model="c"),
    )

    assert fallback_fields(await get_only_trace(database)) == ("in long", "out long", "a", "p", "s", "u")


async def test_call_with_input_and_output_is_preferred_to_a_later_incomplete_one(database: Database) -> None:
    await insert_rows(
        database,
        span_row("root", **EMPTY_PREVIEWS),
        span_row("whole", 1, **LLM_CALL),
        span_row("half", 2, **LLM_CALL, preview_out=EMPTY_PREVIEW),
    )

    assert fallback_fields(await get_only_trace(database)) == ("in whole", "out whole", None, None, None, None)


async def test_last_call_is_used_if_no_call_has_input_and_output(database: Database) -> None:
    await insert_rows(
        database,
        span_row("root", **EMPTY_PREVIEWS),
        span_row("half", 2, **LLM_CALL, preview_out=EMPTY_PREVIEW, model="m"),
    )

    assert fallback_fields(await get_only_trace(database)) == ("in half", "", "m", None, None, None)


async def test_fields_of_the_head_are_not_replaced(database: Database) -> None:
    await insert_rows(
        database,
        span_row("root", session="mine", user="me"),
        span_row("call", 1, model="m", session="s", user="u", **LLM_CALL),
    )

    assert fallback_fields(await get_only_trace(database)) == ("in root", "out root", "m", None, "mine", "me")


async def test_head_with_model_and_previews_takes_nothing_from_calls(database: Database) -> None:
    await insert_rows(database, span_row("root", model="m"), span_row("call", 1, model="n", session="s", **LLM_CALL))

    assert fallback_fields(await get_only_trace(database)) == ("in root", "out root", "m", None, None, None)


async def test_failed_trace_shows_no_output(database: Database) -> None:
    await insert_rows(database, span_row("root", status="error", **EMPTY_PREVIEWS), span_row("call", 1, **LLM_CALL))

    assert fallback_fields(await get_only_trace(database)) == ("in call", "", None, None, None, None)


async def test_trace_of_a_palaver_run_takes_only_the_model_from_calls(database: Database) -> None:
    await insert_rows(
        database,
        span_row("root", run_id="run_1", **EMPTY_PREVIEWS),
        span_row("call", 1, model="m", session="s", **LLM_CALL),
    )

    assert fallback_fields(await get_only_trace(database)) == ("", "", "m", None, None, None)


async def test_trace_without_model_calls_is_unchanged(database: Database) -> None:
    await insert_rows(database, span_row("root", **EMPTY_PREVIEWS), span_row("step", 1, parent="root"))

    assert fallback_fields(await get_only_trace(database)) == ("", "", None, None, None, None)
