"""@chat and @workflow: a function, declared once."""

import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any, overload

from palaver.core.descriptions import check_flags, check_name
from palaver.core.history import SystemPolicy
from palaver.errors import NotAWorkflow
from palaver.workflows.options import Limits, OnDisconnect, read_options
from palaver.workflows.signature import takes_messages
from palaver.workflows.workflow import FunctionWorkflow

_Function = Callable[..., Any]


class TakesMessages(UserWarning):
    """A workflow takes messages but is not declared as a chat."""


@overload
def chat(function: _Function, /, *, name: str | None = None, description: str | None = None) -> FunctionWorkflow: ...
@overload
def chat(
    *,
    name: str | None = None,
    description: str | None = None,
    flags: Mapping[str, bool] | None = None,
    on_disconnect: OnDisconnect | None = None,
    system: SystemPolicy = "keep",
    limits: Limits | dict[str, Any] | None = None,
) -> Callable[[_Function], FunctionWorkflow]: ...
def chat(function: _Function | None = None, /, **given: Any) -> FunctionWorkflow | Callable[[_Function], FunctionWorkflow]:
    """Declare a chat: it takes a message history and answers with messages.

    The history goes to the parameter named `messages`. What the function returns or yields is its answer: text, a
    message in any dialect, a list of them. Options: `name`, `description`, `flags`; `on_disconnect="cancel"|"finish"`,
    what happens when nobody reads any more; `system="keep"|"drop"|"reject"`, what becomes of system messages that a
    client sends; `limits={"seconds": …, "events": …, "bytes": …}` of one run.
    """
    return _declared(function, True, given)


@overload
def workflow(function: _Function, /, *, name: str | None = None, description: str | None = None) -> FunctionWorkflow: ...
@overload
def workflow(
    *,
    name: str | None = None,
    description: str | None = None,
    flags: Mapping[str, bool] | None = None,
    on_disconnect: OnDisconnect | None = None,
    system: SystemPolicy = "keep",
    limits: Limits | dict[str, Any] | None = None,
) -> Callable[[_Function], FunctionWorkflow]: ...
def workflow(
    function: _Function | None = None, /, **given: Any
) -> FunctionWorkflow | Callable[[_Function], FunctionWorkflow]:
    """Declare a workflow that is no chat: arbitrary JSON in and out. Options as for `chat`."""
    return _declared(function, None, given)


def _declared(
    function: _Function | None, is_chat: bool | None, given: dict[str, Any]
) -> FunctionWorkflow | Callable[[_Function], FunctionWorkflow]:
    if function is None:
        return lambda function: _declare(function, is_chat, **given)
    return _declare(function, is_chat, **given)


def _declare(
    function: Any,
    is_chat: bool | None,
    *,
    name: str | None = None,
    description: str | None = None,
    flags: Mapping[str, bool] | None = None,
    **options: Any,
) -> FunctionWorkflow:
    if not callable(function) or isinstance(function, type):
        raise NotAWorkflow(f"{function!r} cannot be called: declare a function, a coroutine or a generator.")
    own = name if name is not None else getattr(function, "__name__", type(function).__name__)
    checked = check_flags(check_name(own), flags or {}, is_chat=is_chat)
    if not checked["is_chat"] and takes_messages(function):
        # Three frames up stands the author's own line.
        warnings.warn(f"{own} takes messages; declare it with @chat to make it a chat", TakesMessages, stacklevel=3)
    return FunctionWorkflow(
        function,
        name=own,
        description=_first_paragraph(function) if description is None else description,
        flags=checked,
        options=read_options(own, **options),
    )


def _first_paragraph(function: Any) -> str:
    paragraph = (inspect.getdoc(function) or "").partition("\n\n")[0]
    return " ".join(paragraph.split()) if hasattr(function, "__name__") else ""
