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


async def traced(workflow: Workflow, *messages: Message, **given: Any) -> list[Span]:
    """The spans of one run, the run's own first."""
    spans: list[Span] = []
    tracing = RunTracer(spans.extend)
    output = messages or ((QUESTION,) if workflow.description.is_chat else ())
    await run_to_end(workflow, *output, engine=Engine(tracer=tracing), **given)
    await tracing.close()
    return ordered(spans)


async def stopped(workflow: Workflow, when: asyncio.Event, **given: Any) -> list[Span]:
    """The spans of a run that is cancelled at that moment."""
    spans: list[Span] = []
    tracing = RunTracer(spans.extend)
    run = Engine(tracer=tracing).start(workflow, call(QUESTION, **given))
    async with asyncio.timeout(10):
        await when.wait()
    run.cancel()
    await wait_ended(run)
    await tracing.close()
    return ordered(spans)


def ordered(spans: Sequence[Span]) -> list[Span]:
    """The run's own span, then the others as they began."""
    return sorted(spans, key=lambda span: (span.kind != "workflow", span.start))


def tree(spans: Sequence[Span], show: Callable[[Span], Any] = lambda span: span.name) -> list[Any]:
    """What each span shows and, after one that has spans below it, the list of those, as they began."""
    known = {span.span_id for span in spans}

    def below(parent: str | None) -> list[Any]:
        rendered: list[Any] = []
        for span in spans:
            is_here = span.parent_id not in known if parent is None else span.parent_id == parent
            if is_here:
                inner = below(span.span_id)
                rendered += [show(span), inner] if inner else [show(span)]
        return rendered

    return below(None)


def kinds(spans: Sequence[Span]) -> list[Any]:
    """The tree, with kinds and how each ended."""
    return tree(spans, lambda span: f"{span.kind} {span.name}: {span.status}")


def words(messages: Sequence[Message]) -> list[str]:
    """Who said what, in short."""
    return [f"{message.role}: {' '.join(map(_word, message.parts))}" for message in messages]


def _word(part: Any) -> str:
    match part:
        case Text(text=text):
            return text
        case ToolCall(call_id=call_id, name=name, arguments=arguments):
            return f"{name}{arguments}#{call_id}"
        case ToolResult(call_id=call_id, output=output):
            return f"{output}#{call_id}"
        case _:
            return type(part).__name__
