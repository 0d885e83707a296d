"""The values that an evaluator may return, and their stored form."""

from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import pytest

from palaver.core.messages import Usage
from palaver.evaluation.score import Score, ScoreRecord, error_score, read_result, skipped_score


def score_record(name: str = "own", **fields: Any) -> ScoreRecord:
    """A stored score record with only these fields set."""
    defaults: dict[str, Any] = {"status": "scored", "passed": None, "score": None, "label": None, "reason": ""}
    return ScoreRecord(evaluator=name, **(defaults | {"details": {}, "seconds": 0.0} | fields))


@pytest.mark.parametrize(
    ("returned", "record"),
    [
        (True, score_record(passed=True, score=1.0)),
        (False, score_record(passed=False, score=0.0)),
        (np.bool_(True), score_record(passed=True, score=1.0)),
        (1, score_record(score=1.0)),
        (0.25, score_record(score=0.25)),
        (-3, score_record(score=-3.0)),
        (Fraction(1, 4), score_record(score=0.25)),
        (Decimal("0.25"), score_record(score=0.25)),
        (np.float32(0.25), score_record(score=0.25)),
        (np.int64(2), score_record(score=2.0)),
        ("good", score_record(label="good")),
        ("", score_record(label="")),
        (Score(), score_record()),
        (Score(passed=True), score_record(passed=True, score=1.0)),
        (Score(passed=False, score=0.9), score_record(passed=False, score=0.9)),
        (
            Score(score=0.5, label="half", reason="so", details={"a": (1,)}),
            score_record(score=0.5, label="half", reason="so", details={"a": [1]}),
        ),
        (
            Score(score=1, usage=Usage(1, 2), cost=0.1),
            score_record(score=1.0, usage=Usage(1, 2), cost=0.1),
        ),
        (Score(name="tone", score=1), score_record("own.tone", score=1.0)),
        ({"score": 0.5, "reason": "so"}, score_record(score=0.5, reason="so")),
        ({"passed": None, "score": 1, "label": None, "reason": None, "details": None}, score_record(score=1.0)),
        ({"passed": True, "details": {"x": 1}}, score_record(passed=True, score=1.0, details={"x": 1})),
        (None, skipped_score("own", "nothing: the evaluator returned None")),
        ([], skipped_score("own", "nothing: the evaluator returned an empty list")),
    ],
    ids=repr,
)
def test_a_single_returned_value_becomes_one_score_record(returned: Any, record: ScoreRecord) -> None:
    assert read_result(returned, "own") == [record]


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        (float("nan"), "the score must be finite, not nan"),
        (float("inf"), "the score must be finite, not inf"),
        (np.float64("-inf"), "the score must be finite, not -inf"),
        (10**400, "the score is too large"),
        (Decimal("NaN"), "the score must be finite, not nan"),
        (Score(score=float("nan")), "the score must be finite, not nan"),
        ({"score": float("inf")}, "the score must be finite, not inf"),
        ({"score": "high"}, "score must be a number, not str"),
        ({"score": True}, "score must be a number, not bool"),
        ({"passed": 1}, "passed must be a boolean, not int"),
        ({"passed": "yes"}, "passed must be a boolean, not str"),
        ({"label": 5}, "label and reason must be strings"),
        ({"score": 1, "reason": ["x"]}, "label and reason must be strings"),
        ({"score": 1, "details": [1]}, "details must be a mapping, not list"),
        (b"bytes", "bytes is not a valid score. Return a bool, a number, a label, a Score or a mapping"),
        (object(), "object is not a valid score. Return a bool, a number, a label, a Score or a mapping"),
        (1j, "complex is not a valid score. Return a bool, a number, a label, a Score or a mapping"),
        ([Score(score=1)], "every item of a list must be a Score with a name"),
        ([1, 2], "every item of a list must be a Score with a name"),
        ([Score(name="a"), Score(name="a")], "the scores in a list must have different names"),
        ([{"name": "a", "points": 1}], "unknown score fields: points"),
    ],
    ids=repr,
)
def test_an_invalid_return_value_becomes_an_error_record(returned: Any, why: str) -> None:
    assert read_result(returned, "own") == [error_score("own", f"bad_return: {why}")]


def test_details_that_cannot_be_encoded_as_json_are_an_error() -> None:
    (one,) = read_result(Score(score=1, details={"x": object()}), "own")

    assert (one.status, one.reason.partition(" that")[0]) == (
        "error",
        "bad_return: invalid details: a value of type dict",
    )


@pytest.mark.parametrize(
    ("returned", "passed"),
    [
        (0.7, True),
        (0.69, False),
        (1, True),
        (True, True),
        (False, False),
        (Score(score=0.7), True),
        (Score(score=0.1, passed=True), True),
        (Score(score=0.9, passed=False), False),
        ({"score": 0.1}, False),
        ("good", None),
        (Score(label="good"), None),
    ],
    ids=repr,
)
def test_a_threshold_decides_passed_unless_the_score_sets_it(returned: Any, passed: bool | None) -> None:
    assert [one.passed for one in read_result(returned, "own", 0.7)] == [passed]


def test_a_list_of_named_scores_becomes_one_record_each() -> None:
    assert read_result([Score(name="tone", score=0.9), {"name": "length", "passed": False}], "own", 0.5) == [
        score_record("own.tone", passed=True, score=0.9),
        score_record("own.length", passed=False, score=0.0),
    ]


def test_any_other_mapping_becomes_details_and_one_score_per_number_or_boolean() -> None:
    returned = {"polite": True, "words": 12, "score": 0.5, "tone": "warm", "none": None, "bad": float("nan")}

    assert read_result(MappingProxyType(returned), "own", 0.7) == [
        score_record(details={"polite": True, "words": 12, "score": 0.5, "tone": "warm", "none": None, "bad": None}),
        score_record("own.polite", passed=True, score=1.0),
        score_record("own.words", score=12.0),
        score_record("own.score", score=0.5),
        error_score("own.bad", "bad_return: the score must be finite, not nan"),
    ]
    assert read_result({}, "own") == [score_record()]
    assert read_result({"name": "only"}, "own") == [score_record(details={"name": "only"})]


def test_an_encoded_score_record_has_usage_and_cost_only_if_known() -> None:
    assert msgspec.to_builtins(score_record(passed=True, score=1.0)) == {
        "evaluator": "own",
        "status": "scored",
        "passed": True,
        "score": 1.0,
        "label": None,
        "reason": "",
        "details": {},
        "seconds": 0.0,
    }
    assert msgspec.to_builtins(score_record(usage=Usage(1, 2), cost=0.5))["usage"] == {
        "input_tokens": 1,
        "output_tokens": 2,
    }


def test_a_lone_surrogate_survives_encoding_and_decoding() -> None:
    (one,) = read_result(Score(label="a\ud800", reason="b\ud800", details={"x": "\ud800"}), "own")

    assert msgspec.json.decode(msgspec.json.encode(one), type=ScoreRecord) == one
