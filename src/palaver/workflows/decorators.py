"""The decorators @chat and @workflow."""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypedDict, Unpack, cast, overload

from palaver.core.descriptions import check_flags, check_workflow_name
from palaver.core.history_validation import SystemPolicy
from palaver.core.runs import RecordMode
from palaver.errors import InvalidOption, NotAWorkflow
from palaver.workflows.adapters import adapter_for
from palaver.workflows.signature import callable_name, takes_messages, unwrap_definition
from palaver.workflows.workflow import (
    FunctionWorkflow,
    Limits,
    OnDisconnect,
    Options,
    TurnPolicy,
    Workflow,
    read_options,
)

_Function = Callable[..., Any]
_Declare = Callable[[_Function], FunctionWorkflow]


class TakesMessages(UserWarning):
    """A workflow takes messages but is not declared as a chat."""


class _DeclarationOptions(TypedDict, total=False):
    name: str
    description: str
    flags: Mapping[str, bool]
    on_disconnect: OnDisconnect | None
    system: SystemPolicy
    limits: Limits | dict[str, Any] | None
    turns: TurnPolicy
    idempotent: bool
    record: RecordMode
    health: Callable[[], Any] | None
    readme: str
    redact: Sequence[Mapping[str, Any]]


@overload
def chat(function: _Function, /, **options: Unpack[_DeclarationOptions]) -> FunctionWorkflow: ...
@overload
def chat(**options: Unpack[_DeclarationOptions]) -> _Declare: ...
@overload
def chat(thing: object, /, **options: Unpack[_DeclarationOptions]) -> Workflow: ...
def chat(thing: object = None, /, **options: Unpack[_DeclarationOptions]) -> Workflow | _Declare:
    """Declare a chat: it takes a message history and answers with messages.

    The history goes to the parameter named `messages`. What the function returns or yields is its answer: text, a
    message in any dialect, a list of them. Options: `name`, `description`, `flags`; `on_disconnect="cancel"|"finish"`,
    what happens when the client disconnects; `system="keep"|"drop"|"reject"`, what happens to system messages that a
    client sends; `limits={"seconds": …, "events": …, "bytes": …}` of one run; `turns="reject"|"queue"|"interrupt"`,
    what happens to a turn while another one runs in the same conversation; `idempotent=True`: a background run may
    restart when its process died; `record="full"|"metadata"|"off"`, what is stored of its runs; `health=…`, a health
    check for `/status`, a function without arguments; `readme=…`, Markdown for people;
    `redact=[{"path": "inputs.name"}, {"detector": "email"}]`, what is removed before its runs are stored.

    An agent of a framework can be passed directly: `chat(graph, name="tutor")`.
    """
    declare = partial(_declare, options, is_chat=True)
    return cast("_Declare", declare) if thing is None else declare(thing)


@overload
def workflow(function: _Function, /, **options: Unpack[_DeclarationOptions]) -> FunctionWorkflow: ...
@overload
def workflow(**options: Unpack[_DeclarationOptions]) -> _Declare: ...
@overload
def workflow(thing: object, /, **options: Unpack[_DeclarationOptions]) -> Workflow: ...
def workflow(thing: object = None, /, **options: Unpack[_DeclarationOptions]) -> Workflow | _Declare:
    """Declare a workflow that is not a chat: arbitrary JSON in and out. Options as for `chat`."""
    declare = partial(_declare, options, is_chat=None)
    return cast("_Declare", declare) if thing is None else declare(thing)


def _declare(options: _DeclarationOptions, thing: object, *, is_chat: bool | None) -> Workflow:
    framework = adapter_for(thing)
    if framework is None:
        return _declare_function(options, thing, is_chat=is_chat)
    name = options.get("name", type(thing).__name__)
    adopted_workflow = framework.adopt(
        thing,
        name=options.get("name"),
        description=options.get("description"),
        flags=check_flags(name, options.get("flags", {}), is_chat=is_chat),
        options=_options(options, name),
    )
    return adopted_workflow or _declare_function(options, thing, is_chat=is_chat)


def _declare_function(declared: _DeclarationOptions, function: Any, *, is_chat: bool | None) -> FunctionWorkflow:
    if not callable(function) or isinstance(function, type):
        raise NotAWorkflow(
            f"{function!r} is not a workflow. Expected a function, coroutine function or generator function."
        )
    name = declared.get("name", callable_name(function))
    options = _options(declared, name)
    flags = check_flags(check_workflow_name(name), declared.get("flags", {}), is_chat=is_chat)
    if not flags["is_chat"] and takes_messages(function):
        _warn_at_definition(function, f"{name} takes messages; declare it with @chat to make it a chat")
    return FunctionWorkflow(
        function,
        name=name,
        description=declared.get("description", _first_paragraph(function)),
        flags=flags,
        options=options,
    )


def _options(declared: _DeclarationOptions, name: str) -> Options:
    if unknown := ", ".join(declared.keys() - _DeclarationOptions.__annotations__.keys()):
        raise InvalidOption(
            f"{name}: unknown option {unknown}. Available: {', '.join(_DeclarationOptions.__annotations__)}."
        )
    described = ("name", "description", "flags")  # These are part of the Description.
    return read_options(name, **{option: value for option, value in declared.items() if option not in described})


def _warn_at_definition(function: Any, hint: str) -> None:
    """Issue the warning at the function's own line."""
    code = getattr(unwrap_definition(function), "__code__", None)
    location = (code.co_filename, code.co_firstlineno) if code else ("<unknown>", 1)
    warnings.warn_explicit(hint, TakesMessages, *location)


def _first_paragraph(function: Any) -> str:
    definition = unwrap_definition(function)
    # The docstring of a builtin is not a description.
    docstring = definition.__doc__ if hasattr(definition, "__code__") else None
    return " ".join(inspect.cleandoc(docstring or "").partition("\n\n")[0].split())
