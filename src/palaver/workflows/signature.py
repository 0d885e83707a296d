"""Signatures: which parameter of a function gets what, and what a caller has to send for it."""

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

from palaver.core.extraction import Dialect
from palaver.core.messages import Message
from palaver.errors import (
    CallFault,
    ChatWithoutMessages,
    InvalidInput,
    InvalidParameter,
    MissingInput,
    UnknownInput,
    UnknownParameter,
)
from palaver.workflows.context import Context
from palaver.workflows.models import is_model, model_fields
from palaver.workflows.shapes import Misfits, Shape, escaped, shape_of

Use = Literal["messages", "context", "config", "parameter", "input"]
_NOTHING: Any = inspect.Parameter.empty


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """Marks an argument as a setting that a variant may change: `Annotated[float, Parameter(description="…")] = 0.2`."""

    description: str = ""


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One parameter of the author's function."""

    name: str
    use: Use
    annotation: Any
    shape: Shape
    default: Any = _NOTHING
    description: str = ""
    positional: bool = False

    @property
    def required(self) -> bool:
        """Has it no Python default?"""
        return self.default is _NOTHING


@dataclass(frozen=True, kw_only=True)
class Signature:
    """All of them, and what the function gives back."""

    arguments: tuple[Argument, ...]
    open: bool
    """Does it take inputs that it does not name (`**kwargs`)?"""
    returns: Shape
    dialect: Dialect = "chat-completions"
    """In which dialect the function wants its history."""
    fields: Mapping[str, Argument] = field(default_factory=dict[str, Argument])
    """The parameters: the config model's fields, and the marked arguments."""

    def of(self, use: Use) -> list[Argument]:
        """The arguments of that use."""
        return [argument for argument in self.arguments if argument.use == use]

    def bind_inputs(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[CallFault]]:
        """The inputs as Python values, and everything that is wrong with them."""
        values: dict[str, Any] = {}
        faults: list[CallFault] = []
        inputs = {argument.name: argument for argument in self.of("input")}
        for name, argument in inputs.items():
            if name in given:
                _read(argument, given[name], "/inputs", InvalidInput, values, faults)
            elif argument.required:
                faults.append(MissingInput(f"Input {name!r} is required.", pointer=f"/inputs/{escaped(name)}"))
        for name in given:
            if name in inputs:
                continue
            if self.open:
                values[name] = given[name]
            else:
                known = ", ".join(inputs) or "none"
                faults.append(
                    UnknownInput(f"There is no input {name!r}. Known: {known}.", pointer=f"/inputs/{escaped(name)}")
                )
        return values, faults

    def bind_parameters(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[CallFault]]:
        """The parameters as Python values, the config model built, and everything that is wrong with them."""
        values: dict[str, Any] = {}
        faults: list[CallFault] = []
        for name, value in given.items():
            argument = self.fields.get(name)
            if argument is None:
                known = ", ".join(self.fields) or "none"
                fault = f"There is no parameter {name!r}. Known: {known}."
                faults.append(UnknownParameter(fault, pointer=f"/parameters/{escaped(name)}"))
            else:
                _read(argument, value, "/parameters", InvalidParameter, values, faults)
        marked = {a.name: values[a.name] for a in self.of("parameter") if a.name in values}
        for config in self.of("config"):
            raw = {name: value for name, value in given.items() if name in self.fields and name not in marked}
            if raw or config.required:
                whole: dict[str, Any] = {}
                _read(config, raw, "", InvalidParameter, whole, faults if not faults else [])
                marked |= whole
        return marked, faults


def read_signature(function: Callable[..., Any], *, is_chat: bool, name: str) -> Signature:
    """What the function's parameters are for; ChatWithoutMessages where a chat has no place for the history."""
    hints = _annotations(function)
    notes = _docstring_notes(function)
    parameters = list(inspect.signature(function).parameters.values())
    history = _history_name(parameters, hints) if is_chat else None
    if is_chat and history is None:
        raise ChatWithoutMessages(
            f"{name} is declared as a chat but takes no history: give it a parameter named messages, "
            "or declare it with @workflow."
        )
    arguments = tuple(
        _argument(parameter, hints.get(parameter.name, _NOTHING), history, notes)
        for parameter in parameters
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    )
    return Signature(
        arguments=arguments,
        open=any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters),
        returns=shape_of(_given_back(hints.get("return", _NOTHING))),
        dialect="palaver" if history and _is_our_messages(hints.get(history)) else "chat-completions",
        fields=_settings(arguments),
    )


def takes_messages(function: Callable[..., Any]) -> bool:
    """Would it have a place for a history, had it been declared as a chat?"""
    return _history_name(list(inspect.signature(function).parameters.values()), _annotations(function)) is not None


