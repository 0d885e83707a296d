"""/api/evaluations/{id}/results: filtered pages of cells, and one cell in full."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from palaver.server.api.evaluation_results import EvaluationResultController
from palaver.server.api.evaluations import EvaluationController
from palaver.storage.database import MEMORY_URL, Database, open_database
from tests.server.api.evaluation_server import answer_all, create_test_set, evaluation_dependencies
from tests.server.rest_client import FakeCaller, application, rest_client

BODY: dict[str, Any] = {
    "testset": {"id": "ts_1"},
    "variants": [
        {"name": "base", "workflow": "tutor", "parameters": {"style": "short"}},
        {"name": "new", "workflow": "tutor"},
    ],
    "evaluators": [{"key": "exact_match"}],
    "repeats": 2,
}
"""Row 0 passes, row 1 fails and has no answer in the second repeat, row 2 passes only with `base`."""


@pytest.fixture(params=["memory", "postgresql"])
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    url = MEMORY_URL if request.param == "memory" else request.getfixturevalue("postgres_url")
    opened = open_database(url)
    await create_test_set(opened)
    yield opened
    await opened.close()


def app(database: Database) -> Any:
    controllers = [EvaluationController, EvaluationResultController]
    return application(controllers, **evaluation_dependencies(database), wake_runner=lambda: None)


@pytest.fixture
async def http(database: Database) -> AsyncIterator[httpx.AsyncClient]:
    async with rest_client(app(database)) as client:
        yield client


@pytest.fixture
async def evaluation_path(http: httpx.AsyncClient, database: Database) -> str:
    """The path of an evaluation that has ended."""
    created = (await http.post("/api/evaluations", json=BODY)).json()
    await answer_all(database, created["id"])
    return f"/api/evaluations/{created['id']}"


async def list_cells(http: httpx.AsyncClient, path: str, **query: Any) -> list[str]:
    answer = await http.get(f"{path}/results", params=query)
    assert answer.status_code == 200, answer.text
    return [row["id"].removeprefix("cell_") for row in answer.json()["data"]]


async def test_a_row_of_the_table_has_previews_and_scores_without_details(
    http: httpx.AsyncClient, evaluation_path: str
) -> None:
    [first] = (await http.get(f"{evaluation_path}/results", params={"limit": 1})).json()["data"]
    row = first.pop("row")

    assert row.startswith("row_")
    assert first == {
        "id": "cell_0",
        "variant": "base",
        "repeat": 0,
        "status": "done",
        "error": None,
        "in": {"renderer": "chat", "text": "2 + 2?"},
        "out": {"renderer": "chat", "text": "4"},
        "scores": [
            {
                "evaluator": "exact_match",
                "status": "scored",
                "passed": True,
                "score": 1.0,
                "label": None,
                "reason": "",
                "details": {},
                "seconds": 0.0,
                "usage": None,
                "cost": None,
            }
        ],
        "latency_seconds": 0.5,
        "first_output_seconds": None,
        "usage": None,
        "cost": None,
        "finish": "stop",
        "attempts": 1,
        "trace_id": None,
        "run": None,
        "started_at": "2026-11-15T12:00:00.000000Z",
        "ended_at": "2026-11-15T12:00:00.000000Z",
    }


async def test_pages_continue_in_the_order_of_cells(http: httpx.AsyncClient, evaluation_path: str) -> None:
    first = (await http.get(f"{evaluation_path}/results", params={"limit": 5})).json()

    assert [row["id"] for row in first["data"]] == [f"cell_{number}" for number in range(5)]
    assert await list_cells(http, evaluation_path, limit=5, after=first["next"]) == ["5", "6", "7", "8", "9"]
    other = await http.get(f"{evaluation_path}/results", params={"limit": 5, "after": first["next"], "variant": "new"})
    assert (other.status_code, other.json()["error"]["path"]) == (400, "?after")


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({"variant": "new"}, ["2", "3", "6", "7", "10", "11"]),
    ({"passed": "true"}, ["0", "1", "2", "3", "8", "9"]),
    ({"passed": "false", "evaluator": "exact_match", "variant": "new"}, ["6", "10", "11"]),
    ({"status": "failed"}, ["5", "7"]),
    ({"status": "error"}, []),
    ({"evaluator": "other"}, []),
    ({"search": "CAPITAL", "variant": "base"}, ["8", "9"]),
    ({"search": "%"}, []),
    ({"row": "row_0"}, []),
    ({"flaky": "true"}, []),
]


@pytest.mark.parametrize(("query", "expected"), FILTERS)
async def test_filters_can_be_combined(
    http: httpx.AsyncClient, evaluation_path: str, query: dict[str, Any], expected: list[str]
) -> None:
    assert await list_cells(http, evaluation_path, **query) == expected


async def test_regressions_are_cells_that_passed_in_the_base_variant(
    http: httpx.AsyncClient, evaluation_path: str
) -> None:
    base = f"{evaluation_path.rpartition('/')[2]}:base"

    assert await list_cells(http, evaluation_path, regression=base) == ["10", "11"]
    assert await list_cells(http, evaluation_path, regression="true") == ["10", "11"]
    assert await list_cells(http, evaluation_path, regression=base, limit=1) == ["10"]
    assert await list_cells(http, evaluation_path, regression=base, evaluator="other") == []
    assert await list_cells(http, evaluation_path, regression=base.replace(":base", ":new")) == []


INVALID_FILTERS = [
    ({"variant": "gone"}, 400, "?variant"),
    ({"status": "pending"}, 400, "?status"),
    ({"regression": "ev_0:base"}, 404, None),
]


@pytest.mark.parametrize(("query", "status", "path"), INVALID_FILTERS)
async def test_an_invalid_filter_is_rejected(
    http: httpx.AsyncClient, evaluation_path: str, query: dict[str, Any], status: int, path: str | None
) -> None:
    refused = await http.get(f"{evaluation_path}/results", params=query)

    assert (refused.status_code, refused.json()["error"].get("path")) == (status, path)


async def test_an_unknown_base_variant_is_rejected_with_the_available_ones(
    http: httpx.AsyncClient, evaluation_path: str
) -> None:
    evaluation = evaluation_path.rpartition("/")[2]
    refused = await http.get(f"{evaluation_path}/results", params={"regression": f"{evaluation}:gone"})

    assert (refused.status_code, refused.json()["error"]["path"], refused.json()["error"]["message"]) == (
        400,
        "?regression",
        f"Variant 'gone' not found. Available in {evaluation}: base, new.",
    )


async def test_a_cell_shows_its_question_answer_scores_and_neighbours(
    http: httpx.AsyncClient, evaluation_path: str
) -> None:
    answer = await http.get(f"{evaluation_path}/results/cell_10")
    shown = answer.json()
    assistant_message = {"role": "assistant", "parts": [{"type": "text", "text": "I think Paris"}]}
    user_message = {"role": "user", "parts": [{"type": "text", "text": "Capital of France?"}]}

    expected = {
        "inputs": {"topic": "cities"},
        "expected": "Paris",
        "history": [user_message],
        "messages": [assistant_message],
        "text": "I think Paris",
        "notes": [],
        "tool_calls": [],
        "is_chat": True,
        "is_chat_source": "declared",
        "repeats": ["cell_10", "cell_11"],
        "others": {"base": "cell_8", "new": "cell_10"},
        "previous": "cell_6",
        "next": None,
    }
    assert {name: shown[name] for name in expected} == expected
    assert "value" not in shown
    assert shown["turns"] == [
        {
            "user": user_message,
            "messages": [assistant_message],
            "text": "I think Paris",
            "notes": [],
            "tool_calls": [],
            "usage": None,
            "latency_seconds": 0.5,
            "first_output_seconds": None,
            "finish": "stop",
            "expect": None,
            "reached": True,
        }
    ]
    assert shown["scores"][0]["details"] == {"why": "I think Paris"}
    same = await http.get(f"{evaluation_path}/results/cell_10", headers={"if-none-match": answer.headers["etag"]})
    assert same.status_code == 304


async def test_a_failed_cell_shows_its_error(http: httpx.AsyncClient, evaluation_path: str) -> None:
    shown = (await http.get(f"{evaluation_path}/results/cell_5")).json()

    assert (shown["status"], shown["error"]) == ("failed", {"code": "timeout", "message": "It took too long."})
    assert (shown["messages"], shown["scores"], "expected" in shown) == ([], [], False)


@pytest.mark.parametrize("cell", ["cell_12", "cell_x", "cell_-1", "cell_99999999999", "x"])
async def test_an_unknown_cell_is_not_found(http: httpx.AsyncClient, evaluation_path: str, cell: str) -> None:
    assert (await http.get(f"{evaluation_path}/results/{cell}")).status_code == 404


async def test_another_projects_results_are_not_found(evaluation_path: str, database: Database) -> None:
    async with rest_client(app(database), FakeCaller(project="other")) as other_client:
        for path in ("/results", "/results/cell_0"):
            response = await other_client.get(evaluation_path + path)
            missing = await other_client.get(f"/api/evaluations/ev_0{path}")
            assert (response.status_code, response.text.replace(evaluation_path.rpartition("/")[2], "ev_0")) == (
                404,
                missing.text,
            )
