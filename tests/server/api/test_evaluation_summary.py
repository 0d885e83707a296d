"""/api/evaluations/{id}/summary, /compare and /{id}/export."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx
import pytest
from msgspec import json

from palaver.evaluation.results.export.formats import EXPORT_FORMATS
from palaver.evaluation.results.statistics import wilson_interval
from palaver.server.api import evaluation_export, evaluation_results
from palaver.server.api.evaluation_results import EvaluationFigureController, EvaluationResultController
from palaver.server.api.evaluations import EvaluationController
from palaver.storage.database import MEMORY_URL, Database, open_database
from tests.server.api.evaluation_server import answer_all, create_test_set, evaluation_dependencies
from tests.server.rest_client import FakeCaller, application, rest_client

BODY: dict[str, Any] = {
    "name": "prompt v3",
    "testset": {"id": "ts_1"},
    "variants": [
        {"name": "base", "workflow": "tutor", "parameters": {"style": "short"}},
        {"name": "new", "workflow": "tutor"},
    ],
    "evaluators": [{"key": "exact_match"}],
}
"""Row 0 passes, row 1 fails, row 2 passes only with `base`."""


@pytest.fixture
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    is_postgres = vars(request).get("param") == "postgresql"
    url = request.getfixturevalue("postgres_url") if is_postgres else MEMORY_URL
    opened = open_database(url)
    await create_test_set(opened)
    yield opened
    await opened.close()


on_both = pytest.mark.parametrize("database", ["memory", "postgresql"], indirect=True)


def app(database: Database) -> Any:
    controllers = [
        EvaluationController,
        EvaluationFigureController,
        evaluation_export.EvaluationExportController,
        EvaluationResultController,
    ]
    return application(controllers, **evaluation_dependencies(database), wake_runner=lambda: None)


@pytest.fixture
async def http(database: Database) -> AsyncIterator[httpx.AsyncClient]:
    async with rest_client(app(database)) as client:
        yield client


async def run_evaluation(http: httpx.AsyncClient, database: Database, **more: Any) -> str:
    """Run an evaluation to its end and return its id."""
    created = await http.post("/api/evaluations", json=BODY | more)
    assert created.status_code == 202, created.text
    await answer_all(database, created.json()["id"])
    return created.json()["id"]


async def test_a_summary_has_the_figures_of_each_variant_and_evaluator(
    http: httpx.AsyncClient, database: Database
) -> None:
    evaluation = await run_evaluation(http, database)

    shown = (await http.get(f"/api/evaluations/{evaluation}/summary")).json()

    low, high = shown["variants"][0]["evaluators"][0]["mean_ci"]
    assert 0 <= low < 2 / 3 < high <= 1
    assert shown["variants"][0] == {
        "name": "base",
        "cells": 3,
        "failed": 0,
        "cost": None,
        "latency": {"p50": 0.5, "p95": 0.5},
        "evaluators": [
            {
                "name": "exact_match",
                "n": 3,
                "scored": 3,
                "unscored": 0,
                "unscored_reason": None,
                "errors": 0,
                "skipped": 0,
                "pass_rate": pytest.approx(2 / 3),
                "pass_ci": pytest.approx(wilson_interval(2, 3)),
                "ci": "wilson",
                "mean": pytest.approx(2 / 3),
                "mean_ci": [low, high],
                "flaky": None,
                "slices": None,
            }
        ],
    }
    assert [one["evaluators"][0]["pass_rate"] for one in shown["variants"]] == pytest.approx([2 / 3, 1 / 3])


@on_both
async def test_a_summary_is_sliced_by_a_test_set_column(http: httpx.AsyncClient, database: Database) -> None:
    evaluation = await run_evaluation(http, database)

    shown = (await http.get(f"/api/evaluations/{evaluation}/summary", params={"slice": "topic"})).json()
    wrong = await http.get(f"/api/evaluations/{evaluation}/summary", params={"slice": "colour"})

    slices = shown["variants"][1]["evaluators"][0]["slices"]
    assert [(one["value"], one["n"], one["pass_rate"]) for one in slices] == [("maths", 2, 0.5), ("cities", 1, 0.0)]
    assert (wrong.status_code, wrong.json()["error"]["message"]) == (
        400,
        "Column 'colour' not found in the test set.",
    )


async def test_the_summary_of_a_queued_evaluation_has_no_figures(http: httpx.AsyncClient) -> None:
    evaluation = (await http.post("/api/evaluations", json=BODY)).json()["id"]

    (first, _) = (await http.get(f"/api/evaluations/{evaluation}/summary")).json()["variants"]

    assert (first["cells"], first["latency"]) == (0, {"p50": None, "p95": None})
    assert [(one["name"], one["n"], one["pass_rate"]) for one in first["evaluators"]] == [("exact_match", 0, None)]


@pytest.fixture
def evaluations_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The evaluations whose scores were read."""
    from palaver.evaluation.results import load

    evaluations: list[str] = []
    original = load.read_results

    def read_results(db: Any, project: str, evaluation: str) -> Any:
        evaluations.append(evaluation)
        return original(db, project, evaluation)

    monkeypatch.setattr(load, "read_results", read_results)
    return evaluations


