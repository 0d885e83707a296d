"""Filling the demo: everything in it was really said, run and scored, through the same door as anybody's requests."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import httpx

from palaver.demo import elsewhere, story

_WHERE_IT_IS = ("threads", "boards", "testsets", "evaluations")


async def fill(http: httpx.AsyncClient, tell: Callable[[str], None]) -> None:
    """Give a new demo something to look at; one in which there is something already is left as it is."""
    if any([(await _get(http, f"/api/{name}?limit=1"))["data"] for name in _WHERE_IT_IS]):
        return
    await _post(http, "/api/workflows/calculator/variants", story.HASTY)
    tell("a test set, and two evaluations over it")
    await _evaluations(http)
    tell("boards: variants side by side")
    await _headlines(http)
    await _side_by_side(http)  # The page opens with the board that was saved last.
    tell("conversations, and a trace of another program")  # Last, so that lists of traces begin with them.
    await _post(http, "/api/online", story.RULE)
    await asyncio.gather(*(_talk(http, workflow, variant, said) for workflow, variant, said in story.TALKS))
    await _post(http, "/v1/traces", elsewhere.sent(time.time_ns()))


async def _talk(http: httpx.AsyncClient, workflow: str, variant: str | None, said: list[str]) -> None:
    thread = await _post(http, "/api/threads", {"workflow": workflow, "variant": variant})
    run = ""
    for line in said:
        run = await _say(http, thread["id"], line)
    rated = await http.put(f"/api/runs/{run}/feedback", json={"rating": "down" if variant else "up"})
    rated.raise_for_status()


async def _say(http: httpx.AsyncClient, thread: str, line: str) -> str:
    """Say it in a thread and hear the answer to its end; the run that answered."""
    body = {"messages": [{"role": "user", "content": line}]}
    answer = await http.post(f"/api/threads/{thread}/turns", json=body, headers={"accept": "text/event-stream"})
    return answer.raise_for_status().headers["x-palaver-run-id"]


async def _side_by_side(http: httpx.AsyncClient) -> None:
    board = await _post(http, "/api/boards", story.BOARD)

    async def fill_cell(row: str, column: dict[str, Any]) -> None:
        cell = {"board": board["id"], "row": row, "column": column["id"]}
        body = {"workflow": column["workflow"], "variant": column.get("variant"), "cell": cell}
        thread = await _post(http, "/api/threads", body)
        await _say(http, thread["id"], story.BOARD_SAYS[row])

    cells = [(row["id"], column) for row in story.BOARD["rows"] for column in story.BOARD["columns"]]
    await asyncio.gather(*(fill_cell(row, column) for row, column in cells))


async def _headlines(http: httpx.AsyncClient) -> None:
    board = await _post(http, "/api/boards", story.HEADLINES)
    await _post(http, f"/api/boards/{board['id']}/run", {"cells": "all"})


async def _evaluations(http: httpx.AsyncClient) -> None:
    rows = [{"data": row} for row in story.sums()]
    testset = await _post(http, "/api/testsets", {"name": "Sums", "description": story.SUMS_ARE, "rows": rows})
    await _evaluated(http, testset["id"], "Products first", {})
    hasty = await _evaluated(http, testset["id"], "As written", {"variant": "hasty"})
    asked = {"name": "Was that clear?", "items": {"run": hasty}, "questions": story.QUESTIONS}
    await _post(http, "/api/reviews", asked)


async def _evaluated(http: httpx.AsyncClient, testset: str, name: str, variant: dict[str, str]) -> str:
    """Run it to its end; its id."""
    asked = {
        "name": name,
        "testset": {"id": testset},
        "variants": [{"name": "calculator", "workflow": "calculator", **variant}],
        "evaluators": story.EVALUATORS,
    }
    begun = await _post(http, "/api/evaluations", asked)
    await http.get(f"/api/evaluations/{begun['id']}/events")  # It ends when the evaluation does.
    return begun["id"]


async def _get(http: httpx.AsyncClient, path: str) -> Any:
    answer = await http.get(path)
    return answer.raise_for_status().json()


async def _post(http: httpx.AsyncClient, path: str, body: Any) -> Any:
    answer = await http.post(path, json=body)
    return answer.raise_for_status().json()
