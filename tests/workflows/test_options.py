"""Options of a workflow declaration."""

from typing import Any

import pytest

from palaver.errors import InvalidOption
from palaver.workflows.workflow import Limits, Options, read_options


def test_without_options_the_defaults_apply() -> None:
    assert read_options("w") == Options(on_disconnect=None, system="keep", limits=Limits())


@pytest.mark.parametrize(
    "limits",
    [{"seconds": 2, "events": 3}, Limits(seconds=2, events=3)],
    ids=["dict", "Limits"],
)
def test_options_are_read(limits: Any) -> None:
    assert read_options("w", on_disconnect="finish", system="drop", limits=limits) == Options(
        on_disconnect="finish", system="drop", limits=Limits(seconds=2.0, events=3)
    )


INVALID_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"on_disconnect": "stay"}, "w: on_disconnect must be one of None, 'cancel', 'finish', not 'stay'."),
    ({"on_disconnect": ["cancel"]}, "w: on_disconnect must be one of None, 'cancel', 'finish', not ['cancel']."),
    ({"system": None}, "w: system must be one of 'keep', 'drop', 'reject', not None."),
    (
        {"limits": {"second": 1}},
        "w: invalid limits (supported: seconds, events, bytes): Object contains unknown field `second`.",
    ),
    (
        {"limits": {"seconds": "1"}},
        "w: invalid limits (supported: seconds, events, bytes): Expected `float | null`, got `str` - at `$.seconds`.",
    ),
    (
        {"limits": {"events": 0}},
        "w: invalid limits (supported: seconds, events, bytes): Expected `int` >= 1 - at `$.events`.",
    ),
    (
        {"limits": Limits(seconds=-1)},
        "w: invalid limits (supported: seconds, events, bytes): Expected `float` > 0.0 - at `$.seconds`.",
    ),
    ({"limits": 5}, "w: invalid limits (supported: seconds, events, bytes): Expected `object`, got `int`."),
]


@pytest.mark.parametrize(("options", "message"), INVALID_OPTIONS, ids=[why for _, why in INVALID_OPTIONS])
def test_an_invalid_option_is_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        read_options("w", **options)

    assert (refused.value.code, refused.value.message) == ("invalid_option", message)