async def test_the_summary_of_an_ended_evaluation_is_cached_until_it_is_rerun(
    http: httpx.AsyncClient, database: Database, evaluations_read: list[str]
) -> None:
    evaluation = await run_evaluation(http, database)

    first = await http.get(f"/api/evaluations/{evaluation}/summary")
    second = await http.get(f"/api/evaluations/{evaluation}/summary")
    unchanged = await http.get(
        f"/api/evaluations/{evaluation}/summary", headers={"if-none-match": first.headers["etag"]}
    )
    (await http.post(f"/api/evaluations/{evaluation}/rerun", json={"which": "all"})).raise_for_status()
    empty = (await http.get(f"/api/evaluations/{evaluation}/summary")).json()

    assert (second.json(), unchanged.status_code, evaluations_read) == (first.json(), 304, [evaluation] * 2)
    assert [one["cells"] for one in empty["variants"]] == [0, 0]


async def test_scores_of_an_ended_evaluation_are_read_once_for_concurrent_requests(
    http: httpx.AsyncClient, database: Database, evaluations_read: list[str]
) -> None:
    first, second = await run_evaluation(http, database), await run_evaluation(http, database)
    sides = {"base": f"{first}:base", "candidate": f"{second}:new"}
    requests: list[tuple[str, dict[str, str]]] = [
        (f"/api/evaluations/{first}/summary", {}),
        (f"/api/evaluations/{first}/summary", {"slice": "topic"}),
        ("/api/evaluations/compare", sides),
        ("/api/evaluations/compare", sides | {"margin": "0.05"}),
        (f"/api/evaluations/{second}/export", {"format": "csv"}),
        (f"/api/evaluations/{second}/results", {"regression": f"{first}:base"}),
    ]

    answers = await asyncio.gather(*(http.get(path, params=params) for path, params in requests))

    assert ([answer.status_code for answer in answers], sorted(evaluations_read)) == (
        [200] * 6,
        sorted([first, second]),
    )


async def test_scores_of_a_running_evaluation_are_read_on_every_request(
    http: httpx.AsyncClient, database: Database, evaluations_read: list[str]
) -> None:
    evaluation = (await http.post("/api/evaluations", json=BODY)).json()["id"]
    await answer_all(database, evaluation, stop_after=2)

    shown = [(await http.get(f"/api/evaluations/{evaluation}/summary")).json() for _ in range(2)]

    assert (shown[0] == shown[1], evaluations_read) == (True, [evaluation] * 2)


async def test_the_score_cache_evicts_evaluations_over_its_byte_limit(
    database: Database, evaluations_read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation_results, "_MAX_CACHED_BYTES", 500)  # The results of one evaluation take 258 bytes.
    async with rest_client(app(database)) as http:
        first, second = await run_evaluation(http, database), await run_evaluation(http, database)

        for evaluation in (first, second, second, first, first):
            sides = {
                "base": f"{evaluation}:base",
                "candidate": f"{evaluation}:new",
                "margin": f"0.{len(evaluations_read)}",
            }
            await http.get("/api/evaluations/compare", params=sides)
            await http.get(f"/api/evaluations/{evaluation}/export", params={"format": "csv"})

    assert evaluations_read == [first, second, first]