def _read(
    argument: Argument, value: Any, base: str, fault: type[CallFault], values: dict[str, Any], faults: list[CallFault]
) -> None:
    try:
        values[argument.name] = argument.shape.read(value)
    except Misfits as misfits:
        where = f"{base}/{escaped(argument.name)}" if base else "/parameters"
        kind = "Input" if fault is InvalidInput else "Parameter"
        faults += [
            fault(f"{kind} {argument.name!r} does not fit: {misfit.why}.".replace("..", "."), pointer=where + misfit.pointer)
            for misfit in misfits.found
        ]


# What a parameter is for


def _argument(parameter: inspect.Parameter, annotation: Any, history: str | None, notes: Mapping[str, str]) -> Argument:
    marker = next((note for note in _metadata(annotation) if isinstance(note, Parameter)), None)
    use: Use = "input"
    if parameter.name == history:
        use = "messages"
    elif parameter.name == "ctx" or annotation is Context:
        use = "context"
    elif marker is not None:
        use = "parameter"
    elif parameter.name == "config" and is_model(annotation):
        use = "config"
    said = [note for note in _metadata(annotation) if isinstance(note, str)]
    description = (marker.description if marker else "") or (said[0] if said else "") or notes.get(parameter.name, "")
    unread = use in ("messages", "context") or annotation is _NOTHING
    return Argument(
        name=parameter.name,
        use=use,
        annotation=annotation,
        shape=shape_of(Any if unread else annotation),
        default=parameter.default,
        description=description,
        positional=parameter.kind is parameter.POSITIONAL_ONLY,
    )


def _history_name(parameters: Sequence[inspect.Parameter], hints: Mapping[str, Any]) -> str | None:
    names = [parameter.name for parameter in parameters]
    if "messages" in names:
        return "messages"
    listed = [name for name in names if _is_our_messages(hints.get(name))]
    return listed[0] if len(listed) == 1 else None


def _is_our_messages(annotation: Any) -> bool:
    annotation = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    origin = get_origin(annotation)
    sequence = isinstance(origin, type) and issubclass(origin, Sequence | Iterable)
    return sequence and Message in get_args(annotation)


def _metadata(annotation: Any) -> tuple[Any, ...]:
    return getattr(annotation, "__metadata__", ()) if get_origin(annotation) is Annotated else ()


def _settings(arguments: Iterable[Argument]) -> dict[str, Argument]:
    """The parameters of the workflow: marked arguments, and the fields of a config model."""
    settings = {argument.name: argument for argument in arguments if argument.use == "parameter"}
    for config in arguments:
        if config.use == "config":
            for name, (annotation, default) in model_fields(config.annotation, config.default).items():
                shape = shape_of(annotation)
                settings[name] = Argument(name=name, use="parameter", annotation=annotation, shape=shape, default=default)
    return settings


# Annotations and docstrings


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    """Each annotation by itself: one that cannot be evaluated (imported for type checkers only) says nothing."""
    target: Any = inspect.unwrap(function)
    if not inspect.isroutine(target) and not isinstance(target, type):
        target = getattr(type(target), "__call__", target)
    raw: Mapping[str, Any] = getattr(target, "__annotations__", {})
    space: dict[str, Any] = getattr(target, "__globals__", {})
    hints: dict[str, Any] = {}
    for name, annotation in raw.items():
        shim = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            hints[name] = typing.get_type_hints(shim, globalns=space, include_extras=True)[name]
        except Exception:  # noqa: BLE001, S112 - evaluating a stranger's annotation may raise anything
            continue
    return hints


def _given_back(annotation: Any) -> Any:
    """What one value of the return annotation is: of a generator or iterator, what it yields."""
    if annotation is _NOTHING:
        return Any
    origin = get_origin(annotation)
    if isinstance(origin, type) and issubclass(origin, Iterable | typing.AsyncIterable):
        name = origin.__name__
        if name.endswith(("Generator", "Iterator", "Iterable")) and get_args(annotation):
            return get_args(annotation)[0]
    return type(None) if annotation is None else annotation


_NOTE = re.compile(r"^\s+(\w+)(?: \([^)]*\))?: (.+)$")


def _docstring_notes(function: Callable[..., Any]) -> dict[str, str]:
    """Lines `name: what it is` below `Args:`."""
    _, found, section = (inspect.getdoc(function) or "").partition("Args:\n")
    notes: dict[str, str] = {}
    for line in section.splitlines() if found else ():
        if line.strip() and not line.startswith(" "):
            break
        if note := _NOTE.match(line):
            notes[note[1]] = note[2].strip()
    return notes
