"""Fitting: what a workflow says of parameters that were set for it beforehand, by a variant."""

from collections.abc import Mapping
from typing import Any

from palaver.core import jsons
from palaver.errors import CallFault
from palaver.workflows.binding import bind
from palaver.workflows.workflow import FunctionWorkflow, Workflow


def misfits(workflow: Workflow, parameters: Mapping[str, Any]) -> list[CallFault]:
    """Everything about these parameters that the workflow cannot take.

    One that is required and not among them is no fault: a call may still bring it. What a remote service takes, it
    knows best.
    """
    if not isinstance(workflow, FunctionWorkflow):
        return []
    _, faults = bind(workflow.signature, {}, parameters)
    given = tuple(f"/parameters/{jsons.escaped(name)}" for name in parameters)
    return [fault for fault in faults if _concerns(fault.pointer or "", given)]


def _concerns(pointer: str, given: tuple[str, ...]) -> bool:
    return pointer == "/parameters" or any(pointer == one or pointer.startswith(f"{one}/") for one in given)
