"""Search and filters of test set rows."""

import pytest

from palaver.core import json
from palaver.core.json import json_equal
from palaver.errors import InvalidValue
from palaver.testsets.row_pages import RowFilter, parse_row_filter


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        (None, {}),
        ("", {}),
        ("topic=maths", {"topic": "maths"}),
        ("n=1", {"n": 1}),
        ("n=", {"n": ""}),
        ("sum=1=1", {"sum": "1=1"}),
        ("is_new=true", {"is_new": True}),
        ('{"topic": "maths", "n": [1, null]}', {"topic": "maths", "n": [1, None]}),
    ],
)
def test_a_filter_is_column_equals_value_or_a_json_object(text: str | None, cells: dict[str, object]) -> None:
    assert parse_row_filter(text) == cells


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("maths", 'Invalid filter: use column=value or {"column": value}.'),
        ("=maths", 'Invalid filter: use column=value or {"column": value}.'),
        ("{maths", "Invalid filter: a filter that starts with { must be a JSON object of columns and values."),
    ],
)
def test_malformed_filters_are_rejected(text: str, message: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse_row_filter(text)

    assert (caught.value.message, caught.value.pointer) == (message, "?filter")


ROWS = {
    "plain": {"q": "Where is Oslo?", "n": 1},
    "deep": {"q": [{"city": "OSLO", "n": 1.0}], "n": None},
    "name": {"q": {"oslo": True}},
    "far": {"q": "Straße", "n": True},
}


def matching_rows(**expected: object) -> list[str]:
    row_filter = RowFilter(**expected)  # type: ignore[arg-type]
    return [name for name, data in ROWS.items() if row_filter.matches(json.encode(data))]


@pytest.mark.parametrize(
    ("search", "names"),
    [
        (None, ["plain", "deep", "name", "far"]),
        ("", ["plain", "deep", "name", "far"]),
        ("oslo", ["plain", "deep", "name"]),
        ("OSLO?", ["plain"]),
        ("strasse", ["far"]),
        ("STRASSE", ["far"]),
        ("Straße", ["far"]),
        ("true", ["name", "far"]),
        ("null", ["deep"]),
        ("q", []),
        ('":', []),
    ],
)
def test_search_matches_all_cell_values_ignoring_case(search: str | None, names: list[str]) -> None:
    assert matching_rows(search=search) == names


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        ({"n": 1}, ["plain"]),
        ({"n": 1.0}, ["plain"]),
        ({"n": True}, ["far"]),
        ({"n": None}, ["deep"]),
        ({"q": [{"n": 1, "city": "OSLO"}]}, ["deep"]),
        ({"q": [{"n": 1}]}, []),
        ({"q": []}, []),
        ({"q": {"oslo": 1}}, []),
        ({"n": 1, "q": "Where is Oslo?"}, ["plain"]),
        ({"n": 1, "q": "Where?"}, []),
    ],
)
def test_a_filter_finds_rows_whose_cells_are_equal(cells: dict[str, object], names: list[str]) -> None:
    assert matching_rows(cells=cells) == names


def test_search_and_filter_must_both_match() -> None:
    assert matching_rows(search="oslo", cells={"n": 1}) == ["plain"]
    assert matching_rows(search="bergen", cells={"n": 1}) == []


def test_true_is_not_one() -> None:
    assert [json_equal(1, True), json_equal(True, 1), json_equal(False, 0), json_equal(True, True)] == [
        False,
        False,
        False,
        True,
    ]
