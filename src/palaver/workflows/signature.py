"""Read a function's signature: which parameter is the history, the context, an input or a setting."""

import functools
import inspect
import re
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec

from palaver.core.dialects.detection import WritableDialect
from palaver.core.messages import Message
from palaver.errors import ChatWithoutMessages, DeclarationError, NotAWorkflow
from palaver.workflows.adapters import FrameworkAdapter, adapter_for_class
from palaver.workflows.annotations import ValueSchema, hints_of, members_of, metadata_of, schema_for, strip_annotation
from palaver.workflows.config_models import NO_DEFAULT, ConfigModel, is_config_model
from palaver.workflows.context import Context


def underlying_callable(function: Any) -> Any:
    """Return what runs on a call: a partial's function, an object's `__call__`."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or isinstance(function, type):
        return function
    return type(function).__call__


def unwrap_definition(function: Any) -> Any:
    """Return the wrapped function that has the annotations, docstring and source."""
    while (inner := underlying_callable(inspect.unwrap(function))) is not function:
        function = inner
    return function


def source_location(function: Any) -> str:
    """Return file and line; the path is relative if the file is below the working directory, else only its name."""
    code = getattr(unwrap_definition(function), "__code__", None)
    if code is None:
        return type(function).__name__
    path, cwd = Path(code.co_filename), Path.cwd()
    return f"{path.relative_to(cwd) if path.is_relative_to(cwd) else path.name}:{code.co_firstlineno}"


def callable_name(function: Any) -> str:
    """Return the function's name, or the class name of a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__)


Use = Literal["messages", "context", "config", "parameter", "input"]


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """Marks an argument as a parameter: a setting that variants change, not an input of each call.

    Example:
        from typing import Annotated

        from palaver import Parameter, workflow


        @workflow
        def repeat(text: str, times: Annotated[int, Parameter(description="Number of repetitions")] = 2) -> str:
            return " ".join([text] * times)
    """

    description: str = ""
    """What the parameter does, for the JSON Schema and the web interface."""


_PALAVER_TYPES = {"Context": Context, "Message": Message, "Parameter": Parameter}
"""Names that authors may import under TYPE_CHECKING only."""


@dataclass(frozen=True, kw_only=True)
class Argument:
    """A parameter of the author's function, or a field of its config model."""

    name: str
    use: Use
    schema: ValueSchema
    required: bool
    default: Any = NO_DEFAULT
    description: str = ""
    positional: bool = False
    model: ConfigModel | None = None
    """Only for the config argument."""


@dataclass(frozen=True, kw_only=True)
class Signature:
    """The arguments and return type of a function."""

    arguments: tuple[Argument, ...]
    accepts_extra: bool
    """Whether it accepts undeclared inputs (`**kwargs`)."""
    returns: ValueSchema
    dialect: WritableDialect
    """The dialect in which the function receives its history."""
    framework: FrameworkAdapter | None = None
    """The framework whose message objects it receives instead."""
    settings: Mapping[str, Argument]
    """The workflow's parameters by name: the marked arguments, and the config model's fields."""

    @cached_property
    def inputs(self) -> Mapping[str, Argument]:
        """The workflow's inputs by name."""
        return {argument.name: argument for argument in self.by_use("input")}

    @cached_property
    def requires_arguments(self) -> bool:
        """Whether any argument besides history and context is required."""
        return any(argument.required and argument.use not in ("messages", "context") for argument in self.arguments)

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(argument.name for argument in self.arguments)

    @cached_property
    def _uses(self) -> dict[str, list[Argument]]:
        return {}

    def by_use(self, use: Use) -> list[Argument]:
        """Return the arguments of a use; cached, as it runs for every call."""
        arguments = self._uses.get(use)
        if arguments is None:
            arguments = self._uses[use] = [argument for argument in self.arguments if argument.use == use]
        return arguments


def read_signature(function: Callable[..., Any], *, is_chat: bool, name: str) -> Signature:
    """Read the signature. Raises ChatWithoutMessages if a chat has no parameter for the history."""
    parameters, hints = _parameters(function), _hints(function)
    descriptions = _docstring_descriptions(function)
    history = _history_name(parameters, hints) if is_chat else None
    if is_chat and history is None:
        raise ChatWithoutMessages(
            f"{name} is declared as a chat but has no parameter for the message history. "
            "Add a parameter named messages, or use @workflow."
        )
    arguments = tuple(
        _argument(parameter, hints.get(parameter.name, Any), history, descriptions)
        for parameter in parameters
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    )
    return Signature(
        arguments=arguments,
        accepts_extra=any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters),
        returns=schema_for(_output_annotation(hints.get("return", Any))),
        dialect="palaver" if history and _accepts_palaver_messages(hints.get(history)) else "chat-completions",
        framework=_framework_of_messages(hints.get(history)) if history else None,
        settings=_settings(arguments, name),
    )


