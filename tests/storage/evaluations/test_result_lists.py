"""Results by page, by filter, in order of recording, and one in detail."""

from typing import Any

import pytest

from palaver.core.messages import Usage
from palaver.errors import InvalidValue, NotFound
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results, slices
from palaver.storage.evaluations.results import CellScore, NewResult, ResultFilters, StopConditions
from palaver.storage.pagination import FIRST_PAGE, Window
from tests.storage.evaluation_factory import AT, make_evaluation, make_result, make_score


async def record(database: Database, *outcomes: NewResult, id: str = "ev_1", project: str = "default") -> None:
    """Create an evaluation with these results, recorded in this order."""
    await database.write(evaluations.create_evaluation, project, make_evaluation(len(outcomes), size=50, id=id), AT)
    [claimed] = [
        one
        for one in await database.write(slices.claim_slices, "p1", ["tutor"], 9, AT)
        if one.evaluation_key == (project, id)
    ]
    await database.write(results.record_results, "p1", claimed, list(outcomes), StopConditions(), AT)


OUTCOMES = [
    make_result(
        3, variant=1, words="Zürich 100%", scores=[make_score(), make_score(False, name="contains", evaluator=1)]
    ),
    make_result(0, scores=[make_score(False), make_score(True, name="contains", evaluator=1)]),
    make_result(1, status="failed"),
    make_result(2, variant=1, words="ZÜRICH", scores=[make_score(None, status="error", reason="webhook_failed: away")]),
]


async def test_pages_are_in_cell_order_and_streams_in_order_of_recording(database: Database) -> None:
    await record(database, *OUTCOMES)
    await record(database, make_result(0), id="ev_2")

    first = await database.read(results.list_results, "default", "ev_1", ResultFilters(), Window(limit=3))
    remaining = await database.read(
        results.list_results, "default", "ev_1", ResultFilters(), Window(limit=3, after=first.next)
    )
    recorded = await database.read(results.list_results_since, "default", "ev_1", 1, 2)

    assert ([one.cell for one in first.data], [one.cell for one in remaining.data], remaining.next) == (
        [0, 1, 2],
        [3],
        None,
    )
    assert [(one.seq, one.cell) for one in recorded] == [(2, 0), (3, 1)]
    with pytest.raises(InvalidValue):
        await database.read(results.list_results, "default", "ev_2", ResultFilters(), Window(limit=3, after=first.next))


CELLS_BY_FILTER: list[tuple[dict[str, Any], list[int]]] = [
    ({"variant": 1}, [2, 3]),
    ({"status": "failed"}, [1]),
    ({"evaluator": "contains"}, [0, 3]),
    ({"evaluator": "contains", "passed": False}, [3]),
    ({"passed": True}, [0, 3]),
    ({"score_status": "error"}, [2]),
    ({"search": "zürich"}, [2, 3]),
    ({"search": "0%"}, [3]),
    ({"search": "_"}, []),
    ({"row": "row_2"}, [2]),
    ({"among": [0, 1, 3]}, [0, 1, 3]),
    ({"among": [0, 1, 3], "variant": 1}, [3]),
    ({"among": []}, []),
]


async def test_results_are_filtered_on_one_page_and_across_pages(database: Database) -> None:
    await record(database, *OUTCOMES)

    async def search(filters: dict[str, Any], window: Window = FIRST_PAGE) -> tuple[list[int], str | None]:
        page = await database.read(results.list_results, "default", "ev_1", ResultFilters(**filters), window)
        return [one.cell for one in page.data], page.next

    assert [(filters, (await search(filters))[0]) for filters, _ in CELLS_BY_FILTER] == CELLS_BY_FILTER
    for filters, cells in CELLS_BY_FILTER:
        one_by_one: list[int] = []
        after = None
        for _ in cells:
            batch, after = await search(filters, Window(limit=1, after=after))
            one_by_one += batch
        assert (one_by_one, after) == (cells, None)


async def test_results_are_filtered_among_very_many_cells(database: Database) -> None:
    await record(database, *(make_result(cell, variant=cell % 2) for cell in range(20)))
    filters = ResultFilters(among=range(0, 100_000, 5), variant=1)

    page = await database.read(results.list_results, "default", "ev_1", filters)

    assert [one.cell for one in page.data] == [5, 15]


async def test_single_result_is_read_in_full_and_only_in_its_project(database: Database) -> None:
    usage = Usage(input_tokens=3, output_tokens=4)
    await record(
        database,
        make_result(0, usage=usage, scores=[make_score(label="good", details={"a": [1]}, cost=0.1, usage=usage)]),
    )

    result = await database.read(results.get_result, "default", "ev_1", 0)

    assert (result.body, result.result.usage, result.result.started_at) == ({"text": "Answer 0"}, usage, AT)
    assert result.result.scores == [
        CellScore(
            evaluator=0,
            name="exact_match",
            status="scored",
            passed=True,
            score=1.0,
            label="good",
            reason="",
            details={"a": [1]},
            seconds=0.0,
            usage=usage,
            cost=0.1,
        )
    ]
    for project, evaluation, cell in (("other", "ev_1", 0), ("default", "ev_2", 0), ("default", "ev_1", 1 << 40)):
        with pytest.raises(NotFound):
            await database.read(results.get_result, project, evaluation, cell)


async def test_result_details_are_read_in_batches(database: Database) -> None:
    await record(database, *(make_result(cell) for cell in range(5)))

    first = await database.read(results.list_result_details, "default", "ev_1", -1, 3)
    remaining = await database.read(results.list_result_details, "default", "ev_1", first[-1].result.cell, 3)

    assert [(one.result.cell, one.body["text"]) for one in (*first, *remaining)] == [
        (cell, f"Answer {cell}") for cell in range(5)
    ]


async def test_recent_pace_is_measured_over_the_last_results(database: Database) -> None:
    await record(database, *(make_result(cell) for cell in range(5)))

    result = await database.read(results.recent_pace, "default", "ev_1", 3)

    assert result is not None
    assert (result[0], (result[2] - result[1]).total_seconds()) == (3, 2)
    assert await database.read(results.recent_pace, "default", "ev_9") is None


async def test_characters_that_a_database_cannot_store_are_replaced(database: Database) -> None:
    odd = "a\0b\ud800"
    await record(database, make_result(0, words=odd, scores=[make_score(name=odd, label=odd, reason=odd)]))

    [stored_result] = (await database.read(results.list_results, "default", "ev_1")).data

    [stored_score] = stored_result.scores
    assert (stored_score.name, stored_score.label, stored_score.reason) == ("a\ufffdb\ufffd",) * 3
