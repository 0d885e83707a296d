"""/api/online: live evaluators over HTTP, and the runs that they score, on every database."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from palaver import Message, chat
from palaver.discovery.registry import Registry
from palaver.server.app import Server
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.testing import in_process_transport

CONTAINS_HI = {"key": "contains", "name": "says hi", "parameters": {"substring": "Hi"}}
LATENCY_BUDGET = {"key": "latency_budget", "parameters": {"max_seconds": 60}}
RULE = {"name": "All runs", "sample": 1.0, "per_minute": 6_000, "evaluators": [CONTAINS_HI, LATENCY_BUDGET]}


@chat
def back(messages: list[Message]) -> str:
    return messages[-1].text


@pytest.fixture
async def server(database: Database) -> AsyncIterator[Server]:
    running = Server(Registry([back]), Settings(), database=database)
    running.runtime.live_worker._quiet_time, running.runtime.live_worker._poll_interval = timedelta(0), 0.01
    yield running
    await running.close()


@pytest.fixture
async def http(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=in_process_transport(server), base_url="http://localhost") as opened:
        yield opened


async def run_workflow(http: httpx.AsyncClient, text: str) -> str:
    """Run the workflow and return the id of its trace."""
    answer = await http.post("/back/invoke", json={"messages": [{"role": "user", "content": text}]})
    return answer.headers["x-palaver-trace-id"]


async def wait_for_scores(http: httpx.AsyncClient, trace: str) -> list[dict[str, Any]]:
    """Wait until a trace is scored and return its scores."""
    async with asyncio.timeout(60):
        while True:
            answer = await http.get(f"/api/traces/{trace}/scores")
            if answer.status_code == 200 and answer.json()["data"]:
                return answer.json()["data"]
            await asyncio.sleep(0.01)


async def test_live_runs_are_scored_and_counted(server: Server, http: httpx.AsyncClient) -> None:
    made = await http.post("/api/online", json=RULE)
    at = made.headers["location"]
    first, second = [await run_workflow(http, text) for text in ("Hi", "Ho")]
    good, bad = await wait_for_scores(http, first), await wait_for_scores(http, second)
    stats = (await http.get(f"{at}/stats", params={"by": "day"})).json()

    assert made.status_code == 201
    assert good[0].pop("created_at").startswith("20")
    assert good[0] == {
        "source": "online",
        "name": "says hi",
        "value": 1.0,
        "passed": True,
        "status": "scored",
        "rule": made.json()["id"],
        "run": None,
        "message": None,
        "comment": "",
        "user": None,
        "key": None,
    }
    assert [(one["name"], one["passed"]) for one in bad] == [("says hi", False), ("latency_budget", True)]
    counted = [(one["evaluator"], one["n"], one["passed"], one["pass_rate"], one["errors"]) for one in stats["data"]]
    assert counted == [("latency_budget", 2, 2, 1.0, 0), ("says hi", 2, 1, 0.5, 0)]
    assert (stats["done"], stats["waiting"]) == (2, 0)


async def test_runs_of_evaluations_are_not_scored(server: Server, http: httpx.AsyncClient) -> None:
    (await http.post("/api/online", json=RULE)).raise_for_status()
    rows = [{"data": {"messages": "Hi", "expected": "Hi"}}]
    testset = (await http.post("/api/testsets", json={"name": "some", "rows": rows})).json()["id"]
    body = {"testset": {"id": testset}, "variants": [{"workflow": "back"}], "evaluators": [{"key": "exact_match"}]}
    run = (await http.post("/api/evaluations", json=body)).json()["id"]
    await http.get(f"/api/evaluations/{run}/events")
    trace = (await http.get(f"/api/evaluations/{run}/results/cell_0")).json()["trace_id"]
    await server.runtime.telemetry.flush()
    await wait_for_scores(http, await run_workflow(http, "Hi"))

    assert (await http.get(f"/api/traces/{trace}/scores")).json() == {"data": []}


async def test_a_live_evaluator_is_created_listed_changed_and_deleted(http: httpx.AsyncClient) -> None:
    condition = {"field": "workflow", "op": "eq", "value": "echo"}
    made = await http.post("/api/online", json={"name": "Echo", "filter": condition, "evaluators": [CONTAINS_HI]})
    at, shown = made.headers["location"], made.json()
    changed = await http.patch(at, json={"name": "Other", "enabled": False, "filter": None, "sample": 0.5})
    listed = (await http.get("/api/online")).json()["data"]

    assert {name: shown[name] for name in ("sample", "per_minute", "session", "enabled", "filter", "key")} == {
        "sample": 0.1,
        "per_minute": 60,
        "session": False,
        "enabled": True,
        "filter": condition,
        "key": None,
    }
    assert shown["evaluators"] == [CONTAINS_HI]
    assert (changed.json()["name"], changed.json()["enabled"], changed.json()["filter"]) == ("Other", False, None)
    assert (changed.json()["sample"], changed.json()["evaluators"]) == (0.5, [CONTAINS_HI])
    assert [one["id"] for one in listed] == [shown["id"]]
    assert (await http.get(at)).json() == changed.json()
    assert (await http.delete(at)).status_code == 204
    responses = [
        await http.get(at),
        await http.patch(at, json={}),
        await http.delete(at),
        await http.get(f"{at}/stats"),
    ]
    assert {answer.status_code for answer in responses} == {404}


INVALID_RULES: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "/name"),
    ({"sample": 1.5}, "/sample"),
    ({"per_minute": 0}, "/per_minute"),
    ({"evaluators": []}, "/evaluators"),
    ({"evaluators": [{"key": "no.such"}]}, "/evaluators/0/key"),
    (
        {"evaluators": [CONTAINS_HI, {"key": "regex", "parameters": {"pattern": "("}}]},
        "/evaluators/1/parameters/pattern",
    ),
    ({"evaluators": [CONTAINS_HI, CONTAINS_HI]}, "/evaluators/1/name"),
    ({"filter": {"field": "nothing", "op": "exists"}}, "/filter/field"),
    ({"filter": {"field": "feedback", "op": "exists"}}, "/filter"),
]


async def test_an_invalid_live_evaluator_is_rejected(http: httpx.AsyncClient) -> None:
    at = (await http.post("/api/online", json=RULE | {"enabled": False})).headers["location"]
    for body, path in INVALID_RULES:
        for answer in (await http.post("/api/online", json=RULE | body), await http.patch(at, json=body)):
            assert (answer.status_code, answer.json()["error"]["path"]) == (422, path), body
