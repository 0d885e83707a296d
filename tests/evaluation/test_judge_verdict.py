"""Several verdicts combined into one score."""

from typing import Any

import pytest

from palaver.core.messages import Usage
from palaver.evaluation.context import record_spending, track_spending
from palaver.evaluation.judge_verdict import combine_verdicts
from palaver.evaluation.score import Score


@pytest.mark.parametrize(
    ("verdicts", "scale", "expected"),
    [
        ([{"passed": True}], None, Score(passed=True)),
        ([{"passed": True}, {"passed": False}], None, (False, None)),
        ([{"passed": True, "score": 5}, {"passed": True, "score": 1}], (1, 5), (True, 0.5)),
        ([{"score": 9}], (0, 5), (None, 1.0)),
        ([{"score": -1}], (0, 5), (None, 0.0)),
        ([{"score": "high"}], None, (None, None)),
        ([{"label": "kind", "score": 1}], None, Score(score=1.0, label="kind")),
        ([{"tone": 1}, {"tone": 2}], None, {"tone": 1.5}),
        ([{"who": "a"}, {"who": "b"}, {"who": "b"}], None, {"who": "b"}),
        ([3, 4], (1, 5), 0.625),
        ([True, False, True], None, True),
        (["a", "b", "b"], None, "b"),
        ([{"passed": True}, "text"], None, {"passed": True}),
    ],
)
def test_verdicts_are_combined_field_by_field(verdicts: list[Any], scale: Any, expected: Any) -> None:
    result = combine_verdicts(verdicts, scale)

    assert ((result.passed, result.score) if isinstance(expected, tuple) else result) == expected


def test_nested_spending_is_also_counted_by_the_outer_tracker() -> None:
    with track_spending() as outer:
        record_spending(Usage(1, 1), None)
        with track_spending() as inner:
            record_spending(Usage(2, 3), 0.5)
        record_spending(None, 0.25)
    record_spending(Usage(9, 9), 9)  # No tracker is active.

    assert (inner.usage, inner.cost) == (Usage(2, 3), 0.5)
    assert (outer.usage, outer.cost) == (Usage(3, 4), 0.75)