async def test_statistics_are_imported_once_off_the_event_loop_when_first_needed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, loaded, threads = asyncio.get_running_loop(), asyncio.Event(), list[bool]()

    def load() -> None:
        threads.append(threading.current_thread() is threading.main_thread())
        loop.call_soon_threadsafe(loaded.set)

    monkeypatch.setattr(evaluation_results, "_import_statistics", load)
    async with rest_client(app(database)) as http:
        assert (await http.get("/api/evaluations")).json()["data"] == []
        before = list(threads)
        evaluation = (await http.post("/api/evaluations", json=BODY)).json()["id"]
        await loaded.wait()
        await http.get("/api/evaluations")
        await http.get(f"/api/evaluations/{evaluation}")

    assert (before, threads) == ([], [False])


@on_both
async def test_two_variants_are_compared_row_by_row(http: httpx.AsyncClient, database: Database) -> None:
    first, second = await run_evaluation(http, database), await run_evaluation(http, database)

    answer = await http.get(
        "/api/evaluations/compare", params={"base": f"{first}:base", "candidate": f"{second}:new", "margin": 0.05}
    )

    shown = answer.json()
    (figures,) = shown["evaluators"]
    assert {name: shown[name] for name in shown if name != "evaluators"} == {
        "base": f"{first}:base",
        "candidate": f"{second}:new",
        "margin": 0.05,
        "changed": [],
        "changed_count": 0,
        "only_in_base": [],
        "only_in_candidate": [],
    }
    assert {name: figures[name] for name in figures if name not in ("ci", "worst")} == {
        "name": "exact_match",
        "measure": "pass_rate",
        "paired": 3,
        "unpaired": 0,
        "base": pytest.approx(2 / 3),
        "candidate": pytest.approx(1 / 3),
        "difference": pytest.approx(-1 / 3),
        "test": "mcnemar-exact",
        "p": 1.0,
        "p_adjusted": 1.0,
        "verdict": "unclear",
        "regressions": 1,
        "fixes": 0,
        "cases_needed": 8,
        "score": None,
    }
    assert [(one["base"], one["candidate"]) for one in figures["worst"]] == [(1.0, 0.0)]


async def test_variants_of_one_evaluation_can_be_compared(http: httpx.AsyncClient, database: Database) -> None:
    evaluation = await run_evaluation(http, database)
    sides = {"base": f"{evaluation}:new", "candidate": f"{evaluation}:base"}

    (figures,) = (await http.get("/api/evaluations/compare", params=sides)).json()["evaluators"]

    assert (figures["regressions"], figures["fixes"]) == (0, 1)


@pytest.mark.parametrize(
    ("base", "status", "message"),
    [
        ("{}", 400, "Missing variant. Available in {}: base, new."),
        ("{}:old", 400, "Variant 'old' not found. Available in {}: base, new."),
        ("ev_none:base", 404, "Evaluation 'ev_none' not found."),
    ],
)
async def test_comparing_a_missing_or_unknown_variant_or_evaluation_is_rejected(
    http: httpx.AsyncClient, database: Database, base: str, status: int, message: str
) -> None:
    evaluation = await run_evaluation(http, database)
    sides = {"base": base.format(evaluation), "candidate": f"{evaluation}:new"}

    answer = await http.get("/api/evaluations/compare", params=sides)

    assert (answer.status_code, answer.json()["error"]["message"]) == (status, message.format(evaluation))


