"""Bind a call's inputs and parameters to the function's arguments. Nothing is coerced, and every fault is reported."""

from collections.abc import Mapping
from typing import Any

from palaver.core import json
from palaver.errors import CallFault, InvalidInput, InvalidParameter, MissingInput, UnknownInput, UnknownParameter
from palaver.workflows.annotations import SchemaError, SchemaErrors, pydantic_errors
from palaver.workflows.signature import Argument, Signature

_Values = dict[str, Any]


def bind(
    signature: Signature, inputs: Mapping[str, Any], parameters: Mapping[str, Any]
) -> tuple[_Values, list[CallFault]]:
    """Return the arguments of a call and all its faults. Python's defaults are left to Python."""
    values, input_faults = _bind_inputs(signature, inputs)
    settings, parameter_faults = _bind_parameters(signature, parameters)
    return values | settings, input_faults + parameter_faults


def _bind_inputs(signature: Signature, call_inputs: Mapping[str, Any]) -> tuple[_Values, list[CallFault]]:
    values: _Values = {}
    faults: list[CallFault] = []
    inputs = signature.inputs
    for name, argument in inputs.items():
        if name in call_inputs:
            _read_argument(argument, call_inputs[name], values, faults)
        elif argument.required:
            faults.append(MissingInput(f"Input {name!r} is required.", pointer=f"/inputs/{json.escape_pointer(name)}"))
    # `**kwargs` only takes unused names, so an input cannot become the context or an unchecked parameter.
    for name, value in call_inputs.items():
        if name in inputs:
            continue
        if signature.accepts_extra and name not in signature.names:
            values[name] = value
        else:
            fault = _unknown_name_text("input", name, inputs)
            faults.append(UnknownInput(fault, pointer=f"/inputs/{json.escape_pointer(name)}"))
    return values, faults


def _bind_parameters(signature: Signature, parameters: Mapping[str, Any]) -> tuple[_Values, list[CallFault]]:
    if not signature.settings and not parameters:
        return {}, []
    values: _Values = {}
    faults: list[CallFault] = []
    for name, value in parameters.items():
        argument = signature.settings.get(name)
        if argument is None:
            fault = _unknown_name_text("parameter", name, signature.settings)
            faults.append(UnknownParameter(fault, pointer=f"/parameters/{json.escape_pointer(name)}"))
        else:
            _read_argument(argument, value, values, faults)
    marked_arguments = signature.by_use("parameter")
    faults += [
        _missing_parameter(argument.name)
        for argument in marked_arguments
        if argument.required and argument.name not in parameters
    ]
    settings = {argument.name: values.pop(argument.name) for argument in marked_arguments if argument.name in values}
    for config in signature.by_use("config"):
        _build_config(config, parameters, values, settings, faults)
    return settings, faults


def _build_config(
    config: Argument, parameters: Mapping[str, Any], values: _Values, settings: _Values, faults: list[CallFault]
) -> None:
    assert config.model is not None
    fields = config.model.fields
    if not config.required and not any(field.name in parameters for field in fields):
        return  # Its Python default.
    faults += [_missing_parameter(field.name) for field in fields if field.required and field.name not in parameters]
    if faults:
        return
    try:
        settings[config.name] = config.model.build(values)
    except (ValueError, TypeError, AssertionError) as error:  # Pydantic's ValidationError is a ValueError.
        errors = pydantic_errors(error, parameters) if hasattr(error, "errors") else [SchemaError("", str(error))]
        for detail in errors:
            why = f"Invalid parameters: {_sentence(detail.reason)}"
            faults.append(InvalidParameter(why, pointer=f"/parameters{detail.pointer}"))


def _read_argument(argument: Argument, value: Any, values: _Values, faults: list[CallFault]) -> None:
    try:
        values[argument.name] = argument.schema.read(value)
    except SchemaErrors as invalid:
        kind, fault = ("input", InvalidInput) if argument.use == "input" else ("parameter", InvalidParameter)
        for error in invalid.errors:
            place = f"{kind.capitalize()} {argument.name!r}" + (f" at {error.pointer}" if error.pointer else "")
            why = json.violation_text(place, error.reason)
            faults.append(fault(why, pointer=f"/{kind}s/{json.escape_pointer(argument.name)}{error.pointer}"))


def _missing_parameter(name: str) -> CallFault:
    return InvalidParameter(f"Parameter {name!r} is required.", pointer=f"/parameters/{json.escape_pointer(name)}")


def _unknown_name_text(kind: str, name: str, known: Mapping[str, Argument]) -> str:
    return f"Unknown {kind} {name[:80]!r}. Available: {', '.join(known) or 'none'}."


def _sentence(why: str) -> str:
    return why if why.endswith((".", "!", "?")) else f"{why}."
