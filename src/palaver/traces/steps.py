"""The span of a step that a framework told of: a model's call, a tool, an agent, a node (contract: traces, 1).

It says what it has to say in attributes, and is read like anybody's; it stands below its run, or the step it was in.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from palaver.core import masking
from palaver.core.extraction import Prefer
from palaver.core.messages import Message
from palaver.core.steps import Step, StepDetails, StepError, StepKind
from palaver.traces.contents import Contents
from palaver.traces.conventions.messages import messages_of, settled
from palaver.traces.facts import Home
from palaver.traces.mapping import to_span
from palaver.traces.otlp.bounds import Losses, kept
from palaver.traces.otlp.spans import titled
from palaver.traces.record import Raw, Span, SpanEvent
from palaver.traces.runs import SERVICE, counted, milliseconds, named

UNREADABLE = "unreadable:step"
"""Noted of one whose framework could not say what was in it."""
_LONGEST_MESSAGE = 16 * 1024
"""Bytes of an exception's message."""

_OPERATIONS: dict[StepKind, str | None] = {
    "agent": "invoke_agent",
    "llm": "chat",
    "tool": "execute_tool",
    "retrieval": "retrieval",
    "embedding": "embeddings",
    "guardrail": None,  # OpenTelemetry has no word for it.
    "task": "execute_task",
}
_IN, _OUT = "gen_ai.input.messages", "gen_ai.output.messages"
_VALUES = {"inputs": "palaver.inputs", "outputs": "palaver.value"}
_TOOL_VALUES = {"inputs": "gen_ai.tool.call.arguments", "outputs": "gen_ai.tool.call.result"}
_TITLES: dict[StepKind, str] = {
    "agent": "invoke_agent {}",
    "llm": "chat {}",
    "tool": "execute_tool {}",
    "retrieval": "retrieval {}",
    "embedding": "embeddings {}",
    "guardrail": "guardrail {}",
    "task": "{}",
}


def spans_of(step: Step, home: Home, finish: str | None = None) -> Sequence[Span]:
    """The record of a step that is over. `finish` says how, of one that was still under way when its run was over."""
    contents, losses = Contents(home.call, home.record), Losses()
    told = _told(step, losses)
    if finish is None and step.was_cancelled:
        finish = "cancelled"
    _label(step, told, home, contents, finish)
    shown = _show(step, told, contents)
    end = step.ended_at or step.began_at
    fault = None if step.was_cancelled else _fault(step.error, home, losses)
    raw = Raw(
        trace_id=home.trace_id,
        span_id=_id(step, home),
        parent_id=home.span_id if step.parent is None else _id(step.parent, home),
        name=titled(_TITLES[step.kind].format(_name(step, told)).strip(), losses),
        start=step.began_at,
        duration_ms=milliseconds(step.began_at, end),
        failed=fault is not None,
        status_message=fault.message if fault else "",
        attributes=contents.attributes,
        resource={"service.name": SERVICE},
        events=() if fault is None else (_raised(fault, end),),
        scope=SERVICE,
        dropped=_sum(contents.dropped, losses.dropped()),
        notes=(*contents.notes, *losses.notes),
    )
    return [msgspec.structs.replace(to_span(raw, project=home.project), run_id=home.run_id, **shown)]


def _told(step: Step, losses: Losses) -> StepDetails:
    """What was told at the beginning and at the end, as one; the end knows better."""
    known: dict[str, Any] = {}
    for tell in step.tells:
        try:
            told = tell()
        except Exception:  # It is the framework's word, or our reading of it: the step still happened.
            losses.note(UNREADABLE)
            continue
        known |= {name: value for name in StepDetails.__struct_fields__ if _says(value := getattr(told, name))}
    return StepDetails(**known)


def _says(value: Any) -> bool:
    return value is not None and not (isinstance(value, str | list | tuple | dict) and not value)


def _name(step: Step, told: StepDetails) -> str:
    return (told.model or step.name) if step.kind in ("llm", "embedding") else step.name


def _label(step: Step, told: StepDetails, home: Home, contents: Contents, finish: str | None) -> None:
    contents.label("gen_ai.operation.name", _OPERATIONS[step.kind])
    contents.label("gen_ai.conversation.id", home.session or None)
    match step.kind:
        case "agent":
            contents.label("gen_ai.agent.name", step.name or None)
        case "tool":
            contents.label("gen_ai.tool.name", step.name)
            contents.label("gen_ai.tool.call.id", step.call_id)
        case "guardrail":
            contents.label("openinference.span.kind", "GUARDRAIL")
        case _:
            pass
    contents.label("gen_ai.response.model" if step.kind == "llm" else "gen_ai.request.model", told.model)
    contents.label("gen_ai.provider.name", told.provider)
    counted(told.usage, contents)
    contents.label("gen_ai.response.finish_reasons", [told.finish] if told.finish else None)
    if step.error is not None and not step.was_cancelled:
        contents.label("error.type", _type(step.error))
    contents.label("palaver.run.id", home.run_id)
    contents.label("palaver.cost", told.usage.cost if told.usage else None)
    contents.label("palaver.finish", finish)


def _show(step: Step, told: StepDetails, contents: Contents) -> dict[str, Any]:
    """Say the contents, as far as they are recorded; those that are too long for an attribute, for their fields."""
    messages_in, messages_out = settled(_messages(told.messages_in, "input"), _messages(told.messages_out, "output"))
    fields: dict[str, tuple[str, Any]] = {
        "messages_in": (_IN, contents.messages(_IN, messages_in)),
        "messages_out": (_OUT, contents.messages(_OUT, messages_out)),
    }
    write = contents.text if step.kind == "tool" else contents.value
    for field, value in (("inputs", told.inputs), ("outputs", told.outputs)):
        if value is not None:
            name = (_TOOL_VALUES if step.kind == "tool" else _VALUES)[field]
            fields[field] = (name, write(name, value))
    if told.parameters:
        contents.value("palaver.parameters", dict(told.parameters))
    if told.tools:
        contents.value("gen_ai.tool.definitions", list(told.tools))
    return {field: value for field, (name, value) in fields.items() if value and name not in contents.attributes}


def _messages(given: Sequence[Any], side: Prefer) -> tuple[Message, ...]:
    return messages_of(list(given), side) if given else ()


# What went wrong


def _fault(error: BaseException | StepError | None, home: Home, losses: Losses) -> StepError | None:
    """What is kept of it. An exception's words may be somebody's: they are content."""
    if error is None:
        return None
    if home.record != "full":
        return StepError(_type(error), "")
    try:
        message = error.message if isinstance(error, StepError) else str(error)
    except Exception:  # An author's exception may not even know what it says.
        message = ""
    known = [secret.reveal() for secret in home.call.secrets.values()]
    return StepError(_type(error), kept(masking.mask_values(message, known), "exception", losses, _LONGEST_MESSAGE))


def _type(error: BaseException | StepError) -> str:
    if isinstance(error, StepError):
        return error.type
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _raised(fault: StepError, at: datetime) -> SpanEvent:
    said = {"exception.type": fault.type, "exception.message": fault.message}
    return SpanEvent("exception", at, {name: text for name, text in said.items() if text})


# Small things


def _id(step: Step, home: Home) -> str:
    return named(f"{home.span_id}/step/{step.number}")


def _sum(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in (one | other)}
