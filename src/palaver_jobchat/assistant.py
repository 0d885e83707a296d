"""Answer one question: gather docs, stream the model's response, apply its edits and correct them once.

The adaptor's docs are looked up while the documentation is searched. Failed edits, and errors that edits brought into
the job, are sent back to the model once. reply.py builds what follows the model's text.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from palaver import Context, Failure, Usage
from palaver_jobchat import edits, javascript, reply, rules
from palaver_jobchat.adaptors.entries import AdaptorDocs, Selection, select_entries
from palaver_jobchat.adaptors.library import AdaptorLibrary
from palaver_jobchat.docs.previous_results import RagResults, select_results
from palaver_jobchat.docs.search import DocsRetriever, build_query
from palaver_jobchat.edit_report import EditedJob, failure_reason
from palaver_jobchat.edits import EditResult, requested_edits
from palaver_jobchat.models.base import Model, ModelRequest
from palaver_jobchat.payload import Payload, PreviousTopic
from palaver_jobchat.prompt import EDIT_JOB, Prompt, build_prompt, element
from palaver_jobchat.reply import ReplyBuilder
from palaver_jobchat.rules import Finding
from palaver_jobchat.settings import Settings
from palaver_jobchat.stream_collector import StreamCollector, UsageCounter

_INSTRUCTIONS = (
    "All edits not listed here were applied. Call edit_job once more, with one edit for each failed edit, in order, or "
    "with edits that fix the errors. The job's current code:"
)


def correction_prompt(first: Prompt, answer: Sequence[dict[str, Any]], edited: EditedJob) -> Prompt:
    """Return the prompt that asks for a correction of the answer to `first`, which has these content blocks."""
    blocks = [_sanitize(block) for block in answer if block.get("type") != "text" or str(block.get("text", "")).strip()]
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    return Prompt(
        system=first.system,
        messages=[
            *first.messages,
            {"role": "assistant", "content": blocks},
            {"role": "user", "content": list(_tool_results(calls, edited))},
        ],
        tools=first.tools,
    )


def _sanitize(block: dict[str, Any]) -> dict[str, Any]:
    """Return the block as the API accepts it: the input of a call must be an object."""
    if block.get("type") == "tool_use" and not isinstance(block.get("input"), dict):
        return {**block, "input": {}}
    return block


def _tool_results(calls: Sequence[dict[str, Any]], edited: EditedJob) -> Iterator[dict[str, Any]]:
    """Yield one tool result per call with the outcome of its edits; the last one adds the errors and the code."""
    edit_calls = [call for call in calls if call.get("name") == EDIT_JOB["name"]]
    remaining = list(enumerate(edited.result.outcomes, 1))
    for call in calls:
        if call.get("name") != EDIT_JOB["name"]:
            yield _tool_result(call, "Unknown tool.", is_error=True)
            continue
        count = len(requested_edits([call.get("input")]))
        call_edits, remaining = remaining[:count], remaining[count:]
        lines = [
            f"Edit {number} was not applied: {failure_reason(outcome)}."
            for number, outcome in call_edits
            if outcome.state == "failed"
        ]
        is_last = call is edit_calls[-1]
        if is_last:
            lines += [
                f"Line {problem.line}, column {problem.column}: {problem.message}." for problem in edited.syntax.errors
            ]
            lines += [] if edited.syntax.ok else ["The code does not parse."]
            lines += [f"Line {finding.line}: {finding.message}" for finding in edited.rule_errors]
        is_error = bool(lines)
        if is_last:
            lines += [_INSTRUCTIONS, element("job", edited.result.code)]
        yield _tool_result(call, "\n".join(lines) or "Applied.", is_error=is_error)


def _tool_result(call: dict[str, Any], text: str, *, is_error: bool) -> dict[str, Any]:
    result = {"type": "tool_result", "tool_use_id": call.get("id"), "content": text}
    return {**result, "is_error": True} if is_error else result


ProgressCallback = Callable[[str], None]


class Knowledge(msgspec.Struct, frozen=True):
    """What the prompt adds to the question: adaptor docs and search results."""

    docs: AdaptorDocs | None
    selection: Selection | None
    rag: RagResults


class Assistant:
    """Answers questions. Stateless between them."""

    def __init__(self, settings: Settings, model: Model, adaptors: AdaptorLibrary, docs: DocsRetriever) -> None:
        self._settings = settings
        self._model = model
        self._adaptors = adaptors
        self._docs = docs

    async def answer(
        self, payload: Payload, ctx: Context, *, key: str | None = None, script: list[Any] | None = None
    ) -> AsyncGenerator[object]:
        """Yield what the run outputs: text, usage, and data parts."""
        job = payload.context.expression or ""
        ctx.log("Reading the job" if job.strip() else "Preparing")
        knowledge = await self._gather_knowledge(payload, ctx.log)
        prompt = await asyncio.to_thread(
            build_prompt, payload, docs=knowledge.docs, selection=knowledge.selection, results=knowledge.rag.results
        )
        request = ModelRequest(
            prompt=prompt,
            key=key,
            field_sizes=payload.sizes,
            script=script,
        )
        usage_counter = UsageCounter()
        collector = StreamCollector(usage_counter)
        ctx.log("Thinking")
        try:
            async with aclosing(self._model.stream(request)) as events:
                async for event in events:
                    had_edit_call = collector.has_edit_call
                    for output in collector.feed(event):
                        yield output
                    if collector.has_edit_call and not had_edit_call:
                        ctx.log("Writing code")
            reply.require_content(collector)
        except Failure as failure:
            raise _with_usage(failure, usage_counter, collector.text) from failure
        edited = None
        if (
            payload.mode == "edits"
            and (edited := await asyncio.to_thread(_apply_requested_edits, job, collector, knowledge.docs)) is not None
        ):
            usage_counter.close()
            corrector = EditCorrection(self._model, request, collector, usage_counter, knowledge.docs)
            async with aclosing(corrector.run(edited, ctx.log)) as usages:
                async for usage in usages:
                    yield usage
            edited = corrector.edited or edited
        reply_builder = ReplyBuilder(
            payload=payload, collector=collector, model=self._model.name, docs=knowledge.docs, rag=knowledge.rag
        )
        for output in reply_builder.outputs(edited):
            yield output
        ctx.finish(reply_builder.finish)

    async def _gather_knowledge(self, payload: Payload, on_progress: ProgressCallback) -> Knowledge:
        """Look up the adaptor's docs and search the documentation, concurrently."""
        adaptor = payload.context.adaptor
        query = build_query(
            payload.question,
            adaptor=adaptor.short if adaptor is not None else None,
            previous_question=payload.previous_question,
        )
        async with asyncio.TaskGroup() as group:
            search_task = group.create_task(self._docs.search(query))
            docs = None
            if adaptor is not None:
                download = payload.download_adaptor_docs and not payload.rehearsal  # Test mode works offline.
                docs = await self._adaptors.look_up(adaptor, download=download, on_progress=on_progress)
            if self._docs.has_index:
                on_progress("Searching the docs")
            search_results = await search_task
        selection = None
        if docs is not None and docs.entries:
            selection = select_entries(
                docs.entries,
                code=payload.context.expression or "",
                question=payload.question,
                log=payload.context.log or "",
                budget=self._settings.adaptor_budget,
            )
        rag_results = select_results(
            payload.results,
            search_results,
            topic=_current_topic(payload, docs),
            previous_topic=payload.previous_topic,
            refresh=payload.refresh_rag,
            budget=self._settings.docs_budget,
        )
        return Knowledge(docs, selection, rag_results)


