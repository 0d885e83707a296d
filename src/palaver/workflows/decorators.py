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
    """Declare a chat: a workflow that takes a message history and answers with messages.

    Use it as a decorator, with or without options, or pass it an agent of a supported framework:
    `chat(graph, name="tutor")`. The history goes to the parameter named `messages`, or to the only one annotated
    `list[Message]`. What the function returns or yields is its answer: text, a message in any dialect, or a list.

    Args:
        thing: The function or the agent. Omit it to pass only options: `@chat(turns="queue")`.
        name: Name in URLs: letters, digits, `_`, `-` and `.`. By default, the name of the function.
        description: Human-readable, one paragraph. By default, the first paragraph of the docstring.
        flags: More flags for clients, besides `is_chat`.
        on_disconnect: What happens to a run when its client disconnects. By default, the protocol decides.
        system: What happens to system messages that a client sends.
        limits: Limits of one run: `seconds`, `events` and `bytes`. By default, those of the server's settings.
        turns: What happens to a turn while another one runs in the same conversation.
        idempotent: Whether a background run may be restarted after its process died.
        record: How much of each run is stored.
        health: A function without arguments that checks whether the workflow works, for `/status`.
        readme: Description in Markdown, served at `/services/{name}/README.md`. Generated if empty.
        redact: What is removed before runs are stored: `[{"path": "inputs.name"}, {"detector": "email"}]`.

    Raises:
        DeclarationError: The declaration is invalid: no parameter for the history, an invalid or reserved name, an
            unknown option, or a flag that contradicts the decorator.

    Example:
        from palaver import Message, chat


        @chat(turns="queue", limits={"seconds": 60})
        async def tutor(messages: list[Message], subject: str = "maths"):
            yield "Let us talk "
            yield f"about {subject}."
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
    """Declare a workflow that is not a chat: arbitrary JSON in and out.

    Each parameter of the function is an input with the same name, validated against its annotation. The returned value
    is the result. For a generator, the result is the joined text, or the list of values. The function can still be
    called directly.

    Args:
        thing: The function or an agent of a framework. Omit it to pass only options.
        **options: The options of `chat`.

    Raises:
        DeclarationError: The declaration is invalid, as for `chat`.

    Example:
        from palaver import workflow


        @workflow
        def count_words(text: str) -> int:
            return len(text.split())


        assert count_words("one two") == 2
    """
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
