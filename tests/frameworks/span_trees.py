"""Traced runs, and their spans as a tree."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from palaver.core.messages import Message, Text, ToolCall, ToolResult
from palaver.engine.engine import Engine
from palaver.engine.tracing import RunTracer
from palaver.traces.model import Span
from palaver.workflows.workflow import Workflow
from tests.engine.run_factory import QUESTION, call, run_to_end, wait_ended

Tree = tuple[Any, ...]


async def trace_run(workflow: Workflow, *messages: Message, **options: Any) -> list[Span]:
    """Run a workflow; return the spans, the run's own first."""
    spans: list[Span] = []
    tracer = RunTracer(spans.extend)
    inputs = messages or ((QUESTION,) if workflow.description.is_chat else ())
    await run_to_end(workflow, *inputs, engine=Engine(tracer=tracer), **options)
    await tracer.close()
    return sort_spans(spans)


async def trace_cancelled_run(workflow: Workflow, when: asyncio.Event, **options: Any) -> list[Span]:
    """Run a workflow and cancel it when `when` is set; return the spans."""
    spans: list[Span] = []
    tracer = RunTracer(spans.extend)
    run = Engine(tracer=tracer).start(workflow, call(QUESTION, **options))
    async with asyncio.timeout(60):
        await when.wait()
    run.cancel()
    await wait_ended(run)
    await tracer.close()
    return sort_spans(spans)


def sort_spans(spans: Sequence[Span]) -> list[Span]:
    """Return the run's own span, then the others in order of their start."""
    return sorted(spans, key=lambda span: (span.kind != "workflow", span.start))


def tree(spans: Sequence[Span], show: Callable[[Span], Any] = lambda span: span.name) -> list[Any]:
    """Return `show(span)` of each root span, followed by the list of its children if it has any, recursively."""
    span_ids = {span.span_id for span in spans}

    def render_children(parent: str | None) -> list[Any]:
        rendered: list[Any] = []
        for span in spans:
            is_child = span.parent_id not in span_ids if parent is None else span.parent_id == parent
            if is_child:
                inner = render_children(span.span_id)
                rendered += [show(span), inner] if inner else [show(span)]
        return rendered

    return render_children(None)


def kinds(spans: Sequence[Span]) -> list[Any]:
    """Return the tree with the kind, name and status of each span."""
    return tree(spans, lambda span: f"{span.kind} {span.name}: {span.status}")


def words(messages: Sequence[Message]) -> list[str]:
    """Return the role and the parts of each message, in short."""
    return [f"{message.role}: {' '.join(map(_part_text, message.parts))}" for message in messages]


def _part_text(part: Any) -> str:
    match part:
        case Text(text=text):
            return text
        case ToolCall(call_id=call_id, name=name, arguments=arguments):
            return f"{name}{arguments}#{call_id}"
        case ToolResult(call_id=call_id, output=output):
            return f"{output}#{call_id}"
        case _:
            return type(part).__name__
