"""Cases: what an evaluator receives, built-in or an author's. How an answer becomes one is casing.py's.

UNSET stands where there is nothing: no expected answer, no value of a chat, no result of a call. Null is a value.
"""

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core.events import Event
from palaver.core.messages import Message
from palaver.core.usage import Usage

if TYPE_CHECKING:
    from palaver.testsets.scripts import Script

Note = Literal["no_text", "empty", "refusal", "data_only"]
"""Why there is no text: there are only calls, nothing, a refusal, or data."""

NO_NOTES: frozenset[str] = frozenset()


class Flags(msgspec.Struct, frozen=True):
    """What the workflow was when it was called."""

    is_chat: bool = True
    is_chat_source: Literal["declared", "derived"] = "declared"


class CaseCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool, and what came of it."""

    call_id: str
    name: str
    arguments: str = ""
    """The JSON text exactly as it was produced."""
    parsed: Any | UnsetType = UNSET
    """The arguments as a value, `{}` for no text; UNSET where they are not JSON."""
    result: Any | UnsetType = UNSET
    is_error: bool = False
    turn: int = 0
    index: int = 0
    """Its place among all calls of the case."""


class Verdict(msgspec.Struct, frozen=True):
    """What a judge said of a turn while its script was played, and what that took."""

    passed: bool
    reason: str = ""
    usage: Usage | None = None
    cost: float | None = None


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What one user message came to. A plain case has one."""

    user: Message | None = None
    messages: tuple[Message, ...] = ()
    text: str = ""
    notes: frozenset[str] = NO_NOTES
    tool_calls: tuple[CaseCall, ...] = ()
    value: Any | UnsetType = UNSET
    usage: Usage | None = None
    latency: float = 0.0
    first_output: float | None = None
    finish: str = "stop"
    expect: Any = None
    """What a script expects of this turn (A5), as it stands there."""
    reached: bool = True
    """False for what was left when a script stopped: it counts as failed, `not_reached`."""
    verdict: Verdict | None = None
    """Of the judge that was asked whether the script goes on; it is not asked again. It is not kept."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of one variant to one row, with all that is known of it."""

    id: str = ""
    row_id: str = ""
    variant: str = ""
    repeat: int = 0
    row: dict[str, Any] = {}
    """The row's data as they are stored."""
    inputs: dict[str, Any] = {}
    expected: Any | UnsetType = UNSET
    history: tuple[Message, ...] = ()
    """What was sent."""
    messages: tuple[Message, ...] = ()
    """What came back, in all turns."""
    text: str = ""
    """What the last assistant message says, or a workflow's string."""
    notes: frozenset[str] = NO_NOTES
    tool_calls: tuple[CaseCall, ...] = ()
    value: Any | UnsetType = UNSET
    """A workflow's value; UNSET for a chat."""
    turns: tuple[Turn, ...] = ()
    events: tuple[Event, ...] | None = None
    """Only for evaluators that declare `needs={"events"}`."""
    usage: Usage | None = None
    latency: float = 0.0
    first_output: float | None = None
    finish: str = "stop"
    trace_id: str | None = None
    flags: Flags = Flags()
    script: "Script | None" = None
