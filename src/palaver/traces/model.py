"""The span record that tables, threads, test sets and evaluation read.

Nothing above this package knows a vendor's attribute names. All values here were sent by clients: they are data, and
bounded.
"""

from datetime import datetime
from typing import Any, Literal

import msgspec

from palaver.core.messages import Message, Usage

SpanKind = Literal[
    "workflow",
    "agent",
    "llm",
    "tool",
    "retrieval",
    "embedding",
    "rerank",
    "guardrail",
    "evaluator",
    "task",
    "unknown",
]
SpanStatus = Literal["ok", "error", "cancelled", "incomplete"]
ConventionName = Literal[
    "palaver", "gen_ai", "openinference", "ai-sdk", "agenta", "mlflow", "langfuse", "openllmetry", "events"
]


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    call_id: str | None = None


class ToolDefinition(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    description: str | None = None
    parameters: Any = None


class SpanException(msgspec.Struct, frozen=True):
    type: str
    message: str


class SpanEvent(msgspec.Struct, frozen=True):
    name: str
    at: datetime | None
    attributes: dict[str, Any]


class Link(msgspec.Struct, frozen=True):
    trace_id: str
    span_id: str
    attributes: dict[str, Any]


class Redaction(msgspec.Struct, frozen=True):
    """What a redaction rule removed before the span was stored; never the value itself."""

    path: str
    """Names joined by dots, `*` for any index."""
    by: str
    count: int = 1


class RawSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A decoded span within the limits, before any convention has read it."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits."""
    parent_id: str | None = None
    name: str = ""
    start: datetime
    duration_ms: float = 0.0
    failed: bool = False
    """Whether its OTLP status is ERROR."""
    status_message: str = ""
    attributes: dict[str, Any] = {}
    """Flat: a dotted name is one key."""
    resource: dict[str, Any] = {}
    events: tuple[SpanEvent, ...] = ()
    links: tuple[Link, ...] = ()
    scope: str | None = None
    dropped: dict[str, int] = {}
    notes: tuple[str, ...] = ()
    redactions: tuple[Redaction, ...] = ()
    """Carried over from a Palaver export."""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A span, independent of the convention it was sent in."""

    trace_id: str
    span_id: str
    parent_id: str | None = None
    project: str = "default"
    name: str = ""
    kind: SpanKind = "unknown"
    status: SpanStatus = "ok"
    status_message: str = ""
    start: datetime
    duration_ms: float = 0.0
    messages_in: tuple[Message, ...] = ()
    messages_out: tuple[Message, ...] = ()
    inputs: Any = None
    outputs: Any = None
    parameters: dict[str, Any] = {}
    tools: tuple[ToolDefinition, ...] = ()
    tool: Tool | None = None
    usage: Usage | None = None
    cost: float | None = None
    """In US dollars."""
    cost_source: Literal["reported", "computed"] | None = None
    model: str | None = None
    provider: str | None = None
    finish: str | None = None
    session: str | None = None
    user: str | None = None
    workflow: str | None = None
    run_id: str | None = None
    exception: SpanException | None = None
    service: str | None = None
    scope: str | None = None
    conventions: tuple[ConventionName, ...] = ()
    attributes: dict[str, Any] = {}
    events: tuple[SpanEvent, ...] = ()
    links: tuple[Link, ...] = ()
    dropped: dict[str, int] = {}
    notes: tuple[str, ...] = ()
    redactions: tuple[Redaction, ...] = ()
