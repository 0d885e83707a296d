"""The context of a run: what its workflow can access, and emit besides its return value."""

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast, get_args

from palaver.core.events import FinishReason, PartAdded, RunStarted
from palaver.core.messages import Data, File, Message
from palaver.core.model_options import ModelOptions
from palaver.core.runs import Call, Secret
from palaver.workflows.thread_pool import ThreadPool

Emit = Callable[[object], None]

if TYPE_CHECKING:

    class Fetched(bytes):
        """The bytes of a file; must be awaited in async code."""

        def __await__(self) -> Generator[Any, None, bytes]: ...


Fetch = Callable[[File], "Fetched"]
"""Returns the bytes of a file: stored, inline, or at a URL."""


def _reject_emit(_: object) -> None:
    raise RuntimeError("ctx.emit() called after the run has ended")


def _reject_fetch(_: File) -> "Fetched":
    raise RuntimeError("ctx.fetch() called after the run has ended")


class Context:
    """The current run, as seen by its workflow.

    A parameter of the workflow that is named `ctx` or annotated `Context` receives it. You never create one yourself.

    Example:
        from palaver import Context, Message, chat


        @chat
        async def researcher(messages: list[Message], ctx: Context):
            ctx.log("Searching …")
            yield f"Nothing found about {ctx.messages[-1].text!r}."
            ctx.finish("length")
    """

    def __init__(
        self,
        started: RunStarted,
        call: Call,
        flags: Mapping[str, bool],
        emit: Emit,
        thread_pool: ThreadPool,
        fetch: Fetch,
    ) -> None:
        self.run_id = started.run_id
        """Id of the run, as in `/api/runs`."""
        self.session = started.session
        """Label that groups runs: sent by the caller, or generated."""
        self.messages: Sequence[Message] = call.messages
        """The message history; empty if the workflow is not a chat."""
        self.options = cast("ModelOptions", call.options)
        """Model options from the caller, such as the temperature and the format of the reply."""
        self.client_tools: frozenset[str] = call.client_tools
        """Tools that the caller will run itself: call them and end the run."""
        self.secrets: Mapping[str, Secret] = call.secrets
        """Secrets from the caller, which are never stored: `ctx.secrets["api_key"].reveal()`."""
        self.flags = flags
        """Flags of the workflow, such as `is_chat`."""
        self.ending: FinishReason = "stop"
        """The finish reason if the run succeeds; set by `finish()`."""
        self.cancelled = False
        """True once the run has been stopped. Sync code must check it; async code gets a CancelledError."""
        self.thread_pool = thread_pool
        self._started = started
        self._emit = emit
        self._fetch = fetch
        # Thread id of sync code -> its emitter, which keeps the order with yielded values.
        self._emitters: dict[int, Emit] = {}
        self._loop_thread_id = threading.get_ident()

    @property
    def trace_parent(self) -> str | None:
        """The value of the header `traceparent` for requests that belong to this run's trace."""
        trace, span = self._started.trace_id, self._started.span_id
        return f"00-{trace}-{span}-01" if trace and span else None

    def emit(self, value: object) -> None:
        """Emit an event, a part, a message or `Usage` now, without waiting for the next yield.

        May be called from any thread. Raises when the run has ended or exceeds its output limits.
        """
        emitters = self._emitters
        thread_id = threading.get_ident()
        if thread_id == self._loop_thread_id or not emitters:
            self._emit(value)
        else:
            # A thread started by sync code emits through that code, so values yielded before stay before.
            emitter = emitters.get(thread_id) or next(reversed([*emitters.values()]), self._emit)
            emitter(value)

    def close(self) -> None:
        """Reject further output after the run has ended."""
        self._emit = _reject_emit
        self._fetch = _reject_fetch

    def fetch(self, part: File) -> "Fetched":
        """Return the bytes of a file: `await ctx.fetch(part)` in async code, `ctx.fetch(part)` in sync code.

        They come from the store, from the part's data, or from its URL. A URL is fetched without credentials, from
        public hosts only, and redirects are not followed. Raises a PalaverError if it cannot be fetched.
        """
        return self._fetch(part)

    def log(self, line: str) -> None:
        """Show a status line while the workflow runs. It is not stored with the answer."""
        self.emit(PartAdded(part=Data(name="status", value=line), transient=True))

    def finish(self, reason: FinishReason) -> None:
        """Set the finish reason of a run that succeeds: `ctx.finish("length")`."""
        if reason not in get_args(FinishReason):
            raise ValueError(f"invalid finish reason {reason!r}: must be one of {', '.join(get_args(FinishReason))}")
        self.ending = reason

    @contextmanager
    def redirect_emit(self, emitter: Emit) -> Generator[None]:
        """Redirect output of the current thread to `emitter`, which keeps the order with yielded values."""
        thread_id = threading.get_ident()
        self._emitters[thread_id] = emitter
        try:
            yield
        finally:
            del self._emitters[thread_id]
