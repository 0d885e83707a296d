"""Steps inside a run: model calls, tools, agents and nodes, as reported by framework adapters.

The tracer installs a StepListener in `LISTENER`; an adapter gets it from `current_listener` and reports when a
step begins and ends. Without a listener that costs one lookup. The details of a step are passed as a function that is
called later, possibly in another thread, so it must hold copies of anything mutable.
"""

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from palaver.core.messages import Usage

StepKind = Literal["agent", "llm", "tool", "retrieval", "embedding", "guardrail", "task"]


class StepDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Details of a step as plain JSON; unknown ones are left out."""

    messages_in: Sequence[Any] = ()
    """Messages passed to a model or agent, in any dialect that we read."""
    messages_out: Sequence[Any] = ()
    inputs: Any = None
    outputs: Any = None
    parameters: Mapping[str, Any] = {}
    """Model parameters such as the temperature."""
    tools: Sequence[Any] = ()
    """Definitions of the tools available to a model, in any dialect."""
    usage: Usage | None = None
    """Usage of this step's own model calls, not of steps inside it."""
    model: str | None = None
    provider: str | None = None
    finish: str | None = None
    """The model's finish reason, in its own word."""


DetailsProvider = Callable[[], StepDetails]


class StepError(NamedTuple):
    """An error for which there is no exception."""

    type: str
    message: str


class Step:
    """One step. Created by the listener, ended by the adapter that reported it."""

    __slots__ = (
        "_listener",
        "call_id",
        "details",
        "ended_at",
        "error",
        "framework",
        "kind",
        "name",
        "number",
        "parent",
        "started_at",
    )

    def __init__(
        self,
        listener: "StepListener",
        framework: Sequence[str],
        kind: StepKind,
        name: str,
        *,
        number: int,
        started_at: datetime,
        parent: "Step | None" = None,
        call_id: str | None = None,
        details: DetailsProvider | None = None,
    ) -> None:
        self._listener = listener
        self.framework = framework
        """Names under which instrumentations of the framework are known: lower case letters and digits."""
        self.kind: StepKind = kind
        self.name = name
        """Name of the tool, agent, node or guardrail; for a model call, the model if known."""
        self.number = number
        """Index among the steps of the run."""
        self.started_at = started_at
        self.ended_at: datetime | None = None
        self.parent = parent
        """The enclosing step; None directly below the run."""
        self.call_id = call_id
        """The tool call that it answers."""
        self.error: BaseException | StepError | None = None
        self.details: tuple[DetailsProvider, ...] = () if details is None else (details,)

    def end(self, details: DetailsProvider | None = None, *, error: BaseException | StepError | None = None) -> None:
        """Mark the step as finished. `details` override those given at the start; later calls are ignored."""
        if self.ended_at is not None:
            return
        if details is not None:
            self.details = (*self.details, details)
        self.error = error
        self._listener.on_ended(self)

    @property
    def was_cancelled(self) -> bool:
        """Whether it was cancelled rather than failed."""
        return isinstance(self.error, asyncio.CancelledError | GeneratorExit)


class StepListener(Protocol):
    """Receives the steps of one run, from any thread. Never raises or blocks."""

    @property
    def memory(self) -> dict[Any, Any]:
        """Storage for adapters during the run; each uses its own key."""
        ...

    def begin(
        self,
        framework: Sequence[str],
        kind: StepKind,
        name: str,
        *,
        parent: Step | None = None,
        call_id: str | None = None,
        details: DetailsProvider | None = None,
    ) -> Step | None:
        """Start a step; None if the limit of steps is reached."""
        ...

    def on_ended(self, step: Step) -> None:
        """Receive a step that has ended."""
        ...


StepCallback = Callable[[Step], None]
LISTENER: ContextVar[StepListener | None] = ContextVar("palaver-steps", default=None)
"""The listener of the current run, in its task and the children of that."""
OBSERVER: ContextVar[StepCallback | None] = ContextVar("palaver-step-observer", default=None)
"""The callback for ended steps in the current task."""


def current_listener() -> StepListener | None:
    """Return the listener of the current run, or None."""
    return LISTENER.get()


@contextmanager
def observe_steps(callback: StepCallback) -> Generator[None]:
    """Call `callback` with every step that ends in traced runs started inside this context, from any thread."""
    token = OBSERVER.set(callback)
    try:
        yield
    finally:
        OBSERVER.reset(token)