def takes_messages(function: Callable[..., Any]) -> bool:
    """Whether the function has a parameter that would receive the history if it were declared as a chat."""
    return _history_name(_parameters(function), _hints(function)) is not None


# Parameters


def _argument(parameter: inspect.Parameter, annotation: Any, history: str | None, docs: Mapping[str, str]) -> Argument:
    kind = strip_annotation(annotation)
    use: Use = "input"
    if parameter.name == history:
        use = "messages"
    elif parameter.name == "ctx" or kind is Context:
        use = "context"
    elif any(item is Parameter or isinstance(item, Parameter) for item in metadata_of(annotation)):
        use = "parameter"
    elif parameter.name == "config" and is_config_model(kind):
        use = "config"
    return Argument(
        name=parameter.name,
        use=use,
        schema=schema_for(annotation if use in ("input", "parameter") else Any),
        required=parameter.default is NO_DEFAULT,
        default=parameter.default,
        description=_annotation_description(annotation) or docs.get(parameter.name, ""),
        positional=parameter.kind is parameter.POSITIONAL_ONLY,
        model=_model(kind, parameter.default) if use == "config" else None,
    )


def _model(kind: Any, default: Any) -> ConfigModel:
    try:
        return ConfigModel(kind, default)
    except NameError as error:
        raise DeclarationError(f"Cannot read the fields of {kind.__name__}: {error}.") from error


def _settings(arguments: Iterable[Argument], name: str) -> dict[str, Argument]:
    """Return the workflow's parameters: marked arguments and fields of a config model."""
    settings = {argument.name: argument for argument in arguments if argument.use == "parameter"}
    for config in arguments:
        for field in config.model.fields if config.model else ():
            if field.name in settings:
                raise DeclarationError(f"{name} has two parameters named {field.name!r}. Rename one of them.")
            settings[field.name] = Argument(
                name=field.name,
                use="parameter",
                schema=schema_for(field.annotation),
                required=field.required and config.required,
                default=field.default,
                description=_annotation_description(field.annotation),
            )
    return settings


def _history_name(parameters: Sequence[inspect.Parameter], hints: Mapping[str, Any]) -> str | None:
    names = [parameter.name for parameter in parameters]
    if "messages" in names:
        return "messages"
    candidates = [
        name for name in names if _accepts_palaver_messages(hints.get(name)) or _framework_of_messages(hints.get(name))
    ]
    return candidates[0] if len(candidates) == 1 else None


def _accepts_palaver_messages(annotation: Any) -> bool:
    return Message in members_of(annotation)


def _framework_of_messages(annotation: Any) -> FrameworkAdapter | None:
    """Return the adapter whose message class is annotated, for example LangChain's for `list[BaseMessage]`."""
    for member in members_of(annotation):
        adapter = adapter_for_class(member) if isinstance(member, type) else None
        if adapter is not None and adapter.MESSAGES is not None and issubclass(member, adapter.MESSAGES):
            return adapter
    return None


def _annotation_description(annotation: Any) -> str:
    """Return the description in Parameter metadata, or in a plain string of Annotated."""
    metadata = list(metadata_of(annotation))
    descriptions = [item.description for item in metadata if isinstance(item, Parameter)]
    return next((text for text in (*descriptions, *(item for item in metadata if isinstance(item, str))) if text), "")


# Introspection


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError as error:
        raise NotAWorkflow(f"Cannot read the signature of {function!r}. Wrap it in a Python function.") from error


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    return hints_of(unwrap_definition(function), extra_names=_PALAVER_TYPES)


def _output_annotation(annotation: Any) -> Any:
    """Return the type of one output value: for a generator or iterator, what it yields."""
    origin = get_origin(annotation)
    if origin in _STREAMS:
        return (*get_args(annotation), Any)[0]
    return annotation


_STREAMS = (Generator, Iterator, Iterable, AsyncGenerator, AsyncIterator, AsyncIterable)
_ARGUMENT_LINE_PATTERN = re.compile(r"^\s+(\w+)(?: \([^)]*\))?: (.+)$")


def _docstring_descriptions(function: Callable[..., Any]) -> dict[str, str]:
    """Return the descriptions in lines `name: text` below `Args:`."""
    _, has_section, section = inspect.cleandoc(unwrap_definition(function).__doc__ or "").partition("Args:\n")
    descriptions: dict[str, str] = {}
    for line in section.splitlines() if has_section else ():
        if line.strip() and not line.startswith(" "):
            break
        if match := _ARGUMENT_LINE_PATTERN.match(line):
            descriptions[match[1]] = match[2].strip()
    return descriptions
