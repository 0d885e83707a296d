"""The context: what a running workflow may ask about its run, and say beside what it returns."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from palaver.core.calls import Call, Finish, Secret
from palaver.core.events import PartAdded
from palaver.core.messages import Message
from palaver.core.parts import Data
from palaver.workflows.threads import Threads

Emit = Callable[[object], None]


class Context:
    """One run, as its workflow sees it. A parameter named `ctx` receives it."""

    def __init__(
        self, *, run_id: str, session: str, call: Call, flags: Mapping[str, bool], emit: Emit, threads: Threads
    ) -> None:
        self.run_id = run_id
        self.session = session
        self.messages: Sequence[Message] = call.messages
        self.options: Mapping[str, Any] = call.options
        """Temperature and the like, as the caller asked."""
        self.client_tools: frozenset[str] = call.client_tools
        """Tools that the caller will run itself: call them and end the run."""
        self.secrets: Mapping[str, Secret] = call.secrets
        self.flags = flags
        self.ending: Finish = "stop"
        """How the run will end when it ends well; set by `finish()`."""
        self.cancelled = False
        """True once somebody stopped the run: sync code looks here, async code gets CancelledError."""
        self.threads = threads
        self._emit = emit

    def emit(self, said: object) -> None:
        """Say an event, a part, a message or a usage now, without waiting for the next yield."""
        self._emit(said)

    def log(self, line: str) -> None:
        """Show a line of status: seen while it happens, not kept with the answer."""
        self.emit(PartAdded(part=Data(name="status", value=line), transient=True))

    def finish(self, reason: Finish) -> None:
        """Say how the run will end when it ends well: `ctx.finish("length")`."""
        if reason not in get_args(Finish):
            raise ValueError(f"finish() takes one of {', '.join(get_args(Finish))}, not {reason!r}")
        self.ending = reason

    def speak_through(self, emit: Emit) -> Emit:
        """Send what is emitted another way from now on (sync code: along with what it yields); returns the old way."""
        before, self._emit = self._emit, emit
        return before