class EditCorrection:
    """A second request to the model when edits failed, or when they brought errors into the job."""

    def __init__(
        self,
        model: Model,
        request: ModelRequest,
        collector: StreamCollector,
        usage_counter: UsageCounter,
        docs: AdaptorDocs | None,
    ) -> None:
        self.edited: EditedJob | None = None
        """The corrected job; None if no correction was needed."""
        self._model = model
        self._request = request
        self._collector = collector
        self._usage_counter = usage_counter
        self._docs = docs

    async def run(self, edited: EditedJob, on_progress: ProgressCallback) -> AsyncGenerator[Usage]:
        """Ask the model for corrected edits if needed; yield the usage of that request."""
        before = await asyncio.to_thread(rules.check, edited.result.job, self._docs)
        if not (edited.result.failed or _has_new_errors(edited.findings, before)):
            return
        on_progress("Correcting an edit")
        correction_collector = StreamCollector(self._usage_counter)
        prompt = correction_prompt(self._request.prompt, self._collector.blocks, edited)
        request = msgspec.structs.replace(self._request, prompt=prompt, must_edit=True)
        error = None
        try:
            async with aclosing(self._model.stream(request)) as events:
                async for event in events:
                    for output in correction_collector.feed(event):
                        if isinstance(output, Usage):  # The text is dropped: the user has already read the answer.
                            yield output
        except Failure as failure:
            error = failure.code.upper()
        if correction_collector.finished is not None and correction_collector.finished.reason == "length":
            error = "OUTPUT_TRUNCATED"
        if error is None:
            requested = correction_collector.edits
            self.edited = await asyncio.to_thread(_apply_correction, edited, requested, self._docs)
        else:
            self.edited = msgspec.structs.replace(edited, correction_error=error)


