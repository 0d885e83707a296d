"""The Workflow protocol, and workflows made from Python functions."""

import functools
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Protocol, cast, runtime_checkable

from palaver.core import dialects, json
from palaver.core.descriptions import Description
from palaver.core.messages import Message
from palaver.core.runs import Call
from palaver.errors import CallFault, FaultyCall
from palaver.workflows.binding import bind
from palaver.workflows.context import Context
from palaver.workflows.execution import FunctionKind, OutputStream, Returned, call_function, function_kind
from palaver.workflows.files import has_stored_files, inline_files
from palaver.workflows.options import Options
from palaver.workflows.schemas import defaults_of, schemas_of
from palaver.workflows.signature import Signature, read_signature, source_location

Producer = Callable[[Context], OutputStream]
"""A bound call: takes the context and returns the stream of values (see replies.py)."""


@runtime_checkable
class Workflow(Protocol):
    """Something that can be described and called."""

    @property
    def description(self) -> Description: ...

    @property
    def options(self) -> Options: ...

    @property
    def place(self) -> str:
        """Where it is declared, for display: `app.py:4`."""
        ...

    def bind(self, call: Call) -> Producer:
        """Check the inputs and parameters of a call. Raises FaultyCall with all faults."""
        ...


class FunctionWorkflow:
    """A workflow made from a function, which can still be called directly."""

    reads_ids = True
    """Whether it can resolve ids of stored files in our own messages."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str,
        description: str,
        flags: dict[str, bool],
        options: Options,
    ) -> None:
        self.function = function
        self.options = options
        self._kind: FunctionKind = function_kind(function)
        self.signature: Signature = read_signature(function, is_chat=flags["is_chat"], name=name)
        self.description = Description(
            name=name,
            description=description,
            flags=flags,
            schemas=schemas_of(self.signature, is_chat=flags["is_chat"]),
            inputs=defaults_of(self.signature.of("input")),
            parameters=defaults_of(self.signature.settings.values()),
        )
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the author's function directly."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{'chat' if self.description.is_chat else 'workflow'} {self.description.name}>"

    @property
    def place(self) -> str:
        """File and line of the function; the path of a file below the working folder, the name of any other."""
        return source_location(self.function)

    @property
    def unknown_types(self) -> list[str]:
        """Inputs, parameters and `return` whose annotation has no schema, for `palaver doctor`."""
        signature = self.signature
        shapes = {argument.name: argument.shape for argument in signature.of("input")}
        shapes |= {argument.name: argument.shape for argument in signature.settings.values()}
        shapes |= {} if self.description.is_chat else {"return": signature.returns}
        return [name for name, shape in shapes.items() if not shape.known]

    def bind(self, call: Call) -> Producer:
        """Bind the function to its arguments. Raises FaultyCall."""
        values: dict[str, Any] = {}
        if call.inputs or call.parameters or self.signature.asks:
            values, faults = bind(self.signature, call.inputs, call.parameters)
            if faults:
                raise FaultyCall(faults)
        history = self.signature.of("messages")
        if history and not self._reads_ids and has_stored_files(call.messages):
            return functools.partial(self._with_files, values, call.messages)
        for argument in history:
            values[argument.name] = self._history(call.messages)
        return functools.partial(self._produce, values)

    @property
    def _reads_ids(self) -> bool:
        return self.reads_ids and self.signature.dialect == "palaver" and self.signature.framework is None

    def _history(self, messages: Sequence[Message]) -> list[Any]:
        """Convert the messages to the function's dialect or framework."""
        if self.signature.framework is not None:
            return self.signature.framework.written(messages)
        if self.signature.dialect == "palaver":
            return list(messages)
        return dialects.write(messages, self.signature.dialect)

    async def _with_files(
        self, values: dict[str, Any], messages: Sequence[Message], context: Context
    ) -> AsyncGenerator[object, None]:
        """Inline the stored files, then run the function."""
        told = self._history(await inline_files(messages, context))
        values = values | {argument.name: told for argument in self.signature.of("messages")}
        given = self._produce(values, context)
        if self._kind == "coroutine":
            yield Returned(await cast("Any", given))
            return
        async with aclosing(cast("AsyncGenerator[object, None]", given)) as all_given:
            async for value in all_given:
                yield value

    def _produce(self, values: dict[str, Any], context: Context) -> OutputStream:
        positional: list[Any] = []
        named = dict(values)
        for argument in self.signature.arguments:
            if argument.use == "context":
                named[argument.name] = context
            if argument.positional:
                positional.append(named.pop(argument.name, argument.default))
        return call_function(self._kind, functools.partial(self.function, *positional, **named), context)


def find_parameter_faults(workflow: Workflow, parameters: Mapping[str, Any]) -> list[CallFault]:
    """Return the faults of parameters that a variant sets.

    A missing required parameter is not a fault, since a call may provide it. Remote services check for themselves.
    """
    if not isinstance(workflow, FunctionWorkflow):
        return []
    _, faults = bind(workflow.signature, {}, parameters)
    given = tuple(f"/parameters/{json.escape_pointer(name)}" for name in parameters)
    return [fault for fault in faults if _concerns(fault.pointer or "", given)]


def _concerns(pointer: str, given: tuple[str, ...]) -> bool:
    return pointer == "/parameters" or any(pointer == one or pointer.startswith(f"{one}/") for one in given)
