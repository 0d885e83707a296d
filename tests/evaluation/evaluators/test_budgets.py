"""The evaluators latency_budget, cost_budget and token_budget."""

from typing import Any

import pytest

from palaver.errors import InvalidValue
from palaver.evaluation.evaluators import built_in
from palaver.evaluation.network_context import OfflineContext
from tests.evaluation.evaluator_helpers import answer, score_case, verdict

USAGE = {"input_tokens": 100, "output_tokens": 50, "cost": 0.2}


@pytest.mark.parametrize(
    ("key", "measured", "parameters", "passed", "score"),
    [
        ("latency_budget", {"latency": 1}, {"max_seconds": 2}, True, 1.0),
        ("latency_budget", {"latency": 2}, {"max_seconds": 2}, True, 1.0),
        ("latency_budget", {"latency": 4}, {"max_seconds": 2}, False, 0.5),
        ("latency_budget", {"latency": 0}, {"max_seconds": 0}, True, 1.0),
        ("latency_budget", {"latency": 1}, {"max_seconds": 0}, False, 0.0),
        ("latency_budget", {"latency": 1, "first_output": 0.5}, {"max_seconds": 2, "first_output": 0.5}, True, 1.0),
        ("latency_budget", {"latency": 1, "first_output": 1}, {"max_seconds": 2, "first_output": 0.25}, False, 0.25),
        ("latency_budget", {"latency": 8, "first_output": 1}, {"max_seconds": 1, "first_output": 0.5}, False, 0.125),
        ("cost_budget", {"usage": USAGE}, {"max_cost": 0.2}, True, 1.0),
        ("cost_budget", {"usage": USAGE}, {"max_cost": 0.1}, False, 0.5),
        ("cost_budget", {"usage": USAGE}, {"max_cost": 1}, True, 1.0),
        ("cost_budget", {"usage": {"cost": 0}}, {"max_cost": 0}, True, 1.0),
        ("token_budget", {"usage": USAGE}, {"max_input": 100}, True, 1.0),
        ("token_budget", {"usage": USAGE}, {"max_input": 50}, False, 0.5),
        ("token_budget", {"usage": USAGE}, {"max_output": 25, "max_input": 1000}, False, 0.5),
        ("token_budget", {"usage": USAGE}, {"max_total": 150}, True, 1.0),
        ("token_budget", {"usage": USAGE}, {"max_total": 75, "max_input": 10, "max_output": 50}, False, 0.1),
        ("token_budget", {"usage": {}}, {"max_total": 0}, True, 1.0),
    ],
)
async def test_a_case_is_scored_against_its_budget(
    key: str, measured: dict[str, Any], parameters: dict[str, Any], passed: bool, score: float
) -> None:
    one = await score_case(key, answer("x", **measured), **parameters)

    assert (one.status, one.passed, one.score) == ("scored", passed, pytest.approx(score))


async def test_budgets_apply_to_the_sum_of_all_turns() -> None:
    turns = [{"user": "a", "output": "b", "latency": 2, "usage": USAGE}] * 2

    assert await verdict("latency_budget", answer(turns=turns), max_seconds=3) is False
    assert await verdict("cost_budget", answer(turns=turns), max_cost=0.3) is False
    assert await verdict("token_budget", answer(turns=turns), max_output=100) is True


async def test_a_case_without_usage_or_first_output_is_not_scored() -> None:
    assert await verdict("cost_budget", answer("x"), max_cost=1) == "no_usage"
    assert await verdict("cost_budget", answer("x", usage={"input_tokens": 5}), max_cost=1) == "no_usage"
    assert await verdict("token_budget", answer("x"), max_total=1) == "no_usage"
    assert await verdict("latency_budget", answer("x"), max_seconds=1, first_output=1) == "no_first_output"


@pytest.mark.parametrize(
    ("key", "parameters", "pointer"),
    [
        ("latency_budget", {}, "/parameters/max_seconds"),
        ("latency_budget", {"max_seconds": -1}, "/parameters/max_seconds"),
        ("cost_budget", {}, "/parameters/max_cost"),
        ("cost_budget", {"max_cost": "1"}, "/parameters/max_cost"),
        ("token_budget", {}, "/parameters"),
        ("token_budget", {"max_total": 0.5}, "/parameters/max_total"),
    ],
)
def test_an_invalid_budget_is_rejected(key: str, parameters: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        built_in()[key].bind(parameters, OfflineContext())

    assert refused.value.pointer == pointer


async def test_the_reason_names_the_exceeded_budgets() -> None:
    one = await score_case("token_budget", answer("x", usage=USAGE), max_input=10, max_output=60)

    assert (one.reason, one.details) == (
        "over budget: input_tokens 100 (budget: 10)",
        {"input_tokens": 100, "output_tokens": 50},
    )
