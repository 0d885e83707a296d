"""The Workflow protocol, the options of a declaration, and workflows made from Python functions."""

import functools
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated, Any, Literal, Protocol, cast, get_args, runtime_checkable

import msgspec

from palaver.core import dialects, json
from palaver.core.descriptions import Description
from palaver.core.history_validation import SystemPolicy
from palaver.core.messages import Message
from palaver.core.runs import Call, RecordMode
from palaver.errors import CallFault, FaultyCall, InvalidOption
from palaver.workflows.binding import bind
from palaver.workflows.context import Context
from palaver.workflows.execution import FunctionKind, OutputStream, Returned, call_function, function_kind
from palaver.workflows.inline_files import has_stored_files, inline_files
from palaver.workflows.schemas import defaults_of, schemas_of
from palaver.workflows.signature import Signature, read_signature, source_location

OnDisconnect = Literal["cancel", "finish"]
TurnPolicy = Literal["reject", "queue", "interrupt"]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of one run; None means the server's setting."""

    seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None
    events: Annotated[int, msgspec.Meta(gt=0)] | None = None
    bytes: Annotated[int, msgspec.Meta(gt=0)] | None = None


class Options(msgspec.Struct, frozen=True, kw_only=True):
    on_disconnect: OnDisconnect | None = None
    """What happens when the client disconnects; None leaves it to the protocol."""
    system: SystemPolicy = "keep"
    """What happens to system messages from a client."""
    limits: Limits = Limits()
    turns: TurnPolicy = "reject"
    """What happens to a turn while another one runs in the same conversation."""
    idempotent: bool = False
    """Whether a background run may restart when its process died."""
    record: RecordMode = "full"
    """How much of each run is stored: everything, metadata only, or nothing."""
    health: Callable[[], Any] | None = None
    """Health check for /status."""
    readme: str = ""
    """Markdown served at /services/{w}/README.md; generated if empty."""
    redact: tuple[Mapping[str, Any], ...] = ()
    """Redaction rules for stored runs, as in `[[redact]]` of palaver.toml; parsed by the server."""


def read_options(name: str, *, limits: Any = None, redact: Any = (), **others: Any) -> Options:
    """Validate the options of a declaration, as Options has them. Raises InvalidOption."""
    options = Options(**others)
    for option, allowed in (
        ("on_disconnect", (None, *get_args(OnDisconnect))),
        ("system", get_args(SystemPolicy)),
        ("turns", get_args(TurnPolicy)),
        ("idempotent", (True, False)),
        ("record", get_args(RecordMode)),
    ):
        value = getattr(options, option)
        if value not in allowed:
            choices = ", ".join(repr(choice) for choice in allowed)
            raise InvalidOption(f"{name}: {option} must be one of {choices}, not {value!r}.")
    if options.health is not None and not callable(options.health):
        raise InvalidOption(f"{name}: health must be a function without arguments, not {options.health!r}.")
    if not isinstance(cast("object", options.readme), str):
        raise InvalidOption(f"{name}: readme must be a string, not {options.readme!r}.")
    if not isinstance(redact, list | tuple) or not all(isinstance(rule, dict) for rule in cast("list[Any]", redact)):
        raise InvalidOption(f"{name}: redact must be a list of dicts (rules), not {redact!r}.")
    try:
        run_limits = msgspec.convert(msgspec.to_builtins({} if limits is None else limits), Limits)
    except msgspec.ValidationError as error:
        raise InvalidOption(f"{name}: invalid limits (supported: seconds, events, bytes): {error}.") from None
    return msgspec.structs.replace(options, limits=run_limits, redact=tuple(cast("list[dict[str, Any]]", redact)))


Producer = Callable[[Context], OutputStream]
"""A bound call: takes the context and returns the stream of values (see execution.py)."""


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

    resolves_file_ids = True
    """Whether it can resolve ids of stored files in our own messages."""
    resumes = False
    """Whether it has a state of its own, which knows the approvals that it waits for."""

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
            inputs=defaults_of(self.signature.by_use("input")),
            parameters=defaults_of(self.signature.settings.values()),
        )
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
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
        schemas = {argument.name: argument.schema for argument in signature.by_use("input")}
        schemas |= {argument.name: argument.schema for argument in signature.settings.values()}
        schemas |= {} if self.description.is_chat else {"return": signature.returns}
        return [name for name, schema in schemas.items() if not schema.has_schema]

    def bind(self, call: Call) -> Producer:
        """Bind the function to its arguments. Raises FaultyCall."""
        values: dict[str, Any] = {}
        if call.inputs or call.parameters or self.signature.requires_arguments:
            values, faults = bind(self.signature, call.inputs, call.parameters)
            if faults:
                raise FaultyCall(faults)
        history = self.signature.by_use("messages")
        if history and not self._resolves_file_ids and has_stored_files(call.messages):
            return functools.partial(self._produce_with_files, values, call.messages)
        for argument in history:
            values[argument.name] = self._history(call.messages)
        return functools.partial(self._produce, values)

    @property
    def _resolves_file_ids(self) -> bool:
        return self.resolves_file_ids and self.signature.dialect == "palaver" and self.signature.framework is None

    def _history(self, messages: Sequence[Message]) -> list[Any]:
        """Convert the messages to the function's dialect or framework."""
        if self.signature.framework is not None:
            return self.signature.framework.written(messages)
        if self.signature.dialect == "palaver":
            return list(messages)
        return dialects.write(messages, self.signature.dialect)

    async def _produce_with_files(
        self, values: dict[str, Any], messages: Sequence[Message], context: Context
    ) -> AsyncGenerator[object, None]:
        """Inline the stored files, then run the function."""
        history = self._history(await inline_files(messages, context))
        values = values | {argument.name: history for argument in self.signature.by_use("messages")}
        output = self._produce(values, context)
        if self._kind == "coroutine":
            yield Returned(await cast("Any", output))
            return
        async with aclosing(cast("AsyncGenerator[object, None]", output)) as stream:
            async for value in stream:
                yield value

    def _produce(self, values: dict[str, Any], context: Context) -> OutputStream:
        positional: list[Any] = []
        keywords = dict(values)
        for argument in self.signature.arguments:
            if argument.use == "context":
                keywords[argument.name] = context
            if argument.positional:
                positional.append(keywords.pop(argument.name, argument.default))
        return call_function(self._kind, functools.partial(self.function, *positional, **keywords), context)


def find_parameter_faults(workflow: Workflow, parameters: Mapping[str, Any]) -> list[CallFault]:
    """Return the faults of parameters that a variant sets.

    A missing required parameter is not a fault, since a call may provide it. Remote services check for themselves.
    """
    if not isinstance(workflow, FunctionWorkflow):
        return []
    _, faults = bind(workflow.signature, {}, parameters)
    pointers = tuple(f"/parameters/{json.escape_pointer(name)}" for name in parameters)
    return [fault for fault in faults if _is_at_or_below(fault.pointer or "", pointers)]


def _is_at_or_below(pointer: str, pointers: tuple[str, ...]) -> bool:
    return pointer == "/parameters" or any(
        pointer == parameter or pointer.startswith(f"{parameter}/") for parameter in pointers
    )