@pytest.mark.parametrize("form", EXPORT_FORMATS)
async def test_every_export_format_is_served_as_an_attachment(
    http: httpx.AsyncClient, database: Database, form: str
) -> None:
    evaluation = await run_evaluation(http, database)
    kind = EXPORT_FORMATS[form]  # pyright: ignore[reportArgumentType]

    answer = await http.get(f"/api/evaluations/{evaluation}/export", params={"format": form})

    assert (answer.status_code, answer.headers["content-type"]) == (200, kind.media_type)
    assert answer.headers["content-disposition"] == f'attachment; filename="{evaluation}.{kind.extension}"'
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "exact" in answer.text
    assert ("content-security-policy" in answer.headers) == (form == "html")


@on_both
async def test_an_export_of_several_pages_has_every_cell(
    http: httpx.AsyncClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation_export, "_PAGE_SIZE", 2)
    monkeypatch.setattr(evaluation_export, "CHUNK_BYTES", 10)
    evaluation = await run_evaluation(http, database, repeats=2)

    lines = (await http.get(f"/api/evaluations/{evaluation}/export", params={"format": "jsonl"})).text.splitlines()
    table = (await http.get(f"/api/evaluations/{evaluation}/export", params={"format": "csv"})).text.splitlines()

    first, *cells = [json.decode(line) for line in lines]
    assert [cell["id"] for cell in cells] == [f"cell_{number}" for number in range(12)]
    assert (cells[0]["text"], cells[0]["expected"]) == ("4", "4")
    assert (first["name"], [one["verdict"] for one in first["comparisons"][0]["evaluators"]]) == (
        "prompt v3",
        ["unclear"],
    )
    assert len(table) == 13


async def test_an_export_can_be_compared_with_another_evaluation(http: httpx.AsyncClient, database: Database) -> None:
    first, second = await run_evaluation(http, database), await run_evaluation(http, database)
    params = {"format": "markdown", "base": f"{first}:base"}

    markdown = (await http.get(f"/api/evaluations/{second}/export", params=params)).text

    assert [line for line in markdown.splitlines() if line.startswith("###")] == [
        f"### {name} vs. base (baseline)" for name in ("base", "new")
    ]


@pytest.mark.parametrize(("query", "status"), [({}, 400), ({"format": "pdf"}, 400)])
async def test_a_missing_or_unknown_export_format_is_rejected(
    http: httpx.AsyncClient, database: Database, query: dict[str, str], status: int
) -> None:
    evaluation = await run_evaluation(http, database)

    assert (await http.get(f"/api/evaluations/{evaluation}/export", params=query)).status_code == status


async def test_an_export_ends_when_its_reader_is_cancelled(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rest_client(app(database)) as http:
        evaluation = await run_evaluation(http, database)
    loop, started, ended = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    def write(cells: Any) -> Any:
        try:
            yield b"x" * evaluation_export.CHUNK_BYTES
            while True:  # Keeps reading cells without producing output.
                assert len(list(cells())) == 6
                loop.call_soon_threadsafe(started.set)
        finally:
            loop.call_soon_threadsafe(ended.set)

    monkeypatch.setitem(cast("dict[Any, Any]", EXPORT_FORMATS), "csv", EXPORT_FORMATS["csv"]._replace(write=write))
    make: Any = lambda cells: cells  # noqa: E731
    lines = evaluation_export.export_chunks(database, "default", evaluation, "csv", make)
    await anext(lines)
    reading = asyncio.ensure_future(anext(lines))
    await started.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading

    await ended.wait()


async def test_another_projects_evaluation_is_not_found(http: httpx.AsyncClient, database: Database) -> None:
    evaluation = await run_evaluation(http, database)
    async with rest_client(app(database), FakeCaller(project="other")) as other_client:
        answers = [
            await other_client.get(f"/api/evaluations/{evaluation}/summary"),
            await other_client.get(f"/api/evaluations/{evaluation}/export?format=csv"),
            await other_client.get(f"/api/evaluations/compare?base={evaluation}:base&candidate={evaluation}:new"),
        ]

    assert [answer.status_code for answer in answers] == [404, 404, 404]


def test_importing_the_api_app_does_not_load_numpy() -> None:
    program = "import sys; import palaver.server.api.app; print('numpy' in sys.modules)"

    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert completed.stdout.strip() == "False"
