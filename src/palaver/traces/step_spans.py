"""The span of a step that a framework reported: a model call, a tool, an agent or a node.

Its content is written as attributes and read by the conventions like any span; its parent is its run or outer step.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from palaver.core import secret_mask
from palaver.core.extraction import Prefer
from palaver.core.messages import Message
from palaver.core.steps import Step, StepDetails, StepError, StepKind
from palaver.traces.conventions.messages import assign_call_ids, parse_messages
from palaver.traces.model import RawSpan, Span, SpanEvent
from palaver.traces.otlp.common import span_name
from palaver.traces.otlp.limits import Losses, truncate_text
from palaver.traces.run_facts import RunSpanContext
from palaver.traces.run_spans import SERVICE_NAME, SpanAttributes, derive_span_id, elapsed_ms, set_usage
from palaver.traces.span_mapper import to_span

NOTE_UNREADABLE = "unreadable:step"
"""Note on a step whose details could not be read."""
_MAX_ERROR_BYTES = 16 * 1024

_OPERATIONS: dict[StepKind, str | None] = {
    "agent": "invoke_agent",
    "llm": "chat",
    "tool": "execute_tool",
    "retrieval": "retrieval",
    "embedding": "embeddings",
    "guardrail": None,  # OpenTelemetry defines no operation for it.
    "task": "execute_task",
}
_INPUT_MESSAGES, _OUTPUT_MESSAGES = "gen_ai.input.messages", "gen_ai.output.messages"
_VALUE_ATTRIBUTES = {"inputs": "palaver.inputs", "outputs": "palaver.value"}
_TOOL_VALUE_ATTRIBUTES = {"inputs": "gen_ai.tool.call.arguments", "outputs": "gen_ai.tool.call.result"}
_NAME_PREFIXES = {**_OPERATIONS, "guardrail": "guardrail", "task": ""}


def build_step_spans(step: Step, run: RunSpanContext, finish: str | None = None) -> Sequence[Span]:
    """Build the record of a finished step. `finish` is set for a step that was still running when its run ended."""
    span_attributes, losses = SpanAttributes(run.call, run.record), Losses()
    details = _merge_details(step, losses)
    if finish is None and step.was_cancelled:
        finish = "cancelled"
    _set_labels(step, details, run, span_attributes, finish)
    long_fields = _set_contents(step, details, span_attributes)
    end = step.ended_at or step.started_at
    recorded_error = None if step.was_cancelled else _recorded_error(step.error, run, losses)
    raw = RawSpan(
        trace_id=run.trace_id,
        span_id=_step_span_id(step, run),
        parent_id=run.span_id if step.parent is None else _step_span_id(step.parent, run),
        name=span_name(f"{_NAME_PREFIXES[step.kind]} {_step_name(step, details)}".strip(), losses),
        start=step.started_at,
        duration_ms=elapsed_ms(step.started_at, end),
        failed=recorded_error is not None,
        status_message=recorded_error.message if recorded_error else "",
        attributes=span_attributes.attributes,
        resource={"service.name": SERVICE_NAME},
        events=() if recorded_error is None else (_exception_event(recorded_error, end),),
        scope=SERVICE_NAME,
        dropped=_add_counts(span_attributes.dropped, losses.dropped()),
        notes=(*span_attributes.notes, *losses.notes),
    )
    return [msgspec.structs.replace(to_span(raw, project=run.project), run_id=run.run_id, **long_fields)]


def _merge_details(step: Step, losses: Losses) -> StepDetails:
    """Merge the details given at start and at end; the later ones win."""
    merged: dict[str, Any] = {}
    for read_details in step.details:
        try:
            details = read_details()
        except Exception:  # The framework, or our reading of it, failed; the step still happened.
            losses.note(NOTE_UNREADABLE)
            continue
        merged |= {
            name: value for name in StepDetails.__struct_fields__ if _has_content(value := getattr(details, name))
        }
    return StepDetails(**merged)


def _has_content(value: Any) -> bool:
    return value is not None and not (isinstance(value, str | list | tuple | dict) and not value)


def _step_name(step: Step, details: StepDetails) -> str:
    return (details.model or step.name) if step.kind in ("llm", "embedding") else step.name


def _set_labels(
    step: Step, details: StepDetails, run: RunSpanContext, span_attributes: SpanAttributes, finish: str | None
) -> None:
    span_attributes.set_label("gen_ai.operation.name", _OPERATIONS[step.kind])
    span_attributes.set_label("gen_ai.conversation.id", run.session or None)
    match step.kind:
        case "agent":
            span_attributes.set_label("gen_ai.agent.name", step.name or None)
        case "tool":
            span_attributes.set_label("gen_ai.tool.name", step.name)
            span_attributes.set_label("gen_ai.tool.call.id", step.call_id)
        case "guardrail":
            span_attributes.set_label("openinference.span.kind", "GUARDRAIL")
        case _:
            pass
    span_attributes.set_label("gen_ai.response.model" if step.kind == "llm" else "gen_ai.request.model", details.model)
    span_attributes.set_label("gen_ai.provider.name", details.provider)
    set_usage(details.usage, span_attributes)
    span_attributes.set_label("gen_ai.response.finish_reasons", [details.finish] if details.finish else None)
    if step.error is not None and not step.was_cancelled:
        span_attributes.set_label("error.type", _error_type(step.error))
    span_attributes.set_label("palaver.run.id", run.run_id)
    span_attributes.set_label("palaver.cost", details.usage.cost if details.usage else None)
    span_attributes.set_label("palaver.finish", finish)


def _set_contents(step: Step, details: StepDetails, span_attributes: SpanAttributes) -> dict[str, Any]:
    """Set the recorded contents; return the fields whose values are too long for an attribute."""
    messages_in, messages_out = assign_call_ids(
        _parse_side(details.messages_in, "input"), _parse_side(details.messages_out, "output")
    )
    fields: dict[str, tuple[str, Any]] = {
        "messages_in": (_INPUT_MESSAGES, span_attributes.set_messages(_INPUT_MESSAGES, messages_in)),
        "messages_out": (_OUTPUT_MESSAGES, span_attributes.set_messages(_OUTPUT_MESSAGES, messages_out)),
    }
    set_value = span_attributes.set_text if step.kind == "tool" else span_attributes.set_json
    for field, value in (("inputs", details.inputs), ("outputs", details.outputs)):
        if value is not None:
            name = (_TOOL_VALUE_ATTRIBUTES if step.kind == "tool" else _VALUE_ATTRIBUTES)[field]
            fields[field] = (name, set_value(name, value))
    if details.parameters:
        span_attributes.set_json("palaver.parameters", dict(details.parameters))
    if details.tools:
        span_attributes.set_json("gen_ai.tool.definitions", list(details.tools))
    return {field: value for field, (name, value) in fields.items() if value and name not in span_attributes.attributes}


def _parse_side(messages: Sequence[Any], side: Prefer) -> tuple[Message, ...]:
    return parse_messages(list(messages), side) if messages else ()


# Errors


def _recorded_error(error: BaseException | StepError | None, run: RunSpanContext, losses: Losses) -> StepError | None:
    """Return type and message of an error. The message is content."""
    if error is None:
        return None
    if run.record != "full":
        return StepError(_error_type(error), "")
    try:
        message = error.message if isinstance(error, StepError) else str(error)
    except Exception:  # `__str__` of a user's exception may raise.
        message = ""
    secret_texts = [secret.reveal() for secret in run.call.secrets.values()]
    return StepError(
        _error_type(error),
        truncate_text(secret_mask.mask_values(message, secret_texts), "exception", losses, _MAX_ERROR_BYTES),
    )


def _error_type(error: BaseException | StepError) -> str:
    if isinstance(error, StepError):
        return error.type
    cls = type(error)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def _exception_event(error: StepError, at: datetime) -> SpanEvent:
    attributes = {"exception.type": error.type, "exception.message": error.message}
    return SpanEvent("exception", at, {name: text for name, text in attributes.items() if text})


def _step_span_id(step: Step, run: RunSpanContext) -> str:
    return derive_span_id(f"{run.span_id}/step/{step.number}")


def _add_counts(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in (first | second)}
