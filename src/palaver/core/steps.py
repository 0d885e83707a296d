"""Steps: what a framework tells of itself while a run goes on, of its models and tools, its agents and nodes.

Whoever traces a run listens, by `listened_by`; an adapter asks for the `listener` and tells it when a step begins and
ends. Where nobody listens nothing is told, and it costs one look. What was said in a step is read later and elsewhere:
it is handed over as a function, which holds copies of what may still change.
"""

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from palaver.core.messages import Usage

StepKind = Literal["agent", "llm", "tool", "retrieval", "embedding", "guardrail", "task"]


class StepDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a step, as plain JSON; whatever is not known is left out."""

    messages_in: Sequence[Any] = ()
    """What a model or an agent was given, in any dialect of messages that we read,"""
    messages_out: Sequence[Any] = ()
    """and what it said."""
    inputs: Any = None
    outputs: Any = None
    parameters: Mapping[str, Any] = {}
    """Of a model: its temperature and the like."""
    tools: Sequence[Any] = ()
    """Definitions of those that a model could have called, in any dialect."""
    usage: Usage | None = None
    """Of a model's own calls only: what steps inside this one have told is not told again."""
    model: str | None = None
    provider: str | None = None
    finish: str | None = None
    """Why a model ended, in its own word."""


DetailsProvider = Callable[[], StepDetails]


class StepError(NamedTuple):
    """What went wrong, where there is no exception to show."""

    type: str
    message: str


class Step:
    """One step, under way or over. It is made by the listener, and ended by whoever told of it."""

    __slots__ = (
        "_listener",
        "began_at",
        "call_id",
        "ended_at",
        "error",
        "kind",
        "name",
        "number",
        "parent",
        "teller",
        "tells",
    )

    def __init__(
        self,
        listener: "StepListener",
        teller: Sequence[str],
        kind: StepKind,
        name: str,
        *,
        number: int,
        began_at: datetime,
        parent: "Step | None" = None,
        call_id: str | None = None,
        tell: DetailsProvider | None = None,
    ) -> None:
        self._listener = listener
        self.teller = teller
        """The framework, by the words under which instrumentations of it are known: small letters and digits."""
        self.kind: StepKind = kind
        self.name = name
        """Of the tool, agent, node or guardrail; of a model's call, the model, as far as it was known."""
        self.number = number
        """Its place among those of the run."""
        self.began_at = began_at
        self.ended_at: datetime | None = None
        self.parent = parent
        """The step in which it happened; None: in none but the run."""
        self.call_id = call_id
        """Which call it answers, of a tool or whatever else a model may call."""
        self.error: BaseException | StepError | None = None
        self.tells: tuple[DetailsProvider, ...] = () if tell is None else (tell,)

    def end(self, tell: DetailsProvider | None = None, *, error: BaseException | StepError | None = None) -> None:
        """It is over. What is told now goes before what was told when it began; a second end is not heard."""
        if self.ended_at is not None:
            return
        if tell is not None:
            self.tells = (*self.tells, tell)
        self.error = error
        self._listener.ended(self)

    @property
    def was_cancelled(self) -> bool:
        """Was it stopped, rather than that it failed?"""
        return isinstance(self.error, asyncio.CancelledError | GeneratorExit)


class StepListener(Protocol):
    """Hears of the steps of one run, from any thread; never raises, never waits."""

    @property
    def memory(self) -> dict[Any, Any]:
        """What an adapter keeps with the run, under a key of its own."""
        ...

    def begin(
        self,
        teller: Sequence[str],
        kind: StepKind,
        name: str,
        *,
        parent: Step | None = None,
        call_id: str | None = None,
        tell: DetailsProvider | None = None,
    ) -> Step | None:
        """A step begins now, as the framework of this name tells; None where no more are heard."""
        ...

    def ended(self, step: Step) -> None:
        """One of them is over."""
        ...


StepCallback = Callable[[Step], None]
_LISTENER: ContextVar[StepListener | None] = ContextVar("palaver-steps", default=None)
_OBSERVER: ContextVar[StepCallback | None] = ContextVar("palaver-steps-overheard", default=None)


def current_listener() -> StepListener | None:
    """Who hears of the steps of the run that this code belongs to; None: nobody."""
    return _LISTENER.get()


def set_listener(hearing: StepListener) -> Token[StepListener | None]:
    """From here on, in this task and those that it starts, this one hears; what to end that with."""
    return _LISTENER.set(hearing)


def current_observer() -> StepCallback | None:
    """Who else wants to know, in this task, of each step that is over; None: nobody."""
    return _OBSERVER.get()


@contextmanager
def observe_steps(heard: StepCallback) -> Generator[None]:
    """Runs that are started inside tell this one, too, of their steps as they end: from any thread, while traced."""
    token = _OBSERVER.set(heard)
    try:
        yield
    finally:
        _OBSERVER.reset(token)


def reset_listener(token: Token[StepListener | None]) -> None:
    """End that, in the same task."""
    _LISTENER.reset(token)
