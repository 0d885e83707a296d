"""The canonical record of a span: what tables, threads, test sets and evaluation read (contract: traces, 2).

Nobody above this package knows a vendor's attribute name. Everything here came from strangers: it is data, and bounded.
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
ConventionName = Literal["palaver", "gen_ai", "openinference", "ai-sdk", "agenta", "mlflow", "openllmetry", "events"]


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    """The tool that a span ran."""

    name: str
    call_id: str | None = None


class Defined(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool that a model could have called."""

    name: str
    description: str | None = None
    parameters: Any = None


class Raised(msgspec.Struct, frozen=True):
    """What was raised."""

    type: str
    message: str


class SpanEvent(msgspec.Struct, frozen=True):
    """Something that happened during a span."""

    name: str
    at: datetime | None
    attributes: dict[str, Any]


class Link(msgspec.Struct, frozen=True):
    """Another span that this one names."""

    trace_id: str
    span_id: str
    attributes: dict[str, Any]


class Redaction(msgspec.Struct, frozen=True):
    """What was removed before anything was stored, and never the value."""

    path: str
    """Where: names joined by dots, `*` for any index."""
    by: str
    """The detector's name, or the path of the rule."""
    count: int = 1


class RawSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A span as it was sent: decoded and bounded, and read by no convention yet."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 of them."""
    parent_id: str | None = None
    name: str = ""
    start: datetime
    duration_ms: float = 0.0
    failed: bool = False
    """Is its OTLP status ERROR?"""
    status_message: str = ""
    attributes: dict[str, Any] = {}
    """Flat: a name, however many dots it has, and its value."""
    resource: dict[str, Any] = {}
    events: tuple[SpanEvent, ...] = ()
    links: tuple[Link, ...] = ()
    scope: str | None = None
    dropped: dict[str, int] = {}
    notes: tuple[str, ...] = ()
    redactions: tuple[Redaction, ...] = ()
    """Those that an export of ours brings along."""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One span, whoever sent it."""

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
    tools: tuple[Defined, ...] = ()
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
    exception: Raised | None = None
    service: str | None = None
    scope: str | None = None
    conventions: tuple[ConventionName, ...] = ()
    attributes: dict[str, Any] = {}
    events: tuple[SpanEvent, ...] = ()
    links: tuple[Link, ...] = ()
    dropped: dict[str, int] = {}
    notes: tuple[str, ...] = ()
    redactions: tuple[Redaction, ...] = ()
