"""/api/evaluators: the list of evaluators, and trying one."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from palaver.evaluation.case import Case
from palaver.evaluation.evaluator import evaluator
from palaver.evaluation.network_context import OfflineContext
from palaver.evaluation.registry import EvaluatorRegistry
from palaver.evaluation.score import Score
from palaver.server.api.evaluators import EvaluatorController
from palaver.server.settings import Settings
from tests.server.rest_client import application, rest_client


@evaluator(key="team.polite", threshold=0.5, needs={"chat"})
async def polite(case: Case, words: list[str] = ["please"]) -> float:  # noqa: B006 - never changed
    """Counts kind words."""
    return sum(word in case.text for word in words) / len(words)


@evaluator
def parts(case: Case) -> list[Score]:
    return [Score(name="length", score=len(case.text)), Score(name="said", passed=bool(case.text))]


@evaluator
def broken(case: Case) -> bool:
    raise ValueError(f"no idea of {case.text}")


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    evaluators = EvaluatorRegistry([polite, parts, broken])
    app = application(
        [EvaluatorController], evaluators=evaluators, evaluator_context=OfflineContext(), settings=Settings()
    )
    async with rest_client(app) as client:
        yield client


async def try_evaluator(http: httpx.AsyncClient, key: str, **body: Any) -> dict[str, Any]:
    answer = await http.post(f"/api/evaluators/{key}/try", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_an_authors_evaluator_is_listed_with_its_schema(http: httpx.AsyncClient) -> None:
    listed = (await http.get("/api/evaluators")).json()["data"]
    own = [one for one in listed if one["origin"] == "author"]

    assert [one["key"] for one in own] == ["broken", "parts", "team.polite"]
    assert own[2] == (await http.get("/api/evaluators/team.polite")).json()
    assert own[2]["title"] == "Team.polite"
    assert own[2]["description"] == "Counts kind words."
    assert own[2]["needs"] == ["chat"]
    assert own[2]["schema"]["properties"]["words"]["type"] == "array"


async def test_built_in_evaluators_are_listed_with_what_they_need(http: httpx.AsyncClient) -> None:
    answer = await http.get("/api/evaluators")
    by_key = {one["key"]: one for one in answer.json()["data"]}

    assert by_key["exact_match"]["origin"] == "built_in"
    assert by_key["tool_called"]["needs"] == ["tools"]
    assert all(one["title"] and one["schema"]["type"] == "object" for one in by_key.values())
    again = await http.get("/api/evaluators", headers={"if-none-match": answer.headers["etag"]})
    assert again.status_code == 304


async def test_trying_an_evaluator_on_a_case_returns_its_score(http: httpx.AsyncClient) -> None:
    result = await try_evaluator(
        http, "team.polite", parameters={"words": ["please", "thanks"]}, case={"output": "thanks"}
    )

    assert isinstance(result.pop("seconds"), float)
    assert result == {
        "evaluator": "team.polite",
        "status": "scored",
        "passed": True,
        "score": 0.5,
        "label": None,
        "reason": "",
        "details": {},
        "usage": None,
        "cost": None,
        "more": [],
    }


async def test_a_built_in_evaluator_can_be_tried(http: httpx.AsyncClient) -> None:
    result = await try_evaluator(http, "exact_match", case={"output": "Paris", "expected": "Paris"})

    assert (result["status"], result["passed"], result["score"]) == ("scored", True, 1.0)


async def test_a_case_without_an_expected_value_is_skipped(http: httpx.AsyncClient) -> None:
    result = await try_evaluator(http, "exact_match", case={"output": "Paris"})

    assert (result["status"], result["passed"], result["reason"].partition(":")[0]) == ("skipped", None, "no_expected")


async def test_further_scores_of_an_evaluator_are_returned_in_more(http: httpx.AsyncClient) -> None:
    result = await try_evaluator(http, "parts", case={"output": {"role": "assistant", "content": "Hello"}})

    assert (result["evaluator"], result["score"]) == ("parts.length", 5.0)
    assert [(one["evaluator"], one["passed"]) for one in result["more"]] == [("parts.said", True)]


async def test_an_exception_of_the_evaluator_is_returned_as_an_error(http: httpx.AsyncClient) -> None:
    result = await try_evaluator(http, "broken", case={"output": "x"})

    assert (result["status"], result["reason"]) == ("error", "evaluator_failed: ValueError: no idea of x")


INVALID_REQUESTS = [
    ("exact_match", {"parameters": {"gone": 1}, "case": {}}, 422, "/parameters/gone"),
    ("regex", {"parameters": {"pattern": "("}, "case": {"output": "x"}}, 422, "/parameters/pattern"),
    ("exact_match", {}, 400, "/case"),
    ("exact_match", {"case": 1}, 400, "/case"),
    ("exact_match", {"case": {"latency": -1}}, 422, "/case/latency"),
    ("exact_match", {"case": {"output": "a", "turns": [{"output": "b"}]}}, 422, "/case/turns"),
    ("code", {"parameters": {"ref": "os:system"}, "case": {}}, 422, "/parameters/ref"),
]


@pytest.mark.parametrize(("key", "body", "status", "path"), INVALID_REQUESTS)
async def test_invalid_parameters_and_cases_are_rejected_with_their_path(
    http: httpx.AsyncClient, key: str, body: dict[str, Any], status: int, path: str
) -> None:
    refused = await http.post(f"/api/evaluators/{key}/try", json=body)

    assert (refused.status_code, refused.json()["error"]["path"]) == (status, path), refused.text


@pytest.mark.parametrize("key", ["os:system", "gone", "palaver.evaluation.evaluators.text"])
async def test_an_unknown_evaluator_is_not_found(http: httpx.AsyncClient, key: str) -> None:
    refused = await http.post(f"/api/evaluators/{key}/try", json={"case": {}})

    assert refused.status_code == 404
    assert refused.json() == {"error": {"code": "not_found", "message": f"Evaluator {key!r} not found."}}
    assert (await http.get(f"/api/evaluators/{key}")).status_code == 404


async def test_agenta_evaluators_are_converted_and_unsupported_ones_reported(http: httpx.AsyncClient) -> None:
    agenta_evaluators = [
        {"name": "Starts with A", "evaluator_key": "auto_regex_test", "settings_values": {"regex_pattern": "^A"}},
        {"name": "Own", "evaluator_key": "auto_custom_code_run", "settings_values": {"code": "import os"}},
        {"name": "New", "evaluator_key": "auto_of_tomorrow"},
    ]

    answer = await http.post("/api/evaluators/import", json=agenta_evaluators)

    regex, code, unknown = answer.json()["data"]
    assert regex["evaluator"] == {"key": "regex", "name": "Starts with A", "parameters": {"pattern": "^A"}}
    assert (code["evaluator"], code["text"]) == (None, "import os")
    assert unknown["notes"] == ["Evaluator 'auto_of_tomorrow' is not supported."]
    assert (await http.post("/api/evaluators/import", json={})).status_code == 400
