"""Errors of a workflow about the parameters that a variant sets."""

from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from palaver import Parameter, workflow
from palaver.workflows.workflow import find_parameter_faults


@dataclass
class Config:
    depth: int = 3
    width: float = 1.0


@workflow
def plain(
    text: str,
    style: Annotated[str, Parameter()],
    tone: Annotated[str, Parameter()] = "kind",
    config: Config = Config(),  # noqa: B008
) -> str:
    return text + style + tone + str(config)


@pytest.mark.parametrize(
    ("parameters", "expected_faults"),
    [
        ({}, []),  # A call may still set the style.
        ({"tone": "rude", "depth": 4}, []),
        ({"style": 5}, [("invalid_parameter", "/parameters/style")]),
        (
            {"style": None, "depth": "x", "text": "an input", "a/b": 1},
            [
                ("invalid_parameter", "/parameters/style"),
                ("invalid_parameter", "/parameters/depth"),
                ("unknown_parameter", "/parameters/text"),
                ("unknown_parameter", "/parameters/a~1b"),
            ],
        ),
    ],
)
def test_only_parameters_that_are_set_are_checked(
    parameters: dict[str, Any], expected_faults: list[tuple[str, str]]
) -> None:
    assert [(fault.code, fault.pointer) for fault in find_parameter_faults(plain, parameters)] == expected_faults


def test_many_missing_inputs_do_not_hide_a_parameter_fault() -> None:
    names = ", ".join(f"i{number}: str" for number in range(30))
    space: dict[str, Any] = {"Annotated": Annotated, "Parameter": Parameter}
    exec(f"def many({names}, tone: Annotated[str, Parameter()] = 'x'): ...", space)

    assert [fault.code for fault in find_parameter_faults(workflow(space["many"]), {"tone": 1})] == [
        "invalid_parameter"
    ]
