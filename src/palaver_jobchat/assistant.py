"""Answering: one question, from what is known about it to the last word (contract: job-chat, 2 to 7).

First what is needed to answer: the adaptor's docs beside the documentation. Then the model, whose words are passed on
as they come. Then its edits: applied, read, given one chance to be corrected. What is told at the end is ending.py.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Protocol

import msgspec

from palaver import Context, Failure, Usage
from palaver_jobchat import edits, javascript, reply, rules
from palaver_jobchat.adaptors.folder import AdaptorDocs
from palaver_jobchat.adaptors.names import Adaptor
from palaver_jobchat.adaptors.selection import Selection, select_entries
from palaver_jobchat.correction import correction
from palaver_jobchat.docs import rag, search
from palaver_jobchat.docs.search import Query, SearchResults
from palaver_jobchat.edits import EditResult
from palaver_jobchat.models.base import Model, ModelRequest
from palaver_jobchat.payload import Payload, PreviousTopic
from palaver_jobchat.prompt import Prompt, build_prompt
from palaver_jobchat.reply import EditedJob, ReplyBuilder
from palaver_jobchat.settings import Settings
from palaver_jobchat.stream_collector import StreamCollector, UsageCounter

ProgressCallback = Callable[[str], None]


class AdaptorDocsSource(Protocol):
    """Who knows adaptors."""

    async def look_up(self, adaptor: Adaptor, *, download: bool, told: ProgressCallback) -> AdaptorDocs:
        """What is known about one; `told` is what it is doing, if that takes a while."""
        ...


class DocsSource(Protocol):
    """Who knows the documentation."""

    @property
    def has_index(self) -> bool:
        """Is there anything to search?"""
        ...

    async def look(self, query: Query) -> SearchResults | None:
        """What it says about something; none where it cannot be searched."""
        ...


class Knowledge(msgspec.Struct, frozen=True):
    """What is known about a question before a model is asked."""

    docs: AdaptorDocs | None
    choice: Selection | None
    rag: rag.RagResults


class Assistant:
    """Answers questions. Keeps nothing of them."""

    def __init__(self, settings: Settings, model: Model, adaptors: AdaptorDocsSource, docs: DocsSource) -> None:
        self._settings = settings
        self._model = model
        self._adaptors = adaptors
        self._docs = docs

    async def answer(
        self, payload: Payload, ctx: Context, *, key: str | None = None, script: list[Any] | None = None
    ) -> AsyncGenerator[object]:
        """What the run says, in order."""
        job = payload.context.expression or ""
        ctx.log("Reading the job" if job.strip() else "Preparing")
        known = await self._look(payload, ctx.log)
        asking = ModelRequest(
            prompt=build_prompt(payload, docs=known.docs, choice=known.choice, found=known.rag.found),
            key=key,
            fields=payload.sizes,
            script=script,
        )
        spending = UsageCounter()
        heard = StreamCollector(spending)
        ctx.log("Thinking")
        try:
            async with aclosing(self._model.ask(asking)) as happenings:
                async for happening in happenings:
                    before = heard.wants_edit
                    for said in heard.feed(happening):
                        yield said
                    if heard.wants_edit and not before:
                        ctx.log("Writing code")
        except Failure as failure:
            raise _with_usage(failure, spending, heard.text) from failure
        reply.require_content(heard, spending)
        changed = None
        if (
            payload.mode == "edits"
            and (changed := await asyncio.to_thread(_apply_requested_edits, job, heard)) is not None
        ):
            spending.close()
            correcting = EditCorrection(self._model, asking, heard, spending)
            async with aclosing(correcting.run(changed, ctx.log)) as spent:
                async for usage in spent:
                    yield usage
            changed = correcting.changed or changed
            changed = msgspec.structs.replace(changed, findings=await self._findings(changed.result, known.docs))
        end = ReplyBuilder(payload=payload, heard=heard, model=self._model.name, docs=known.docs, rag=known.rag)
        for said in end.say(changed):
            yield said
        ctx.finish(end.finish)

    async def _look(self, payload: Payload, told: ProgressCallback) -> Knowledge:
        """The adaptor's docs and the documentation, beside each other."""
        adaptor = payload.context.adaptor
        query = search.build_query(
            payload.question, adaptor=adaptor.short if adaptor is not None else None, before=payload.before
        )
        async with asyncio.TaskGroup() as group:
            found = group.create_task(self._docs.look(query))
            docs = None
            if adaptor is not None:
                download = payload.download_adaptor_docs
                docs = await self._adaptors.look_up(adaptor, download=download, told=told)
            if self._docs.has_index:
                told("Searching the docs")
            searched = await found
        choice = None
        if docs is not None and docs.entries:
            choice = select_entries(
                docs.entries,
                code=payload.context.expression or "",
                question=payload.question,
                log=payload.context.log or "",
                budget=self._settings.adaptor_budget,
            )
        used = rag.select_results(
            payload.results,
            searched,
            now=_current_topic(payload, docs),
            earlier=payload.earlier,
            refresh=payload.refresh_rag,
            budget=self._settings.docs_budget,
        )
        return Knowledge(docs, choice, used)

    async def _findings(self, result: EditResult, docs: AdaptorDocs | None) -> Sequence[rules.Finding]:
        if result.suggested is None:
            return ()
        return await asyncio.to_thread(rules.check, result.suggested, docs)


