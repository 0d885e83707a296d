"""An evaluation over HTTP, from POST to its last cell."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest

from palaver.testing import client
from tests.server.api.evaluation_server import ROWS, shout, tutor


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with client(tutor, shout, default="tutor") as opened:
        yield opened


async def start_evaluation(http: httpx.AsyncClient, **more: Any) -> str:
    testset_response = await http.post(
        "/api/testsets", json={"name": "questions", "rows": [{"data": row} for row in ROWS]}
    )
    assert testset_response.status_code == 201, testset_response.text
    body = {
        "testset": {"id": testset_response.json()["id"]},
        "variants": [{"name": "base", "workflow": "tutor"}],
        "evaluators": [{"key": "exact_match"}, {"key": "contains", "name": "has it"}],
    }
    answer = await http.post("/api/evaluations", json=body | more)
    assert answer.status_code == 202, answer.text
    return f"/api/evaluations/{answer.json()['id']}"


async def read_events(http: httpx.AsyncClient, path: str, **headers: str) -> list[tuple[str, dict[str, Any]]]:
    events: list[tuple[str, dict[str, Any]]] = []
    async with http.stream("GET", f"{path}/events", headers=headers) as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        text = "".join([piece async for piece in stream.aiter_text()])
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        if "data" in fields:
            events.append((fields["event"], msgspec.json.decode(fields["data"])))
    return events


async def test_all_cells_are_answered_and_scored(http: httpx.AsyncClient) -> None:
    at = await start_evaluation(http)
    events = await read_events(http, at)
    shown = (await http.get(at)).json()
    rows = (await http.get(f"{at}/results")).json()["data"]

    assert events[-1] == ("state", {"type": "state", "state": "succeeded", "reason": None})
    assert sorted(event["id"] for name, event in events if name == "cell") == ["cell_0", "cell_1", "cell_2"]
    assert (shown["state"], shown["done"], shown["failed"], shown["errors"]) == ("succeeded", 3, 0, 0)
    scored = [{score["evaluator"]: score["passed"] for score in row["scores"]} for row in rows]
    assert scored == [
        {"exact_match": True, "has it": True},
        {"exact_match": False, "has it": False},
        {"exact_match": False, "has it": True},
    ]


async def test_a_cell_shows_its_question_expected_value_and_answer(http: httpx.AsyncClient) -> None:
    at = await start_evaluation(http)
    await read_events(http, at)
    shown = (await http.get(f"{at}/results/cell_1")).json()

    assert shown["history"][0]["parts"] == [{"type": "text", "text": "3 + 3?"}]
    assert (shown["expected"], shown["text"], shown["status"]) == ("6", "7", "done")
    assert shown["messages"][0]["role"] == "assistant"
    assert shown["turns"][0]["text"] == "7"
    assert (await http.get(f"/api/runs/{shown['run']}")).json()["protocol"] == "evaluation"


async def test_all_repeats_of_workflow_and_column_variants_are_run(http: httpx.AsyncClient) -> None:
    variants = [{"workflow": "tutor"}, {"workflow": "shout"}, {"name": "recorded", "column": "topic"}]
    at = await start_evaluation(http, variants=variants, repeats=2)
    await read_events(http, at)
    shown = (await http.get(at)).json()

    assert (shown["state"], shown["done"], shown["total"]) == ("succeeded", 18, 18)
    cells = (await http.get(f"{at}/results", params={"variant": "recorded", "limit": 1})).json()["data"]
    assert (cells[0]["run"], cells[0]["status"]) == (None, "done")
