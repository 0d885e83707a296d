"""Size limits of test sets."""

from collections.abc import Callable

import pytest

from palaver.errors import TooLarge
from palaver.testsets.limits import TestsetLimits

LIMITS = TestsetLimits(rows=3, columns=2, row_bytes=10, file_bytes=100)


def test_sizes_at_the_limits_are_accepted() -> None:
    LIMITS.check_rows(3)
    LIMITS.check_columns(2)
    LIMITS.check_row(10, "line 1")
    LIMITS.check_file(100)


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: LIMITS.check_rows(4), "Too many rows (limit: 3)."),
        (lambda: LIMITS.check_columns(3), "Too many columns (limit: 2)."),
        (lambda: LIMITS.check_row(11, "line 7"), "line 7: the row has 11 bytes (limit: 10)."),
        (lambda: LIMITS.check_file(101), "The file exceeds the limit of 100 bytes."),
    ],
)
def test_sizes_above_a_limit_are_rejected(check: Callable[[], None], message: str) -> None:
    with pytest.raises(TooLarge) as caught:
        check()

    assert caught.value.message == message
