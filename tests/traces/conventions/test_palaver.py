"""The attributes of Palaver's own spans."""

from typing import Any

import pytest
from hypothesis import given

from palaver.traces.conventions import palaver
from tests.traces.conventions.convention_cases import (
    UNRELATED_ATTRIBUTES,
    attributes_of,
    is_valid,
    raw_span,
    read_fields,
)


def test_values_user_cost_and_finish_of_a_run_are_read() -> None:
    assert read_fields(
        palaver,
        {
            "palaver.run.id": "run_1",
            "palaver.project": "other",
            "palaver.key": "k1",
            "palaver.inputs": '{"city":"Oslo"}',
            "palaver.value": '"rain"',
            "palaver.parameters": '{"temperature":0.2}',
            "palaver.cost": 0.0002,
            "palaver.finish": "tool-calls",
            "palaver.user": "u-1",
            **UNRELATED_ATTRIBUTES,
        },
    ) == {
        "inputs": {"city": "Oslo"},
        "outputs": "rain",
        "parameters": {"temperature": 0.2},
        "cost": 0.0002,
        "finish": "tool-calls",
        "user": "u-1",
    }


@pytest.mark.parametrize(
    ("attributes", "fields"),
    [
        ({"palaver.finish": "cancelled"}, {"finish": "cancelled"}),
        ({"palaver.finish": "interrupted"}, {"finish": "interrupted"}),
        ({"palaver.value": "null"}, {"outputs": None}),
        ({"palaver.parameters": "[1]"}, {}),
        ({"palaver.cost": -1}, {"notes": ("number:palaver.cost",)}),
        ({}, {}),
    ],
    ids=repr,
)
def test_each_attribute_sets_its_field(attributes: dict[str, Any], fields: dict[str, Any]) -> None:
    assert read_fields(palaver, attributes) == fields


@given(attributes_of([f"palaver.{name}" for name in "inputs value parameters cost finish user run.id".split()]))
def test_any_attribute_values_give_valid_fields(attributes: dict[str, Any]) -> None:
    assert is_valid(palaver.read_fields(raw_span(attributes)))
