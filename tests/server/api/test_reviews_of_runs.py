"""An evaluation with human scores, from its start to the scores given by reviewers."""

from typing import Any

import httpx

from palaver.testing import client
from tests.server.api.evaluation_server import ROWS, shout, tutor

STYLE_QUESTION = {"key": "style", "type": "score", "range": [1, 5]}
HUMAN_EVALUATOR = {"key": "human", "name": "look", "parameters": {"questions": [{"key": "kind"}, STYLE_QUESTION]}}


async def run_evaluation(http: httpx.AsyncClient) -> str:
    created = await http.post("/api/testsets", json={"name": "questions", "rows": [{"data": row} for row in ROWS]})
    body = {
        "testset": {"id": created.json()["id"]},
        "variants": [{"name": "base", "workflow": "tutor"}],
        "evaluators": [{"key": "human"}, HUMAN_EVALUATOR],
    }
    run = (await http.post("/api/evaluations", json=body)).json()["id"]
    await http.get(f"/api/evaluations/{run}/events")
    return run


async def test_skipped_human_scores_are_filled_by_the_answers_of_reviewers() -> None:
    async with client(tutor, shout, default="tutor") as http:
        run = await run_evaluation(http)
        at = f"/api/evaluations/{run}"
        before = (await http.get(f"{at}/results/cell_0")).json()["scores"]
        review = (await http.post("/api/reviews", json={"items": {"run": run}})).json()
        for number, correct in enumerate((True, True, False)):
            assert (await http.get(f"/api/reviews/{review['id']}/next")).json()["item"]["id"] == f"item_{number}"
            body: dict[str, Any] = {"answers": {"correct": correct, "kind": True, "style": 1 + 2 * number}}
            answer = await http.post(f"/api/reviews/{review['id']}/items/item_{number}/answers", json=body)
            assert answer.status_code == 201, answer.text
        after = (await http.get(f"{at}/results/cell_1")).json()["scores"]
        figures = (await http.get(f"{at}/summary")).json()["variants"][0]["evaluators"]

    assert [(one["evaluator"], one["status"]) for one in before] == [("human", "skipped"), ("look", "skipped")]
    assert [question["key"] for question in review["questions"]] == ["correct", "kind", "style"]
    scores = [(one["evaluator"], one["status"], one["passed"], one["score"]) for one in after]
    assert scores == [
        ("human", "scored", True, 1.0),
        ("look.kind", "scored", True, 1.0),
        ("look.style", "scored", None, 0.5),
    ]
    summaries = [(one["name"], one["n"], one["skipped"], one["pass_rate"], one["mean"]) for one in figures]
    assert summaries == [
        ("human", 3, 0, 2 / 3, 2 / 3),
        ("look.kind", 3, 0, 1.0, 1.0),
        ("look.style", 3, 0, None, 0.5),
    ]
