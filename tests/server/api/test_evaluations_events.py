"""The event stream of an evaluation: recorded cells, progress, and the end."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import httpx
import msgspec
import pytest

from palaver.evaluation.runner.progress import EvaluationProgress, estimate_progress
from palaver.server.api import evaluation_views, evaluations
from palaver.server.api.evaluations import EvaluationController, EvaluationEventController
from palaver.storage.database import MEMORY_URL, Database, open_database
from palaver.storage.evaluations import repository as kept
from palaver.storage.evaluations.repository import Evaluation
from tests.server.api.evaluation_server import NOON, answer_all, create_test_set, evaluation_dependencies, moment
from tests.server.rest_client import FakeCaller, application, rest_client

BODY: dict[str, Any] = {
    "testset": {"id": "ts_1"},
    "variants": [{"workflow": "tutor"}],
    "evaluators": [{"key": "exact_match"}],
}


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    opened = open_database(MEMORY_URL)
    await create_test_set(opened)
    yield opened
    await opened.close()


@pytest.fixture
async def http(database: Database) -> AsyncIterator[httpx.AsyncClient]:
    async with rest_client(app(database)) as client:
        yield client


def app(database: Database) -> Any:
    controllers = [EvaluationController, EvaluationEventController]
    return application(controllers, **evaluation_dependencies(database), wake_runner=lambda: None)


async def start_evaluation(http: httpx.AsyncClient) -> str:
    return (await http.post("/api/evaluations", json=BODY)).json()["id"]


class Frame(msgspec.Struct, frozen=True):
    id: int
    event: str
    data: dict[str, Any]


def parse_frames(chunk: bytes) -> list[Frame]:
    frames: list[Frame] = []
    for block in chunk.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        if "data" in fields:
            frames.append(Frame(int(fields["id"]), fields["event"], msgspec.json.decode(fields["data"])))
    return frames


async def follow_evaluation(database: Database, evaluation: str, seen: int = 0) -> AsyncIterator[Frame]:
    stored, plan = await database.read(kept.get_plan, "default", evaluation)
    stream = evaluations.evaluation_frames(
        database, "default", stored, evaluation_views.decode_plan(plan), seen, lambda: moment(9)
    )
    async for chunk in stream:
        for frame in parse_frames(chunk):
            yield frame


async def test_the_stream_of_an_ended_evaluation_has_every_cell_progress_and_state(
    http: httpx.AsyncClient, database: Database
) -> None:
    evaluation = await start_evaluation(http)
    await answer_all(database, evaluation)

    frames = [frame async for frame in follow_evaluation(database, evaluation)]

    assert [(frame.id, frame.event) for frame in frames] == [
        (1, "cell"),
        (2, "cell"),
        (3, "cell"),
        (3, "progress"),
        (3, "state"),
    ]
    cell = frames[0].data
    assert (cell["id"], cell["variant"], cell["repeat"], cell["status"]) == ("cell_0", "tutor", 0, "done")
    assert [(score["evaluator"], score["passed"]) for score in cell["scores"]] == [("exact_match", True)]
    assert frames[3].data == {
        "type": "progress",
        "done": 3,
        "failed": 0,
        "errors": 0,
        "total": 3,
        "rate": None,
        "eta_seconds": None,
        "cost": None,
    }
    assert frames[4].data == {"type": "state", "state": "succeeded", "reason": None}


async def test_a_resumed_stream_continues_after_the_last_seen_event(
    http: httpx.AsyncClient, database: Database
) -> None:
    evaluation = await start_evaluation(http)
    await answer_all(database, evaluation)

    frames = [frame async for frame in follow_evaluation(database, evaluation, seen=2)]

    assert [(frame.id, frame.event) for frame in frames] == [(3, "cell"), (3, "progress"), (3, "state")]


async def test_a_running_evaluation_is_streamed_to_its_end(http: httpx.AsyncClient, database: Database) -> None:
    evaluation = await start_evaluation(http)
    stream = follow_evaluation(database, evaluation)
    first = [await anext(stream), await anext(stream)]

    async with asyncio.TaskGroup() as group:
        group.create_task(answer_all(database, evaluation))
        rest = [frame async for frame in stream]

    assert [(frame.event, frame.data.get("state")) for frame in first] == [("state", "queued"), ("progress", None)]
    assert [frame.data["id"] for frame in rest if frame.event == "cell"] == ["cell_0", "cell_1", "cell_2"]
    assert [frame.id for frame in rest] == sorted(frame.id for frame in rest)
    assert (rest[-1].event, rest[-1].data["state"]) == ("state", "succeeded")


async def test_the_stream_of_a_deleted_evaluation_ends(http: httpx.AsyncClient, database: Database) -> None:
    evaluation = await start_evaluation(http)
    stream = follow_evaluation(database, evaluation)
    await anext(stream)
    await database.write(kept.delete_evaluation, "default", evaluation)

    assert [frame.event async for frame in stream] == ["progress"]


async def test_an_event_source_that_has_seen_every_event_is_answered_with_204(
    http: httpx.AsyncClient, database: Database
) -> None:
    evaluation = await start_evaluation(http)
    await answer_all(database, evaluation)
    at = f"/api/evaluations/{evaluation}/events"

    assert (await http.get(at, headers={"last-event-id": "3"})).status_code == 204
    assert (await http.get(at, headers={"last-event-id": "x"})).status_code == 400


async def test_the_events_of_another_projects_evaluation_are_not_found(
    http: httpx.AsyncClient, database: Database
) -> None:
    evaluation = await start_evaluation(http)
    async with rest_client(app(database), FakeCaller(project="other")) as other_client:
        response = await other_client.get(f"/api/evaluations/{evaluation}/events")
        missing = await other_client.get("/api/evaluations/ev_0/events")

    assert (response.status_code, response.text.replace(evaluation, "ev_0")) == (404, missing.text)


# Progress rate and estimated time left


def running_evaluation(**more: Any) -> Evaluation:
    fields: dict[str, Any] = dict.fromkeys(Evaluation.__struct_fields__)
    return Evaluation(**fields | {"total": 100, "done": 38, "failed": 2, "created_at": NOON, "updated_at": NOON} | more)


def finished_cells(count: int, first: float, last: float) -> tuple[int, datetime, datetime]:
    return count, moment(first), moment(last)


def test_the_rate_is_measured_from_the_last_cells_until_now() -> None:
    assert estimate_progress(running_evaluation(), finished_cells(40, 0, 10), moment(20)) == EvaluationProgress(
        2.0, 30.0
    )


@pytest.mark.parametrize("last", [None, finished_cells(1, 0, 0), finished_cells(2, 5, 5)])
def test_too_few_cells_give_no_progress_estimate(last: Any) -> None:
    assert estimate_progress(running_evaluation(), last, moment(5)) == EvaluationProgress()


def test_an_ended_evaluation_has_no_progress_estimate() -> None:
    assert (
        estimate_progress(running_evaluation(ended_at=NOON), finished_cells(40, 0, 10), moment(20))
        == EvaluationProgress()
    )