class EditCorrection:
    """The one chance that edits get which failed, or which broke a job that could be read."""

    def __init__(self, model: Model, asking: ModelRequest, heard: StreamCollector, spending: UsageCounter) -> None:
        self.changed: EditedJob | None = None
        """What became of it; none where nothing had to be corrected."""
        self._model = model
        self._asking = asking
        self._heard = heard
        self._spending = spending

    async def run(self, changed: EditedJob, told: ProgressCallback) -> AsyncGenerator[Usage]:
        """Ask once more, if there is a reason to; what that costs is told as it comes."""
        assert self._heard.stopped is not None
        if self._heard.stopped.reason == "length" or not await asyncio.to_thread(_needs_correction, changed):
            return
        told("Correcting an edit")
        again = StreamCollector(self._spending)
        asking = msgspec.structs.replace(self._asking, prompt=self._prompt(changed), must_edit=True)
        error = None
        try:
            async with aclosing(self._model.ask(asking)) as happenings:
                async for happening in happenings:
                    for said in again.feed(happening):
                        if isinstance(said, Usage):  # Its text is not shown: the user has read the answer.
                            yield said
        except Failure as failure:
            error = failure.code.upper()
        if again.stopped is not None and again.stopped.reason == "length":
            error = "OUTPUT_TRUNCATED"
        if error is None:
            self.changed = await asyncio.to_thread(_apply_correction, changed.result, again.edits)
        else:
            self.changed = msgspec.structs.replace(changed, correction_error=error)

    def _prompt(self, changed: EditedJob) -> Prompt:
        return correction(self._asking.prompt, self._heard.blocks, changed.result, changed.syntax)


def _needs_correction(changed: EditedJob) -> bool:
    """Did an edit fail, or does a job that could be read no longer?"""
    return bool(changed.result.failed) or (not changed.syntax.ok and javascript.check_syntax(changed.result.job).ok)


def _apply_requested_edits(job: str, heard: StreamCollector) -> EditedJob | None:
    """The job after what the model asked for; nothing where it asked for no change."""
    assert heard.stopped is not None
    if heard.stopped.reason == "length":
        return EditedJob(edits.truncated_result(job), javascript.check_syntax(job), None) if heard.wants_edit else None
    wanted = heard.edits if heard.stopped.reason != "content-filter" else []
    return _edited_job(edits.apply_edits(job, wanted)) if wanted else None


def _edited_job(result: EditResult, correction_error: str | None = None) -> EditedJob:
    return EditedJob(result, javascript.check_syntax(result.code), correction_error)


def _apply_correction(result: EditResult, wanted: list[object]) -> EditedJob:
    if not wanted:
        return _edited_job(result)
    if result.failed:
        return _edited_job(edits.apply_correction(result, wanted))
    return _edited_job(edits.apply_syntax_correction(result, wanted, lambda code: javascript.check_syntax(code).ok))


def _current_topic(payload: Payload, docs: AdaptorDocs | None) -> PreviousTopic:
    """What this turn is about, as its own `meta.job_chat` will tell it."""
    return PreviousTopic(
        page=payload.context.page,
        adaptor=docs.adaptor.name if docs is not None else None,
        version=docs.version if docs is not None else None,
    )


def _with_usage(failure: Failure, spending: UsageCounter, text: str) -> Failure:
    """The failure with what had been said and spent before it."""
    details: dict[str, Any] = {**failure.details, "usage": spending.told()}
    if text.strip():
        details["partial_response"] = text.strip()
    return Failure(failure.code, failure.message, status=failure.status, details=details)
