"""/api/reviews: reviewers answer questions about results and traces, each item assigned once; on every database."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import insert, update

from palaver.core.messages import Message
from palaver.server.api.evaluation_results import EvaluationResultController
from palaver.server.api.evaluations import EvaluationController
from palaver.server.api.reviews import ReviewController, ReviewItemController
from palaver.server.api.trace_views import TraceQueryRunner
from palaver.server.api.traces import TraceScoreController
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as kept_evaluations
from palaver.storage.evaluations.results import compress_result
from palaver.storage.evaluations.tables import evaluation_results as evaluation_results_table
from palaver.storage.evaluations.tables import evaluation_scores, review_holds
from palaver.storage.evaluations.tables import evaluations as evaluations_table
from palaver.traces.ingest import build_row
from palaver.traces.model import Span
from tests.server.api.evaluation_server import answer_all, create_test_set, evaluation_dependencies
from tests.server.rest_client import FakeCaller, application, rest_client
from tests.storage.span_factory import NOON, insert_rows, span_id, trace_id

SETTINGS = Settings()
CORRECT = {"key": "correct", "type": "boolean"}


class Reviewers:
    """The clients of several reviewers, and an evaluation with an answer to each of three questions."""

    def __init__(self, database: Database, clients: dict[str, httpx.AsyncClient], run: str) -> None:
        self.database = database
        self.clients = clients
        self.run = run

    def __getitem__(self, name: str) -> httpx.AsyncClient:
        return self.clients[name]

    async def review(self, **more: Any) -> str:
        body = {"items": {"run": self.run}, "questions": [CORRECT], "reviewers": 2}
        answer = await self["ann"].post("/api/reviews", json=body | more)
        assert answer.status_code == 201, answer.text
        return answer.headers["location"]

    async def next(self, name: str, at: str) -> str | None:
        answer = await self[name].get(f"{at}/next")
        assert answer.status_code == 200, answer.text
        item = answer.json()["item"]
        return None if item is None else item["id"]

    async def say(self, name: str, at: str, item: str | None, /, **answers: Any) -> httpx.Response:
        return await self[name].post(f"{at}/items/{item}/answers", json={"answers": answers})


@pytest.fixture
async def reviewers(database: Database) -> AsyncIterator[Reviewers]:
    testset = await create_test_set(database)
    app = application(
        [
            EvaluationController,
            EvaluationResultController,
            ReviewController,
            ReviewItemController,
            TraceScoreController,
        ],
        **evaluation_dependencies(database, SETTINGS),
        wake_runner=lambda: None,
        run_query=TraceQueryRunner(database, SETTINGS),
    )
    async with AsyncExitStack() as stack:
        callers = {name: FakeCaller(key=(name * 3)[:8]) for name in ("ann", "bob", "cyd")}
        callers |= {"eve": FakeCaller(key="eveeveev", project="elsewhere"), "local": FakeCaller(kind="loopback")}
        clients = {name: await stack.enter_async_context(rest_client(app, caller)) for name, caller in callers.items()}
        body = {
            "testset": {"id": testset},
            "variants": [{"name": "base", "workflow": "tutor"}],
            "evaluators": [{"key": "exact_match"}, {"key": "human"}],
        }
        run = (await clients["ann"].post("/api/evaluations", json=body)).json()["id"]
        await answer_all(database, run)
        yield Reviewers(database, clients, run)


async def test_a_review_is_created_listed_changed_and_deleted(reviewers: Reviewers) -> None:
    at = await reviewers.review(name="Round 1")
    ann = reviewers["ann"]
    shown = (await ann.get(at)).json()
    listed = (await ann.get("/api/reviews", params={"run": reviewers.run, "state": "open", "search": "round"})).json()
    closed = await ann.patch(at, json={"name": "Round one", "state": "closed"})

    assert (shown["name"], shown["run"], shown["items"], shown["blind"]) == ("Round 1", reviewers.run, 3, True)
    assert shown["questions"] == [{**CORRECT, "title": "", "choices": None, "range": None, "required": True}]
    assert shown["progress"] == {"items": 3, "gone": 0, "done": 0, "answers": 0, "wanted": 6, "reviewers": []}
    assert [(one["id"], one["questions"]) for one in listed["data"]] == [(shown["id"], ["correct"])]
    assert (closed.json()["name"], closed.json()["state"]) == ("Round one", "closed")
    for answer in (await ann.get(f"{at}/next"), await reviewers.say("ann", at, "item_0", correct=True)):
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "not_open")
    assert (await ann.delete(at)).status_code == 204
    assert (await ann.get(at)).status_code == 404


async def test_next_skips_items_that_others_hold_and_items_already_answered(reviewers: Reviewers) -> None:
    at = await reviewers.review()

    assert [await reviewers.next(name, at) for name in ("ann", "bob", "cyd")] == ["item_0", "item_1", "item_2"]
    assert await reviewers.next("ann", at) == "item_0"
    for name, item in (("ann", "item_0"), ("bob", "item_1"), ("cyd", "item_2")):
        assert (await reviewers.say(name, at, item, correct=True)).status_code == 201
    assert [await reviewers.next(name, at) for name in ("ann", "bob", "cyd")] == ["item_1", "item_0", None]
    await reviewers.say("ann", at, "item_1", correct=True)
    await reviewers.say("bob", at, "item_0", correct=True)
    assert [await reviewers.next(name, at) for name in ("cyd", "ann", "bob")] == [None, "item_2", None]
    full = await reviewers.say("cyd", at, "item_0", correct=True)
    assert (full.status_code, full.json()["error"]["code"]) == (409, "not_open")
    progress = (await reviewers["ann"].get(at)).json()["progress"]
    assert (progress["done"], progress["answers"], progress["wanted"]) == (2, 5, 6)


async def test_concurrent_reviewers_are_assigned_different_items(reviewers: Reviewers) -> None:
    await insert_live_spans(reviewers.database, *(f"t{number}" for number in range(8)))
    at, local = await reviewers.review(items={"traces": {}}, reviewers=1), reviewers["local"]
    requests = [local.get(f"{at}/next", params={"reviewer": f"r{number}"}) for number in range(8)]
    items = [answer.json()["item"]["id"] for answer in await asyncio.gather(*requests)]

    assert sorted(items) == [f"item_{number}" for number in range(8)]


async def test_an_item_is_available_again_after_release_or_expiry(reviewers: Reviewers) -> None:
    at = await reviewers.review(reviewers=1)
    assert await reviewers.next("ann", at) == "item_0"
    taken = await reviewers.say("bob", at, "item_0", correct=True)
    (await reviewers["ann"].post(f"{at}/items/item_0/release", json={})).raise_for_status()
    assert await reviewers.next("bob", at) == "item_0"
    past = datetime.now(UTC) - timedelta(seconds=1)
    await reviewers.database.write(lambda db: db.execute(update(review_holds).values(until=past)))
    assert await reviewers.next("cyd", at) == "item_0"
    late = await reviewers.say("bob", at, "item_0", correct=True)
    accepted = await reviewers.say("cyd", at, "item_0", correct=False)

    assert [answer.status_code for answer in (taken, late, accepted)] == [409, 409, 201]


async def test_a_skipped_item_is_offered_to_other_reviewers_only(reviewers: Reviewers) -> None:
    at = await reviewers.review(reviewers=1)
    first = await reviewers.next("ann", at)
    skipped = await reviewers["ann"].post(f"{at}/items/{first}/skip", json={})

    assert skipped.json()["reviewers"] == [{"reviewer": "key_annannan", "answered": 0, "skipped": 1}]
    assert [await reviewers.next(name, at) for name in ("ann", "bob")] == ["item_1", "item_0"]


async def test_a_corrected_answer_is_added_and_the_last_one_counts(reviewers: Reviewers) -> None:
    at = await reviewers.review()
    item = await reviewers.next("ann", at)
    for correct in (True, False):
        assert (await reviewers.say("ann", at, item, correct=correct)).status_code == 201
    shown = (await reviewers["bob"].get(f"{at}/items/{item}")).json()
    rows = (await reviewers["bob"].get(f"{at}/items", params={"limit": 1})).json()

    annotations = [(one["number"], one["answers"], one["counts"], one["reviewer"]) for one in shown["annotations"]]
    assert annotations == [(1, {"correct": True}, False, "key_annannan"), (2, {"correct": False}, True, "key_annannan")]
    assert (shown["answered"], shown["state"]) == (1, "open")
    assert rows["data"][0]["annotations"] == shown["annotations"]
    assert rows["next"] is not None


async def test_variant_scores_and_ids_are_hidden_unless_the_review_is_not_blind(reviewers: Reviewers) -> None:
    blind, unblinded = await reviewers.review(), await reviewers.review(blind=False)
    blind_item = (await reviewers["ann"].get(f"{blind}/next")).json()["item"]
    open_item = (await reviewers["ann"].get(f"{unblinded}/next")).json()["item"]

    content = blind_item["content"]
    assert (content["history"][0]["parts"], content["text"]) == ([{"type": "text", "text": "2 + 2?"}], "4")
    assert (content["variant"], content["scores"], blind_item["annotations"]) == (None, [], [])
    assert (blind_item["result"], blind_item["trace_id"]) == (None, None)
    assert open_item["result"] == "cell_0"
    content = open_item["content"]
    assert (content["variant"], [score["evaluator"] for score in content["scores"]]) == ("base", ["exact_match"])


async def test_a_blind_review_returns_the_expected_value_only_at_its_own_route(reviewers: Reviewers) -> None:
    ann, blind, unblinded = reviewers["ann"], await reviewers.review(), await reviewers.review(blind=False)
    paths = [
        f"{at}/{which}" for at in (blind, unblinded) for which in ("next", "items/item_0", "items/item_0/expected")
    ]
    next_, item, expected, next_open, item_open, expected_open = [(await ann.get(path)).json() for path in paths]

    contents = [next_["item"]["content"], item["content"], next_open["item"]["content"], item_open["content"]]
    assert [content["has_expected"] for content in contents] == [True] * 4
    assert [content.get("expected") for content in contents] == [None, None, "4", "4"]
    assert ["expected" in content for content in contents] == [False, False, True, True]
    assert (expected, expected_open) == ({"expected": "4"}, {"expected": "4"})


async def test_a_blind_review_hides_the_expectations_of_script_turns(reviewers: Reviewers) -> None:
    body = {"turns": [{"text": "4", "expect": {"text": "4"}}], "text": "4"}
    await reviewers.database.write(
        lambda db: db.execute(update(evaluation_results_table).values(body=compress_result(body)))
    )
    blind, unblinded = await reviewers.review(), await reviewers.review(blind=False)
    turns = [(await reviewers["ann"].get(f"{at}/next")).json()["item"]["content"]["turns"] for at in (blind, unblinded)]

    assert [(turn["text"], turn["expect"]) for (turn,) in turns] == [("4", None), ("4", {"text": "4"})]


async def test_the_expected_value_of_a_trace_is_empty_and_of_a_deleted_result_not_found(reviewers: Reviewers) -> None:
    await insert_live_spans(reviewers.database, "one")
    ann, live, run = reviewers["ann"], await reviewers.review(items={"traces": {}}), await reviewers.review()
    item = (await ann.get(f"{live}/next")).json()["item"]
    (await ann.delete(f"/api/evaluations/{reviewers.run}")).raise_for_status()
    answers = [await ann.get(f"{at}/items/item_0/expected") for at in (live, run)]
    elsewhere = await reviewers["eve"].get(f"{live}/items/item_0/expected")

    assert (item["content"]["has_expected"], item["trace_id"]) == (False, None)
    assert [answer.status_code for answer in (*answers, elsewhere)] == [200, 404, 404]
    assert answers[0].json() == {}


async def test_results_to_review_are_selected_by_filter_variant_and_sample(reviewers: Reviewers) -> None:
    selections: list[tuple[dict[str, Any], list[str]]] = [
        ({"filter": {"evaluator": "exact_match", "passed": False}}, ["cell_1", "cell_2"]),
        ({"filter": {"search": "capital"}}, ["cell_2"]),
        ({"variant": "base", "sample": 2, "seed": 1}, ["cell_0", "cell_1"]),
        ({"variant": "base", "sample": 9, "seed": 1}, ["cell_0", "cell_1", "cell_2"]),
    ]
    for items, expected in selections:
        at = await reviewers.review(items={"run": reviewers.run, **items})
        rows = (await reviewers["ann"].get(f"{at}/items")).json()["data"]
        assert [item["result"] for item in rows] == expected, items


INVALID_REVIEWS: list[tuple[dict[str, Any], int, str | None]] = [
    ({"items": {}}, 422, "/items"),
    ({"items": {"run": "ev_none"}}, 404, None),
    ({"items": {"traces": ["0" * 32]}}, 404, None),
    ({"items": {"traces": {"field": "nothing"}}}, 422, "/items/traces/field"),
    ({"items": {"traces": {}}}, 422, "/items"),
    ({"items": {"traces": {}}, "questions": None}, 422, "/items"),
    ({"questions": []}, 422, "/questions"),
    ({"questions": [CORRECT, CORRECT]}, 422, "/questions/1/key"),
    ({"questions": [{"key": "a", "type": "choice"}]}, 422, "/questions/0/choices"),
    ({"reviewers": 0}, 422, "/reviewers"),
]


async def test_an_invalid_review_is_rejected(reviewers: Reviewers) -> None:
    for body, status, path in INVALID_REVIEWS:
        request_body = {"items": {"run": reviewers.run}, "questions": [CORRECT]} | body
        answer = await reviewers["ann"].post("/api/reviews", json=request_body)
        assert (answer.status_code, answer.json()["error"].get("path")) == (status, path), body


async def test_invalid_answers_and_unknown_items_are_rejected(reviewers: Reviewers) -> None:
    at = await reviewers.review()
    for answers in ({}, {"correct": "yes"}, {"correct": True, "more": 1}):
        answer = await reviewers["ann"].post(f"{at}/items/item_0/answers", json={"answers": answers})
        assert (answer.status_code, answer.json()["error"]["path"]) == (422, "/answers")
    assert (await reviewers.say("ann", at, "item_9", correct=True)).status_code == 404
    assert (await reviewers.say("ann", at, "item_x", correct=True)).status_code == 404


async def test_another_projects_review_is_not_found(reviewers: Reviewers) -> None:
    at = await reviewers.review()
    eve = reviewers["eve"]
    answers = [await eve.get(at), await eve.get(f"{at}/next"), await eve.get(f"{at}/items"), await eve.delete(at)]
    answers += [await reviewers.say("eve", at, "item_0", correct=True), await eve.get(f"{at}/agreement")]
    body = {"items": {"run": reviewers.run}, "questions": [CORRECT]}
    answers.append(await eve.post("/api/reviews", json=body))

    assert {answer.status_code for answer in answers} == {404}
    assert (await eve.get("/api/reviews")).json()["data"] == []


async def test_reviewers_without_an_api_key_give_their_name(reviewers: Reviewers) -> None:
    at, local = await reviewers.review(), reviewers["local"]
    first = (await local.get(f"{at}/next", params={"reviewer": "Ann"})).json()
    second = (await local.get(f"{at}/next")).json()
    body = {"answers": {"correct": True}, "reviewer": "Ann"}
    annotation = (await local.post(f"{at}/items/item_0/answers", json=body)).json()

    assert (first["reviewer"], first["item"]["id"]) == ("Ann", "item_0")
    assert (second["reviewer"], second["item"]["id"]) == ("anonymous", "item_1")
    assert (annotation["reviewer"], annotation["item"]) == ("Ann", "item_0")
    with_key = (await reviewers["bob"].get(f"{at}/next", params={"reviewer": "Ann"})).json()
    assert with_key["reviewer"] == "key_bobbobbo"


async def test_answers_of_reviewers_become_the_human_score_of_the_result(reviewers: Reviewers) -> None:
    at = await reviewers.review(questions=None)
    assert (await reviewers["ann"].get(at)).json()["questions"][0]["key"] == "correct"
    for name, correct in (("ann", True), ("bob", False)):
        await reviewers.say(name, at, "item_0", correct=correct)
    disputed = (await reviewers["ann"].get(f"/api/evaluations/{reviewers.run}/results/cell_0")).json()["scores"][1]
    await reviewers.say("bob", at, "item_0", correct=True)
    agreed = (await reviewers["ann"].get(f"/api/evaluations/{reviewers.run}/results/cell_0")).json()["scores"][1]

    assert (disputed["evaluator"], disputed["status"], disputed["passed"], disputed["score"]) == (
        "human",
        "scored",
        False,
        0.5,
    )
    assert (agreed["passed"], agreed["score"], agreed["reason"]) == (True, 1.0, "by 2 reviewers")
    assert agreed["details"] == {"answers": [True, True]}


async def test_items_of_a_deleted_evaluation_are_marked_and_no_longer_offered(reviewers: Reviewers) -> None:
    at = await reviewers.review()
    await reviewers.next("ann", at)
    await reviewers.say("ann", at, "item_0", correct=True)
    await reviewers.database.write(kept_evaluations.delete_evaluation, "default", reviewers.run)
    response = (await reviewers["bob"].get(f"{at}/next")).json()
    shown = (await reviewers["ann"].get(f"{at}/items/item_0")).json()

    assert response["item"] is None
    assert (response["progress"]["gone"], response["progress"]["wanted"]) == (3, 0)
    assert (shown["state"], shown["content"], len(shown["annotations"])) == ("gone", None, 1)
    assert (await reviewers.say("ann", at, "item_0", correct=False)).status_code == 201


async def test_an_item_is_not_offered_after_its_result_was_rerun(reviewers: Reviewers) -> None:
    at = await reviewers.review()
    run = f"/api/evaluations/{reviewers.run}"
    assert (await reviewers["ann"].post(f"{run}/rerun", json={"which": "all"})).status_code == 202
    await answer_all(reviewers.database, reviewers.run)

    assert await reviewers.next("ann", at) is None


async def test_agreement_is_computed_between_reviewers(reviewers: Reviewers) -> None:
    at = await reviewers.review()
    for item, ann, bob in (("item_0", True, True), ("item_1", False, True), ("item_2", False, False)):
        await reviewers.say("ann", at, item, correct=ann)
        await reviewers.say("bob", at, item, correct=bob)
    agreement = (await reviewers["ann"].get(f"{at}/agreement")).json()["data"]

    assert agreement == [
        {
            "question": "correct",
            "type": "boolean",
            "raters": ["key_annannan", "key_bobbobbo"],
            "kind": "reviewers",
            "n": 3,
            "percent": 100 * 2 / 3,
            "kappa": 0.4,
        }
    ]


# Traces


async def insert_live_spans(database: Database, *names: str) -> None:
    spans = [live_span(name, at) for at, name in enumerate(names)]
    await insert_rows(database, *(build_row(span) for span in spans))


def live_span(name: str, at: float = 0, **more: Any) -> Span:
    fields: dict[str, Any] = {
        "trace_id": trace_id(name),
        "span_id": span_id(name),
        "start": NOON + timedelta(seconds=at),
        "duration_ms": 500.0,
        "name": name,
        "kind": "llm",
        "messages_in": (Message.user(f"Hi, {name}?"),),
        "messages_out": (Message.assistant(f"Hello from {name}."),),
    }
    return Span(**fields | more)


async def test_answers_about_a_trace_are_listed_in_its_scores(reviewers: Reviewers) -> None:
    await insert_live_spans(reviewers.database, "one", "two", "three")
    at = await reviewers.review(items={"traces": {"field": "name", "op": "ne", "value": "two"}}, reviewers=1)
    rows = (await reviewers["ann"].get(f"{at}/items")).json()["data"]
    item = await reviewers.next("ann", at)
    body = {"answers": {"correct": True}, "comment": "Fine."}
    (await reviewers["ann"].post(f"{at}/items/{item}/answers", json=body)).raise_for_status()
    [score] = (await reviewers["ann"].get(f"/api/traces/{trace_id('three')}/scores")).json()["data"]

    assert [one["trace_id"] for one in rows] == [trace_id("three"), trace_id("one")]
    assert score.pop("created_at").startswith("20")
    assert score == {
        "source": "review",
        "name": "correct",
        "value": 1.0,
        "passed": True,
        "review": at.rpartition("/")[2],
        "reviewer": "key_annannan",
        "comment": "Fine.",
        "run": None,
        "message": None,
        "user": None,
        "key": "key_annannan",
    }


async def test_each_trace_id_becomes_one_item_even_if_repeated(reviewers: Reviewers) -> None:
    await insert_live_spans(reviewers.database, "one", "two")
    named = [trace_id("two"), trace_id("one").upper(), trace_id("two")]
    at = await reviewers.review(items={"traces": named})
    rows = (await reviewers["ann"].get(f"{at}/items")).json()["data"]

    assert [one["trace_id"] for one in rows] == [trace_id("two"), trace_id("one")]


async def test_agreement_is_computed_between_an_llm_judge_and_a_reviewer(reviewers: Reviewers) -> None:
    judge = {"project": "default", "evaluation": reviewers.run, "evaluator": 1, "name": "human", "status": "scored"}
    rows = [{**judge, "cell": cell, "passed": cell == 0, "seconds": 0.0, "reason": ""} for cell in range(3)]
    await reviewers.database.write(lambda db: db.execute(insert(evaluation_scores), rows))
    plan = (await reviewers.database.read(kept_evaluations.get_plan, "default", reviewers.run))[1]
    plan["evaluators"][1]["key"] = "llm_judge"
    await reviewers.database.write(lambda db: db.execute(update(evaluations_table).values(plan=plan)))
    at = await reviewers.review()
    for item, correct in (("item_0", True), ("item_1", True), ("item_2", False)):
        await reviewers.say("ann", at, item, correct=correct)
    [agreement] = (await reviewers["ann"].get(f"{at}/agreement")).json()["data"]

    assert (agreement["kind"], agreement["raters"], agreement["n"]) == ("judge", ["key_annannan", "human"], 3)
    assert (agreement["percent"], agreement["kappa"]) == (100 * 2 / 3, 0.4)
