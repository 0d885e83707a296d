"""/api/traces/{trace}/scores, the filter `feedback`, and traces deleted with a thread; on every database."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from palaver.discovery.registry import Registry
from palaver.server.app import Server
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.testing import echo, in_process_transport, scripted
from tests.server.traced_server import send_spans, span, trace_id


@pytest.fixture
async def server(database: Database) -> AsyncIterator[Server]:
    running = Server(Registry([echo, scripted]), Settings(), database=database)
    yield running
    await running.close()


@pytest.fixture
async def http(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=in_process_transport(server), base_url="http://localhost") as opened:
        yield opened


async def create_rated_run(
    server: Server, http: httpx.AsyncClient, text: str, *ratings: dict[str, Any]
) -> tuple[str, str]:
    """Create a run with these ratings and return the ids of the run and of its trace."""
    answer = await http.post("/scripted/invoke", json={"messages": [{"role": "user", "content": text}]})
    run, trace = answer.headers["x-palaver-run-id"], answer.headers["x-palaver-trace-id"]
    for rating in ratings:
        assert (await http.put(f"/api/runs/{run}/feedback", json=rating)).status_code == 200
    await server.runtime.telemetry.flush()
    return run, trace


UP, DOWN = {"rating": "up", "comment": "So true.", "user": "ann"}, {"rating": "down", "user": "bob"}


async def test_feedback_is_listed_in_the_scores_of_its_trace(server: Server, http: httpx.AsyncClient) -> None:
    run, trace = await create_rated_run(server, http, "Hi", UP, DOWN)
    _, unrated = await create_rated_run(server, http, "Ho")
    scores = (await http.get(f"/api/traces/{trace}/scores")).json()["data"]

    times = [score.pop("created_at") for score in scores]
    same = {"source": "feedback", "run": run, "message": None, "key": None}
    assert scores == [
        {**same, "value": 1.0, "comment": "So true.", "user": "ann"},
        {**same, "value": 0.0, "comment": "", "user": "bob"},
    ]
    assert times == sorted(times)
    assert (await http.get(f"/api/traces/{trace.upper()}/scores")).json()["data"] != []
    assert (await http.get(f"/api/traces/{unrated}/scores")).json() == {"data": []}
    assert (await http.get(f"/api/traces/{trace_id('none')}/scores")).status_code == 404


FEEDBACK_FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({"op": "eq", "value": "up"}, ["good"]),
    ({"op": "eq", "value": "down"}, ["bad"]),
    ({"op": "eq", "value": "mixed"}, ["mixed"]),
    ({"op": "in", "value": ["up", "mixed"]}, ["good", "mixed"]),
    ({"op": "ne", "value": "up"}, ["bad", "foreign", "mixed", "none"]),
    ({"op": "not_in", "value": ["up", "down"]}, ["foreign", "mixed", "none"]),
    ({"op": "exists"}, ["bad", "good", "mixed"]),
    ({"op": "missing"}, ["foreign", "none"]),
]


async def test_traces_are_filtered_by_feedback(server: Server, http: httpx.AsyncClient) -> None:
    traces = {
        (await create_rated_run(server, http, "a", UP))[1]: "good",
        (await create_rated_run(server, http, "b", DOWN))[1]: "bad",
        (await create_rated_run(server, http, "c", UP, DOWN))[1]: "mixed",
        (await create_rated_run(server, http, "d"))[1]: "none",
        trace_id("f"): "foreign",
    }
    await send_spans(http, span("foreign", trace="f"))
    for condition, names in FEEDBACK_FILTERS:
        body = {"filter": {"field": "feedback", **condition}}
        rows = (await http.post("/api/traces/query", json=body)).json()["data"]
        assert sorted(traces[row["trace_id"]] for row in rows) == names, condition


@pytest.mark.parametrize(
    ("condition", "path"),
    [
        ({"op": "eq", "value": "sideways"}, "/filter/value"),
        ({"op": "in", "value": ["up", "x"]}, "/filter/value"),
        ({"op": "contains", "value": "up"}, "/filter/op"),
        ({"op": "gt", "value": "up"}, "/filter/op"),
    ],
)
async def test_an_invalid_feedback_filter_is_rejected(
    http: httpx.AsyncClient, condition: dict[str, Any], path: str
) -> None:
    answer = await http.post("/api/traces/query", json={"filter": {"field": "feedback", **condition}})

    assert (answer.status_code, answer.json()["error"]["path"]) == (422, path)


async def test_deleting_a_thread_deletes_its_traces_only_on_request(server: Server, http: httpx.AsyncClient) -> None:
    stream, remaining = {"accept": "text/event-stream"}, []
    for traces in ("false", "true"):
        thread = (await http.post("/api/threads", json={"workflow": "scripted"})).json()["id"]
        turn = {"messages": [{"role": "user", "content": "Hi"}]}
        (await http.post(f"/api/threads/{thread}/turns", json=turn, headers=stream)).raise_for_status()
        await send_spans(http, span("outside", trace=thread[-8:], session__id=thread))
        await server.runtime.telemetry.flush()
        deleted = await http.delete(f"/api/threads/{thread}", params={"traces": traces})
        assert deleted.status_code == 204
        rows = (await http.get("/api/traces")).json()["data"]
        remaining.append([row for row in rows if row["session"] == thread])

    assert [len(rows) for rows in remaining] == [2, 0]
