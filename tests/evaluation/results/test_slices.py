"""Result slices by the values of a column."""

from msgspec import UNSET

from palaver.evaluation.results.summary import slice_rows


def list_slices(values: list[object]) -> list[tuple[object, list[int]]]:
    return [(cut.value, cut.rows.tolist()) for cut in slice_rows(values)]


def test_slices_are_ordered_by_frequency() -> None:
    assert list_slices(["maths", "art", None, "maths", UNSET, "art", "maths"]) == [
        ("maths", [0, 3, 6]),
        ("art", [1, 5]),
        (None, [2]),
    ]


def test_there_are_at_most_twenty_slices() -> None:
    values: list[object] = [*(f"v{number}" for number in range(30)), "v25"]

    assert [value for value, _ in list_slices(values)] == ["v25", *(f"v{number}" for number in range(19))]


def test_true_differs_from_one_and_objects_are_equal_in_any_key_order() -> None:
    assert list_slices([True, 1, {"a": 1, "b": [2]}, {"b": [2], "a": 1}, True]) == [
        (True, [0, 4]),
        ('{"a":1,"b":[2]}', [2, 3]),
        (1, [1]),
    ]


def test_numbers_are_sliced_at_their_quartiles() -> None:
    assert list_slices([8, 1, 2, 3, None, 4, 5.5, UNSET, 6, 7]) == [
        ("1 to 2", [1, 2]),
        ("3 to 4", [3, 5]),
        ("5.5 to 6", [6, 8]),
        ("7 to 8", [0, 9]),
        (None, [4]),
    ]


def test_equal_numbers_are_in_the_same_slice() -> None:
    assert list_slices([1, 1, 1, 1, 1, 1, 2, 3, 4, 5]) == [("1", [0, 1, 2, 3, 4, 5]), ("2", [6]), ("3 to 5", [7, 8, 9])]


def test_few_numbers_are_sliced_by_value() -> None:
    assert list_slices([1, 2, 1]) == [(1, [0, 2]), (2, [1])]


def test_a_long_slice_value_is_truncated() -> None:
    ((value, rows),) = list_slices(["x" * 500, "x" * 500])

    assert (value, rows) == ("x" * 199 + "…", [0, 1])


def test_a_column_without_values_has_no_slices() -> None:
    assert list_slices([UNSET, UNSET]) == []