def _has_new_errors(findings: Sequence[Finding], before: Sequence[Finding]) -> bool:
    """Whether edits brought errors into a job. A job that did not parse before may still not parse."""
    (has_syntax_errors, _), (had_syntax_errors, _) = _error_rank(findings), _error_rank(before)
    if has_syntax_errors:
        return not had_syntax_errors
    return not _count_errors(findings) <= _count_errors(before)


def _count_errors(findings: Sequence[Finding]) -> Counter[tuple[str, str]]:
    return Counter((finding.rule, finding.message) for finding in findings if finding.level == "error")


def _error_rank(findings: Sequence[Finding]) -> tuple[bool, int]:
    """Return a value that is lower for better code: whether it has syntax errors, and the number of errors."""
    errors = _count_errors(findings)
    return any(rule == "parses" for rule, _ in errors), errors.total()


def _apply_requested_edits(job: str, collector: StreamCollector, docs: AdaptorDocs | None) -> EditedJob | None:
    """Return the job with the model's edits applied, or None if it requested none."""
    assert collector.finished is not None
    requested = collector.edits if collector.finished.reason != "content-filter" else []
    return _edited_job(edits.apply_edits(job, requested), docs) if requested else None


def _edited_job(result: EditResult, docs: AdaptorDocs | None) -> EditedJob:
    findings = () if result.suggested is None else rules.check(result.suggested, docs)
    return EditedJob(result, javascript.check_syntax(result.code), findings)


def _apply_correction(edited: EditedJob, requested: list[object], docs: AdaptorDocs | None) -> EditedJob:
    if not requested:
        return edited
    if edited.result.failed:
        return _edited_job(edits.apply_correction(edited.result, requested), docs)

    def is_better(code: str) -> bool:
        return _error_rank(rules.check(code, docs)) < _error_rank(edited.findings)

    return _edited_job(edits.apply_code_correction(edited.result, requested, is_better), docs)


def _current_topic(payload: Payload, docs: AdaptorDocs | None) -> PreviousTopic:
    """Return the topic of this turn, as `meta.job_chat` reports it to the client."""
    return PreviousTopic(
        page=payload.context.page,
        adaptor=docs.adaptor.name if docs is not None else None,
        version=docs.version if docs is not None else None,
    )


def _with_usage(failure: Failure, usage_counter: UsageCounter, text: str) -> Failure:
    """Add the usage and the text so far to a failure's details."""
    details: dict[str, Any] = {**failure.details, "usage": usage_counter.to_anthropic()}
    if text.strip():
        details["partial_response"] = text.strip()
    return Failure(failure.code, failure.message, status=failure.status, details=details)
